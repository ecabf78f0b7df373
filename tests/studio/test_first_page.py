"""The first page: help with typing a sentence, what is above the fold, what is shown while it
loads, and how one station leads to the next."""

import math
import re
import threading
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.browser import Page
from tests.studio.lesson_sources import sentences
from tests.studio.serving import Answer, Served, model, serving
from tests.tiny.dealt import dealt

import translucid as tl
from translucid.core.cancellation import CANCELLED, Cancelled
from translucid.data import shipped_models
from translucid.studio.handlers import Handlers
from translucid.studio.input_words import (
    another_text,
    known_texts,
    unknown_places,
    vocabulary,
)
from translucid.studio.lessons import OPENING, STATIONS, TOURS
from translucid.studio.library import Library
from translucid.studio.page_model import describe_model, examples
from translucid.studio.server.app import STATIC
from translucid.studio.text_runs import Selection

TEXTS = (
    "I am happy.", "The dog sleeps .", "(The dog sleeps.)", "The dog sleeps", "the cät runs!",
    "My freind sings a songg.", "😀 happily 😀 ever (The after", "", "  ",
)  # fmt: skip
READERS = ("demo:translate", "demo:classify", "demo:tag", "demo:generate")


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({name: tl.load(name) for name in (*READERS, "demo:perceptron")})


# ---- help with typing ----


@pytest.mark.parametrize("name", READERS)
def test_unknown_places_are_the_unknown_words_of_the_task(library: Library, name: str) -> None:
    opened = next(one for one in library.opened.values() if one.name == name)
    for text in TEXTS:
        places = [
            text[first:last].strip() for first, last in unknown_places(opened.model.task, text)
        ]
        assert places == opened.model.task.unknown_in(text), text


def test_words_come_from_the_vocabulary_if_the_data_is_not_at_hand() -> None:
    alone = Library({"small": model("translate-transformer")}).opened["a"]
    alone.model.facts["step"] = 1  # trained, on data that is not here
    tokens = next(iter(alone.model.task.vocabularies.values())).vocab
    assert known_texts(alone) == []
    words = vocabulary(alone.model.task)
    assert words
    assert all(word in tokens or f"▁{word}" in tokens for word in words)


def test_another_text_has_no_unknown_words(library: Library) -> None:
    for opened in library.opened.values():
        texts = [another_text(opened, number) for number in range(20)]
        assert len(set(texts)) > 3
        count = len(known_texts(opened))
        assert another_text(opened, count + 3) == texts[3]
        for text in texts if opened.model.task.vocabularies else ():
            assert opened.model.task.unknown_in(text) == []


def test_a_language_model_opens_on_an_unfinished_text(library: Library) -> None:
    for opened in library.opened.values():
        shown, whole = describe_model(opened)["examples"], examples(opened)
        if opened.name != "demo:generate":
            assert shown == whole
            continue
        for text, full in zip(shown, whole, strict=True):
            assert full.startswith(text)
            assert len(text) < len(full)
            assert text[-1].isalpha()
            assert full[len(text)] == " "  # no half word


# ---- over HTTP ----


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({name: tl.load(name) for name in shipped_models.names()}) as served:
        yield served


def test_the_page_asks_for_words_and_for_another_text(studio: Served) -> None:
    assert studio.get("/api/model/a/words").json["texts"]
    assert studio.get("/api/model/a/text?number=7").json["text"]
    assert studio.get("/api/model/a/text?number=x").status == 422
    assert studio.get("/api/model/z/words").status == 422

    def unknown(**body: Any) -> Answer:
        return studio.post("/api/model/a/unknown", body)

    assert unknown(texts=["I am happy.", "😀 ?"]).json == [[[4, 10]], [[0, 2]]]
    for wrong in ({}, {"texts": []}, {"texts": "a"}, {"texts": [1]}, {"texts": ["a"] * 33},
                  {"texts": ["a" * 20_001]}, {"texts": ["a"], "more": 1}):  # fmt: skip
        assert unknown(**wrong).status == 422, wrong


