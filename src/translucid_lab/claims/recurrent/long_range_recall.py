"""C21, C27: recall by distance."""

from collections.abc import Sequence
from typing import Any

from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.recurrent.cells import (
    GRU,
    GRU_UNIFORM,
    LSTMS,
    PLAIN,
    RNN,
    RNN_UNIFORM,
    SPAN,
    Kind,
    made,
    reach_at_start,
)
from translucid_lab.claims.shared.sequence_tasks import SYMBOLS, accuracy, recall, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    all_hold,
    average,
    by_case,
    clearly,
    column,
    difference_of,
    has_learned,
    mean_of,
    median_of,
)

RECALLED: dict[str, Kind] = {
    **PLAIN, **{name: LSTMS[name] for name in ("LSTM, forget bias 1", "LSTM, forget bias 3")}
}  # fmt: skip
TINY = -3  # log10: less than a thousandth arrives
MARGIN = 0.05  # of accuracy: less than this is no help


def _recall(seed: int, quick: bool) -> Data:
    """Accuracy at naming the first of so many symbols, the gradient before training, the size."""
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


recall_by_distance = Experiment(
    name="recall-by-distance",
    title="Recall of the first symbol, by distance",
    varies="the cell, the start of its weights, the distance",
    measures="accuracy after training; the gradient 99 steps back before it; parameters",
    claims={
        "C21": Rule(
            "Holds for a start (uniform as torch's, orthogonal as this library's) if the gradient "
            "99 steps back is clearly below a thousandth of the last step's, and recall is clearly "
            "below 0.5 at the longest distance; fails if the gradient or the far recall is clearly "
            "above; not tested unless recall is above 0.9 at the shortest distance in eight of ten "
            "seeds. Supported if it holds for both starts, "
            "refuted if for neither, depends (on the start) if for one. Larger weights, whose "
            "gradients explode, are C22's.",
            _judge_vanishing,
        ),
        "C27": Rule(
            "For each start: the gradient 99 steps back is clearly larger in a GRU than in an RNN "
            "(fails if clearly smaller), and its recall at the longest distance is clearly higher "
            "(fails if clearly not higher by 0.05). Supported if all four hold, refuted if none, "
            "or if the GRU has no fewer parameters than the LSTM; depends if some hold.",
            _judge_gru,
        ),
    },
    run=_recall,
    draw=_draw_recall,
    seconds=100.0,
    references=("https://arxiv.org/abs/1211.5063", "https://arxiv.org/abs/1412.3555"),
)
