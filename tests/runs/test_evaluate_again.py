"""`evaluate` of a run gives the number of its test.json to the last digit, and says what decides
it; what changes nothing is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from tests.tiny.dealt import dealt

from translucid.core.errors import ConfigError, InputError
from translucid.model import load
from translucid.runs.recipe import recipe
from translucid.runs.recipe.named import entries
from translucid.runs.run import resume_run, train_recipe
from translucid.tasks.options import FEATURE_KEYS, DataConfig, DecodingConfig
from translucid.tasks.registry import TASKS

TINY = {"d_model": 8, "heads": 2, "layers": 1}
SETTINGS = {"steps": 2, "batch_tokens": 400, "warmup": 1, "device": "cpu"}
TEXT = "a dog sleeps\n\nthe cat sees a dog\nthe dog\n\n\na cat\nthe cat sees the cat\n"


def trained(folder: Path, task: str, **sections: Any) -> Path:
    """A run of two steps, by the recipe's values."""
    values = {"task": {"kind": task}, "tokenizer": {"kind": "word"}, "training": SETTINGS}
    values |= {} if task == "regress" else {"model": TINY}
    train_recipe(recipe.parse(values | sections), folder, quiet=True)
    return folder


def same(run: Path, *files: str) -> dict[str, float]:
    """The score of a run's test.json, if `evaluate` gives the same."""
    before = json.loads((run / "test.json").read_text("utf-8"))
    score = load(run).evaluate(*files)
    assert score.numbers == before["test"]
    assert list(score.notes) == before["notes"]
    return score.numbers


TAGS = ["B-PER", "I-PER", "O", "B-LOC", "O", "B-ORG", "I-ORG", "I-ORG", "O", "O"]
# Many words of which two steps teach nothing, so that a model's own tags break spans.
SPANS = "\n\n".join(
    "\n".join(f"w{7 * row + place} {tag}" for place, tag in enumerate(TAGS[row:]))
    for row in range(9)
)
FILES = {
    "t.txt": TEXT, "a.en": "a dog\nthe cat\na big cat\n",
    "a.de": "ein hund\ndie katze\neine katze\n",
    "p.tsv": "de\ten\tn\nein hund\ta dog\t1\ndie katze\tthe cat\t2\n", "s.conll": SPANS,
    "c.csv": "n,kind,words\n1,good,a fine day\n2,bad,a sad day\n3,good,fine\n",
    "n.csv": "price,area,age\n100000,50,3\n300000,150,30\n200000,100,7\n150000,90,9\n",
}  # fmt: skip
COLUMNS = {"text_column": "words", "label_column": "kind"}
KINDS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "lines": ("language", ["t.txt"], {}),
    "empty lines": ("language", ["t.txt"], {"data": {"keep_empty": True}}),
    "paragraphs": ("language", ["t.txt"], {"data": {"unit": "paragraph", "max_length": 5}}),
    "file": ("language", ["t.txt"], {"data": {"unit": "file", "max_length": 4}}),
    "context": (
        "language", ["t.txt"], {"data": {"max_length": 4}, "decoding": {"context": 2}},
    ),
    "pairs": ("translate", ["a.en", "a.de"], {"decoding": {"beam_size": 3, "alpha": 0.2}}),
    "table": (
        "translate", ["p.tsv"], {"data": {"source_column": "en", "target_column": "de"}},
    ),
    "labels": ("classify", ["c.csv"], {"data": COLUMNS}),
    "spans": ("tag", ["s.conll"], {}),
    "free tags": ("tag", ["s.conll"], {"decoding": {"spans": "free"}}),
    "numbers": (
        "regress", ["n.csv"],
        {"data": {"input_columns": ["area", "age"], "output_columns": ["price"]}},
    ),
    "cut texts": ("classify", ["c.csv"], {"data": COLUMNS | {"max_length": 4, "long": "truncate"}}),
    "skipped pairs": ("translate", ["a.en", "a.de"], {"data": {"max_length": 3}}),
    "split tags": ("tag", ["s.conll"], {"data": {"max_length": 4, "long": "split"}}),
    "raw numbers": ("regress", ["n.csv"], {"data": {"standardise": False}}),
}  # fmt: skip


