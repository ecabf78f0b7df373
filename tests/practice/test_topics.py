"""Every topic: its numbers, its plain formulas and the location of its slips."""

import numpy as np
import pytest

from translucid.core.errors import InputError
from translucid.practice.checking import check, check_answer, suspects, written
from translucid.practice.exercise import Exercise, differs, draw
from translucid.practice.topics import TOPICS

MANY = pytest.param(range(20, 1000), marks=pytest.mark.thorough, id="1000")
SEEDS = pytest.mark.parametrize("seeds", [pytest.param(range(20), id="20"), MANY])
EACH = pytest.mark.parametrize("topic", TOPICS)


def first_wrong(exercise: Exercise, slip: str) -> str:
    """The first step that a slip changes."""
    values = exercise.slips[slip]
    return next(p.name for p in exercise.parts if differs(values[p.name], exercise.right[p.name]))


@EACH
@SEEDS
def test_plain_formulas_equal_the_production_parts(topic: str, seeds: range) -> None:
    for seed in seeds:
        exercise = draw(topic, seed)
        plain = exercise.topic.compute(exercise.numbers)
        assert plain is not None
        for part in exercise.parts:
            np.testing.assert_allclose(
                plain[part.name], exercise.right[part.name], rtol=1e-9, atol=1e-12
            )


@EACH
@SEEDS
def test_right_answers_rounded_as_asked_are_right(topic: str, seeds: range) -> None:
    for seed in seeds:
        exercise = draw(topic, seed)
        for part in exercise.parts:
            right, unit = exercise.right[part.name], 10.0**-exercise.decimals
            for rounded in (right, right.round(exercise.decimals), _half_up(right, unit)):
                text = written(rounded, 10)
                assert check_answer(exercise, text, part.name).right, (seed, part.name, text)


def _half_up(value: np.ndarray, unit: float) -> np.ndarray:
    """Rounded as in school: the half away from 0."""
    away: np.ndarray = np.sign(value) * np.floor(abs(value) / unit + 0.5) * unit
    return away


@EACH
@SEEDS
def test_every_planted_slip_is_located(topic: str, seeds: range) -> None:
    planted = located = 0
    for seed in seeds:
        exercise = draw(topic, seed)
        for name, values in exercise.slips.items():
            verdict = check_answer(exercise, written(values[exercise.last.name], exercise.decimals))
            assert not verdict.right, (seed, name)
            planted += 1
            located += verdict.part == first_wrong(exercise, name)
    assert planted >= 5 * len(seeds)
    assert located >= 0.95 * planted


@EACH
def test_general_mistakes_are_among_the_steps_that_the_message_names(topic: str) -> None:
    planted = located = 0
    for seed in range(5):
        exercise = draw(topic, seed)
        for suspect in suspects(exercise, exercise.last.name):
            answer = suspect.answer.round(exercise.decimals)
            if differs(answer, exercise.right[exercise.last.name], exercise.tolerance):
                verdict = check_answer(exercise, written(answer, exercise.decimals))
                step = exercise.topic.index(suspect.part.name) + 1
                planted += 1
                located += step in (verdict.step, *verdict.also)
    assert located >= 0.95 * planted


@EACH
def test_the_same_seed_draws_the_same_exercise(topic: str) -> None:
    first, again = draw(topic, 3), draw.__wrapped__(topic, 3)
    assert first.as_dict(answers=True) == again.as_dict(answers=True)
    assert first.numbers != draw(topic, 4).numbers
    assert "answer" not in str(first.as_dict())


@EACH
def test_topics_describe_their_steps(topic: str) -> None:
    found = TOPICS[topic]
    names = {part.name for part in found.parts}
    assert len(names) == len(found.parts)
    assert len({slip.name for slip in found.slips}) == len(found.slips)
    for slip in found.slips:
        assert set(slip.wrong) <= names
        assert slip.say.endswith(".")
        assert "$" not in slip.say  # also used as plain text in quizzes


def test_unknown_topics_and_seeds_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean attention"):
        draw("atention", 1)
    with pytest.raises(InputError, match="seed = -1"):
        draw("attention", -1)
    with pytest.raises(InputError, match="no such step: 'bogus'"):
        check("attention", 1, "1", "bogus")
