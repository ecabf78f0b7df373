"""How far back a recurrent net reaches: gradients through time, recall by distance, far words."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.lab.deep import average, by_case
from translucid.lab.drills import SYMBOLS, Draw, accuracy, batch_of, reader, recall, train
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
    ratio_of,
)
from translucid.lab.toytext import next_words
from translucid.models import Network, RecurrentConfig, build
from translucid.models.recurrent import RecurrentEncoder
from translucid.parts.recurrent_kernel import CellName
from translucid.see.pictures import Axis, Lines
from translucid.trace import Trace

# A cell, its forget bias, and whether it starts as torch starts it: all weights uniform and small.
# The library itself starts with orthogonal recurrent weights, which keep lengths.
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
    net = reader(seed, cell, vocab=SYMBOLS, outputs=SYMBOLS, hidden=hidden, forget_bias=forget_bias)
    if uniform:
        cast(RecurrentEncoder, net.encoder).recurrent.fused.reset_parameters()
    return net


def reach(net: Network, ids: Tensor, targets: Tensor) -> list[float]:
    """The gradient of the loss at the end with respect to every input, nearest first: log10 of its
    size, against that of the nearest. In float64: float32 calls 1e-46 nothing."""
    trace = Trace("encoder.embedding.lookup")
    logits = net.double()(ids, trace=trace)
    loss = F.cross_entropy(logits, targets, reduction="sum")
    (slopes,) = torch.autograd.grad(loss, trace["encoder.embedding.lookup"])
    sizes = slopes.norm(dim=-1).mean(dim=0).flip(0)  # (length,)
    return [float(each) for each in (sizes / sizes[0]).log10()]


def _reach_at_start(seed: int, kind: Kind, rows: int) -> list[float]:
    batch = recall(SPAN)(torch.Generator().manual_seed(seed), rows)
    return reach(made(seed, kind), batch.inputs["ids"], batch.targets)


# ---- C26: gradients through 100 steps ----

KEPT = -1  # log10: a tenth of it arrives


def _gradients(seed: int, quick: bool) -> Data:
    """log10 of the gradient by distance, before training, for every cell."""
    return {name: _reach_at_start(seed, kind, 8 if quick else 64)
            for name, kind in {**PLAIN, **LSTMS}.items()}  # fmt: skip


def _farthest(data: Sequence[Data], name: str) -> Interval:
    return mean_of(column(data, name, SPAN - 1))


def _judge_lstm(data: Sequence[Data]) -> Finding:
    found = {name: _farthest(data, name) for name in LSTMS}
    cases = {name: clearly(each.against(KEPT), "above") for name, each in found.items()}
    said = ", ".join(
        f"{name} {each}" for name, each in {**found, RNN: _farthest(data, RNN)}.items()
    )
    return by_case(
        cases, f"log10 of the gradient {SPAN - 1} steps back against the last step's: {said}",
        "the forget gate's bias at the start",
        {name: each.mean for name, each in found.items()},
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

# ---- C21, C27: recall by distance ----

RECALLED: dict[str, Kind] = {
    **PLAIN, **{name: LSTMS[name] for name in ("LSTM, forget bias 1", "LSTM, forget bias 3")}
}  # fmt: skip
TINY = -3  # log10: less than a thousandth arrives
MARGIN = 0.05  # of accuracy: less than this is no help


def _recall(seed: int, quick: bool) -> Data:
    """Accuracy at naming the first of so many symbols, the gradient before training, the size."""
    lengths, steps, rate = ((4, 16), 100, 1e-2) if quick else ((10, 20, 40), 800, 3e-3)
    found: dict[str, Any] = {"lengths": list(lengths), "steps": steps}
    for name, kind in RECALLED.items():
        found[name] = {
            "accuracy": [_learned(seed, kind, length, steps, rate) for length in lengths],
            "reach": _reach_at_start(seed, kind, 8)[-1],
            "parameters": made(seed, kind).parameters_count,
        }
    return found


def _learned(seed: int, kind: Kind, length: int, steps: int, rate: float) -> float:
    net = made(seed, kind)
    train(net, recall(length), seed=seed, steps=steps, rate=rate, enough=0.05)
    return accuracy(net, recall(length), seed)


def _judge_vanishing(data: Sequence[Data]) -> Finding:
    lengths = data[0]["lengths"]
    cases: dict[str, bool | None] = {}
    said = []
    for name in (RNN_UNIFORM, RNN):
        shrunk = mean_of(column(data, name, "reach"))
        near, far = (mean_of(column(data, name, "accuracy", place)) for place in (0, -1))
        said.append(f"{name}: gradient 10^{shrunk}, recall {near} over {lengths[0]} and {far} "
                    f"over {lengths[-1]} symbols")  # fmt: skip
        cases[name] = _all(
            clearly(shrunk.against(TINY), "below"),
            clearly(far.against(0.5), "below"),
            True if near.against(0.9) == "above" else None,  # else nothing was learned at all
        )
    return by_case(cases, "; ".join(said), "how the recurrent weights start")


def _all(*found: bool | None) -> bool | None:
    if False in found:
        return False
    return None if None in found else True


def _judge_gru(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    said = []
    for start, gru, rnn in (("uniform", GRU_UNIFORM, RNN_UNIFORM), ("orthogonal", GRU, RNN)):
        flow = difference_of(column(data, gru, "reach"), column(data, rnn, "reach"))
        cases[f"gradient, {start} start"] = clearly(flow.against(0.0), "above")
        more = difference_of(column(data, gru, "accuracy", -1), column(data, rnn, "accuracy", -1))
        cases[f"recall, {start} start"] = (
            True if more.against(0.0) == "above" else False if more.high < MARGIN else None
        )
        said.append(f"{start} start: gradient by 10^{flow}, recall by {more}")
    sizes = {name: data[0][name]["parameters"] for name in (RNN, GRU, "LSTM, forget bias 1")}
    why = (
        f"a GRU against an RNN, {SPAN - 1} steps back and over {data[0]['lengths'][-1]} symbols; "
        f"{'; '.join(said)}; parameters of RNN, GRU, LSTM: {', '.join(map(str, sizes.values()))}"
    )
    if sizes[GRU] >= sizes["LSTM, forget bias 1"]:
        return Finding("refuted", f"{why}; the GRU is no simpler than an LSTM")
    return by_case(cases, why, "how the recurrent weights start")


def _draw_recall(data: Sequence[Data]) -> Lines:
    return Lines(
        "Which symbol stood first?", Axis("symbols read", tuple(map(str, data[0]["lengths"]))),
        "share of right answers",
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
            "99 steps back is clearly below a thousandth of the last step's, and recall, clearly "
            "above 0.9 at the shortest distance, is clearly below 0.5 at the longest; fails if the "
            "gradient or the far recall is clearly above. Supported if it holds for both starts, "
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
    seeds=10,
    references=("https://arxiv.org/abs/1211.5063", "https://arxiv.org/abs/1412.3555"),
)

# ---- C24: does the next word depend on one far back? ----

WINDOW = 25  # words
BACK = (0, 1, 2, 4, 8, 16, 24)  # words between the one that is changed and the next one
READERS: dict[str, CellName] = {"RNN": "rnn", "LSTM": "lstm"}


def _far_words(seed: int, quick: bool) -> Data:
    """How far the distribution of the next word moves (KL, nats) if one word is exchanged."""
    text = next_words(seed)
    stream = text.ids[text.ids != 0]  # sentence after sentence
    found: dict[str, Any] = {}
    for name, cell in READERS.items():
        net = _language_model(seed, cell, text.vocab)
        history = train(net, _windows(stream), seed=seed, steps=40 if quick else 500, rate=1e-2)
        found[name] = {
            "kl": _moved(net, stream, text.vocab, seed, 64 if quick else 512),
            "losses": [history.losses[0], float(np.mean(history.losses[-20:]))],
        }
    return found


def _language_model(seed: int, cell: CellName, vocab: int) -> Network:
    torch.manual_seed(seed)
    return build(RecurrentConfig(shape="decoder", head="language", cell=cell, vocab=vocab,
                                 d_model=32, hidden=32, dropout=0.0))  # fmt: skip


def _windows(stream: Tensor) -> Draw:
    def draw(chance: torch.Generator, rows: int) -> Any:
        starts = torch.randint(len(stream) - WINDOW, (rows, 1), generator=chance)
        words = stream[starts + torch.arange(WINDOW + 1)]  # (rows, window + 1)
        return batch_of(words[:, :-1], words[:, 1:])

    return draw


@torch.no_grad()
def _moved(net: Network, stream: Tensor, vocab: int, seed: int, rows: int) -> list[float]:
    chance = torch.Generator().manual_seed(seed)
    ids = _windows(stream)(chance, rows).inputs["ids"]
    net.double()  # float32 cannot tell 1e-8 from nothing
    before = net(ids)[:, -1].log_softmax(dim=-1)
    found = []
    for back in BACK:
        changed = ids.clone()
        other = torch.randint(1, vocab - 2, (rows,), generator=chance)
        place = WINDOW - 1 - back
        changed[:, place] = 2 + (changed[:, place] - 2 + other) % (vocab - 2)  # never the same
        after = net(changed)[:, -1].log_softmax(dim=-1)
        found.append(float((before.exp() * (before - after)).sum(dim=-1).mean()))
    return found


def _judge_far_words(data: Sequence[Data]) -> Finding:
    near = BACK.index(1)
    left = ratio_of(column(data, "RNN", "kl", -1), column(data, "RNN", "kl", near))
    lstm = ratio_of(column(data, "LSTM", "kl", -1), column(data, "LSTM", "kl", near))
    return decide(
        {"a word far back counts for less than a twentieth": clearly(left.against(0.05), "below")},
        f"exchanging the word {BACK[-1]} back moves the next word's distribution by {left} of what "
        f"the word 1 back does, in an RNN; in an LSTM by {lstm}",
        {"rnn": left.mean, "lstm": lstm.mean},
    )  # fmt: skip


def _draw_far_words(data: Sequence[Data]) -> Lines:
    return Lines(
        "Exchange one word: how far does the next word's distribution move?",
        Axis("words back", tuple(map(str, BACK))), "KL divergence, nats",
        {name: average(data, name, "kl").numpy() for name in READERS}, logarithmic=True,
        note="language models trained on toyland's English",
    )  # fmt: skip


far_words = Experiment(
    name="far-words",
    title="How much the next word depends on a word far back",
    varies="how many words back one word is exchanged; the cell",
    measures="the KL divergence of the next word's distribution, after training",
    claims={
        "C24": Rule(
            f"In a trained RNN, exchanging the word {BACK[-1]} back moves the next word's "
            "distribution by a share of what the word 1 back does: supported if the share is "
            "clearly below a twentieth, refuted if clearly above. How much of it is the chain's "
            "doing and how much the text's is not told apart here; C21 has a task that needs the "
            "first word.",
            _judge_far_words,
        )
    },
    run=_far_words,
    draw=_draw_far_words,
    seconds=20.0,
    references=("https://arxiv.org/abs/1805.04623",),
)
