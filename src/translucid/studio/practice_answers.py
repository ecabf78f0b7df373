"""Practice in the studio: exercises with their formulas as MathML, and checks of typed answers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from translucid import practice
from translucid.core.errors import InputError
from translucid.see.render.mathml import mathml
from translucid.studio.query_values import hinted, named, whole
from translucid.studio.server.questions import Query

if TYPE_CHECKING:
    from translucid.practice import Exercise
    from translucid.worked.solution.content import Content, SolutionTable

MAX_SEED = 10**9 - 1
MAX_ANSWER = 1_000  # characters


def topics() -> list[dict[str, str]]:
    """The topics with their titles, in teaching order."""
    return [{"name": name, "title": topic.title} for name, topic in practice.TOPICS.items()]


def exercise(topic: str, query: Query) -> dict[str, Any]:
    """An exercise without its answers."""
    drawn = _drawn(topic, query)
    steps = [
        {
            "name": part.name, "ask": written(part.ask), "entry": drawn.entry(part),
            "formula": _formula(drawn.formula(part), part.ask),
        }
        for part in drawn.parts
    ]  # fmt: skip
    return {
        "topic": topic, "seed": drawn.seed, "title": written(drawn.topic.title),
        "task": written(drawn.task), "given": list(_inputs(drawn.question("task"))),
        "steps": steps,
    }  # fmt: skip


def check(topic: str, query: Query) -> dict[str, Any]:
    """Check the answer to a step of an exercise."""
    drawn, answer = _drawn(topic, query), named(query, "answer")
    if len(answer) > MAX_ANSWER:
        raise InputError(
            f"answer: {len(answer):,} characters; the limit is {MAX_ANSWER:,}; enter "
            f"{drawn.entry(drawn.last)}"
        )
    step, names = query.one("step"), [part.name for part in drawn.parts]
    if step is not None and step not in names:
        raise InputError(f"step: there is no step {hinted(step, names)}")
    verdict = practice.check_answer(drawn, answer, step)
    return verdict.as_dict() | {"message": written(verdict.message)}


def solution(topic: str, query: Query) -> dict[str, Any]:
    """The worked solution of an exercise, and the right answer to each step."""
    drawn = _drawn(topic, query)
    return {
        "steps": list(_steps(drawn.solution)),
        "answers": {part.name: practice.right_answer(drawn, part) for part in drawn.parts},
    }


def written(text: str) -> list[str | dict[str, str]]:
    """Text with formulas in `$...$` as a list of texts and formulas."""
    parts = enumerate(text.split("$"))
    return [{"math": mathml(part)} if i % 2 else part for i, part in parts if part]


def _drawn(topic: str, query: Query) -> "Exercise":
    if topic not in practice.TOPICS:
        raise InputError(f"topic: there is no topic {hinted(topic, practice.TOPICS)}")
    return practice.draw(topic, whole(named(query, "seed"), "seed", 0, MAX_SEED))


def _formula(formula: str, ask: str) -> str:
    """The formula of a step, unless the step already names it."""
    return mathml(formula, display=True) if formula and formula not in ask else ""


def _inputs(question: "Content") -> Iterator[dict[str, Any]]:
    from translucid.worked.solution.document import grown

    for item in question.given:
        if item.table is None:
            yield {"formula": mathml(f"{item.symbol} = {grown(item.text)}")}
        else:
            yield {"title": written(item.symbol), "table": _table(item.table)}


def _steps(worked: "Content") -> Iterator[dict[str, Any]]:
    from translucid.worked.solution.document import aligned

    for _, heading, step in worked.numbered():
        yield {
            "heading": written(heading), "title": written(step.title),
            "formula": mathml(aligned(step), display=True) if step.sides() else "",
            "table": None if step.table is None else _table(step.table),
            "note": written(step.note),
        }  # fmt: skip


def _table(table: "SolutionTable") -> list[list[list[str | dict[str, str]]]]:
    """The rows of a table, the header first."""
    return [[written(cell) for cell in row] for row in (table.header, *table.rows)]
