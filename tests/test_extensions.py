"""Users' own tasks and positions: registration, and errors in their files.

Files are loaded as the command line loads them; tests/conftest.py forgets them after each test.
"""

import inspect
import re
import shutil
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.own_code import forgetting_own_code

import translucid as tl
from translucid import cli
from translucid.core import extensions
from translucid.core.errors import ConfigError, InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import TransformerConfig
from translucid.parts.positions import POSITIONS, NoPositions, PositionSetup
from translucid.runs.recipe import recipe
from translucid.runs.recipe.toml import dump, schema
from translucid.tasks.registry import TASKS
from translucid.training import cuda_graphs
from translucid.training.config import TrainingConfig

EXAMPLES = Path(__file__).parent.parent / "examples"
OWN = (EXAMPLES / "own_task.py").read_text("utf-8")
LINES = "".join(f"the dog sleeps {n}\ta dog sleeps {n % 3}\t{n % 5 / 5}\n" for n in range(40))
TINY = [
    "model.d_model=16", "model.layers=1", "model.heads=2", "training.steps=2",
    "training.evaluate_every=2", "training.log_every=1", "tokenizer.kind=space",
]  # fmt: skip


def write(folder: Path, *changes: tuple[str, str], name: str = "mine.py") -> Path:
    """The example with some of its lines changed."""
    text = OWN
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / name).write_text(text, "utf-8")
    (folder / "pairs.tsv").write_text(LINES, "utf-8")
    return folder / name


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command writes to standard error, where it must fail with a message."""
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    assert end.value.code == 2
    return capsys.readouterr().err


def train(capsys: pytest.CaptureFixture[str], file: Path) -> str:
    folder = file.parent
    return said(
        capsys, "train", file, "--train", folder / "pairs.tsv", "--out", folder / "run", *TINY
    )


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), start=1) if part in line)


def test_a_file_registers_its_task_for_recipes_and_schemas(tmp_path: Path) -> None:
    assert "alike" not in TASKS.names()
    with pytest.raises(ConfigError, match=r"'alike': no such task.*--code FILE.py"):
        recipe.parse({"task": {"kind": "alike"}})
    extensions.load(write(tmp_path))
    made = recipe.parse({"task": {"kind": "alike"}})
    assert made.model["kind"] == "transformer"
    assert 'kind = "alike"' in dump(made)
    kinds = schema()["properties"]["task"]["properties"]["kind"]["enum"]
    shipped = ("regress", "table", "language", "classify", "tag", "translate", "embed")
    assert kinds == [*shipped, "alike"]
    source = TASKS.source("alike")
    assert source is not None
    assert source.path == tmp_path / "mine.py"
    assert TASKS.source("tag") is None


def test_two_files_cannot_have_one_name(tmp_path: Path) -> None:
    extensions.load(write(tmp_path))
    with pytest.raises(ConfigError, match=r"other.py:\d+: class Alike: .*'alike' already"):
        extensions.load(write(tmp_path, name="other.py"))
    with pytest.raises(ConfigError, match="task 'tag' already"):
        extensions.load(write(tmp_path, ('"alike"', '"tag"'), name="third.py"))


def test_a_class_of_a_notebook_may_be_defined_again() -> None:
    for number in (1, 2):
        made: Any = type("Again", (NoPositions,), {"number": number, "__module__": "nowhere"})
        tl.position("again")(made)
        assert getattr(POSITIONS["again"], "number", None) == number


def test_own_positions_are_made_with_the_sizes_of_the_model() -> None:
    with pytest.raises(ConfigError, match=r"'ramp': no such position.*sinusoidal"):
        recipe.parse({"task": {"kind": "tag"}, "model": {"positions": "ramp"}})
    extensions.load(EXAMPLES / "own_position.py")
    scheme: Any = POSITIONS["ramp"].make(PositionSetup(d_model=12, heads=2, d_head=6, max_length=8))
    assert scheme.w.shape == (12,)
    recipe.parse({"task": {"kind": "tag"}, "model": {"positions": "ramp"}})
    with pytest.raises(ConfigError, match=r"Wrong .*NoPositions"):
        tl.position("wrong")(type("Wrong", (), {}))  # type: ignore[type-var]


def test_a_task_needs_six_methods_and_the_page_lists_them() -> None:
    needed = {*tl.Task.__abstractmethods__, "read"}
    page = (EXAMPLES.parent / "docs/guides/extend.md").read_text("utf-8")
    table = page.partition("| Method | Returns |")[2].partition("\n\n")[0]
    assert {*re.findall(r"^\| `(\w+)\(", table, re.M)} == needed
    docstring = (tl.Task.__doc__ or "").partition("and four attributes")[0]
    assert {*re.findall(r"^        (\w+) ", docstring, re.M)} == needed
    assert len(needed) == 6


def test_targets_and_shorten_have_defaults(tmp_path: Path) -> None:
    extensions.load(write(tmp_path))
    made = TASKS["alike"](Tokenizer.train("space", ["the old dog sleeps", "a dog runs"]))
    item = replace(made.read_line("the dog ||| a dog", "here", None), score=0.5)
    assert made.targets(item) == 1
    assert made.shorten(item, 3).ids == item.ids[:3]
    assert made.shorten(item, 7) is item
    made.sizes = lambda item: (9,)
    with pytest.raises(ConfigError, match=r"alike .*shorten\("):
        made.shorten("an item without ids", 3)


def test_unknown_names_are_looked_up_in_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real distribution on the path, with its metadata."""
    write(tmp_path, ('"alike"', '"installed"'), name="installed_task.py")
    info = tmp_path / "installed_task-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed_task\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[translucid.tasks]\ninstalled = installed_task:Alike\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "installed" not in TASKS.names()
    assert TASKS["installed"].metric == "pearson"
    assert EntryPoint("installed", "installed_task:Alike", "translucid.tasks").load()
    assert not TASKS.knows("not installed")


