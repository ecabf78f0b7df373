"""`write_toyland`: the files users would bring, and a folder that is never half written."""

from pathlib import Path

import pytest

from translucid.core.errors import ConfigError, InputError
from translucid.data.toyland import Toyland, toyland_files, write_toyland


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_toyland(tmp_path / "a" / "b", pairs=60, seed=2, held_out=20)


def lines(path: Path) -> list[str]:
    text = path.read_bytes().decode()
    assert text.endswith("\n")
    return text[:-1].split("\n")


def test_every_file_is_written_and_nothing_else(folder: Path) -> None:
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == set(toyland_files.file_names())
    assert list(folder.parent.iterdir()) == [folder]  # the draft is gone


@pytest.mark.parametrize(("split", "count"), [("train", 60), ("valid", 20), ("test", 20)])
def test_files_contain_the_sentences_of_the_generator(folder: Path, split: str, count: int) -> None:
    sentences = list(Toyland(2).sentences(split, count))
    assert lines(folder / f"{split}.en") == [one.source for one in sentences]
    assert lines(folder / f"{split}.de") == [one.target for one in sentences]
    assert lines(folder / "language" / f"{split}.txt") == [one.source for one in sentences]
    labelled = [line.split("\t") for line in lines(folder / "sentiment" / f"{split}.tsv")]
    assert labelled == [[one.sentiment, one.source] for one in sentences]

    for line, one in zip(lines(folder / f"{split}.align"), sentences, strict=True):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert links == list(one.alignment)

    blocks = (folder / "entities" / f"{split}.conll").read_text("utf-8").split("\n\n")
    assert blocks.pop() == ""
    for block, one in zip(blocks, sentences, strict=True):
        words, tags = zip(*(line.split("\t") for line in block.split("\n")), strict=True)
        assert (words, tags) == (one.english, one.entities)


def test_the_readme_contains_command_and_counts(folder: Path) -> None:
    text = (folder / "README.txt").read_text("utf-8")
    assert "--pairs 60" in text
    assert "seed 2" in text
    assert "train 60, valid 20, test 20" in text
    assert "Pharaoh" in text


def test_existing_files_are_not_overwritten_by_accident(folder: Path) -> None:
    before = (folder / "train.en").read_bytes()
    with pytest.raises(InputError, match=r"README\.txt and 18 more"):
        write_toyland(folder, pairs=10, held_out=5)
    assert (folder / "train.en").read_bytes() == before
    (folder / "mine.txt").write_text("kept")
    write_toyland(folder, pairs=10, held_out=5, overwrite=True)
    assert len(lines(folder / "train.en")) == 10
    assert (folder / "mine.txt").read_text("utf-8") == "kept"


def test_one_such_file_is_enough_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "valid.de").write_text("Meine eigenen Daten.\n")
    with pytest.raises(InputError, match=r"valid\.de"):
        write_toyland(tmp_path, pairs=10, held_out=5)
    assert [path.name for path in tmp_path.iterdir()] == ["valid.de"]


def test_a_folder_with_other_files_is_fine(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("kept")
    write_toyland(tmp_path, pairs=10, held_out=5)
    assert (tmp_path / "notes.txt").read_text("utf-8") == "kept"
    assert len(lines(tmp_path / "entities" / "test.conll")) > 5


def test_an_interrupted_call_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(toyland_files, "_move", fail)
    with pytest.raises(KeyboardInterrupt):
        write_toyland(tmp_path / "toyland", pairs=5, held_out=2)
    assert list(tmp_path.iterdir()) == []


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pairs = 0"):
        write_toyland(tmp_path / "x", pairs=0)
    with pytest.raises(ConfigError, match="held_out = -1"):
        write_toyland(tmp_path / "x", held_out=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write_toyland(tmp_path / "file", pairs=5)
