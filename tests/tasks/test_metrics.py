"""The scores, against counting by hand and against each other."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translucid.tasks import metrics
from translucid.tasks.metrics import TagSpan

TAGS = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=12)


@pytest.mark.parametrize(
    ("tags", "strict", "lenient"),
    [
        (
            "B-A I-A O B-B",
            [TagSpan(0, 2, "A"), TagSpan(3, 4, "B")],
            [TagSpan(0, 2, "A"), TagSpan(3, 4, "B")],
        ),
        ("O I-A I-A", [], [TagSpan(1, 3, "A")]),
        ("B-A I-B", [TagSpan(0, 1, "A")], [TagSpan(0, 1, "A"), TagSpan(1, 2, "B")]),
        (
            "B-A B-A",
            [TagSpan(0, 1, "A"), TagSpan(1, 2, "A")],
            [TagSpan(0, 1, "A"), TagSpan(1, 2, "A")],
        ),
        ("", [], []),
    ],
)
def test_spans(tags: str, strict: list[TagSpan], lenient: list[TagSpan]) -> None:
    assert metrics.spans(tags.split()) == strict
    assert metrics.spans(tags.split(), "lenient") == lenient


@given(TAGS)
def test_well_formed_tags_mean_the_same_in_both_modes(tags: list[str]) -> None:
    """Written back as tags, the spans of either mode give the same spans in either mode."""
    for mode in ("strict", "lenient"):
        found = metrics.spans(tags, mode)
        again = ["O"] * len(tags)
        for span in found:
            again[span.start] = f"B-{span.label}"
            again[span.start + 1 : span.end] = [f"I-{span.label}"] * (span.end - span.start - 1)
        assert metrics.spans(again, "strict") == metrics.spans(again, "lenient") == found


def test_span_f1_counts_whole_entities() -> None:
    gold = [["B-A", "I-A", "O", "B-B"], ["B-A"]]
    assert metrics.span_f1(gold, gold) == 1.0
    near = [["B-A", "O", "O", "B-B"], ["B-A"]]  # one of three cut short
    assert metrics.span_f1(near, gold) == pytest.approx(2 / 3)
    assert metrics.span_f1([["O"] * 4, ["O"]], gold) == 0.0


def test_labels() -> None:
    gold, predicted = ["a", "a", "b", "c"], ["a", "b", "b", "b"]
    assert metrics.accuracy(predicted, gold) == 0.5
    assert metrics.confusion(predicted, gold)[("a", "b")] == 1
    assert metrics.macro_f1(predicted, gold) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


def test_perplexity_of_even_guesses_is_the_number_of_choices() -> None:
    assert metrics.perplexity(7 * math.log(50), 7) == pytest.approx(50)
    assert metrics.perplexity(1e9, 1) == math.inf
    assert metrics.bits_per_character(8 * math.log(2), 4) == pytest.approx(2)


def test_translation_scores_carry_their_signatures() -> None:
    same, (bleu, chrf) = metrics.translation(["ein Hund rennt ."], ["ein Hund rennt ."])
    assert same == {"bleu": pytest.approx(100), "chrf": pytest.approx(100), "exact_match": 1.0}
    assert "tok:13a" in bleu
    assert "version:" in chrf
    other, _ = metrics.translation(["eine Katze schläft ."], ["ein Hund rennt ."])
    assert other["bleu"] < 50
    assert other["exact_match"] == 0.0


def test_r_squared() -> None:
    assert metrics.r_squared([1.0, 2.0], [1.0, 2.0]) == 1.0
    assert metrics.r_squared([1.5, 1.5], [1.0, 2.0]) == 0.0