def test_between_tests_only_modules_beside_the_users_file_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment and the checkout may lie below the same folder: torch's modules stay."""
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/installed_elsewhere.py").write_text("")
    (tmp_path / "neighbour.py").write_text("import installed_elsewhere\n")
    monkeypatch.syspath_prepend(str(tmp_path / "venv"))
    file = write(tmp_path, ("import torch\n", "import torch\nimport neighbour\n"))
    names = {file.stem, "neighbour", "installed_elsewhere"}
    with forgetting_own_code():
        extensions.load(file)
        assert names <= set(sys.modules)
    assert names & set(sys.modules) == {"installed_elsewhere"}
    assert file not in extensions._LOADED
    del sys.modules["installed_elsewhere"]


MISTAKES = {
    "syntax": (("metric, higher_is_better = ", "metric, higher_is_better == = "),
               "mine.py:{}: invalid syntax: metric, higher_is_better == =", "metric, higher"),
    "import": (("import torch\n", "import torch\nimport nothing_like_this\n"),
               "mine.py:{}: ModuleNotFoundError: No module named 'nothing_like_this'", "nothing_"),
    "a method is missing": (("def loss(self,", "def lost(self,"),
               "mine.py:{}: class Alike lacks loss(self, model, batch), which must return Tensor: "
               "The summed loss of a batch;", "@task("),
    "files are not read": (("def read(cls,", "def reed(cls,"),
               "mine.py:{}: class Alike lacks read(cls, files, data, loading), which must return "
               "Iterable", "@task("),
    "an attribute is missing": (("    shape, head, n_outputs =", "    shape, haed, n_outputs ="),
               "mine.py:{}: class Alike lacks the attribute head", "@task("),
    "while reading": (("float(cells[2])", "float(cells[7])"),
               "mine.py:{} in read: IndexError: list index out of range", "float(cells[7])"),
    "while encoding": (("record.score, record.line)", "record.scores, record.line)"),
               "mine.py:{} in encode: AttributeError: 'Scored' object has no attribute 'scores'",
               "record.scores"),
    "in the loss": (("- batch.targets).square", "- batch.answers).square"),
               "mine.py:{} in loss: AttributeError: 'Batch' object has no attribute 'answers'",
               "batch.answers"),
    "in the deepest of several": (("model(**b.inputs)[:, 0]", "model(**b.inputs)[:, 7]"),
               "mine.py:{} in <lambda>: IndexError: index 7 is out of bounds", "[:, 7]"),
    "records of no kind": (("yield Scored(cells[0], cells[1], float(cells[2]), line)",
                            "yield cells"),
               "mine.py:{} in read: returned ['the dog sleeps 0', 'a dog sleeps 0', ' (list), but "
               "must return records that derive from translucid.data.records.Record",
               "    @classmethod"),
    "sizes": (("return (len(item.ids),)", "return len(item.ids)"),
               "mine.py:{} in sizes: returned 11 (int), but must return a tuple", "def sizes"),
    "targets": (("    def collate(", "    def targets(self, item):\n        return None\n\n"
                 "    def collate("),
               "mine.py:{} in targets: returned None, but must return a whole number",
               "def targets"),
    "collate": (("return Batch({", "return ({"),
               "mine.py:{} in collate: returned ({{'ids': tensor", "def collate"),
    "count": (("scores, scores.numel(), lines)", "scores, 0.5, lines)"),
               "mine.py:{} in collate: returned 0.5 (float), but must return a tl.Batch whose "
               "count is a whole number above 0", "def collate"),
    "loss with axes": ((".square().sum()\n", ".square()\n"),
               "mine.py:{} in loss: returned a tensor of shape (2, 1), but must return a tensor "
               "without axes", "def loss"),
    "loss without gradient": (("return 0.5 * (model", "return 0.5 * (model.eval().requires_grad_("
               "False)"),
               "mine.py:{} in loss: returned a tensor without a gradient", "def loss"),
    "evaluate": (("return Score({", "return ({"),
               "mine.py:{} in evaluate: returned {{'pearson'", "def evaluate"),
    "metric": (('{"pearson": float', '{"person": float'),
               "mine.py:{} in evaluate: returned a score with only person, rmse, but must "
               "return one with 'pearson'", "def evaluate"),
    "no number": (('"rmse": float(rmse)', '"rmse": "0.5"'),
               "mine.py:{} in evaluate: returned rmse = '0.5' (str), but must return numbers only",
               "def evaluate"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_errors_in_the_file_are_reported_with_their_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message, place = MISTAKES[case]
    file = write(tmp_path, change)
    number = line_of(file.read_text("utf-8"), place)
    told = train(capsys, file)
    assert message.format(number) in told, told
    assert "Traceback" not in told
    assert not (tmp_path / "run").exists()


def test_debug_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, ("import torch\n", "import torch\nimport nothing_like_this\n"))
    told = said(capsys, "info", "nowhere", "--code", file, "--debug")
    assert "Traceback" in told
    assert "nothing_like_this" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "none.py"], "--code none.py: no such Python file"),
        (["info", "x", "--code", "data.tsv"], "--code data.tsv: no such Python file"),
        (["train", "empty.py"], "empty.py: registers 0 tasks; "),
        (["train", "alik"], "no such recipe: alik;"),
    ],
)
def test_missing_files_and_files_without_a_task_are_refused(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert message in said(capsys, *words)


def test_a_model_needs_its_code_and_warns_if_it_has_changed(tmp_path: Path) -> None:
    file = write(tmp_path)
    noted = [{"what": "task", "name": "alike", "file": "mine.py", "sha256": "0" * 64}]
    with pytest.raises(InputError, match=r"runs/x: .*'alike' .*--code mine.py"):
        extensions.require(noted, (TASKS, POSITIONS), "runs/x")
    extensions.load(file)
    with pytest.warns(extensions.ChangedCode, match=r"mine.py .*000000000000, now"):
        extensions.require(noted, (TASKS, POSITIONS), "runs/x")
    (used,) = extensions.used([(TASKS, "alike"), (TASKS, "tag"), (POSITIONS, "none")])
    extensions.require([vars(used)], (TASKS, POSITIONS), "runs/x")  # no warning


def test_a_file_finds_its_neighbours(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "own_position.py", tmp_path / "ramp_of_mine.py")
    (tmp_path / "both.py").write_text("import ramp_of_mine\n")
    before = list(sys.path)
    extensions.load(tmp_path / "both.py")
    assert "ramp" in POSITIONS.names()
    assert sys.path == before


def test_steps_with_own_code_are_not_captured_as_cuda_graphs(tmp_path: Path) -> None:
    """Batches are filled up with rows whose targets do not count, which only we know of."""
    extensions.load(write(tmp_path))
    extensions.load(EXAMPLES / "own_position.py")
    sizes: dict[str, Any] = {"shape": "encoder", "head": "tag", "vocab": 9, "outputs": 2}
    for positions, task, why in (
        ("none", "tag", None),
        ("ramp", "tag", "your own positions (ramp)"),
        ("none", "alike", "your own task (alike)"),
    ):
        said: list[str] = []
        config = TransformerConfig(**sizes, positions=positions)
        decided = cuda_graphs.decide(
            TrainingConfig(), config, torch.device("cuda"), said.append, task=task
        )
        assert decided.cuda_graphs is (why is None)
        assert len(said) == (why is not None)
        assert why is None or said[0].startswith(f"training.cuda_graphs: {why}")


def test_a_class_without_mistakes_is_not_read_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line is for messages; looking for it took a fifth of importing the package."""
    monkeypatch.setattr(inspect, "getsourcelines", lambda cls: pytest.fail(f"{cls} was read"))
    for name in TASKS.names():
        TASKS.add(name, TASKS[name])
