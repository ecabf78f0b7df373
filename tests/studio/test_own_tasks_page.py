"""The page of models whose tasks the package does not know: every view that a model of their kind
has is drawn, nothing goes wrong, and the answer that is shown is the model's."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.see.own_tasks import PAIR
from tests.see.test_own_task import TEXT, held
from tests.studio.browser import Page
from tests.studio.serving import Served, serving
from tests.tiny.dealt import dealt

pytestmark = pytest.mark.slow

TEXTS = {"a": PAIR, "b": PAIR, "c": TEXT, "d": TEXT}
VIEWS = ("flow", "attention", "whatif", "compare")


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    models = {"pairs": held("pair"), "pairs too": held("pair"), "signs": held("case"),
              "signs too": held("case")}  # fmt: skip
    with serving(models) as served:
        yield served


@pytest.mark.parametrize(("view", "m"), dealt(VIEWS, ["a", "c"], share=2))
def test_an_own_task_has_its_views(studio: Served, leaf: Page, m: str, view: str) -> None:
    key = next(iter(studio.library.opened[m].switches))
    more = {"whatif": f"&off={key}", "compare": f"&with={chr(ord(m) + 1)}"}.get(view, "")
    address = f"{studio.address}#/{view}?m={m}&text={quote(TEXTS[m])}{more}"
    assert leaf.turn(address).split(" ")[0] == view
    answer = studio.run(m, TEXTS[m])["answer"]
    shown = leaf.inner.inner_text("#stage")
    if view == "compare":
        assert (f"{answer[0]:.4g}" if m == "a" else answer[0]) in shown
    assert "undefined" not in shown
    assert "[object" not in shown


def test_decode_is_greyed(studio: Served, leaf: Page) -> None:
    drawn = leaf.turn(f"{studio.address}#/decode?m=a&text={quote(PAIR)}")
    assert drawn.split(" ")[0] == "flow"
