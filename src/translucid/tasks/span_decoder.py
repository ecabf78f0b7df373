"""The most probable sequence of tags without broken spans (Viterbi 1967).

A tagger scores each word independently, so its most probable tags may continue a span that never
began. The tagging scheme determines which tags may follow each other:

    IOB2, BIOES   I-X and E-X follow B-X or I-X
    BIOES         B-X and I-X are followed by I-X or E-X
    IOB1          B-X follows B-X or I-X: it only separates two spans of one label
    all           O, S-X and tags without a prefix may follow any tag

BILOU is BIOES with L- for E- and U- for S-.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from translucid.data.records import Tagged
from translucid.data.spans import mark_and_label
from translucid.tasks.findings import Finding


class Transitions(NamedTuple):
    """Terms added to tag scores: 0 for allowed transitions, minus infinity for others."""

    first: Tensor  # (tags,)
    next: Tensor  # (tags before, tags)
    last: Tensor  # (tags,)

    def to(self, device: torch.device) -> "Transitions":
        return Transitions(*(penalty.to(device) for penalty in self))


def tag_transitions(tags: Sequence[str], *, iob1: bool = False) -> Transitions:
    """The allowed transitions: those of IOB1 if `iob1` is true, otherwise those of IOB2 or BIOES,
    whichever the tags use."""
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
    """The allowed tags (batch, length) with the largest sum of scores.

    scores: (batch, length, tags), logits or log-probabilities: a constant added to all tags of a
    word has no effect. words: (batch, length), True where a word has its tag; other positions are
    skipped. If no sequence is allowed (BIOES without O and S), returns the best tag of each word.
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


def broken_spans(parts: Mapping[str, Sequence[Tagged]]) -> Finding:
    """Check for I- tags that continue no span; strict span F1 ignores such entities."""
    begun = wrong = 0
    first = ""
    for part, records in parts.items():
        for record in records:
            begun += sum(tag[:2] in ("B-", "S-") for tag in record.tags)
            for place, (before, tag) in enumerate(pairwise(("O", *record.tags)), start=1):
                if tag[:2] in ("I-", "E-") and before not in (f"B-{tag[2:]}", f"I-{tag[2:]}"):
                    wrong += 1
                    first = first or (
                        f"{part} line {record.line:,}, word {place}, "
                        f"{record.words[place - 1]!r} {tag} after {before}"
                    )
    words = f"{begun:,} tags B- or S-; {wrong:,} tags I- or E- continue no span of their label"
    if wrong:
        remedy = "write B- at the first word of each" if begun else "these are IOB1 tags: write B-"
        words += f" (first: {first}); {remedy}, or span F1 ignores them"
    return Finding("spans", not wrong, words)
