"""C50, C51, C52: what several heads can do that one cannot, and which heads can be removed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid import Trace
from translucid.models import Network, TransformerConfig, build
from translucid.parts import PositionName
from translucid.see import Axis, Grid, Heat, Lines, choose, switches, together
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.attention_tasks import Batch, apart, patterns, right, train
from translucid_lab.engine.intervals import clearly, fraction_of, median_of
from translucid_lab.engine.verdict import average, by_case, column, decide, has_learned

# ---- C50, C51: two relations at the same time ----


NEAR, FAR = 1, 3  # how many words back
KINDS, LENGTH, ROWS = 4, 8, 64
HEADS = (1, 2, 4)
RATE = 1e-2


def two_back(rows: int, generator: torch.Generator) -> Batch:
    """Random words. The target at each word is the pair of words that stand NEAR and FAR positions
    before it."""
    x = torch.randint(KINDS, (rows, LENGTH), generator=generator)
    wanted = torch.full_like(x, IGNORE)
    wanted[:, FAR:] = KINDS * x[:, FAR - NEAR : -NEAR] + x[:, :-FAR]
    return x, wanted


def _net(seed: int, heads: int, layers: int = 1, positions: PositionName = "sinusoidal") -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="tag", outputs=KINDS**2, vocab=KINDS, d_model=16, heads=heads,
        layers=layers, d_ff=32, dropout=0.0, positions=positions, max_length=LENGTH,
    ))  # fmt: skip


def _trained(net: Network, seed: int, steps: int) -> Network:
    return train(net, lambda generator: two_back(ROWS, generator), seed, steps=steps, rate=RATE)


def _fresh(seed: int, rows: int = 512) -> Batch:
    """New sequences that were not used in training."""
    return two_back(rows, torch.Generator().manual_seed(seed + 1_000_000))


def _relations(seed: int, quick: bool) -> Data:
    """Measure accuracy, distance between heads and attention by offset for networks with 1, 2 and 4
    heads. Then measure the accuracy of one head with other positions, more steps or more layers."""
    steps = 150 if quick else 600
    seen = _fresh(seed)
    measured: dict[str, Any] = {"accuracy": [], "apart": [], "back": []}
    for heads in HEADS:
        net = _trained(_net(seed, heads), seed, steps)
        (pattern,) = patterns(net, seen[0])
        measured["accuracy"].append(right(net, seen))
        measured["apart"].append(apart(pattern[:, :, FAR:]))
        measured["back"].append(looking_back(pattern))
    single = {"other positions": _trained(_net(seed, 1, positions="learned"), seed, steps)}
    if not quick:
        single["longer"] = _trained(_net(seed, 1), seed, 4 * steps)
        single["deeper"] = _trained(_net(seed, 1, layers=2), seed, steps)
    measured["single"] = {name: right(net, seen) for name, net in single.items()}
    return measured


def looking_back(pattern: Tensor) -> list[list[float]]:
    """The mean weight of each head, [head][words back], over words that have FAR words before."""
    every = [pattern.diagonal(-back, 2, 3)[:, :, FAR - back :] for back in range(FAR + 1)]
    table = torch.stack([weights.mean(dim=(0, 2)) for weights in every], dim=1)
    return [[float(weight) for weight in row] for row in table]


def _judge_ever(data: Sequence[Data]) -> Finding:
    best = column(data, "accuracy", len(HEADS) - 1)
    tries = {"equal steps": column(data, "accuracy", 0)}
    tries |= {name: column(data, "single", name) for name in data[0]["single"]}
    reached = {
        name: fraction_of(sum(a >= b - 0.02 for a, b in zip(values, best, strict=True)), len(data))
        for name, values in tries.items()
    }
    sides = {f"one head, {name}, mostly falls short": clearly(fraction.against(0.5), "below")
             for name, fraction in reached.items()}  # fmt: skip
    return decide(
        sides,
        f"both words right: {HEADS[-1]} heads {median_of(best)}; one head, "
        + ", ".join(f"{name} {median_of(values)}" for name, values in tries.items())
        + "; fraction of runs with one head that come within 0.02: "
        + ", ".join(f"{name} {fraction}" for name, fraction in reached.items()),
        {name: float(np.mean(values)) for name, values in tries.items()},
        learned={f"both words with {HEADS[-1]} heads": has_learned(best, 0.9)},
    )


def _draw_relations(data: Sequence[Data]) -> Grid:
    (first,) = data[:1]
    heats = tuple(
        Heat(
            f"{heads} head{'s' * (heads > 1)}: "
            f"{float(average(data, 'accuracy', place)):.0%} right",
            np.array(first["back"][place]),
            Axis("head", tuple(str(head + 1) for head in range(heads))),
            Axis("words back", tuple(str(back) for back in range(FAR + 1))),
            "unit",
            texts=tuple(tuple(f"{weight:.2f}" for weight in row)
                        for row in first["back"][place]),
        )
        for place, heads in enumerate(HEADS)
    )  # fmt: skip
    return Grid(
        f"Asked for the words {NEAR} and {FAR} back", heats, len(heats),
        note="weights of the first seed; words right: mean of all seeds",
    )  # fmt: skip


relations = Experiment.described("two-relations", _relations, _draw_relations, {"C51": _judge_ever})


def _division(seed: int, quick: bool) -> Data:
    """Measure accuracy and attention by offset for networks with 1, 2 and 4 heads."""
    seen = _fresh(seed)
    measured: dict[str, Any] = {"accuracy": [], "back": []}
    for heads in HEADS:
        net = _trained(_net(seed, heads), seed, 150 if quick else 600)
        measured["accuracy"].append(right(net, seen))
        measured["back"].append(looking_back(patterns(net, seen[0])[0]))
    return measured


def divided(back: Sequence[Sequence[float]]) -> bool:
    """Whether one head gives more than half of its weight to the word NEAR positions back, and
    another head to the word FAR positions back. back: [head][words back]"""
    return all(any(row[place] > 0.5 for row in back) for place in (NEAR, FAR))


def _judge_division(data: Sequence[Data]) -> Finding:
    accuracy = {heads: column(data, "accuracy", place) for place, heads in enumerate(HEADS)}
    share = {heads: fraction_of(sum(divided(run["back"][place]) for run in data), len(data))
             for place, heads in enumerate(HEADS) if heads > 1}  # fmt: skip
    return by_case(
        {f"{heads} heads": clearly(found.against(0.5), "above") for heads, found in share.items()},
        "one head attends mostly to the near word and another to the far word in "
        + " and ".join(f"{found} of the nets with {heads} heads" for heads, found in share.items())
        + "; both words right: "
        + ", ".join(f"{heads} head{'s' * (heads > 1)} {median_of(values)}"
                    for heads, values in accuracy.items()),
        "the number of heads",
        learned={f"{heads} heads": has_learned(accuracy[heads], 0.9) for heads in share},
    )  # fmt: skip


division = Experiment.described(
    "heads-by-relation", _division, _draw_relations, {"C50": _judge_division}
)


# ---- C52: removing heads ----


MANY = 8


def _pruning(seed: int, quick: bool) -> Data:
    """Measure the accuracy gained by removing the least important of eight heads, early in training
    and at the end of training. At the end, also remove further heads one by one. Heads are chosen
    on one half of the new sequences and measured on the other."""
    early, late = (40, 90) if quick else (60, 600)
    net = _trained(_net(seed, MANY), seed, early)
    halves = _fresh(seed), _fresh(seed + 1)
    measured: dict[str, Any] = {"early": _gain(net, *halves)}
    net = _trained(net, seed + 1, late)
    measured["late"] = _gain(net, *halves)
    measured["curve"] = _curve(net, *halves)
    measured["removable"] = removable(measured["curve"])
    measured["apart"] = apart(patterns(net, halves[0][0])[0][:, :, FAR:])
    return measured


def _without(net: Network, gone: Sequence[int], batch: Batch) -> float:
    heads = choose(switches(net), ["heads"])
    return right(net, batch, Trace([], edit=together(heads[head] for head in gone)))


def _next_to_go(net: Network, gone: Sequence[int], chosen_on: Batch) -> list[int]:
    left = [head for head in range(MANY) if head not in gone]
    return [*gone, max(left, key=lambda head: _without(net, [*gone, head], chosen_on))]


def _gain(net: Network, chosen_on: Batch, measured_on: Batch) -> float:
    """Accuracy gained by removing the least important head."""
    gone = _next_to_go(net, [], chosen_on)
    return _without(net, gone, measured_on) - right(net, measured_on)


def _curve(net: Network, chosen_on: Batch, measured_on: Batch) -> list[float]:
    """Accuracy with 0, 1, ... heads removed."""
    gone: list[int] = []
    curve = [right(net, measured_on)]
    while len(gone) < MANY - 1:
        gone = _next_to_go(net, gone, chosen_on)
        curve.append(_without(net, gone, measured_on))
    return curve


def removable(curve: Sequence[float]) -> int:
    """How many heads can be removed, one by one, before accuracy drops by more than 0.01."""
    kept = [accuracy >= curve[0] - 0.01 for accuracy in curve]
    return (kept.index(False) if False in kept else len(kept)) - 1


def _judge_pruning(data: Sequence[Data]) -> Finding:
    spare = median_of(column(data, "removable"))
    early, late = (median_of(column(data, name)) for name in ("early", "late"))
    return by_case(
        {
            "heads duplicate one another": clearly(spare.against(1.5), "above"),
            "a head hurts early in training": clearly(early.against(0.005), "above"),
            "a head hurts after training": clearly(late.against(0.005), "above"),
        },
        f"of {MANY} heads {spare} can go before 0.01 is lost; leaving out the one that is missed "
        f"least changes what is right by {early} early and by {late} after training",
        "what is meant: that heads can be spared, or that they do harm",
        {"apart": float(np.mean(column(data, "apart")))},
        learned={
            "both words with eight heads": has_learned([run["curve"][0] for run in data], 0.9)
        },
    )


def _draw_pruning(data: Sequence[Data]) -> Lines:
    return Lines(
        "Removing heads one by one", Axis("heads removed", tuple(map(str, range(MANY)))),
        "accuracy", {f"{MANY} heads": average(data, "curve").numpy()},
        note="after training; each time the head that is missed least",
    )  # fmt: skip


pruning = Experiment.described("removing-heads", _pruning, _draw_pruning, {"C52": _judge_pruning})
