"""Learn a bilingual lexicon from sentence pairs, by expectation maximisation.

First, IBM Model 1 is learned, in which every source token is equally likely to be translated next
(Brown et al. 1993); then a hidden Markov model of jumps between source positions (Vogel et al.
1996).

Shapes: source (batch, keys), target (batch, queries) with the end token; cells (batch, queries,
keys), the index of each pair of tokens among all pairs that occur.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from translucid.parts.lexicon import REACH, JumpAlignment
from translucid.parts.sparse_table import Integers

MODEL_1, MARKOV = 5, 5  # iterations
LEAST = 1e-4  # smaller probabilities are dropped from the lexicon
BATCH = 1024  # sentence pairs


Pair = tuple[Integers, Integers]  # the source, and the target with its end


@dataclass(frozen=True)
class Pairs:
    """A batch of sentence pairs."""

    source_mask: Tensor
    target: Tensor
    target_mask: Tensor
    cells: Tensor  # at padding, the number of all pairs

    @property
    def both(self) -> Tensor:
        """The mask of positions where both tokens are real: (batch, queries, keys)."""
        return self.source_mask[:, None] & self.target_mask[..., None]


@dataclass
class WordAlignment:
    """The probabilities of a word alignment model while it learns, in float64."""

    keys: Integers  # source token * target vocab + target token, sorted
    translation: Tensor  # (entries + 1,); the last is 0, for padding
    unigram: Tensor  # (target vocab,)
    alignment: JumpAlignment


def collect(pairs: Sequence[Pair], vocab: int) -> tuple[list[Pairs], WordAlignment]:
    """Return batches of the pairs, and a model in which all translations that occur are equally
    likely. vocab: vocabulary size of the target."""
    ordered = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    padded = []
    for start in range(0, len(ordered), BATCH):
        sides = zip(*ordered[start : start + BATCH], strict=True)
        padded.append([_pad(side) for side in sides])
    keys = [
        torch.where((s >= 0)[:, None] & (t >= 0)[..., None], s[:, None] * vocab + t[..., None], -1)
        for s, t in padded
    ]
    flat = np.concatenate([np.full(1, -1), *(own.flatten().numpy() for own in keys)])
    known, places = np.unique(flat, return_inverse=True)
    places = (places[1:] - 1) % len(known)  # -1, at padding, becomes the last
    cells = torch.from_numpy(places).split([own.numel() for own in keys])
    batches = [
        Pairs(s >= 0, t.clamp(min=0), t >= 0, own.view(shape.shape))
        for (s, t), own, shape in zip(padded, cells, keys, strict=True)
    ]
    counts = np.bincount(
        np.concatenate([np.zeros(0, np.int64), *(t for _, t in pairs)]), minlength=vocab
    )
    unigram = torch.from_numpy((counts + 1) / (counts + 1).sum())  # no token is impossible
    alignment = JumpAlignment(vocab).double()
    translation = torch.ones(len(known), dtype=torch.float64)
    model = WordAlignment(known[1:], translation, unigram, alignment)
    _normalise(model)
    return batches, model


def _pad(texts: Sequence[Integers]) -> Tensor:
    """Texts as a tensor (batch, length), padded with -1."""
    rows = np.full((len(texts), max(map(len, texts))), -1, dtype=np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return torch.from_numpy(rows)


def model_1(pairs: Sequence[Pairs], model: WordAlignment) -> float:
    """Run one iteration of IBM Model 1; return the log-likelihood before it."""
    counts, likelihood = torch.zeros_like(model.translation), 0.0
    for batch in pairs:
        aligned, unaligned = _emission(batch, model)
        sizes = batch.source_mask.sum(dim=1)[:, None, None].clamp(min=1)
        probability = ((aligned + unaligned) * batch.both / sizes).sum(dim=2)  # (batch, queries)
        normaliser = torch.where(batch.target_mask, probability, 1.0)[..., None] * sizes
        _count(counts, batch, aligned / normaliser)
        likelihood += float(probability[batch.target_mask].log().sum())
    model.translation = counts
    _normalise(model)
    return likelihood


def markov(pairs: Sequence[Pairs], model: WordAlignment) -> float:
    """Run one iteration of the hidden Markov model, by the forward-backward algorithm; return the
    log-likelihood before it."""
    counts = torch.zeros_like(model.translation)
    distances = torch.ones_like(model.alignment.distances)  # add-one smoothing
    likelihood = 0.0
    for batch in pairs:
        aligned, unaligned = _emission(batch, model)
        emission = torch.where(batch.target_mask[..., None], aligned + unaligned, 1.0)
        move, initial, reachable = _transitions(batch.source_mask, model.alignment)
        forward, backward, scales = [], [], []
        predicted = initial
        for t in range(emission.shape[1]):
            joint = predicted * emission[:, t]
            scale = joint.sum(dim=1, keepdim=True).clamp(min=1e-300)
            forward.append(joint / scale)
            scales.append(scale)
            stays = batch.target_mask[:, t + 1 : t + 2]
            moved = (forward[-1] * reachable) @ move * batch.source_mask
            predicted = torch.where(stays, moved, forward[-1]) if stays.shape[1] else moved
        behind = torch.ones_like(predicted)
        for t in range(emission.shape[1] - 1, -1, -1):
            backward.append(behind)
            future = behind * emission[:, t] / scales[t]
            moved = (future * batch.source_mask) @ move.T * reachable
            behind = torch.where(batch.target_mask[:, t : t + 1], moved, behind)
        alpha, beta = torch.stack(forward, dim=1), torch.stack(backward[::-1], dim=1)
        posterior = alpha * beta * batch.both
        _count(counts, batch, posterior * aligned / emission)
        scale = torch.stack(scales, dim=1)  # (batch, queries, 1)
        likelihood += float(scale[..., 0][batch.target_mask].log().sum())
        into = emission * beta / scale * batch.both
        left = alpha[:, :-1] * reachable[:, None]
        moves = move * (left.transpose(1, 2) @ into[:, 1:])
        _count_jumps(distances, batch.source_mask, torch.cat([posterior[:, :1], moves], dim=1))
    model.translation = counts
    _normalise(model)
    model.alignment.distances.copy_(distances / distances.sum())
    return likelihood


def _transitions(mask: Tensor, alignment: JumpAlignment) -> tuple[Tensor, Tensor, Tensor]:
    """The jumps between source positions in factors, so that all rows share one matrix product.

    A jump from position i to j has the probability move[i, j] * reachable[row, i] * mask[row, j].
    The second result is the probability of the first position: (batch, keys)."""
    keys = mask.shape[1]
    weights = alignment.jumps(mask.new_ones(1, keys))[0]  # (keys + 1, keys)
    totals = mask.to(weights) @ weights.T  # (batch, keys + 1): of the positions that are real
    reachable = torch.where(totals > 0, 1 / totals, 1.0)
    return weights[1:], weights[0] * mask * reachable[:, :1], reachable[:, 1:]


def _emission(batch: Pairs, model: WordAlignment) -> tuple[Tensor, Tensor]:
    """p(target token | source token) for each pair of positions. It is the sum of the two tensors
    that are returned: the part for aligned target tokens, and the part for unaligned ones."""
    epsilon = model.alignment.unaligned
    unaligned = epsilon * model.unigram[batch.target][..., None]
    return (1 - epsilon) * model.translation[batch.cells], unaligned


def _count(counts: Tensor, batch: Pairs, fractions: Tensor) -> None:
    counts.index_add_(0, batch.cells.flatten(), fractions.flatten())


def _count_jumps(distances: Tensor, mask: Tensor, moves: Tensor) -> None:
    places = mask.cumsum(dim=1)
    before = torch.nn.functional.pad(places, (1, 0))
    jump = (places[:, None] - before[..., None]).clamp(-REACH, REACH) + REACH
    distances.index_add_(0, jump.flatten(), moves.flatten())


def _normalise(model: WordAlignment) -> None:
    """Make the translations of each source token sum to 1."""
    source, table = torch.from_numpy(model.keys // len(model.unigram)), model.translation
    totals = torch.bincount(source, table[:-1])
    table[:-1] /= totals[source].clamp(min=1e-300)
    table[-1] = 0.0


def prune(model: WordAlignment) -> None:
    """Drop the least probable translations."""
    kept = model.translation >= LEAST
    kept[-1] = True
    model.keys, model.translation = model.keys[kept[:-1].numpy()], model.translation[kept]
    _normalise(model)


def align(pairs: Sequence[Pair], vocab: int) -> WordAlignment:
    """Learn from all pairs. vocab: vocabulary size of the target."""
    batches, model = collect(pairs, vocab)
    for _ in range(MODEL_1):
        model_1(batches, model)
    for _ in range(MARKOV):
        markov(batches, model)
    prune(model)
    return model
