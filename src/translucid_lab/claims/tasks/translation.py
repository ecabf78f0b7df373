"""C17: a text for a text.

Shapes: ids (texts, longest), 0 where a text has ended.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid.models import TransformerConfig, build
from translucid.see.pictures import Bars
from translucid.tasks.batch import IGNORE
from translucid_lab.claims.shared.toyland_text import padded
from translucid_lab.claims.tasks.training import token_loss, train_on_rows
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    Verdict,
    clearly,
    column,
    has_learned,
    median_of,
    not_tested,
)

# A made-up language: word w becomes w, but every third word has a particle too, which goes to the
# end of the sentence, the last word's particle first. So lengths differ, and words move.
WORDS, MAX_LENGTH = 9, 5
BEGIN, END = 1, 2
SYSTEMS = ("a word for each word", "encoder and decoder", "one decoder for both")


def translated(source: Sequence[int]) -> list[int]:
    """Words are 3 to 2 + WORDS; so are their translations, and particles come after those."""
    particles = [3 + WORDS + (word - 3) // 3 for word in source if word % 3 == 0]
    return [*source, *reversed(particles)]


def _pairs(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(2, MAX_LENGTH + 1, (count,), generator=generator).tolist()
    words = torch.randint(3, 3 + WORDS, (count, MAX_LENGTH), generator=generator).tolist()
    sources = [row[:length] for row, length in zip(words, lengths, strict=True)]
    targets = [[*translated(source), END] for source in sources]
    return padded(sources), padded(targets)


def _apart(train: int, test: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pairs to train on, and then as many to test that are not among those, nor twice."""
    source, target = _pairs(4 * (train + test), generator)
    seen = {tuple(row) for row in source[:train].tolist()}
    new: dict[tuple[int, ...], int] = {}
    for place, row in enumerate(source[train:].tolist(), start=train):
        if tuple(row) not in seen:
            new.setdefault(tuple(row), place)
    chosen = torch.tensor([*range(train), *list(new.values())[:test]])
    return source[chosen], target[chosen]


def _translations(seed: int, quick: bool) -> Data:
    """The fraction of new sentences that are translated without a fault. A text is written without
    a fault if every word is the likeliest after the right ones, so one pass tells."""
    train, test, steps = (500, 100, 80) if quick else (3000, 400, 1000)
    generator = torch.Generator().manual_seed(seed)
    source, target = _apart(train, test, generator)
    vocab = 3 + WORDS + WORDS // 3
    measured: dict[str, float] = {}
    for system in SYSTEMS:
        torch.manual_seed(seed)
        net, sides, wanted = _system(system, source, target, vocab)

        def called(rows: Tensor, net: nn.Module = net, sides: list[Tensor] = sides) -> Tensor:
            out: Tensor = net(*(value[rows] for value in sides))
            return out

        def loss(
            rows: Tensor, called: Callable[[Tensor], Tensor] = called, wanted: Tensor = wanted
        ) -> Tensor:
            return token_loss(called(rows), wanted[rows])

        train_on_rows(net, loss, train, steps, seed)
        new = torch.arange(train, train + test)
        with torch.no_grad():
            right = (called(new).argmax(-1) == wanted[new]) | (wanted[new] == IGNORE)
        whole = right.all(-1)
        if system == SYSTEMS[0]:  # what does not fit into as many words as were given is lost
            whole &= (target[new] > END).sum(-1) <= (source[new] != 0).sum(-1)
        measured[system] = float(whole.float().mean())
    equal = (target[train:] > END).sum(-1) == (source[train:] != 0).sum(-1)
    return measured | {"equal lengths": float(equal.float().mean())}


def _system(
    system: str, source: Tensor, target: Tensor, vocab: int
) -> tuple[nn.Module, list[Tensor], Tensor]:
    """A net, what it is called with, and what it should answer."""
    sizes: dict[str, Any] = {"vocab": vocab, "d_model": 48, "heads": 4, "layers": 2, "dropout": 0.0}
    asked = torch.where(target == 0, IGNORE, target)
    before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], dim=1)
    if system == SYSTEMS[0]:
        places = asked[:, : source.shape[1]].masked_fill(source == 0, IGNORE)
        net = build(TransformerConfig(shape="encoder", head="tag", outputs=vocab, **sizes))
        return net, [source, source != 0], places
    if system == SYSTEMS[1]:
        net = build(TransformerConfig(shape="encoder-decoder", head="language", **sizes))
        return net, [source, before, source != 0], asked
    joined = torch.cat([source, before], dim=1)
    silent = torch.full_like(source, IGNORE)
    net = build(TransformerConfig(shape="decoder", head="language", **sizes))
    return net, [joined, joined != 0], torch.cat([silent, asked], dim=1)


def _judge_translations(data: Sequence[Data]) -> Finding:
    aligned, two, one = (median_of(column(data, system)) for system in SYSTEMS)
    fails, needed = clearly(aligned.against(0.5), "below"), clearly(one.against(0.9), "below")
    summary = (
        f"new sentences without a fault: {aligned} with a word for each word, {two} with encoder "
        f"and decoder, {one} with one decoder that reads and writes"
    )
    if not has_learned(column(data, SYSTEMS[1]), 0.9):
        return not_tested(summary, ["an encoder with a decoder that translates"])
    verdict: Verdict = "undecided"
    if fails is False:
        verdict = "refuted"
    elif fails and needed is not None:
        verdict = "supported" if needed else "depends"
    if verdict == "depends":
        summary += "; it depends on what is meant by separate: the lengths forbid a word for each "
        summary += "word, but one decoder that reads the source first does as well"
    return Finding(verdict, summary)


def _draw_translations(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, system)) for system in SYSTEMS])
    equal = np.mean(column(data, "equal lengths"))
    return Bars("Translations whose length differs from the source", "sentences without a fault",
                SYSTEMS, values, note=f"{equal:.0%} of the pairs have equal lengths")  # fmt: skip


unequal_lengths = Experiment(
    name="unequal-lengths",
    title="Translation when lengths differ: a word for each word, two nets, one net",
    varies="a tagger that writes a word for each word, an encoder with a decoder, one decoder",
    measures="the fraction of new sentences that are translated without a fault",
    claims={
        "C17": Rule(
            "Once an encoder with a decoder gets 0.9 of new sentences right in eight of ten seeds "
            "(else not tested): supported if a word for each word is clearly below 0.5 and one "
            "decoder for both clearly below 0.9; depends (on what is meant by separate) if one "
            "decoder is clearly above 0.9; refuted if a word for each word is clearly above 0.5.",
            _judge_translations,
        )
    },
    run=_translations,
    draw=_draw_translations,
    seconds=60.0,
    references=("https://arxiv.org/abs/1406.1078", "https://arxiv.org/abs/1409.3215"),
)
