"""Topics: attention with one head, a causal mask or several heads, and positions."""

from typing import Any

import numpy as np

from translucid.practice.topic import DIGITS, Draw, Part, Topic, slip, softmax
from translucid.worked import attention as worked_attention
from translucid.worked import multihead as worked_multihead
from translucid.worked import positions as worked_positions


def _draw(draw: Draw) -> dict[str, Any]:
    names, low, high = ("q", "k", "v"), -1, 2
    return {name: draw.ints(3, 2, low=low, high=high) for name in names}


def _varied(v: Any) -> bool:
    """Whether no two rows of a matrix are equal, and none is 0."""
    return all(len({*map(tuple, m), (0.0, 0.0)}) == 4 for m in (v.q, v.k, v.v))


_SCORES = Part("s", r"the scores $S = Q K^{\top}$", lambda v: v.q @ v.k.T, "attention.scores")
_SCALED = Part(
    "scaled", r"the scaled scores $S'$", lambda v: v.s / np.sqrt(v.q.shape[1]), "attention.scaled"
)
_MIXED = Part("mixed", "the output $Y$", lambda v: v.a @ v.v, "attention.mixed")
_WRONG = (
    slip("transposed-scores", "Each row of S belongs to a query: compute Q Kᵀ, not K Qᵀ.",
         s=lambda v: v.k @ v.q.T),
    slip("queries-twice", "The scores compare queries with keys: compute Q Kᵀ, not Q Qᵀ.",
         s=lambda v: v.q @ v.q.T),
    slip("keys-twice", "The scores compare queries with keys: compute Q Kᵀ, not K Kᵀ.",
         s=lambda v: v.k @ v.k.T),
    slip("no-scale", "Divide the scores by √d_k.", scaled=lambda v: v.s),
    slip("d_k-for-root", "Divide by √d_k, not by d_k.", scaled=lambda v: v.s / v.q.shape[1]),
    slip("root-of-keys", "d_k is the number of columns of Q and K, not the number of keys.",
         scaled=lambda v: v.s / np.sqrt(len(v.k))),
    slip("multiplied", "Divide the scores by √d_k; do not multiply.",
         scaled=lambda v: v.s * np.sqrt(v.q.shape[1])),
)  # fmt: skip
_WRONG_OUTPUT = (
    slip("transposed-pattern", "Row i of the output mixes the values with row i of A: compute A V.",
         mixed=lambda v: v.a.T @ v.v),
    slip("keys-for-values", "The weights A mix the values V, not the keys K.",
         mixed=lambda v: v.a @ v.k),
    slip("queries-for-values", "The weights A mix the values V, not the queries Q.",
         mixed=lambda v: v.a @ v.q),
)  # fmt: skip

ATTENTION = Topic(
    "attention",
    "Attention with one head",
    r"Compute $\mathrm{softmax}(Q K^{\top} / \sqrt{d_k})\, V$.",
    _draw,
    lambda v: worked_attention(v.q, v.k, v.v, digits=DIGITS),
    (
        _SCORES,
        _SCALED,
        Part("a", "the attention weights $A$", lambda v: softmax(v.scaled), "attention.pattern"),
        _MIXED,
    ),
    (
        *_WRONG,
        slip("wrong-axis", "Apply the softmax to each row, not to each column.",
             a=lambda v: softmax(v.scaled, 0)),
        slip("whole-matrix", "Apply the softmax to each row by itself, not to the whole matrix.",
             a=lambda v: softmax(v.scaled, None)),
        slip("no-sum", "Divide the exponentials of each row by their sum.",
             a=lambda v: np.exp(v.scaled)),
        slip("no-softmax", "Apply the softmax before you mix the values.", a=lambda v: v.scaled),
        slip("base-2", "Use powers of e, not of 2.", a=lambda v: softmax(v.scaled * np.log(2))),
        *_WRONG_OUTPUT,
    ),
    fits=_varied,
)  # fmt: skip


def _causal(v: Any) -> Any:
    return np.tri(len(v.q), dtype=bool)


def _hidden(v: Any, mask: Any, value: float = -np.inf) -> Any:
    return np.where(mask, v.scaled, value)


