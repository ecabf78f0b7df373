"""C34, C35 on real text: language models of WikiText-2 beyond their training length."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.models import TransformerConfig, build
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, fit, random_rows
from translucid_lab.claims.length_extrapolation import COPYING, KEEPS, PLACES
from translucid_lab.claims.position_tasks import FOUR_TIMES, TESTED, TRAINED, TWICE
from translucid_lab.claims.real_weights import lines
from translucid_lab.claims.toyland_text import numbered
from translucid_lab.engine.intervals import clearly, difference_of, mean_of
from translucid_lab.engine.verdict import average, by_case, column, decide, has_learned

COMMON = 1000  # words in the vocabulary
TEXTS, NEW = 8000, 400
RANGES = {"inside": slice(0, TRAINED), "to twice the length": TWICE, "to four times": FOUR_TIMES}
LEARNED = 0.2  # nats a word better than the frequency of words, inside


def _beyond(seed: int, quick: bool) -> Data:
    """Loss for each range of positions: of networks trained on texts of 16 words, and of word
    frequencies alone."""
    ids = _table()
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    seen, new = (
        ids[order[:TEXTS], : TRAINED + 1],
        ids[order[TEXTS : TEXTS + (60 if quick else NEW)]],
    )
    counts = torch.bincount(seen.flatten(), minlength=COMMON + 2).double() + 1
    known = -(counts / counts.sum()).log()[new[:, 1:]].mean(dim=0)  # nats, by place
    measured: dict[str, Any] = {"frequency": _by_range(known)}
    for positions in COPYING:
        torch.manual_seed(seed)
        net = build(TransformerConfig(
            shape="decoder", head="language", vocab=COMMON + 2, d_model=64, heads=4, layers=2,
            d_ff=128, dropout=0.0, positions=positions, max_length=TESTED,
        ))  # fmt: skip
        generator = torch.Generator().manual_seed(seed)

        def loss(net: Any = net, generator: torch.Generator = generator) -> Tensor:
            rows = random_rows(seen, 32, generator)
            return F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

        fit(net, loss, steps=40 if quick else 600, learning_rate=3e-3, clip_norm=1.0)
        with torch.no_grad():
            logits = net.eval()(new[:, :-1])
            losses = F.cross_entropy(logits.transpose(1, 2), new[:, 1:], reduction="none")
        measured[positions] = _by_range(losses.mean(dim=0))
    return measured


@lru_cache(maxsize=1)
def _table() -> Tensor:
    """Consecutive words of WikiText-2: (texts, 65)."""
    words = [word for line in lines("data/wikitext-2/train.txt") for word in line.split()]
    runs = [words[at : at + TESTED + 1] for at in range(0, len(words) - TESTED, TESTED + 1)]
    return numbered(runs[:12_000], COMMON)[0]


def _by_range(losses: Tensor) -> dict[str, float]:
    return {name: float(losses[places].mean()) for name, places in RANGES.items()}


def _gained(data: Sequence[Data], positions: str, places: str) -> list[float]:
    """Nats a word better than the frequency of words, of every seed."""
    return [run["frequency"][places] - run[positions][places] for run in data]


def _kept(data: Sequence[Data], positions: str, places: str) -> Any:
    """The fraction of what is gained inside that is gained there."""
    pairs = zip(_gained(data, positions, "inside"), _gained(data, positions, places), strict=True)
    return mean_of([there / max(inside, 1e-9) for inside, there in pairs])


def _learned(data: Sequence[Data]) -> dict[str, bool]:
    return {f"words after words, with {positions} positions":
            has_learned(_gained(data, positions, "inside"), LEARNED)
            for positions in COPYING}  # fmt: skip


def _judge_sinusoidal(data: Sequence[Data]) -> Finding:
    kept = {places: _kept(data, "sinusoidal", places) for places in PLACES}
    return by_case(
        {places: clearly(value.against(KEEPS), "above") for places, value in kept.items()},
        "kept of what is gained inside over the frequency of words ("
        f"{mean_of(_gained(data, 'sinusoidal', 'inside'))} nats a word): "
        + "; ".join(f"{places} {value}" for places, value in kept.items()),
        "how far beyond", {places: value.mean for places, value in kept.items()},
        learned=_learned(data),
    )  # fmt: skip


def _judge_learned(data: Sequence[Data]) -> Finding:
    worse = difference_of(column(data, "learned", "inside"), column(data, "sinusoidal", "inside"))
    kept = {places: _kept(data, "learned", places) for places in PLACES}
    sides: dict[str, bool | None] = {
        "as well as sinusoidal, within 0.05 nats": clearly(worse.against(0.05), "below")
    }
    sides |= {f"a tenth or more is lost {places}": clearly(value.against(KEEPS), "below")
              for places, value in kept.items()}  # fmt: skip
    return decide(
        sides,
        f"inside, learned positions are behind sinusoidal ones by {worse} nats a word; beyond, of "
        "what they gain inside over the frequency of words they keep "
        + "; ".join(f"{value} {places}" for places, value in kept.items()),
        {"worse": worse.mean, **{places: value.mean for places, value in kept.items()}},
        learned=_learned(data),
    )  # fmt: skip


def _draw_beyond(data: Sequence[Data]) -> Lines:
    names = {"frequency": "frequency of words alone", "sinusoidal": "sinusoidal positions",
             "learned": "learned positions"}  # fmt: skip
    return Lines(
        f"Trained on {TRAINED} words of WikiText-2, read on {TESTED}",
        Axis("places in the text", (f"1 to {TRAINED}", f"to {2 * TRAINED}", f"to {TESTED}")),
        "loss, nats a word",
        {title: torch.stack([average(data, name, places) for places in RANGES]).numpy()
         for name, title in names.items()},
    )  # fmt: skip


lengths = Experiment.described(
    "real-lengths", _beyond, _draw_beyond, {"C34": _judge_sinusoidal, "C35": _judge_learned}
)
