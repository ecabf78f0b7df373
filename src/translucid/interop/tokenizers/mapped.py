"""The tokenizers that a mapping file describes: lists of tokens, or files of other tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, read_text
from translucid.data.tokenizers.files import MAX_FILE
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.mapping_file import TokenizerTable
from translucid.interop.tokenizers import sentencepiece, vocabulary
from translucid.interop.tokenizers.roles import by_name, note_of
from translucid.interop.tokenizers.sentencepiece_proto import read_model
from translucid.interop.tokenizers.specs import ReadTokenizers, damaged


def tokenizers(tables: Mapping[str, TokenizerTable], where: Path) -> ReadTokenizers:
    """where: the mapping file, beside which the files are."""
    made: dict[str, Tokenizer] = {}
    notes = []
    for name, table in tables.items():
        with damaged(f"{where}: [{name}]"):
            tokenizer, tokens = _tokenizer(table, where, f"{where}: [{name}]")
        made[name] = tokenizer
        notes.append(note_of(tokenizer.special, tokens, "" if name == "tokenizer" else name))
    files = {name: f"[{name}] of {where.name}" for name in made}
    return ReadTokenizers(made, notes, "any", files)


def _tokenizer(table: TokenizerTable, where: Path, what: str) -> tuple[Tokenizer, Sequence[str]]:
    if table.tokens is not None:
        return _plain(table.tokens, table, what)
    path = inside(where.parent, table.file, str(where))
    if path.suffix in (".model", ".spm"):
        pieces = read_model(path)
        names = sentencepiece.names(pieces)
        return Tokenizer.imported(
            sentencepiece.imported(pieces, _roles(names, table, what), str(path))
        ), names
    text = read_text(path, MAX_FILE, "copy it again")
    if path.suffix == ".json" and text.lstrip().startswith("{"):
        held = Imported.read(text, str(path))
        return Tokenizer.imported(held.with_roles(_roles(held.names, table, what))), held.names
    return _plain(vocabulary.read_lines(path), table, what)


def _plain(
    tokens: Sequence[str], table: TokenizerTable, what: str
) -> tuple[Tokenizer, Sequence[str]]:
    vocabulary.check_tokens(tokens)
    special = _roles(tokens, table, what)
    if special.unk is None:
        raise InputError(
            f"{what}: no token stands for what is not in the vocabulary; name one with unk = ..."
        )
    spec = vocabulary.plain_spec(tokens, table.split, special)
    return Tokenizer.imported(Imported(spec, special)), tokens


def _roles(tokens: Sequence[str], table: TokenizerTable, what: str) -> SpecialTokens:
    ids = {token: i for i, token in reversed(list(enumerate(tokens)))}

    def number(name: str) -> int:
        if name not in ids:
            raise InputError(f"{what}: {name[:60]!r} has a role, but is none of its tokens")
        return ids[name]

    def role(name: str, token: str | None) -> int | None:
        return by_name(tokens, name) if token is None else number(token)

    pad, bos, eos = (role(name, getattr(table, name)) for name in ("pad", "bos", "eos"))
    usual = next(((i,) for i in (bos, eos) if i is not None), ())
    return SpecialTokens(
        pad=pad,
        bos=bos,
        eos=eos,
        unk=role("unk", table.unk),
        mask=role("mask", table.mask),
        start=usual if table.start is None else tuple(map(number, table.start)),
        frame=Frame(tuple(map(number, table.before)), tuple(map(number, table.after))),
        never=() if pad is None or pad == eos else (pad,),
    )
