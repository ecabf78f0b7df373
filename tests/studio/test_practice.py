"""Practice in the studio: the requests and, in a browser, exercises solved with the keyboard."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from tests.studio.browser import Page
from tests.studio.serving import Served, model, serving

from translucid import practice
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.practice_answers import MAX_ANSWER

BASE_2 = "0.143 0.286 0.571"  # softmax.3 with powers of 2


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return Handlers(Library({}))  # practice needs no model


def ask(handlers: Handlers, path: str, **given: object) -> tuple[int, Any]:
    query = "&".join(f"{name}={quote(str(value))}" for name, value in given.items())
    reply = handlers.ask("GET", f"/api/practice{path}?{query}")
    return reply.status, json.loads(reply.body)


def formulas(content: Any) -> Iterator[str]:
    """All MathML in a reply."""
    match content:
        case str() if content.startswith("<math"):
            yield content
        case list():
            for part in content:
                yield from formulas(part)
        case dict():
            yield from formulas(list(content.values()))


def words(written: list[Any]) -> str:
    """Written text with its formulas as their characters, as the page has them."""
    parts = (
        part if isinstance(part, str) else "".join(ElementTree.fromstring(part["math"]).itertext())
        for part in written
    )
    return re.sub(r"\s+", " ", "".join(parts)).strip()


# ---- without a browser ----


@pytest.mark.parametrize("topic", practice.TOPICS)
def test_every_topic_has_an_exercise_that_its_own_solution_answers(
    handlers: Handlers, topic: str
) -> None:
    drawn = practice.draw(topic, 5)
    status, found = ask(handlers, f"/{topic}", seed=5)
    assert status == 200
    assert [step["name"] for step in found["steps"]] == [part.name for part in drawn.parts]
    assert len(found["given"]) == len(drawn.question().given)
    assert right(topic, 5) not in json.dumps(found) or len(right(topic, 5)) < 6
    _, solved = ask(handlers, f"/{topic}/solution", seed=5)
    assert len(solved["steps"]) == len(drawn.solution.steps)
    for markup in formulas([found, solved]):
        assert ElementTree.fromstring(markup).tag.endswith("math")
    for step, answer in solved["answers"].items():
        _, verdict = ask(handlers, f"/{topic}/check", seed=5, step=step, answer=answer)
        assert verdict["right"], (step, answer)


def test_the_verdict_of_the_page_is_that_of_python(handlers: Handlers) -> None:
    _, found = ask(handlers, "/softmax/check", seed=3, answer=BASE_2)
    verdict = practice.check("softmax", 3, BASE_2)
    assert not found["right"]
    assert (found["step"], found["part"], found["slip"]) == (1, "e", "base-2")
    assert verdict.as_dict() == {**found, "also": (), "wrong_entries": (),
                                 "message": verdict.message}  # fmt: skip
    assert words(found["message"]).endswith("Use powers of e, not of 2.")


@pytest.mark.parametrize(
    ("path", "given", "keys"),
    [
        ("/softmx", {"seed": 3}, ("'softmx'", "softmax")),
        ("/" + "x" * 5000, {"seed": 3}, ("topic", "…")),
        ("/softmax", {}, ("seed is required",)),
        ("/softmax", {"seed": -1}, ("seed", "whole number from 0")),
        ("/softmax", {"seed": 10**12}, ("seed", "999999999")),
        ("/softmax/check", {"seed": 3}, ("answer is required",)),
        ("/softmax/check", {"seed": 3, "answer": ""}, ("empty",)),
        ("/softmax/check", {"seed": 3, "answer": "1 2"}, ("3 numbers",)),
        ("/softmax/check", {"seed": 3, "answer": "1 x 3"}, ("'x'", "not a number")),
        ("/softmax/check", {"seed": 3, "answer": "1 nan 3"}, ("not a finite number",)),
        ("/softmax/check", {"seed": 3, "answer": "1" * (MAX_ANSWER + 1)}, ("1,001", "1,000")),
        ("/softmax/check", {"seed": 3, "answer": "1", "step": "q"}, ("step", "'q'")),
        ("/softmax/solution", {"seed": "x"}, ("seed",)),
    ],
)
def test_bad_requests_are_refused(
    handlers: Handlers, path: str, given: dict[str, object], keys: tuple[str, ...]
) -> None:
    status, found = ask(handlers, path, **given)
    assert status == 422
    assert len(found["error"]) < 400
    assert all(key in found["error"] for key in keys), found["error"]


# ---- in the browser ----


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"regress-mlp": model("regress-mlp")}) as served:
        yield served


def right(topic: str, seed: int, step: int = -1) -> str:
    drawn = practice.draw(topic, seed)
    return practice.right_answer(drawn, drawn.parts[step])


class Solver:
    """A user with a keyboard, in the Practice view."""

    def __init__(self, page: Page, studio: Served, exercise: str, fresh: bool = True) -> None:
        self.page, self.keys = page, page.inner.keyboard
        address = f"{studio.address}#/practice?exercise={exercise}"
        if fresh:
            page.inner.goto("about:blank")
        assert page.turn(address).split(" ")[0] == "practice"

    def enter(self, answer: str) -> str:
        """Type an answer, press Enter, and return the verdict."""
        self.page.inner.focus("#answer")
        self.keys.press("Control+a")
        self.keys.type(answer)
        before = self.page.inner.evaluate("document.querySelector('#verdict').textContent = ''")
        self.keys.press("Enter")
        self.page.wait("before => document.querySelector('#verdict').textContent !== before",
                       before)  # fmt: skip
        return self.verdict

    def press(self, name: str) -> None:
        """Press a button with the keyboard."""
        self.page.inner.locator(".practice button", has_text=re.compile(f"^{name}$")).focus()
        self.keys.press("Enter")

    @property
    def verdict(self) -> str:
        return self.page.text("#verdict").strip()

    @property
    def score(self) -> str:
        return self.page.text(".practice .score")

    @property
    def focus(self) -> str:
        return self.page.inner.evaluate("document.activeElement.id || "
                                        "document.activeElement.textContent")  # fmt: skip


@pytest.mark.slow
def test_a_right_answer_leads_to_the_next_question(studio: Served, page: Page) -> None:
    solver = Solver(page, studio, "softmax.3")
    assert page.text("label[for=answer]") == "Find the probabilities p"
    assert "3 decimals" in page.text("#entry")
    assert solver.enter(right("softmax", 3)) == "Right."
    assert solver.score == "Solved: 1 of 1; at the first attempt: 1"
    assert solver.focus == "Next question"
    solver.keys.press("Enter")
    page.wait("() => location.hash.includes('exercise=softmax.4')")
    page.wait("() => document.activeElement.id === 'answer'")
    assert page.inner.input_value("#answer") == ""
    assert solver.enter(right("softmax", 4)) == "Right."
    assert solver.score == "Solved: 2 of 2; at the first attempt: 2"


@pytest.mark.slow
def test_a_wrong_answer_gets_the_step_that_went_wrong(studio: Served, page: Page) -> None:
    page.expected.append("422")
    solver = Solver(page, studio, "softmax.3")
    said = solver.enter(BASE_2)
    assert said.startswith("Step 1, the exponentials")
    assert said.endswith("Use powers of e, not of 2.")
    assert page.inner.get_attribute("#answer", "aria-invalid") == "true"
    assert solver.score == "Solved: 0 of 1; at the first attempt: 0"
    assert "3 numbers" in solver.enter("1 2")  # refused: not an attempt
    assert solver.enter(right("softmax", 3)) == "Right."
    assert page.inner.get_attribute("#answer", "aria-invalid") is None
    assert solver.score == "Solved: 1 of 1; at the first attempt: 0"


@pytest.mark.slow
def test_a_matrix_is_typed_with_semicolons(studio: Served, page: Page) -> None:
    solver = Solver(page, studio, "attention.1")
    answer = right("attention", 1)
    assert answer.count(";") == 2
    rows = page.inner.eval_on_selector_all(".given mtable", "all => all.map(el => el.textContent)")
    drawn = practice.draw("attention", 1).numbers
    assert [re.sub(r"\s", "", row).replace("−", "-") for row in rows] == [
        "".join(f"{value:g}" for row in drawn[name.lower()] for value in row) for name in "QKV"
    ]
    swapped = "; ".join(reversed(answer.split("; ")))
    assert solver.enter(swapped) != "Right."
    assert solver.enter(answer) == "Right."


@pytest.mark.slow
def test_step_by_step_asks_every_step(studio: Served, page: Page) -> None:
    solver = Solver(page, studio, "lstm.2")
    parts = practice.draw("lstm", 2).parts
    solver.press("Step by step")
    for number in range(len(parts)):
        page.wait("start => document.querySelector('label[for=answer]').textContent"
                  ".startsWith(start)", f"Step {number + 1} of {len(parts)}: ")  # fmt: skip
        assert len(page.words(".practice .way li")) == number
        if number == 1:
            assert solver.enter("17") != "Right."
        if number == 2:
            shown = page.text(".practice .actions")
            assert "Show this result" in shown
            solver.press("Show this result")
            page.wait("end => document.querySelector('#verdict').textContent.endsWith(end)",
                      f": {right('lstm', 2, 2)}")  # fmt: skip
        else:
            assert solver.enter(right("lstm", 2, number)) == "Right."
    results = [each.rpartition(": ")[2] for each in page.words(".practice .way li")]
    assert results == [right("lstm", 2, number) for number in range(len(parts))]
    assert solver.score == "Solved: 1 of 1; at the first attempt: 0"


@pytest.mark.slow
def test_hints_are_formulas_and_the_solution_ends_the_exercise(studio: Served, page: Page) -> None:
    solver = Solver(page, studio, "gru.1")
    drawn = practice.draw("gru", 1)
    for number, part in enumerate(drawn.parts, 1):
        solver.press("Hint")
        assert len(page.words(".hints li")) == number
        hint = page.words(".hints li")[-1]
        assert hint.startswith(f"Step {number} of {len(drawn.parts)}: {part.ask.split('$')[0]}")
    assert page.inner.is_disabled(".practice .actions button >> nth=0")
    solver.press("Solution")
    page.wait("() => document.querySelector('.worked h2')")
    assert solver.focus == "Solution"
    assert page.words(".worked p")[-1] == f"Answer: {right('gru', 1)}"
    assert len(page.words(".worked .formula")) >= len(drawn.solution.steps)
    assert page.inner.get_attribute("#answer", "readonly") is not None
    assert solver.score == "Solved: 0 of 1; at the first attempt: 0"


@pytest.mark.slow
def test_the_view_is_reached_and_used_by_keyboard_only(studio: Served, page: Page) -> None:
    page.see(f"{studio.address}#/flow")
    page.inner.keyboard.press("0")
    page.wait("() => document.documentElement.dataset.ready?.startsWith('practice ')")
    for _ in range(60):
        page.inner.keyboard.press("Tab")
        if page.inner.evaluate("document.activeElement.ariaLabel") == "Topic":
            break
    else:
        pytest.fail("Tab does not reach the list of topics")
    page.inner.keyboard.type("Soft")
    page.wait("() => /exercise=softmax[.]/.test(location.hash)")
    page.wait("() => document.activeElement.ariaLabel === 'Topic'")
    page.wait("() => document.querySelector('.practice h2').textContent === 'Softmax'")
    page.inner.keyboard.press("Tab")
    assert page.inner.evaluate("document.activeElement.id") == "answer"
    seed = int(page.inner.url.rpartition("softmax.")[2].partition("&")[0])
    page.inner.keyboard.type(right("softmax", seed))
    page.inner.keyboard.press("Enter")
    page.wait("() => document.querySelector('#verdict').textContent === 'Right.'")


@pytest.mark.slow
def test_screen_readers_get_names_and_the_verdict(studio: Served, page: Page) -> None:
    Solver(page, studio, "softmax.3")
    field = page.inner.get_by_label("Find the probabilities")
    assert field.get_attribute("id") == "answer"
    for part in field.get_attribute("aria-describedby").split():
        assert page.inner.locator(f"#{part}").count() == 1
    verdict = page.inner.locator("#verdict")
    assert verdict.get_attribute("role") == "status"
    assert verdict.get_attribute("aria-live") == "polite"


@pytest.mark.slow
def test_a_redraw_keeps_the_answer(studio: Served, page: Page) -> None:
    solver = Solver(page, studio, "softmax.3")
    said = solver.enter(BASE_2)
    page.inner.keyboard.type("0.09")
    page.changed(lambda: page.inner.set_viewport_size({"width": 700, "height": 700}))
    assert page.inner.input_value("#answer") == "0.09"
    assert solver.verdict == said
    assert "0 of 1" in solver.score


@pytest.mark.slow
@pytest.mark.parametrize("exercise", ["beam.1", "mlp-gradients.2", "bptt.1"])
def test_an_exercise_fits_on_a_phone(studio: Served, page: Page, exercise: str) -> None:
    page.inner.set_viewport_size({"width": 360, "height": 740})
    solver = Solver(page, studio, exercise)
    said = solver.enter("1 2; 3 4" if exercise.startswith("mlp") else "0.7")
    assert said != "Right."
    seen = page.inner.evaluate(
        "() => document.querySelector('#verdict').getBoundingClientRect().bottom"
        " <= document.querySelector('footer').getBoundingClientRect().top + 1"
    )
    assert seen, "the status bar covers the verdict"
    solver.press("Solution")
    page.wait("() => document.querySelector('.worked h2')")
    assert page.inner.evaluate("document.documentElement.scrollWidth") == 360
    cut = page.inner.evaluate(
        "[...document.querySelectorAll('.practice .panel')]"
        ".filter(el => el.scrollWidth > el.clientWidth).length"
    )
    assert not cut, "only a formula scrolls sideways"


@pytest.mark.slow
def test_a_link_to_an_unknown_exercise_is_reported(studio: Served, page: Page) -> None:
    page.see(f"{studio.address}#/practice?exercise=alchemy.1")
    assert "exercise=alchemy.1 (a topic and a seed" in page.told()
    assert page.inner.input_value(".practice select") == "perceptron"


@pytest.mark.slow
def test_a_saved_session_says_that_it_cannot_check_answers(
    studio: Served, page: Page, tmp_path: Any
) -> None:
    handlers = Handlers(studio.library)
    (tmp_path / "saved.html").write_bytes(handlers.saved(None, "#/practice"))
    page.inner.goto((tmp_path / "saved.html").as_uri())
    page.inner.get_by_text("translucid practice").wait_for(timeout=30_000)
    assert page.inner.get_by_text("Practice needs the studio").count() == 1
