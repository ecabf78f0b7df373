"""Which position schemes are absolute (C36), and two relative ones: rotary scores (C37), the
dot product of sinusoidal encodings (C44).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid import NO_TRACE
from translucid.models import Network
from translucid.parts import PositionName, Rotary, SelfAttention, Sinusoidal, rotate
from translucid.see import Axis, Heat, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.position_tasks import (
    OTHER,
    ROWS,
    SAME,
    TESTED,
    TRAINED,
    VOCAB,
    small_transformer,
    stack,
)
from translucid_lab.engine.intervals import mean_of
from translucid_lab.engine.verdict import average, by_case, column, decide

WIDTH, DISTANCE = 64, 3
EVERY = 4  # positions between two points of the picture


def _dot(seed: int, quick: bool) -> Data:
    """The dot product PE(p) · PE(p + 3) for each p, both of the encodings themselves and after the
    projections of an attention layer. Also PE(p) · PE(p - 3) of the encodings."""
    torch.manual_seed(seed)
    places = torch.arange(DISTANCE, DISTANCE + TESTED)
    table = Sinusoidal(WIDTH)
    here, after, before = (table.encode(places + by) for by in (0, DISTANCE, -DISTANCE))
    queries, keys, _ = SelfAttention(WIDTH, heads=1).qkv.weight.detach().double().chunk(3)
    return {
        "as they are": (here * after).sum(dim=-1).tolist(),
        "projected": ((here @ queries.T) * (after @ keys.T)).sum(dim=-1).tolist(),
        "before": (here * before).sum(dim=-1).tolist(),
    }


def _judge_dot(data: Sequence[Data]) -> Finding:
    spread = {name: [float(np.std(run[name]) / np.mean(np.abs(run[name]))) for run in data]
              for name in ("as they are", "projected")}  # fmt: skip
    cases = {name: True if max(values) < SAME else False if min(values) > 0.1 else None
             for name, values in spread.items()}  # fmt: skip
    sides = max(float(np.abs(np.subtract(run["as they are"], run["before"])).max())
                for run in data)  # fmt: skip
    cases["before or after"] = True if sides > OTHER else False if sides < SAME else None
    return by_case(
        cases, f"PE(p)·PE(p+{DISTANCE}) by p has a deviation of {max(spread['as they are']):.1e} "
        f"of its size as they are, and of {mean_of(spread['projected'], 'log')} through the "
        f"projections of an untrained layer; PE(p)·PE(p-{DISTANCE}) differs from it by {sides:.1e}",
        "the projections, and on what is to be read",
    )  # fmt: skip


def _draw_dot(data: Sequence[Data]) -> Lines:
    shown = slice(0, TESTED, EVERY)
    (first,) = data[:1]
    sizes = {name: np.array(first[name]) for name in ("as they are", "projected")}
    return Lines(
        f"The dot product of encodings {DISTANCE} places apart",
        Axis("place p", tuple(str(DISTANCE + at) for at in range(TESTED)[shown])),
        "PE(p) · PE(p + 3), in its mean size",
        {name: (values / np.abs(values).mean())[shown] for name, values in sizes.items()},
        note="projected: by the queries and keys of one untrained attention layer",
    )  # fmt: skip


dot_product = Experiment.described("relative-term", _dot, _draw_dot, {"C44": _judge_dot})


KINDS: tuple[PositionName, ...] = ("sinusoidal", "learned", "rotary", "alibi")
SHIFTS = (1, 8, 40)


def _absolute(seed: int, quick: bool) -> Data:
    """Largest change of an output when the whole text is shifted."""
    measured: dict[str, list[float]] = {}
    ids = torch.randint(VOCAB, (4 if quick else ROWS, TRAINED),
                        generator=torch.Generator().manual_seed(seed))  # fmt: skip
    for kind in KINDS:
        torch.manual_seed(seed)
        net = small_transformer(kind, layers=2).double()
        here = _read_at(net, ids, 0)
        measured[kind] = [float((_read_at(net, ids, by) - here).abs().max()) for by in SHIFTS]
    return measured


def _read_at(net: Network, ids: Tensor, first: int) -> Tensor:
    """Output of the layers for a text that starts at this position."""
    layers = stack(net)
    places = torch.arange(first, first + ids.shape[1])[None]
    with torch.no_grad():
        x = layers.embed(ids, places, NO_TRACE)
        return layers.through(x, layers.layout(places, None, NO_TRACE), None, NO_TRACE)


def _moves(data: Sequence[Data], kind: str) -> bool | None:
    """Is this kind absolute: do outputs change when the whole text is moved?"""
    changes = [value for run in data for value in run[kind]]
    return True if min(changes) > OTHER else False if max(changes) < SAME else None


def _judge_absolute(data: Sequence[Data]) -> Finding:
    moves = {kind: _moves(data, kind) for kind in KINDS}
    sinusoidal, absolute = moves["sinusoidal"], moves["learned"]
    opposed = None if None in (sinusoidal, absolute) else sinusoidal is not absolute
    if absolute is not True:  # then what is called absolute is not
        opposed = None
    summary = ", ".join(f"{kind} {max(value for run in data for value in run[kind]):.1e}"
                     for kind in KINDS)  # fmt: skip
    return decide(
        {"a sinusoidal one does not hang on the place": opposed},
        f"moving the whole text by up to {SHIFTS[-1]} places changes outputs by at most: {summary}",
    )


def _draw_absolute(data: Sequence[Data]) -> Lines:
    return Lines(
        "The whole text moved: how much outputs change",
        Axis("moved by so many places", tuple(map(str, SHIFTS))),
        "largest change",
        {"ALiBi" if kind == "alibi" else kind: average(data, kind).numpy().clip(min=1e-17)
         for kind in KINDS},
        logarithmic=True, note="untrained nets in float64: 1e-15 is rounding",
    )  # fmt: skip


absolute = Experiment.described(
    "absolute-positions", _absolute, _draw_absolute, {"C36": _judge_absolute}
)


D_HEAD = 8
TABLE = 12  # positions in the picture
FAR = (0, 100, 5000)  # first positions of the compared tables


def _turned(seed: int, quick: bool) -> Data:
    """Scores of one rotated query and one rotated key at many positions, near and far."""
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, D_HEAD, generator=generator, dtype=torch.float64)
    tables = [turned_scores(q, k, torch.arange(first, first + TABLE)) for first in FAR]
    turned = _rotated(q, torch.arange(TABLE))
    by_distance = [tables[0].diagonal(offset).mean() for offset in range(-TABLE + 1, TABLE)]
    return {
        "scores": tables[0].tolist(),
        "same_distance": max(_spread(table, tables[0]) for table in tables),
        "norm": float((turned.norm(dim=-1) - q.norm()).abs().max()),
        "by_distance": float(torch.stack(by_distance).std()),
    }


def turned_scores(q: Tensor, k: Tensor, places: Tensor) -> Tensor:
    """Scores of q and k, each rotated to every position: (query positions, key positions)."""
    return _rotated(q, places) @ _rotated(k, places).T


def _rotated(x: Tensor, places: Tensor) -> Tensor:
    angles = Rotary(len(x)).angles(places[None])
    return rotate(x.expand(1, 1, len(places), -1), angles)[0, 0]  # (places, d_head)


def _spread(table: Tensor, first: Tensor) -> float:
    """Largest difference of scores at the same distance."""
    return max(
        float((table.diagonal(offset) - first.diagonal(offset)[0]).abs().max())
        for offset in range(-TABLE + 1, TABLE)
    )


def _judge_turned(data: Sequence[Data]) -> Finding:
    same, norm = max(column(data, "same_distance")), max(column(data, "norm"))
    differ = min(column(data, "by_distance"))
    return decide(
        {
            "one distance, one score": True if same < SAME else False if same > OTHER else None,
            "lengths are kept": True if norm < SAME else False if norm > OTHER else None,
            "scores differ by distance": True if differ > OTHER else
            False if differ < SAME else None,
        },
        f"scores at one distance are at most {same:.1e} apart, up to place {FAR[-1] + TABLE}; "
        f"lengths change by at most {norm:.1e}; scores by distance have a deviation of at least "
        f"{differ:.2g}",
    )  # fmt: skip


def _draw_turned(data: Sequence[Data]) -> Heat:
    places = tuple(map(str, range(TABLE)))
    return Heat(
        "Rotary: the score of one query and one key, by place", average(data, "scores").numpy(),
        Axis("place of the query", places), Axis("place of the key", places),
        note="one colour along each diagonal: only the distance counts",
    )  # fmt: skip


turned = Experiment.described("rotary-distance", _turned, _draw_turned, {"C37": _judge_turned})
