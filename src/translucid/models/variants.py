"""The formulas of a network's points, as this network computes them.

The catalogue has a formula for each variant of a part. Which one holds follows from what the part
says of itself (`variant`: no bias, grouped heads, the name of its activation) and from the points
that the run has: where a query was rotated, the scores are made of the rotated one.
"""

from collections.abc import Collection
from dataclasses import replace

from torch import nn

from translucid.core.catalogue import BACKWARD_SYMBOLS, Variant, entry, formula


def variant_of(network: nn.Module, scope: str) -> Variant:
    """What the part that writes under this scope says of itself; the part is the last module on
    the way: a recurrent layer writes for its cells."""
    part = network
    for name in scope.split("."):
        below = getattr(part, name, None)
        if not isinstance(below, nn.Module):
            break
        part = below
    variant = getattr(part, "variant", None)
    own = variant if isinstance(variant, Variant) else Variant()
    if "backward" in scope.split("."):
        return replace(own, symbols={**own.symbols, **BACKWARD_SYMBOLS})
    return own


def formulas(network: nn.Module, points: Collection[str]) -> dict[str, str]:
    """The right-hand side of each point's formula, in LaTeX, of a run that has all these points."""
    siblings: dict[str, set[str]] = {}
    for name in points:
        scope, _, point = name.rpartition(".")
        siblings.setdefault(scope, set()).add(point)
    variants = {scope: variant_of(network, scope) for scope in siblings}

    def written(name: str) -> str:
        scope = name.rpartition(".")[0]
        own = variants[scope]
        return formula(entry(name), own.symbols, own.absent, siblings[scope] | set(own.words))

    return {name: written(name) for name in points}
