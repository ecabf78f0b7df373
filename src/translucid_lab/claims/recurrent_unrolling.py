"""Recurrent networks unrolled in time: each step is a layer (C18), and all steps share its weights
(C19), so rules that depend on the absolute position are hard to learn (C20).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid import NO_TRACE, Batch
from translucid.models import MLPConfig, build
from translucid.parts import STEPS, CellName, Recurrent
from translucid.see import Axis, Bars, Lines
from translucid.tasks import IGNORE, cross_entropy
from translucid_lab import Data, Experiment, Finding, Verdict
from translucid_lab.claims.sequence_tasks import Draw, batch_of, recurrent_net, right, train
from translucid_lab.engine.intervals import clearly, median_of
from translucid_lab.engine.verdict import all_hold, average, by_case, column, decide, has_learned

Weights = tuple[Tensor, Tensor, Tensor, Tensor]  # W, U and both biases of a layer
CELLS: tuple[CellName, ...] = ("rnn", "lstm", "gru")
STEP = 1e-6  # of the finite differences


def _unrolled(seed: int, quick: bool) -> Data:
    """Compute the gradient of a recurrent layer's weights in three ways: by its kernel, as the sum
    over untied copies, and by finite differences. Return the largest differences relative to the
    largest gradient, and the contribution of each copy."""
    length, hidden = (6, 4) if quick else (20, 8)
    return {cell: _tied_and_untied(seed, cell, length, hidden) for cell in CELLS}


def _tied_and_untied(seed: int, cell: CellName, length: int, hidden: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    layer = Recurrent(cell, hidden, hidden).double()
    x, wanted = torch.randn(2, 3, length, hidden, dtype=torch.float64)
    weights = layer.weights(0, "forward")

    def loss() -> Tensor:
        return (layer(x)[0][:, -1] * wanted[:, -1]).sum()

    tied = torch.autograd.grad(loss(), weights)
    copies = [_copy(weights) for _ in range(length)]
    output = _deep(cell, x, copies)
    untied = [torch.autograd.grad((output * wanted[:, -1]).sum(), copy, retain_graph=True)
              for copy in copies]  # fmt: skip
    largest = max(float(value.abs().max()) for value in tied)
    summed = [torch.stack(value).sum(dim=0) for value in zip(*untied, strict=True)]
    away = max(float((a - b).abs().max()) for a, b in zip(tied, summed, strict=True))
    return {
        "copies": away / largest,
        "differences": _by_moving(loss, weights[1], tied[1]) / largest,
        "adds": [float(value[1].norm()) for value in untied],
    }


def _copy(weights: Weights) -> Weights:
    w, u, b, b_hidden = (weight.detach().clone().requires_grad_() for weight in weights)
    return w, u, b, b_hidden


def _deep(cell: CellName, x: Tensor, copies: Sequence[Weights]) -> Tensor:
    """Run a recurrent layer as a deep network: one layer, with its own weights, for each step."""
    start = x.new_zeros(len(x), copies[0][1].shape[1])
    now = (start, start if cell == "lstm" else None)
    for t, weights in enumerate(copies):
        now = STEPS[cell](x[:, t], now, weights, NO_TRACE)
    return now[0]


def _by_moving(loss: Callable[[], Tensor], weight: Tensor, slopes: Tensor) -> float:
    """The largest difference between `slopes` and central differences of the loss, over every fifth
    entry of the weight."""
    worst = 0.0
    flat = weight.data.view(-1)
    with torch.no_grad():
        for place in range(0, len(flat), 5):
            before = flat[place].clone()
            flat[place] = before + STEP
            up = loss()
            flat[place] = before - STEP
            down = loss()
            flat[place] = before
            worst = max(worst, abs(float((up - down) / (2 * STEP) - slopes.view(-1)[place])))
    return worst


def _judge_unrolled(data: Sequence[Data]) -> Finding:
    worst = {label: float(np.max([column(data, cell, label) for cell in CELLS]))
             for label in ("copies", "differences")}  # fmt: skip
    return decide(
        {f"agrees with {label} to 1e-6": True if value < 1e-6 else False if value > 1e-4 else None
         for label, value in (("the sum over copies", worst["copies"]),
                            ("finite differences", worst["differences"]))},
        f"the gradient through a recurrent layer is {worst['copies']:.1e} from the sum over untied "
        f"copies and {worst['differences']:.1e} from finite differences, of the largest", worst,
    )  # fmt: skip


def _draw_unrolled(data: Sequence[Data]) -> Lines:
    series = {cell.upper(): average(data, cell, "adds").numpy() for cell in CELLS}
    length = len(next(iter(series.values())))
    return Lines(
        "What each step's copy adds to the gradient of U",
        Axis("step", tuple(str(t + 1) for t in range(length))), "norm of the gradient", series,
        note="their sum is the gradient of the shared weights",
    )  # fmt: skip


unrolling = Experiment.described("unrolling", _unrolled, _draw_unrolled, {"C18": _judge_unrolled})


MOTIF, SYMBOLS, TEXT = (0, 1, 2), 4, 12
HALVES = {"trained": (0, TEXT // 2), "new": (TEXT // 2, TEXT)}  # positions of the motif
NETS = ("RNN", "MLP")
QUESTIONS = ("at each place", "at the end")


def answers(network: nn.Module, batch: Batch) -> Tensor:
    """Logits, with one more axis than the targets."""
    logits: Tensor = network(**batch.inputs)
    return logits if logits.dim() > batch.targets.dim() else logits.unflatten(-1, (TEXT, 2))


def _asked(question: str, half: str, *, apart: bool = False) -> Draw:
    """A task on random texts. About every second text contains the motif once, in the first or
    second half as given by `half`. question: whether the task asks at each position (does the motif
    end here?) or at the end (did it occur?). apart: texts as concatenated one-hot vectors, for an
    MLP."""
    first, beyond = HALVES[half]

    def draw(generator: torch.Generator, rows: int) -> Batch:
        ids = _without_motif(generator, rows)
        targets = torch.randint(2, (rows,), generator=generator)
        starts = torch.randint(first, beyond - len(MOTIF) + 1, (rows, 1), generator=generator)
        held = ids.scatter(1, starts + torch.arange(len(MOTIF)),
                           torch.tensor(MOTIF).expand(rows, -1))  # fmt: skip
        ids = torch.where(targets[:, None] == 1, held, ids)
        if question == "at each place":
            ends = starts + len(MOTIF) - 1 == torch.arange(TEXT)
            inside = (torch.arange(TEXT) >= first) & (torch.arange(TEXT) < beyond)
            targets = torch.where(inside, (ends & (targets[:, None] == 1)).long(), IGNORE)
        if not apart:
            return batch_of(ids, targets)
        return batch_of(nn.functional.one_hot(ids, SYMBOLS).flatten(1).float(), targets, "x")

    return draw


def _without_motif(generator: torch.Generator, rows: int) -> Tensor:
    texts = torch.randint(SYMBOLS, (4 * rows, TEXT), generator=generator)
    hits = (texts.unfold(1, len(MOTIF), 1) == torch.tensor(MOTIF)).all(dim=-1).any(dim=-1)
    return texts[~hits][:rows]


def _sharing(seed: int, quick: bool) -> Data:
    """Balanced accuracy for new texts with the motif in the same half as in training, and for texts
    with the motif in the other half."""
    steps = 150 if quick else 600
    return {question: {name: _detection(seed, question, name, steps) for name in NETS}
            for question in QUESTIONS}  # fmt: skip


def _detection(seed: int, question: str, name: str, steps: int) -> dict[str, float]:
    apart, tags = name == "MLP", question == "at each place"
    torch.manual_seed(seed)
    net: nn.Module = (
        build(MLPConfig(inputs=TEXT * SYMBOLS, hidden=(64,), outputs=2 * TEXT if tags else 2))
        if apart else recurrent_net(seed, "rnn", vocab=SYMBOLS, outputs=2, tags=tags)
    )  # fmt: skip
    train(
        net, _asked(question, "trained", apart=apart), seed=seed, steps=steps, rows=64, enough=0.02,
        loss=lambda network, batch: cross_entropy(answers(network, batch), batch.targets),
    )  # fmt: skip
    measured: dict[str, float] = {
        "parameters": sum(parameter.numel() for parameter in net.parameters())
    }
    for half in HALVES:
        batch = _asked(question, half, apart=apart)(torch.Generator().manual_seed(seed), 1000)
        with torch.no_grad():
            measured[half] = _balanced(answers(net, batch), batch.targets)
    return measured


def _balanced(logits: Tensor, targets: Tensor) -> float:
    """Balanced accuracy of yes and no."""
    return (right(logits, targets.where(targets == 1, IGNORE))
            + right(logits, targets.where(targets == 0, IGNORE))) / 2  # fmt: skip


def _judge_sharing(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    learned: dict[str, bool] = {}
    parts = []
    for question in QUESTIONS:
        near, far = (
            {name: median_of(column(data, question, name, half)) for name in NETS}
            for half in HALVES
        )
        sizes = {name: column(data, question, name, "parameters")[0] for name in NETS}
        parts.append(f"asked {question}: " + ", ".join(
            f"{name} ({sizes[name]:.0f} parameters) {near[name]} where the motif was trained and "
            f"{far[name]} where it never was" for name in NETS))  # fmt: skip
        sides = (
            clearly(far["RNN"].against(0.8), "above"),
            clearly(far["MLP"].against(0.8), "below"),
            sizes["RNN"] < sizes["MLP"],
        )
        cases[f"asked {question}"] = all_hold(sides)
        learned[f"asked {question}"] = all(
            has_learned(column(data, question, name, "trained"), 0.9) for name in NETS
        )
    return by_case(
        cases, "; ".join(parts),
        "when the net is asked: at each place, or once at the end", learned=learned,
    )  # fmt: skip


def _draw_sharing(data: Sequence[Data]) -> Bars:
    cases = [(question, name, half) for question in QUESTIONS for name in NETS for half in HALVES]
    return Bars(
        "A motif that was trained in the first half of texts", "accuracy",
        tuple(f"asked {question}: {name}, {'first' if half == 'trained' else 'second'} half"
              for question, name, half in cases),
        np.array([float(average(data, *case)) for case in cases]),
        note="yes and no count alike: guessing gives 0.5",
    )  # fmt: skip


sharing = Experiment.described("sharing-in-time", _sharing, _draw_sharing, {"C19": _judge_sharing})


SHIFTS = 4


def _positions(seed: int, quick: bool) -> Data:
    """Train an RNN on the task y[t] = x[t] + s[t] mod 4, where s is a random shift for each
    position. Return its accuracy at each position and overall, and the accuracy of the best rule
    that ignores the position."""
    places, steps = (10, 250) if quick else (20, 2500)
    table = torch.randint(SHIFTS, (places,), generator=torch.Generator().manual_seed(seed))

    def draw(generator: torch.Generator, rows: int) -> Batch:
        ids = torch.randint(SHIFTS, (rows, places), generator=generator)
        return batch_of(ids, (ids + table) % SHIFTS)

    net = recurrent_net(seed, "rnn", vocab=SHIFTS, outputs=SHIFTS, tags=True)
    train(net, draw, seed=seed, steps=steps, rate=1e-2, enough=0.02)
    new = draw(torch.Generator().manual_seed(seed + 10**6), 500)
    with torch.no_grad():
        hits = (net(**new.inputs).argmax(-1) == new.targets).double()
    return {
        "accuracy": float(hits.mean()),
        "places": hits.mean(dim=0).tolist(),
        "blind": float(table.bincount().max()) / places,
    }


def _judge_positions(data: Sequence[Data]) -> Finding:
    net, blind = column(data, "accuracy"), column(data, "blind")
    gained = median_of([(a - b) / (1 - b) for a, b in zip(net, blind, strict=True)])
    verdict: Verdict = "undecided"
    if gained.against(0.1) == "below":
        verdict = "supported"
    elif gained.against(0.9) == "above":
        verdict = "refuted"
    return Finding(
        verdict,
        f"an RNN is right at {median_of(net)} of the places, the best rule that does not know the "
        f"place at {median_of(blind)}: {gained} of the way from there to all",
        {"accuracy": median_of(net).mean, "blind": median_of(blind).mean, "gained": gained.mean},
    )


def _draw_positions(data: Sequence[Data]) -> Lines:
    places = average(data, "places").numpy()
    blind = np.full(len(places), float(average(data, "blind")))
    return Lines(
        "A rule that is another one at every place",
        Axis("place", tuple(str(t + 1) for t in range(len(places)))), "accuracy",
        {"RNN": places, "best rule that does not know the place": blind},
    )  # fmt: skip


positions = Experiment.described(
    "counting-places", _positions, _draw_positions, {"C20": _judge_positions}
)
