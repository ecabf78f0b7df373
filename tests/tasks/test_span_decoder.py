"""The best whole spans: as exhaustive search finds them, and as argmax where that breaks none."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from translucid.data.spans import chunks
from translucid.tasks.span_decoder import best_tags, tag_transitions

BIO = ["O", "B-A", "I-A", "B-B", "I-B"]
BIOES = ["O", "B-A", "I-A", "E-A", "S-A", "S-B"]
ODD = ["B-A", "I-A", "NOUN", "U-A", "-", "B-", "I-", ""]  # without O, and with what nobody knows
SCHEMES = {"BIO": BIO, "BIOES": BIOES, "odd": ODD, "no O": ["B-A", "E-A", "I-A"]}

Legal = Callable[[list[str], list[str]], bool]


def is_legal(tags: list[str], known: list[str]) -> bool:
    """Said in another way: each tag asks what came before, and what is open at the end."""
    before = ""
    for tag in [*tags, "end"]:
        mark, label = tag[:2], tag[2:]
        open_label = before[2:] if before[:2] in ("B-", "I-") else None
        if mark in ("I-", "E-") and open_label != label:
            return False
        closing = open_label is not None and f"E-{open_label}" in known
        if closing and mark not in ("I-", "E-"):
            return False
        before = tag
    return True


def is_iob1(tags: list[str], known: list[str]) -> bool:
    """B- only separates: right before it a span of its label ends."""
    pairs = zip(["", *tags], tags, strict=False)
    return all(tag[:1] != "B" or before[1:] == tag[1:] for before, tag in pairs)


def exhaustive(
    scores: torch.Tensor, known: list[str], is_legal: Legal = is_legal
) -> list[int] | None:
    """scores: (length, tags)."""
    best, found = -torch.inf, None
    table = scores.tolist()
    for path in product(range(len(known)), repeat=len(table)):
        total = sum(row[tag] for row, tag in zip(table, path, strict=True))
        if total > best and is_legal([known[tag] for tag in path], known):
            best, found = total, list(path)
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_best_tags_equal_exhaustive_search(scheme: str) -> None:
    known = SCHEMES[scheme]
    torch.manual_seed(0)
    for length, rows in ((1, 20), (2, 20), (3, 20), (4, 3)):
        scores = torch.randn(rows, length, len(known), dtype=torch.float64)
        words = torch.ones(rows, length, dtype=torch.bool)
        found = best_tags(scores, words, tag_transitions(known)).tolist()
        for row in range(rows):
            wanted = exhaustive(scores[row], known)
            assert found[row] == (scores[row].argmax(-1).tolist() if wanted is None else wanted)


def test_best_iob1_tags_equal_exhaustive_search() -> None:
    torch.manual_seed(0)
    scores = torch.randn(40, 4, len(BIO), dtype=torch.float64)
    words = torch.ones(40, 4, dtype=torch.bool)
    found = best_tags(scores, words, tag_transitions(BIO, iob1=True)).tolist()
    assert found == [exhaustive(row, BIO, is_iob1) for row in scores]
    assert found != scores.argmax(-1).tolist()


@given(st.integers(0, 10_000), st.integers(0, 9))
def test_legal_argmax_is_kept(seed: int, length: int) -> None:
    """A gap above all others makes any legal sequence the likeliest."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, length, len(BIO), generator=generator)
    words = torch.ones(3, length, dtype=torch.bool)
    first = best_tags(scores, words, tag_transitions(BIO))
    assert first.shape == (3, length)
    again = scores + 20 * torch.nn.functional.one_hot(first, len(BIO))
    assert torch.equal(best_tags(again, words, tag_transitions(BIO)), again.argmax(-1))
    for row in first.tolist():
        tags = [BIO[tag] for tag in row]
        assert chunks(tags) == chunks(tags, strict=True), "no span begins with I-"


def test_positions_without_a_word_are_skipped() -> None:
    """Rows of unequal length and pieces without a tag give what the words alone give."""
    torch.manual_seed(0)
    scores = torch.randn(60, 9, len(BIO))
    words = torch.rand(60, 9) < 0.6
    words[0] = True
    words[1, 4:] = False
    words[2:20, 0] = False
    words[20] = False
    found = best_tags(scores, words, tag_transitions(BIO))
    for row in range(60):
        count = int(words[row].sum())
        alone = scores[row][words[row]][None]
        wanted = best_tags(alone, torch.ones(1, count, dtype=torch.bool), tag_transitions(BIO))[0]
        assert torch.equal(found[row][words[row]], wanted)


def test_logits_and_log_probabilities_give_the_same_tags() -> None:
    torch.manual_seed(0)
    scores = 3 * torch.randn(60, 7, len(BIO))
    words = torch.ones(60, 7, dtype=torch.bool)
    log_p = scores.log_softmax(-1)
    assert torch.equal(
        best_tags(scores, words, tag_transitions(BIO)),
        best_tags(log_p, words, tag_transitions(BIO)),
    )


def test_without_any_span_everything_is_allowed() -> None:
    rules = tag_transitions(["NOUN", "VERB", "X-ray"])
    assert all(not rule.any() for rule in rules)
