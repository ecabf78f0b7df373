"""Backward passes in solutions, against gradients computed another way.

Recurrent cells are compared with torch's own modules and with plain Python, attention with torch's
fused kernel.
"""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.worked.helpers import numbers, same
from tests.worked.test_solutions import SEQUENCE, wide
from torch import Tensor, nn

from translucid import worked
from translucid.parts.recurrent_cells import BLOCKS
from translucid.worked.solution.solution import Solution

GOAL = [1.0, 0.0]


def values(solution: Solution) -> dict[str, Any]:
    """name -> value; the first of a name."""
    return {step.name: step.value for step in reversed(solution.steps)}


def theirs(cell: str) -> nn.RNNBase:
    """torch's module with the weights of `wide`."""
    kind = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
    module, weights = kind(2, 2, batch_first=True).double(), wide(cell)
    with torch.no_grad():
        for name, letter in (("weight_ih_l0", "W"), ("weight_hh_l0", "U"), ("bias_ih_l0", "b")):
            getattr(module, name).copy_(
                torch.cat([numbers(weights[letter + gate]) for gate in BLOCKS[cell]])
            )
        module.bias_hh_l0.zero_()
        if cell == "gru":
            module.bias_hh_l0[-2:] = numbers(weights["b_hn"])
    return module


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("kept", [1, 2, 3])
def test_truncated_gradients_are_those_of_the_last_steps_from_a_constant_state(
    cell: str, kept: int
) -> None:
    module, x = theirs(cell), numbers(SEQUENCE)[None]
    state = None
    if kept < 3:
        with torch.no_grad():
            state = module(x[:, :-kept])[1]
    loss = ((module(x[:, -kept:], state)[0][0, -1] - numbers(GOAL)) ** 2).sum() / 2
    loss.backward()
    solution = getattr(worked, cell)(SEQUENCE, wide(cell), target=GOAL, truncate=kept)
    slopes = values(solution)
    for letter, name in (("W", "weight_ih_l0"), ("U", "weight_hh_l0"), ("b", "bias_ih_l0")):
        ours = torch.cat([numbers(slopes[f"dL/d{letter}{gate}"]) for gate in BLOCKS[cell]])
        same(ours, getattr(module, name).grad)
    assert ("truncation" in slopes) == (kept < 3)
    full = values(getattr(worked, cell)(SEQUENCE, wide(cell), target=GOAL))
    for name, both in slopes.get("truncation", {}).items():
        assert both == {"truncated": slopes[f"dL/d{name}"], "full": full[f"dL/d{name}"]}


def test_truncation_cuts_the_gradient_of_earlier_states() -> None:
    solution = worked.rnn("1 -0.5 2", {"W": 0.5, "U": 0.8}, target=1, truncate=2)
    assert values(solution)["dL/dh"][0] == [0.0]
    assert values(solution)["dL/dh"][1] != [0.0]
    assert "$h_{1}$ is treated as a constant" in next(
        step.note for step in solution.steps if step.name == "dL/dh"
    )
    sections = [step.section for step in solution.steps]
    assert "Backward through step 2" in sections
    assert "Backward through step 1" not in sections


def test_the_recursion_of_an_rnn_in_plain_python() -> None:
    slopes = values(worked.rnn("1 -0.5 2", {"W": 0.5, "U": 0.8, "b": 0}, target=1))
    states = [0.0]
    for x in (1, -0.5, 2):
        states.append(math.tanh(0.5 * x + 0.8 * states[-1]))
    d_h = states[3] - 1
    for t in (3, 2, 1):
        assert slopes[f"dL/dh_{{{t}}}"] == pytest.approx([d_h], abs=1e-12)
        d_a = d_h * (1 - states[t] ** 2)
        assert slopes[f"dL/da_{{{t}}}"] == pytest.approx([d_a], abs=1e-12)
        d_h = 0.8 * d_a
    assert round(slopes["dL/dh_{2}"][0], 4) == -0.0583  # 0.8 · (-0.0728)


def test_the_recursion_of_a_gru_in_plain_python() -> None:
    """One unit: the gates and every path back, by hand."""
    w = {"r": (-0.25, 0.2), "z": (0.5, 0.1), "n": (0.75, 0.4)}
    slopes = values(worked.gru(target=1))
    before, kept = 0.0, []
    for x in (1, -0.5, 2):
        r, z = (1 / (1 + math.exp(-w[g][0] * x - w[g][1] * before)) for g in "rz")
        n = math.tanh(w["n"][0] * x + r * w["n"][1] * before)
        kept.append((before, r, z, n))
        before = (1 - z) * n + z * before
    d_h = before - 1
    for t, (h, r, z, n) in reversed([*enumerate(kept, 1)]):
        d_n = d_h * (1 - z) * (1 - n**2)
        d_z = d_h * (h - n) * z * (1 - z)
        d_r = d_n * w["n"][1] * h * r * (1 - r)
        for gate, slope in (("n", d_n), ("z", d_z), ("r", d_r)):
            assert slopes[f"dL/da_{{{gate},{t}}}"] == pytest.approx([slope], abs=1e-12)
        d_h = d_h * z + d_n * r * w["n"][1] + d_z * w["z"][1] + d_r * w["r"][1]
        if t > 1:
            assert slopes[f"dL/dh_{{{t - 1}}}"] == pytest.approx([d_h], abs=1e-12)


