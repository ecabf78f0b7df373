"""The vocabularies inside a checkpoint of OpenNMT-py: lists of tokens, in objects of torchtext.

How texts are split into tokens is not known there: at spaces, or where all tokens are single
characters, between these, and spaces are left out (such texts are written with spaces between
their characters).
"""

from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.options import Options
from translucid.interop.tokenizers import vocabulary
from translucid.interop.tokenizers.specs import ReadTokenizers

MAX_DEPTH = 12
LIST = "itos"  # what torchtext calls the tokens by their ids


def tokenizers(config: Options, *, shared: bool) -> ReadTokenizers:
    """config: the whole checkpoint but its tensors. shared: one embedding table for both sides."""
    held = config.get("vocab")
    if isinstance(held, list):  # pairs of a name and a vocabulary, in the oldest files
        held = {str(pair[0]): pair[1] for pair in held if isinstance(pair, list) and len(pair) == 2}
    sides = held if isinstance(held, dict) else {}
    source, target = (_tokens(sides.get(side)) for side in ("src", "tgt"))
    if source is None or target is None:
        raise InputError(
            f"{config.where}: its vocabularies (src and tgt) are missing; copy the file again, "
            "whole"
        )
    splits = (vocabulary.split_of(source), vocabulary.split_of(target))
    start = sides.get("decoder_start_token")
    made = vocabulary.tokenizers(
        source,
        None if shared and source == target else target,
        split=splits[0],
        target_split=splits[1],
        start=start if isinstance(start, str) and start in target else None,
        source_end=False,
    )
    where = {"space": "at spaces alone: OpenNMT-py keeps no splitter",
             "spaced": "between characters, spaces left out"}  # fmt: skip
    named = {f"{side}: texts are split {where[split]}"
             for side, split in zip(("source", "target"), splits, strict=True)}  # fmt: skip
    files = {
        name: f"its vocabulary ({side})"
        for name, side in {"tokenizer": "src", "source": "src", "target": "tgt"}.items()
    }
    return ReadTokenizers(made.tokenizers, [*made.notes, *sorted(named)], "none", files)


def _tokens(value: Any, depth: int = 0) -> list[str] | None:
    """The first list of tokens within a vocabulary's objects."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, list) and value and all(isinstance(token, str) for token in value):
        return value if depth == 0 else None  # elsewhere it may be names of anything
    if isinstance(value, dict):
        inside = value.get(LIST)
        if isinstance(inside, list) and all(isinstance(token, str) for token in inside):
            return inside
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        tokens = _tokens(inner, depth + 1)
        if tokens is not None:
            return tokens
    return None
