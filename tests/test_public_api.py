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


@pytest.mark.slow
def test_a_name_is_found_without_importing_its_module_first() -> None:
    # In a fresh process: here, other tests have imported everything already.
    code = "import translucid as tl; print(tl.worked.__name__, tl.build.__name__)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout == "translucid.worked build\n"
