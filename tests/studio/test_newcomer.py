"""What a newcomer needs: an address without a view opens the first page, Help explains the view,
terms are defined where they appear, and nothing covers or cuts off what the page explains."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import Served, model, serving

import translucid as tl
from translucid.studio import lesson_answers
from translucid.studio.input_words import another_text
from translucid.studio.lesson import Lesson, Stop, right, wrong
from translucid.studio.lesson_answers import refuse
from translucid.studio.lesson_run import LessonRun
from translucid.studio.library import Library
from translucid.studio.server.app import STATIC
from translucid.studio.terms import first_weight

UNKNOWN = "I eat a big pizza."
WEIGHTS = "decoder.layers.1.cross_attention.pattern"


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({"demo:translate": tl.load("demo:translate")})


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    small = {"classify": model("classify-gru"), "regress": model("regress-mlp")}
    with serving({"demo:translate": tl.load("demo:translate"), **small}) as served:
        yield served


# ---- the finding of the first page ----


def test_the_finding_agrees_with_the_mean_of_the_heads(library: Library) -> None:
    opened, seen = library.opened["a"], set()
    kinds = ("Its training data", "in another position", "agree on no strong link")
    for number in range(60):
        run = library.run("a", another_text(opened, number))
        (stop,) = lesson_answers.on_run(run, "opening")["steps"]
        _, row, column = next(piece for piece in stop["say"] if "value" in piece)["index"]
        weights = run[WEIGHTS][0]
        assert int(weights.mean(0)[row].argmax()) == column, run.text
        said = "".join(piece.get("text", "") for piece in stop["say"])
        seen.update(kind for kind in kinds if kind in said)
    assert seen == set(kinds)


@pytest.mark.parametrize("text", ["I am happy.", UNKNOWN, "She never quibbles."])
def test_an_unknown_word_is_the_finding(library: Library, text: str) -> None:
    run = library.run("a", text)
    (stop,) = lesson_answers.on_run(run, "opening")["steps"]
    ids = run.example.batch.inputs["source"][0].tolist()
    assert run.example.source is not None
    place = ids.index(run.example.source.tokenizer.unk_id)
    assert stop["say"][0]["word"] == run.example.words.source[place]
    value = next(piece for piece in stop["say"] if "value" in piece)
    row, column = value["index"]
    assert column == place
    means = run[WEIGHTS][0].mean(0)[:, place]
    assert value["value"] == pytest.approx(float(means.max()))
    assert row == int(means.argmax())


# ---- conditions of a lesson that no run can meet ----


@pytest.mark.parametrize(("condition", "message"), [
    (lambda run: run.answer == 0.9, "is a text and never equals the number 0.9"),
    (lambda run: run.answer != 1, "is a text and never equals the number 1"),
    (lambda run: run.point(WEIGHTS)[0, 0, 0] == 0.9, "never equals 0.9 exactly; compare with"),
])  # fmt: skip
def test_a_condition_that_no_run_can_meet_is_refused(
    library: Library, condition: Any, message: str
) -> None:
    lesson = Lesson(name="A lesson", text="The dog sleeps.")

    @lesson.stop("A task", view="flow")
    def a_task(run: Any) -> Stop:
        return Stop("Do it.")

    @a_task.check
    def is_done(run: Any, page: Any) -> Any:
        return right("Yes.") if condition(run) else wrong("No.")

    with pytest.raises(tl.InputError, match=message):
        refuse(library, lesson, "lesson.py")


def test_conditions_that_a_run_can_meet_work(library: Library) -> None:
    run = LessonRun(library.run("a", "The dog sleeps."))
    weight = run.point(WEIGHTS)[0, 0, 0]
    assert run.answer == "Der Hund schläft."
    assert run.answer != "0.9"
    assert weight == weight.__float__()
    assert weight != 0.5
    assert weight not in (0, 2)
    assert len({weight, float(weight)}) == 1


# ---- in the browser ----


@pytest.mark.slow
def test_an_address_without_a_view_opens_the_first_page(page: Page, studio: Served) -> None:
    assert page.see(studio.address).startswith("lesson ")
    for shared in (f"http://{studio.host}/", f"http://{studio.host}/#", f"http://{studio.host}/#/"):
        page.inner.goto("about:blank")
        assert page.see(shared).startswith("lesson "), shared
        assert "every number" in page.text(".sentence .intro")
        assert page.words(".opening-cell h2") == ["not → nicht"]
        assert page.inner.locator(".looks svg").is_visible()
        assert "Space" not in page.text("#readout")  # no lesson is open
    page.inner.goto("about:blank")
    deep = f"http://{studio.host}/#/attention?head=2"
    assert page.see(deep).startswith("attention ")


@pytest.mark.slow
def test_the_first_page_shows_the_model_that_is_chosen(page: Page, studio: Served) -> None:
    page.see(f"{studio.address}#/?m=b&text=the+dog+sees+a+cat+.")
    assert page.words(".opening-cell") == []
    assert page.text(".overview h2") == "the dog sees a cat ."
    answer = page.text(".overview .says b")
    usable = page.inner.eval_on_selector_all(
        ".views a[href]:not([aria-current])", "all => all.map(el => el.textContent)"
    )
    assert page.words(".ways a") == usable
    page.changed(lambda: page.inner.click(".ways a >> nth=0"))
    assert page.drawn().startswith("flow ")
    assert page.text("#sentence .answer") == answer


@pytest.mark.slow
def test_the_first_page_explains_an_unknown_word(page: Page, studio: Served) -> None:
    page.see(f"{studio.address}#/?text={UNKNOWN.replace(' ', '+')}")
    page.wait("document.querySelector('#sentence .marks u')?.textContent === 'pizza'")
    assert page.words(".looks text.found")[0] == "pizza"
    assert page.text(".opening-cell h2").startswith("pizza → <unk> → ")
    assert "not in the model's vocabulary" in page.text(".opening-cell .says")
    assert page.words(".opening-cell .sum") == []
    assert len(page.words("#sentence .hints .chip")) >= 2
    page.changed(lambda: page.inner.click("#sentence .hints .chip >> nth=0"))  # reads the text
    assert "<unk>" not in page.text(".opening-cell h2")


# The cell that the matrix of Attention frames, and the addresses in the panel and the status bar.
SUBJECTS = """() => {
    const [row, col, cell] = document.querySelectorAll('.matrix rect.band, .matrix rect.cell');
    const of = (el, name) => Number(el.getAttribute(name));
    const place = [(of(cell, 'y') - of(col, 'y')) / of(cell, 'height'),
                   (of(cell, 'x') - of(row, 'x')) / of(cell, 'width')].map(Math.round);
    return [cell.style.display ? 'no frame' : place.join(', '),
            document.querySelector('.sum').dataset.of,
            document.querySelector('#readout .path').textContent];
}"""


@pytest.mark.slow
def test_attention_frames_the_cell_that_it_explains(page: Page, studio: Served) -> None:
    text, other = "The dog does not sleep.", "The girl sings."
    model = tl.load("demo:translate")

    def check(text: str, kind: str, row: int | None = None) -> None:
        """row: the pinned one; without it, a weight is explained whose sum is not exp(0)."""
        point = f"{kind}.pattern"
        page.wait("at => document.querySelector('.sum')?.dataset.of?.startsWith(at)", point)
        weights = model.trace(text)[point][0, 0]
        place = first_weight(weights) if row is None else (row, int(weights[row].argmax()))
        cell = ", ".join(map(str, place))
        assert page.inner.evaluate(SUBJECTS) == [
            cell,
            f"{point}[0, 0, {cell}]",
            f"{point}[0, {cell}]",
        ]

    page.see(f"{studio.address}#/attention?text={text.replace(' ', '+')}&pin=tgt:2,src:4")
    check(text, "decoder.layers.1.cross_attention", 2)
    page.inner.click(".kinds button >> nth=0")
    check(text, "encoder.layers.1.self_attention", 4)
    page.inner.click(".kinds button >> nth=1")
    check(text, "decoder.layers.1.self_attention", 2)
    page.inner.click(".rewrite")
    page.inner.fill("#sentence input", other)
    page.changed(lambda: page.inner.press("#sentence input", "Enter"))
    page.inner.mouse.move(1, 1)
    check(other, "decoder.layers.1.self_attention")


@pytest.mark.slow
def test_rows_of_flow_name_what_they_read_and_write(page: Page, studio: Served) -> None:
    page.see(f"{studio.address}#/flow?text=The+dog+does+not+sleep.")
    rows = ["<s> → Der", "Der → Hund", "Hund → schläft", "schläft → nicht", "nicht → .",
            ". → </s>"]  # fmt: skip
    labels = page.words("#stage .panel .heat text")
    assert [label for label in labels if "→" in label] == rows
    # The first sum: a weight that is not the maximum of its row, so neither term is 1.
    found = re.search(r"= ([\d.]+) ÷ ([\d.]+)", page.text("#stage .panel .terms"))
    assert found is not None
    above, below = map(float, found.groups())
    assert above < 1 < below
    weights = tl.load("demo:translate").trace("The dog does not sleep.")[WEIGHTS][0, 0]
    others = weights.clone()
    others[torch.arange(len(weights)), weights.argmax(-1)] = 0
    assert above / below == pytest.approx(float(others.max()), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["flow", "attention", "whatif", "lesson", "data", "decode"])
def test_help_explains_the_view_and_then_the_keys(page: Page, studio: Served, view: str) -> None:
    page.see(f"{studio.address}#/{view}?text=The+dog+sleeps.")
    page.inner.keyboard.press("?")
    named = page.text(".views [aria-current]")
    assert page.text("dialog h2") == f"Help: {named}"
    terms = page.words("dialog .terms dt")
    assert terms
    assert all(page.words("dialog .terms dd"))
    order = page.inner.eval_on_selector_all(
        "dialog .helptext > *", "all => all.map(el => el.className || el.localName)"
    )
    assert order == ["p", "p", "terms", "h3", "keylist"]
    assert any(len(line) > 40 for line in page.words("dialog .helptext > p"))
    page.inner.keyboard.press("?")
    assert page.words("dialog") == []


@pytest.mark.slow
def test_help_is_within_reach_on_a_phone(page: Page, studio: Served) -> None:
    page.inner.set_viewport_size({"width": 360, "height": 740})
    page.see(f"{studio.address}#/attention?text=The+dog+sleeps.")
    box = page.inner.locator(".tools .keys").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 360
    page.inner.click(".tools .keys")
    assert page.text("dialog h2") == "Help: Attention"
    boxes = page.inner.eval_on_selector_all(
        "dialog .helptext > *", "all => all.map(el => el.getBoundingClientRect().right)"
    )
    assert max(boxes) <= 360


def test_each_term_is_defined_once() -> None:
    source = (STATIC / "js" / "glossary.js").read_text("utf-8")
    defined = re.findall(r"^  '?([\w</>]+)'?: '", source, re.MULTILINE)
    assert len(set(defined)) == len(defined) > 15
    used = set()
    for file in (STATIC / "js" / "views").glob("*.js"):
        for terms in re.findall(r"terms: \[([^\]]*)\]", file.read_text("utf-8")):
            used |= set(re.findall(r"'([^']+)'", terms))
    for file in STATIC.parent.joinpath("lessons").glob("*.py"):
        used |= set(re.findall(r"\(term:([^)]+)\)", file.read_text("utf-8")))
    assert used
    assert used <= set(defined)


@pytest.mark.slow
def test_a_term_is_defined_where_it_appears(own_page: Page, studio: Served) -> None:
    own_page.see(f"{studio.address}#/flow?text=The+dog+does+not+sleep.")
    shown = own_page.words("#stage .panel .term") + own_page.words("#readout .term")
    assert {"Decoder", "layer", "head", "queries", "keys", "</s>"} <= set(shown)
    # by keyboard
    own_page.inner.focus("#stage .panel .term >> nth=1")
    own_page.inner.keyboard.press("Enter")
    assert own_page.text(".definition").startswith("layer: one of several equal steps")
    own_page.inner.keyboard.press("Escape")
    own_page.wait("!document.querySelector('.definition')")
    # by touch; it lies within the window
    own_page.inner.dispatch_event("#readout .term", "click")
    assert own_page.text(".definition").startswith("</s>: the token for the end of the text")
    box = own_page.inner.locator(".definition").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 800
    own_page.inner.mouse.click(600, 120)
    own_page.wait("!document.querySelector('.definition')")
    # in the text of a lesson
    own_page.turn(f"{studio.address}#/lesson?lesson=attention.2")
    own_page.inner.click("#lesson .term >> text=head")
    assert own_page.text(".definition").startswith("head: ")


COVERED = """selector => {
  const { left, right, top, bottom } = document.querySelector(selector).getBoundingClientRect();
  const wrong = [];
  for (let x = left + 8; x < right; x += 16)
    for (let y = top + 4; y < bottom; y += 8) {
      const found = document.elementFromPoint(x, y);
      if (!found?.closest(selector)) wrong.push([x, y, found?.outerHTML.slice(0, 60)]);
    }
  return wrong;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080), (1280, 640)])