def helped(page: Page, studio: Served, m: str, text: str, caret: int) -> Any:
    """What the page offers for a text, with the positions in UTF-16 units."""
    if not page.inner.url.startswith(studio.address):
        page.inner.goto(studio.address)
    return page.inner.evaluate(
        "async given => (await import('/static/js/api.js')).inputHelp(...given)", [m, text, caret]
    )


@pytest.mark.parametrize("name", READERS)
def test_each_replacement_removes_an_unknown_word(
    leaf: Page, studio: Served, library: Library, name: str
) -> None:
    opened = next(one for one in library.opened.values() if one.name == name)
    m = "abcdefgh"[shipped_models.names().index(name)]
    tried = 0
    for text in TEXTS:
        units = text.encode("utf-16-le")  # as JavaScript counts
        for found in helped(leaf, studio, m, text, 0)["unknown"]:
            begin, end = 2 * found["from"], 2 * found["to"]
            assert units[begin:end].decode("utf-16-le").strip() == found["text"]
            assert found["replacements"]
            for new in found["replacements"]:
                other = (units[:begin] + new.encode("utf-16-le") + units[end:]).decode("utf-16-le")
                before, after = (len(opened.model.task.unknown_in(one)) for one in (text, other))
                assert after < before, (text, other)
                tried += 1
    assert tried > 10


def test_completions_are_known_words_that_begin_as_typed(
    leaf: Page, studio: Served, library: Library
) -> None:
    found = helped(leaf, studio, "a", "The doct sleeps.", len("The doct"))
    assert found["begun"] == "doct"
    assert found["completions"] == ["doctor", "doctors"]
    for word in found["completions"]:
        assert library.opened["a"].model.task.unknown_in(f"The {word} sleeps.") == []
    assert helped(leaf, studio, "a", "The ", 4)["completions"] == []
    assert helped(leaf, studio, "a", "😀 doct", 7)["completions"] == ["doctor", "doctors"]
    none = {"begun": "", "completions": [], "unknown": []}
    assert helped(leaf, studio, "h", "1 1", 3) == none


def test_similar_words_are_those_of_difflib(leaf: Page, studio: Served, library: Library) -> None:
    words = vocabulary(library.opened["a"].model.task)
    tried = ["freind", "songg", "cät", "sleps", "Chlidren", "oldd", "x", "ö" * 40, "beautifull"]
    expected = [get_close_matches(piece, words, 4, 0.65) for piece in tried]
    helped(leaf, studio, "a", "The", 0)
    found = leaf.inner.evaluate(
        "async ([tried, words]) => { const { alike } = await import('/static/js/words.js');"
        " return tried.map(piece => alike(piece, words)); }",
        [tried, words],
    )
    assert found == expected
    assert sum(map(len, expected)) > 9


@pytest.mark.parametrize("path", ["/", "/open/an-old-token"])
def test_a_restarted_server_answers_a_reload_with_a_page(studio: Served, path: str) -> None:
    old = {"cookie": f"translucid-{studio.port}=old", "origin": None, "content-type": None}
    answer = studio.ask("GET", path, {**old, "accept": "text/html,*/*;q=0.8"})
    assert answer.status == 403
    assert answer.header("content-type") == ["text/html"]
    assert b"translucid explore" in answer.body
    assert b"restarted" in answer.body
    assert studio.ask("GET", "/api/models", {**old, "accept": "*/*"}).json["error"]
    assert answer.header("content-security-policy")


# ---- in a browser ----


