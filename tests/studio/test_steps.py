"""The likeliest tokens of all steps come with one request, from the server and from a file."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.studio.browser import PATIENCE, Page
from tests.studio.serving import TEXT, Served, model, serving
from tests.tiny.dealt import chosen

FAMILIES = ("translate-transformer", "language-transformer", "tag-lstm", "translate-lstm")
WRITERS = [family for family in FAMILIES if family != "tag-lstm"]
# What a saved session answers: questions on the left, the recorded answers on the right.
ASKED = """async ([path, answers]) => {
    const { recorded } = await import('/static/js/recorded.js');
    const { status, bytes } = await recorded({ answers, points: {} })('GET', path, '');
    return [status, JSON.parse(bytes)];
}"""


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({family: model(family) for family in FAMILIES}) as found:
        yield found


def address(studio: Served, family: str, view: str, **more: str) -> str:
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    given = "".join(f"&{name}={quote(value)}" for name, value in more.items())
    return f"{studio.address}#/{view}?m={m}&text={quote(TEXT)}{given}"


def steps_asked(page: Page) -> list[str]:
    found: list[str] = []
    page.inner.on(
        "response", lambda answer: found.append(answer.url) if "/steps?" in answer.url else None
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", chosen(FAMILIES, "translate-lstm"))
def test_flow_asks_once_for_all_steps(studio: Served, page: Page, family: str) -> None:
    asked = steps_asked(page)
    page.see(address(studio, family, "flow", at="head.logits"))  # the inspector shows them, too
    assert len(page.words("#stage .panel .probrow")) >= 3
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("family", chosen(WRITERS, "translate-lstm"))
def test_decode_asks_once_for_all_steps_of_the_winner(
    studio: Served, page: Page, family: str
) -> None:
    asked = steps_asked(page)
    page.see(address(studio, family, "decode", step="1"))
    seen = "() => document.querySelector('#stage .panel .kicker').textContent.startsWith('Step %d')"
    for n in range(1, 5):
        page.inner.wait_for_function(seen % n, timeout=PATIENCE)
        page.inner.keyboard.press("ArrowRight")
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("family", chosen(FAMILIES, "translate-lstm"))
def test_a_file_cuts_out_of_recorded_steps_what_the_server_sends(
    studio: Served, leaf: Page, family: str
) -> None:
    leaf.turn(address(studio, family, "flow"))
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    run = studio.run(m, TEXT)["run"]
    for along in ("", "&tokens=7.5.6") if family in WRITERS else ("",):
        at = f"/api/runs/{run}/steps"
        whole = studio.get(f"{at}?k=7{along}")
        kept = ["GET", f"{at}?k=7{along}", "", 200, "application/json", whole.body.decode()]
        for more in ("k=3", "k=1&positions=1:3", "k=7&positions=3:4", "k=7"):
            status, found = leaf.inner.evaluate(ASKED, [f"{at}?{more}{along}", [kept]])
            assert status == 200
            wanted = studio.get(f"{at}?{more}{along}").json
            rests, true = ([each.pop("rest") for each in one["steps"]] for one in (found, wanted))
            assert found == wanted
            assert rests == pytest.approx(true, abs=1e-6)
        unknown = ["k=3&positions=90:91", "k=3&tokens=9"]
        unknown += ["k=8"] if whole.json["steps"][0]["others"] else []  # of tags there are no more
        for more in unknown:
            assert leaf.inner.evaluate(ASKED, [f"{at}?{more}", [kept]])[0] == 404
