"""A tokenizer on disk: the same one comes back, and another one is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from translucid.core.errors import InputError, TokenizerMismatchError
from translucid.data.tokenizers import files
from translucid.data.tokenizers.pipelines import KINDS, Kind
from translucid.data.tokenizers.tokenizer import Tokenizer

TEXTS = ["The dog runs.", "Ein Hund rennt </s> <pad> 😀"] * 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Tokenizer.train("bpe", TEXTS).save(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_is_the_same(tmp_path: Path, kind: Kind) -> None:
    tokenizer = Tokenizer.train(kind, TEXTS)
    tokenizer.save(tmp_path / "deep" / "folder")
    loaded = Tokenizer.load(tmp_path / "deep" / "folder", expect=tokenizer.fingerprint)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.kind == kind
    assert loaded.vocab == tokenizer.vocab
    for text in [*TEXTS, "<s> new ▁ Ġ\0", " a "]:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.offsets(text) == tokenizer.offsets(text)
    loaded.save(tmp_path / "again")
    for name in ("tokenizer.json", "tokenizer_meta.json", "tokenizer_config.json"):
        again = (tmp_path / "again" / name).read_bytes()
        assert again == (tmp_path / "deep" / "folder" / name).read_bytes()
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizers_library_reads_the_file(tmp_path: Path, kind: Kind) -> None:
    tokenizer = Tokenizer.train(kind, TEXTS)
    tokenizer.save(tmp_path)
    hub = Backend.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("The dog runs.", "Ein Hund"):
        assert hub.encode(text).ids == tokenizer.encode(text)
        assert hub.decode(hub.encode(text).ids) == text
    assert hub.encode("</s>").ids == [2]  # there, special tokens are looked for in the text
    config = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))
    assert (config["pad_token"], config["eos_token"]) == ("<pad>", "</s>")


def test_another_tokenizer_is_named(folder: Path) -> None:
    other = Tokenizer.train("char", TEXTS)
    message = r"bpe tokenizer \(fingerprint .*\) is not the one"
    with pytest.raises(TokenizerMismatchError, match=message):
        Tokenizer.load(folder, expect=other.fingerprint)


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(path.read_text("utf-8"))
    edit(data)
    path.write_text(json.dumps(data), "utf-8")


def test_a_changed_file_is_noticed(folder: Path) -> None:
    change(folder / "tokenizer.json", lambda data: data.update(normalizer={"type": "Lowercase"}))
    with pytest.raises(TokenizerMismatchError, match=r"tokenizer\.json.*sha256"):
        Tokenizer.load(folder)


def forge(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """As someone would who also corrects the digest."""
    change(folder / "tokenizer.json", edit)
    digest = files.hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()
    change(folder / "tokenizer_meta.json", lambda meta: meta.update(sha256=digest))


def test_a_changed_vocabulary_is_noticed(folder: Path) -> None:
    def swap(data: dict[str, Any]) -> None:
        vocab = data["model"]["vocab"]
        vocab["a"], vocab["b"] = vocab["b"], vocab["a"]

    forge(folder, swap)
    with pytest.raises(TokenizerMismatchError, match="fingerprint"):
        Tokenizer.load(folder)


def test_rules_of_the_file_are_ignored(folder: Path) -> None:
    expected = Tokenizer.load(folder).encode("The dog")

    def plant(data: dict[str, Any]) -> None:
        data["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "x"}
        data["pre_tokenizer"] = None
        data["added_tokens"] = []
        data["model"]["dropout"] = 0.9

    forge(folder, plant)
    tokenizer = Tokenizer.load(folder)
    assert [tokenizer.encode("The dog") for _ in range(20)] == [expected] * 20


BAD: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "format": ("meta", lambda meta: meta.update(format=99), "format 99"),
    "kind": ("meta", lambda meta: meta.update(kind="magic"), "kind 'magic'"),
    "no digest": ("meta", lambda meta: meta.pop("sha256"), "sha256"),
    "no model": ("file", lambda data: data.pop("model"), "no BPE model"),
    "other model": ("file", lambda data: data["model"].update(type="WordLevel"), "no BPE model"),
    "special tokens elsewhere": (
        "file", lambda data: data["model"].update(vocab={"a": 0, "<pad>": 1}, merges=[]),
        "fingerprint|number its tokens"),
    "impossible merges": (
        "file", lambda data: data["model"].update(merges=[["x", "nowhere"]]), "tokenizers library"),
    "a vocabulary of numbers": (
        "file", lambda data: data["model"].update(vocab=[1, 2]), "tokenizers library"),
    "a merge into an unknown piece, on which the library panics": (
        "file", lambda data: data["model"].update(vocab={"a": 0, "b": 1}, merges=[["a", "b"]]),
        "tokenizers library"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_folders(folder: Path, case: str) -> None:
    which, edit, message = BAD[case]
    if which == "meta":
        change(folder / "tokenizer_meta.json", edit)  # type: ignore[arg-type]
    else:
        forge(folder, edit)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        Tokenizer.load(folder)


def test_missing_and_broken_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match=r"tokenizer_meta\.json cannot be read.*Tokenizer\.save"):
        Tokenizer.load(empty)
    (folder / "tokenizer_meta.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer_meta\.json.* JSON"):
        Tokenizer.load(folder)
    (folder / "tokenizer_meta.json").write_text("[]")
    with pytest.raises(InputError, match=r"tokenizer_meta\.json.* list"):
        Tokenizer.load(folder)


def test_a_huge_file_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE", 1000)
    with pytest.raises(InputError, match=r"tokenizer\.json.*limit of 1,000"):
        Tokenizer.load(folder)
