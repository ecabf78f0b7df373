"""What stopped somebody who had never seen the page: a panel that jumped, a click that was lost, a
row that was a riddle, a card that spoke of another sentence, numbers that did not agree."""

import operator
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.in_process import run as command
from tests.studio.browser import Page
from tests.studio.serving import Served, serving

import translucid as tl
from translucid.studio import lesson_answers
from translucid.studio.lesson import SentenceLacks
from translucid.studio.lesson_point import STRONG, TracePoint
from translucid.studio.library import Library
from translucid.studio.text_runs import Run
from translucid.tasks.words import Words

TEXT = "The dog does not sleep."
WORDS = Words(source=("the", "dog", "sleeps", "."), target=("<s>", "der", "hund", "."),
              follows=("der", "hund", ".", "</s>"))  # fmt: skip
ELSEWHERE = "The lamp does not stand on the table."  # its nicht attends elsewhere


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({"demo:translate": tl.load("demo:translate")})


def card(run: Run) -> tuple[str, list[int], float]:
    """What the first page says of a sentence, and the cell that it shows."""
    (stop,) = lesson_answers.on_run(run, "opening")["steps"]
    weight = next(piece for piece in stop["say"] if "value" in piece)
    said = "".join(str(piece.get("text", piece.get("word", ""))) for piece in stop["say"])
    return said, weight["index"], weight["value"]


CROSS = "decoder.layers.1.cross_attention.pattern"


def strongest_link(run: Any) -> tuple[int, ...] | None:
    try:
        return tuple(map(operator.index, TracePoint(run, CROSS).strongest_link()))
    except SentenceLacks:
        return None


class MadeUpRun(dict[str, torch.Tensor]):
    """One point, and the words along it."""

    def __init__(self, pattern: torch.Tensor) -> None:
        super().__init__({CROSS: pattern[None]})
        self.shapes, self.example = {CROSS: (1, *pattern.shape)}, SimpleNamespace(words=WORDS)


@pytest.mark.parametrize("seed", range(8))
def test_the_strongest_link_is_between_words_at_different_places(seed: int) -> None:
    pattern = torch.rand(2, 4, 4, generator=torch.Generator().manual_seed(seed)) ** 3
    links = {
        (head, row, column): float(pattern[head, row, column])
        for head in range(2) for row in (0, 1) for column in (0, 1, 2)
        if row != column and pattern[:, row, column].mean() == pattern[:, row].mean(0).max()
    }  # fmt: skip
    strongest = max(links, key=lambda link: links[link], default=None)
    wanted = strongest if strongest and links[strongest] >= STRONG else None
    assert strongest_link(MadeUpRun(pattern)) == wanted


def test_the_card_is_about_the_sentence_that_is_open(library: Library) -> None:
    said, (head, row, column), weight = card(library.run("a", TEXT))
    words = library.run("a", TEXT).example.words
    assert (words.follows[row], words.source[column]) == ("nicht", "not")
    assert "To write nicht" in said
    assert "of its attention goes to not" in said
    assert f"decoder layer 1, head {head}; the mean" in said
    assert weight >= STRONG
    run = library.run("a", ELSEWHERE)
    pattern = run["decoder.layers.1.cross_attention.pattern"][0]
    _, cell, weight = card(run)
    assert cell == list(strongest_link(run) or ())
    assert cell[1] != cell[2]
    assert weight == pytest.approx(float(pattern[tuple(cell)]))
    assert "agree on no strong link" in card(library.run("a", "The dog sleeps."))[0]


def test_the_readme_the_card_and_explain_speak_of_one_number(library: Library) -> None:
    run = library.run("a", TEXT)
    _, (head, row, column), weight = card(run)
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert f"attention[0, {head}, {row}, {column}]" in readme
    written = (
        f"While the decoder writes 'nicht', head {head} attends to 'not' with weight {weight:.3f}"
    )
    assert written in readme
    mean = float(run["decoder.layers.1.cross_attention.pattern"][0, :, row, column].mean())
    walked = command("explain", "demo:translate", TEXT).stdout
    layer = walked.partition("decoder layer 1: cross-attention")[2].partition("\n17 ")[0]
    assert f"nicht ← not {mean:.2f}" in layer
    assert "means of 4 heads" in " ".join(layer.split())


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({name: tl.load(name) for name in ("demo:translate", "demo:perceptron")}) as served:
        yield served