def test_nothing_covers_the_strip_of_a_lesson(
    page: Page, studio: Served, size: tuple[int, int]
) -> None:
    page.inner.set_viewport_size({"width": size[0], "height": size[1]})
    off = "off=decoder.layers.1.cross_attention"
    page.see(f"{studio.address}#/whatif?m=a&lesson=transformer.12&{off}")
    page.wait("document.querySelector('.ripplebox canvas') !== null")
    strip = page.inner.locator("#lesson").bounding_box()
    painted = page.inner.eval_on_selector_all(
        "#stage canvas", "all => all.map(el => el.getBoundingClientRect().bottom)"
    )
    assert strip is not None
    assert painted
    assert page.inner.evaluate(COVERED, "#lesson") == []
    reach = page.inner.evaluate(
        "() => { const box = document.querySelector('.wi > div:nth-child(2)');"
        " return [getComputedStyle(box).overflowY, box.getBoundingClientRect().bottom]; }"
    )
    assert reach[0] == "auto"
    assert reach[1] <= strip["y"]


@pytest.mark.slow
def test_read_it_is_readable_under_the_mouse(page: Page, studio: Served) -> None:
    for theme in ("light", "dark"):
        page.turn(f"{studio.address}#/lesson?theme={theme}")
        colours = []
        for away in (True, False):
            page.inner.mouse.move(1, 1)
            if not away:
                page.inner.hover("#sentence .read")
            colours.append(page.inner.eval_on_selector(
                "#sentence .read",
                "el => [getComputedStyle(el).color, getComputedStyle(el).backgroundColor]",
            ))  # fmt: skip
        assert colours[0] == colours[1], theme


@pytest.mark.slow
def test_the_result_of_the_first_sum_is_above_the_link_below_it(page: Page, studio: Served) -> None:
    page.see(f"{studio.address}#/flow?text=The+dog+does+not+sleep.")
    result, link = (page.inner.locator(f"#stage .panel {each}").last.bounding_box()
                    for each in (".total", ".onward"))  # fmt: skip
    assert result is not None
    assert link is not None
    assert result["y"] + result["height"] <= link["y"] + 1


@pytest.mark.slow
def test_what_if_names_its_button_as_labelled(page: Page, studio: Served) -> None:
    page.see(f"{studio.address}#/whatif?m=c&text=0.5+1+-2")
    assert "Δ beside a part" in page.text("#stage aside")
    page.wait("document.querySelector('.measure .edit').textContent === 'All measured'")
    assert "Measure all" not in page.text("#stage")
