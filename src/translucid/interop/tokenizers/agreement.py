"""Check that the vocabularies, labels and embedding tables of a model have matching sizes. A
truncated vocabulary would otherwise shift or lose tokens without an error.

How many more rows than tokens an embedding table may have depends on the tool:

- none: fairseq, JoeyNMT, OpenNMT-py, CTranslate2, GGUF and llama2.c make the table from the
  vocabulary file, including filler tokens
- padding: up to the next multiple of 8, 16, ... or 128, at most one row in 100 (BERT's vocab.txt,
  Marian's vocab.json)
- some: rows reserved for later training (Hugging Face's other files: T5 has 32,128 rows for 32,100
  tokens, Qwen2 290 more, DeepSeek 2,385 more)
- any: the user lists the tokens in a mapping file

Fewer rows than tokens are an error, with one exception in Hugging Face's files: special tokens at
the end that have no role and that no text produces (bart-large-cnn has no row for <mask>).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from translucid.core.errors import InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers.specs import ReadTokenizers, Spare, check_room

LEAST, LARGEST = 8, 128  # rows are padded to a multiple of a power of 2 in this range
SOME = 1024  # allowed spare rows, or one in 20 if that is more


def check_vocabularies(read: ReadTokenizers, rows: Mapping[str, int], path: Path) -> list[str]:
    """Check the sizes of vocabularies, and return notes on rows without a token. rows: the number
    of rows of each tokenizer's embedding table."""
    notes = []
    for name, tokenizer in read.tokenizers.items():
        tokens, count = len(tokenizer), rows[name]
        file = read.files.get(name, "its tokenizer")
        check_room(f"{path}: {file}", tokens, count)
        if not _allowed(read.spare, count - tokens, count):
            raise InputError(
                f"{path}: {file} has {tokens:,} tokens, but the embedding table has {count:,} "
                f"rows{_wanted(read.spare)}; copy the complete vocabulary of "
                "these weights"
            )
        if tokens < count:
            side = "" if len(read.tokenizers) == 1 else f"{name}: "
            notes.append(f"{side}{count - tokens:,} of {count:,} rows of the embedding table have "
                         f"no token in {file} and are never generated")  # fmt: skip
    return notes


def without_unused(read: ReadTokenizers, rows: Mapping[str, int]) -> ReadTokenizers:
    """Remove the last special tokens of Hugging Face's tokenizers, if the embedding table has no
    rows for them and no text produces them."""
    tokenizers, notes = dict(read.tokenizers), list(read.notes)
    for name, tokenizer in read.tokenizers.items():
        if read.spare != "some" or tokenizer.source is None or len(tokenizer) <= rows[name]:
            continue
        if (shorter := tokenizer.source.first(rows[name])) is not None:
            lost = tokenizer.source.names[rows[name] :]
            more = f" and {len(lost) - 3:,} more" if len(lost) > 3 else ""
            notes.append(f"special tokens without a row in the embedding table, which this model "
                         f"cannot use: {', '.join(lost[:3])}{more}")  # fmt: skip
            tokenizers[name] = Tokenizer.imported(shorter)
    return read._replace(tokenizers=tokenizers, notes=notes)


def _allowed(spare: Spare, more: int, rows: int) -> bool:
    match spare:
        case "none":
            return more == 0
        case "padding":
            unit = min(rows & -rows, LARGEST)  # the largest power of 2 that divides the rows
            return more == 0 or (unit >= LEAST and more < unit and 100 * more <= rows)
        case "some":
            return more <= max(SOME, rows // 20)
        case "any":
            return True


def _wanted(spare: Spare) -> str:
    if spare == "none":
        return ""
    return ", more than padding explains" if spare == "padding" else ", far more than spare rows"


def check_labels(labels: Sequence[str], path: Path) -> None:
    """Raise an error for duplicate labels, which would make predictions ambiguous."""
    label, count = (Counter(labels).most_common(1) or [("", 0)])[0]
    if count > 1:
        places = [str(i) for i, name in enumerate(labels) if name == label]
        raise InputError(
            f"{path}: {count} outputs have the label {label[:60]!r} ({', '.join(places)}); "
            "give each output its own label (id2label in config.json)"
        )
