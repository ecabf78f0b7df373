"""What an adapter adds beside its frozen layer, against hooks on both."""

from typing import Any

import pytest
import torch
from tests.tuning.test_lora import adapted, tuned
from torch import Tensor

import translucid as tl
from translucid.core.trace import Trace
from translucid.models import build
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.computation import Computation
from translucid.parts.lora import AdaptedLinear
from translucid.see.contributions import adapter_norms
from translucid.see.terms import computation
from translucid.see.walk.make_walk import walk

EVERYWHERE: dict[str, Any] = {"lora_rank": 2, "lora_alpha": 3.0, "lora_where": ("*",)}


def hooked(network: Any, inputs: dict[str, Tensor]) -> dict[str, tuple[float, float]]:
    """Mean lengths of what adapters and frozen layers gave, by hooks."""
    lengths: dict[str, dict[str, float]] = {}
    for name, part in network.named_modules():
        if isinstance(part, AdaptedLinear):
            for which in ("lora", "base"):

                def keep(module: Any, args: Any, output: Tensor, at: Any = (name, which)) -> None:
                    lengths.setdefault(at[0], {})[at[1]] = float(output.norm(dim=-1).mean())

                getattr(part, which).register_forward_hook(keep)  # fmt: skip
    with torch.no_grad():
        network(**inputs)
    return {name: (value["lora"], value["base"]) for name, value in lengths.items()}


@pytest.mark.parametrize("shape", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize(
    "options", [{"placement": "pre"}, {"placement": "post", "activation": "swiglu"}]
)
def test_lengths_are_those_that_hooks_see(shape: Any, options: Any) -> None:
    torch.manual_seed(3)
    network = build(TransformerConfig(
        shape=shape, head="language", vocab=20, d_model=8, heads=2, layers=2, **options,
        **EVERYWHERE,
    ))  # fmt: skip
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    network.eval()
    ids = torch.tensor([[1, 5, 7, 9]])
    inputs = {"ids": ids} if shape == "decoder" else {"source": ids, "target": ids[:, :3]}
    trace = Trace()
    with torch.no_grad():
        network(**inputs, trace=trace)
    norms = adapter_norms(Computation(network, trace, inputs))
    seen = hooked(network, inputs)
    assert {norm.layer for norm in norms} == seen.keys()
    for norm in norms:
        assert (norm.added, norm.frozen) == pytest.approx(seen[norm.layer], rel=1e-5), norm.layer


def test_explain_shows_where_tuning_changed_the_computation() -> None:
    model = tl.load(tuned())
    reading = model.trace("a fine film")
    (stage,) = [s for s in walk(reading).stages if s.chapter == "Adapters"]
    norms = adapter_norms(computation(reading))
    assert [row.label for row in stage.rows] == [norm.layer for norm in norms]
    assert [row.cells[0].value for row in stage.rows] == [norm.ratio for norm in norms]
    assert len(norms) == 2 * 4  # four linear layers in each of two
    most = max(norms, key=lambda norm: norm.ratio)
    assert most.layer in stage.happened
    assert "Adapters" in str(walk(reading))


def test_a_network_without_adapters_has_none() -> None:
    network = adapted()
    trace = Trace()
    with torch.no_grad():
        network(torch.tensor([[1, 2]]), trace=trace)
    assert adapter_norms(Computation(network, trace, {"ids": torch.tensor([[1, 2]])}))
    plain = adapted(lora_rank=0)
    assert not adapter_norms(Computation(plain, trace, {"ids": torch.tensor([[1, 2]])}))
