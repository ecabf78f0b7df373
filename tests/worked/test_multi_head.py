"""Two heads side by side, the diagonal of a pattern, shapes, and the MLP on the same input.

Shapes: x (batch, length, d_model); per head (batch, heads, length, d_head).
"""

import pytest
import torch
from tests.worked.helpers import numbers, prints_as, same, self_attention, set_weights

from translucid.core.trace import Trace
from translucid.parts.attention import Layout, SelfAttention
from translucid.parts.feedforward import FeedForward

X2 = numbers("1 0; 0 1; 1 1")
X4 = numbers("1 2 0 1; 0 1 1 0; 1 1 1 1")
A1 = """0.733681106496889 0.08794873877550645 0.17837015472760462;
    0.5034898434845538 0.2482550782577231 0.2482550782577231;
    0.575975345215362 0.14002924504337802 0.28399540974126003"""
A2 = """0.4011120926797859 0.1977758146404282 0.4011120926797859;
    0.1977758146404282 0.4011120926797859 0.4011120926797859;
    0.2482550782577231 0.2482550782577231 0.5034898434845538"""
Y1 = """0.9120512612244936 1.7336811064968891; 0.7517449217422769 1.5034898434845538;
    0.859970754956622 1.575975345215362"""
Y2 = """0.5988879073202141 0.8022241853595719; 0.8022241853595719 0.5988879073202141;
    0.7517449217422769 0.7517449217422769"""
Y_SINGLE = """0.8022241853595719 0.5988879073202141; 0.5988879073202141 0.8022241853595719;
    0.7517449217422769 0.7517449217422769"""


@pytest.fixture
def two_heads():
    """Head 1 sees columns 1 and 2, head 2 columns 3 and 4: together the identity."""
    return self_attention(torch.eye(4), heads=2)


@pytest.fixture
def seen(two_heads):
    trace = Trace()
    two_heads(X4[None], Layout(), trace=trace.at("attention"))
    return trace


def test_w20_mlp_on_the_same_input():
    block = FeedForward(2, 4).double()
    set_weights(block.expand, "1 0; 0 1; 0 0; 0 0")  # W1 = [I 0], as (outputs, inputs)
    set_weights(block.output, "1 0 0 0; 0 1 0 0")  # W2 = [I; 0]
    trace = Trace()
    through = block(X2[None], trace.at("feedforward"))[0]
    same(trace["feedforward.activated"][0], "1 0 0 0; 0 1 0 0; 1 1 0 0")
    same(through, X2)
    attended = self_attention("1 0; 0 1", heads=1)(X2[None], Layout())[0]
    same(attended, Y_SINGLE)
    same((through - attended).abs().max(), 0.5988879073202141)

    # The block is the identity here only because no entry is negative.
    same(block(numbers("1 -1; -2 0.5; 1 1")), "1 0; 0 0.5; 1 1")
    # The source prints 0.751 in the last row of Y_att; it is 0.751745.
    assert prints_as(attended[2], "0.752 0.752", 3)
    assert not prints_as(attended, "0.802 0.599; 0.599 0.802; 0.751 0.751", 3)


def test_w21_two_heads_projections(seen):
    for point in ("query", "key", "value"):
        heads = seen[f"attention.{point}"][0]
        same(heads[0], "1 2; 0 1; 1 1")
        same(heads[1], "0 1; 1 0; 1 1")


def test_w22_two_heads_weights(seen):
    scores, scaled, pattern = (
        seen[f"attention.{point}"][0] for point in ("scores", "scaled", "pattern")
    )
    same(scores[0], "5 2 3; 2 1 1; 3 1 2")
    same(scores[1], "1 0 1; 0 1 1; 1 1 2")
    same(
        scaled[0],
        """3.5355339059327373 1.414213562373095 2.1213203435596424;
        1.414213562373095 0.7071067811865475 0.7071067811865475;
        2.1213203435596424 0.7071067811865475 1.414213562373095""",
    )
    same(pattern[0], A1)
    same(pattern[1], A2)
    assert prints_as(pattern[0], "0.734 0.088 0.178; 0.503 0.248 0.248; 0.576 0.14 0.284", 3)
    assert prints_as(pattern[1], "0.401 0.198 0.401; 0.198 0.401 0.401; 0.248 0.248 0.503", 3)


def test_w23_two_heads_output(two_heads, seen):
    mixed = seen["attention.mixed"][0]
    same(mixed[0], Y1)
    same(mixed[1], Y2)
    side_by_side = torch.cat([numbers(Y1), numbers(Y2)], dim=1)
    same(seen["attention.output"][0], side_by_side)
    same(two_heads(X4[None], Layout())[0], side_by_side)

    # Printed: row 2 of Y1 as [0.753, 1.502] and row 3 of Y2 as 0.751. Neither is right, and 0.753
    # does not follow from the source's own rounded weights either: those give [0.751, 1.502].
    assert prints_as(mixed[0, 1], "0.752 1.503", 3)
    assert not prints_as(mixed[0, 1], "0.753 1.502", 3)
    assert not prints_as(mixed[1, 2], "0.751 0.751", 3)
    rounded = Trace(edit={"*pattern": lambda pattern: pattern.round(decimals=3)})
    two_heads(X4[None], Layout(), trace=rounded.at("attention"))
    same(rounded["attention.mixed"][0, 0, 1], "0.751 1.502")


def test_w24_the_diagonal_is_not_always_largest(seen):
    single = Trace()
    self_attention("1 0; 0 1", heads=1)(X2[None], Layout(), trace=single.at("attention"))
    patterns = [
        single["attention.pattern"][0, 0],
        *seen["attention.pattern"][0],  # head 1, head 2
    ]
    a_largest = [[True, True, True], [True, False, False], [True, True, True]]
    the_largest = [[False, False, True], [True, False, False], [False, False, True]]
    for pattern, among, alone in zip(patterns, a_largest, the_largest, strict=True):
        diagonal = pattern.diagonal()
        off = pattern.masked_fill(torch.eye(3, dtype=torch.bool), 0.0).amax(-1)
        assert (diagonal >= off - 1e-12).tolist() == among
        assert (diagonal > off + 1e-12).tolist() == alone

    # Head 1: token 1 is the longer vector, so tokens 2 and 3 look at it more than at themselves.
    same(patterns[1][1:, 0], "0.5034898434845538 0.575975345215362")
    same(patterns[1].diagonal()[1:], "0.2482550782577231 0.28399540974126003")


def test_w25_attention_shapes():
    layer = SelfAttention(512, heads=1).double()
    trace = Trace()
    out = layer(torch.ones(1, 6, 512, dtype=torch.float64), Layout(), trace=trace.at("attention"))
    assert trace["attention.query"].shape == (1, 1, 6, 512)
    assert trace["attention.key"].transpose(-2, -1).shape == (1, 1, 512, 6)
    assert trace["attention.pattern"].shape == (1, 1, 6, 6)
    assert out.shape == (1, 6, 512)
    same(1 / trace["attention.scale"], 22.627416997969522)
    # d_k = 512 at d_model 512 means one head; with eight it is 64.
    assert SelfAttention(512, heads=8).d_head == 64
