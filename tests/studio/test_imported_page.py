"""The page of models of other tools: what only they have is drawn as it should be."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.interop.encoders import bert
from tests.studio.browser import Page
from tests.studio.serving import Served, serving

import translucid as tl

pytestmark = pytest.mark.slow

MASKED = "the cat [MASK] the."
MANY = {"num_hidden_layers": 30, "num_attention_heads": 12, "hidden_size": 24}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("imported")
    folders = {name: place / name for name in ("bert", "tall")}
    for name, more in {"bert": {}, "tall": MANY}.items():
        folders[name].mkdir()
        bert(folders[name], **more)
    with serving({name: tl.load(folder) for name, folder in folders.items()}) as served:
        yield served


def address(studio: Served, m: str, view: str) -> str:
    return f"{studio.address}#/{view}?m={m}&text={quote(MASKED)}"


def test_a_mask_is_one_word_to_swap(studio: Served, page: Page) -> None:
    page.see(address(studio, "a", "whatif"))
    assert page.words(".swaps button:not(.instead)") == ["the", "cat", "[MASK]", "the", "."]


def test_the_chosen_layer_of_many_is_seen(studio: Served, page: Page) -> None:
    page.see(address(studio, "b", "attention"))
    seen = page.inner.evaluate(
        "() => { const box = document.querySelector('.headgrids').getBoundingClientRect();"
        " const chosen = document.querySelector('.headgrid [aria-pressed=\"true\"]');"
        " const { top, bottom } = chosen.getBoundingClientRect();"
        " return top >= box.top && bottom <= box.bottom; }"
    )
    assert seen
    assert page.inner.evaluate(
        "() => { const box = document.querySelector('.headgrids');"
        " return box.scrollHeight > box.clientHeight + 50; }"
    )


def test_switches_of_many_heads_are_aligned(studio: Served, page: Page) -> None:
    page.see(address(studio, "b", "whatif"))
    lines = page.inner.evaluate(
        "() => { const tops = [...document.querySelector('.headrow').querySelectorAll('button')]"
        ".map(el => Math.round(el.getBoundingClientRect().top));"
        " return tops.map(top => tops.filter(each => each === top).length); }"
    )
    assert lines == [6] * 12
