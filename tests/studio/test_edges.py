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
from translucid.studio.page_model import GRID, edges, maps

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


@pytest.mark.parametrize("name", ["regress", "perceptron"])
def test_maps_of_flow_are_the_traces_at_their_points(name: str) -> None:
    model = tl.load(f"demo:{name}")
    found = maps(model.network)  # type: ignore[arg-type]
    assert found
    for first, second in ((0, 0), (GRID - 1, 0), (3, 11), (7, 16)):
        x1, x2 = (
            low + (high - low) * k / (GRID - 1)
            for low, high, k in zip(found["low"], found["high"], (first, second), strict=True)
        )
        trace = model.trace(f"{x1} {x2}")
        for point, neurons in found["grids"].items():
            shown = torch.tensor([neuron[second][first] for neuron in neurons])
            torch.testing.assert_close(shown, trace[point].flatten(), atol=6e-4, rtol=1e-3)


def test_only_small_networks_with_two_inputs_have_maps() -> None:
    from translucid.models import MLPConfig, build

    def found(inputs: int, *hidden: int) -> Any:
        return maps(build(MLPConfig(inputs=inputs, hidden=hidden)))  # type: ignore[arg-type]

    assert found(3, 4) is None
    assert found(2, 8, 9) is None
    assert [len(neurons) for neurons in found(2, 8, 8)["grids"].values()].count(8) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1280])
def test_flow_draws_a_map_for_each_neuron_and_numbers_on_the_lines(
    studio: Served, page: Page, width: int
) -> None:
    page.inner.set_viewport_size({"width": width, "height": 800})
    page.see(f"{studio.address}#/flow?m=c&text=0.9 0.2")
    dots = page.inner.eval_on_selector_all(
        "#stage circle.input", "all => all.map(el => [el.cx.baseVal.value, el.cy.baseVal.value])"
    )
    assert len(dots) == 2 + 4 + 1  # standardised inputs, hidden neurons, the output
    network = studio.library.opened["c"].model.network
    named = network.named_parameters()
    weights = [w for name, p in named if "weight" in name for w in p.flatten().tolist()]
    numbers = page.words("#stage text.weight")
    assert len(numbers) >= 6
    assert all(any(same(number, weight) for weight in weights) for number in numbers)
    assert dots[0][0] == dots[1][0]  # the same inputs in both maps, one below the other


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
