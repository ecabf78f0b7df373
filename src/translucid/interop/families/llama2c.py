"""llama2.c models: a file with a few sizes, then all weights in a fixed order, without names; and
tokenizer.bin, the pieces of a sentencepiece BPE model with their scores.

The header of early files is seven numbers. Newer files begin with "24ka" and a version: 1 is
float32, 2 is int8 in groups with one scale each. Tensors are named as in llama2.c's Python model.
"""

import re
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.untrusted_files import open_regular
from translucid.data.tokenizers.imported import MOST_TOKENS
from translucid.data.tokenizers.pipelines import WORD_START
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families.llama import COMMON
from translucid.interop.families.plan import TIED, ForeignModel, ImportPlan, Options, Origin
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import (
    Cursor,
    MappedFile,
    ModelFile,
    StoredTensor,
    checked_size,
)
from translucid.interop.rules import rule
from translucid.interop.tokenizers import sentencepiece
from translucid.interop.tokenizers.sentencepiece import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    Piece,
    SentencePieceModel,
)
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.interop.tokenizers.tokenizer_config import note_of

LAYOUT = "llama2.c's format"
MAGIC = 0x616B3432
HEADER = 256  # bytes, in files with a version
KEYS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
LARGEST = {"n_layers": 10_000, "n_heads": 65_536, "n_kv_heads": 65_536}
Shape = tuple[int, ...]
NAMES = Names(
    {
        "embedding": "tok_embeddings",
        "final_norm": "norm",
        "attention_norm": "layers.{}.attention_norm",
        "query": "layers.{}.attention.wq",
        "key": "layers.{}.attention.wk",
        "value": "layers.{}.attention.wv",
        "output": "layers.{}.attention.wo",
        "feedforward_norm": "layers.{}.ffn_norm",
        "gate": "layers.{}.feed_forward.w1",
        "up": "layers.{}.feed_forward.w3",
        "down": "layers.{}.feed_forward.w2",
    }
)
MAX_FILE = 64 << 20  # bytes of a tokenizer.bin
UNK, BOS, EOS = range(3)
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def read(origin: Origin) -> ForeignModel:
    file = read_llama2c(origin.path)
    return ForeignModel("llama2c", origin.path, Options(file.metadata, str(origin.path)), file)


def plan(model: ForeignModel) -> ImportPlan:
    facts = model.config
    made = model.transformer(
        vocab=facts.whole("vocab_size"),
        d_model=facts.whole("dim"),
        heads=facts.whole("n_heads"),
        kv_heads=facts.whole("n_kv_heads"),
        layers=facts.whole("n_layers"),
        d_ff=facts.whole("hidden_dim"),
        activation="swiglu",
        norm_eps=1e-5,
        tied=facts.flag("shared_classifier"),
        positions="rotary",
        **COMMON,
    )
    rules = stack_rules(made, "decoder", made.layers, NAMES)
    if not made.tied:
        rules.append(rule("output.weight", "head.linear.weight"))
    notes = (TIED,) if made.tied else ()
    return ImportPlan("llama2.c", "language", made, rules, notes=notes)


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    """Read the tokenizer file next to the model."""
    rows = plan.rows("tokenizer")
    names = ("tokenizer.bin", f"tok{rows}.bin")
    for name in names:
        if path := model.find(name):
            return tokenizer(path, rows)
    raise InputError(
        f"{model.path}: its tokenizer is missing; put {' or '.join(names)} into the same folder"
    )


def read_llama2c(path: Path) -> ModelFile:
    """Read a model file: tensors by name, and as metadata the sizes, `version` and
    `shared_classifier`."""
    file = MappedFile(path)
    cursor = Cursor(file)
    version = 0
    if cursor.number("<I") == MAGIC:
        version = cursor.number("<i")
        if version not in (1, 2):
            raise InputError(
                f"{path} has llama2.c version {version}; supported: versions 0, 1 and 2; export "
                "the model again"
            )
    else:
        cursor.place = 0
    sizes = {key: cursor.number("<i") for key in KEYS}
    shared = sizes["vocab_size"] > 0 if version == 0 else bool(cursor.number("<B"))
    sizes["vocab_size"] = abs(sizes["vocab_size"])
    _check_sizes(path, sizes)
    metadata = sizes | {"version": version, "shared_classifier": shared}
    group = cursor.number("<i") if version == 2 else 0
    if version:
        cursor.place = HEADER
    layout = _first_layout if version == 0 else _later_layout
    tensors: dict[str, StoredTensor] = {}
    for name, shape in layout(sizes, shared):
        if version == 2 and len(shape) == 2:
            tensors[name], cursor.place = _grouped(file, cursor.place, shape, group, name)
        else:
            tensors[name] = file.tensor(cursor.place, torch.float32, shape, name)
            cursor.place += 4 * prod(shape)
    if cursor.place != file.size:
        raise InputError(
            f"{path}: a llama2.c model of these sizes ({_shown(sizes)}) has {cursor.place:,} "
            f"bytes, but the file has {file.size:,}; it is a different kind of file, or damaged"
        )
    return ModelFile(metadata, {n: t for n, t in tensors.items() if not n.startswith("freqs")})


def _check_sizes(path: Path, sizes: dict[str, int]) -> None:
    wrong = [key for key in KEYS if not 0 < sizes[key] <= LARGEST.get(key, 1 << 31)]
    if not wrong and (sizes["dim"] % sizes["n_heads"] or sizes["n_heads"] % sizes["n_kv_heads"]):
        wrong = ["n_heads"]
    if wrong:
        raise InputError(
            f"{path} is not a llama2.c model: read as a llama2.c header, it has the invalid size "
            f"{wrong[0]} = {sizes[wrong[0]]} ({_shown(sizes)})"
        )


