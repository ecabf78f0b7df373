"""Rules for trained models on made-up numbers, and what measures them on tiny untrained ones, where
the answer is known."""

import os
from collections.abc import Mapping
from typing import Any, Literal

import pytest
import torch
from tests.lab.families import around, check, verdict
from torch import Tensor

from translucid.core.trace import NoTrace, Trace
from translucid.models import TransformerConfig, build
from translucid.models.base import DecoderModel, EncoderModel
from translucid.parts.embedding import Tokens
from translucid.see.part_switches import choose, switches, together
from translucid_lab.claims import (
    gpu_time,
    real_experiments,
    real_lengths,
    real_order,
    real_parts,
    real_trained_heads,
    real_writing,
)
from translucid_lab.engine.experiment import Experiment

TRAINED = {name: {"own": 0.3, "d_k": 8.0, "scaled": 0.6, "raw": 0.2}
           for name in real_trained_heads.MODELS}  # fmt: skip
PARTS = {"whole": 3.0, "frequency": 5.0, "layers": [3.1] * 5, "removed": [3.0] * 20 + [4.0] * 21,
         "norms": 11, "features": 64, "learned": 704, "shifts": 0, "spread": 0.4}  # fmt: skip
WRITING = {name: {"ends": 1.0, "greedy": 20.0, "by probability": 15.0, "divided by length": 30.0}
           for name in real_writing.MODELS}  # fmt: skip
LENGTHS = {
    "frequency": dict.fromkeys(real_lengths.RANGES, 5.0),
    "sinusoidal": dict.fromkeys(real_lengths.RANGES, 4.0),
    "learned": {**dict.fromkeys(real_lengths.RANGES, 4.9), "inside": 4.0},
}
ORDER = {"shuffled": {"encoder": 1e-14, "decoder": 0.3}, "company": {"encoder": 1e-14,
         "decoder": 1e-14}, "far": {"from the left": 0.2, "from the right": 0.2}, "along": 0.9,
         "same": 0.1}  # fmt: skip
TIMES = {"gpu": "some GPU", "rnn": [1.0] * 4, "lstm": [1.0] * 4, "attention": [0.1] * 4}


BOTH: tuple[Literal["encoder", "decoder"], ...] = ("encoder", "decoder")


def changed(data: Mapping[str, Any], path: str, value: float) -> dict[str, Any]:
    """The same numbers but for one, whose place is written with slashes."""
    *before, last = path.split("/")
    copy = {**data}
    inner = copy
    for key in before:
        inner[key] = {**inner[key]}
        inner = inner[key]
    inner[last] = value
    return copy


@pytest.mark.parametrize(
    ("made", "key", "data", "changes", "expected"),
    [
        (real_trained_heads.trained_heads, "C46", TRAINED, {}, "supported"),
        (real_trained_heads.trained_heads, "C46", TRAINED, {"names, encoder/raw": 0.5}, "depends"),
        (real_trained_heads.trained_heads, "C48", TRAINED, {}, "refuted"),
        (real_trained_heads.trained_heads, "C48", TRAINED, {"names, decoder/own": 0.99}, "depends"),
        (real_parts.parts, "C52", PARTS, {}, "depends"),  # many can go, none does harm
        (real_parts.parts, "C52", PARTS, {"removed": [3.0, 2.9, *[3.0] * 39]}, "supported"),
        (real_parts.parts, "C52", PARTS, {"removed": [3.0, *[4.0] * 40]}, "refuted"),
        (real_parts.parts, "C52", PARTS, {"frequency": 3.2}, "not tested"),
        (real_parts.parts, "C62", PARTS, {}, "supported"),
        (real_parts.parts, "C62", PARTS, {"layers": [3.1, 3.1, 4.0, 4.0, 4.0]}, "refuted"),
        (real_parts.parts, "C75", PARTS, {}, "supported"),
        (real_parts.parts, "C75", PARTS, {"shifts": 11}, "refuted"),
        (real_parts.parts, "C75", PARTS, {"spread": 0.001}, "refuted"),
        (real_writing.written, "C83", WRITING, {}, "supported"),
        (real_writing.written, "C83", WRITING, {"stories/ends": 0.2}, "depends"),
        (real_writing.written, "C87", WRITING, {}, "depends"),
        (real_lengths.lengths, "C34", LENGTHS, {}, "supported"),
        (real_lengths.lengths, "C34", LENGTHS, {"sinusoidal/to four times": 4.6}, "depends"),
        (real_lengths.lengths, "C34", LENGTHS, {"sinusoidal/inside": 4.95}, "not tested"),
        (real_lengths.lengths, "C35", LENGTHS, {}, "supported"),
        (real_lengths.lengths, "C35", LENGTHS, {"learned/to four times": 4.0}, "refuted"),
        (real_lengths.lengths, "C35", LENGTHS, {"learned/inside": 4.2}, "refuted"),
        (real_order.reached, "C33", ORDER, {}, "depends"),
        (real_order.reached, "C33", ORDER, {"shuffled/decoder": 1e-14}, "supported"),
        (real_order.reached, "C72", ORDER, {}, "supported"),
        (real_order.reached, "C72", ORDER, {"company/decoder": 0.1}, "refuted"),
        (real_order.reached, "C81", ORDER, {}, "supported"),
        (real_order.reached, "C81", ORDER, {"same": 0.9}, "refuted"),
        (real_order.reached, "C81", ORDER, {"along": 0.1}, "refuted"),
        (real_order.reached, "C82", ORDER, {}, "supported"),
        (real_order.reached, "C82", ORDER, {"far/from the right": 0.001}, "refuted"),
        (gpu_time.times, "C23", TIMES, {}, "supported"),
        (gpu_time.times, "C23", TIMES, {"lstm": [0.1] * 4}, "refuted"),
        (gpu_time.times, "C23", {"gpu": ""}, {}, "not tested"),
    ],
)
def test_rules(
    made: Experiment, key: str, data: dict[str, Any], changes: dict[str, Any], expected: str
) -> None:
    for path, value in changes.items():
        data = changed(data, path, value)
    spread = around(1.0, 0.001)
    rows = [_scaled(data, by) for by in spread]
    assert verdict(made, key, rows) == expected


