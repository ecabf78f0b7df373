"""Which family of Hugging Face a model of ours can be. Each describes it as well as it can; what it
says is read again as if it were another tool's, and must be the same model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch

from translucid.core.errors import InputError
from translucid.interop.export.meaning import differences
from translucid.interop.export.rewrites import Weights, towards
from translucid.interop.families import bart, bert, gpt2, llama, neox, t5
from translucid.interop.families.huggingface_layout import plan_of_family
from translucid.interop.families.plan import Description, ForeignModel, ImportPlan
from translucid.interop.formats.stored import ModelFile, StoredTensor
from translucid.models.sequence_config import Shape
from translucid.models.transformer_config import TransformerConfig

Describe = Callable[[TransformerConfig, int], Description]
HOMES: Mapping[Shape, Mapping[str, Describe]] = {
    "decoder": {
        **{kind: partial(llama.to_huggingface, kind=kind) for kind in llama.ARCHITECTURES},
        "gpt_neox": neox.to_huggingface,
        "gpt2": gpt2.to_huggingface,
    },
    "encoder-decoder": {
        **{kind: partial(bart.to_huggingface, kind=kind)
           for kind in ("pegasus", "marian", "bart", "mbart", "m2m_100")},
        "t5": t5.to_huggingface,
    },
    "encoder": {
        kind: partial(bert.to_huggingface, kind=kind)
        for kind in ("bert", "roberta", "distilbert")
    },
}  # fmt: skip
OWN_TOKENIZER = ("qwen2",)  # transformers gives these their own class, whatever the folder says
LENGTH = 2048  # rows of a table of positions that here are computed


@dataclass(frozen=True)
class Home:
    """A family that fits: its description, its rules, and the weights as it wants them."""

    description: Description
    plan: ImportPlan
    weights: Weights


def home_of(weights: Weights, *, foreign: bool = False, length: int = LENGTH) -> Home:
    """The family that needs the fewest rewrites. foreign: its tokenizer came with a model. length:
    how far texts are meant to go."""
    tried = {
        name: _tried(weights, describe, length)
        for name, describe in HOMES[weights.config.shape].items()
        if foreign or name not in OWN_TOKENIZER
    }
    fitting = [home for home in tried.values() if isinstance(home, Home)]
    if fitting:
        return min(fitting, key=lambda home: len(home.weights.notes))
    refused = {name: keys for name, keys in tried.items() if isinstance(keys, dict)}
    nearest = min(refused, key=lambda name: len(refused[name]))
    elsewhere = "; ctranslate2 may" if weights.config.head == "language" else ""
    raise InputError(
        f"no family of Hugging Face computes what this model does: {nearest} is nearest, but "
        f"{reasons(refused[nearest])}{elsewhere}"
    )


def reasons(keys: Mapping[str, tuple[object, object]]) -> str:
    """In what two models differ; keys that only one of them has follow from others."""
    shown = {key: both for key, both in keys.items() if None not in both} or keys
    return ", ".join(f"{key} = {ours} (there: {theirs})" for key, (ours, theirs) in shown.items())


def _tried(
    weights: Weights, describe: Describe, length: int
) -> "Home | dict[str, tuple[object, object]]":
    """The home, or in what the family differs."""
    wrong: dict[str, tuple[object, object]] = {}
    for _ in range(3):  # what was rewritten may be described otherwise: a head that is untied
        description = describe(weights.config, length)
        try:
            plan = _plan(description, len(weights.tensors))
        except InputError as error:  # sizes that the family cannot have
            return {"sizes": (error, "others")}
        assert isinstance(plan.config, TransformerConfig)
        wrong = differences(weights.config, plan.config)
        if not wrong:
            return Home(description, plan, weights)
        weights = towards(weights, plan.config, length)
    return wrong


def _plan(description: Description, tensors: int) -> ImportPlan:
    """What the family's own reader makes of a description."""
    names = [*description.names, *(f"#{i}" for i in range(tensors))]
    # Each of another shape, so that none is read as a copy of another.
    stored = {name: StoredTensor((i,), "", 0, lambda: torch.empty(0)) for i, name in
              enumerate(names)}  # fmt: skip
    file = ModelFile({}, stored)
    return plan_of_family(ForeignModel.described(description.config, "config.json", file))