def _shown(sizes: dict[str, int]) -> str:
    return ", ".join(f"{key} {size}" for key, size in sizes.items())


def _matrices(sizes: dict[str, int]) -> dict[str, Shape]:
    dim, hidden = sizes["dim"], sizes["hidden_dim"]
    kv = dim // sizes["n_heads"] * sizes["n_kv_heads"]
    return {
        "attention.wq": (dim, dim), "attention.wk": (kv, dim), "attention.wv": (kv, dim),
        "attention.wo": (dim, dim), "feed_forward.w1": (hidden, dim),
        "feed_forward.w2": (dim, hidden), "feed_forward.w3": (hidden, dim),
    }  # fmt: skip


def _of_layers(sizes: dict[str, int], part: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    for layer in range(sizes["n_layers"]):
        yield f"layers.{layer}.{part}.weight", shape


def _first_layout(sizes: dict[str, int], shared: bool) -> Iterator[tuple[str, Shape]]:
    dim, vocab = sizes["dim"], sizes["vocab_size"]
    yield "tok_embeddings.weight", (vocab, dim)
    yield from _of_layers(sizes, "attention_norm", (dim,))
    for part, shape in _matrices(sizes).items():
        if part == "feed_forward.w1":
            yield from _of_layers(sizes, "ffn_norm", (dim,))
        yield from _of_layers(sizes, part, shape)
    yield "norm.weight", (dim,)
    for table in ("freqs_cos", "freqs_sin"):  # rotary tables, which are skipped
        yield table, (sizes["max_seq_len"], dim // sizes["n_heads"] // 2)
    if not shared:
        yield "output.weight", (vocab, dim)


def _later_layout(sizes: dict[str, int], shared: bool) -> Iterator[tuple[str, Shape]]:
    dim, vocab = sizes["dim"], sizes["vocab_size"]
    yield from _of_layers(sizes, "attention_norm", (dim,))
    yield from _of_layers(sizes, "ffn_norm", (dim,))
    yield "norm.weight", (dim,)
    yield "tok_embeddings.weight", (vocab, dim)
    for part, shape in _matrices(sizes).items():
        yield from _of_layers(sizes, part, shape)
    if not shared:
        yield "output.weight", (vocab, dim)


def _grouped(
    file: MappedFile, start: int, shape: Shape, group: int, name: str
) -> tuple[StoredTensor, int]:
    """A tensor stored as int8 values followed by one scale per `group` values, and the offset of
    the next tensor."""
    count = checked_size(shape, f"{file.path}: {name}")
    if group <= 0 or count % group:
        raise InputError(
            f"{file.path}: {name} of shape {list(shape)} cannot be divided into groups of {group}"
        )
    scales = start + count
    end = scales + count // group * 4
    file.bytes(end, 0, name)

    def read() -> Tensor:
        values = file.view(start, torch.int8, (count // group, group), name)
        return (values * file.view(scales, torch.float32, (count // group, 1), name)).view(shape)

    return StoredTensor(
        shape, "int8", end - start, read, lambda: file.release(start, end - start)
    ), end


def tokenizer(path: Path, tokens: int | None = None) -> ReadTokenizers:
    """Read a tokenizer file. tokens: the expected number, from the model's header."""
    pieces = read_tokenizer(path)
    if tokens is not None and len(pieces) != tokens:
        raise InputError(
            f"{path} has {len(pieces):,} tokens, but the model has {tokens:,}; use the tokenizer "
            "that belongs to the model"
        )
    model = SentencePieceModel(pieces, "bpe", byte_fallback=True, one_space=False)
    # A story begins with <s>, and ends where the next one would begin.
    special = SpecialTokens(bos=BOS, eos=BOS, start=(BOS,), frame=Frame((BOS,)), ends=(EOS,))
    made = Tokenizer.imported(sentencepiece.imported(model, special, str(path)))
    return ReadTokenizers({"tokenizer": made}, [note_of(special, model.names)])


def read_tokenizer(path: Path) -> list[Piece]:
    try:
        with open_regular(path, MAX_FILE) as file:
            raw = file.read()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    pieces: list[Piece] = []
    place = 4  # after the length of the longest piece
    while place < len(raw):
        if place + 8 > len(raw) or len(pieces) == MOST_TOKENS:
            raise InputError(f"{path} ends in the middle of token {len(pieces)}; copy it again")
        score, size = struct.unpack_from("<fi", raw, place)
        place += 8
        if not 0 <= size <= len(raw) - place:
            raise InputError(
                f"{path}: token {len(pieces)} has {size} bytes, but only {len(raw) - place} are "
                "left; it is not a llama2.c tokenizer.bin, or damaged"
            )
        text = raw[place : place + size].decode("utf-8", errors="replace")
        kind = {UNK: UNKNOWN, BOS: CONTROL, EOS: CONTROL}.get(len(pieces), NORMAL)
        if _BYTE.fullmatch(text):
            kind = BYTE
        name = text.strip() if kind in (UNKNOWN, CONTROL) else text.replace(" ", WORD_START)
        pieces.append((name, score, kind))
        place += size
    if len(pieces) <= EOS:
        raise InputError(
            f"{path} has {len(pieces)} tokens, but a llama2.c tokenizer.bin has at least "
            f"{EOS + 1}; pass a different file"
        )
    return pieces