@pytest.mark.slow
def test_a_panel_does_not_change_while_the_pointer_moves_to_it(page: Page, studio: Served) -> None:
    at = "attention?kind=cross&layer=1&head=2&text=The+dog+does+not+sleep."
    page.see(f"{studio.address}#/{at}")
    box = page.inner.locator(".matrix rect.hit").bounding_box()
    assert box is not None

    def place(row: int, column: int) -> tuple[float, float]:
        return (box["x"] + box["width"] * (column + 0.5) / 7,
                box["y"] + box["height"] * (row + 0.5) / 6)  # fmt: skip

    page.inner.mouse.click(*place(3, 3))
    page.wait("document.querySelector('.sum .whose')?.textContent.includes('not')")
    said = "the row that reads schläft and writes nicht attends to not"
    assert page.words(".sum .whose") == [said]
    # On the way to the panel the pointer passes other cells; the number that is pressed stays.
    page.inner.evaluate("window.kept = document.querySelector('.sum button.number')")
    page.inner.mouse.move(*place(2, 6), steps=4)
    page.inner.hover(".sum button.number")
    page.inner.mouse.down()
    assert page.inner.evaluate("window.kept.isConnected")
    page.inner.mouse.up()
    page.wait("location.hash.includes('walk=')")
    # A second click on the cell changes nothing; what is let go of does not jump either.
    page.inner.mouse.click(*place(3, 3))
    assert "pin=tgt:3,src:3" in page.inner.url
    page.inner.click(".unpin")
    assert "pin=" not in page.inner.url
    assert not page.inner.locator(".unpin").is_visible()
    assert page.words(".sum .whose")[:1] == [said]
    # Further down, what leads on comes before masks and scales.
    for point in ("masked", "scaled", "scores", "query"):
        first = page.inner.locator(".sum button.number").first
        assert re.search(rf"\.{point}\[", first.get_attribute("data-to") or "")
        first.click()
        page.wait("point => document.querySelector('.crumbs [aria-current]')"
                  "?.textContent.startsWith(point)", point)  # fmt: skip


# What was on the page when a frame was painted: the first card, and beside it that it is computed.
OVERLAID = """() => {
    const look = () => {
        if (document.querySelector('.computing') && document.querySelector('.start'))
            window.overlaid = true;
        requestAnimationFrame(look);
    };
    look();
}"""


@pytest.mark.slow
def test_nothing_lies_on_the_first_card_while_the_rest_is_computed(
    page: Page, studio: Served
) -> None:
    page.see(f"{studio.address}#/attention?text={quote(TEXT)}")
    held: list[Any] = []
    others = re.compile(r"/lesson/(?!opening)")
    page.inner.evaluate(OVERLAID)
    page.inner.route(others, lambda asked: held.append(asked))  # a slow machine
    try:
        with page.inner.expect_request(others):
            page.inner.at_once.evaluate("() => { location.hash = '#/lesson'; }")
        page.inner.wait_for_selector(".computing", state="attached")
        page.inner.wait_for_timeout(300)
    finally:
        for asked in held:
            asked.continue_()
        page.inner.unroute(others)
    assert held
    page.inner.wait_for_selector(".start")
    page.inner.wait_for_selector(".computing", state="detached")
    assert not page.inner.evaluate("() => window.overlaid")


@pytest.mark.slow
def test_a_comparison_that_fails_is_not_shown_as_if_it_held(page: Page, studio: Served) -> None:
    for text, said in (
        ("0+1", r"−[\d.]+ is not above 0, so 0"),
        ("1+1", r"[\d.]+ is above 0, so 1"),
    ):
        page.see(f"{studio.address}#/flow?m=b&text={text}&at=perceptron.output")
        (line,) = page.words(".terms .numbersin")
        assert re.fullmatch(said, line)
    assert sorted(page.words("#stage .panelabel")) == ["output", "sum"]
    assert len(page.words("#stage .edge")) == 2  # the weights
    assert len(page.words("#stage .wire")) == 1  # the sum that is compared


