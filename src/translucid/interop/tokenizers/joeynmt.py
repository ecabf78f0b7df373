"""The vocabularies beside a checkpoint of JoeyNMT: src_vocab.txt and trg_vocab.txt, a token a line.

Texts that were split into subwords before are split at spaces; characters stand for themselves, and
▁ for a space.
"""

from collections.abc import Mapping
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, present
from translucid.interop.families.options import Options
from translucid.interop.tokenizers import vocabulary
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.interop.tokenizers.vocabulary import Split

SIDES = {"src": "src_vocab.txt", "trg": "trg_vocab.txt"}


def tokenizers(
    folder: Path, config: Options, rows: Mapping[str, int], *, shared: bool
) -> ReadTokenizers:
    """config: what config.yaml holds. rows: of the embedding of each side, source and target.
    shared: one embedding table for both."""
    lists = []
    for name, most in zip(SIDES.values(), (rows["source"], rows["target"]), strict=True):
        if not present(folder / name):
            raise InputError(
                f"{folder / name} is missing; copy src_vocab.txt and trg_vocab.txt into the folder "
                "of the checkpoint"
            )
        lists.append(vocabulary.read_lines(inside(folder, name, "a vocabulary"), most))
    source, target = lists
    splits = [_split(config, side) for side in SIDES]
    one = shared and source == target and splits[0] == splits[1]
    made = vocabulary.tokenizers(
        source, None if one else target, split=splits[0], target_split=splits[1]
    )
    note = "texts are split at spaces alone: split them into subwords before, as for training"
    files = dict(zip(("source", "target"), SIDES.values(), strict=True))
    files["tokenizer"] = files["source"]
    notes = [*made.notes, *[note] * ("space" in splits)]
    return ReadTokenizers(made.tokenizers, notes, "none", files)


def _split(config: Options, side: str) -> Split:
    data = config.part("data")
    level = data.part(side).get("level", data.get("level"))  # older files have one for both
    return "marked" if level == "char" else "space"
