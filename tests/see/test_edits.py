"""Activation patching, and what can be switched off: each against a second way of computing it."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from tests.invariants.cases import recurrent, transformer
from torch import Tensor

from translucid.core.errors import InputError, TraceError, UnknownPointError
from translucid.core.trace import Trace
from translucid.models import MLPConfig, ModelConfig, Network, PerceptronConfig, build
from translucid.parts.switch import KINDS, Switch
from translucid.see.edits import from_trace
from translucid.see.part_switches import choose, switches, together

CONFIGS: dict[str, ModelConfig] = {
    "transformer encoder": transformer("encoder", norm="rms", positions="rotary"),
    "transformer decoder": transformer("decoder", positions="alibi", window=3, kv_heads=2),
    "translator": transformer("encoder-decoder", placement="post", target_vocab=9, heads=2),
    "gated": transformer("decoder", activation="swiglu", positions="learned", norm="batch"),
    "no norm": transformer(
        "encoder", norm="none", positions="none", head="classify", ngram_features=5
    ),
    "ensemble": transformer("encoder", layers=1, ensemble_size=2),
    "segments": transformer("encoder", layers=1, segments=2),
    "lstm translator": recurrent("encoder-decoder", bidirectional=True, layers=1),
    "lstm": recurrent("decoder"),
    "gru": recurrent("encoder", cell="gru", bidirectional=True, characters=3),
    "rnn": recurrent("encoder", cell="rnn"),
    "mlp": MLPConfig(inputs=3, hidden=(4, 4), residual=True),
}


def network(name: str) -> Network:
    torch.manual_seed(len(name))
    made = build(CONFIGS[name]).double().eval()
    for parameter in made.parameters():  # biases and gains too are away from 0 and 1
        torch.nn.init.normal_(parameter, std=0.5)
    for what, buffer in made.named_buffers():
        if what.endswith(("running_mean", "running_variance")):
            torch.nn.init.uniform_(buffer, 0.5, 2.0)
    return made


def inputs(name: str, seed: int = 0, *, padded: bool = True, length: int = 5) -> dict[str, Tensor]:
    """A batch; with `padded`, the second row is shorter."""
    dice = torch.Generator().manual_seed(seed)
    if name == "mlp":
        return {"x": torch.randn(2, 3, generator=dice, dtype=torch.float64)}
    ids = torch.randint(4, 9, (2, length), generator=dice)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, 3:] = False
    more = {"mask": mask} if padded else {}
    if "translator" in name:
        target = torch.randint(4, 9, (2, length - 1), generator=dice)
        source_mask = {"source_mask": mask} if padded else {}
        return {"source": ids, "target": target, **source_mask}
    if name == "gru":
        more["characters"] = torch.randint(1, 99, (2, length, 4), generator=dice)
    return {"ids": ids, **more}


def run(model: Network, given: dict[str, Tensor], edit: Any = None, keep: Any = ()) -> Any:
    """What the model says, and the trace."""
    trace = Trace(keep, edit=edit)
    with torch.no_grad():
        said = model(**given, trace=trace)
    trace.check()
    return said, trace


# --- patching


@pytest.mark.parametrize("name", CONFIGS)
def test_everything_of_another_run_gives_its_output_and_nothing_gives_ours(name: str) -> None:
    model = network(name)
    (ours, same), (theirs, other) = (run(model, inputs(name, seed), keep="*") for seed in (0, 1))
    assert not torch.allclose(ours, theirs)
    assert torch.equal(run(model, inputs(name), from_trace(other, "*"))[0], theirs)
    assert torch.equal(run(model, inputs(name), from_trace(same, "*"))[0], ours)
    assert_same(run(model, inputs(name))[0], ours)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("transformer decoder", "decoder.layers.1.feedforward_residual.sum"),
        ("translator", "decoder.layers.1.feedforward_residual.norm.output"),
        ("lstm", "decoder.recurrent.layers.1.lstm.hidden"),
        ("lstm", "decoder.recurrent.output"),
        ("lstm translator", "decoder.alignment.output"),
    ],
)
def test_the_last_of_the_stream_decides_the_logits(name: str, point: str) -> None:
    model = network(name)
    theirs, other = run(model, inputs(name, 1), keep="*")
    patched = run(model, inputs(name), from_trace(other, point))[0]
    torch.testing.assert_close(patched, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("transformer decoder", "decoder.layers.0.feedforward_residual.sum"),
        ("lstm", "decoder.recurrent.layers.0.lstm.hidden"),
    ],
)
def test_one_position_changes_only_what_can_depend_on_it(name: str, point: str) -> None:
    model = network(name)
    given = inputs(name, padded=False)
    before, _ = run(model, given)
    other = run(model, inputs(name, 1, padded=False, length=4), keep="*")[1]  # another length
    after, seen = run(model, given, from_trace(other, point, tokens={2: 3}), keep=point)
    assert torch.equal(seen[point][:, 2], other[point][:, 3])
    torch.testing.assert_close(after[:, :2], before[:, :2], rtol=1e-12, atol=1e-12)
    changed = (after - before).abs().amax(dim=-1) > 1e-9  # (batch, length)
    assert changed.any(dim=0).tolist() == [False, False, True, True, True]


def test_rows_of_a_pattern_and_keys_are_patched_along_their_tokens() -> None:
    model = network("transformer encoder")
    given, scope = inputs("transformer encoder", padded=False), "encoder.layers.0.self_attention"
    other = run(model, inputs("transformer encoder", 1, padded=False), keep="*")[1]
    names = [f"{scope}.pattern", f"{scope}.value"]
    ours = run(model, given, keep="*")[1]
    seen = run(model, given, from_trace(other, names, tokens={1: 4}), keep=names)[1]
    for name in names:
        assert torch.equal(seen[name][:, :, 1], other[name][:, :, 4])
        assert_same(seen[name][:, :, 2:], ours[name][:, :, 2:])


def test_one_step_of_a_loop_by_its_name() -> None:
    model, point = network("lstm"), "decoder.recurrent.layers.0.lstm.cell"
    other = run(model, inputs("lstm", 1), keep="*")[1]
    edit = from_trace(other, f"{point}@2")
    assert list(edit) == [f"{point}@2"]
    seen = run(model, inputs("lstm"), edit, keep=point)[1]
    assert torch.equal(seen[point][:, 2], other[point][:, 2])


def test_runs_that_cannot_be_patched_are_refused() -> None:
    model, gru = network("translator"), network("gru")
    given = inputs("translator", padded=False)
    other = run(model, inputs("translator", 1, padded=False, length=7), keep="*")[1]
    sums = "encoder.layers.0.feedforward_residual.sum"
    with pytest.raises(TraceError, match=r"shape \(2, 5, 8\) here, but \(2, 7, 8\).*tokens="):
        run(model, given, from_trace(other, sums))
    with pytest.raises(TraceError, match="0 to 4 in this text"):
        run(model, given, from_trace(other, sums, tokens={5: 0}))
    with pytest.raises(TraceError, match="0 to 6 in the other"):
        run(model, given, from_trace(other, sums, tokens={0: 7}))
    with pytest.raises(TraceError, match="except queries"):
        run(model, given, from_trace(other, "*.0.self_attention.pattern", tokens={0: 0}))
    with pytest.raises(TraceError, match="has no token axis"):
        run(model, given, from_trace(other, "*.scale", tokens={0: 0}))
    with pytest.raises(TraceError, match="from 0"):
        from_trace(other, sums, tokens={})
    with pytest.raises(UnknownPointError, match=r"Did you mean .*\*\.pattern"):
        from_trace(other, "*.patern")
    with pytest.raises(UnknownPointError, match=r"Did you mean head\.logits"):
        from_trace(other, "head.logit")
    with pytest.raises(UnknownPointError, match="not computed position by position"):
        from_trace(other, f"{sums}@2")
    for length in (4, 7):  # too short, too long: the loop itself would not notice
        loop = run(gru, inputs("gru", 1, length=length), keep="*")[1]
        with pytest.raises(TraceError, match=rf"\(2, 5, 8\) here, but \(2, {length}, 8\)"):
            run(gru, inputs("gru"), from_trace(loop, "*.0.forward.gru.hidden"))
    with pytest.raises(TraceError, match="0 to 4 in this text"):
        run(gru, inputs("gru"), from_trace(loop, "*.0.forward.gru.hidden", tokens={5: 5}))


# --- switches


@pytest.mark.parametrize("name", CONFIGS)
def test_every_switch_meets_its_points_and_does_something(name: str) -> None:
    model, given = network(name), inputs(name)
    plain, whole = run(model, given, keep="*")
    found = switches(model)
    assert len({switch.key for switch in found}) == len({switch.name for switch in found})
    assert len({switch.key for switch in found}) == len(found) > 0
    for switch in found:
        said = run(model, given, switch.edit)[0]  # checks that every pattern meets a point
        assert bool(said.isfinite().all()), switch.key
        assert not torch.allclose(said, plain, rtol=0, atol=1e-9), switch.key
    heads = sum(point.shape[1] for point in map(whole.__getitem__, whole.names("*.mixed")))
    assert heads == sum(switch.kind == "heads" for switch in found)


def test_all_kinds_are_there_and_a_perceptron_has_none() -> None:
    kinds = {switch.kind for name in CONFIGS for switch in switches(network(name))}
    assert kinds == set(KINDS)
    assert switches(build(PerceptronConfig(inputs=2))) == []


def by_key(model: Network, key: str) -> Switch:
    (found,) = [switch for switch in switches(model) if switch.key == key]
    return found


@pytest.mark.parametrize("name", ["transformer encoder", "transformer decoder", "translator"])
def test_a_head_is_off_where_its_columns_of_the_output_are_zero(name: str) -> None:
    model, given = network(name), inputs(name)
    for switch in choose(switches(model), ["heads"]):
        changed = deepcopy(model)
        attention: Any = changed.get_submodule(switch.key.rpartition(".head.")[0])
        assert switch.head is not None
        first = switch.head * attention.d_head
        attention.output.weight.data[:, first : first + attention.d_head] = 0
        assert_same(run(model, given, switch.edit)[0], run(changed, given)[0])


@pytest.mark.parametrize("name", ["transformer encoder", "translator", "gated"])
def test_a_branch_is_off_where_its_last_weights_are_zero(name: str) -> None:
    model, given = network(name), inputs(name)
    for switch in choose(switches(model), ["attention", "feedforward", "layers"]):
        changed = deepcopy(model)
        last = [
            part
            for path, part in changed.get_submodule(switch.key).named_modules()
            if path.endswith("output") and isinstance(part, torch.nn.Linear)
        ]
        crossed = "decoder" in switch.key and name == "translator"
        assert len(last) == (2 + crossed if switch.kind == "layers" else 1)
        for part in last:
            part.weight.data.zero_()
            part.bias.data.zero_()
        assert_same(run(model, given, switch.edit)[0], run(changed, given)[0])


@pytest.mark.parametrize("name", ["lstm", "gru", "lstm translator"])
def test_a_gate_stands_still_where_its_bias_is_large(name: str) -> None:
    model, given = network(name), inputs(name)
    order = {"lstm": ("input", "forget", "candidate", "output"), "gru": ("reset", "update", "n")}
    for switch in choose(switches(model), ["gates"]):
        point, _, value = switch.key.partition("=")
        stack, _, rest = point.partition(".layers.")
        layer, *way, cell, gate = rest.split(".")
        changed = deepcopy(model)
        recurrent_part: Any = changed.get_submodule(stack)
        *_, bias, _ = recurrent_part.weights(int(layer), way[0] if way else "forward")
        hidden = recurrent_part.hidden
        start = order[cell].index(gate.removesuffix("_gate")) * hidden
        bias.data[start : start + hidden] = 1000.0 if value == "1" else -1000.0
        assert_same(run(model, given, switch.edit)[0], run(changed, given)[0])


def test_positions_and_the_scale_against_models_without_them() -> None:
    """The same weights in a model that was built without."""
    for name, key, without in (
        ("transformer encoder", "encoder.positions", {"positions": "none"}),
        ("transformer decoder", "decoder.positions", {"positions": "none"}),
        ("transformer decoder", "decoder.masks.window", {"window": None}),
        ("transformer decoder", "decoder.scale", {"scaled": False}),
    ):
        model, given = network(name), inputs(name)
        other = build(CONFIGS[name].model_copy(update=without)).double().eval()
        other.load_state_dict(model.state_dict())
        assert_same(run(model, given, by_key(model, key).edit)[0], run(other, given)[0])


def test_an_open_mask_and_a_uniform_pattern() -> None:
    model, given = network("transformer decoder"), inputs("transformer decoder", padded=False)
    edit = together([by_key(model, f"decoder.masks.{name}") for name in ("causal", "window")])
    seen = run(model, given, edit, keep="*.mask")[1]
    assert all(bool(seen[name].all()) for name in seen)
    translator, batch = network("lstm translator"), inputs("lstm translator")
    edit = dict(by_key(translator, "decoder.alignment").edit)
    pattern = run(translator, batch, edit, keep="*.pattern")[1]["decoder.alignment.pattern"]
    mask = batch["source_mask"][:, None].double()
    assert_same(pattern, (mask / mask.sum(-1, keepdim=True)).expand_as(pattern))


def test_switches_thrown_together_are_all_thrown() -> None:
    model, given = network("translator"), inputs("translator")
    scope = "decoder.layers.0.cross_attention"
    heads = [switch for switch in switches(model) if switch.key.startswith(f"{scope}.head.")]
    seen = run(model, given, together(heads[:2]), keep=f"{scope}.mixed")[1][f"{scope}.mixed"]
    assert bool((seen == 0).all())
    one = run(model, given, heads[1].edit, keep=f"{scope}.mixed")[1][f"{scope}.mixed"]
    assert bool((one[:, 0] != 0).all())
    assert bool((one[:, 1] == 0).all())


def test_kinds_that_are_not_there_are_named() -> None:
    found = switches(network("lstm"))
    with pytest.raises(InputError, match=r"'gaets'.*mean gates.*has layers, gates"):
        choose(found, ["gaets"])
    with pytest.raises(InputError, match=r"no heads.*layers, gates"):
        choose(found, ["heads"])


def assert_same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
