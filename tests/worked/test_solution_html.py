"""A solution in a notebook: every step, well-formed, escaped, and no style outside of it."""

import re
from xml.etree.ElementTree import Element, fromstring

import pytest
from tests.worked.test_solutions import SOLUTIONS

from translucid import worked
from translucid.worked.solution.document import html
from translucid.worked.solution.solution import Solution

MATH = "{http://www.w3.org/1998/Math/MathML}"


def read(solution: Solution) -> Element:
    return fromstring(solution.html())


@pytest.mark.parametrize("kind", SOLUTIONS)
def test_each_step_stands_there_with_its_formula_and_its_table(kind: str) -> None:
    solution = SOLUTIONS[kind]
    root = read(solution)
    titles = ["".join(p.itertext()) for p in root.iter("p")]
    for number, step in enumerate(solution.steps, 1):
        title = "".join(fromstring(f"<p>{html(step.title)}</p>").itertext())
        assert f"{number}. {title}" in titles
    displayed = [math for math in root.iter(f"{MATH}math") if math.get("display") == "block"]
    assert len(displayed) == sum(bool(step.sides()) for step in solution.steps)
    tables = [part.table for part in (*solution.given, *solution.steps) if part.table is not None]
    assert [len(list(t.iter("tr"))) - 1 for t in root.iter("table")] == [
        len(table.rows) for table in tables
    ]
    sections = {step.section for step in solution.steps if step.section}
    headings = ["".join(h.itertext()) for h in root.iter("h3")]
    assert len(headings) >= len(sections) + bool(solution.given)


def test_a_result_stands_in_the_page_as_a_matrix_of_its_numbers() -> None:
    solution = worked.attention(x=[[1.0, 0.0], [0.0, 1.0]], identity=True)
    step = next(step for step in solution.steps if step.name == "attention.pattern")
    root = read(solution)
    displayed = [math for math in root.iter(f"{MATH}math") if math.get("display") == "block"]
    last = list(displayed[solution.steps.index(step)].iter(f"{MATH}mtable"))[-1]
    found = [["".join(cell.itertext()) for cell in row] for row in last]
    assert found == [[f"{value:.3f}" for value in row] for row in step.value]  # type: ignore[union-attr]


def test_words_are_escaped_and_a_dollar_is_a_dollar() -> None:
    solution = worked.beam({"<b>a</b> & $5$": {"</div>": 0.5, "x": 0.5}})
    written = solution.html()
    assert "<b>a" not in written
    assert "&lt;b&gt;a&lt;/b&gt; &amp; $5$" in written
    assert not re.search("[\ue000-\uf8ff]", written)
    assert "</div> " not in "".join(re.findall(r"<td>.*?</td>", written))
    assert "<b>a</b> & $5$" in "".join(read(solution).itertext())


def rules(html: str) -> list[str]:
    """What the styles in a piece of HTML choose, comma by comma."""
    found = re.findall(r"<style[^>]*>(.*?)</style>", html, flags=re.S)
    chosen = [rule for style in found for rule in re.findall(r"([^{}]+)\{[^{}]*\}", style)]
    return [one.strip() for rule in chosen for one in rule.split(",")]


def test_nothing_outside_is_restyled_and_nothing_is_fetched() -> None:
    written = SOLUTIONS["mlp"].html()
    found = rules(written)
    assert found
    assert all(rule.startswith(".translucid") for rule in found)
    assert "<script" not in written
    assert not re.search(r"(?:src|href)=|url\(|@import", written)
    assert "color: inherit" in written
    assert re.match(r'<div class="translucid ', written)


def test_notebooks_get_html_and_may_ask_for_the_others() -> None:
    solution = worked.softmax("1 2")
    assert solution._repr_html_() == solution.html()
    assert solution._repr_markdown_() == solution.markdown()
    assert solution._repr_latex_() in solution.latex()
