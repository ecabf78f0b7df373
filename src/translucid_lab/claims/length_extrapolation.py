"""C34, C35, C38, ALiBi: which position schemes work beyond the trained length; rotary scaling."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from translucid.models import Network
from translucid.parts import PositionName
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.position_tasks import (
    FOUR_TIMES,
    GUESSING,
    INSIDE,
    TESTED,
    TRAINED,
    TWICE,
    VOCAB,
    by_place,
    copy_back,
    far_letter,
    kept,
    latest,
    learned,
    over,
    small_transformer,
)
from translucid_lab.engine.intervals import clearly, difference_of, mean_of, median_of
from translucid_lab.engine.verdict import all_hold, average, by_case, column, decide, has_learned

KEEPS = 0.9  # of the accuracy above chance inside the trained length
LEARNED = 0.9  # accuracy inside, required for the test
PLACES = {"to twice the length": TWICE, "to four times": FOUR_TIMES}
BLOCK = 4  # places that share a point of a line


# ---- C34, C35, and ALiBi: five kinds of positions ----


KINDS: tuple[PositionName, ...] = ("sinusoidal", "learned", "rotary", "alibi", "none")
COPYING: tuple[PositionName, ...] = KINDS[:2]  # ALiBi and none do not learn it
TITLES = {"alibi": "ALiBi", "none": "no positions"}


def _beyond(seed: int, quick: bool) -> Data:
    """Accuracy at each of 64 positions, after training on texts of 16 tokens. There are three
    tasks: find the latest letter, find the only letter (at the start), and copy the letter three
    positions back."""
    measured: dict[str, Any] = {}
    for kind in KINDS:
        net = learned(seed, kind, latest, quick)
        measured[kind] = {task.__name__: by_place(net, task, seed) for task in (latest, far_letter)}
        if kind in COPYING:
            net = learned(seed, kind, copy_back, quick)
            measured[kind]["copy_back"] = by_place(net, copy_back, seed)
    return measured


TASKS = {"copy_back": "three back", "latest": "the last letter", "far_letter": "a far letter"}


def _keeps(
    data: Sequence[Data], paths: Mapping[str, tuple[str | int, ...]]
) -> tuple[dict[str, bool | None], dict[str, bool], str]:
    """For every task and range, is what was known kept, and was it known? And the numbers."""
    cases: dict[str, bool | None] = {}
    known: dict[str, bool] = {}
    parts = []
    for task, path in paths.items():
        inside = over(data, INSIDE, *path)
        for name, places in PLACES.items():
            fraction = kept(data, places, *path)
            case = f"{TASKS[task]} {name}"
            known[case] = has_learned(inside, LEARNED)
            cases[case] = clearly(fraction.against(KEEPS), "above")
            parts.append(f"{case} {fraction}")
        parts[-1] += f" (right inside in {median_of(inside).mean:.3g})"
    return cases, known, "kept of what is known above chance inside: " + "; ".join(parts)


def _judge_sinusoidal(data: Sequence[Data]) -> Finding:
    paths = {task: ("sinusoidal", task) for task in ("copy_back", "latest")}
    cases, known, why = _keeps(data, paths)
    return by_case(cases, why, "the task and how far beyond", learned=known)


def _judge_alibi(data: Sequence[Data]) -> Finding:
    paths = {task: ("alibi", task) for task in ("latest", "far_letter")}
    cases, known, why = _keeps(data, paths)
    return by_case(cases, why, "how far away the letter is, and how far beyond", learned=known)


def _judge_learned(data: Sequence[Data]) -> Finding:
    inside = {kind: {task: over(data, INSIDE, kind, task) for task in ("copy_back", "latest")}
              for kind in COPYING}  # fmt: skip
    worse = [difference_of(inside["sinusoidal"][task], inside["learned"][task], "rank")
             for task in ("copy_back", "latest")]  # fmt: skip
    copied = median_of(over(data, slice(TRAINED, TESTED), "learned", "copy_back"))
    last = kept(data, slice(TRAINED, TESTED), "learned", "latest")
    sides: dict[str, bool | None] = {
        "as well as sinusoidal, within 0.05": all_hold(
            [clearly(case.against(0.05), "below") for case in worse]
        ),
        "three back falls to chance, within 0.1": clearly(copied.against(GUESSING + 0.1), "below"),
        "the last letter loses a tenth or more": clearly(last.against(KEEPS), "below"),
    }  # fmt: skip
    return decide(
        sides,
        f"inside, learned positions are behind sinusoidal ones by {worse[0]} (three back) and "
        f"{worse[1]} (the last letter); beyond, three back is right in {copied} (chance "
        f"{GUESSING:.3g}), and the last letter keeps {last}",
        {"copied": copied.mean, "kept": last.mean},
        learned={
            "both tasks inside": all(
                has_learned(values, LEARNED) for values in inside["learned"].values()
            )
        },
    )


def _draw_beyond(data: Sequence[Data]) -> Lines:
    return Lines(
        f"Trained on {TRAINED} tokens, read on {TESTED}: say the letter read last", _blocks(),
        "accuracy",
        {TITLES.get(kind, kind): _in_blocks(average(data, kind, "latest").numpy())
         for kind in KINDS},
        note=f"means of {BLOCK} places; 1 to {TRAINED} are as in training; guessing is right in "
        f"{GUESSING:.3g}",
    )  # fmt: skip


def _blocks() -> Axis:
    ends = range(BLOCK, TESTED + 1, BLOCK)
    return Axis("place in the text", tuple(map(str, ends)))


def _in_blocks(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, BLOCK).mean(axis=1)


beyond_length = Experiment.described(
    "beyond-length",
    _beyond,
    _draw_beyond,
    {"C34": _judge_sinusoidal, "C35": _judge_learned, "alibi": _judge_alibi},
)


# ---- C38, and rotary scaling ----


SCALINGS = (1.0, 2.0, 4.0)
CONTEXTS = (256, 1024)  # tokens
SAVED = 0.8  # of the time: more than the noise of a busy machine


def _rotary(seed: int, quick: bool) -> Data:
    """Train rotary networks on texts of 16 tokens. Measure the accuracy at each position if
    positions are divided by 1, 2 and 4 in evaluation, and the time of a forward pass relative to
    sinusoidal positions."""
    measured: dict[str, Any] = {}
    net = learned(seed, "rotary", latest, quick)
    for task in (latest, far_letter):
        measured[task.__name__] = [by_place(_divided(net, by), task, seed) for by in SCALINGS]
    net = learned(seed, "rotary", copy_back, quick)
    measured["copy_back"] = [by_place(_divided(net, by), copy_back, seed) for by in SCALINGS]
    measured["time"] = [_time_ratio(seed, length, 5 if quick else 15) for length in CONTEXTS]
    return measured


def _divided(net: Network, by: float) -> Network:
    """A copy of the network, with the same weights, whose positions are divided by a factor."""
    layers = sum(name.endswith("qkv.weight") for name in net.state_dict())
    other = small_transformer("rotary", layers, scaling=by)
    other.load_state_dict(net.state_dict())
    return other


def _time_ratio(seed: int, length: int, tries: int) -> float:
    """Time of a forward pass with rotary positions divided by the time with sinusoidal positions.
    Both are the best of several passes, in which the two networks take turns."""
    ids = torch.randint(VOCAB, (1, length), generator=torch.Generator().manual_seed(seed))
    kinds: tuple[PositionName, ...] = ("rotary", "sinusoidal")
    nets = {kind: small_transformer(kind, layers=2).eval() for kind in kinds}
    best = dict.fromkeys(kinds, float("inf"))
    with torch.no_grad():
        for _ in range(tries):
            for kind in kinds:
                begun = time.perf_counter()
                nets[kind](ids)
                best[kind] = min(best[kind], time.perf_counter() - begun)
    return best["rotary"] / best["sinusoidal"]


def _judge_efficient(data: Sequence[Data]) -> Finding:
    ratio = mean_of(column(data, "time", -1), "log")
    cases, known, why = _keeps(data, {task: (task, 0) for task in ("copy_back", "far_letter")})
    return by_case(
        {"less time": clearly(ratio.against(SAVED), "below"), **cases},
        f"a pass over {CONTEXTS[-1]} tokens takes {ratio} times as long as with sinusoidal "
        f"positions; {why}",
        "what is asked: time, the same distances in longer texts, or distances never trained",
        learned=known,
    )


def _judge_scaling(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    known: dict[str, bool] = {}
    parts = []
    for at, (name, places) in enumerate(PLACES.items(), start=1):
        for task in TASKS:
            gain = difference_of(over(data, places, task, at), over(data, places, task, 0), "rank")
            case = f"{TASKS[task]} {name}, divided by {SCALINGS[at]:g}"
            known[case] = has_learned(over(data, INSIDE, task, 0), LEARNED)
            cases[case] = clearly(gain.against(0.0), "above")
            parts.append(f"{case} {gain}")
    return by_case(
        cases, "accuracy gained: " + "; ".join(parts), "the task and how far beyond", learned=known
    )


def _draw_rotary(data: Sequence[Data]) -> Lines:
    names = ("as trained", *(f"divided by {by:g}" for by in SCALINGS[1:]))
    return Lines(
        f"Rotary positions, trained on {TRAINED} tokens: a letter far away", _blocks(),
        "accuracy",
        {name: _in_blocks(average(data, "far_letter", at).numpy())
         for at, name in enumerate(names)},
        note="the only letter is the first token, and is asked for at every place",
    )  # fmt: skip


rotary_scaling = Experiment.described(
    "rotary-scaling",
    _rotary,
    _draw_rotary,
    {"C38": _judge_efficient, "rotary-scaling": _judge_scaling},
)