@pytest.mark.slow
def test_the_first_page_fits_above_the_fold(leaf: Page, studio: Served) -> None:
    leaf.turn(f"{studio.address}#/lesson")
    foot = leaf.inner.locator("footer").bounding_box()
    assert foot is not None
    boxes = leaf.inner.eval_on_selector_all(
        ".station", "all => all.map(el => el.getBoundingClientRect().bottom)"
    )
    assert len(boxes) == 7
    assert max(boxes) <= foot["y"]
    assert "every number" in leaf.text(".sentence .intro")
    picture = leaf.inner.locator(".looks svg").bounding_box()
    assert picture is not None
    assert picture["width"] >= 500
    assert picture["height"] >= 300


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    "The dog does not sleep.",
    "The brothers never despised the coffee because it was not terrible.",  # a score of 21
])  # fmt: skip
def test_the_first_sum_is_a_softmax_that_comes_out(leaf: Page, studio: Served, text: str) -> None:
    leaf.turn(f"{studio.address}#/lesson?text={quote(text)}")
    line = leaf.text(".opening-cell .sum")
    powers = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    plain = re.sub(r" × 10([⁻⁰-⁹¹²³]+)", lambda n: "e" + n[1].translate(powers), line)
    found = re.fullmatch(r"exp\(([\d.]+)\) ÷ (\S+) = (\S+) ÷ (\S+) = ([\d.]+)", plain)
    assert found is not None, line
    score, total, power, again, weight = map(float, found.groups())
    assert score > 0
    assert total == again
    assert power == pytest.approx(math.exp(score), rel=2e-3)
    assert weight == pytest.approx(power / total, abs=2e-3)


MARKED = "all => all.map(el => el.textContent)"


@pytest.mark.slow
def test_an_unknown_word_is_marked_while_it_is_typed(leaf: Page, studio: Served) -> None:
    leaf.turn(f"{studio.address}#/lesson")
    field = leaf.inner.locator("#sentence input")
    field.fill("I am happy.")
    leaf.wait("document.querySelector('#sentence .marks u')?.textContent === 'happy'")
    assert "“happy” is unknown" in leaf.text("#sentence .hints")
    shown = leaf.words("#sentence .hints .chip")[0]
    leaf.inner.click("#sentence .hints .chip >> nth=0")
    leaf.wait("!document.querySelector('#sentence .marks u')")
    assert field.input_value() == f"I am {shown}."
    # The mark is where the field shows the word.
    assert leaf.text("#sentence .marks") == field.input_value()
    styles = leaf.inner.evaluate(
        "() => ['input', '.marks'].map(name => { const s = getComputedStyle("
        "document.querySelector(`#sentence ${name}`)); return [s.font, s.paddingLeft]; })"
    )
    assert styles[0] == styles[1]
    # A word that is not finished is completed instead.
    field.fill("")
    field.type("The doct")
    leaf.wait("document.querySelector('#sentence .hints > .chip')?.textContent === 'doctor'")
    assert leaf.words("#sentence .marks u") == []
    leaf.inner.click("#sentence .hints > .chip >> nth=0")
    assert field.input_value() == "The doctor"
    field.type(" sleeps.")
    leaf.changed(lambda: field.press("Enter"))
    assert leaf.words(".looks text")[:2] == ["The", "doctor"]


@pytest.mark.slow
def test_the_dice_shows_another_sentence_that_the_model_knows(leaf: Page, studio: Served) -> None:
    seen = set()
    leaf.turn(f"{studio.address}#/lesson")
    for _ in range(3):
        leaf.changed(lambda: leaf.inner.click("#sentence .dice"))
        seen.add(leaf.inner.input_value("#sentence input"))
        assert leaf.words("#sentence .marks u") == []
    assert len(seen) > 1


@pytest.mark.slow
def test_edit_in_another_view_has_the_same_help(leaf: Page, studio: Served) -> None:
    leaf.turn(f"{studio.address}#/flow?text=I+am+happy.")
    before = leaf.inner.locator("#stage").bounding_box()
    leaf.inner.keyboard.press("/")
    leaf.wait("document.querySelector('#sentence .marks u')?.textContent === 'happy'")
    assert leaf.inner.locator("#stage").bounding_box() == before  # nothing moves
    leaf.inner.keyboard.press("Escape")
    leaf.wait("document.querySelector('#sentence .token')")


@pytest.mark.slow
def test_the_page_is_painted_before_any_other_file_arrives(own_page: Page, studio: Served) -> None:
    held: list[Any] = []
    over = threading.Event()
    at_once = own_page.inner.at_once  # the page is not at rest
    at_once.route("**/static/**", lambda asked: (
        asked.continue_() if over.is_set() else held.append(asked)))  # fmt: skip
    at_once.goto(f"{studio.address}#/lesson", wait_until="commit")
    at_once.wait_for_selector(".intro")
    own_page.wait("() => performance.getEntriesByType('paint').length > 0")
    assert "/open/" not in at_once.url  # the token has left the address
    assert at_once.inner_text("#stage").strip() == "Opening the model …"
    bar = at_once.evaluate("getComputedStyle(document.querySelector('.bar')).display")
    assert bar == "flex"  # with its styles
    over.set()
    for asked in held:
        asked.continue_()
    assert own_page.ready().startswith("lesson ")


