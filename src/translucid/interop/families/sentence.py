"""Folders of sentence-transformers: an encoder, and in modules.json what makes one vector of a
text: pooling, and perhaps a norm to unit length."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, present, read_json, read_object
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan, transformer
from translucid.models.transformer_config import TransformerConfig

MODULES, SIZES = "modules.json", "sentence_bert_config.json"
KINDS = ("Transformer", "Pooling", "Normalize")
POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first",
           "pooling_mode_lasttoken": "last"}  # fmt: skip
MADE = {"mean": "the mean of its tokens' vectors", "first": "the vector of its first token",
        "last": "the vector of its last token"}  # fmt: skip
OTHERS = ("pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
          "pooling_mode_weightedmean_tokens")  # fmt: skip


def with_pooling(plan: Plan, folder: Path) -> Plan:
    """The plan of an encoder that gives hidden states, with the head of the folder."""
    assert isinstance(plan.config, TransformerConfig)
    where = str(folder / MODULES)
    head: dict[str, Any] = {"head": "embed", "normalise": False}
    for kind, path in _modules(folder):
        if kind not in KINDS or (kind == "Transformer" and path):
            raise InputError(
                f"{where}: a module {kind[:60]!r} at {path[:60]!r} cannot be computed here; "
                f"{', '.join(KINDS)} can, with the encoder in the folder itself"
            )
        if kind == "Pooling":
            head["pooling"] = _pooling(inside(folder, path, where))
        head["normalise"] |= kind == "Normalize"
    if "pooling" not in head:
        raise InputError(f"{where} names no module Pooling; copy the folder again, whole")
    max_length = _max_length(folder)
    limit = {} if max_length is None else {"max_length": max_length}
    note = f"the embedding of a text is {MADE[head['pooling']]}"
    note += ", brought to length 1" * head["normalise"]
    note += "" if max_length is None else f"; at most {max_length:,} tokens of a text are read"
    return replace(_embedding(plan, where, head), statistics=limit, notes=(*plan.notes, note))


def with_mean(plan: Plan, where: str) -> Plan:
    """The plan of an encoder that gives hidden states and says nothing of pooling."""
    note = f"it names no pooling: the embedding of a text is taken to be {MADE['mean']}"
    pooled = _embedding(plan, where, {"head": "embed", "pooling": "mean"})
    return replace(pooled, notes=(*plan.notes, note))


def _embedding(plan: Plan, where: str, head: dict[str, Any]) -> Plan:
    assert isinstance(plan.config, TransformerConfig)
    values = plan.config.model_dump(exclude={"kind"}) | head
    return replace(plan, task="embed", config=transformer(where, **values))


def _max_length(folder: Path) -> int | None:
    """Tokens of a text that such a model was made for."""
    if not present(folder / SIZES):
        return None
    file = inside(folder, SIZES, "a model")
    options = Options(read_object(file), str(file))
    return None if options.get("max_seq_length") is None else options.whole("max_seq_length")


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Kind and place of each."""
    modules = read_json(inside(folder, MODULES, "a model"))
    try:
        return [(str(m["type"]).rpartition(".")[2], str(m["path"])) for m in modules]
    except (TypeError, KeyError):
        raise InputError(f"{folder / MODULES} is no list of modules with type and path") from None


def _pooling(folder: Path) -> str:
    file = inside(folder, "config.json", "a module")
    options = Options(read_object(file), str(file))
    for name in OTHERS:
        options.must_be(name, False, "another pooling")
    chosen = [ours for name, ours in POOLING.items() if options.flag(name, False)]
    if len(chosen) != 1:
        raise InputError(
            f"{file}: {len(chosen)} ways of pooling at once; one of {', '.join(POOLING)} is wanted"
        )
    return chosen[0]
