"""Gradients = finite differences, for each part, by both of its paths."""

from collections.abc import Callable

import pytest
import torch
from tests.invariants.cases import CELLS, NORMS, close
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.func import functional_call

from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.parts.activations import ACTIVATIONS, softmax
from translucid.parts.alignment import make_alignment
from translucid.parts.attention import CrossAttention, Layout, SelfAttention, attend
from translucid.parts.cache import RecurrentState
from translucid.parts.characters import Characters
from translucid.parts.embedding import Embedding, LanguageHead
from translucid.parts.feedforward import Dense, make_feedforward
from translucid.parts.norms import Residual, Standardise, make_norm
from translucid.parts.positions import POSITIONS, PositionSetup, Rotary, rotate
from translucid.parts.recurrent import STEPS, CellName, Recurrent

pytestmark = pytest.mark.invariant("gradients = finite differences")
PATHS = pytest.mark.parametrize("traced", [False, True], ids=["fused", "by hand"])
MASK = torch.tensor(
    [[True, False, True], [False, False, False], [True, True, False]]
)  # a blind query


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def new_trace(traced: bool) -> NoTrace:
    return Trace() if traced else NO_TRACE


def check(
    part: nn.Module,
    call: Callable[..., Tensor | tuple[Tensor, ...]],
    *inputs: Tensor,
) -> None:
    """gradcheck `call(part, *inputs)` with respect to the inputs and every parameter."""
    part.double()
    for weight in part.parameters():
        nn.init.normal_(weight, std=0.5)
    names = [name for name, _ in part.named_parameters()]
    frame = _Call(part, call)

    def run(*values: Tensor) -> Tensor | tuple[Tensor, ...]:
        given, weights = values[: len(inputs)], values[len(inputs) :]
        named = {f"part.{name}": weight for name, weight in zip(names, weights, strict=True)}
        return functional_call(frame, named, given)

    weights = [weight.detach().clone().requires_grad_() for weight in part.parameters()]
    assert gradcheck(run, (*inputs, *weights), fast_mode=True)
    if not weights:
        return
    values = run(*inputs, *weights)
    total = sum(value.sum() for value in (values if isinstance(values, tuple) else (values,)))
    for name, gradient in zip(
        names, torch.autograd.grad(total, weights, allow_unused=True), strict=True
    ):
        assert gradient is not None, f"{name} plays no part, so its gradient was not checked"


