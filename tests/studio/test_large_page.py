"""The page of long texts and large models: what takes long comes in parts, and what is left out is
said."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.browser import Page
from tests.studio.serving import TEXT, Served, model, serving

from translucid.data.features import Columns
from translucid.model import Model
from translucid.models import MLPConfig, build
from translucid.studio import text_runs
from translucid.tasks.model_folder import Bundle

pytestmark = pytest.mark.slow

LONG = " ".join([TEXT] * 5)
OUTPUTS = 40  # values of an answer, of which 32 are shown at first


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    made = {"language": model("language-transformer", layers=3)}
    for name in ("one", "two"):
        network = build(MLPConfig(inputs=3, outputs=OUTPUTS, hidden=(4,))).eval()
        statistics = {"columns": Columns.numbers(["x1", "x2", "x3"]).as_json()}
        made[name] = Model(Bundle(network, "regress", statistics=statistics))
    with serving(made) as served:
        yield served


def address(studio: Served, view: str, text: str, m: str = "a") -> str:
    return f"{studio.address}#/{view}?m={m}&text={quote(text)}"


def asked(page: Page, what: str) -> list[str]:
    found: list[str] = []
    page.inner.on("request", lambda one: found.append(one.url) if what in one.url else None)
    return found


def test_layers_of_a_long_text_come_one_by_one(
    studio: Served, page: Page, monkeypatch: Any
) -> None:
    monkeypatch.setattr(text_runs, "BUDGET", 12_000)
    heads = asked(page, "/heads?")
    page.see(address(studio, "attention", LONG))
    page.wait("document.querySelector('.gridname .of').textContent === ''")
    order = [re.search("layers=(.*)%3A", one)[1] for one in heads]  # type: ignore[index]
    assert order == ["2", "1", "0"]  # that which is looked at first
    held = studio.library.opened["a"].model
    trace = held.trace(LONG)  # type: ignore[attr-defined]
    labels = page.inner.eval_on_selector_all(
        ".headgrid button:not(.mean)", "all => all.map(el => el.getAttribute('aria-label'))"
    )
    assert len(labels) == 6
    for label in labels:
        layer, head = map(int, re.findall(r"\d+", label)[:2])
        pattern = trace[f"decoder.layers.{layer}.self_attention.pattern"][0, head]
        bits = -(pattern * pattern.clamp_min(1e-12).log2()).sum(-1).mean()
        assert label.endswith(f"largest weight {pattern.max():.2f}, entropy {bits:.2f} bits")
    assert page.inner.evaluate(
        "[...document.querySelectorAll('.headgrid button')].every(el => el.firstChild)"
    )


def test_a_large_model_shows_its_first_tokens_first(studio: Served, page: Page) -> None:
    """The same model, said to be large."""

    def larger(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=json.dumps(answer.json() | {"parameters": 10**9}))

    page.inner.route("**/api/model/a", larger)
    searches = asked(page, "/decode?")
    page.see(address(studio, "decode", "the dog"))
    page.wait("""() => [...document.querySelectorAll('.hyps .rank')]
        .some(el => el.innerText === 'greedy')""")
    assert [re.sub(r".*\?", "", one) for one in searches] == [
        "beam_size=4&max_length=8", "beam_size=4", "beam_size=1"
    ]  # fmt: skip
    assert page.inner.query_selector(".searching") is None
    held = studio.library.opened["a"].model
    (decoded,) = held.decode(["the dog"], beam_size=4, n_best=4, max_length=40)
    words = "".join(page.words(".hyps tr.first td.word")).split()
    assert words == [piece.strip() for piece in decoded.texts[0].pieces]
    assert len(words) > 8
    page.inner.unroute("**/api/model/a")


def test_compare_says_how_many_values_it_shows(studio: Served, page: Page) -> None:
    page.see(address(studio, "compare", "0.5 1 -2", "b") + "&with=c")
    assert page.text(".answers .tail") == f"The first 32 of {OUTPUTS} values. Show all {OUTPUTS}"
    count = "document.querySelectorAll('.answers .pair').length"
    assert page.inner.evaluate(count) == 32
    page.inner.click(".answers .more")
    assert page.inner.evaluate(count) == OUTPUTS
    assert page.text(".answers .tail") == f"All {OUTPUTS} values. Show the first 32"
    values = studio.run("b", "0.5 1 -2")["answer"]
    shown = page.words(".answers .pair .w:nth-of-type(1) .word")
    assert [float(each.replace("−", "-")) for each in shown] == pytest.approx(values, abs=5e-5)
    page.inner.click(".answers .more")
    assert page.inner.evaluate(count) == 32
