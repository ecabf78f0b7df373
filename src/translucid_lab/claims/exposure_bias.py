"""C80: what a decoder reads while it learns and while it writes: the true prefix, or its own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.generate import SamplingConfig, draw, forbid
from translucid.models import DecoderModel
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.markov_chain import Chain, small_decoder, train
from translucid_lab.engine.intervals import clearly, median_of, ratio_of
from translucid_lab.engine.verdict import by_case, column

WORDS, LENGTH, BEFORE = 12, 16, 12
# Share of the words that a step of training reads from the net itself (Bengio et al. 2015).
OWN = {"the text's words": 0.0, "half its own words": 0.5}
OWN_WORDS = 0.95  # fraction of what is read that counts as all
SIDES = ("on the text", "on its own")


def _exposure(seed: int, quick: bool) -> Data:
    """A language model that has learned from true prefixes, and one that has learned from half its
    own words: how far their next words are from the truth after true prefixes, and after prefixes
    that they wrote themselves. The truth is known for both: it is a table."""
    generator = torch.Generator().manual_seed(seed)
    chain = Chain.random(WORDS, 2, 5.0, generator)
    # The first words are drawn evenly, which no later ones are: they are left out.
    texts, test = (chain.draw(count, BEFORE + LENGTH + 1, generator)[:, BEFORE:]
                   for count in (400, 200))  # fmt: skip
    measured: dict[str, Any] = {"truth": chain.truth(test)}
    for arm, fraction in OWN.items():
        net = small_decoder(WORDS + 1, seed=seed)  # one more: an end, which never comes
        train(net, _batches(net, texts, fraction, generator), 50 if quick else 300, rate=1e-2)
        net.eval()
        own = _written(net, test[:, :2], generator)
        measured[arm] = {SIDES[0]: _distance(net, chain, test[:, :LENGTH]),
                      SIDES[1]: _distance(net, chain, own)}  # fmt: skip
        if not fraction:
            measured["same"] = float(
                (_drawn(net, test[:, :-1], generator) == test[:, 1:]).float().mean()
            )
            measured["later"] = _later(net, test)
    return measured


def _batches(
    net: DecoderModel, texts: Tensor, fraction: float, generator: torch.Generator
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Inputs and targets; this fraction of the inputs, the first one not, is what the net says in
    its place. The targets are always the text's."""

    def batch() -> tuple[Tensor, Tensor]:
        rows = texts[torch.randint(len(texts), (32,), generator=generator)]
        read, targets = rows[:, :-1].clone(), rows[:, 1:]
        if fraction:
            own_words = _drawn(net, read, generator)[:, :-1]
            swapped = torch.rand(own_words.shape, generator=generator) < fraction
            read[:, 1:] = torch.where(swapped, own_words, read[:, 1:])
        return read, targets

    return batch


@torch.no_grad()
def _drawn(net: DecoderModel, read: Tensor, generator: torch.Generator) -> Tensor:
    """What the net says after each word, the words before it given: (texts, length)."""
    p = net(read)[..., :WORDS].softmax(dim=-1)
    return torch.multinomial(p.flatten(0, 1), 1, generator=generator).view_as(read)


def _written(net: DecoderModel, starts: Tensor, generator: torch.Generator) -> Tensor:
    """Texts that the net goes on with by itself, word by word."""
    texts: list[list[int]] = starts.tolist()
    numbers = torch.rand(len(starts), LENGTH - starts.shape[1], generator=generator)
    steps = draw(net, starts.tolist(), None, SamplingConfig(), numbers, eos=WORDS,
                 extra=[forbid([WORDS])])  # fmt: skip
    for step in steps:
        for row, token in zip(step.rows, step.tokens, strict=True):
            texts[row].append(token)
    return torch.tensor(texts)


@torch.no_grad()
def _distance(net: DecoderModel, chain: Chain, texts: Tensor) -> float:
    """KL(truth, net) of the next word, on average, in nats."""
    log_probs = net(texts)[:, chain.order - 1 :].log_softmax(dim=-1)[..., :WORDS]
    truth = chain.next(texts)
    return float((truth * (truth.log() - log_probs)).sum(dim=-1).mean())


@torch.no_grad()
def _later(net: DecoderModel, texts: Tensor) -> float:
    """How much the outputs of the first half change when the words of the second half do."""
    half = texts.shape[1] // 2
    other = torch.cat([texts[:, :half], (texts[:, half:] + 1) % WORDS], dim=1)
    return float((net(texts) - net(other))[:, :half].abs().max())


def _judge_exposure(data: Sequence[Data]) -> Finding:
    taught, scheduled = OWN
    gaps = {arm: ratio_of(column(data, arm, SIDES[1]), column(data, arm, SIDES[0])) for arm in OWN}
    same = median_of(column(data, "same"))
    later = max(column(data, "later"))
    cases = {
        "from the words before": later < 1e-4 if np.isfinite(later) else None,
        "from words that it generated": clearly(same.against(OWN_WORDS), "above"),
    }
    return by_case(
        cases, f"of the text's words, which training reads, a decoder would itself have said "
        f"{same}; later words change an output by at most {later:.1g}. Trained so, it is "
        f"{gaps[taught]} times as far from the truth after its own words as after the text's; "
        f"trained on half its own words, {gaps[scheduled]} times",
        "the word `generated`: a decoder learns from the words before, but they are the text's",
        {arm: gap.mean for arm, gap in gaps.items()},
    )  # fmt: skip


def _draw_exposure(data: Sequence[Data]) -> Bars:
    labels = [f"learned from {arm}: tried {side}" for arm in OWN for side in SIDES]
    values = [np.mean(column(data, arm, side)) for arm in OWN for side in SIDES]
    return Bars(
        "Writing, a decoder reads words that it did not learn from",
        "distance from the truth, nats",
        tuple(labels), np.array(values), note="KL of the next word, after prefixes of either kind",
    )  # fmt: skip


exposure = Experiment.described("exposure", _exposure, _draw_exposure, {"C80": _judge_exposure})
