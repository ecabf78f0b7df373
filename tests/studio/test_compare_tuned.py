"""Compare shows where adapters changed the computation of a tuned model."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.studio.browser import Page, leaf, running, window  # noqa: F401  (fixtures)
from tests.studio.serving import Served, serving
from tests.tuning.small import language_model
from tests.tuning.test_lora import tuned

import translucid as tl
from translucid.see.adapters import AdapterNorm, adapter_norms
from translucid.see.terms.terms import computation
from translucid.studio.terms import with_adapters

TEXT = "a fine film"


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"tuned": tl.load(tuned()), "source": tl.load(language_model())}) as served:
        yield served


def norms() -> tuple[AdapterNorm, ...]:
    return adapter_norms(computation(tl.load(tuned()).trace(TEXT)))


def test_a_run_says_what_its_adapters_add(studio: Served) -> None:
    rows = with_adapters(studio.library.run("a", TEXT))["adapters"]
    assert [row["layer"] for row in rows] == [norm.layer for norm in norms()]
    assert [row["ratio"] for row in rows] == pytest.approx([norm.ratio for norm in norms()])
    assert with_adapters(studio.library.run("b", TEXT))["adapters"] == []


@pytest.mark.slow
def test_compare_has_a_row_for_each_adapter(studio: Served, leaf: Page) -> None:  # noqa: F811
    leaf.turn(f"{studio.address}#/compare?m=a&with=b&text={quote(TEXT)}")
    leaf.wait("document.querySelectorAll('.adapters tbody tr').length > 0")
    shown = leaf.inner.eval_on_selector_all(
        ".adapters tbody tr",
        "all => all.map(row => [row.cells[0].textContent, +row.cells[1].textContent, "
        "row.querySelector('meter').value])",
    )
    for (layer, added, ratio), norm in zip(shown, norms(), strict=True):
        assert layer == norm.layer
        assert added == pytest.approx(norm.added, rel=1e-2)
        assert ratio == pytest.approx(norm.ratio, rel=1e-5)
