"""Write Toyland as files: parallel text, TSV, CoNLL and plain text."""

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from translucid.core.errors import ConfigError, InputError
from translucid.data.toyland.generate import SPLITS, Toyland
from translucid.data.toyland.words import Sentence

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
    """Write `pairs` training sentences, and `held_out` each for validation and test.

    Files are written to a temporary folder and moved at the end, so that an interrupted call leaves
    none behind.
    """
    out = Path(out_dir)
    for name, value in (("pairs", pairs), ("held_out", held_out)):
        if value < 1:
            raise ConfigError(f"{name} = {value} must be at least 1")
    _check(out, overwrite)
    parent = out.resolve().parent
    parent.mkdir(parents=True, exist_ok=True)
    # A folder inside the temporary one, which only its user may read.
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
    """All files of `write_toyland`, relative to its folder."""
    names = ["README.txt"]
    for split in SPLITS:
        names += [f"{split}.en", f"{split}.de", f"{split}.align", f"sentiment/{split}.tsv"]
        names += [f"entities/{split}.conll", f"language/{split}.txt"]
    return tuple(names)


def _check(out: Path, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; expected a folder to write to")
    present = [name for name in file_names() if (out / name).exists()]
    if present and not overwrite:
        more = f" and {len(present) - 1} more" if len(present) > 1 else ""
        raise InputError(
            f"{out} already contains {present[0]}{more}; choose a different folder or overwrite"
        )


def _write_split(folder: Path, split: str, sentences: list[Sentence]) -> None:
    _write(folder / f"{split}.en", (one.source for one in sentences))
    _write(folder / f"{split}.de", (one.target for one in sentences))
    _write(folder / f"{split}.align", (one.pharaoh for one in sentences))
    labelled = (f"{one.sentiment}\t{one.source}" for one in sentences)
    _write(folder / "sentiment" / f"{split}.tsv", labelled)
    blocks = (
        "".join(f"{word}\t{tag}\n" for word, tag in zip(one.english, one.entities, strict=True))
        for one in sentences
    )
    _write(folder / "entities" / f"{split}.conll", blocks)
    _write(folder / "language" / f"{split}.txt", (one.source for one in sentences))


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _move(draft: Path, out: Path) -> None:
    """Rename `draft` to `out`; if `out` exists, move the files into it one by one."""
    if not out.exists():
        draft.rename(out)
        return
    for name in file_names():
        (out / name).parent.mkdir(exist_ok=True)
        os.replace(draft / name, out / name)
