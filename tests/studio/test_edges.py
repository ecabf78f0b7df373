"""Weights on the lines of a small network, and the maps of its hidden neurons."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import Served, model, serving
from tests.studio.shown import foot, same

import translucid as tl
from translucid.studio import plane
from translucid.studio.page_model import edges

PLACE = re.compile(r"([\w.]+)\[([\d, ]+)\]")


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    made = {
        "mlp": model("regress-mlp"),
        "perceptron": tl.load("demo:perceptron"),
        "xor": tl.load("demo:regress"),
    }
    with serving(made) as served:
        yield served


def weight(network: Any, path: str) -> float:
    found = PLACE.fullmatch(path)
    assert found, path
    return float(network.state_dict()[found[1]][tuple(map(int, found[2].split(",")))])


@pytest.mark.parametrize("step", [0, 7])
def test_maps_of_hidden_neurons_are_their_activations(step: int) -> None:
    now = plane.answer("mlp", "xor", step)
    ticks = torch.tensor(now["ticks"])[::2]
    second, first = torch.meshgrid(ticks, ticks, indexing="ij")
    w, b = (torch.tensor(now["weights"][f"layers.0.linear.{name}"]) for name in ("weight", "bias"))
    by_hand = torch.tanh(first[..., None] * w[:, 0] + second[..., None] * w[:, 1] + b)
    torch.testing.assert_close(
        torch.tensor(now["hidden"]), by_hand.movedim(-1, 0), atol=6e-4, rtol=0
    )
    assert plane.answer("perceptron", "xor", step)["hidden"] == []


def test_a_large_layer_has_no_lines() -> None:
    from translucid.models import MLPConfig, build

    network = build(MLPConfig(inputs=3, outputs=1, hidden=(101,)))
    assert list(edges(network)) == ["output.dense"]  # 303 and 101 weights


@pytest.mark.slow
@pytest.mark.parametrize("m", ["a", "b"])
def test_every_line_of_flow_shows_its_weight(studio: Served, page: Page, m: str) -> None:
    page.see(f"{studio.address}#/flow?m={m}&text=0.5 1{' -2' if m == 'a' else ''}")
    network = studio.library.opened[m].model.network
    count = page.inner.evaluate("document.querySelectorAll('.edge').length")
    weights = [p for name, p in network.named_parameters() if name.endswith("weight")]
    assert count == sum(p.numel() for p in weights)
    page.inner.locator(".edges").focus()
    seen = set()
    for _ in range(count):
        page.inner.keyboard.press("ArrowRight")
        path, shown = foot(page)
        assert same(shown, weight(network, path))
        seen.add(path)
    page.inner.keyboard.press("ArrowLeft")
    seen.add(foot(page)[0])
    assert len(seen) >= count - 1
    page.inner.locator(".edgehit").first.hover()
    path, shown = foot(page)
    assert same(shown, weight(network, path))


@pytest.mark.slow
def test_the_plane_shows_the_network_beside_it(studio: Served, page: Page) -> None:
    page.see(f"{studio.address}#/train?m=c&step=20&problem=xor")
    now = plane.answer("mlp", "xor", 20)
    assert page.inner.evaluate("document.querySelectorAll('.neuron').length") == 2 + 4
    assert page.inner.evaluate("document.querySelectorAll('.edge').length") == 2 * 4 + 4
    page.inner.locator(".edges").focus()
    path, shown = foot(page)
    assert path == "layers.0.linear.weight[0, 0]"
    assert same(shown, now["weights"]["layers.0.linear.weight"][0][0])
    page.inner.locator(".neuron[tabindex]").nth(2).focus()
    numbers = [
        float(n) for n in re.findall(r"[\d.]+", foot(page)[0].replace("x1", "").replace("x2", ""))
    ]
    wanted = [
        *now["weights"]["layers.0.linear.weight"][2],
        now["weights"]["layers.0.linear.bias"][2],
    ]
    assert numbers == pytest.approx([abs(each) for each in wanted], abs=0.006)