LONG = (
    "The+teacher+does+not+see+the+old+doctor+because+the+book+that+the+children+read+is+not+boring."
)
FITS = """(() => {
  const box = document.querySelector('.tree');
  return box.scrollWidth - box.clientWidth;
})()"""


@pytest.mark.slow
def test_a_long_tree_fits_the_window_and_counts_hidden_steps(page: Page, studio: Served) -> None:
    for width in (360, 1280):
        page.inner.set_viewport_size({"width": width, "height": 740})
        page.see(f"{studio.address}#/decode?text={LONG}&step=9")
        assert page.inner.evaluate(FITS) <= 0
        (said,) = page.words(".folds > span")
        shown, steps = map(int, re.findall(r"\d+", said))
        folded = [int(text.split()[0]) for text in page.words(".folds .fold")]
        assert shown + sum(folded) == steps
        written = page.words(".treebox > svg > text.num")
        assert [int(number) for number in written] == [*range(folded[0] + 1, folded[0] + shown + 1)]
        page.inner.click(".folds .fold >> nth=0")
        page.wait("step => location.hash.includes(`step=${step}`)", folded[0])
        assert str(folded[0]) in page.words(".treebox > svg > text.num")
        assert page.inner.evaluate(FITS) <= 0


@pytest.mark.slow
def test_a_list_of_changes_keeps_its_name_in_the_link_and_in_python(
    page: Page, studio: Served
) -> None:
    off = "decoder.layers.1.cross_attention.head.2"
    page.see(f"{studio.address}#/whatif?text=The+dog+does+not+sleep.&off={off}")
    page.inner.fill(".named-changes", "Without head 2")
    page.wait("location.hash.includes('named=Without+head+2')")
    page.see(page.inner.url)
    assert page.inner.input_value(".named-changes") == "Without head 2"
    script = page.inner.get_attribute(".changes .python", "title") or ""
    assert script.startswith("# Without head 2\n")
    names: dict[str, Any] = {"model": tl.load("demo:translate")}
    exec(script, names)  # as it is copied
    assert float(names["trace"]["decoder.layers.1.cross_attention.mixed"][0, 2].abs().max()) == 0
    # Where numbers are read, nothing speaks of words.
    page.turn(f"{studio.address}#/whatif?m=b&text=0+1")
    assert "number" in page.words(".wi h3:has(+ .swaps)")[0]


@pytest.mark.slow
def test_saliency_is_shown_under_the_input_words(
    page: Page, studio: Served, library: Library
) -> None:
    row = 3  # that writes nicht
    page.see(f"{studio.address}#/flow?text=The+dog+does+not+sleep.&pin=tgt:{row}")
    assert page.words("#sentence .counted") == []
    page.inner.click("#sentence .salience")
    page.wait("document.querySelector('#sentence .counted')")
    assert page.text("#sentence .salience") == "Saliency for nicht"
    under = page.inner.eval_on_selector_all(
        "#sentence .token:has(.counted[data-value])",
        "all => all.map(el => [el.querySelector('.word').textContent,"
        " Number(el.querySelector('.counted').dataset.value)])",
    )
    run = library.run("a", TEXT)
    read = tl.load("demo:translate").saliency(TEXT, of=row)
    words = [*run.example.words.source, *run.example.words.target]
    counted = dict(zip(words, map(float, read.values), strict=False))  # no word stands twice
    assert [word for word, _ in under] == [*words[:6], "Der", "Hund", "schläft"]
    for word, value in under:
        assert value == pytest.approx(counted[word], abs=1e-5)
    page.inner.click("#sentence .token:has-text('Der')")  # the bars go with the pin
    page.wait("document.querySelector('#sentence .salience').textContent.endsWith('Der')")
    page.inner.click("#sentence .salience")
    assert page.words("#sentence .counted") == []
