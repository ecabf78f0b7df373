"""Constraints on generated text: they change the scores of tokens before one is chosen.

A constraint maps scores (..., vocab) and the tokens so far (..., length) to new scores. Scores are
log-probabilities in beam search and logits in greedy search and sampling; only the repetition
penalty treats the two differently. Forbidden tokens get minus infinity; the others keep their
values, so that sums remain those of the model. A token of -1 is padding.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Constraint = Callable[[Tensor, Tensor], Tensor]


def forbid(ids: Sequence[int]) -> Constraint:
    """Forbid these tokens."""

    def constraint(log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor(ids, device=log_probs.device), -torch.inf)

    return constraint


def add_bias(biases: Mapping[int, float]) -> Constraint:
    """Add a bias to the scores of these tokens."""

    def constraint(scores: Tensor, tokens: Tensor) -> Tensor:
        ids = torch.tensor([*biases], device=scores.device)
        values = torch.tensor([*biases.values()], device=scores.device, dtype=scores.dtype)
        return scores.index_add(-1, ids, values.expand(*scores.shape[:-1], -1))

    return constraint


def one_end(log_probs: Tensor, eos: int, ends: Sequence[int]) -> Tensor:
    """Merge several end tokens: give `eos` the score of the best one, and forbid the others."""
    others = torch.tensor(ends, device=log_probs.device)
    best = log_probs[..., [eos, *ends]].amax(dim=-1)
    log_probs = log_probs.index_fill(-1, others, -torch.inf)
    log_probs[..., eos] = best
    return log_probs


def forbid_run(ids: Sequence[int]) -> Constraint:
    """Forbid this sequence of tokens: its last token may not follow the others."""
    if len(ids) == 1:
        return forbid(ids)
    *first, last = ids

    def constraint(log_probs: Tensor, tokens: Tensor) -> Tensor:
        if tokens.shape[-1] < len(first):
            return log_probs
        newest = tokens[..., tokens.shape[-1] - len(first) :]
        begun = (newest == torch.tensor(first, device=tokens.device)).all(dim=-1)
        ended = torch.arange(log_probs.shape[-1], device=log_probs.device) == last
        return log_probs.masked_fill(begun[..., None] & ended, -torch.inf)

    return constraint


def force(places: Mapping[int, int], start: int) -> Constraint:
    """Allow only one token at some positions. places: the token for each position, where position 0
    comes after `start` tokens."""

    def constraint(log_probs: Tensor, tokens: Tensor) -> Tensor:
        wanted = places.get(tokens.shape[-1] - start)
        if wanted is None:
            return log_probs
        alone = torch.full_like(log_probs, -torch.inf)
        alone[..., wanted] = log_probs[..., wanted]
        return alone

    return constraint


def no_repeat(size: int) -> Constraint:
    """Forbid every token that would complete an n-gram of `size` tokens for the second time."""

    def constraint(log_probs: Tensor, tokens: Tensor) -> Tensor:
        if tokens.shape[-1] < size:
            return log_probs
        runs = tokens.unfold(-1, size, 1)  # (..., n-grams, size)
        newest = tokens[..., tokens.shape[-1] - size + 1 :]  # size - 1 tokens
        again = (runs[..., :-1] == newest[..., None, :]).all(dim=-1) & (runs >= 0).all(dim=-1)
        ends = runs[..., -1].clamp(min=0)
        hits = torch.zeros_like(log_probs).scatter_add(-1, ends, again.to(log_probs))
        return log_probs.masked_fill(hits > 0, -torch.inf)

    return constraint


def repetition(penalty: float) -> Constraint:
    """Repetition penalty for tokens that occur earlier: a positive score is divided by `penalty`, a
    negative one is multiplied by it. Keskar et al. 2019, https://arxiv.org/abs/1909.05858"""

    def constraint(scores: Tensor, tokens: Tensor) -> Tensor:
        seen = torch.zeros_like(scores).scatter_add(
            -1, tokens.clamp(min=0), (tokens >= 0).to(scores)
        )
        penalised = torch.where(scores > 0, scores / penalty, scores * penalty)
        return torch.where(seen > 0, penalised, scores)

    return constraint


def occurrence(presence: float, frequency: float) -> Constraint:
    """Presence and frequency penalties: for each token that occurs earlier, `presence` is
    subtracted from its score once, and `frequency` for each time that it occurs."""

    def constraint(scores: Tensor, tokens: Tensor) -> Tensor:
        counts = torch.zeros_like(scores).scatter_add(
            -1, tokens.clamp(min=0), (tokens >= 0).to(scores)
        )
        return scores - presence * (counts > 0).to(scores) - frequency * counts

    return constraint


def forbid_first(ids: Sequence[int], start: int) -> Constraint:
    """Forbid these tokens at the first generated position, which comes after `start` tokens."""
    never = forbid(ids)

    def constraint(scores: Tensor, tokens: Tensor) -> Tensor:
        return never(scores, tokens) if tokens.shape[-1] == start else scores

    return constraint


def behind_start(constraint: Constraint, special: int = 1) -> Constraint:
    """Apply a constraint as if a text began after its first `special` tokens. The texts of a
    language model start with the end token, so a constraint on repetition would otherwise forbid
    the end."""

    def without(log_probs: Tensor, tokens: Tensor) -> Tensor:
        text = tokens >= 0
        return constraint(log_probs, tokens.masked_fill(text.cumsum(dim=-1) <= special, -1))

    return without


def apply(
    constraints: Sequence[Constraint],
    log_probs: Tensor,
    tokens: Tensor,
    logits: Tensor | None = None,
) -> Tensor:
    """Apply all constraints in order, and return the new log-probabilities. With `logits`, the
    constraints change the logits, and each log-probability changes by the same amount as its
    logit."""
    scores = before = log_probs if logits is None else logits.to(log_probs)
    for constraint in constraints:
        scores = constraint(scores, tokens)
    if scores is before:
        return log_probs
    if logits is None:
        return scores
    return torch.where(scores == before, log_probs, log_probs + (scores - before))


def force_end(adjusted: Tensor, ends: Sequence[int], rows: Tensor) -> Tensor:
    """In the texts at their maximum length, allow only the tokens `ends`, with log-probability 0.
    rows: (sources,), True for these texts; adjusted: (sources, ..., vocab)."""
    alone = torch.full_like(adjusted, -torch.inf)
    alone[..., list(ends)] = 0.0
    return torch.where(rows.view(-1, *[1] * (adjusted.dim() - 1)), alone, adjusted)
