"""Rules of names: there and back is where one was; what does not fit is said once, by pattern."""

import re

import pytest
import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.interop.formats.stored import StoredTensor
from translucid.interop.placing import grouped, place_weights
from translucid.interop.rules import (
    Blocks,
    ByHead,
    LayoutChange,
    OneRow,
    Pairs,
    Place,
    Transpose,
    WeightRule,
    constant,
    joined,
    of_layers,
    rule,
    to_theirs,
)
from translucid.parts.positions import Rotary, rotate

STEPS: dict[str, tuple[LayoutChange, tuple[int, ...]]] = {
    "transpose": (Transpose(), (6, 4)),
    "pairs": (Pairs(3), (24, 5)),
    "pairs of a bias": (Pairs(3), (24,)),
    "partial pairs": (Pairs(3, 4), (24, 5)),
    "pairs before values": (Pairs(3, 4, still=1), (32, 5)),
    "by head": (ByHead(4), (24, 5)),
    "blocks": (Blocks((2, 0, 3, 1)), (8, 5)),
    "one row": (OneRow(), (1, 9)),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_can_be_undone(name: str) -> None:
    step, shape = STEPS[name]
    x = torch.randn(shape)
    assert torch.equal(step.undo(step.apply(x)), x)
    y = step.apply(x)
    assert torch.equal(step.apply(step.undo(y)), y)
    if name != "one row":
        assert y.shape != x.shape or not torch.equal(y, x)


def halves_rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions as Llama's reference code has them: dimension i turns with i + d/2."""
    cos = torch.cat([angles.cos(), angles.cos()], dim=-1)[:, None]
    sin = torch.cat([angles.sin(), angles.sin()], dim=-1)[:, None]
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def test_rotating_pairs_equals_rotating_halves() -> None:
    heads, d, length = 3, 8, 7
    q, k = torch.randn(2 * heads * d, 11, dtype=torch.float64).chunk(2)
    positions = torch.arange(length)[None]
    x = torch.randn(1, length, 11, dtype=torch.float64)
    angles = Rotary(d).angles(positions)

    def scores(pairs: bool) -> Tensor:
        turned = []
        for weight in (q, k):
            weight = Pairs(heads).apply(weight) if pairs else weight
            y = (x @ weight.t()).unflatten(-1, (heads, d)).transpose(1, 2)
            turned.append(rotate(y, angles) if pairs else halves_rotated(y, angles))
        return turned[0] @ turned[1].transpose(-2, -1)

    assert torch.allclose(scores(True), scores(False), rtol=0, atol=1e-12)


def stored(tensors: dict[str, Tensor]) -> dict[str, StoredTensor]:
    return {
        name: StoredTensor(tuple(t.shape), str(t.dtype), t.nbytes, lambda t=t: t)  # type: ignore[misc]
        for name, t in tensors.items()
    }


class Small(nn.Module):
    """Two layers and a table, with a query that is alone and a key and value that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(7, 4))
        self.layers = nn.ModuleList()
        for _ in range(2):
            layer = nn.Module()
            layer.query, layer.kv = nn.Linear(4, 6), nn.Linear(4, 4)
            self.layers.append(layer)


def small_rules() -> list[WeightRule]:
    layer = [
        WeightRule(
            (Place("h.{}.attn.in_proj"),),
            (Place("layers.{}.query.weight", 6), Place("layers.{}.kv.weight", 4)),
        ),
        rule("h.{}.attn.q.bias", "layers.{}.query.bias", Pairs(3)),
        joined((Place("h.{}.k.bias", 3), Place("h.{}.v.bias", 1)), "layers.{}.kv.bias"),
    ]
    return [rule("wte", "table", Transpose()), *of_layers(layer, 2)]


def test_rules_convert_in_both_directions() -> None:
    model, other = Small(), Small()
    theirs = to_theirs(small_rules(), dict(model.state_dict()))
    assert theirs["wte"].shape == (4, 7)
    assert theirs["h.1.attn.in_proj"].shape == (10, 4)
    assert theirs["h.0.v.bias"].shape == (1,)
    extra = theirs | {"h.0.attn.mask": torch.ones(3, dtype=torch.bool)}
    unused = place_weights(other, small_rules(), stored(extra), [r"h\.\d+\.attn\.mask"], "x")
    assert unused == ["h.0.attn.mask"]
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    assert torch.equal(theirs["wte"].t(), model.table)
    assert torch.equal(theirs["h.1.attn.in_proj"][6:], model.layers[1].kv.weight)  # type: ignore[union-attr]


def test_misfits_are_reported_together() -> None:
    model = Small()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    theirs = to_theirs(small_rules(), dict(model.state_dict()))
    theirs = {name: torch.zeros_like(t) for name, t in theirs.items()}
    del theirs["h.0.attn.q.bias"], theirs["h.1.attn.q.bias"]
    theirs |= {"h.0.more": torch.ones(1), "h.1.more": torch.ones(1), "odd": torch.ones(2)}
    theirs["wte"] = torch.ones(5, 7)
    theirs["h.1.v.bias"] = torch.ones(2)
    with pytest.raises(InputError) as failure:
        place_weights(model, small_rules(), stored(theirs), (), "folder")
    message = str(failure.value)
    assert message.startswith("folder: ")
    assert "2 missing: h.{}.attn.q.bias (2 times)" in message
    assert "3 unknown: h.{}.more (2 times), odd" in message
    assert "2 with a wrong shape: " in message
    assert "wte [5, 7], expected [4, 7]" in message
    assert "h.{}.v.bias [2], expected [1]" in re.sub(r"\.\d\.", ".{}.", message)
    for name, value in model.state_dict().items():  # nothing was read
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value: float) -> None:
    model = Small()
    theirs = to_theirs(small_rules(), dict(model.state_dict()))
    theirs["wte"][1, 2] = value
    with pytest.raises(InputError, match=r"wte .*not finite"):
        place_weights(model, small_rules(), stored(theirs), (), "folder")


def test_integer_weights_are_refused() -> None:
    model = Small()
    theirs = to_theirs(small_rules(), dict(model.state_dict()))
    theirs["wte"] = torch.ones(4, 7, dtype=torch.int8)
    with pytest.raises(InputError, match=r"wte .*torch\.int8"):
        place_weights(model, small_rules(), stored(theirs), (), "folder")


def test_names_are_grouped_by_pattern() -> None:
    names = [f"model.layers.{i}.w{k}.lora_A" for i in range(11) for k in (1, 2)]
    shown = grouped([*names, "a/layer_3/b", "a/layer_14/b"])
    assert shown == (
        "model.layers.{}.w1.lora_A (11 times), model.layers.{}.w2.lora_A (11 times), "
        "a/layer_{}/b (2 times)"
    )


def test_constants_are_filled_in() -> None:
    model = nn.Linear(3, 3)
    nn.init.ones_(model.weight)
    nn.init.ones_(model.bias)
    place_weights(model, [constant("weight", "identity"), constant("bias", "zeros")], {}, (), "x")
    assert torch.equal(model.weight, torch.eye(3))
    assert torch.equal(model.bias, torch.zeros(3))