MASKED_ATTENTION = Topic(
    "masked-attention",
    "Attention with a causal mask",
    r"Each query attends only to its own and earlier positions: mask the scores, then compute "
    r"$\mathrm{softmax}(\cdot)\, V$.",
    _draw,
    lambda v: worked_attention(v.q, v.k, v.v, causal=True, digits=DIGITS),
    (
        _SCORES,
        _SCALED,
        Part("a", "the attention weights $A$", lambda v: softmax(_hidden(v, _causal(v))),
             "attention.pattern"),
        _MIXED,
    ),
    (
        *_WRONG,
        slip("no-mask", "Mask the scores of later keys.", a=lambda v: softmax(v.scaled)),
        slip("mask-after-softmax", "Mask before the softmax: after it, the rows no longer sum to "
             "1.", a=lambda v: softmax(v.scaled) * _causal(v)),
        slip("zero-for-infinity", "A masked score is minus infinity, not 0: exp(0) is 1.",
             a=lambda v: softmax(_hidden(v, _causal(v), 0.0))),
        slip("mask-transposed", "Query i may attend to keys 1 to i; your mask hides those.",
             a=lambda v: softmax(_hidden(v, _causal(v).T))),
        slip("wrong-axis", "Apply the softmax to each row, not to each column.",
             a=lambda v: softmax(_hidden(v, _causal(v)), 0)),
        slip("no-sum", "Divide the exponentials of each row by their sum.",
             a=lambda v: np.exp(_hidden(v, _causal(v)))),
        *_WRONG_OUTPUT,
    ),
    fits=_varied,
)  # fmt: skip


def _head(v: Any, i: int) -> Any:
    return v.x[:, 2 * i : 2 * i + 2]


def _every(i: int, step: int = 2) -> slice:
    return slice(i, None, step)


MULTIHEAD = Topic(
    "multihead",
    "Attention with two heads",
    r"All weight matrices are the identity, so $Q = K = V = X$. Head 1 uses columns 1 and 2, head "
    "2 columns 3 and 4.",
    lambda draw: {"x": draw.ints(2, 4, low=-1, high=2)},
    lambda v: worked_multihead(v.x, 2, identity=True, digits=DIGITS),
    (
        Part("s1", "the scores $S_1$ of head 1", lambda v: _head(v, 0) @ _head(v, 0).T,
             "attention.scores"),
        Part("a1", "the attention weights $A_1$", lambda v: softmax(v.s1 / np.sqrt(2)),
             "attention.pattern"),
        Part("y1", "the output $Y_1$ of head 1", lambda v: v.a1 @ _head(v, 0), "attention.mixed"),
        Part("s2", "the scores $S_2$ of head 2", lambda v: _head(v, 1) @ _head(v, 1).T,
             "attention.scores@1"),
        Part("a2", "the attention weights $A_2$", lambda v: softmax(v.s2 / np.sqrt(2)),
             "attention.pattern@1"),
        Part("y2", "the output $Y_2$ of head 2", lambda v: v.a2 @ _head(v, 1),
             "attention.mixed@1"),
        Part("out", "the output $O$", lambda v: np.hstack([v.y1, v.y2]), "attention.output"),
    ),
    (
        slip("one-head", "Each head computes its scores from its own columns only.",
             s1=lambda v: v.x @ v.x.T, s2=lambda v: v.x @ v.x.T),
        slip("columns-alternate", "Head 1 uses the first half of the columns, not every other one.",
             s1=lambda v: v.x[:, _every(0)] @ v.x[:, _every(0)].T,
             y1=lambda v: v.a1 @ v.x[:, _every(0)],
             s2=lambda v: v.x[:, _every(1)] @ v.x[:, _every(1)].T,
             y2=lambda v: v.a2 @ v.x[:, _every(1)]),
        slip("no-scale", "Divide the scores by √d_k.",
             a1=lambda v: softmax(v.s1), a2=lambda v: softmax(v.s2)),
        slip("d_model", "d_k is the number of columns of one head, here 2.",
             a1=lambda v: softmax(v.s1 / 2), a2=lambda v: softmax(v.s2 / 2)),
        slip("wrong-axis", "Apply the softmax to each row, not to each column.",
             a1=lambda v: softmax(v.s1 / np.sqrt(2), 0),
             a2=lambda v: softmax(v.s2 / np.sqrt(2), 0)),
        slip("no-softmax", "Apply the softmax before you mix the values.",
             a1=lambda v: v.s1 / np.sqrt(2), a2=lambda v: v.s2 / np.sqrt(2)),
        slip("same-weights", "Head 2 has its own scores and weights.", a2=lambda v: v.a1),
        slip("same-values", "Head 2 mixes its own columns of V.", y2=lambda v: v.a2 @ _head(v, 0)),
        slip("swapped", "Head 1 comes first in the output.",
             out=lambda v: np.hstack([v.y2, v.y1])),
        slip("interleaved", "The output has all columns of head 1, then all of head 2.",
             out=lambda v: np.hstack([v.y1, v.y2])[:, [0, 2, 1, 3]]),
        slip("one-twice", "The second half of the output is head 2.",
             out=lambda v: np.hstack([v.y1, v.y1])),
        slip("no-sum", "Divide the exponentials of each row by their sum.",
             a1=lambda v: np.exp(v.s1 / np.sqrt(2)), a2=lambda v: np.exp(v.s2 / np.sqrt(2))),
        slip("whole-matrix", "Apply the softmax to each row by itself.",
             a1=lambda v: softmax(v.s1 / np.sqrt(2), None),
             a2=lambda v: softmax(v.s2 / np.sqrt(2), None)),
        slip("multiplied", "Divide the scores by √d_k; do not multiply.",
             a1=lambda v: softmax(v.s1 * np.sqrt(2)), a2=lambda v: softmax(v.s2 * np.sqrt(2))),
        slip("averaged", "Put the heads beside each other; do not average them.",
             out=lambda v: np.hstack([(v.y1 + v.y2) / 2] * 2)),
        slip("added", "The output of the heads is not added to X here.",
             out=lambda v: v.x + np.hstack([v.y1, v.y2])),
    ),
)  # fmt: skip


