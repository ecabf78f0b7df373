"""Folders of sentence-transformers: an encoder, and in modules.json what makes one vector of a
text: pooling, and perhaps a norm to unit length."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from translucid.errors import InputError
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan, transformer
from translucid.models.transformer_config import TransformerConfig
from translucid.untrusted_files import inside, read_json, read_object

MODULES = "modules.json"
KINDS = ("Transformer", "Pooling", "Normalize")
POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first",
           "pooling_mode_lasttoken": "last"}  # fmt: skip
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
    values = plan.config.model_dump(exclude={"kind"}) | head
    return replace(plan, task="embed", config=transformer(where, **values))


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
