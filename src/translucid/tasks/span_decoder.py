"""The likeliest tags that mark whole spans.

A tagger judges word by word, and its likeliest tags may go on with a span that nobody began. The
best sequence without such a break is found as fast (Viterbi 1967).

    I-X, E-X  come after B-X or I-X
    B-X, I-X  where the tags know E-X (BIOES): are followed by I-X or E-X
    others    stand anywhere: O, S-X, and whatever is not written as a mark and a label
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Transitions(NamedTuple):
    """What is added to a score: 0 where it may be, minus infinity where not."""

    first: Tensor  # (tags,)
    next: Tensor  # (tags before, tags)
    last: Tensor  # (tags,)

    def to(self, device: torch.device) -> "Transitions":
        return Transitions(*(penalty.to(device) for penalty in self))


def tag_transitions(tags: Sequence[str]) -> Transitions:
    """Which tag may follow which, in BIO or BIOES."""
    goes_on = [tag[:2] in ("I-", "E-") for tag in tags]
    is_open = [tag[:2] in ("B-", "I-") for tag in tags]
    unfinished = [
        open_ and f"E-{tag[2:]}" in tags for tag, open_ in zip(tags, is_open, strict=True)
    ]
    same = [[one[2:] == other[2:] for other in tags] for one in tags]
    now = torch.tensor(goes_on)
    before, must = torch.tensor(is_open)[:, None], torch.tensor(unfinished)
    continued = torch.tensor(same) & before & now
    return Transitions(
        _penalty(~now), _penalty(continued | ~(now | must[:, None])), _penalty(~must)
    )


def _penalty(allowed: Tensor) -> Tensor:
    return torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)


def best_tags(scores: Tensor, words: Tensor, transitions: Transitions) -> Tensor:
    """The tags (batch, length) whose scores sum to most, among the transitions allowed.

    scores: (batch, length, tags), logits or log-probabilities: what is the same for all tags of a
    word changes nothing. words: (batch, length), True where a word has its tag; what stands between
    is passed over. If none is allowed (BIOES without O and S), each word's best tag.
    """
    transitions = transitions.to(scores.device)
    batch, length, tags = scores.shape
    stay = torch.arange(tags, device=scores.device)
    total = scores.new_zeros(batch, tags)
    begun = words.new_zeros(batch, 1)
    came_from = []
    for t in range(length):
        best, before = (total[:, :, None] + transitions.next).max(dim=1)  # (batch, tags)
        arrived = torch.where(begun, best, transitions.first) + scores[:, t]
        here = words[:, t, None]
        came_from.append(torch.where(here & begun, before, stay))
        total = torch.where(here, arrived, total)
        begun = begun | here
    total, tag = (total + transitions.last).max(dim=1, keepdim=True)  # (batch, 1)
    best_alone = scores.argmax(dim=-1)
    if not length:
        return best_alone
    path = []
    for before in reversed(came_from):
        path.append(tag)
        tag = before.gather(1, tag)
    return torch.where(total.isneginf(), best_alone, torch.cat(path[::-1], dim=1))
