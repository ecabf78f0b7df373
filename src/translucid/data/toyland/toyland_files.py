"""Toyland as records for each task, and as files in the formats that users bring."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from translucid.core.errors import ConfigError, InputError
from translucid.data.toyland.generate import SPLITS, Toyland
from translucid.data.toyland.words import Links, Sentence


def translation_pairs(sentences: Iterable[Sentence]) -> Iterator[tuple[str, str]]:
    """English text, German text."""
    return ((one.source, one.target) for one in sentences)


def sentiment_records(sentences: Iterable[Sentence]) -> Iterator[tuple[str, str]]:
    """English text, and positive, negative or neutral."""
    return ((one.source, one.sentiment) for one in sentences)


def entity_records(
    sentences: Iterable[Sentence],
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """English words, and a BIO tag for each."""
    return ((one.english, one.entities) for one in sentences)


def language_lines(sentences: Iterable[Sentence]) -> Iterator[str]:
    """English text alone, for a language model."""
    return (one.source for one in sentences)


def pharaoh(alignment: Links) -> str:
    """ "0-0 1-2": the usual way to write a word alignment, source index first."""
    return " ".join(f"{english}-{german}" for english, german in alignment)


README = """\
Toyland: made-up English sentences with their German translation and everything that is true of
them. Made by `translucid data toyland --pairs {pairs}`{seed_note}; nothing here was collected.
Sentences: {counts}. No sentence is in two of train, valid and test.

Every file has one sentence per line, UTF-8, in the same order in all of them:
train.en  train.de          parallel text for translation; also valid.* and test.*
train.align                 word alignment in Pharaoh format: "0-0 1-2" joins English word 0 to
                            German word 0 and English word 1 to German word 2; words are counted
                            with every comma and full stop as a word of its own
sentiment/train.tsv         label, tab, English text; labels: negative, neutral, positive
entities/train.conll        English word, tab, tag (BIO: B-PER I-PER B-LOC ... O); one word per
                            line, an empty line after each sentence
language/train.txt          English text for a language model
"""


def write_toyland(
    out_dir: str | Path,
    pairs: int = 20000,
    seed: int = 0,
    *,
    held_out: int = 1000,
    overwrite: bool = False,
) -> Path:
    """Write `pairs` training sentences and `held_out` each for validation and test.

    Everything is written beside `out_dir` first and moved at the end, so an interrupted call
    leaves no half-written files behind.
    """
    out = Path(out_dir)
    for name, value in (("pairs", pairs), ("held_out", held_out)):
        if value < 1:
            raise ConfigError(f"{name} = {value}: must be at least 1")
    _check(out, overwrite)
    parent = out.resolve().parent
    parent.mkdir(parents=True, exist_ok=True)
    # Inside a folder of its own, so that what is moved has ordinary permissions.
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=parent))
    try:
        draft = scratch / "toyland"
        draft.mkdir()
        counts = {"train": pairs, "valid": held_out, "test": held_out}
        world = Toyland(seed)
        for split in SPLITS:
            _write_split(draft, split, list(world.sentences(split, counts[split])))
        note = f" with seed {seed}" if seed else ""
        listed = ", ".join(f"{split} {count}" for split, count in counts.items())
        text = README.format(pairs=pairs, seed_note=note, counts=listed)
        _write(draft / "README.txt", text.splitlines())
        _move(draft, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return out


def file_names() -> tuple[str, ...]:
    """Every file that `write_toyland` makes, relative to its folder."""
    names = ["README.txt"]
    for split in SPLITS:
        names += [f"{split}.en", f"{split}.de", f"{split}.align", f"sentiment/{split}.tsv"]
        names += [f"entities/{split}.conll", f"language/{split}.txt"]
    return tuple(names)


def _check(out: Path, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a folder to write into")
    present = [name for name in file_names() if (out / name).exists()]
    if present and not overwrite:
        more = f" and {len(present) - 1} more" if len(present) > 1 else ""
        raise InputError(
            f"{out}: already holds {present[0]}{more}; choose another folder, or allow overwriting"
        )


def _write_split(folder: Path, split: str, sentences: list[Sentence]) -> None:
    pairs = list(translation_pairs(sentences))
    _write(folder / f"{split}.en", (source for source, _ in pairs))
    _write(folder / f"{split}.de", (target for _, target in pairs))
    _write(folder / f"{split}.align", (pharaoh(one.alignment) for one in sentences))
    labelled = (f"{label}\t{text}" for text, label in sentiment_records(sentences))
    _write(folder / "sentiment" / f"{split}.tsv", labelled)
    blocks = (
        "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
        for words, tags in entity_records(sentences)
    )
    _write(folder / "entities" / f"{split}.conll", blocks)
    _write(folder / "language" / f"{split}.txt", language_lines(sentences))


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _move(draft: Path, out: Path) -> None:
    """The whole folder at once where there is none yet, otherwise file by file."""
    if not out.exists():
        draft.rename(out)
        return
    for name in file_names():
        (out / name).parent.mkdir(exist_ok=True)
        os.replace(draft / name, out / name)