def _scaled(value: Any, by: float) -> Any:
    """Every fraction a little more or less, as seeds give them."""
    if isinstance(value, dict):
        return {key: _scaled(part, by) for key, part in value.items()}
    if isinstance(value, list):
        return [_scaled(part, by) for part in value]
    return value * by if isinstance(value, float) else value


def tiny(shape: Literal["encoder", "decoder"], **options: Any) -> Any:
    torch.manual_seed(0)
    head = {"head": "language"} if shape == "decoder" else {"head": "tag", "outputs": 4}
    return build(TransformerConfig(
        shape=shape, vocab=40, d_model=16, heads=2, layers=2, d_ff=16, dropout=0.0, **head,
        **options,
    )).double().eval()  # fmt: skip


def outputs(net: EncoderModel | DecoderModel) -> real_order.Outputs:
    def read(ids: Tensor, mask: Tensor | None, trace: NoTrace) -> Tensor:
        if isinstance(net, DecoderModel):
            return net(ids, mask, trace=trace)
        return net.encoder(Tokens(ids, mask), trace.at("encoder")).outputs

    return read


TEXTS = [torch.randint(3, 40, (1, length), generator=torch.Generator().manual_seed(length))
         for length in (5, 8, 9)]  # fmt: skip


def test_an_encoder_without_positions_ignores_order_and_a_masked_decoder_does_not() -> None:
    changes = {}
    for shape in BOTH:
        net = tiny(shape)
        off = together(choose(switches(net), ["positions"]))
        changes[shape] = real_order._shuffled(outputs(net), TEXTS, off, seed=0)
        assert real_order._shuffled(outputs(net), TEXTS, {}, seed=0) > real_order.OTHER
    assert changes["encoder"] < real_order.SAME
    assert changes["decoder"] > real_order.OTHER


def test_only_batch_norm_depends_on_the_batch() -> None:
    for norm in ("layer", "rms"):
        assert real_order._company(outputs(tiny("encoder", norm=norm)), TEXTS) < real_order.SAME
    assert real_order._company(outputs(tiny("decoder")), TEXTS) < real_order.SAME
    trained = tiny("encoder", norm="batch").train()  # in training it takes the batch's statistics
    assert real_order._company(outputs(trained), TEXTS) > real_order.OTHER


def test_what_reaches_what() -> None:
    decoder, encoder = (torch.tensor(real_order._changes(outputs(tiny(shape)), TEXTS, 40))
                        for shape in reversed(BOTH))  # fmt: skip
    assert not decoder.triu(1).any()
    assert (encoder > 0).all()
    far = real_order._far(outputs(tiny("encoder")), TEXTS)
    assert all(0 < value < 1 for value in far.values())


@pytest.mark.parametrize("shape", BOTH)
def test_scores_are_made_again_as_the_model_made_them(shape: Literal["encoder", "decoder"]) -> None:
    net = tiny(shape, positions="rotary")
    trace = Trace("*.self_attention.*")
    with torch.no_grad():
        net(TEXTS[1], trace=trace)
    name = trace.names("*.self_attention.pattern")[0]
    measured = real_trained_heads._of_layer(trace, name.removesuffix(".pattern"))
    pattern = trace[name]
    by_pattern = (pattern * (1 - pattern)).sum(-1)[..., 1:].mean()
    assert measured["scaled"] == pytest.approx(float(by_pattern), rel=1e-9)
    assert measured["raw"] != pytest.approx(measured["scaled"], rel=1e-6)


def test_heads_that_can_go_are_counted() -> None:
    assert real_parts.removable([3.0, 3.0, 3.04, 3.2, 3.0]) == 2
    assert real_parts.removable([3.0, 3.2]) == 0
    assert real_parts.removable([3.0, 2.9, 3.0]) == 2


def test_without_a_gpu_nothing_is_tested() -> None:
    finding = gpu_time.times.claims["C23"].finding([{"gpu": ""}] * 10)
    assert finding.why.startswith("no GPU here")
    assert gpu_time.times.real
    check(gpu_time.times, [{"gpu": ""}] * 10)


@pytest.mark.skipif(
    "TRANSLUCID_SHARED" not in os.environ,
    reason="TRANSLUCID_SHARED does not name a folder with real text and weights",
)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["real-parts", "real-order", "real-writing"])
def test_trained_models_are_measured(name: str) -> None:
    made = real_experiments()[name]
    check(made, [made.run(0, True)] * 10)
