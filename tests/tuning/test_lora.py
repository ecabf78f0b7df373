"""Adapters add nothing at first, alone learn, and are the same model when they are merged."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny.once import once
from tests.tuning.small import (
    LINES,
    NET,
    REVIEWS,
    TINY,
    classifier,
    language_model,
    started,
    write_reviews,
)
from torch import Tensor

import translucid as tl
from translucid.core.errors import ConfigError
from translucid.core.weights import own_tensors
from translucid.fast.decode_step import DecodeStep
from translucid.fast.precision import prepare
from translucid.interop.importing import load
from translucid.models import Network, build, config_from
from translucid.models.adapters import merge
from translucid.models.autoregressive import GenerationInputs
from translucid.runs.recipe import automatic_sizes, recipe
from translucid.training.parameter_groups import freeze

LORA = {"lora_rank": 2, "lora_alpha": 4.0, "lora_where": ["*attention.*", "*.feedforward.*"]}
IDS = torch.tensor([[1, 70, 80, 90, 75], [1, 80, 75, 70, 71]])


def tuned() -> Path:
    """A language model with adapters that have learnt."""
    return once("tuning: adapters", lambda out: tl.train(
        "language", out / "run", train=LINES, model=LORA, start_from=language_model(),
        learning_rate=0.05, **{**TINY, "warmup": 0},
    )) / "run"  # fmt: skip


def adapted(**options: Any) -> Network:
    """A decoder all of whose weights are random, those of its adapters too."""
    torch.manual_seed(1)
    sizes = {"kind": "transformer", "shape": "decoder", "head": "language", "vocab": 100} | NET
    network = build(config_from(sizes | LORA | options))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    return network.eval()


def test_adapted_model_starts_equal_to_its_source(tmp_path: Path) -> None:
    text = tmp_path / "lines.txt"
    text.write_text("\n".join(LINES), "utf-8")
    setup = started(language_model(), text, "language", model=LORA)
    source = load(language_model()).network
    assert torch.equal(setup.network.eval()(IDS), source(IDS))
    ours = [name for name in own_tensors(setup.network) if ".lora." in name]
    assert len(ours) == 2 * 2 * 4  # A and B, in two layers, of four linear layers each
    assert setup.recipe.training.freeze == ("decoder.*",)  # the tied table is the head


def test_only_adapters_learn() -> None:
    source = own_tensors(load(language_model()).network)
    state = load_file(next((tuned() / "state").glob("step-00000002")) / "tensors.safetensors")
    weights = {name: t for name, t in state.items() if name.startswith("network.")}
    learnt = {name for name in weights if ".lora." in name}
    for name in weights.keys() - learnt:
        before = source[name.removeprefix("network.").replace(".base.", ".")]
        assert torch.equal(weights[name], before), name
    assert all(weights[name].abs().max() > 0 for name in learnt)
    assert len([name for name in state if name.endswith("exp_avg")]) == len(learnt)


def test_new_head_is_trained_with_adapters(tmp_path: Path) -> None:
    model = tl.train(
        "classify", tmp_path / "run", train=REVIEWS, model={"lora_rank": 1},
        start_from=language_model(), learning_rate=0.1, **{**TINY, "warmup": 0, "steps": 1},
    )  # fmt: skip
    first = started(language_model(), write_reviews(tmp_path), model={"lora_rank": 1})
    before, after = own_tensors(first.network), own_tensors(model.network)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {"head.linear.weight", "head.linear.bias"} <= moved
    assert all(".lora." in name or name.startswith("head.") for name in moved)
    assert len(moved) > 2


def test_run_reports_the_number_of_trained_weights(tmp_path: Path) -> None:
    lines: list[str] = []
    data = write_reviews(tmp_path)
    setup = started(classifier(), data, model={"lora_rank": 1}, say=lines.append)
    freeze(setup.network, setup.recipe.training.freeze)
    weights = list(setup.network.parameters())
    learn, every = (
        sum(p.numel() for p in weights if p.requires_grad or not only) for only in (1, 0)
    )
    shown = (line for line in lines if line.startswith("transformer with "))
    assert next(shown).startswith(
        f"transformer with {every:,} parameters, {learn:,} of them trained "
        f"({learn / every:.2%}), on cpu, "
    )
    assert 0 < learn < every / 10
    started(classifier(), data, say=lines.append)
    assert "trained" not in next(shown), "all of them"


def test_adapters_have_a_higher_learning_rate() -> None:
    amount = automatic_sizes.Amount(1000, 10_000, 500)
    adapters, weights = (
        automatic_sizes.pick(
            recipe.parse({"task": {"kind": "translate"}, "model": model,
                          "training": {"start_from": "x"}}), amount, "cpu",
        )
        for model in ({"lora_rank": 4}, {})
    )  # fmt: skip
    assert adapters["training"]["learning_rate"] == 10 * weights["training"]["learning_rate"]
    assert adapters["task"] == weights["task"] == {"label_smoothing": 0.1}, "as from scratch"


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_merging_adapters_keeps_outputs() -> None:
    network = adapted()
    merged = deepcopy(network)
    merge(merged)
    assert not any(".lora." in name for name in own_tensors(merged))
    assert merged.config.model_dump()["lora_rank"] == 0
    close(merged(IDS), network(IDS))
    close(prepare(network, "float32")(IDS), network(IDS))


@torch.no_grad()
def test_a_fast_step_is_a_plain_step_also_after_more_training() -> None:
    model: Any = adapted()
    assert DecodeStep.fits(model)
    quick = DecodeStep(model)
    for _ in range(2):
        states = [model.start(GenerationInputs(2), 8) for _ in range(2)]
        for place in range(3):
            newest = IDS[:, place : place + 1]
            close(quick.step(newest, states[0]), model.step(newest, states[1]))
        for parameter in model.parameters():
            parameter.mul_(1.1)
        quick.refresh()


def test_model_folder_stores_adapters_and_export_merges_them(tmp_path: Path) -> None:
    model = tl.load(tuned())
    tensors = load_file(tuned() / "best" / "model.safetensors")
    assert "decoder.layers.0.self_attention.qkv.lora.up.weight" in tensors
    model.export("huggingface", tmp_path / "out")
    close(load(tmp_path / "out").network(IDS), model.network(IDS))
    again = started(tuned(), write_reviews(tmp_path))  # merged, as the source of another task
    assert not any(".lora." in name for name in own_tensors(again.network))
    name = "decoder.layers.0.self_attention.qkv.weight"
    layer: Any = model.network.get_submodule(name.removesuffix(".weight"))
    assert torch.equal(own_tensors(again.network)[name], layer.weight)


def test_trace_contains_adapter_outputs() -> None:
    trace = tl.load(tuned()).trace("a fine film")
    up = trace["decoder.layers.1.feedforward.output.lora.up"]
    assert up.abs().max() > 0
    opened = trace.terms("decoder.layers.1.feedforward.output.lora.up[0, 1, 3]")
    assert opened.value == pytest.approx(float(up[0, 1, 3]), rel=1e-4)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"lora_rank": 2, "lora_where": ["*.qvk"]}, "model.lora_where: '.*qvk'.*qkv"),
        ({"lora_rank": -1}, "model.lora_rank = -1"),
    ],
)
def test_adapters_that_match_no_layer_are_refused(
    tmp_path: Path, model: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        started(language_model(), write_reviews(tmp_path), model=model)


def test_adapters_need_a_trained_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapters need a trained model"):
        tl.train("classify", tmp_path / "run", train=REVIEWS, model={"lora_rank": 2}, **TINY)
