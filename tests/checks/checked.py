"""Toyland data for each task, a small network of each family, tasks with deliberate mistakes."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from translucid.models import Network, build
from translucid.runs.checks import startup
from translucid.runs.recipe import recipe
from translucid.runs.recipe.examples import Examples, Prepared, load_examples, prepare
from translucid.tasks.findings import Finding

SMALL = {"d_model": 16, "layers": 1}
TRANSFORMERS = {
    f"{positions} {placement}": {"positions": positions, "placement": placement}
    for positions in ("sinusoidal", "learned", "rotary", "alibi", "none")
    for placement in ("pre", "post")
} | {
    "rms swiglu": {"norm": "rms", "activation": "swiglu"},
    "batch norm": {"norm": "batch"},
    "no norm": {"norm": "none"},
    "grouped": {"heads": 4, "kv_heads": 2},
    "window": {"window": 3},
    "untied": {"tied": False},
}
RECURRENT = {
    f"{cell} {attention}": {"kind": "recurrent", "cell": cell, "hidden": 16, "attention": attention}
    for cell in ("lstm", "gru", "rnn", "rnn_relu")
    for attention in ("none", "additive", "dot")
}
FAMILIES: dict[str, dict[str, Any]] = {
    **{name: SMALL | {"heads": 2} | options for name, options in TRANSFORMERS.items()},
    **{name: SMALL | options for name, options in RECURRENT.items()},
}
TASKS = ("translate", "language", "classify", "tag")
# Only recurrent encoder-decoders have attention; for other tasks, it would be the same model again.
PAIRS = [
    (task, family)
    for task in TASKS
    for family in FAMILIES
    if task == "translate" or not family.endswith((" additive", " dot"))
]


@cache
def world(task: str, joint: bool = True) -> tuple[Examples, Prepared, list[Any]]:
    chosen = told(task, joint=joint)
    examples = load_examples(chosen, lambda line: None)
    prepared = prepare(chosen, examples)
    items = prepared.task.training_items(examples.train, chosen.data)
    return examples, prepared, items


def told(task: str, model: dict[str, Any] | None = None, joint: bool = True) -> recipe.Recipe:
    return recipe.parse(
        {
            "task": {"kind": task, "label_smoothing": 0.0 if task == "regress" else 0.1},
            "data": {"toyland": 200, "max_length": 20},
            "tokenizer": {"kind": "word", "joint": joint},
            "model": model or {},
        }
    )


def network_for(task: str, model: dict[str, Any], joint: bool = True) -> Network:
    torch.manual_seed(1)
    sizes = world(task, joint)[1].sizes
    return build(told(task, model, joint).model_config_for(sizes=sizes))


def by_name(found: Sequence[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in found}


def look(task: Any, network: Network, name: str) -> dict[str, Finding]:
    """Run all startup checks on a network with the data of task `name`. task: the test's own task,
    or None."""
    examples, prepared, items = world(name)
    return by_name(startup.of_model(task or prepared.task, network, items, examples.train))


TINY: dict[str, Any] = SMALL | {"heads": 2}


def planted(kind: type, name: str) -> Any:
    """The task `name` as an instance of the class `kind`, which has a deliberate mistake."""
    healthy = world(name)[1].task
    task = object.__new__(kind)
    task.__dict__.update(vars(healthy))
    return task
