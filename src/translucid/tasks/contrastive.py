"""Contrastive loss for pairs of texts, and retrieval metrics.

The two texts of a pair are rows 2 i and 2 i + 1 of a batch. The other pairs of the batch serve as
negatives, except for identical texts, which would be false negatives.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.tasks.batch import IGNORE
from translucid.tasks.options import TEMPERATURE

BLOCK = 1024  # number of texts to compare with all others at once


def contrastive_loss(vectors: Tensor, ids: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """-Σ log softmax(cos(a, b) / temperature) at the partner b of each text a. The softmax is over
    the second texts of all pairs if a is a first text, and over the first texts if a is a second
    text (InfoNCE with in-batch negatives; multiple negatives ranking, in both directions).

    vectors (rows, d_model), ids (rows, length); rows whose target is IGNORE do not count.
    van den Oord et al. 2018, https://arxiv.org/abs/1807.03748
    Henderson et al. 2017, https://arxiv.org/abs/1705.00652
    """
    rows = torch.arange(len(vectors), device=vectors.device)
    partner = (rows ^ 1).clamp(max=len(rows) - 1)  # padding may have no partner row
    counts = targets != IGNORE
    same = (ids[:, None] == ids[None]).all(dim=-1)  # (rows, rows)
    known = same[partner] | same[:, partner]  # identical texts are not negatives
    other_side = rows[:, None] % 2 != rows % 2
    candidates = other_side & counts & ~known | (rows == partner[:, None])
    logits = cosines(vectors, vectors) / temperature
    logits = logits.masked_fill(~candidates, -torch.inf)
    right = partner.masked_fill(~counts, IGNORE)
    return F.cross_entropy(logits, right, ignore_index=IGNORE, reduction="sum")


def score_loss(vectors: Tensor, targets: Tensor) -> Tensor:
    """The squared error of the cosine similarity, Σ (cos(a, b) - score)², over both rows of each
    pair."""
    pairs = len(vectors) // 2
    one, other = vectors[: 2 * pairs : 2].float(), vectors[1 : 2 * pairs : 2].float()
    wanted = targets[: 2 * pairs].unflatten(0, (pairs, 2))
    errors = F.cosine_similarity(one, other)[:, None] - wanted
    return (errors.square() * (wanted != IGNORE)).sum()


def cosines(one: Tensor, other: Tensor) -> Tensor:
    """The cosine similarity a·b / (|a| |b|) of each row a of `one` with each row b of `other`:
    (rows of one, rows of other)."""
    return F.normalize(one.float(), dim=-1) @ F.normalize(other.float(), dim=-1).T


def retrieval(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], compare: Callable[[int, Tensor], Tensor]
) -> dict[str, float]:
    """Rank the partner of each text among all texts of the other side; in a tie, the partner ranks
    last. Return the accuracy, the mean reciprocal rank of the partner (mrr) and the loss.

    pairs: the token ids of the texts, by which equal texts are recognized. compare(side, indices):
    returns the cosines (indices, pairs) between these texts of one side (0 or 1) and all texts of
    the other side.
    """
    groups = [_numbered([pair[side] for pair in pairs]) for side in (0, 1)]
    right = reciprocal = loss = 0.0
    for side in (0, 1):
        for places in torch.arange(len(pairs)).split(BLOCK):
            alike = compare(side, places)
            own = alike.gather(1, places[:, None])
            known = torch.zeros_like(alike, dtype=torch.bool)
            for group in groups:
                known |= group[places][:, None] == group
            others = alike.masked_fill(known, -torch.inf)  # the partner too
            ranks = 1 + (others >= own).sum(dim=1)
            right += int((ranks == 1).sum())
            reciprocal += float((1 / ranks.double()).sum())
            every = torch.cat([own, others], dim=1).double() / TEMPERATURE
            loss += float((every.logsumexp(dim=1) - every[:, 0]).sum())
    texts = max(2 * len(pairs), 1)
    return {"accuracy": right / texts, "mrr": reciprocal / texts, "loss": loss / texts}


def _numbered(texts: Sequence[Sequence[int]]) -> Tensor:
    """Number the texts so that equal texts have equal numbers."""
    numbers: dict[tuple[int, ...], int] = {}
    return torch.tensor([numbers.setdefault(tuple(text), len(numbers)) for text in texts])


def token_counts(texts: Sequence[Sequence[int]], vocab: int) -> Tensor:
    """The token counts of each text, normalized to length 1: sparse, (texts, vocab)."""
    rows = [row for row, text in enumerate(texts) for _ in text]
    places = torch.tensor([rows, [token for text in texts for token in text]], dtype=torch.long)
    counts = _sparse(places, torch.ones(len(rows)), len(texts), vocab)
    places, values = counts.indices(), counts.values()
    squares = torch.zeros(len(texts)).index_add_(0, places[0], values.square())
    return _sparse(places, values / squares.sqrt()[places[0]], len(texts), vocab)


def _sparse(places: Tensor, values: Tensor, rows: int, columns: int) -> Tensor:
    size = (rows, columns)
    return torch.sparse_coo_tensor(places, values, size, check_invariants=False).coalesce()
