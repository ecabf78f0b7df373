"""What a text may and may not hold: constraints that change the log-probabilities before a token is
chosen.

A constraint takes scores (..., vocab) and the tokens written so far (..., length), and gives new
scores. The scores are log-probabilities in a beam search, and logits where one token is chosen at a
time: only a repetition penalty makes a difference between the two. What is forbidden gets minus
infinity; the rest keeps its values, so that a score stays the model's own. In the tokens, -1 stands
for what is not text.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Constraint = Callable[[Tensor, Tensor], Tensor]


def forbid(ids: Sequence[int]) -> Constraint:
    """These tokens are never written."""

    def constraint(log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor(ids, device=log_probs.device), -torch.inf)

    return constraint


def one_end(log_probs: Tensor, eos: int, ends: Sequence[int]) -> Tensor:
    """Several tokens may end a text: `eos` stands for the likeliest of them, the others are not
    written."""
    others = torch.tensor(ends, device=log_probs.device)
    best = log_probs[..., [eos, *ends]].amax(dim=-1)
    log_probs = log_probs.index_fill(-1, others, -torch.inf)
    log_probs[..., eos] = best
    return log_probs


def forbid_run(ids: Sequence[int]) -> Constraint:
    """These tokens are never written in a row: the last may not follow the others."""
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
    """At each place, counted from 0 after `start` tokens, only this token is written."""

    def constraint(log_probs: Tensor, tokens: Tensor) -> Tensor:
        wanted = places.get(tokens.shape[-1] - start)
        if wanted is None:
            return log_probs
        alone = torch.full_like(log_probs, -torch.inf)
        alone[..., wanted] = log_probs[..., wanted]
        return alone

    return constraint


def no_repeat(size: int) -> Constraint:
    """No run of `size` tokens is written twice."""

    def constraint(log_probs: Tensor, tokens: Tensor) -> Tensor:
        if tokens.shape[-1] < size:
            return log_probs
        runs = tokens.unfold(-1, size, 1)  # (..., runs, size): every run so far
        newest = tokens[..., tokens.shape[-1] - size + 1 :]  # its first size - 1 tokens again?
        again = (runs[..., :-1] == newest[..., None, :]).all(dim=-1) & (runs >= 0).all(dim=-1)
        ends = runs[..., -1].clamp(min=0)
        hits = torch.zeros_like(log_probs).scatter_add(-1, ends, again.to(log_probs))
        return log_probs.masked_fill(hits > 0, -torch.inf)

    return constraint


def repetition(penalty: float) -> Constraint:
    """The score of a token that was written before is multiplied by `penalty` if it is negative,
    and divided by it if it is positive. Keskar et al. 2019, https://arxiv.org/abs/1909.05858"""

    def constraint(scores: Tensor, tokens: Tensor) -> Tensor:
        seen = torch.zeros_like(scores).scatter_add(
            -1, tokens.clamp(min=0), (tokens >= 0).to(scores)
        )
        penalised = torch.where(scores > 0, scores / penalty, scores * penalty)
        return torch.where(seen > 0, penalised, scores)

    return constraint


def forbid_first(ids: Sequence[int], start: int) -> Constraint:
    """These tokens are not written first, right after `start` tokens."""
    never = forbid(ids)

    def constraint(scores: Tensor, tokens: Tensor) -> Tensor:
        return never(scores, tokens) if tokens.shape[-1] == start else scores

    return constraint


def behind_start(constraint: Constraint, special: int = 1) -> Constraint:
    """The same, to which the `special` tokens that start a text are no text. A language model
    starts with the end of the text before: without this, one against repeating would speak
    against every end."""

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
    """All constraints, one after the other. logits: what they act on, if not on the
    log-probabilities, which then change by as much."""
    scores = before = log_probs if logits is None else logits.to(log_probs)
    for constraint in constraints:
        scores = constraint(scores, tokens)
    if scores is before:
        return log_probs
    if logits is None:
        return scores
    return torch.where(scores == before, log_probs, log_probs + (scores - before))


def force_end(adjusted: Tensor, ends: Sequence[int], rows: Tensor) -> Tensor:
    """In these rows (sources,) a text is at its longest: nothing but an end is written, and it
    costs nothing. adjusted: (sources, ..., vocab)"""
    alone = torch.full_like(adjusted, -torch.inf)
    alone[..., list(ends)] = 0.0
    return torch.where(rows.view(-1, *[1] * (adjusted.dim() - 1)), alone, adjusted)