@pytest.mark.slow
def test_the_logo_leads_to_the_first_page(leaf: Page, studio: Served) -> None:
    leaf.turn(f"{studio.address}#/attention?text=The+dog+sleeps.")
    leaf.changed(lambda: leaf.inner.click("a.mark"))
    assert leaf.drawn().startswith("lesson ")
    assert len(leaf.words(".station")) == 7


# ---- from station to station ----

# On a phone the page scrolls to what a stop highlights, so places count from the strip.
PLACE = """() => {
    const strip = document.querySelector('#lesson').getBoundingClientRect();
    const next = document.querySelector('#lesson .onward').getBoundingClientRect();
    const window = innerWidth > 860 ? strip.y : 0;
    return [window, strip.height, next.x, next.y - strip.y, next.width].map(Math.round);
}"""


@pytest.mark.slow
@pytest.mark.parametrize(("size", "key"), dealt([(1280, 800), (360, 740)], STATIONS, share=2))
def test_next_stays_where_it_is_and_the_strip_keeps_its_height(
    leaf: Page, studio: Served, size: tuple[int, int], key: str
) -> None:
    leaf.inner.set_viewport_size({"width": size[0], "height": size[1]})
    places = set()
    for number in range(1, len(STATIONS[key].stops) + 1):
        leaf.turn(f"{studio.address}#/lesson?lesson={key}.{number}")
        places.add(tuple(leaf.inner.evaluate(PLACE)))
    assert len(places) == 1


@pytest.mark.slow
def test_a_finished_station_leads_to_the_next_and_is_remembered(
    own_page: Page, studio: Served
) -> None:
    last = len(STATIONS["rnn"].stops)
    own_page.see(f"{studio.address}#/lesson?lesson=rnn.{last}")
    assert own_page.text("#lesson .onward") == "Next station"
    own_page.changed(lambda: own_page.inner.click("#lesson .onward"))
    assert own_page.words("#lesson .stop a") == [STATIONS["lstm"].stops[0].title]
    assert "m=d" in own_page.inner.url  # with its own model
    own_page.see(f"{studio.address}#/lesson")  # loaded anew
    marks = own_page.inner.eval_on_selector_all(
        ".station", "all => all.map(el => el.ariaLabel.endsWith(', finished'))"
    )
    assert marks == [key == "rnn" for key in STATIONS]
    end = len(STATIONS["transformer"].stops)
    own_page.turn(f"{studio.address}#/lesson?lesson=transformer.{end}")
    assert own_page.text("#lesson .onward") == "Finish"
    own_page.changed(lambda: own_page.inner.click("#lesson .onward"))
    assert own_page.drawn().startswith("lesson ")


def test_no_text_asks_for_what_a_touch_screen_lacks() -> None:
    absent = re.compile(r"\b([Mm]ov\w+|[Hh]over\w*) (the pointer )?over\b|\bPoint at\b|\bmouse\b")
    for key in STATIONS | TOURS | OPENING:
        assert [each.text for each in sentences(key) if absent.search(each.text)] == []
    for file in (STATIC / "js").rglob("*.js"):
        strings = re.findall(r"'[^'\n]*'|`[^`]*`", re.sub(r"//.*", "", file.read_text("utf-8")))
        assert [each for each in strings if absent.search(each)] == [], file.name


# ---- before the first click ----