class _Call(nn.Module):
    """A part and how to call it, as one module: functional_call swaps the weights of a module."""

    def __init__(self, part: nn.Module, call: Callable[..., Tensor | tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.part, self.call = part, call

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.call(self.part, *inputs)


@PATHS
@pytest.mark.parametrize("kv_heads", [2, 1])
def test_attend(kv_heads: int, traced: bool) -> None:
    q, k, v = drawn(1, 2, 3, 4), drawn(1, kv_heads, 3, 4), drawn(1, kv_heads, 3, 4)
    bias = drawn(1, 2, 3, 3)

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, Layout(MASK), trace=new_trace(traced))

    def biased(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return attend(q, k, v, Layout(MASK, bias=bias), trace=new_trace(traced))

    assert gradcheck(plain, (q, k, v))
    assert gradcheck(biased, (q, k, v, bias))


@PATHS
def test_characters(traced: bool) -> None:
    """With a word that ends early, and one without characters."""
    characters = torch.tensor([[[5, 9, 7], [3, 0, 0], [0, 0, 0]]])
    check(
        Characters(4, 3, d_character=2),
        lambda part, x: part.add(x, characters, new_trace(traced)),
        drawn(1, 3, 3),
    )


@PATHS
def test_softmax(traced: bool) -> None:
    assert gradcheck(lambda x: softmax(x, new_trace(traced)), (drawn(2, 4),))


@PATHS
def test_a_row_that_softmax_hides_has_gradient_0(traced: bool) -> None:
    hidden = torch.tensor([[0, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
    scores = drawn(3, 4).detach().masked_fill(hidden, -torch.inf).requires_grad_()
    pattern = softmax(scores, new_trace(traced))
    (slope,) = torch.autograd.grad((pattern * drawn(3, 4).detach()).sum(), scores)
    assert slope[hidden].tolist() == [0.0] * 5
    assert slope[[0, 2]].abs().sum() > 0
    assert pattern[1].tolist() == [0.0] * 4


@PATHS
@pytest.mark.parametrize("causal", [False, True], ids=["masked", "causal"])
def test_self_attention(causal: bool, traced: bool) -> None:
    angles = Rotary(d_head=2).angles(torch.arange(3)[None])
    layout = Layout(None if causal else MASK, causal=causal, angles=angles)
    check(
        SelfAttention(8, 4, 2),
        lambda part, x: part(x, layout, trace=new_trace(traced)),
        drawn(2, 3, 8),
    )


@PATHS
def test_cross_attention(traced: bool) -> None:
    """One of the sources has nothing to see."""
    mask = torch.tensor([[True, True, False], [False, False, False]])

    def call(part: CrossAttention, x: Tensor, memory: Tensor) -> Tensor:
        layout = Layout(mask[:, None, None])
        return part(x, part.project(memory), layout, trace=new_trace(traced))

    check(CrossAttention(8, 4, 2), call, drawn(2, 4, 8), drawn(2, 3, 8))


@PATHS
@pytest.mark.parametrize("name", ["additive", "dot"])
def test_alignment(name: str, traced: bool) -> None:
    mask = torch.tensor([[True, True, False], [False, False, False]])

    def call(part: nn.Module, hidden: Tensor, memory: Tensor) -> Tensor:
        return part(hidden, part.project(memory), mask, new_trace(traced))

    check(make_alignment(name, 4, 6), call, drawn(4, 2, 4), drawn(2, 3, 6))


@pytest.mark.parametrize("cell", CELLS)
def test_cells(cell: CellName) -> None:
    blocks = {"lstm": 4, "gru": 3}.get(cell, 1)
    weights = drawn(blocks * 3, 4), drawn(blocks * 3, 3), drawn(blocks * 3), drawn(blocks * 3)

    def run(x: Tensor, hidden: Tensor, memory: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        after = STEPS[cell](x, (hidden, memory), weights, NO_TRACE)
        return tuple(t for t in after if t is not None)

    assert gradcheck(run, (drawn(2, 4), drawn(2, 3), drawn(2, 3), *weights))


@PATHS
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent(cell: CellName, both: bool, traced: bool) -> None:
    """With holes and an empty row."""
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, False]])

    def call(part: Recurrent, x: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        state = RecurrentState(hidden, memory if cell == "lstm" else None)
        output, after = part(x, mask, state, new_trace(traced))
        return (output, after.hidden, *([] if after.cell is None else [after.cell]))

    rows = 4 if both else 2
    part = Recurrent(cell, 4, 3, 2, bidirectional=both)
    check(part, call, drawn(3, 3, 4), drawn(rows, 3, 3), drawn(rows, 3, 3))


@PATHS
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str, training: bool, traced: bool) -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    norm = make_norm(name, 5).train(training)
    check(norm, lambda part, x: part(x, mask, new_trace(traced)), drawn(2, 3, 5))


def test_standardise() -> None:
    part = Standardise(3)
    part.fit(torch.randn(9, 3, dtype=torch.float64))
    check(part, lambda part, x: part(x), drawn(4, 3))


@pytest.mark.parametrize("name", ["sinusoidal", "learned", "rotary", "alibi", "none"])
def test_positions(name: str) -> None:
    places = torch.tensor([[0, 1, 2], [0, 0, 1]])
    setup = PositionSetup(d_model=8, heads=4, d_head=2, max_length=8)
    scheme = POSITIONS[name].make(setup)

    def call(scheme: nn.Module, x: Tensor) -> Tensor:
        x = scheme.add(x, places)
        heads = x.unflatten(-1, (4, 2)).transpose(1, 2)
        angles, bias = scheme.angles(places), scheme.bias(places, places)
        turned = heads if angles is None else rotate(heads, angles)
        return attend(turned, turned, heads, Layout(bias=bias))

    check(scheme, call, drawn(2, 3, 8))


@pytest.mark.parametrize("name", [*ACTIVATIONS, "swiglu", "geglu"])
def test_feedforward(name: str) -> None:
    check(make_feedforward(4, 6, name), lambda part, x: part(x), drawn(2, 3, 4))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_dense(name: str) -> None:
    check(Dense(4, 4, name, residual=True), lambda part, x: part(x), drawn(3, 4))


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_residual(placement: str) -> None:
    frame = Residual(make_norm("layer", 4), placement)
    check(frame, lambda frame, x: frame.leave(x, frame.enter(x).square()), drawn(2, 3, 4))


@pytest.mark.parametrize("scale", [False, True])
def test_embedding_and_tied_head(scale: bool) -> None:
    """One table, used twice: its gradient is the sum of both uses."""
    embedding = Embedding(5, 4, scale=scale).double()
    head = LanguageHead(4, 5, tied=embedding).double()
    ids = torch.tensor([[0, 3, 3], [1, 4, 0]])

    def run(table: Tensor) -> Tensor:
        x = functional_call(embedding, {"table.weight": table}, ids)
        return functional_call(head, {"linear.weight": table}, torch.tanh(x))

    table = embedding.table.weight
    assert gradcheck(run, (table.detach().clone().requires_grad_(),))
    loss = head(torch.tanh(embedding(ids))).square().sum()
    again = table.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(run(again).square().sum(), again)
    close(torch.autograd.grad(loss, table)[0], expected)
