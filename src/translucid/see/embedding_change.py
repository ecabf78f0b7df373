"""What tuning did to embeddings: which pairs of texts moved nearer, and which apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from translucid.tasks.contrastive import cosines

SHOWN = 5  # pairs of each kind that are written


@dataclass(frozen=True)
class PairChange:
    """The cosine of two texts in one model, and in another."""

    one: str
    other: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before

    def line(self) -> str:
        cosines = f"{self.before:7.4f} -> {self.after:7.4f}  {self.change:+.4f}"
        return f"{cosines}  {self.one} | {self.other}"


@dataclass(frozen=True)
class EmbeddingChange:
    """All pairs of some texts, those that moved nearer first."""

    pairs: tuple[PairChange, ...]

    def nearer(self, k: int = SHOWN) -> tuple[PairChange, ...]:
        """Those that moved nearer most."""
        return tuple(pair for pair in self.pairs[:k] if pair.change > 0)

    def apart(self, k: int = SHOWN) -> tuple[PairChange, ...]:
        """Those that moved apart most."""
        return tuple(pair for pair in self.pairs[: -k - 1 : -1] if pair.change < 0)

    def __str__(self) -> str:
        return self.text()

    def text(self, k: int = SHOWN) -> str:
        """The k of each kind that moved most."""
        parts = {"moved nearer": self.nearer(k), "moved apart": self.apart(k)}
        blocks = [[title, *(f"  {pair.line()}" for pair in pairs)]
                  for title, pairs in parts.items() if pairs]  # fmt: skip
        return "\n".join(line for block in blocks for line in block) or "no pair has moved"


def embedding_change(texts: Sequence[str], before: Tensor, after: Tensor) -> EmbeddingChange:
    """before, after: the vectors of the texts in two models, which may be of different sizes.
    (texts, dimensions)"""
    was, now = cosines(before, before).tolist(), cosines(after, after).tolist()
    pairs = [
        PairChange(texts[i], texts[j], was[i][j], now[i][j])
        for i, j in combinations(range(len(texts)), 2)
    ]
    return EmbeddingChange(tuple(sorted(pairs, key=lambda pair: -pair.change)))