@pytest.mark.slow
def test_what_if_and_data_show_something_before_the_first_click(
    leaf: Page, studio: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translucid.studio.surveys.TEXTS", 10)
    leaf.turn(f"{studio.address}#/whatif?m=d")
    leaf.wait("() => document.querySelector('.measure .edit').textContent === 'All measured'")
    leaf.wait("() => document.querySelectorAll('aside .labels button').length > 3")
    largest = leaf.words("aside .labels button")[0]
    leaf.inner.click("aside .labels button >> nth=0")
    leaf.wait("() => location.hash.includes('off=')")
    assert largest.startswith(leaf.words(".changes .name, .changes li")[0].split(":")[0][:8])
    leaf.turn(f"{studio.address}#/data?m=d")
    leaf.wait("() => document.querySelectorAll('.hardest li').length === 10")
    leaf.wait("() => document.querySelectorAll('.extremes li').length === 10")


# ---- a text that takes long ----


def test_a_cancelled_run_stops_and_can_be_run_again(library: Library) -> None:
    cancelled = threading.Event()
    cancelled.set()
    at = CANCELLED.set(cancelled)
    try:
        with pytest.raises(Cancelled):
            library.run("a", "The cat sleeps.")
    finally:
        CANCELLED.reset(at)
    run = library.run("a", "The cat sleeps.")
    assert run.shapes == library.run("a", "The dog sleeps.").shapes


@pytest.mark.parametrize("asked", ["decode?beam_size=4", "draws?samples=2"])
def test_a_search_stops_when_the_page_is_gone(library: Library, asked: str) -> None:
    handlers = Handlers(library)
    run = library.run("a", "The doctor sleeps.")
    cancelled = threading.Event()
    cancelled.set()
    at = CANCELLED.set(cancelled)
    try:
        with pytest.raises(Cancelled):
            handlers.ask("GET", f"/api/runs/{run.key}/{asked}")
    finally:
        CANCELLED.reset(at)
    assert handlers.ask("GET", f"/api/runs/{run.key}/{asked}").status == 200


@pytest.mark.slow
def test_a_view_that_takes_long_shows_its_time_and_can_be_cancelled(
    leaf: Page, studio: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf.turn(f"{studio.address}#/flow?text=The+dog+sleeps.")
    ended = threading.Event()

    def slow(self: Handlers, asked: Any) -> Any:
        cancelled = CANCELLED.get()
        assert cancelled is not None
        assert cancelled.wait(300)
        ended.set()
        raise Cancelled

    monkeypatch.setattr(Handlers, "decode", slow)
    leaf.inner.at_once.evaluate("() => { location.hash = '#/decode?text=The+dog+sleeps.'; }")
    leaf.inner.at_once.wait_for_selector(".waiting button")
    shown = leaf.inner.at_once.inner_text(".waiting")
    assert re.fullmatch(r"Searching for the best text …\s*\d+ s\s*Cancel", shown)
    leaf.inner.at_once.click(".waiting button")
    assert ended.wait(300)
    monkeypatch.undo()
    leaf.wait("() => document.querySelector('.told')?.textContent.includes('cancelled')")
    assert leaf.words(".waiting") == []
    leaf.changed(lambda: leaf.inner.click(".told >> text=Try again"))
    assert leaf.drawn().startswith("decode ")


@pytest.mark.slow
def test_a_long_computation_can_be_cancelled_on_the_page(
    leaf: Page, studio: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf.turn(f"{studio.address}#/flow?text=The+dog+sleeps.")
    keeps, ended = Selection.keeps, threading.Event()

    def slow(self: Selection, *given: Any) -> None:
        cancelled = CANCELLED.get()
        assert cancelled is not None
        assert cancelled.wait(300)  # until the page has disconnected
        ended.set()
        keeps(self, *given)

    monkeypatch.setattr(Selection, "keeps", slow)
    leaf.inner.at_once.evaluate("() => { location.hash = '#/flow?text=The+cat+sleeps.'; }")
    leaf.inner.at_once.click(".waiting button")
    assert ended.wait(300)
    monkeypatch.undo()
    leaf.wait("() => document.querySelector('.told')?.textContent.includes('cancelled')")
    assert leaf.words(".waiting") == []
    assert leaf.words("#sentence .word")[:2] == ["The", "dog"]
    leaf.changed(lambda: leaf.inner.click(".told >> text=Try again"))
    assert leaf.words("#sentence .word")[:2] == ["The", "cat"]
