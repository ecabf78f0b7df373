"""Mapping files, which users write to describe weights without a configuration, such as a torch
state dict. Example:

task = "translate"
weights = "model.pt"                    # in the same folder; or `import WEIGHTS --mapping`

[model]                                 # keys of a recipe
kind = "transformer"
d_model = 128

[names]                                 # Translucid's name = name in the file
"encoder.layers.{i}.self_attention.qkv.*" = "enc.layers.{i}.self_attn.in_proj_*"

[source]                                # vocabulary; or [tokenizer] if there is only one
tokens = ["<pad>", "<s>", "</s>", "<unk>", "a", "b"]

In names, {i} is the number of a layer and * the last part (weight or bias), the same on both sides;
Translucid's norms have gain and shift where torch's have weight and bias. Names separated by | are
tensors to concatenate along the rows, or with `columns` along the columns.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from translucid.core.config import EXPLAINED, Config, key
from translucid.core.errors import ConfigError, InputError, nearest
from translucid.core.untrusted_files import inside, read_text
from translucid.data.tokenizers.files import MAX_FILE
from translucid.data.tokenizers.imported import Imported
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families.plan import ForeignModel, ImportPlan, Options, Origin
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.stored import TORCH, open_weights
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.rules import (
    Blocks,
    ByHead,
    Constant,
    LayoutChange,
    OneRow,
    Pairs,
    Place,
    Transpose,
    WeightRule,
    constant,
)
from translucid.interop.tokenizers import plain_vocabulary, sentencepiece
from translucid.interop.tokenizers.sentencepiece import read_model
from translucid.interop.tokenizers.specs import ReadTokenizers, damaged
from translucid.interop.tokenizers.tokenizer_config import by_name, note_of
from translucid.models.build import config_from
from translucid.models.sequence_config import SequenceConfig

LAYOUT = "the layout that a mapping file describes"
LARGEST_MAPPING = 1 << 20  # bytes: parsing TOML takes a second for each MB
MAX_NAMES = 2000  # lines in [names]; a line with {i} covers all layers
# Dotted keys such as a.b.c, whose parsing time grows with the square of the number of parts.
MANY_PARTS = re.compile(r"""(?:\.[ \t]*[\w"'-]{1,40}[ \t]*){100}""")
TOKENIZERS = ("tokenizer", "source", "target")
SHAPES = {  # shape and head of each task
    "translate": ("encoder-decoder", "language"), "language": ("decoder", "language"),
    "classify": ("encoder", "classify"), "tag": ("encoder", "tag"),
}  # fmt: skip
CONSTANTS: tuple[Constant, ...] = ("zeros", "identity")
NORM = re.compile(r"(^|[._])norm\.\*$")
OF_NORM = {"weight": "gain", "bias": "shift"}
STEPS = "transpose, one_row, blocks 0 2 1 3, by_head HEADS, halves HEADS"


class TokenizerTable(Config):
    """A table that lists the tokens of a model and names its special tokens."""

    tokens: list[str] | None = key(None, "tokens in the order of their ids")
    file: str | None = key(
        None, "file to read instead of `tokens`: tokenizer.json, a sentencepiece model, or a list"
    )
    split: Literal["space", "characters", "spaced"] = key(
        "space",
        "how to split text into listed tokens; spaced: into characters, dropping spaces",
    )
    pad: str | None = key(None, "token for padding")
    bos: str | None = key(None, "token that begins a text")
    eos: str | None = key(None, "token that ends a text")
    unk: str | None = key(None, "token for unknown words")
    mask: str | None = key(None, "token that replaces masked tokens")
    before: list[str] = key([], "tokens before every input text")
    after: list[str] = key([], "tokens after every input text")
    start: list[str] | None = key(None, "first tokens of the decoder; default: bos, or else eos")


class MappingFile(Config):
    """The keys of a mapping file, except its token tables."""

    task: Literal["translate", "language", "classify", "tag"] = key(..., "the task of the model")
    weights: str | None = key(None, "file with the weights, in the same folder")
    model: dict[str, Any] = key(..., "model keys as in a recipe, including kind")
    names: dict[str, Any] = key(..., "tensor names in the file, by Translucid's names")
    ignored: list[str] = key([], "tensors that are not weights; * matches anything")
    labels: list[str] = key([], "labels of a classifier or tagger, in the order of its outputs")


KEYS = ", ".join((*MappingFile.model_fields, *TOKENIZERS))


def read_mapping(path: Path) -> tuple[MappingFile, dict[str, TokenizerTable]]:
    """Read a mapping file, and its token tables by name."""
    text = read_text(path, LARGEST_MAPPING, "a mapping file is a short text")
    if MANY_PARTS.search(text):
        raise InputError(f"{path} contains a key with 100 parts or more; it is not a mapping file")
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not valid TOML ({str(error)[:200]}); correct it") from None
    if len(values) > len(MappingFile.model_fields) + len(TOKENIZERS) + EXPLAINED:
        raise InputError(
            f"{path} has {len(values):,} keys, more than the keys of a mapping file: {KEYS}; use "
            "only these"
        )
    names = values.get("names")
    if isinstance(names, dict) and len(names) > MAX_NAMES:
        raise InputError(
            f"{path}: {len(names):,} lines in [names], above the limit of {MAX_NAMES:,}; write "
            "{i} for the number of a layer"
        )
    tables = {name: values.pop(name) for name in TOKENIZERS if name in values}
    try:
        held = MappingFile(**values)
        read = {name: _table(name, table) for name, table in tables.items()}
    except ConfigError as error:
        raise InputError(f"{path}: {error}") from None
    if sorted(read) not in (["tokenizer"], ["source", "target"]):
        raise InputError(
            f"{path}: got the token tables {', '.join(sorted(read)) or '(none)'}; expected "
            "[tokenizer], or [source] and [target]"
        )
    return held, read


def _table(name: str, values: object) -> TokenizerTable:
    if not isinstance(values, dict):
        raise ConfigError(f"{name} = {str(values)[:60]!r} must be a table, [{name}]")
    table = TokenizerTable(**values)
    if (table.tokens is None) == (table.file is None):
        raise ConfigError(f"[{name}] must set either tokens or file")
    return table


def read(origin: Origin) -> ForeignModel:
    """Read a mapping file that names its weights file."""
    return read_with(origin.path)


def read_with(path: Path, weights: Path | None = None) -> ForeignModel:
    """Read a mapping file. weights: a torch or safetensors file; None: the file that the mapping
    names."""
    held, tables = read_mapping(path)
    if weights is None and held.weights is None:
        raise InputError(
            f'{path} names no weights; add weights = "FILE", a file in the same folder, '
            "or use translucid import WEIGHTS OUT --mapping MAPPING"
        )
    weights = (weights or inside(path.parent, held.weights, str(path))).resolve()
    with open_weights(weights) as file:
        begin = file.read(4)
    tensors = read_torch(weights) if begin in TORCH else read_safetensors(weights)
    described = Options({"mapping": held, "tables": tables}, str(path))
    return ForeignModel("mapping", path, described, tensors)


def plan(model: ForeignModel) -> ImportPlan:
    held: MappingFile = model.config.get("mapping")
    tables, where = model.config.get("tables"), model.where
    rules = [
        one
        for ours, theirs in held.names.items()
        for one in _rules(ours, theirs, model, f"{where}: names: {ours!r}")
    ]
    shape, head = SHAPES[held.task]
    values: dict[str, Any] = {"dropout": 0.0, **held.model, "shape": shape, "head": head}
    sizes = [len(table.tokens or ()) for table in tables.values()]
    reader = "decoder" if shape == "decoder" else "encoder"
    values["vocab"] = _rows(rules, model, f"{reader}.embedding.table.weight") or sizes[0]
    if shape == "encoder-decoder":
        values["target_vocab"] = _rows(rules, model, "decoder.embedding.table.weight")
    if head in ("classify", "tag"):
        values["outputs"] = len(held.labels)
    try:
        config = config_from(values)
    except ConfigError as error:
        raise InputError(f"{where}: model: {error}") from None
    if not isinstance(config, SequenceConfig):
        raise InputError(f"{where}: model.kind = {values['kind']!r}; write recurrent or "
                         "transformer")  # fmt: skip
    ignored = tuple(map(_wildcards, held.ignored))
    return ImportPlan(values["kind"], held.task, config, rules, ignored, tuple(held.labels))


def _wildcards(pattern: str) -> str:
    """Convert a pattern with stars to a regular expression that does not backtrack: backtracking
    could take forever."""
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    return first + "".join(f"(?>.*?{part})" for part in others[:-1]) + f".*{others[-1]}"


def _rows(rules: Sequence[WeightRule], model: ForeignModel, ours: str) -> int | None:
    """The number of rows that the embedding table `ours` has in the file; None unless it is stored
    as a single tensor."""
    for one in rules:
        if [place.name for place in one.ours] == [ours] and len(one.theirs) == 1:
            place = one.theirs[0]
            shape = model.tensors[place.name].shape
            return shape[int(Transpose() in place.steps)] if len(shape) == 2 else None
    return None


def _rules(ours: str, theirs: object, model: ForeignModel, where: str) -> list[WeightRule]:
    """The weight rules of one line, for each layer and each last part (weight, bias)."""
    names = ours.split("|")
    steps: tuple[LayoutChange, ...] = ()
    side_by_side: tuple[LayoutChange, ...] = ()
    match theirs:
        case {"constant": "zeros" | "identity" as kind, **rest} if not rest and len(names) == 1:
            return [constant(names[0].strip(), kind)]
        case {"from": str(source), **rest} if not set(rest) - {"steps", "columns"}:
            side_by_side = (Transpose(),) if rest.get("columns") is True else ()
            steps = (*_steps(rest.get("steps", []), where), *side_by_side)
        case str(source):
            pass
        case _:
            raise InputError(
                f"{where} = {str(theirs)[:100]}; expected a name, {{ from = name, steps = [...], "
                f"columns = true }} or {{ constant = {' or '.join(map(repr, CONSTANTS))} }}"
            )
    patterns = [part.strip() for part in source.split("|")]
    rules = []
    for number, last in _matches(patterns[0], model, where):
        places = [_place(pattern, number, last, steps, model) for pattern in patterns]
        own = [
            Place(_filled(name.strip(), number, _last(name.strip(), last)), steps=side_by_side)
            for name in names
        ]
        rules.append(WeightRule(tuple(places), tuple(own)))
    return rules


def _matches(pattern: str, model: ForeignModel, where: str) -> list[tuple[str, str]]:
    """The layer number and the last part of the name, for each tensor whose name matches a
    pattern."""
    escaped = re.escape(pattern)
    form = escaped.replace(r"\{i\}", r"(?P<i>\d+)", 1).replace(r"\{i\}", "(?P=i)")
    form = form.replace(r"\*", r"(?P<last>\w+)", 1)
    parts_of_names = []
    for name in model.tensors:
        if match := re.fullmatch(form, name):
            parts = match.groupdict()
            parts_of_names.append((parts.get("i") or "", parts.get("last") or ""))
    if not parts_of_names:
        close = nearest(pattern.replace("{i}", "0").replace("*", "weight"), model.tensors, 1)
        hint = f"; did you mean {close[0][:100]}?" if close else ""
        raise InputError(f"{where} = {pattern!r}, but no tensor has this name{hint}")
    return parts_of_names


def _filled(pattern: str, number: str, last: str) -> str:
    return pattern.replace("{i}", number).replace("*", last)


def _last(ours: str, last: str) -> str:
    return OF_NORM.get(last, last) if NORM.search(ours) else last


def _place(
    pattern: str, number: str, last: str, steps: tuple[LayoutChange, ...], model: ForeignModel
) -> Place:
    """A tensor of a rule, with its number of rows, so that the rule works in both directions."""
    place = Place(_filled(pattern, number, last), steps=steps)
    stored = model.tensors.get(place.name)
    if stored is None or not stored.shape:
        return place
    if OneRow() in steps:
        return place
    turned = steps.count(Transpose()) % 2 == 1 and len(stored.shape) == 2
    return replace(place, rows=stored.shape[int(turned)])


def _steps(steps: object, where: str) -> tuple[LayoutChange, ...]:
    made: list[LayoutChange] = []
    for step in steps if isinstance(steps, list) else [steps]:
        name, *numbers = str(step).split()
        values = [int(n) if n.isdigit() else -1 for n in numbers]
        match name, values:
            case "transpose", []:
                made.append(Transpose())
            case "one_row", []:
                made.append(OneRow())
            case "by_head", [heads] if heads > 0:
                made.append(ByHead(heads))
            case "halves", [heads] if heads > 0:
                made.append(Pairs(heads))
            case "blocks", [_, *_] if sorted(values) == list(range(len(values))):
                made.append(Blocks(tuple(values)))
            case _:
                raise InputError(
                    f"{where}: the step {str(step)[:60]!r} is unknown; supported: {STEPS}"
                )
    return tuple(made)


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    """Make tokenizers from lists of tokens, or from files next to the mapping file."""
    where, tables = model.path, model.config.get("tables")
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
        special = _special_tokens(pieces.names, table, what)
        made = sentencepiece.imported(pieces, special, str(path))
        return Tokenizer.imported(made), pieces.names
    text = read_text(path, MAX_FILE, "copy it again")
    if path.suffix == ".json" and text.lstrip().startswith("{"):
        held = Imported.read(text, str(path))
        return Tokenizer.imported(
            held.with_roles(_special_tokens(held.names, table, what))
        ), held.names
    return _plain(plain_vocabulary.read_lines(path), table, what)


def _plain(
    tokens: Sequence[str], table: TokenizerTable, what: str
) -> tuple[Tokenizer, Sequence[str]]:
    plain_vocabulary.check_tokens(tokens)
    special = _special_tokens(tokens, table, what)
    if special.unk is None:
        raise InputError(f"{what} has no token for unknown words; set one with unk = ...")
    spec = plain_vocabulary.plain_spec(tokens, table.split, special)
    return Tokenizer.imported(Imported(spec, special)), tokens


def _special_tokens(tokens: Sequence[str], table: TokenizerTable, what: str) -> SpecialTokens:
    ids = {token: i for i, token in reversed(list(enumerate(tokens)))}

    def number(name: str) -> int:
        if name not in ids:
            raise InputError(
                f"{what}: {name[:60]!r} is set as a special token, but is not in the vocabulary"
            )
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
