"""How far back recurrent cells reach: recall by distance (C21, C27), gradients through 100 steps
(C26).
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid import Trace
from translucid.models import Network, RecurrentEncoder
from translucid.parts import CellName
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, Interval
from translucid_lab.claims.sequence_tasks import SYMBOLS, accuracy, recall, recurrent_net, train
from translucid_lab.engine.intervals import clearly, difference_of, mean_of, median_of
from translucid_lab.engine.verdict import all_hold, average, by_case, column, has_learned

# A cell, its forget bias, and whether it has torch's uniform initialisation. The library's own has
# orthogonal recurrent weights, which preserve norms.
Kind = tuple[CellName, float, bool]

RNN, GRU = "RNN, orthogonal", "GRU, orthogonal"
RNN_UNIFORM, GRU_UNIFORM = "RNN, uniform", "GRU, uniform"
PLAIN: dict[str, Kind] = {
    RNN_UNIFORM: ("rnn", 1.0, True),
    RNN: ("rnn", 1.0, False),
    GRU_UNIFORM: ("gru", 1.0, True),
    GRU: ("gru", 1.0, False),
}
FORGET_BIASES = (0, 1, 3, 5)
LSTMS: dict[str, Kind] = {
    f"LSTM, forget bias {bias}": ("lstm", float(bias), False) for bias in FORGET_BIASES
}
SPAN = 100  # steps
SHOWN = range(0, SPAN, 9)  # in the picture: the first and the last step among them


def made(seed: int, kind: Kind, hidden: int = 32) -> Network:
    cell, forget_bias, uniform = kind
    net = recurrent_net(
        seed, cell, vocab=SYMBOLS, outputs=SYMBOLS, hidden=hidden, forget_bias=forget_bias
    )
    if uniform:
        cast(RecurrentEncoder, net.encoder).recurrent.fused.reset_parameters()
    return net


def reach(net: Network, ids: Tensor, targets: Tensor) -> list[float]:
    """log10 of the norm of the final loss's gradient with respect to each input, relative to the
    nearest input. The nearest input comes first. Computed in float64, since 1e-46 underflows in
    float32."""
    trace = Trace("encoder.embedding.lookup")
    logits = net.double()(ids, trace=trace)
    loss = F.cross_entropy(logits, targets, reduction="sum")
    (slopes,) = torch.autograd.grad(loss, trace["encoder.embedding.lookup"])
    sizes = slopes.norm(dim=-1).mean(dim=0).flip(0)  # (length,)
    return [float(value) for value in (sizes / sizes[0]).log10()]


def reach_at_start(seed: int, kind: Kind, rows: int) -> list[float]:
    batch = recall(SPAN)(torch.Generator().manual_seed(seed), rows)
    return reach(made(seed, kind), batch.inputs["ids"], batch.targets)


RECALLED: dict[str, Kind] = {
    **PLAIN, **{name: LSTMS[name] for name in ("LSTM, forget bias 1", "LSTM, forget bias 3")}
}  # fmt: skip
TINY = -3  # log10: less than a thousandth arrives
MARGIN = 0.05  # of accuracy: a smaller gain does not count


def _recall(seed: int, quick: bool) -> Data:
    """For every cell: the recall accuracy of the first symbol by text length, the gradient that
    reaches this symbol before training, and the number of parameters."""
    lengths, steps, rate = ((4, 16), 100, 1e-2) if quick else ((5, 20, 40), 800, 3e-3)
    measured: dict[str, Any] = {"lengths": list(lengths), "steps": steps}
    for name, kind in RECALLED.items():
        measured[name] = {
            "accuracy": [_learned(seed, kind, length, steps, rate) for length in lengths],
            "reach": reach_at_start(seed, kind, 8)[-1],
            "parameters": made(seed, kind).parameters_count,
        }
    return measured


def _learned(seed: int, kind: Kind, length: int, steps: int, rate: float) -> float:
    net = made(seed, kind)
    train(net, recall(length), seed=seed, steps=steps, rate=rate, enough=0.05)
    return accuracy(net, recall(length), seed)


def _judge_vanishing(data: Sequence[Data]) -> Finding:
    lengths = data[0]["lengths"]
    cases: dict[str, bool | None] = {}
    learned: dict[str, bool] = {}
    parts = []
    for name in (RNN_UNIFORM, RNN):
        shrunk = mean_of(column(data, name, "reach"))
        near, far = (median_of(column(data, name, "accuracy", place)) for place in (0, -1))
        parts.append(f"{name}: gradient 10^{shrunk}, recall {near} over {lengths[0]} and {far} "
                    f"over {lengths[-1]} symbols")  # fmt: skip
        cases[name] = all_hold((
            clearly(shrunk.against(TINY), "below"),
            clearly(far.against(0.5), "below"),
        ))  # fmt: skip
        learned[name] = has_learned(column(data, name, "accuracy", 0), 0.9)
    return by_case(cases, "; ".join(parts), "how the recurrent weights start", learned=learned)


def _judge_gru(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for start, gru, rnn in (("uniform", GRU_UNIFORM, RNN_UNIFORM), ("orthogonal", GRU, RNN)):
        flow = difference_of(column(data, gru, "reach"), column(data, rnn, "reach"))
        cases[f"gradient, {start} start"] = clearly(flow.against(0.0), "above")
        more = difference_of(
            column(data, gru, "accuracy", -1), column(data, rnn, "accuracy", -1), "rank"
        )
        cases[f"recall, {start} start"] = (
            True
            if more.against(0.0) == "above"
            else False
            if more.against(MARGIN) == "below"
            else None
        )
        parts.append(f"{start} start: gradient by 10^{flow}, recall by {more}")
    sizes = {name: data[0][name]["parameters"] for name in (RNN, GRU, "LSTM, forget bias 1")}
    why = (
        f"a GRU against an RNN, {SPAN - 1} steps back and over {data[0]['lengths'][-1]} symbols; "
        f"{'; '.join(parts)}; parameters of RNN, GRU, LSTM: {', '.join(map(str, sizes.values()))}"
    )
    if sizes[GRU] >= sizes["LSTM, forget bias 1"]:
        return Finding("refuted", f"{why}; the GRU is no simpler than an LSTM")
    return by_case(cases, why, "how the recurrent weights start")


def _draw_recall(data: Sequence[Data]) -> Lines:
    return Lines(
        "Which symbol stood first?", Axis("symbols read", tuple(map(str, data[0]["lengths"]))),
        "accuracy",
        {name: average(data, name, "accuracy").numpy() for name in RECALLED},
        note=f"after {data[0]['steps']} steps; guessing gives {1 / SYMBOLS:.3g}",
    )  # fmt: skip


recall_by_distance = Experiment.described(
    "recall-by-distance", _recall, _draw_recall, {"C21": _judge_vanishing, "C27": _judge_gru}
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


gradients_in_time = Experiment.described(
    "gradients-in-time", _gradients, _draw_gradients, {"C26": _judge_lstm}
)