def test_the_cell_path_is_the_gradient_of_the_last_cell_without_recurrent_weights() -> None:
    weights = {name: w for name, w in wide("lstm").items() if name[0] != "U"}
    weights |= {f"U_{gate}": [[0.0, 0.0], [0.0, 0.0]] for gate in "figo"}
    module = nn.LSTM(2, 2, batch_first=True).double()
    gates = ("_i", "_f", "_g", "_o")
    with torch.no_grad():
        module.weight_ih_l0.copy_(torch.cat([numbers(weights[f"W{g}"]) for g in gates]))
        module.bias_ih_l0.copy_(torch.cat([numbers(weights[f"b{g}"]) for g in gates]))
        module.weight_hh_l0.zero_()
        module.bias_hh_l0.zero_()
    start = torch.zeros(1, 1, 2, dtype=torch.float64, requires_grad=True)
    _, (_, cell) = module(numbers(SEQUENCE)[None], (torch.zeros_like(start), start))
    (slope,) = torch.autograd.grad(cell.sum(), start)
    same(numbers(values(worked.lstm(SEQUENCE, weights, target=GOAL))["dc/dc0"]), slope[0, 0])


def test_one_number_of_a_recurrent_example_can_be_replaced() -> None:
    solution = worked.lstm(weights={"b_f": 10}, target=1)
    given = {item.name: item.value for item in solution.given}
    assert (given["b_f"], given["W_f"], given["b_i"]) == ([10.0], [[0.5]], [0.0])
    assert "All other numbers are a built-in example." in solution.text()
    assert values(solution)["dc/dc0"][0] > 0.999
    assert values(worked.lstm(target=1))["dc/dc0"][0] < 0.5


@pytest.mark.parametrize("given", [{"target": 1}, {"weights": {"U": 0.9}}, {"h0": 1}])
def test_a_single_number_selects_the_rnn_example_with_one_unit(given: dict[str, Any]) -> None:
    assert worked.rnn(**given).title == "RNN with one unit over 3 steps"
    assert worked.rnn().title == "RNN with 2 units over 3 steps"


# ---- attention ----


def attended(
    tables: list[Tensor], mask: Tensor | None, causal: bool, scale: float | None
) -> Tensor:
    q, k, v = (table[None, None] for table in tables)
    allowed = mask
    if causal:
        lower = torch.ones(len(tables[0]), len(tables[1]), dtype=torch.bool).tril()
        allowed = lower if mask is None else lower & mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)[0, 0]


@pytest.mark.parametrize("mask", [None, "1 1 0 1", "1 0 0 0; 1 1 0 1; 0 1 1 0; 1 1 1 1"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("unscaled", [False, True])
def test_attention_gradients_are_those_of_torchs_kernel(
    mask: str | None, causal: bool, unscaled: bool
) -> None:
    generator = torch.Generator().manual_seed(3)
    x, target = (torch.randn(4, n, generator=generator).double() for n in (3, 2))
    weights = [torch.randn(3, 2, generator=generator).double() for _ in "qkv"]
    leaves = [x.requires_grad_(), *(weight.requires_grad_() for weight in weights)]
    projected = [x @ weight for weight in weights]
    allowed = None if mask is None else numbers(mask).bool().expand(4, 4)
    if causal and allowed is not None and mask is not None and len(mask) > 10:
        allowed = allowed | torch.eye(4, dtype=torch.bool)  # every query sees a key
        mask = "; ".join(" ".join(str(int(n)) for n in row) for row in allowed)
    mixed = attended(projected, allowed, causal, 1.0 if unscaled else None)
    loss = ((target - mixed) ** 2).sum() / 2
    gradients = torch.autograd.grad(loss, [*leaves, *projected, mixed])
    tables = dict(zip(("wq", "wk", "wv"), (w.detach() for w in weights), strict=True))
    solution = worked.attention(
        x=x.detach(), **tables, causal=causal, mask=mask, unscaled=unscaled, target=target
    )
    shown = values(solution)
    assert shown["loss"] == pytest.approx(loss.item(), abs=1e-12)
    for name, gradient in zip(
        ("X", "W_Q", "W_K", "W_V", "Q", "K", "V", "Y"), gradients, strict=True
    ):
        same(numbers(shown[f"dL/d{name}"]), gradient)


def test_the_jacobian_of_the_softmax_is_that_of_autograd() -> None:
    solution = worked.attention("1 2; 0 1", "1 0; 2 1; 0 1", "1; 2; 4", target="1; 1")
    shown = values(solution)
    scores = numbers(shown["attention.scaled"])[1]
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), scores)
    assert isinstance(jacobian, Tensor)
    same(numbers(shown["jacobian"]), jacobian)
    same(jacobian @ numbers(shown["dL/dA"])[1], shown["dL/dS'"][1])
    assert shown["dL/ds_2"] == shown["dL/dS'"][1]


