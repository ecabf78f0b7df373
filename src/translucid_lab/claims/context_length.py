"""C24: does a network's next word depend on a word far back, if the text itself depends on it?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.models import Network, RecurrentConfig, build
from translucid.parts import CellName
from translucid.see import Axis, Lines
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.sequence_tasks import Draw, batch_of, train
from translucid_lab.engine.intervals import clearly, ratio_of
from translucid_lab.engine.verdict import average, column, decide, has_learned

WORDS = 8
BACK = (2, 24)  # distance to the far word that the next one depends on
TEXT = 40  # words
SHARPNESS = 2.0  # of the dependence on either word
READERS: dict[str, CellName] = {"RNN": "rnn", "LSTM": "lstm"}
COUNTS = 0.05  # of the near word's influence: less is hardly any
LEARNED = 0.5


def _far_words(seed: int, quick: bool) -> Data:
    """Train networks on texts whose next word depends equally on the last word and on one far back.
    Measure how much the distribution of the next word changes (KL, nats) if either word is
    replaced, in truth and in each network."""
    measured: dict[str, Any] = {}
    for back in BACK:
        generator = torch.Generator().manual_seed(seed)
        chain = Texts(back, generator)
        texts, new = (chain.draw(400 if quick else 2000, generator) for _ in range(2))
        measured[str(back)] = {"truth": chain.moved(new)}
        for name, cell in READERS.items():
            net = _language_model(seed, cell)
            train(net, _batches(texts), seed=seed, steps=60 if quick else 500, rate=1e-2)
            measured[str(back)][name] = _moved(net, new[:200], back)
    return measured


class Texts:
    """Random texts with P(next | near, far) = softmax(A[near] + B[far]), where A and B have equal
    size."""

    def __init__(self, back: int, generator: torch.Generator) -> None:
        self.back = back
        self.near, self.far = SHARPNESS * torch.randn(2, WORDS, WORDS, generator=generator)

    def log_probs(self, near: Tensor, far: Tensor) -> Tensor:
        return (self.near[near] + self.far[far]).log_softmax(dim=-1)

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        """Draw random texts: (rows, TEXT)."""
        words = [torch.randint(WORDS, (rows,), generator=generator) for _ in range(self.back + 1)]
        while len(words) < TEXT:
            p = self.log_probs(words[-1], words[-1 - self.back]).exp()
            words.append(torch.multinomial(p, 1, generator=generator)[:, 0])
        return torch.stack(words, dim=1)

    def moved(self, texts: Tensor) -> list[float]:
        """How much the true distribution of the next word changes (KL, nats). The first number is
        for replacing the near word, the second for replacing the far word."""
        near, far = texts[:, -1], texts[:, -1 - self.back]
        before = self.log_probs(near, far)
        after = [self.log_probs(other(near), far), self.log_probs(near, other(far))]
        return [_kl(before, changed) for changed in after]


def other(words: Tensor) -> Tensor:
    return (words + 1) % WORDS


def _kl(before: Tensor, after: Tensor) -> float:
    return float((before.exp() * (before - after)).sum(dim=-1).mean())


def _language_model(seed: int, cell: CellName) -> Network:
    torch.manual_seed(seed)
    return build(RecurrentConfig(shape="decoder", head="language", cell=cell, vocab=WORDS,
                                 d_model=32, hidden=32, dropout=0.0))  # fmt: skip


def _batches(texts: Tensor) -> Draw:
    """Random batches; the first words are uniform, so they are not targets."""

    def draw(generator: torch.Generator, rows: int) -> Any:
        chosen = texts[torch.randint(len(texts), (rows,), generator=generator)]
        targets = chosen[:, 1:].clone()
        targets[:, : max(BACK)] = IGNORE
        return batch_of(chosen[:, :-1], targets)

    return draw


@torch.no_grad()
def _moved(net: Network, texts: Tensor, back: int) -> list[float]:
    """How much the network's distribution of the next word changes (KL, nats). The first number is
    for replacing the near word, the second for replacing the far word."""
    net.double()  # float32 cannot resolve 1e-8
    before = net(texts)[:, -1].log_softmax(dim=-1)
    distances = []
    for place in (-1, -1 - back):
        changed = texts.clone()
        changed[:, place] = other(texts[:, place])
        distances.append(_kl(before, net(changed)[:, -1].log_softmax(dim=-1)))
    return distances


def _fraction(data: Sequence[Data], reader: str, back: int) -> tuple[list[float], list[float]]:
    """What the far word moves, and what the near one does."""
    return column(data, str(back), reader, 1), column(data, str(back), reader, 0)


def _judge_far_words(data: Sequence[Data]) -> Finding:
    close, far = BACK
    left = {reader: ratio_of(*_fraction(data, reader, far)) for reader in READERS}
    learned = [a / b for a, b in zip(*_fraction(data, "RNN", close), strict=True)]
    truth = ratio_of(*_fraction(data, "truth", far))
    return decide(
        {"a word far back counts for less than a twentieth":
            clearly(left["RNN"].against(COUNTS), "below")},
        f"the next word hangs on the last one and, {truth} times as much, on the one {far} before "
        f"it. Exchanging that one moves an RNN's next word by {left['RNN']} of what the last one "
        f"does, an LSTM's by {left['LSTM']}; where the other word is {close} before it, an "
        f"RNN's by {ratio_of(*_fraction(data, 'RNN', close))}",
        {reader: interval.mean for reader, interval in left.items()},
        learned={f"a word {close} back": has_learned(learned, LEARNED)},
    )  # fmt: skip


def _draw_far_words(data: Sequence[Data]) -> Lines:
    return Lines(
        "Exchange a far word: how far does the next word's distribution move?",
        Axis("words back", tuple(map(str, BACK))), "KL divergence, nats",
        {name: np.array([float(average(data, str(back), name, 1)) for back in BACK])
         for name in (*READERS, "truth")}, logarithmic=True,
        note="made-up texts, whose next word hangs on the last word and on this one alike",
    )  # fmt: skip


far_words = Experiment.described(
    "far-words", _far_words, _draw_far_words, {"C24": _judge_far_words}
)
