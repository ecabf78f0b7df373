"""A classifier of table rows in the studio: Flow with the names of its features."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.browser import Page
from tests.studio.serving import Served, serving
from tests.tasks.test_table import customers, write

import translucid as tl


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("table")
    train = write(folder / "train.csv", customers(120, "train"))
    common: dict[str, Any] = {
        "train": train,
        "label_column": "churned",
        "device": "cpu",
        "quiet": True,
    }
    made = {
        "mlp": tl.train(
            "table", out=folder / "mlp", model={"kind": "mlp", "hidden": [6]}, steps=6, **common
        ),
        "linear": tl.train("table", out=folder / "linear", model={"kind": "linear"}, **common),
    }
    with serving(made) as served:
        yield served


@pytest.mark.slow
@pytest.mark.parametrize("m", ["a", "b"])
@pytest.mark.parametrize("view", ["flow", "whatif", "data"])
def test_a_model_of_rows_opens_with_its_features(
    studio: Served, page: Page, m: str, view: str
) -> None:
    held = studio.library.opened[m].model
    line = '41,Bonn,03.05.2019,"12,5 %",yes'
    page.see(f"{studio.address}#/{view}?m={m}&text={quote(line)}")
    (answer,) = held.predict([line])
    run = studio.run(m, line)
    assert run["answer"][answer.label] == pytest.approx(answer.probability, rel=1e-5)
    assert run["tokens"]["features"] == list(held.trace(line).words.features)
    if view == "flow":
        assert "city=Bonn" in page.text("main")


def test_without_data_it_opens_with_a_typical_row(studio: Served) -> None:
    for m in "ab":
        held = studio.library.opened[m].model
        (typical,) = held.task.samples
        assert typical in studio.get(f"/api/model/{m}").json["examples"]
        assert held.task.columns.remarks(held.task.row_of(typical, "")) == []
