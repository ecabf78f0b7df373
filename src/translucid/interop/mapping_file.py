"""A mapping file: what a user writes about weights that no tool describes, a torch state dict.

task = "translate"
weights = "model.pt"                    # beside the mapping file; or `import WEIGHTS --mapping`

[model]                                 # keys of a recipe
kind = "transformer"
d_model = 128

[names]                                 # ours = theirs
"encoder.layers.{i}.self_attention.qkv.*" = "enc.layers.{i}.self_attn.in_proj_*"

[source]                                # tokens and the roles of some; [tokenizer] if one
tokens = ["<pad>", "<s>", "</s>", "<unk>", "a", "b"]
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from translucid.core.config import EXPLAINED, Config, key
from translucid.core.errors import ConfigError, InputError
from translucid.core.untrusted_files import read_text

LARGEST = 1 << 20  # bytes: the reader of TOML takes a second for each MB
MOST_NAMES = 2000  # lines of [names]: layers are counted by {i}
# A key such as a.b.c, for which the reader's time grows with the square of its parts.
MANY_PARTS = re.compile(r"""(?:\.[ \t]*[\w"'-]{1,40}[ \t]*){100}""")
TOKENIZERS = ("tokenizer", "source", "target")


class TokenizerTable(Config):
    """Tokens of a model, and which of them have a role."""

    tokens: list[str] | None = key(None, "tokens in the order of their ids")
    file: str | None = key(
        None, "a file beside this one instead: tokenizer.json, a sentencepiece model, or a list"
    )
    split: Literal["space", "characters", "spaced"] = key(
        "space",
        "how a list's tokens are found in text: spaced are characters, and spaces are left out",
    )
    pad: str | None = key(None, "token that fills a batch up")
    bos: str | None = key(None, "token that begins a text")
    eos: str | None = key(None, "token that ends a text")
    unk: str | None = key(None, "token for what is not in the vocabulary")
    mask: str | None = key(None, "token that hides another")
    before: list[str] = key([], "tokens in front of every text that is read")
    after: list[str] = key([], "tokens behind every text that is read")
    start: list[str] | None = key(
        None, "tokens that a decoder starts with; not set: bos, or else eos"
    )


class MappingFile(Config):
    """All of a mapping file but its tables of tokens."""

    task: Literal["translate", "language", "classify", "tag"] = key(..., "what the model does")
    weights: str | None = key(None, "file with the weights, in the folder of this one")
    model: dict[str, Any] = key(..., "keys of a recipe, kind among them")
    names: dict[str, Any] = key(..., "our names, and theirs")
    ignored: list[str] = key([], "tensors that hold no weights; * stands for anything")
    labels: list[str] = key([], "labels of a classifier or tagger, in the order of its outputs")


KEYS = ", ".join((*MappingFile.model_fields, *TOKENIZERS))


def read_mapping(path: Path) -> tuple[MappingFile, dict[str, TokenizerTable]]:
    """The file, and its tables of tokens by name."""
    text = read_text(path, LARGEST, "a mapping file is a short text")
    if MANY_PARTS.search(text):
        raise InputError(f"{path}: a key of 100 parts and more; it is no mapping file")
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML ({str(error)[:200]}); mend it there") from None
    if len(values) > len(MappingFile.model_fields) + len(TOKENIZERS) + EXPLAINED:
        raise InputError(f"{path} has {len(values):,} keys; a mapping file has {KEYS}")
    names = values.get("names")
    if isinstance(names, dict) and len(names) > MOST_NAMES:
        raise InputError(
            f"{path}: {len(names):,} lines in [names], above the limit of {MOST_NAMES:,}; write "
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
            f"{path}: the tables of tokens are {', '.join(sorted(read)) or 'missing'}; write "
            "[tokenizer], or [source] and [target]"
        )
    return held, read


def _table(name: str, values: object) -> TokenizerTable:
    if not isinstance(values, dict):
        raise ConfigError(f"{name} = {str(values)[:60]!r}: must be a table, [{name}]")
    table = TokenizerTable(**values)
    if (table.tokens is None) == (table.file is None):
        raise ConfigError(f"{name}: must have either tokens or file")
    return table
