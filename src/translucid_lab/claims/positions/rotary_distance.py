"""C37: rotary scores depend on the distance."""

from collections.abc import Sequence

import torch
from torch import Tensor

from translucid.parts.positions import Rotary, rotate
from translucid.see.pictures import Axis, Heat
from translucid_lab.claims.shared.position_tasks import OTHER, SAME
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, column, decide

D_HEAD = 8
TABLE = 12  # places on each side of the picture
FAR = (0, 100, 5000)  # where the same distance is asked for again


def _turned(seed: int, quick: bool) -> Data:
    """Scores of one query and one key at many places: all of a table, and far away."""
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
    """(query places, key places)"""
    return _rotated(q, places) @ _rotated(k, places).T


def _rotated(x: Tensor, places: Tensor) -> Tensor:
    angles = Rotary(len(x)).angles(places[None])
    return rotate(x.expand(1, 1, len(places), -1), angles)[0, 0]  # (places, d_head)


def _spread(table: Tensor, first: Tensor) -> float:
    """How far scores of the same distance are from one another, at most."""
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


turned = Experiment(
    name="rotary-distance",
    title="Rotary scores by distance",
    varies="the places of a query and a key, near and far in a text",
    measures="their score, and the lengths of turned vectors",
    claims={
        "C37": Rule(
            "Supported if scores at one distance agree within 1e-9 wherever they stand, lengths "
            "are kept within 1e-9, and scores at different distances differ; refuted if one is "
            "clearly not so (by 1e-3).",
            _judge_turned,
            label="identity",
        )
    },
    run=_turned,
    draw=_draw_turned,
    seconds=0.05,
    references=("https://arxiv.org/abs/2104.09864",),
)
