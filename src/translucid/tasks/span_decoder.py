"""The most probable sequence of tags that marks whole spans (Viterbi 1967).

A tagger scores word by word, so its most probable tags may continue a span that never began. Which
tag may follow which depends on the scheme:

    IOB2, BIOES   I-X and E-X follow B-X or I-X
    BIOES         B-X and I-X are followed by I-X or E-X
    IOB1          B-X follows B-X or I-X: it only separates two spans of one label
    all           O, S-X and tags without a mark are free

BILOU is BIOES with L- for E- and U- for S-.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from translucid.data.spans import mark_and_label


class Transitions(NamedTuple):
    """What is added to a score: 0 where it may be, minus infinity where not."""

    first: Tensor  # (tags,)
    next: Tensor  # (tags before, tags)
    last: Tensor  # (tags,)

    def to(self, device: torch.device) -> "Transitions":
        return Transitions(*(penalty.to(device) for penalty in self))


def tag_transitions(tags: Sequence[str], *, iob1: bool = False) -> Transitions:
    """Which tag may follow which: in IOB1, or else in IOB2 or BIOES, as the tags have it."""
    marked = [mark_and_label(tag) for tag in tags]
    goes_on = [mark in (("B",) if iob1 else ("I", "E")) for mark, _ in marked]
    is_open = [mark in ("B", "I") for mark, _ in marked]
    unfinished = [
        open_ and ("E", label) in marked for (_, label), open_ in zip(marked, is_open, strict=True)
    ]
    same = [[one == other for _, other in marked] for _, one in marked]
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
