"""Markov chains: texts whose true next-word probabilities are known.

Shapes: tokens (texts, length); probabilities (..., words).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from translucid import NO_TRACE
from translucid.core import NoTrace
from translucid.models import DecoderModel, TransformerConfig, build
from translucid.tasks import cross_entropy
from translucid_lab import FitStep, fit


@dataclass(frozen=True)
class Chain:
    """A Markov chain of order 1 or 2: `table`, (words, words) or (words, words, words), contains
    the probabilities of the next word after the last one or two words."""

    table: Tensor

    @classmethod
    def random(
        cls, words: int, order: int, sharpness: float, generator: torch.Generator
    ) -> "Chain":
        """Create a random chain. A larger sharpness makes the next word more certain."""
        logits = sharpness * torch.randn(*[words] * (order + 1), generator=generator)
        return cls(logits.softmax(dim=-1))

    @property
    def words(self) -> int:
        return self.table.shape[-1]

    @property
    def order(self) -> int:
        return self.table.dim() - 1

    def next(self, tokens: Tensor) -> Tensor:
        """The true next-word probabilities after each word that has enough words before it: (texts,
        length - order + 1, words)."""
        last = tokens.shape[1] - self.order + 1
        return self.table[tuple(tokens[:, at : at + last] for at in range(self.order))]

    def draw(self, texts: int, length: int, generator: torch.Generator) -> Tensor:
        """Draw texts; the first words are uniform."""
        tokens = torch.randint(self.words, (texts, self.order), generator=generator)
        while tokens.shape[1] < length:
            p = self.next(tokens[:, -self.order :])[:, -1]
            newest = torch.multinomial(p, 1, generator=generator)
            tokens = torch.cat([tokens, newest], dim=1)
        return tokens

    def truth(self, tokens: Tensor) -> float:
        """Mean -log p of a word under the true table: the lowest loss that a causal model can
        reach."""
        p = self.next(tokens[:, :-1]).gather(2, tokens[:, self.order :, None])
        return float(-p.log().mean())

    def entropy(self) -> float:
        """The entropy rate: the lowest loss on infinite texts, in closed form, for order 1."""
        assert self.order == 1
        probabilities = torch.full((self.words,), 1 / self.words, dtype=torch.float64)
        table = self.table.double()
        for _ in range(1000):
            probabilities = probabilities @ table
        return float(-(probabilities[:, None] * table * table.log()).sum())


def small_decoder(words: int, *, seed: int, layers: int = 2, d_model: int = 32) -> DecoderModel:
    """A small Transformer language model without dropout."""
    torch.manual_seed(seed)
    net = build(
        TransformerConfig(shape="decoder", head="language", vocab=words, d_model=d_model, heads=2,
                          layers=layers, dropout=0.0)
    )  # fmt: skip
    assert isinstance(net, DecoderModel)
    return net


def train(
    net: nn.Module,
    batch: Callable[[], tuple[Tensor, Tensor]],
    steps: int,
    *,
    rate: float = 3e-3,
    smoothing: float = 0.0,
    trace: Callable[[], NoTrace] = lambda: NO_TRACE,
    until: Callable[[FitStep], bool] = lambda step: False,
) -> None:
    """Train on batches of (inputs, targets) with the library's loss; the learning rate falls
    linearly over the last half. `until` is called after every step and may end training."""

    def loss() -> Tensor:
        inputs, targets = batch()
        total = cross_entropy(net(inputs, trace=trace()), targets, smoothing=smoothing)
        return total / targets.numel()

    fit(net, loss, steps=steps, learning_rate=rate, schedule="wsd", cooldown=0.5, until=until)
