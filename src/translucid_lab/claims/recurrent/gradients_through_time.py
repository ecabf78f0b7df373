"""C26: gradients through 100 steps."""

from collections.abc import Sequence

from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.recurrent.cells import LSTMS, PLAIN, RNN, SHOWN, SPAN, reach_at_start
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    average,
    by_case,
    clearly,
    column,
    mean_of,
)

KEPT = -1  # log10: a tenth of it arrives


def _gradients(seed: int, quick: bool) -> Data:
    """log10 of the gradient by distance, before training, for every cell."""
    return {name: reach_at_start(seed, kind, 8 if quick else 64)
            for name, kind in {**PLAIN, **LSTMS}.items()}  # fmt: skip


def _farthest(data: Sequence[Data], name: str) -> Interval:
    return mean_of(column(data, name, SPAN - 1))


def _judge_lstm(data: Sequence[Data]) -> Finding:
    intervals = {name: _farthest(data, name) for name in LSTMS}
    cases = {name: clearly(interval.against(KEPT), "above") for name, interval in intervals.items()}
    summary = ", ".join(
        f"{name} {value}" for name, value in {**intervals, RNN: _farthest(data, RNN)}.items()
    )
    return by_case(
        cases, f"log10 of the gradient {SPAN - 1} steps back against the last step's: {summary}",
        "the forget gate's bias at the start",
        {name: interval.mean for name, interval in intervals.items()},
    )  # fmt: skip


def _draw_gradients(data: Sequence[Data]) -> Lines:
    return Lines(
        f"Gradient through {SPAN} steps, before training",
        Axis("steps back", tuple(map(str, SHOWN))), "gradient, against the last step's",
        {name: 10.0 ** average(data, name).numpy()[list(SHOWN)]
         for name in data[0]}, logarithmic=True,
    )  # fmt: skip


gradients_in_time = Experiment(
    name="gradients-in-time",
    title=f"The gradient through {SPAN} steps: RNN, GRU, and LSTM by forget bias",
    varies="the cell, the start of its weights, and an LSTM's forget bias",
    measures="the gradient of a loss at the end with respect to every input, before training",
    claims={
        "C26": Rule(
            "Holds for an LSTM if the gradient 99 steps back is clearly more than a tenth of the "
            "last step's; fails if clearly less. Supported if it holds for forget biases of 0, 1, "
            "3 and 5, refuted if for none, depends (on the bias) if for some.",
            _judge_lstm,
            label="simulation",
        )
    },
    run=_gradients,
    draw=_draw_gradients,
    seconds=3.0,
    references=(
        "https://doi.org/10.1162/neco.1997.9.8.1735",
        "https://proceedings.mlr.press/v37/jozefowicz15.html",
    ),
)