@pytest.mark.parametrize("kind", dealt(KINDS, share=3, rest=pytest.mark.slow))
def test_a_run_is_scored_as_it_was(kind: str, tmp_path: Path) -> None:
    """With and without naming the file, and from the model folder alone."""
    task, names, sections = KINDS[kind]
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, "utf-8")
    files = [str(tmp_path / name) for name in names]
    data = {"train": files, "valid": files, "test": files} | sections.get("data", {})
    run = trained(tmp_path / "run", task, **(sections | {"data": data}))
    assert same(run) == same(run, *files)
    assert load(run / "best").evaluate(*files).numbers == same(run)


TOYLAND = [entry for entry in entries() if entry.name.startswith("toyland-")]


@pytest.mark.parametrize(
    "entry", dealt(TOYLAND, share=4, rest=pytest.mark.slow), ids=lambda entry: entry.name
)
def test_every_shipped_recipe_of_toyland(entry: Any, tmp_path: Path) -> None:
    small = ["data.toyland=60", "training.steps=1", "training.device=cpu"]
    chosen = recipe.read(entry.path, small)
    width = [f"model.{key}=8" for key in ("d_model", "hidden", "d_ff") if chosen.model.get(key)]
    width = width if chosen.task.kind != "regress" else []
    train_recipe(recipe.read(entry.path, [*small, *width]), tmp_path / "run", quiet=True)
    same(tmp_path / "run")


def test_an_option_that_changes_the_score_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT, "utf-8")
    file = str(tmp_path / "t.txt")
    data = {"train": [file], "valid": [file], "test": [file], "unit": "file"}
    run = trained(tmp_path / "run", "language", data=data)
    model, lines = load(run), list[str]()
    assert model.evaluate(file, say=lines.append).numbers == same(run)
    assert lines[0] == "scored as in training: unit=file keep_empty=false max_length=256 context=0"
    lines.clear()
    other = model.evaluate(file, say=lines.append, unit="line", context=3)
    assert other.numbers != same(run)
    assert lines[0] == (
        "not scored as in training (unit was file, context was 0): "
        "unit=line keep_empty=false max_length=256 context=3"
    )


