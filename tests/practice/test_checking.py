"""Answers to one exercise: right, wrong with a reason, incomplete, or no answer at all."""

import json
import math

import numpy as np
import pytest

from translucid.core.errors import InputError
from translucid.practice.checking import check, check_answer, check_steps, read_answer, written
from translucid.practice.exercise import Exercise, draw

SEED = 7


@pytest.fixture
def attention() -> Exercise:
    return draw("attention", SEED)


def by_hand(exercise: Exercise, *, scale: float = math.sqrt(2), axis: int = 1) -> str:
    """Attention by a plain loop, with or without slips, as a user types it."""
    q, k, v = (np.array(exercise.numbers[name]) for name in ("q", "k", "v"))
    scores = np.array([[sum(a * b for a, b in zip(x, y, strict=True)) for y in k] for x in q])
    e = np.exp(scores / scale)
    return written(e / e.sum(axis, keepdims=True) @ v, 3)


def test_an_answer_by_hand_is_right(attention: Exercise) -> None:
    assert check("attention", SEED, by_hand(attention)).right


@pytest.mark.parametrize(
    ("wrong", "step", "slip"),
    [
        ({"scale": 1.0}, 2, "no-scale"),
        ({"scale": 2.0}, 2, "d_k-for-root"),
        ({"axis": 0}, 3, "wrong-axis"),
    ],
)
def test_slips_by_hand_are_recognized(
    attention: Exercise, wrong: dict[str, int], step: int, slip: str
) -> None:
    verdict = check("attention", SEED, by_hand(attention, **wrong))
    assert (verdict.right, verdict.step, verdict.slip) == (False, step, slip)
    assert f"Step {step}, " in verdict.message
    assert json.loads(json.dumps(verdict.as_dict()))["slip"] == slip


def test_mask_after_softmax_is_recognized() -> None:
    exercise = draw("masked-attention", SEED)
    q, k, v = (np.array(exercise.numbers[name]) for name in ("q", "k", "v"))
    e = np.exp(q @ k.T / math.sqrt(2))
    late = np.tril(e / e.sum(1, keepdims=True)) @ v
    assert check_answer(exercise, written(late, 3)).slip == "mask-after-softmax"


@pytest.mark.parametrize("part", ["s", "mixed"])
def test_a_transposed_matrix_is_recognized(attention: Exercise, part: str) -> None:
    verdict = check_answer(attention, written(attention.right[part].T, 3), part)
    assert not verdict.right
    assert verdict.part == part


def test_a_wrong_sign_is_recognized() -> None:
    exercise = draw("rnn", SEED)
    verdict = check_answer(exercise, written(-exercise.right["h3"], 4))
    assert (verdict.slip, verdict.part) == ("sign", "h3")
    assert verdict.step == 3


def test_the_result_of_an_earlier_step_is_recognized() -> None:
    exercise = draw("softmax", SEED)
    verdict = check_answer(exercise, written(exercise.right["e"], 3), "p")
    assert not verdict.right
    exercise = draw("attention", SEED)
    verdict = check_answer(exercise, written(exercise.right["s"], 3), "scaled")
    assert (verdict.slip, verdict.part) == ("no-scale", "scaled")


def test_rounding_too_early_is_recognized() -> None:
    exercise = draw("lstm", SEED)
    early = exercise.topic.compute(exercise.numbers, decimals=1, exact="h")
    assert early is not None
    verdict = check_answer(exercise, written(early["h"], 4))
    assert verdict.slip == "rounded-early"
    assert "decimals" in verdict.message


def test_too_few_decimals_are_not_a_slip() -> None:
    exercise = draw("softmax", 3)
    verdict = check_answer(exercise, written(exercise.right["p"], 1))
    assert (verdict.right, verdict.slip) == (False, "too-few-decimals")


def test_a_wrong_entry_is_located(attention: Exercise) -> None:
    value = attention.right["mixed"].copy()
    value[2, 1] += 0.3
    verdict = check_answer(attention, written(value, 3))
    assert verdict.wrong_entries == ((3, 2),)
    assert "5 of 6 numbers are right. Check row 3, column 2." in verdict.message


def test_an_unexplained_answer_names_no_step() -> None:
    verdict = check("cross-entropy", SEED, "12345")
    assert not verdict.right
    assert verdict.step is None
    assert "step by step" in verdict.message


@pytest.mark.parametrize("typed", ["1/4 -0.5 3", "[0.25, -.5, 3]", "0.25; −0.5; 3e0"])
def test_answers_may_be_fractions_lists_or_columns(typed: str) -> None:
    exercise = draw("softmax", SEED)
    np.testing.assert_array_equal(read_answer(exercise, exercise.last, typed), [0.25, -0.5, 3])


@pytest.mark.parametrize(
    ("typed", "words"),
    [("", "empty"), ("one", "not a number"), ("1 2", "3 numbers"), ("0,5 0,2 0,3", "decimal")],
)
def test_other_answers_are_refused(typed: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check("softmax", SEED, typed)


def test_steps_that_follow_from_a_mistake_count_as_right(attention: Exercise) -> None:
    slip = attention.slips["no-scale"]
    answers = [written(slip[part.name], 3) for part in attention.parts]
    verdicts = check_steps(attention, answers)
    assert [verdict.right for verdict in verdicts] == [True, False, True, True]
    assert verdicts[1].slip == "no-scale"
    answers[3] = written(slip["mixed"] + 1, 3)
    assert [verdict.right for verdict in check_steps(attention, answers)] == [1, 0, 1, 0]
    with pytest.raises(InputError, match="4 steps"):
        check_steps(attention, answers[:2])


def test_hints_show_the_formula_of_the_worked_solution(attention: Exercise) -> None:
    assert attention.formula(attention.parts[1]) == r"S' = s \cdot S"
    assert attention.solution.steps[-1].name == "attention.mixed"
    assert not attention.question().steps
