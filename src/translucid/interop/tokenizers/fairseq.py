"""The dictionaries beside a checkpoint of fairseq: dict.txt, or one for each language.

How texts are split into tokens is not known there: at spaces, or where all tokens are single
characters, between these."""

from dataclasses import replace
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, present
from translucid.interop.families.options import Options
from translucid.interop.tokenizers import vocabulary
from translucid.interop.tokenizers.roles import note_of
from translucid.interop.tokenizers.specs import ReadTokenizers

START = "</s>"  # what a decoder starts with
MASK = "<mask>"  # has a row behind the dictionary's, in models of masked tokens


def tokenizers(
    folder: Path, config: Options, *, rows: int, target_rows: int | None = None, shared: bool
) -> ReadTokenizers:
    """rows: of the embedding of the source. target_rows: not given: the same."""
    languages = _languages(config)
    if languages is None:
        return _masked(folder, rows)
    source, target = (
        _tokens(folder, f"dict.{language}.txt", most)
        for language, most in zip(languages, (rows, target_rows or rows), strict=True)
    )
    if shared and source != target:
        raise InputError(
            f"{folder}: the dictionaries differ, but the model has one embedding table; copy those "
            "that belong to it"
        )
    split = vocabulary.split_of([*source, *target])
    made = vocabulary.tokenizers(source, None if shared else target, split=split, start=START)
    files = dict(zip(("source", "target"), (f"dict.{language}.txt" for language in languages),
                     strict=True)) | {"tokenizer": f"dict.{languages[0]}.txt"}  # fmt: skip
    return ReadTokenizers(made.tokenizers, [*made.notes, _note(split)], "none", files)


def _masked(folder: Path, rows: int) -> ReadTokenizers:
    tokens = _tokens(folder, "dict.txt", rows)
    if MASK not in tokens and len(tokens) + 1 == rows:
        tokens.append(MASK)
    split = vocabulary.split_of(tokens)
    made = vocabulary.tokenizers(tokens, split=split).tokenizers["tokenizer"]
    assert made.special.frame is not None, "a plain vocabulary has one"
    frame = replace(made.special.frame, prefix=(0,))  # <s>, the first of every dictionary
    special = replace(made.special, frame=frame)
    notes = [note_of(special, tokens), _note(split)]
    read = {"tokenizer": made.with_special(special)}
    return ReadTokenizers(read, notes, "none", {"tokenizer": "dict.txt"})


def _languages(config: Options) -> tuple[str, str] | None:
    """Source and target, as training was told; None: there is one language."""
    groups = [config.get("args"), config.get("cfg")]
    if isinstance(groups[1], dict):
        groups += [groups[1].get(name) for name in ("task", "model")]
    for group in groups:
        if isinstance(group, dict):
            pair = group.get("source_lang"), group.get("target_lang")
            if isinstance(pair[0], str) and isinstance(pair[1], str):
                return pair[0], pair[1]
    return None


def _tokens(folder: Path, name: str, rows: int) -> list[str]:
    if not present(folder / name):
        raise InputError(
            f"{folder / name} is missing; copy the dictionaries that fairseq-preprocess wrote into "
            "the folder of the checkpoint"
        )
    return vocabulary.read_fairseq(inside(folder, name, "a dictionary"), rows)


def _note(split: vocabulary.Split) -> str:
    return "texts are split " + (
        "at spaces alone: fairseq keeps no splitter"
        if split == "space"
        else "between characters, spaces left out"
    )
