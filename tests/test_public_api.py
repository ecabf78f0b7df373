"""The public names are promises: adding or removing one is a decision, made here."""

import subprocess
import sys

import pytest

import translucid

PUBLIC = [
    "Baseline",
    "Batch",
    "Example",
    "InputError",
    "Model",
    "NO_TRACE",
    "OneLabel",
    "Record",
    "Score",
    "StopTraining",
    "Tags",
    "Task",
    "Trace",
    "TranslucidError",
    "Values",
    "__version__",
    "build",
    "catalogue",
    "compare",
    "from_trace",
    "in_batches",
    "load",
    "models",
    "pad",
    "position",
    "read_lines",
    "resume",
    "task",
    "train",
    "worked",
]


def test_the_list_is_frozen() -> None:
    assert translucid.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_each_name_can_be_used_and_seen(name: str) -> None:
    assert getattr(translucid, name) is not None
    assert name in dir(translucid)


def test_each_name_is_what_its_module_holds() -> None:
    from translucid import models, worked
    from translucid.core import errors, trace
    from translucid.model import model, trainer

    assert translucid.NO_TRACE is trace.NO_TRACE
    assert translucid.Trace is trace.Trace
    assert translucid.Model is model.Model
    assert translucid.load is model.load
    assert translucid.train is trainer.train
    assert translucid.resume is trainer.resume
    assert translucid.StopTraining is errors.StopTraining
    assert translucid.TranslucidError is errors.TranslucidError
    assert translucid.build is models.build
    assert translucid.worked is worked


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'translucid' has no attribute 'tracer'"):
        _ = translucid.tracer


def imported(command: str) -> set[str]:
    """The packages outside the standard library that a new process has imported after `command`."""
    code = (
        "import sys\nbefore = {*sys.modules}\n"  # site-packages may have .pth files
        f"try: {command}\nexcept SystemExit: pass\n"
        "names = {name.split('.')[0] for name in {*sys.modules} - before}\n"
        "print(*names - sys.stdlib_module_names, file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    return set(run.stderr.split())


def test_importing_the_package_imports_no_other_package() -> None:
    assert imported("import translucid") == {"translucid"}
    assert {"torch", "translucid"} <= imported("import translucid; translucid.Model")


@pytest.mark.parametrize("typed", ["--help", "--version"])
def test_the_command_line_imports_only_its_parser_for(typed: str) -> None:
    found = imported(f"from translucid.cli import main; main([{typed!r}])")
    # rich and annotated_doc are imported by typer, depending on its version.
    assert found - {"annotated_doc", "click", "rich", "shellingham"} == {"translucid", "typer"}


@pytest.mark.slow
def test_a_name_is_found_without_importing_its_module_first() -> None:
    # In a fresh process: here, other tests have imported everything already.
    code = "import translucid as tl; print(tl.worked.__name__, tl.build.__name__)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout == "translucid.worked build\n"
