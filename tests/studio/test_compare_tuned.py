"""Compare shows where adapters changed the computation of a tuned model, and how far its vectors
moved from those of its source."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.studio.browser import Page
from tests.studio.serving import Served, serving
from tests.tuning.small import language_model
from tests.tuning.test_lora import tuned

import translucid as tl
from translucid.see.contributions import AdapterNorm, adapter_norms
from translucid.see.terms import computation
from translucid.studio.answers import compare
from translucid.studio.terms import with_adapters

TEXT = "a fine film"


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"tuned": tl.load(tuned()), "source": tl.load(language_model())}) as served:
        yield served


def norms() -> tuple[AdapterNorm, ...]:
    return adapter_norms(computation(tl.load(tuned()).trace(TEXT)))


def test_a_run_has_the_norms_of_its_adapters(studio: Served) -> None:
    rows = with_adapters(studio.library.run("a", TEXT))["adapters"]
    assert [row["layer"] for row in rows] == [norm.layer for norm in norms()]
    assert [row["ratio"] for row in rows] == pytest.approx([norm.ratio for norm in norms()])
    assert with_adapters(studio.library.run("b", TEXT))["adapters"] == []


def test_depths_say_how_far_tuning_moved_the_vectors(studio: Served) -> None:
    runs = [studio.library.run(m, TEXT) for m in ("b", "a")]
    rows = compare(*runs)["depths"]
    before, after = tl.load(language_model()).trace(TEXT), tl.load(tuned()).trace(TEXT)
    assert len(rows) == 6  # the table, two sums in each of two layers, the last norm
    assert [row["depth"] for row in rows[:2]] == ["embedding", "layer 0, after self-attention"]
    assert rows[0]["relative"] == 0  # adapters are in the layers
    for row in rows:
        x, y = (trace[row["at"]].flatten().double() for trace in (before, after))
        assert row["relative"] == pytest.approx(float((x - y).norm() / x.norm()), rel=1e-5)
        assert row["cosine"] == pytest.approx(float(x @ y / (x.norm() * y.norm())), rel=1e-5)
    assert rows[-1]["relative"] > 1e-4
    assert compare(*reversed(runs))["depths"]
    facts = runs[1].opened.model.facts
    start, facts["start"] = facts["start"], {"weights": "of another"}
    assert "depths" not in compare(*runs)
    facts["start"] = start


@pytest.mark.slow
def test_compare_has_a_row_for_each_adapter(studio: Served, leaf: Page) -> None:
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
    leaf.wait("document.querySelectorAll('.depths tbody tr').length > 0")
    depths = compare(*(studio.library.run(m, TEXT) for m in ("a", "b")))["depths"]
    shown = leaf.inner.eval_on_selector_all(
        ".depths tbody tr",
        "all => all.map(row => [row.cells[0].textContent, row.querySelector('meter').value])",
    )
    assert shown == [[row["depth"], pytest.approx(row["relative"])] for row in depths]
