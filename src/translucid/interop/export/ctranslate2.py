"""Export a model to a CTranslate2 folder: model.bin, config.json, vocabularies and a tokenizer.
CTranslate2 does not read the tokenizer, but its users need it."""

from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers.special_tokens import Frame
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.export.rewrites import (
    LENGTH,
    Weights,
    differences,
    placeholder,
    reasons,
    with_table,
    with_zeros,
)
from translucid.interop.export.tokenizer_files import (
    reading,
    write_json,
    write_tokenizer,
    writing,
)
from translucid.interop.families import ctranslate2
from translucid.interop.families.ctranslate2 import HEAD, TABLES, rules_of, scalars_of
from translucid.interop.families.plan import ForeignModel
from translucid.interop.formats.ctranslate2_file import write_ctranslate2
from translucid.interop.formats.stored import ModelFile
from translucid.interop.generation_config import FILE, as_call, as_theirs, search_of, searched
from translucid.interop.rules import to_theirs
from translucid.interop.tokenizers.tokenizer_folder import TARGET
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.norms import EPSILON
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS

SPECS = {"encoder-decoder": ("TransformerSpec", 7), "decoder": ("TransformerDecoderSpec", 8)}


def write_folder(held: Bundle, weights: Weights, folder: Path) -> list[str]:
    """Write all files into the folder, and return notes on changes to the weights."""
    weights = _rewritten(weights)
    c = weights.config
    _check(c)
    spec, revision = SPECS[c.shape]
    scalars, tensors = scalars_of(c), to_theirs(rules_of(c), weights.tensors)
    aliases = _aliases(c)
    config = {"layer_norm_epsilon": c.norm_eps or EPSILON[c.norm]} | _tokens(held)
    if c.kv_heads not in (None, c.heads):
        config["multi_query_attention"] = True
    stored = {name: placeholder(tuple(tensor.shape)) for name, tensor in tensors.items()}
    stored |= {alias: stored[name] for alias, name in aliases.items()}
    metadata: dict[str, Any] = {name: value.item() for name, value in scalars.items()}
    metadata |= {"spec": spec, "revision": revision}
    plan = ctranslate2.plan(
        ForeignModel.described(metadata | config, "CTranslate2", ModelFile(metadata, stored))
    )
    assert isinstance(plan.config, TransformerConfig)
    if wrong := differences(c, plan.config):
        raise InputError(
            f"CTranslate2 cannot compute this model: {reasons(wrong)}; try huggingface"
        )
    write_ctranslate2(folder / "model.bin", spec, revision, scalars, tensors, aliases)
    write_json(folder / "config.json", config)
    _write_vocabularies(held, c, folder)
    if search_of(held):  # CTranslate2 ignores this file; Translucid's import reads it
        write_json(folder / FILE, as_theirs(held))
    return [
        f"written as {spec}", *weights.notes,
        *searched(held, f"pass them in each call: translate_batch(..., {as_call(held)})"),
    ]  # fmt: skip


def _rewritten(weights: Weights) -> Weights:
    if weights.config.positions in (
        "sinusoidal",
        "none",
    ):  # else it adds its own sinusoids
        weights = with_table(weights, LENGTH)
    elif weights.config.positions == "learned" and weights.config.first_position:
        first = weights.config.first_position
        tables = {
            name: table[first:]
            for name, table in weights.tensors.items()
            if name.endswith("positions.table")
        }
        note = f"{first} unused rows before the first position were removed"
        weights = weights.changed(tables, note, first_position=0)
    if weights.config.norm == "layer" and not weights.config.norm_bias:
        weights = with_zeros(weights, "norm_bias")
    return weights


def _check(c: TransformerConfig) -> None:
    """Raise an error with the reason if CTranslate2 cannot express the model."""
    if c.shape not in SPECS or c.head != "language":
        raise InputError(
            f"CTranslate2 supports translation and language models, but this model is an {c.shape} "
            f"with head {c.head}; export to huggingface"
        )
    if c.positions == "alibi" and c.shape == "encoder-decoder":
        raise InputError(
            "CTranslate2 supports ALiBi only in language models, not in encoders; train with "
            "model.positions = rotary or sinusoidal"
        )
    if c.positions == "alibi" and c.heads & (c.heads - 1):
        raise InputError(
            f"CTranslate2 uses different ALiBi slopes if the number of heads ({c.heads}) is not a "
            "power of 2; train with model.positions = rotary, or with model.heads = 4 or 8"
        )


def _aliases(c: TransformerConfig) -> dict[str, str]:
    """Second names of the model's tensors. The keys are the second names; the values are the names
    under which the tensors are stored."""
    shared = c.shape == "encoder-decoder" and c.target_vocab is None
    table = TABLES["encoder"] if shared else TABLES["decoder"]
    aliases = {TABLES["decoder"]: table} if shared else {}
    return aliases | ({HEAD: table} if c.tied else {})


def _tokens(held: Bundle) -> dict[str, Any]:
    """Keys of config.json: the special tokens, and which of them CTranslate2 adds to a source."""
    tokenizer = writing(held)
    names, special = list(tokenizer.vocab), tokenizer.special
    made: dict[str, Any] = {
        f"{role}_token": "" if i is None else names[i]
        for role, i in (("unk", special.unk), ("bos", special.bos), ("eos", special.eos))
    }
    if held.task != "translate":
        return made
    frame = reading(held).frame(*TASKS[held.task].around)
    source = reading(held).special
    return made | {
        "decoder_start_token": names[tokenizer.start_ids[0]],
        "add_source_bos": frame.prefix == (source.bos,),
        "add_source_eos": frame.suffix == (source.eos,),
    }


def _write_vocabularies(held: Bundle, c: TransformerConfig, folder: Path) -> None:
    first = reading(held)
    if TARGET in held.tokenizers:
        second = held.tokenizers[TARGET]
        write_json(folder / "source_vocabulary.json", _names(first, c.vocab))
        write_json(folder / "target_vocabulary.json", _names(second, c.target_vocab or c.vocab))
        write_tokenizer(second, Frame(), folder / TARGET)
    else:
        name = "shared_vocabulary" if held.task == "translate" else "vocabulary"
        write_json(folder / f"{name}.json", _names(first, c.vocab))
    # CTranslate2 itself adds the end token of a source, but no token before a prompt.
    frame = Frame() if held.task == "translate" else first.frame(*TASKS[held.task].around)
    write_tokenizer(first, frame, folder)


def _names(tokenizer: Tokenizer, rows: int) -> list[str]:
    """The token of every row of the embedding table, with filler names for unused rows."""
    names = list(tokenizer.vocab)
    return [*names, *(f"<unused{i}>" for i in range(len(names), rows))]
