"""Tracing: values that are kept and edited, the budget, and errors."""

import pytest
import torch
from torch import Tensor

from translucid.core.errors import InputError, TraceBudgetError, TraceError, UnknownPointError
from translucid.core.trace import NO_TRACE, Trace
from translucid.models import Network, RecurrentConfig, TransformerConfig, build

IDS = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])


def transformer(**changes: object) -> Network:
    torch.manual_seed(0)
    options = {"vocab": 8, "d_model": 8, "heads": 2, "layers": 2, "dropout": 0.0} | changes
    config = TransformerConfig(shape="decoder", head="language", **options)
    return build(config).double().eval()


def lstm(**changes: object) -> Network:
    torch.manual_seed(0)
    options = {"vocab": 8, "d_model": 6, "hidden": 6, "dropout": 0.0} | changes
    return build(RecurrentConfig(shape="decoder", head="language", **options)).double().eval()


def same(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_no_trace_is_the_identity() -> None:
    value = torch.ones(2)
    assert NO_TRACE("anything", value) is value
    assert NO_TRACE.at("scope") is NO_TRACE
    assert NO_TRACE.step(3) is NO_TRACE
    assert not NO_TRACE.wants("anything")


def test_keep_takes_globs_that_cross_dots() -> None:
    trace = Trace(keep=["*.pattern", "decoder.layers.1.feedforward.*"])
    transformer()(IDS, trace=trace)
    assert trace.names("*.pattern") == [
        "decoder.layers.0.self_attention.pattern",
        "decoder.layers.1.self_attention.pattern",
    ]
    assert len(trace) == 2 + 3
    assert "decoder.layers.1.feedforward.hidden" in trace
    assert "decoder.layers.0.feedforward.hidden" not in trace


def test_wants_is_true_only_for_matching_points() -> None:
    trace = Trace(keep="decoder.layers.1.*", edit={"*.forget_gate@2": 1.0})
    assert trace.at("decoder.layers.1.self_attention").wants("scores", "pattern")
    assert not trace.at("decoder.layers.0.self_attention").wants("scores", "pattern")
    assert trace.at("decoder.layers.0.lstm").wants("forget_gate")


def test_zeroing_a_head_equals_zeroing_its_rows_of_the_output_matrix() -> None:
    def without_head_1(mixed: Tensor) -> Tensor:
        mixed = mixed.clone()
        mixed[:, 1] = 0
        return mixed

    model = transformer()
    edited = model(
        IDS, trace=Trace([], edit={"decoder.layers.0.self_attention.mixed": without_head_1})
    )
    plain = model(IDS)
    with torch.no_grad():
        model.get_parameter("decoder.layers.0.self_attention.output.weight")[:, 4:] = 0
    same(edited, model(IDS))
    assert not torch.allclose(edited, plain)


def test_editing_the_scale_equals_a_model_without_scaling() -> None:
    edited = transformer()(IDS, trace=Trace([], edit={"*.scale": 1.0}))
    same(edited, transformer(scaled=False)(IDS))
    assert not torch.allclose(edited, transformer()(IDS))


def test_opening_the_causal_mask_lets_the_future_in() -> None:
    model, other = transformer(), IDS.clone()
    other[:, -1] = 7
    opened = {"decoder.masks.causal": torch.ones_like}
    same(model(IDS)[:, :-1], model(other)[:, :-1])
    first, second = (model(x, trace=Trace([], edit=opened)) for x in (IDS, other))
    assert not torch.allclose(first[:, :-1], second[:, :-1])


def test_removing_a_residual_leaves_the_branch_alone() -> None:
    trace = Trace(edit={"decoder.layers.0.feedforward_residual.skip": 0.0})
    transformer()(IDS, trace=trace)
    scope = "decoder.layers.0.feedforward_residual."
    same(trace[scope + "sum"], trace[scope + "branch"])


def test_a_forget_gate_frozen_open_with_nothing_written_keeps_the_cell_at_its_start() -> None:
    gates = {"*.forget_gate": 1.0, "*.input_gate": 0.0}
    trace = Trace(edit=gates)
    lstm()(IDS, trace=trace)
    cell = trace["decoder.recurrent.layers.0.lstm.cell"]
    assert cell.shape == (2, 5, 6)
    assert cell.abs().max() == 0


def test_an_edit_may_name_one_position_of_a_loop() -> None:
    name = "decoder.recurrent.layers.0.lstm.hidden"
    plain, edited = Trace(), Trace(edit={f"{name}@2": 0.0})
    lstm()(IDS, trace=plain)
    lstm()(IDS, trace=edited)
    same(plain[name][:, :2], edited[name][:, :2])
    assert edited[f"{name}@2"].abs().max() == 0
    assert not torch.allclose(plain[name][:, 3], edited[name][:, 3])


def test_a_loop_is_read_whole_or_position_by_position() -> None:
    trace = Trace()
    lstm()(IDS, trace=trace)
    name = "decoder.recurrent.layers.0.lstm.cell"
    same(trace[name], torch.stack([trace[f"{name}@{t}"] for t in range(5)], dim=1))
    with pytest.raises(UnknownPointError, match=r"cell@5.* 0 and 4"):
        trace[f"{name}@5"]
    with pytest.raises(UnknownPointError, match=r"head.logits .*@0"):
        trace["head.logits@0"]


def test_gradients_flow_through_what_is_kept() -> None:
    trace = Trace(keep="*.embedding.scaled")
    logits = transformer()(IDS, trace=trace)
    (gradient,) = torch.autograd.grad(logits[0, 3].sum(), trace["decoder.embedding.scaled"])
    assert gradient[0, :4].abs().min() > 0
    assert gradient[0, 4].abs().max() == 0  # the future has no influence
    assert gradient[1].abs().max() == 0


def test_the_budget_is_counted_and_kept() -> None:
    everything = Trace()
    transformer()(IDS, trace=everything)
    counted = sum(everything[n].numel() * everything[n].element_size() for n in everything)
    assert everything.bytes == counted
    transformer()(IDS, trace=Trace(budget_bytes=counted))
    tight = Trace(budget_bytes=1000)
    with pytest.raises(TraceBudgetError, match=r"budget is 1,000; keep fewer"):
        transformer()(IDS, trace=tight)
    assert tight.bytes <= 1000


def test_values_can_be_kept_elsewhere() -> None:
    trace = Trace(keep="head.logits", device="meta")
    transformer()(IDS, trace=trace)
    assert trace["head.logits"].device.type == "meta"


def test_a_trace_accepts_one_run() -> None:
    trace = Trace()
    transformer()(IDS, trace=trace)
    with pytest.raises(TraceError, match=r"already.*one run"):
        transformer()(IDS, trace=trace)


def test_an_unknown_name_gets_a_suggestion() -> None:
    trace = Trace()
    transformer()(IDS, trace=trace)
    with pytest.raises(UnknownPointError, match=r"'head.logit'.*Did you mean head.logits"):
        trace["head.logit"]
    with pytest.raises(UnknownPointError, match=r"empty"):
        Trace()["head.logits"]


def test_points_that_were_not_kept_are_reported() -> None:
    trace = Trace(keep="head.*")
    transformer()(IDS, trace=trace)
    with pytest.raises(UnknownPointError, match=r"not kept"):
        trace["decoder.final_norm.output"]


def test_a_misspelt_edit_is_found() -> None:
    trace = Trace(edit={"*.patern": 0.0})
    transformer()(IDS, trace=trace)
    with pytest.raises(UnknownPointError, match=r"'\*\.patern'.*Did you mean \*\.pattern"):
        trace.check()
    right = Trace(edit={"*.pattern": lambda a: a})
    transformer()(IDS, trace=right)
    right.check()


def test_an_edit_must_keep_the_shape() -> None:
    trace = Trace(edit={"head.logits": lambda x: x[:, :1]})
    with pytest.raises(TraceError, match=r"head.logits .*shape \(2, 1, 8\)"):
        transformer()(IDS, trace=trace)


def test_a_position_must_be_a_number() -> None:
    with pytest.raises(TraceError, match=r"'\*\.cell@last'.*such as @3"):
        Trace(keep="*.cell@last")


def test_repr_shows_points_and_bytes() -> None:
    trace = Trace(keep="head.logits")
    transformer()(IDS, trace=trace)
    assert repr(trace) == "Trace(1 points, 640 bytes)"
    assert repr(NO_TRACE) == "NO_TRACE"


def test_an_edit_may_be_a_value_and_must_be_one() -> None:
    plain = Trace()
    before = transformer()(IDS, trace=plain)
    name = "decoder.layers.0.self_attention.pattern"
    same(transformer()(IDS, trace=Trace([], edit={name: plain[name]})), before)
    for wrong in (lambda value: None, "zero"):
        with pytest.raises(TraceError, match=r"pattern .*must be a tensor, a number"):
            transformer()(IDS, trace=Trace([], edit={name: wrong}))
    with pytest.raises(TraceError, match="keep = 5"):
        Trace(5)


def test_models_refuse_anything_but_a_trace() -> None:
    with pytest.raises(InputError, match=r"trace = True.*trace=Trace\(\)"):
        transformer()(IDS, trace=True)


def test_values_returned_by_a_hook_are_kept_and_used() -> None:
    class Doubled(Trace):
        def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
            return 2 * value if name.endswith("mixed") else value

    hooked, edited = Doubled("*.mixed"), Trace("*.mixed", edit={"*.mixed": lambda y: 2 * y})
    same(transformer()(IDS, trace=hooked), transformer()(IDS, trace=edited))
    assert list(hooked) == list(edited)
    for name in hooked:
        same(hooked[name], edited[name])


def test_a_hook_passes_after_the_edits_at_every_position() -> None:
    places: list[tuple[int | None, float]] = []

    class Seen(Trace):
        def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
            if name.endswith("forget_gate"):
                places.append((position, value.max().item()))
            return value

    seen = Seen([], edit={"*.forget_gate@2": 7.0}, by_hand=True)
    lstm()(IDS, trace=seen)
    assert [place for place, _ in places] == [0, 1, 2, 3, 4]
    assert [value == 7.0 for _, value in places] == [False, False, True, False, False]
    assert not len(seen)


def test_by_hand_computes_every_point_and_keeps_the_chosen() -> None:
    for model in (transformer(), lstm()):
        everything, some = Trace(), Trace("head.logits", by_hand=True)
        whole = model(IDS, trace=everything)
        assert torch.equal(model(IDS, trace=some), whole)  # the very same operations
        assert list(some) == ["head.logits"]
        assert some.met == set(everything)


def test_kept_values_can_be_iterated_and_cleared() -> None:
    trace = Trace("*.lstm.cell")
    lstm()(IDS, trace=trace)
    (name,) = trace
    for base, position, value in trace.written():
        assert base == name
        assert torch.equal(trace[f"{name}@{position}"], value)
    trace.clear()
    assert (len(trace), trace.bytes) == (0, 0)
    lstm()(IDS, trace=trace)
    assert trace[name].shape == (2, 5, 6)
