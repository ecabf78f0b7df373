"""Training from Python: the same model as from files, whatever holds the data and whoever looks."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.in_process import run
from tests.tiny.dealt import dealt

import translucid as tl
from translucid.core.errors import ConfigError, InputError
from translucid.core.weights import own_tensors

TINY: dict[str, Any] = {
    "steps": 3, "batch_tokens": 200, "log_every": 1, "evaluate_every": 2, "device": "cpu",
    "quiet": True,
}  # fmt: skip
NET = {"d_model": 16, "heads": 2, "layers": 1}
WORDS = ["fine", "dull", "great", "bad", "good", "weak"]
REVIEWS = [(f"a {word} film {n}", "up" if n % 2 else "down") for n, word in enumerate(WORDS * 6)]


class Frame:
    """What of a pandas frame is used."""

    def __init__(self, columns: dict[Any, list[Any]]) -> None:
        self.columns, self._values = list(columns), columns

    def itertuples(self, *, index: bool, name: str | None) -> Iterator[tuple[Any, ...]]:
        assert (index, name) == (False, None)
        return zip(*self._values.values(), strict=True)

    def __iter__(self) -> Iterator[Any]:  # pandas yields the names of columns
        return iter(self.columns)


class Polars:
    """What of a polars frame is used."""

    def __init__(self, columns: dict[Any, list[Any]]) -> None:
        self.columns, self._values = list(columns), columns

    def __iter__(self) -> Iterator[Any]:  # polars yields its columns
        return iter(self._values.values())

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        return (dict(zip(self.columns, row, strict=True)) for row in zip(*self._values.values()))  # noqa: B905


class Lazy:
    """What of a lazy frame of polars is looked at."""

    columns = ("text", "label")

    def collect(self) -> Polars:
        return Polars({"text": [], "label": []})

    def collect_schema(self) -> dict[str, type]:
        return {"text": str, "label": str}


class Feature:
    def __init__(self, names: list[str] | None = None, feature: "Feature | None" = None) -> None:
        self.names, self.feature = names, feature


class Dataset:
    """What of a dataset of Hugging Face is used."""

    def __init__(self, features: dict[str, Feature], rows: list[dict[str, Any]]) -> None:
        self.features, self._rows = features, rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


def columns(rows: list[tuple[Any, ...]], *names: str) -> dict[Any, list[Any]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def with_labels(rows: list[tuple[str, str]]) -> Dataset:
    labels = ["down", "up"]
    return Dataset(
        {"text": Feature(), "label": Feature(labels)},
        [{"text": text, "label": labels.index(label)} for text, label in rows],
    )


FORMS: dict[str, Callable[[list[tuple[str, str]]], Any]] = {
    "pairs": list,
    "a tuple of lists": lambda rows: tuple(map(list, rows)),
    "dicts": lambda rows: [{"label": label, "text": text} for text, label in rows],
    "columns": lambda rows: columns(rows, "text", "label"),
    "columns of numpy": lambda rows: {"text": np.array(rows)[:, 0], "label": np.array(rows)[:, 1]},
    "numpy": lambda rows: np.array(rows),
    "an iterator": iter,
    "a generator of dicts": lambda rows: ({"text": t, "label": c} for t, c in rows),
    "like pandas": lambda rows: Frame(columns(rows, "text", "label")),
    "like polars": lambda rows: Polars(columns(rows, "text", "label")),
    "like datasets": with_labels,
    "pandas": lambda rows: pytest.importorskip("pandas").DataFrame(columns(rows, "text", "label")),
    "polars": lambda rows: pytest.importorskip("polars").DataFrame(columns(rows, "text", "label")),
    "datasets": lambda rows: pytest.importorskip("datasets").Dataset.from_dict(
        columns(rows, "text", "label")
    ),
}  # fmt: skip


def weights(folder: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return own_tensors(tl.load(folder / which).network)


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def same(one: Path, other: Path) -> None:
    """Weights and all numbers on the way, to the bit."""
    for which in ("best", "last"):
        ours, theirs = weights(one, which), weights(other, which)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert tl.load(one).task.label_names == tl.load(other).task.label_names
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()


@pytest.fixture(scope="module")
def from_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By the command line."""
    folder = tmp_path_factory.mktemp("file")
    table = "".join(f"{text}\t{label}\n" for text, label in REVIEWS)
    (folder / "train.tsv").write_text("text\tlabel\n" + table, "utf-8")
    (folder / "test.tsv").write_text("text\tlabel\n" + table, "utf-8")
    changes = [f"training.{key}={value}" for key, value in TINY.items() if key != "quiet"]
    changes += [f"model.{key}={value}" for key, value in NET.items()]
    done = run("train", "classify", "--train", "train.tsv", "--test", "test.tsv", "--out", "run",
               *changes, cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.mark.parametrize("form", dealt(FORMS, share=3, rest=pytest.mark.slow))
def test_data_in_memory_trains_the_same_model_as_a_file(
    form: str, from_file: Path, tmp_path: Path
) -> None:
    made = FORMS[form]
    model = tl.train(
        "classify", train=made(REVIEWS), test=made(REVIEWS), out=tmp_path / "run", model=NET, **TINY
    )
    same(tmp_path / "run", from_file)
    assert model.history == lines_of(from_file / "metrics.jsonl")
    assert tl.load(tmp_path / "run").history == model.history
    scored = [
        json.loads((place / "test.json").read_text("utf-8"))
        for place in (tmp_path / "run", from_file)
    ]
    assert scored[0]["test"] == scored[1]["test"] == model.evaluate().numbers


def test_files_are_read_in_place(from_file: Path, tmp_path: Path) -> None:
    """Also beside data that is none, by a name relative to here."""
    with chdir(from_file.parent):
        tl.train(
            "classify",
            train="train.tsv",
            test=Path("test.tsv"),
            out=tmp_path / "a",
            model=NET,
            **TINY,
        )
        tl.train("classify", train="train.tsv", test=REVIEWS, out=tmp_path / "b", model=NET, **TINY)
    for name in ("a", "b"):
        same(tmp_path / name, from_file)
    assert not (tmp_path / "a/data").exists()
    assert [path.name for path in (tmp_path / "b/data").iterdir()] == ["test.jsonl"]
    assert (
        tl.load(tmp_path / "b").evaluate().numbers
        == tl.load(from_file).evaluate(str(from_file.parent / "test.tsv")).numbers
    )


OTHERS: dict[str, tuple[str, str, Any, dict[str, Any]]] = {
    "translate": (
        "pairs.tsv", "source\ttarget\n" + "the dog sleeps\tder Hund\nthe cat\tdie Katze\n" * 9,
        [("the dog sleeps", "der Hund"), ("the cat", "die Katze")] * 9, {"model": NET},
    ),
    "translate from datasets": (
        "pairs.tsv", "en\tde\n" + "the dog sleeps\tder Hund\nthe cat\tdie Katze\n" * 9,
        [{"translation": {"en": "the dog sleeps", "de": "der Hund"}},
         {"translation": {"en": "the cat", "de": "die Katze"}}] * 9,
        {"model": NET, "source_column": "en", "target_column": "de"},
    ),
    "language": (
        "a.txt", "the dog sleeps\nthe cat sleeps\nthe cat runs\n" * 8,
        ["the dog sleeps", "the cat sleeps", "the cat runs"] * 8, {"model": NET},
    ),
    "tag": (
        "a.conll", "Ada B-PER\nsleeps O\n\nwe O\nrun O\n\n" * 9,
        [(["Ada", "sleeps"], ["B-PER", "O"]), (["we", "run"], ["O", "O"])] * 9, {"model": NET},
    ),
    "regress": (
        "a.csv", "a,b,y\n" + "".join(f"{n},{n % 3},{2.5 * n}\n" for n in range(20)),
        [([n, n % 3], 2.5 * n) for n in range(20)], {"hidden": [4]},
    ),
    "regress in rows": (
        "a.csv", "a,b,y\n" + "".join(f"{n},{n % 3},{2.5 * n}\n" for n in range(20)),
        np.array([[n, n % 3, 2.5 * n] for n in range(20)]), {"hidden": [4]},
    ),
    "regress with columns": (
        "a.csv", "y,a,b\n" + "".join(f"{2.5 * n},{n},{n % 3}\n" for n in range(20)),
        Frame({"y": [2.5 * n for n in range(20)], "when": [object()] * 20,
               "a": list(range(20)), "b": [n % 3 for n in range(20)]}),
        {"hidden": [4], "input_columns": ["a", "b"], "output_columns": ["y"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", dealt(OTHERS, share=3, rest=pytest.mark.slow))
def test_rows_of_every_task_train_the_same_model_as_a_file(name: str, tmp_path: Path) -> None:
    file, text, data, changes = OTHERS[name]
    (tmp_path / file).write_text(text, "utf-8")
    task = name.split()[0]
    tl.train(task, train=tmp_path / file, out=tmp_path / "file", **TINY, **changes)
    tl.train(task, train=data, out=tmp_path / "rows", **TINY, **changes)
    same(tmp_path / "file", tmp_path / "rows")
    if task == "language":  # a list of texts, unless they are names of files
        tl.train(task, train=[str(tmp_path / file)], out=tmp_path / "list", **TINY, **changes)
        same(tmp_path / "file", tmp_path / "list")


@pytest.mark.slow
def test_two_names_are_the_two_files_of_a_translation(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("a dog\na cat\n" * 9)
    (tmp_path / "a.de").write_text("ein Hund\neine Katze\n" * 9)
    files = [str(tmp_path / "a.en"), str(tmp_path / "a.de")]
    tl.train("translate", train=files, out=tmp_path / "files", model=NET, **TINY)
    rows = [("a dog", "ein Hund"), ("a cat", "eine Katze")] * 9
    tl.train("translate", train=rows, out=tmp_path / "rows", model=NET, **TINY)
    same(tmp_path / "files", tmp_path / "rows")
    with pytest.raises(InputError, match=r"no.en: no such file"):
        tl.train("translate", train=["no.en", "no.de"], out=tmp_path / "no", **TINY)


def test_a_recipe_by_name_is_changed_by_keywords(tmp_path: Path) -> None:
    keys = {"toyland": 60, "d_model": 16, "hidden": 16, "tokenizer": {"kind": "space"}}
    tl.train("toyland-tag-gru", tmp_path / "a", **TINY, **keys)
    words = ["data.toyland=60", "model.d_model=16", "model.hidden=16", "tokenizer.kind=space"]
    words += [f"training.{key}={value}" for key, value in TINY.items() if key != "quiet"]
    tl.train("toyland-tag-gru", tmp_path / "b", words, quiet=True)
    same(tmp_path / "a", tmp_path / "b")
    tl.train("toyland-tag-gru", tmp_path / "c", **TINY, **{"data.toyland": 60, "model.d_model": 16,
             "model.hidden": 16, "tokenizer.kind": "space"})  # fmt: skip
    same(tmp_path / "a", tmp_path / "c")


def test_the_default_run_folder_is_numbered(tmp_path: Path) -> None:
    with chdir(tmp_path):
        for name in ("regress", "regress-2"):
            model = tl.train("regress", toyland=60, hidden=[4], **TINY)
            assert model.folder == Path("runs") / name


# ---- callbacks ----


def disturb(line: dict[str, Any]) -> None:
    """All that somebody may do by mistake."""
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    torch.rand(7), np.random.rand(7), random.random()
    torch.set_grad_enabled(False)
    line.clear()


@pytest.mark.parametrize("net", [NET, {"kind": "recurrent", "d_model": 16, "hidden": 16}])
def test_callbacks_change_nothing(net: dict[str, Any], tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    options = TINY | {"steps": 6, "dropout": 0.3, "train": REVIEWS, "model": net}
    tl.train("classify", tmp_path / "alone", **options)
    watched = tl.train(
        "classify", tmp_path / "watched", callbacks=[lines.append, disturb], **options
    )
    same(tmp_path / "alone", tmp_path / "watched")
    assert lines == watched.history
    assert torch.is_grad_enabled()


def stop_at(step: int, *, raises: bool) -> Callable[[dict[str, Any]], object]:
    def look(line: dict[str, Any]) -> object:
        if line["step"] < step:
            return None
        if raises:
            raise tl.StopTraining
        return False

    return look


@pytest.mark.parametrize(("step", "raises"), [(1, True), (3, False), (4, True)])
def test_a_stopped_run_resumes_to_the_bit(step: int, raises: bool, tmp_path: Path) -> None:
    """Stopped before the first evaluation, between two, and at one; then moved, and from
    elsewhere."""
    options = TINY | {"steps": 6, "train": REVIEWS, "test": REVIEWS, "model": NET}
    tl.train("classify", tmp_path / "whole", **options)
    with chdir(tmp_path):
        early = tl.train("classify", "early", callbacks=stop_at(step, raises=raises), **options)
        assert early.history[-1]["step"] == step
    assert early.facts["step"] in ((2, 4) if step > 1 else (1,)), (
        "the best so far, or else the last"
    )
    assert not (tmp_path / "early/test.json").exists()
    (tmp_path / "away").mkdir()
    shutil.move(tmp_path / "early", tmp_path / "away/run")
    model = tl.resume(tmp_path / "away/run", quiet=True)
    same(tmp_path / "whole", tmp_path / "away/run")
    assert model.history == tl.load(tmp_path / "whole").history
    assert (
        json.loads((tmp_path / "away/run/test.json").read_text("utf-8"))["test"]
        == model.evaluate().numbers
    )


def test_exceptions_of_callbacks_are_raised(tmp_path: Path) -> None:
    def fails(line: dict[str, Any]) -> None:
        raise ZeroDivisionError("of mine")

    with pytest.raises(ZeroDivisionError, match="of mine"):
        tl.train("regress", tmp_path / "run", toyland=60, hidden=[4], callbacks=fails, **TINY)
    with pytest.raises(InputError, match="callbacks: 'look'"):
        tl.train("regress", tmp_path / "run", toyland=60, callbacks=["look"], **TINY)


def test_resume_takes_changes_and_callbacks(tmp_path: Path) -> None:
    tl.train("regress", tmp_path / "run", toyland=60, hidden=[4], **TINY)
    with pytest.raises(InputError, match=r"training.steps was 3, is 5"):
        tl.resume(tmp_path / "run", steps=5, quiet=True)
    lines: list[Any] = []
    longer = tl.resume(
        tmp_path / "run", steps=5, allow_changes=True, quiet=True, callbacks=lines.append
    )
    assert longer.history[-1]["step"] == lines[-1]["step"] == 5


# ---- what cannot be used ----

WRONG: dict[str, tuple[Any, str]] = {
    "texts alone": (["a fine film", 3], r"row 1.*\['a fine film'\].*\(text, label\).* dict"),
    "three": ([("a", "b", "c")], r"row 1.*\['a', 'b', 'c'\].*\(text, label\)"),
    "nothing": ([], "no rows; at least two are needed"),
    "a number": (3, "train: .*int.* a file"),
    "one row": ({"text": "a", "label": "b"}, "lists, but 'text' is a str"),
    "uneven": ({"text": ["a", "b"], "label": ["c"]}, "'text' has 2, 'label' has 1"),
    "splits": ({"train": with_labels([]), "test": with_labels([])}, r"train=data\['train'\]"),
    "an empty cell": (Frame({"text": ["a", float("nan")], "label": ["u", "v"]}),
                      r"^train:2: text contains null, but text is needed"),
    "bytes": ([("a", "u"), (b"b", "v")], r"^train:2: text .*object"),
    "half a character": ([("a", "u"), ("\ud800", "v")], "^train:2: text .*half of a surr"),
    "names that nobody knows": ([{"a": "x", "b": "y"}] * 3, "^train: which column holds the label"),
    "a file that is not": ("no.tsv", "no.tsv"),
    "what is not computed yet": (Lazy(), r"Lazy .*train=frame\.collect"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_data_that_cannot_be_used_is_refused_by_its_row(name: str, tmp_path: Path) -> None:
    data, message = WRONG[name]
    with pytest.raises(InputError, match=message):
        tl.train("classify", train=data, out=tmp_path / "runs/run", **TINY)
    assert not (tmp_path / "runs").exists(), "nothing is left of it"


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run/data").mkdir(parents=True)
    (tmp_path / "run/data/train.jsonl").write_text("mine\n")
    with pytest.raises(InputError, match="is not empty; choose another folder"):
        tl.train("classify", train=REVIEWS, out=tmp_path / "run", **TINY)
    assert (tmp_path / "run/data/train.jsonl").read_text("utf-8") == "mine\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 0.1}, r"^lr: no such key; did you mean learning_rate\?$"),
        ({"epochs": 3}, r"did you mean steps\? \(updates of the weights, not epochs\)$"),
        ({"batch_size": 3}, r"did you mean batch_tokens\? \(tokens, not examples\)$"),
        ({"stepz": 3}, r"^stepz: no such key; did you mean steps\?$"),
        ({"training.lr": 3}, r"^training.lr: no such key; did you mean learning_rate\?$"),
        ({"model": {"hidden_size": 3}}, r"^model.hidden_size: no such key; did you mean d_model"),
        ({"model": {"kind": "recurrent", "hidden_size": 3}}, r"did you mean hidden\?$"),
        ({"model": 3}, r"^model = 3: a section is a dict of its keys, such as model={'d_model"),
        ({"kind": "gru"}, r"^kind: several sections have it; write task={'kind': ...}, "),
        ({"seed": "x", "steps": -1}, "2 mistakes:\n  training.steps = -1.*\n  training.seed = 'x'"),
    ],
)  # fmt: skip
def test_unknown_changes_are_explained(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tl.train("classify", train=REVIEWS, **changes)


def test_a_model_without_a_run_has_no_history(tmp_path: Path, from_file: Path) -> None:
    tl.load(from_file).save(tmp_path / "alone")
    with pytest.raises(InputError, match="not in a run folder"):
        _ = tl.load(tmp_path / "alone").history
