"""Read plain vocabularies: lists of tokens for texts that are already split into tokens
(CTranslate2, fairseq, OpenNMT, JoeyNMT)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from translucid.core.errors import InputError
from translucid.core.untrusted_files import read_json, read_text
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.pipelines import WORD_START
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.tokenizers.specs import (
    ReadTokenizers,
    check_room,
    replace_text,
    spec_text,
    split_on,
)
from translucid.interop.tokenizers.tokenizer_config import NAMES, by_name, note_of

MAX_FILE = 128 << 20
# spaced: split into characters, dropping spaces; marked: into characters, with ▁ for a space
Split = Literal["space", "characters", "spaced", "marked"]
WAYS: Mapping[Split, str] = {
    "space": "at spaces only: {} stores no tokenizer, so first tokenize texts as for training",
    "characters": "between characters",
    "spaced": "between characters, without spaces",
    "marked": "between characters, with ▁ for a space",
}
SPECIAL = {name for names in NAMES.values() for name in names}


def tokenizers(
    source: Sequence[str],
    target: Sequence[str] | None = None,
    *,
    split: Split = "space",
    target_split: Split | None = None,
    start: str | None = None,
    source_end: bool = True,
    tool: str = "the tool",
    files: Sequence[str] = ("its vocabulary", "its vocabulary"),
) -> ReadTokenizers:
    """Make one tokenizer, or with `target` separate tokenizers for source and target. split,
    target_split: how texts are split; target_split defaults to split. start: the first token of a
    decoder; by default, the beginning-of-text token. source_end: whether a source ends with the end
    token. tool, files: where the tokens come from, for messages."""
    sides = {"tokenizer": source} if target is None else {"source": source, "target": target}
    made: dict[str, Tokenizer] = {}
    notes: list[str] = []
    for side, tokens in sides.items():
        special = _roles(tokens, None if side == "source" else start,
                         end=source_end and side != "target")  # fmt: skip
        own = target_split if side == "target" and target_split else split
        made[side] = Tokenizer.imported(Imported(plain_spec(tokens, own, special), special))
        notes.append(note_of(special, tokens, "" if target is None else side))
    ways = dict.fromkeys((split, target_split or split) if target is not None else (split,))
    for side, way in zip(("source ", "target ") if len(ways) > 1 else ("",), ways, strict=True):
        notes.append(f"{side}texts are split {WAYS[way].format(tool)}")
    return ReadTokenizers(made, notes, "none", dict(zip(sides, files, strict=False)))


def read_lines(path: Path, rows: int | None = None) -> list[str]:
    """Read one token per line, or a JSON list. rows: the maximum number of tokens, if known."""
    if path.suffix == ".json":
        tokens = read_json(path)
        if not isinstance(tokens, list) or not all(isinstance(t, str) for t in tokens):
            raise InputError(f"{path} must be a list of tokens")
        check_room(path, len(tokens), rows)
        return tokens
    lines = read_text(path, MAX_FILE, "save it as UTF-8").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    check_room(path, len(lines), rows)
    return [line.removesuffix("\r") for line in lines]


def read_fairseq(path: Path, rows: int | None = None) -> list[str]:
    """Read dict.txt: tokens with their counts. fairseq puts four special tokens before those of the
    file."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>"]
    for number, line in enumerate(read_lines(path, rows), start=1):
        fields = line.removesuffix(" #fairseq:overwrite").rsplit(" ", 1)
        if len(fields) != 2 or not fields[1].isdigit():
            raise InputError(f"{path}, line {number}: {line[:80]!r}; expected a token and its "
                             "count")  # fmt: skip
        tokens.append(fields[0])
    return tokens


def split_of(tokens: Sequence[str]) -> Split:
    """How texts are split: into characters if all tokens are single characters, else at spaces."""
    single = all(len(token) == 1 for token in tokens if token.lower() not in SPECIAL)
    return "spaced" if single else "space"


def check_tokens(tokens: Sequence[str]) -> None:
    if len(set(tokens)) < len(tokens):
        twice = Counter(tokens).most_common(1)[0][0]
        raise InputError(f"the vocabulary contains {twice!r} twice; each token must be unique")


def _roles(tokens: Sequence[str], start: str | None, *, end: bool) -> SpecialTokens:
    check_tokens(tokens)
    pad, bos, eos, unk, mask = (by_name(tokens, role) for role in NAMES)
    if start is not None and start not in tokens:
        raise InputError(f"start = {start!r} is not in the vocabulary")
    first = bos if start is None else tokens.index(start)
    begins = next((i for i in (first, eos) if i is not None), None)
    return SpecialTokens(
        pad=pad, bos=bos, eos=eos, unk=unk, mask=mask,
        start=() if begins is None else (begins,),
        frame=Frame((), (eos,) if end and eos is not None else ()),
        never=() if pad in (None, eos) else (pad,),
    )  # fmt: skip


def plain_spec(tokens: Sequence[str], split: Split, special: SpecialTokens) -> str:
    """The text of a tokenizer.json for a list of tokens."""
    roles = (special.pad, special.bos, special.eos, special.mask)
    unk = None if special.unk is None else tokens[special.unk]
    if unk is None:
        raise InputError("the vocabulary has no <unk> for unknown words; add one")
    model = {
        "type": "WordLevel", "unk_token": unk,
        "vocab": {token: i for i, token in enumerate(tokens)},
    }  # fmt: skip
    at_spaces, between = [{"type": "WhitespaceSplit"}], [split_on(r"[\s\S]")]
    splits = {"space": at_spaces, "spaced": at_spaces + between}.get(split, between)
    decoders = [] if split == "space" else [{"type": "Fuse"}]
    normalizers = [replace_text(" ", WORD_START)] if split == "marked" else []
    control = {i: tokens[i] for i in roles if i is not None}
    return spec_text(model, normalizers=normalizers, pre_tokenizers=splits, decoders=decoders,
                     control=control)  # fmt: skip
