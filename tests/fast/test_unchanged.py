"""Whoever changes a model sees what it says then: a search takes the fast step only for a model
that is as the library made it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.invariants.cases import randomised, transformer
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrize

from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.fast.decode_step import DecodeStep
from translucid.fast.precision import Precision, prepare
from translucid.fast.stepper import stepper
from translucid.fast.unchanged import STANDARD, Snapshot, parts_of, unchanged
from translucid.generate.beam_search import GenerationConfig, Hypothesis, search
from translucid.generate.decode import begin, draw, find, limits
from translucid.generate.sampling import SamplingConfig
from translucid.models import GenerationInputs
from translucid.models.base import EncoderDecoderModel
from translucid.parts.attention import SelfAttention
from translucid.parts.feedforward import FeedForward
from translucid.parts.norms import LayerNorm, NoNorm

EOS, PAD, BOS = 1, 0, 2
PREFIXES = [[BOS], [BOS, 5]]
INPUTS = GenerationInputs.of(torch.tensor([[3, 4, 5, 6], [7, 8, 9, 3]]))
HOW = GenerationConfig(beam_size=3, n_best=3, max_length=6)
MODEL = randomised(transformer("encoder-decoder", positions="sinusoidal"))
POST = randomised(transformer("encoder-decoder", placement="post"))


class Loud(FeedForward):
    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        return 3 * super().forward(x, trace)


class Twice(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


class Loudest(EncoderDecoderModel):
    def step(self, *given: Any, **named: Any) -> Tensor:
        return super().step(*given, **named).flip(-1)


class LoudLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return -super().forward(x)


def hook(module: nn.Module, factor: float = -2.0) -> None:
    module.register_forward_hook(lambda part, given, output: factor * output)


def layer(model: Any) -> Any:
    return model.decoder.layers[0]


def mixes_otherwise(model: Any) -> None:
    part = layer(model).self_attention
    plain = part._mix
    part._mix = lambda *given: -plain(*given)


def speaks_otherwise(model: Any) -> None:
    plain = model.head.forward
    model.head.forward = lambda x, trace=NO_TRACE: plain(x, trace).flip(-1)


def own_linear(model: Any) -> None:
    old = layer(model).self_attention.output
    new = LoudLinear(old.in_features, old.out_features).double().eval()
    new.load_state_dict(old.state_dict())
    layer(model).self_attention.output = new


def is_a(part: Any, kind: type) -> None:
    part.__class__ = kind


CHANGES: dict[str, Callable[[Any], object]] = {
    "a hook on a block": lambda model: hook(layer(model).feedforward),
    "a hook on a leaf": lambda model: hook(layer(model).self_attention.qkv),
    "a hook on the table": lambda model: hook(model.decoder.embedding.table),
    "a hook on the head": lambda model: hook(model.head),
    "a hook on dropout": lambda model: hook(layer(model).feedforward_residual.dropout),
    "a hook on the last norm": lambda model: hook(model.decoder.final_norm),
    "a hook before": lambda model: layer(model).feedforward.output.register_forward_pre_hook(
        lambda part, given: (-given[0],)
    ),
    "a subclass": lambda model: is_a(layer(model).feedforward, Loud),
    "a subclass of the model": lambda model: is_a(model, Loudest),
    "a linear layer of one's own": own_linear,
    "a method of one object": mixes_otherwise,
    "forward of one object": speaks_otherwise,
    "a parametrised weight": lambda model: parametrize.register_parametrization(
        layer(model).feedforward.output, "weight", Twice()
    ),
    "another norm in one place": lambda model: setattr(
        layer(model).feedforward_residual, "norm", NoNorm().eval()
    ),
    "another place for one norm": lambda model: setattr(
        layer(model).feedforward_residual, "placement", "post"
    ),
    "another activation": lambda model: setattr(layer(model).feedforward, "activation", torch.sin),
    "another scale": lambda model: setattr(model.decoder.embedding, "factor", 0.1),
}
FOLLOWED = ("another activation", "another scale")  # settings, which the fast step reads as well


def found(model: Any, **options: Any) -> list[list[Hypothesis]]:
    return find(model, PREFIXES, INPUTS, HOW, eos=EOS, pad=PAD, **options)


def by_plain_steps(model: Any) -> list[list[Hypothesis]]:
    least, most = limits(model, PREFIXES, INPUTS, HOW)
    with torch.no_grad():
        state, prefix = begin(model, PREFIXES, INPUTS, steps=int(most.max()))
        state.expand(HOW.beam_size)
        return search(model.step, state, prefix, least, most, HOW, eos=EOS, pad=PAD)


def same(
    mine: list[list[Hypothesis]], its: list[list[Hypothesis]], tolerance: float = 1e-9
) -> bool:
    if [[t.tokens for t in one] for one in mine] != [[t.tokens for t in one] for one in its]:
        return False
    token_log_probs = [
        [gain for one in texts for t in one for gain in t.token_log_probs] for texts in (mine, its)
    ]
    return token_log_probs[0] == pytest.approx(token_log_probs[1], abs=tolerance)


def test_without_a_change_the_step_is_fast() -> None:
    for model in (MODEL, POST):
        assert DecodeStep.fits(model)
        assert same(found(model), by_plain_steps(model))


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_packed_model_is_stepped_fast(precision: Precision) -> None:
    model = prepare(MODEL, precision)
    assert DecodeStep.fits(model)
    if precision == "float32":
        assert same(found(model), by_plain_steps(model), 1e-5)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_model_uses_the_plain_step(name: str) -> None:
    model = copy.deepcopy(MODEL)
    CHANGES[name](model)
    assert DecodeStep.fits(model) is (name in FOLLOWED)
    assert same(found(model), by_plain_steps(model))
    assert not same(found(model), found(MODEL)), "the change changes nothing"


@pytest.mark.parametrize("name", CHANGES)
def test_a_snapshot_sees_the_change(name: str) -> None:
    model = copy.deepcopy(MODEL)
    snapshot = Snapshot(model)
    with torch.no_grad():  # written into the weights where they lie
        model.head.linear.weight.mul_(1.5)
    assert snapshot.as_made
    assert snapshot.holds(model)
    assert not snapshot.holds(copy.deepcopy(model))
    CHANGES[name](model)
    assert not snapshot.holds(model)
    assert Snapshot(model).as_made is unchanged(parts_of(model))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "none"])
def test_a_subclass_needs_the_plain_step(
    positions: str,
) -> None:
    model = randomised(transformer("encoder-decoder", positions=positions))
    assert DecodeStep.fits(model)
    scheme = model.decoder.positions
    scheme.__class__ = type("Other", (type(scheme),), {"__module__": type(scheme).__module__})
    assert not DecodeStep.fits(model)


def test_a_known_part_in_an_unexpected_place_needs_the_plain_step() -> None:
    model = randomised(transformer("decoder", qk_norm=True))
    assert DecodeStep.fits(model)
    attention: Any = model.decoder.blocks()[0].self_attention
    attention.query_norm = LayerNorm(attention.d_head).double().eval()  # only RMS norms fit here
    assert not DecodeStep.fits(model)


def test_a_norm_behind_the_last_layer() -> None:
    model = copy.deepcopy(POST)
    model.decoder.final_norm = LayerNorm(model.decoder.d_output).double().eval()
    with torch.no_grad():
        model.decoder.final_norm.gain.copy_(torch.linspace(-2, 2, model.decoder.d_output))
    assert same(found(model), by_plain_steps(model))
    assert not same(found(model), found(POST))


def test_a_method_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    before, plain = found(MODEL), SelfAttention.forward
    snapshot = Snapshot(MODEL)
    monkeypatch.setattr(SelfAttention, "forward", lambda *given, **named: -plain(*given, **named))
    assert same(found(MODEL), by_plain_steps(MODEL))
    assert not same(found(MODEL), before)
    assert not snapshot.holds(MODEL)


def test_a_method_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    before, plain = found(MODEL), nn.Linear.forward
    snapshot = Snapshot(MODEL)
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: -plain(self, x))
    assert same(found(MODEL), by_plain_steps(MODEL))
    assert not same(found(MODEL), before)
    assert not snapshot.holds(MODEL)


def test_a_hook_on_everything() -> None:
    before, snapshot = found(MODEL), Snapshot(MODEL)
    handle = register_module_forward_hook(
        lambda part, given, output: -output if isinstance(part, FeedForward) else None
    )
    try:
        assert same(found(MODEL), by_plain_steps(MODEL))
        assert not same(found(MODEL), before)
        assert not snapshot.holds(MODEL)
    finally:
        handle.remove()
    assert snapshot.holds(MODEL)
    assert DecodeStep.fits(MODEL)


def test_a_part_that_is_still_training() -> None:
    """Monte Carlo dropout: draws come from the plain step alone."""
    model = copy.deepcopy(MODEL)
    snapshot = Snapshot(model)
    layer(model).feedforward.dropout.train()
    assert not DecodeStep.fits(model)
    assert not snapshot.holds(model)


def test_a_table_that_changes_when_it_is_read() -> None:
    model = copy.deepcopy(MODEL)
    model.decoder.embedding.table.max_norm = 1.0
    assert not DecodeStep.fits(model)


@pytest.mark.parametrize("keep", [[], "*"])
def test_a_trace_needs_the_plain_step(keep: str | list[str]) -> None:
    edits = {"decoder.layers.0.feedforward.output": lambda value: -2 * value}
    changed = copy.deepcopy(MODEL)
    hook(layer(changed).feedforward)
    assert same(found(MODEL, trace=Trace([], edit=edits)), found(changed))
    trace = Trace(keep)
    step = stepper(MODEL, trace)
    state, prefix = begin(MODEL, [[BOS]] * 2, INPUTS, steps=2)
    step(prefix, state)
    assert (len(trace) > 0) is bool(keep)


def test_a_draw_takes_the_steps_of_the_changed_model() -> None:
    numbers = torch.rand(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    changed = copy.deepcopy(MODEL)
    hook(layer(changed).feedforward)
    edit = Trace([], edit={"decoder.layers.0.feedforward.output": lambda value: -2 * value})

    def drawn(model: Any, trace: NoTrace = NO_TRACE) -> list[list[float]]:
        steps = draw(model, PREFIXES, INPUTS, SamplingConfig(), numbers, eos=EOS, trace=trace)
        return [each.token_log_probs for each in steps]

    by_edit, by_hook = drawn(MODEL, edit), drawn(changed)
    assert len(by_edit) == len(by_hook)
    for one, other in zip(by_edit, by_hook, strict=True):
        assert one == pytest.approx(other, abs=1e-9)
    assert drawn(MODEL)[0] != pytest.approx(by_hook[0], abs=1e-9)


def test_the_standard_attributes_of_a_module_come_first() -> None:
    """Only what stands behind it is looked at: `STANDARD` says how much that is."""
    standard = list(vars(nn.Module()))
    packed = prepare(copy.deepcopy(MODEL).float(), "float32")
    for module in (*MODEL.modules(), *packed.modules()):
        assert list(vars(module))[:STANDARD] == standard