def _rates(v: Any) -> Any:
    return v.base ** -np.array([0.0, 0.5])  # 4 dimensions: two pairs


def _interleave(first: Any, second: Any) -> Any:
    return np.stack([first, second], -1).ravel()


POSITIONS = Topic(
    "positions",
    "A sinusoidal position vector",
    "Compute the position vector with 4 dimensions. The angles are in radians.",
    lambda draw: {"p": draw.whole(1, 9), "base": draw.choice([16.0, 100.0, 10000.0])},
    lambda v: worked_positions(4, [v.p], base=v.base, digits=DIGITS),
    (
        Part("angles", r"the angles $p / b^{2i/d}$ of both pairs", lambda v: v.p * _rates(v),
             "positions.angles"),
        Part("pe", "the position vector", lambda v: _interleave(np.sin(v.angles), np.cos(v.angles)),
             "positions.encoding"),
    ),
    (
        slip("i-for-2i", "The exponent of pair i is 2i/d, not i/d.",
             angles=lambda v: v.p * v.base ** -np.array([0.0, 0.25])),
        slip("full-exponent", "The exponent of the second pair is 2/d = 1/2, not 1.",
             angles=lambda v: v.p / v.base ** np.array([0.0, 1.0])),
        slip("multiplied", "Divide the position by the power of b.",
             angles=lambda v: v.p / _rates(v)),
        slip("equal-angles", "The second pair rotates more slowly.",
             angles=lambda v: v.p + 0 * _rates(v)),
        slip("pairs-from-1", "Pairs are counted from 0.",
             angles=lambda v: v.p * v.base ** -np.array([0.5, 1.0])),
        slip("position-from-1", "Use the position as given; positions are counted from 0.",
             angles=lambda v: (v.p + 1) * _rates(v)),
        slip("degrees", "The angles are in radians, not in degrees.",
             pe=lambda v: _interleave(np.sin(np.radians(v.angles)), np.cos(np.radians(v.angles)))),
        slip("cosine-first", "Each pair is the sine, then the cosine.",
             pe=lambda v: _interleave(np.cos(v.angles), np.sin(v.angles))),
        slip("halves", "The sine and cosine of a pair are adjacent; do not put all sines first.",
             pe=lambda v: np.hstack([np.sin(v.angles), np.cos(v.angles)])),
        slip("only-sines", "The second number of each pair is the cosine.",
             pe=lambda v: _interleave(np.sin(v.angles), np.sin(v.angles))),
        slip("no-position", "Multiply by the position p.", angles=lambda v: _rates(v)),
        slip("squared-base", "The exponent of the second pair is 2/d, not 2.",
             angles=lambda v: v.p / v.base ** np.array([0.0, 2.0])),
        slip("turns", "The angles are in radians; do not multiply by 2π.",
             pe=lambda v: _interleave(np.sin(2 * np.pi * v.angles), np.cos(2 * np.pi * v.angles))),
        slip("backwards", "The angles are positive.",
             pe=lambda v: _interleave(np.sin(-v.angles), np.cos(-v.angles))),
        slip("pairs-reversed", "The first pair is the one with the exponent 0.",
             pe=lambda v: _interleave(np.sin(v.angles[::-1]), np.cos(v.angles[::-1]))),
        slip("squares", "Take the sine and the cosine, not their squares.",
             pe=lambda v: _interleave(np.sin(v.angles), np.cos(v.angles)) ** 2),
    ),
)  # fmt: skip