def test_a_run_finds_its_test_data_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it began, as a resume does."""
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text(TEXT, "utf-8")
    Path("train.txt").write_text(TEXT, "utf-8")
    data = {"train": ["train.txt"], "valid": ["t.txt"], "test": ["t.txt"]}
    trained(Path("run"), "language", data=data)
    Path("train.txt").unlink()  # which nobody needs for it
    here = same(Path("run"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert same(tmp_path / "run") == here
    Path("t.txt").write_text("another file of this name\n" * 9)
    assert same(tmp_path / "run") == here, "the file of this name that is here is another one"
    shutil.rmtree(tmp_path / "run/state")
    assert same(tmp_path / "run") == here, "a checkpoint is not needed"
    (tmp_path / "t.txt").unlink()
    with pytest.raises(InputError, match=r"has changed since .*t\.txt"):
        load(tmp_path / "run").evaluate()
    Path("t.txt").unlink()
    with pytest.raises(InputError, match=r"t\.txt: no such file.*looked for"):
        load(tmp_path / "run").evaluate()


def own_run(folder: Path) -> Path:
    """A run in folder/runs that was started in this folder."""
    for name in ("train.txt", "t.txt"):
        Path(name).write_text(TEXT)
    data = {"train": ["train.txt"], "valid": ["train.txt"], "test": ["t.txt"]}
    return trained(folder / "runs" / "r", "language", data=data)


def test_a_test_file_that_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = own_run(Path())
    before = same(folder)
    Path("t.txt").write_text(TEXT + "a cat\n")
    refused = run("evaluate", str(folder))
    assert refused.returncode == 2
    assert "t.txt has changed" in refused.stderr
    assert f"translucid evaluate {folder} t.txt" in refused.stderr
    assert not refused.stdout
    scored = run("evaluate", str(folder), "t.txt", "--json")
    assert scored.returncode == 0, scored.stderr
    assert "baseline" not in json.loads(scored.stdout)
    assert json.loads(scored.stdout)["scores"] != before
    Path("t.txt").write_text(TEXT)
    assert same(folder) == before


def test_a_resume_from_elsewhere_leaves_the_remembered_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = own_run(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for name in ("train.txt", "t.txt"):
        (tmp_path / "elsewhere" / name).write_text("another file\n" * 9)
    monkeypatch.chdir(tmp_path / "elsewhere")
    noted = (folder / "files.json").read_text("utf-8")
    resume_run(folder, ["training.steps=3"], allow_changes=True, quiet=True)
    assert (folder / "files.json").read_text("utf-8") == noted
    states = [
        json.loads(path.read_text("utf-8")) for path in folder.glob("state/step-*/state.json")
    ]
    assert {state["fingerprint"]["folder"] for state in states} == {str(tmp_path)}
    same(folder)


def test_a_project_that_was_moved_whole_finds_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old place").mkdir()
    monkeypatch.chdir(tmp_path / "old place")
    before = same(own_run(Path()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old place").rename(tmp_path / "new place")
    moved = tmp_path / "new place" / "runs" / "r"
    assert same(moved) == before
    (tmp_path / "new place" / "t.txt").write_text("another file\n" * 9)
    with pytest.raises(InputError, match=r"has changed since .*old place"):
        load(moved).evaluate()


def test_a_run_without_fingerprints_still_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, lines = own_run(Path()), list[str]()
    (folder / "files.json").unlink()
    assert same(folder), "the newest checkpoint has them"
    shutil.rmtree(folder / "state")
    assert load(folder).evaluate(say=lines.append).numbers == same(folder)
    assert any("no fingerprint of t.txt" in line for line in lines)


def test_a_search_is_changed_on_the_command_line_as_in_python(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a.de", "a.en")]
    for file in files:
        Path(file).write_text(FILES[Path(file).name], "utf-8")
    data = dict.fromkeys(("train", "valid", "test"), files)
    folder = trained(tmp_path / "run", "translate", data=data, decoding={"beam_size": 3})
    model = load(folder)
    assert model.evaluate(files).numbers == model.evaluate(*files).numbers == same(folder)
    assert model.examples(files) == model.examples(*files)
    expected = model.evaluate(*files, beam_size=1, alpha=0.5)
    answer = run(
        "evaluate", str(folder), *files, "decoding.beam_size=1", "decoding.alpha=0.5", "--json"
    )
    scored = json.loads(answer.stdout)
    assert scored["scores"] == expected.numbers
    assert (scored["settings"]["beam_size"], scored["settings"]["alpha"]) == (1, 0.5)
    assert "not scored as in training (beam_size was 3, alpha was 1.0)" in answer.stderr
    assert "beam_siez: no such key; did you mean beam_size?" in run(
        "evaluate", str(folder), "decoding.beam_siez=1"
    ).stderr  # fmt: skip


REFUSED = {
    "label_column": (
        2,
        r"label_column has no effect on scores for task language; keys with an effect: text",
    ),
    "beam_size": (2, r"beam_size has no effect on scores for task language"),
    "unti": ("line", r"unti: no such key; did you mean unit\?"),
    "context": (-1, r"context = -1: input should be greater than or equal to 0"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_an_option_without_effect_is_refused(option: str, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "language", data={"toyland": 60})
    value, message = REFUSED[option]
    with pytest.raises(ConfigError, match=message):
        load(run).evaluate(**{option: value})


def test_every_option_has_an_effect_somewhere() -> None:
    """A key that is kept with a model decides the score of at least one task."""
    shipped = [TASKS[name].traits for name in TASKS.names()]
    assert {key for task in shipped for key in task.decoding_keys} == {*DecodingConfig.model_fields}
    kept = {*DataConfig().reading(), *FEATURE_KEYS}
    assert {key for task in shipped for key in task.data_keys} == kept


def test_without_test_data_a_file_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT, "utf-8")
    data = {"train": [str(tmp_path / "t.txt")]}
    model = load(trained(tmp_path / "run", "language", data=data))
    with pytest.raises(InputError, match=r"names no test data; pass a file"):
        model.evaluate()
    model.save(tmp_path / "alone" / "model")
    with pytest.raises(InputError, match=r"not in a run folder"):
        load(tmp_path / "alone" / "model").evaluate()
