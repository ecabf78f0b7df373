"""The models that come with the package: they open by name, and score what their manifest says."""

import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open
from tests.in_process import run

import translucid as tl
from translucid.core.errors import InputError
from translucid.data import shipped_models
from translucid.runs import recorder
from translucid.studio.library import open_folders
from translucid.tasks import model_folder
from translucid.tasks.model_folder import WEIGHTS

ROOT = Path(__file__).parent.parent
NAMES = list(shipped_models.manifest())
QUICK = ("perceptron", "regress", "classify")
LIMIT = 8_000_000  # bytes


def test_shipped_models_are_small_and_in_float16() -> None:
    total = 0
    for name in NAMES:
        folder = shipped_models.find(f"demo:{name}")
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        assert shipped_models.manifest()[name]["bytes"] == size
        total += size
        with safe_open(str(folder / "best" / WEIGHTS), "pt") as file:
            kinds = {file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118
        assert kinds <= {"F16", "I64", "BOOL"}, name
        assert "F16" in kinds
        for path in files:
            if path.suffix != ".safetensors":
                assert str(ROOT) not in path.read_text("utf-8"), path
    assert total <= LIMIT
    folders = {path.name for path in shipped_models.FOLDER.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(NAMES)


def test_they_are_in_the_wheel() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    shipped = {
        Path(file.distribution_path)
        for file in wheel.WheelBuilder(str(ROOT)).recurse_included_files()
    }
    for path in shipped_models.FOLDER.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert path.relative_to(ROOT / "src") in shipped


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_scores_are_those_of_the_manifest(name: str) -> None:
    noted = shipped_models.manifest()[name]
    score = tl.load(f"demo:{name}").evaluate()
    assert score.numbers.keys() == noted["score"].keys()
    for key, value in noted["score"].items():
        assert score.numbers[key] == pytest.approx(value, rel=0.002, abs=2e-4), key


def test_a_cross_attention_head_links_not_to_nicht() -> None:
    model = tl.load("demo:translate")
    (text, *_) = shipped_models.manifest()["translate"]["texts"]
    trace = model.trace(text)
    words = trace.example.words
    row, column = words.follows.index("nicht"), words.source.index("not")
    patterns = [trace[name][0] for name in trace if name.endswith("cross_attention.pattern")]
    assert max(float(pattern[:, row, column].max()) for pattern in patterns) > 0.8


def test_the_recorded_training_ends_with_the_shipped_model() -> None:
    """The page's Train view shows the training of the model itself, not of another one."""
    recorded = [name for name in NAMES if (shipped_models.FOLDER / name / "studio").is_dir()]
    assert recorded == ["translate", "generate", "generate-rnn"]
    for name in recorded:
        run = shipped_models.FOLDER / name
        last = recorder.lines(run / "studio" / recorder.PROBES)[-1]
        assert last["text"] == shipped_models.manifest()[name]["texts"][0]
        shipped = recorder.probe(model_folder.load(run / "best"), last["text"])
        assert last["answer"] == shipped["answer"]
        rounding = 0.01  # of the weights to float16
        assert recorder.table_of(last) == pytest.approx(recorder.table_of(shipped), abs=rounding)


def test_an_unknown_name_lists_those_that_exist() -> None:
    with pytest.raises(InputError, match=r"did you mean demo:translate\?.*demo:perceptron"):
        tl.load("demo:translat")
    ran = run("info", "demo:nothing-like-it")
    assert ran.returncode != 0
    assert "demo:translate, " in ran.stderr


def test_commands_accept_demo_names() -> None:
    assert run("predict", "demo:perceptron", "-", stdin="1 1\n0 1\n").stdout == "1\n0\n"
    assert "float16" in run("info", "demo:perceptron").stdout
    walked = run("explain", "demo:regress", "1 0").stdout
    assert "next: translucid explain demo:regress " in walked


def test_the_page_shows_their_names() -> None:
    folders = [shipped_models.find(f"demo:{name}") for name in QUICK]
    opened = open_folders(folders, tl.load)
    assert list(opened) == [f"demo:{name}" for name in QUICK]


MODULES = """
import sys, translucid
translucid.load("demo:translate").translate(["The dog sleeps."])
print(*sorted(name for name in sys.modules if name.startswith("translucid.")))
"""


@pytest.mark.slow
def test_loading_a_model_imports_no_code_for_other_purposes() -> None:
    """Training, scoring, inspecting and reading models of other tools are imported on demand."""
    done = subprocess.run(
        [sys.executable, "-c", MODULES], capture_output=True, encoding="utf-8", check=True
    )
    imported = done.stdout.split()
    rooms = {name.split(".")[1] for name in imported}
    assert not rooms & {"interop", "lab", "recipe", "runs", "studio", "toyland", "training"}
    assert [name for name in imported if name.startswith("translucid.see.")] == []
    assert len(imported) <= 130
