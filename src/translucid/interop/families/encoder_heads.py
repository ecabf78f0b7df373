"""Heads of encoders: the pooling that a sentence-transformers folder describes (modules.json), and
the function that a classifier applies to its logits (`problem_type` in config.json, or the
activation of a CrossEncoder)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, read_json, read_object
from translucid.interop.families.plan import ForeignModel, ImportPlan, Options, configured
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.label_scores import (
    FUNCTION,
    ONE,
    PROBLEM,
    REGRESSION,
    SEVERAL,
    Function,
    function_of,
)

MODULES, SIZES = "modules.json", "sentence_bert_config.json"
KINDS = ("Transformer", "Pooling", "Normalize")
POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first",
           "pooling_mode_lasttoken": "last"}  # fmt: skip
MADE = {"mean": "the mean of its tokens' vectors", "first": "the vector of its first token",
        "last": "the vector of its last token"}  # fmt: skip
OTHERS = ("pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
          "pooling_mode_weightedmean_tokens")  # fmt: skip


def with_pooling(plan: ImportPlan, model: ForeignModel) -> ImportPlan:
    """Add the pooling that the folder describes to the plan of an encoder that returns hidden
    states."""
    folder, where = model.folder, str(model.folder / MODULES)
    head: dict[str, Any] = {"head": "embed", "normalise": False}
    for kind, path in _modules(folder):
        if kind not in KINDS or (kind == "Transformer" and path):
            raise InputError(
                f"{where}: the module {kind[:60]!r} at {path[:60]!r} is not supported; supported: "
                f"{', '.join(KINDS)} (the Transformer in the folder itself, not in a subfolder)"
            )
        if kind == "Pooling":
            head["pooling"] = _pooling(inside(folder, path, where))
        head["normalise"] |= kind == "Normalize"
    if "pooling" not in head:
        raise InputError(f"{where} contains no Pooling module; copy the complete folder again")
    max_length = _max_length(model)
    limit = {} if max_length is None else {"max_length": max_length}
    note = f"the embedding of a text is {MADE[head['pooling']]}"
    note += ", normalised to length 1" * head["normalise"]
    note += "" if max_length is None else f"; at most {max_length:,} tokens of a text are read"
    return replace(_embedding(plan, where, head), statistics=limit, notes=(*plan.notes, note))


def with_mean(plan: ImportPlan, where: str) -> ImportPlan:
    """Add mean pooling to the plan of an encoder whose folder names no pooling."""
    note = f"the folder names no pooling, so the embedding of a text is {MADE['mean']}"
    pooled = _embedding(plan, where, {"head": "embed", "pooling": "mean"})
    return replace(pooled, notes=(*plan.notes, note))


def _embedding(plan: ImportPlan, where: str, head: dict[str, Any]) -> ImportPlan:
    assert isinstance(plan.config, TransformerConfig)
    values = plan.config.model_dump(exclude={"kind"}) | head
    return replace(plan, task="embed", config=configured(TransformerConfig, where, values))


def _max_length(model: ForeignModel) -> int | None:
    """The maximum number of tokens of a text, if the folder sets one."""
    file = model.find(SIZES)
    if file is None:
        return None
    options = Options(read_object(file), str(file))
    return None if options.get("max_seq_length") is None else options.whole("max_seq_length")


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Type and path of each module in modules.json."""
    modules = read_json(inside(folder, MODULES, "a model"))
    try:
        return [(str(m["type"]).rpartition(".")[2], str(m["path"])) for m in modules]
    except (TypeError, KeyError):
        raise InputError(f"{folder / MODULES} must list modules, each with type and path") from None


def _pooling(folder: Path) -> str:
    file = inside(folder, "config.json", "a module")
    options = Options(read_object(file), str(file))
    for name in OTHERS:
        options.must_be(name, False, "a different kind of pooling")
    chosen = [ours for name, ours in POOLING.items() if options.flag(name, False)]
    if len(chosen) != 1:
        raise InputError(
            f"{file} sets {len(chosen)} kinds of pooling; expected exactly one of "
            f"{', '.join(POOLING)}"
        )
    return chosen[0]


PROBLEMS = (REGRESSION, ONE, SEVERAL)
# Keys of a CrossEncoder's activation in sentence-transformers: since version 4, and before.
SECTION, KEY, OLD_KEY = (
    "sentence_transformers",
    "activation_fn",
    "sbert_ce_default_activation_function",
)
ACTIVATIONS: Mapping[str, Function] = {"Identity": "none", "Sigmoid": "sigmoid"}


def with_function(plan: ImportPlan, config: Options) -> ImportPlan:
    """Add to the plan of a classifier the function that is applied to its logits."""
    problem = config.get(PROBLEM)
    if problem is not None and problem not in PROBLEMS:
        config.refuse(PROBLEM, problem, f"one of {', '.join(PROBLEMS)}")
    kept: dict[str, Any] = {} if problem is None else {PROBLEM: problem}
    function, why = function_of(problem, len(plan.labels)), f"{PROBLEM} = {problem}"
    if problem is None:
        why = f"{PROBLEM} is not set, {len(plan.labels)} output{'s'[: len(plan.labels) - 1]}"
    section = config.part(SECTION)
    section.ignore("version")  # of sentence-transformers
    named = section.get(KEY, config.get(OLD_KEY))
    notes = []
    if named is not None:
        function, why = _activation(str(named), config), f"{KEY} = {named}"
        where = SECTION if section.get(KEY) is not None else OLD_KEY
        kept[where] = config.get(where)
        notes.append(
            "this model was made for pairs of texts (a sentence-transformers CrossEncoder), but is "
            "used with single texts"
        )
    if function == "softmax":
        return replace(plan, statistics=kept)
    shown = {"sigmoid": "the sigmoid of each output", "none": "each output unchanged"}[function]
    notes.append(f"label scores: {shown} ({why})")
    return replace(plan, statistics=kept | {FUNCTION: function}, notes=(*plan.notes, *notes))


def _activation(name: str, config: Options) -> Function:
    """The function that an activation class computes, such as torch.nn.modules.linear.Identity."""
    kind = name.rpartition(".")[2]
    if kind not in ACTIVATIONS:
        config.unsupported(f"the CrossEncoder activation {name[:80]!r}", ", ".join(ACTIVATIONS))
    return ACTIVATIONS[kind]


def config_of(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of config.json that set the function applied to a classifier's logits. They come from
    the config.json of the imported model, and an export contains them unchanged."""
    return {key: statistics[key] for key in (PROBLEM, SECTION, OLD_KEY) if key in statistics}
