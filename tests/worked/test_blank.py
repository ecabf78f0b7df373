"""A worksheet shows the steps of a solution with an empty box in place of every result."""

import re
from collections.abc import Callable, Iterator

import pytest
from tests.in_process import run

from translucid import worked
from translucid.worked.solution.content import Value

BOX = r"\square"
each = pytest.mark.parametrize("exercise", worked.EXERCISES, ids=lambda e: e.__name__)


def numbers(value: Value) -> Iterator[Value]:
    """The entries of nested lists."""
    if isinstance(value, list):
        for entry in value:
            yield from numbers(entry)
    else:
        yield value


@each
def test_every_number_of_a_result_becomes_one_box(
    exercise: Callable[[], worked.Solution],
) -> None:
    solved = exercise()
    for step, empty in zip(solved.steps, solved.blank().steps, strict=True):
        if step.result and step.table is None and "vdots" not in step.result:
            assert empty.result.count(BOX) == len(list(numbers(step.value))), step.name
        assert not re.search(r"\d", empty.result), step.name
        assert (empty.title, empty.formula) == (step.title, step.formula)
        assert empty.value is None
        assert not empty.numbers


@each
def test_a_worksheet_keeps_the_given_numbers_and_no_answer(
    exercise: Callable[[], worked.Solution],
) -> None:
    solved, empty = exercise(), exercise().blank()
    assert empty.given == solved.given
    assert empty.closing == ""
    for table in (step.table for step in empty.steps if step.table is not None):
        assert all(cell == f"${BOX}$" for row in table.rows for cell in row[1:])


def test_later_tables_do_not_reveal_which_beams_were_kept() -> None:
    text = worked.beam().blank().text()
    kept = text.partition("── Greedy")[2]
    assert "I am" in kept
    assert "I am f" not in kept


@pytest.mark.parametrize("format", ["text", "markdown", "latex"])
def test_the_command_prints_boxes(format: str) -> None:
    answer = run("work", "softmax", "2 1 0", "--blank", "--format", format)
    assert answer.returncode == 0
    assert answer.stdout.count("□" if format == "text" else BOX) == 7
    assert "0.665" not in answer.stdout
