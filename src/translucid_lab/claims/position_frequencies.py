"""C42, C43: fast and slow channels of the sinusoidal table, and whether the values of a channel
repeat.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.parts import Sinusoidal, period
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import average, by_case, column, decide

# ---- C42: fast and slow channels ----


WIDE = 64
PAIRS = WIDE // 2
HALVES = {"fast half": slice(0, PAIRS), "slow half": slice(PAIRS, WIDE), "all": slice(0, WIDE)}
DISTANCES = {"near": range(1, 6), "far": range(100, 1001, 100)}
NOISE = 0.1  # standard deviation in each channel
MORE, ENOUGH = 0.1, 0.75
SPAN = 4096  # positions in the Fourier transform


def _speeds(seed: int, quick: bool) -> Data:
    """Find the strongest frequency of each pair of channels. Then measure how often the nearer of
    two positions is recognised from noisy encodings: with the fast half of the channels, with the
    slow half, and with all."""
    generator, tries = torch.Generator().manual_seed(seed), 500 if quick else 5000
    return {
        "peaks": _peaks(SPAN),
        **{half: {name: _nearer(name, kept, tries, generator) for name in DISTANCES}
           for half, kept in HALVES.items()},
    }  # fmt: skip


def _peaks(places: int) -> list[float]:
    """Strongest frequency of each sine channel, in turns per position."""
    table = Sinusoidal(WIDE).encode(torch.arange(places))[:, 0::2]
    strength = torch.fft.rfft(table, dim=0).abs()
    return (strength.argmax(dim=0).double() / places).tolist()


def _nearer(name: str, kept: slice, tries: int, generator: torch.Generator) -> float:
    """The fraction of triples in which the nearer position has the nearer encoding."""
    choices = torch.tensor(list(DISTANCES[name]))
    drawn = torch.rand(tries, len(choices), generator=generator).argsort(dim=1)[:, :2]
    apart = choices[drawn].sort(dim=1).values  # (tries, 2), the nearer first
    side = 2 * torch.randint(2, (tries, 2), generator=generator) - 1
    here = torch.randint(1000, 3000, (tries, 1), generator=generator)
    exact = Sinusoidal(WIDE).encode(torch.cat([here, here + apart * side], dim=1))[..., kept]
    seen = exact + NOISE * torch.randn(exact.shape, generator=generator, dtype=exact.dtype)
    away = (seen[:, 1:] - seen[:, :1]).norm(dim=-1)
    return float((away[:, 0] < away[:, 1]).double().mean())


def _judge_speeds(data: Sequence[Data]) -> Finding:
    fraction = {half: {name: column(data, half, name) for name in DISTANCES} for half in HALVES}
    fine = difference_of(fraction["fast half"]["near"], fraction["slow half"]["near"], "rank")
    coarse = difference_of(fraction["slow half"]["far"], fraction["fast half"]["far"], "rank")
    together = [median_of(fraction["all"][name]) for name in DISTANCES]
    peaks = data[0]["peaks"]
    falls = all(a >= b for a, b in pairwise(peaks)) and peaks[0] > peaks[-1]
    enough = [interval.against(ENOUGH) for interval in together]
    return decide(
        {
            "frequencies fall with the index": falls,
            "the fast half is better near by": clearly(fine.against(MORE), "above"),
            "the slow half is better far away": clearly(coarse.against(MORE), "above"),
            "all together do both": True if set(enough) == {"above"} else
            False if "below" in enough else None,
        },
        f"in {SPAN} places the strongest frequency falls from {peaks[0]:.3g} turns per place to "
        f"{peaks[-1]:.3g}; "
        f"which of two places is nearer is told more often, near by, by the fast half, by {fine}, "
        f"and far away by the slow half, by {coarse}; all together tell it in {together[0]} and "
        f"{together[1]}",
    )  # fmt: skip


def _draw_speeds(data: Sequence[Data]) -> Lines:
    ranges = (f"{value[0]} to {value[-1]}" for value in DISTANCES.values())
    apart = f"places {' or '.join(ranges)} apart"
    return Lines(
        "Which of two places is nearer? By fast channels, slow ones and all",
        Axis(apart, tuple(DISTANCES)),
        "accuracy",
        {half: np.array([float(average(data, half, name)) for name in DISTANCES])
         for half in HALVES},
        note=f"d = {WIDE}, noise of {NOISE:g} in every channel; guessing is right in 0.5",
    )  # fmt: skip


speeds = Experiment.described("fast-and-slow", _speeds, _draw_speeds, {"C42": _judge_speeds})


# ---- C43: does a channel repeat? ----


NARROW = 4
LAST = 5000  # place
TURNS = 7  # in the picture; the slow pair has no more up to the last position
EXACT, OFF = 1e-9, 1e-6


def _repeats(seed: int, quick: bool) -> Data:
    """For each pair of channels, measure how far its values are from those at position 0 after
    whole turns: at the integer position nearest to the end of the turn, and at its exact end."""
    measured: dict[str, Any] = {"period": [period(pair, NARROW) for pair in range(NARROW // 2)]}
    ends = [torch.arange(1, int(LAST / turn) + 1, dtype=torch.float64) * turn
            for turn in measured["period"]]  # fmt: skip
    whole = [_from_start(pair, end.round()) for pair, end in enumerate(ends)]
    between = [_from_start(pair, end) for pair, end in enumerate(ends)]
    return {
        **measured,
        "closest": [float(value.min()) for value in whole],
        "closest_at": [
            int(end.round()[value.argmin()]) for end, value in zip(ends, whole, strict=True)
        ],
        "between": [float(value.max()) for value in between],
        "whole_turns": [value[:TURNS].tolist() for value in whole],
        "between_turns": torch.stack([value[:TURNS] for value in between]).amax(dim=0).tolist(),
    }


def _from_start(pair: int, places: Tensor) -> Tensor:
    """Distance of a pair's values from those at position 0. Two other positions with the same
    offset have the same distance."""
    table = Sinusoidal(NARROW)
    columns = slice(2 * pair, 2 * pair + 2)
    return (table.encode(places)[:, columns] - table.encode(torch.zeros(1))[:, columns]).norm(dim=1)


def _judge_repeats(data: Sequence[Data]) -> Finding:
    (values,) = data[:1]
    sides: dict[str, bool | None] = {}
    parts = []
    for pair, closest in enumerate(values["closest"]):
        sides[f"pair {pair}, whole positions"] = _repeated(closest)
        sides[f"pair {pair}, positions between"] = _repeated(values["between"][pair])
        parts.append(f"pair {pair} (T = {values['period'][pair]:.5g}) comes back to {closest:.1e} "
                     f"at best, at {values['closest_at'][pair]}")  # fmt: skip
    return by_case(
        sides, f"in whole steps to {LAST}, {'; '.join(parts)}; between two steps, after T exactly, "
        f"to {max(values['between']):.0e}", "whether positions are whole numbers, as tokens have",
        {"closest": min(values["closest"])},
    )  # fmt: skip


def _repeated(distance: float) -> bool | None:
    return True if distance < EXACT else False if distance > OFF else None


def _draw_repeats(data: Sequence[Data]) -> Lines:
    (first,) = data[:1]
    series = {f"pair {pair}, nearest whole step": np.array(values)
              for pair, values in enumerate(first["whole_turns"])}  # fmt: skip
    series["between two steps"] = np.array(first["between_turns"]).clip(min=1e-17)
    return Lines(
        "How far a channel is from repeating, after whole turns",
        Axis("turns", tuple(str(turn + 1) for turn in range(TURNS))), "distance from the start",
        series, logarithmic=True, note=f"d = {NARROW}; 1e-15 is rounding",
    )  # fmt: skip


repeats = Experiment.described("exact-repeats", _repeats, _draw_repeats, {"C43": _judge_repeats})
