"""C36: which positions are absolute."""

from collections.abc import Sequence

import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE
from translucid.models.base import Network
from translucid.parts.positions import PositionName
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.position_tasks import (
    OTHER,
    ROWS,
    SAME,
    TRAINED,
    VOCAB,
    small_transformer,
    stack,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, decide

KINDS: tuple[PositionName, ...] = ("sinusoidal", "learned", "rotary", "alibi")
SHIFTS = (1, 8, 40)


def _absolute(seed: int, quick: bool) -> Data:
    """The largest change of an output when the whole text stands some places further on."""
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
    """What the layers make of a text whose first token stands at this place."""
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


absolute = Experiment(
    name="absolute-positions",
    title="Which positions are absolute: a text that is moved as a whole",
    varies="the kind of positions; by how many places the whole text is moved",
    measures="the largest change of what comes out of the layers",
    claims={
        "C36": Rule(
            "A kind is absolute if outputs change (by more than 1e-3) when the whole text is "
            "moved, and not if they do not (less than 1e-9). Learned positions, one vector for "
            "each place, are absolute by name. Supported if sinusoidal ones are not, refuted if "
            "they are too; undecided if a change lies between, or learned ones are not absolute.",
            _judge_absolute,
            label="identity",
        )
    },
    run=_absolute,
    draw=_draw_absolute,
    seconds=0.1,
    references=("https://arxiv.org/abs/1803.02155", "https://arxiv.org/abs/2102.11090"),
)
