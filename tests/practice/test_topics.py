"""Every topic: its numbers, its plain formulas and the location of its slips."""

import numpy as np
import pytest

from translucid.core.errors import InputError
from translucid.practice.checking import Suspect, check, check_answer, suspects, written
from translucid.practice.exercise import Exercise, differs, draw
from translucid.practice.topics import TOPICS

SEEDS = pytest.mark.parametrize("seeds", [range(10)], ids=["10"])
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
def test_twenty_kinds_of_planted_mistakes_are_located(topic: str, seeds: range) -> None:
    """The topic's own slips by the first step that the message names. A general mistake (a sign,
    exchanged rows, a decimal point) at one step can equal one at another step, so for these all
    steps that the message names count."""
    kinds: set[str] = set()
    planted = own = first = named = 0
    for seed in seeds:
        exercise = draw(topic, seed)
        asked = exercise.last.name
        for name, found in mistakes(exercise).items():
            suspect = found[seed % len(found)]  # at another step for another seed
            answer = suspect.answer.round(exercise.decimals)
            if not differs(answer, exercise.right[asked], exercise.tolerance):
                assert name not in exercise.slips, (seed, name)
                continue
            verdict = check_answer(exercise, written(answer, exercise.decimals))
            assert not verdict.right, (seed, name)
            step = exercise.topic.index(suspect.part.name) + 1
            kinds.add(name)
            planted += 1
            named += step in (verdict.step, *verdict.also)
            if name in exercise.slips:
                assert suspect.part.name == first_wrong(exercise, name)
                own += 1
                first += step == verdict.step
    assert len(kinds) >= 20, sorted(kinds)
    assert own >= 12 * len(seeds)
    assert first >= 0.95 * own
    assert named >= 0.95 * planted


def mistakes(exercise: Exercise) -> dict[str, list[Suspect]]:
    """By kind, the mistakes that can happen in an exercise."""
    found: dict[str, list[Suspect]] = {}
    for suspect in suspects(exercise, exercise.last.name):
        if suspect.name in found and suspect.name in exercise.slips:
            continue  # a general mistake that is called like one of the topic's slips
        found.setdefault(suspect.name, []).append(suspect)
    return found


@EACH
@SEEDS
def test_at_most_a_tenth_of_the_slips_is_unclear(topic: str, seeds: range) -> None:
    """All others change the answer, and differently from those at other steps."""
    for seed in seeds:
        exercise = draw(topic, seed)
        asked = exercise.last.name
        answers = {name: values[asked] for name, values in exercise.slips.items()}
        clear = [
            name for name, answer in answers.items()
            if not any(
                first_wrong(exercise, name) != first_wrong(exercise, other)
                and not differs(answer, answers[other], exercise.tolerance)
                for other in answers
            )
        ]  # fmt: skip
        assert len(answers) - len(clear) <= 2 * (len(exercise.topic.slips) // 10), seed


@EACH
@pytest.mark.thorough
def test_a_thousand_exercises(topic: str) -> None:
    """All of the tests above, on chunks that fit in the cache of `draw`."""
    for first in range(10, 1000, 198):
        seeds = range(first, first + 198)
        test_plain_formulas_equal_the_production_parts(topic, seeds)
        test_right_answers_rounded_as_asked_are_right(topic, seeds)
        test_twenty_kinds_of_planted_mistakes_are_located(topic, seeds)
        test_at_most_a_tenth_of_the_slips_is_unclear(topic, seeds)


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