def test_a_query_without_visible_keys_has_weights_and_gradients_of_0() -> None:
    solution = worked.attention(mask="1 1 1; 0 0 0; 1 0 0", target="1 0; 0 1; 0 0")
    shown = values(solution)
    assert shown["attention.pattern"][1] == shown["dL/dS''"][1] == [0.0, 0.0, 0.0]
    assert shown["jacobian"] == [[0.0] * 3] * 3
    assert "nan" not in solution.json().lower()
    assert "A query without visible keys has only weights of 0." in solution.markdown()


def test_padding_is_the_same_as_leaving_out_the_key() -> None:
    q, k, v = "1 2; 0 1", "1 0; 2 1; 0 1", "1; 2; 4"
    masked = values(worked.attention(q, k, v, mask="1 1 0"))
    shorter = values(worked.attention(q, "1 0; 2 1", "1; 2"))
    same(numbers(masked["attention.mixed"]), shorter["attention.mixed"])
    assert [row[2] for row in masked["attention.pattern"]] == [0.0, 0.0]


def test_matrices_of_heads_are_the_columns_of_the_whole_matrix() -> None:
    x = "1 2 0 1; 0 1 1 0; 1 1 1 1"
    whole = "1 0 5 0; 0 1 0 0; 0 2 1 0; 3 0 0 1"
    parts = "1 0; 0 1; 0 2; 3 0 | 5 0; 0 0; 1 0; 0 1"
    assert worked.multihead(x, wq=parts) == worked.multihead(x, wq=whole, heads=2)
    nested = [[[1.0, 0], [0, 1], [0, 2], [3, 0]], [[5.0, 0], [0, 0], [1, 0], [0, 1]]]
    assert worked.multihead(x, wq=nested) == worked.multihead(x, wq=parts)
    assert worked.multihead(x, wq=torch.tensor(nested)) == worked.multihead(x, wq=parts)


@pytest.mark.parametrize(("causal", "mask", "unscaled"), [
    (False, None, False), (True, None, False), (False, "1 1 0 1", True), (True, "1 1 1 0", False),
])  # fmt: skip
def test_gradients_of_several_heads_are_those_of_torchs_kernel(
    causal: bool, mask: str | None, unscaled: bool
) -> None:
    generator = torch.Generator().manual_seed(4)
    x, target, *weights = (torch.randn(4, 4, generator=generator).double() for _ in range(6))
    leaves = [x.requires_grad_(), *(weight.requires_grad_() for weight in weights)]
    rows = [(x @ weight).unflatten(1, (2, 2)).transpose(0, 1) for weight in weights[:3]]
    allowed = None if mask is None else numbers(mask).bool().expand(4, 4)
    mixed = torch.stack([
        attended([row[head] for row in rows], allowed, causal, 1.0 if unscaled else None)
        for head in range(2)
    ])  # fmt: skip
    loss = ((mixed.transpose(0, 1).flatten(1) @ weights[3] - target) ** 2).sum() / 2
    gradients = torch.autograd.grad(loss, [*leaves, *rows])
    tables = dict(zip(("wq", "wk", "wv", "wo"), (w.detach() for w in weights), strict=True))
    solution = worked.attention(
        x=x.detach(), heads=2, **tables, causal=causal, mask=mask, unscaled=unscaled, target=target
    )
    shown = values(solution)
    assert shown["loss"] == pytest.approx(loss.item(), abs=1e-12)
    for name, gradient in zip(("X", "W_Q", "W_K", "W_V", "W_O"), gradients, strict=False):
        same(numbers(shown[f"dL/d{name}"]), gradient)
    for name, both in zip("QKV", gradients[5:], strict=True):
        for head in (1, 2):
            same(numbers(shown[f"dL/d{name}_{head}"]), both[head - 1])


def test_one_head_with_the_identity_as_output_has_the_gradients_of_attention() -> None:
    x, target = "1 2; 0 1; 1 1", "1 0; 0 1; 1 1"
    one = values(worked.attention(x=x, identity=True, target=target))
    many = values(worked.multihead(x, 1, identity=True, target=target))
    for name in ("A", "S'", "S", "Q", "K", "V"):
        same(numbers(many[f"dL/d{name}_1"]), one[f"dL/d{name}"])
    same(numbers(many["dL/dX"]), one["dL/dX"])
