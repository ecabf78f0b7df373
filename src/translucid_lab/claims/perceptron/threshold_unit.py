"""C1: what one threshold unit can compute."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch

from translucid.models import PerceptronConfig
from translucid.models.mlp import Perceptron
from translucid.see.pictures import Bars
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, decide

CORNERS = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
XOR = torch.tensor([0.0, 1.0, 1.0, 0.0])


TABLES = tuple("".join(bits) for bits in itertools.product("01", repeat=4))  # at CORNERS, in order
NAMED = {"0001": "AND", "0111": "OR", "0110": "XOR", "1001": "not XOR"}


def _one_unit(seed: int, quick: bool) -> Data:
    """All 16 functions of two bits: how many of the 4 corners one unit gets right, at the best of
    a grid of weights, and after learning by its own rule."""
    steps, epochs = (9, 100) if quick else (17, 1000)
    reached = _outputs_on_a_grid(steps)
    return {
        "grid": [max(sum(a == b for a, b in zip(table, row, strict=True)) for row in reached)
                 for table in TABLES],
        "learned": [_learned(table, epochs) for table in TABLES],
        "reached": len(reached),
    }  # fmt: skip


def _outputs_on_a_grid(steps: int) -> set[str]:
    unit = Perceptron(PerceptronConfig(inputs=2))
    weights = torch.linspace(-2, 2, steps).tolist()
    outputs = set()
    for first, second in itertools.product(weights, weights):
        unit.weight.copy_(torch.tensor([first, second]))
        for bias in torch.linspace(-3, 3, 3 * (steps - 1) // 2 + 1).tolist():
            unit.bias.fill_(bias)
            outputs.add("".join(str(int(y)) for y in unit(CORNERS)))
    return outputs


def _learned(table: str, epochs: int) -> int:
    """The most corners right at the end of an epoch."""
    wanted = torch.tensor([float(bit) for bit in table])
    unit, best = Perceptron(PerceptronConfig(inputs=2)), 0
    for _ in range(epochs):
        mistakes = unit.learn(CORNERS, wanted)
        best = max(best, int((unit(CORNERS) == wanted).sum()))
        if not mistakes:
            break
    return best


def _judge_one_unit(data: Sequence[Data]) -> Finding:
    (only,) = data[:1]
    best = {
        name: max(only["grid"][place], only["learned"][place])
        for table, name in NAMED.items()
        for place in (TABLES.index(table),)
    }
    whole = sum(max(pair) == 4 for pair in zip(only["grid"], only["learned"], strict=True))
    return decide(
        {
            "XOR stays below 4 corners": best["XOR"] < 4,
            "the same search finds AND and OR": True if best["AND"] == best["OR"] == 4 else None,
        },
        f"corners right of 4: AND {best['AND']}, OR {best['OR']}, XOR {best['XOR']}; "
        f"{whole} of the 16 functions of two bits are reached",
        {"corners": best, "functions": whole},
    )


def _draw_one_unit(data: Sequence[Data]) -> Bars:
    (only,) = data[:1]
    return Bars(
        "How many corners one threshold unit gets right, for all 16 functions of two bits",
        "corners right of 4, at the best weights of a grid",
        tuple(f"{table}  {NAMED.get(table, '')}".rstrip() for table in TABLES),
        np.array(only["grid"], dtype=float),
        note="Read 0110 as the outputs wanted at (0,0), (0,1), (1,0), (1,1).",
        marked=tuple(place for place, right in enumerate(only["grid"]) if right < 4),
    )  # fmt: skip


one_unit = Experiment(
    name="one-unit",
    title="What one threshold unit can compute",
    varies="the function wanted (all 16 of two bits), the weights, and learning by the rule",
    measures="the largest number of the 4 corners that are right",
    claims={
        "C1": Rule(
            "Supported if the grid of weights and the perceptron rule reach all 4 corners for AND "
            "and OR and never for XOR; refuted if XOR is reached; undecided if the search is too "
            "weak to find AND and OR.",
            _judge_one_unit,
            label="identity",
        )
    },
    run=_one_unit,
    draw=_draw_one_unit,
    seconds=2.0,
    seeds=1,
    references=("Minsky & Papert 1969, Perceptrons",),
)