def _turn(x: Any, angles: Any) -> Any:
    even, odd = x[0::2], x[1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return _interleave(even * cos - odd * sin, even * sin + odd * cos)


def _turn_halves(x: Any, angles: Any) -> Any:
    cos, sin = np.cos(angles), np.sin(angles)
    return np.hstack([x[:2] * cos - x[2:] * sin, x[:2] * sin + x[2:] * cos])


def _both(turn: Any) -> dict[str, Any]:
    """A slip in the rotation, made for the query and for the key."""
    return {
        "q_m": lambda v: turn(v.q, v.m * _rates(v)),
        "k_n": lambda v: turn(v.k, v.n * _rates(v)),
    }


ROTARY = Topic(
    "rotary",
    "Rotary positions",
    lambda v: f"Rotate the query at position {v.m} and the key at position {v.n}, then compute "
    "their score without scaling. Pair $i$ (two adjacent numbers, counted from 0) at position "
    "$p$ is rotated by $p / b^{2i/d}$ radians.",
    lambda draw: {"q": draw.ints(4), "k": draw.ints(4), "m": draw.whole(3, 6),
                  "n": draw.whole(1, 2), "base": 100.0},
    lambda v: worked_positions(
        rotary=True, q=v.q, k=v.k, pairs=[[v.m, v.n]], base=v.base, digits=DIGITS
    ),
    (
        Part("q_m", "the rotated query", lambda v: _turn(v.q, v.m * _rates(v)),
             "attention.rotated_query"),
        Part("k_n", "the rotated key", lambda v: _turn(v.k, v.n * _rates(v)),
             "attention.rotated_key"),
        Part("score", "the score", lambda v: v.q_m @ v.k_n, "attention.scores"),
    ),
    (
        slip("clockwise", "The first number of a rotated pair is a cos θ - b sin θ.",
             **_both(lambda x, angles: _turn(x, -angles))),
        slip("degrees", "The angles are in radians, not in degrees.",
             **_both(lambda x, angles: _turn(x, np.radians(angles)))),
        slip("equal-angles", "The second pair rotates more slowly.",
             **_both(lambda x, angles: _turn(x, angles[:1]))),
        slip("halves", "A pair consists of two adjacent numbers.", **_both(_turn_halves)),
        slip("only-cosine", "A rotation mixes both numbers of a pair.",
             **_both(lambda x, angles: x * np.repeat(np.cos(angles), 2))),
        slip("sine-cosine", "You exchanged the sine and the cosine.",
             **_both(lambda x, angles: _turn(x, np.pi / 2 - angles))),
        slip("no-query", "Rotate the query too.", q_m=lambda v: v.q),
        slip("no-key", "Rotate the key too.", k_n=lambda v: v.k),
        slip("same-position", "The key is rotated by its own position n.",
             k_n=lambda v: _turn(v.k, v.m * _rates(v))),
        slip("key-reversed", "Rotate the key in the same direction as the query.",
             k_n=lambda v: _turn(v.k, -v.n * _rates(v))),
        slip("scaled", "This exercise asks for the score before scaling.",
             score=lambda v: v.q_m @ v.k_n / 2),
        slip("one-pair", "The score adds up both pairs.",
             score=lambda v: v.q_m[:2] @ v.k_n[:2]),
        slip("first-pair-only", "Rotate both pairs.",
             **_both(lambda x, angles: np.hstack([_turn(x[:2], angles[:1]), x[2:]]))),
        slip("turns", "The angles are in radians; do not multiply by 2π.",
             **_both(lambda x, angles: _turn(x, 2 * np.pi * angles))),
        slip("positions-exchanged", "The query has the position m, the key the position n.",
             q_m=lambda v: _turn(v.q, v.n * _rates(v)), k_n=lambda v: _turn(v.k, v.m * _rates(v))),
        slip("sign-in-rotation", "The second number of a rotated pair is a sin θ + b cos θ.",
             **_both(lambda x, angles: _turn(x, angles) - 2 * np.repeat(np.sin(angles), 2)
                     * _interleave([0, 0], x[0::2]))),
        slip("difference", "Add both pairs; do not subtract the second.",
             score=lambda v: v.q_m[:2] @ v.k_n[:2] - v.q_m[2:] @ v.k_n[2:]),
        slip("cosine", "The score is the dot product; do not divide by the lengths.",
             score=lambda v: v.q_m @ v.k_n / np.sqrt((v.q_m @ v.q_m) * (v.k_n @ v.k_n))),
    ),
    fits=lambda v: bool(all(np.any(pair) for x in (v.q, v.k) for pair in (x[:2], x[2:]))),
)  # fmt: skip

TOPICS = (ATTENTION, MASKED_ATTENTION, MULTIHEAD, POSITIONS, ROTARY)
