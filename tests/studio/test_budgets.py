"""A model of real depth: 12 layers of 12 heads, 512 tokens. Bytes, memory, processor time and nodes
of the page stay within what docs/explanation/studio.md says."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.studio.browser import Page
from tests.studio.serving import Served, model, serving
from tests.studio.test_long import text_of

from translucid.studio import text_runs
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library

SIZES = {"d_model": 48, "heads": 12, "d_ff": 64, "layers": 12, "max_length": 520}
DOCS = (Path(__file__).parents[2] / "docs/explanation/studio.md").read_text("utf-8")


def budget(name: str) -> float:
    """As the page of the docs has it."""
    found = re.search(rf"^\| {re.escape(name)} \|[^|]*?([\d,.]+) (KB|MiB|s|nodes) \|$", DOCS, re.M)
    assert found, name
    size = {"KB": 1e3, "MiB": 2.0**20, "s": 1.0, "nodes": 1.0}[found[2]]
    return float(found[1].replace(",", "")) * size


@pytest.mark.slow
def test_bytes_memory_and_first_numbers() -> None:
    handlers = Handlers(Library({"deep": model("language-transformer", **SIZES)}))

    def read(text: str) -> str:
        asked = json.dumps({"m": "a", "text": text}).encode()
        return str(json.loads(handlers.ask("POST", "/api/runs", asked).body)["run"])

    def size(path: str) -> int:
        reply = handlers.ask("GET", path)
        assert reply.status == 200, reply.body
        return len(reply.body)

    read("the dog")  # what PyTorch does the first time
    began = time.process_time()
    run = read(text_of(511))
    assert time.process_time() - began < budget("forward pass of a text, processor time")
    assert sum(map(size, (f"/api/runs/{run}", "/api/model/a", "/api/catalogue"))) < budget(
        "answer: descriptions of the model, the run and all trace points"
    )
    assert size(f"/api/runs/{run}/heads?kind=decoder") < budget("answer: overview of all heads")
    at = "decoder.layers.11.self_attention.pattern"
    whole_head = size(f"/api/runs/{run}/tensors?at={at}&index=3&pool=512")
    assert whole_head < budget("answer: all weights of one head")
    kept = handlers.library.runs[run]
    assert not kept.whole
    assert kept.kept.bytes <= text_runs.BUDGET == budget("memory: traced values of a run")


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"deep": model("language-transformer", **SIZES)}) as served:
        yield served


@pytest.mark.thorough
@pytest.mark.parametrize("view", ["flow", "attention", "data"])
def test_nodes(studio: Served, leaf: Page, view: str) -> None:
    leaf.turn(f"{studio.address}#/{view}?text={quote(text_of(511))}")
    count = leaf.inner.evaluate("document.querySelectorAll('*').length")
    assert count < budget(f"the page in {view.capitalize()}")
