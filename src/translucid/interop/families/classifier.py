"""What the outputs of an opened classifier mean: `problem_type` of config.json, and the activation
of a CrossEncoder of sentence-transformers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan
from translucid.tasks.label_scores import (
    FUNCTION,
    ONE,
    PROBLEM,
    REGRESSION,
    SEVERAL,
    Function,
    function_of,
)

PROBLEMS = (REGRESSION, ONE, SEVERAL)
# Where sentence-transformers writes the activation of a CrossEncoder: since version 4, and before.
SECTION, KEY, OLD_KEY = (
    "sentence_transformers",
    "activation_fn",
    "sbert_ce_default_activation_function",
)
ACTIVATIONS: Mapping[str, Function] = {"Identity": "none", "Sigmoid": "sigmoid"}


def with_function(plan: Plan, config: Options) -> Plan:
    """The plan of a classifier, with what is applied to its logits."""
    problem = config.get(PROBLEM)
    if problem is not None and problem not in PROBLEMS:
        raise InputError(
            f"{config.where}: {PROBLEM} = {str(problem)[:60]!r}, but one of "
            f"{', '.join(PROBLEMS)} is wanted"
        )
    kept: dict[str, Any] = {} if problem is None else {PROBLEM: problem}
    function, why = function_of(problem, len(plan.labels)), f"{PROBLEM} = {problem}"
    if problem is None:
        why = f"{PROBLEM} is not set, {len(plan.labels)} output{'s'[: len(plan.labels) - 1]}"
    section = config.part(SECTION)
    section.ignore("version")  # of sentence-transformers
    named = section.get(KEY, config.get(OLD_KEY))
    notes = []
    if named is not None:
        function, why = _activation(str(named), config.where), f"{KEY} = {named}"
        where = SECTION if section.get(KEY) is not None else OLD_KEY
        kept[where] = config.get(where)
        notes.append(
            "made for pairs of texts (a CrossEncoder of sentence-transformers); here it reads one "
            "text"
        )
    if function == "softmax":
        return replace(plan, statistics=kept)
    shown = {"sigmoid": "a sigmoid for each output", "none": "each output as it is"}[function]
    notes.append(f"scores of labels: {shown} ({why})")
    return replace(plan, statistics=kept | {FUNCTION: function}, notes=(*plan.notes, *notes))


def _activation(name: str, where: str) -> Function:
    """By the class that sentence-transformers names, such as torch.nn.modules.linear.Identity."""
    kind = name.rpartition(".")[2]
    if kind not in ACTIVATIONS:
        raise InputError(
            f"{where}: the activation {name[:80]!r} of a CrossEncoder cannot be computed here; "
            f"{', '.join(ACTIVATIONS)} can"
        )
    return ACTIVATIONS[kind]


def config_of(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of config.json again, as they were read."""
    return {key: statistics[key] for key in (PROBLEM, SECTION, OLD_KEY) if key in statistics}
