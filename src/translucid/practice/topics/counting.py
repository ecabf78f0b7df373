"""Topics: beam search and the number of parameters of a Transformer."""

from typing import Any

import numpy as np

from translucid.practice.topic import DIGITS, Draw, Part, Topic, slip
from translucid.worked import beam as worked_beam
from translucid.worked import params as worked_params
from translucid.worked.solution.solution import Solution

_FIRST, _SECOND = ("cat", "dog", "bird"), ("sleeps", "runs", "sings")
_ROWS = (
    [0.4, 0.35, 0.25], [0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.8, 0.15, 0.05],
    [0.9, 0.06, 0.04],
)  # fmt: skip


def _draw_beam(draw: Draw) -> dict[str, Any]:
    first = draw.choice(_ROWS[:3])
    rows = [draw.shuffled(draw.choice(_ROWS)) for _ in _FIRST]
    return {"first": draw.shuffled(first), "rows": rows}


def _solve_beam(v: Any) -> Solution:
    table = {"the": dict(zip(_FIRST, v.first, strict=True))}
    for word, row in zip(_FIRST, v.rows, strict=True):
        table[f"the {word}"] = dict(zip(_SECOND, row, strict=True))
    return worked_beam(table, beam_size=2, digits=DIGITS)


def _round(solution: Solution, number: int) -> list[Any]:
    """The candidates of a round of beam search, which follows greedy search."""
    value = [s.value for s in solution.steps if s.name == f"round {number}"][1]
    assert isinstance(value, list)
    return value


def _kept(solution: Solution) -> list[float]:
    scores = [row["score"] for row in _round(solution, 1) if row["kept"]]
    return sorted(np.exp(scores), reverse=True)


def _continued(solution: Solution) -> list[float]:
    """The best continuation of each kept prefix, the most probable prefix first."""
    prefixes = {f"the {row['word']}": row["score"] for row in _round(solution, 1) if row["kept"]}
    order = sorted(prefixes, key=lambda prefix: -prefixes[prefix])
    rows = _round(solution, 2)
    return [np.exp(max(r["score"] for r in rows if r["prefix"] == prefix)) for prefix in order]


def _probability_of_beam(solution: Solution) -> float:
    value: Any = next(step.value for step in solution.steps if step.name == "results")
    return float(value["beam"]["probability"])


def _order(v: Any) -> Any:
    return np.argsort(-v.first, kind="stable")


def _two(v: Any) -> Any:
    """The rows of both kept prefixes, the most probable prefix first."""
    return v.rows[_order(v)[:2]]


def _best_of_all(v: Any) -> Any:
    best = (v.first * v.rows.max(1)).max()
    return None if np.isclose(best, v.second.max()) else best


BEAM = Topic(
    "beam",
    "Beam search with two beams",
    "Every sentence ends after its second new word. Beam search keeps the two most probable "
    "prefixes in each round.",
    _draw_beam,
    _solve_beam,
    (
        Part("kept", "the probabilities of both kept prefixes after round 1, the larger first",
             lambda v: v.first[_order(v)[:2]], _kept),
        Part("second", "the probability of the best continuation of each of these prefixes, in the "
             "same order", lambda v: v.kept * _two(v).max(1), _continued),
        Part("best", "the probability of the sentence that beam search finds",
             lambda v: v.second.max(), _probability_of_beam),
    ),
    (
        slip("only-last", "Multiply the probability of the word by that of its prefix.",
             second=lambda v: _two(v).max(1)),
        slip("added", "Multiply the probabilities; only their logarithms are added.",
             second=lambda v: v.kept + _two(v).max(1)),
        slip("average", "Multiply the probabilities; do not average them.",
             second=lambda v: (v.kept + _two(v).max(1)) / 2),
        slip("rows-exchanged", "Look up the next words in the row of the same prefix.",
             second=lambda v: v.kept * _two(v)[::-1].max(1)),
        slip("worst-word", "Take the most probable next word.",
             second=lambda v: v.kept * _two(v).min(1)),
        slip("greedy", "Compare the continuations of both prefixes: that is the result of greedy "
             "search.", best=lambda v: v.second[0]),
        slip("all-prefixes", "Beam search continues only the two prefixes that it kept.",
             best=_best_of_all),
        slip("both", "The result is one sentence; do not add up the two.",
             best=lambda v: v.second.sum()),
        slip("logarithm", "That is the log-probability; the question asks for the probability.",
             best=lambda v: np.log(v.second.max())),
        slip("per-word", "Do not take the root: there is no length normalization here.",
             best=lambda v: np.sqrt(v.second.max())),
        slip("kept-logarithms", "Multiply probabilities; do not mix them with logarithms.",
             kept=lambda v: np.log(v.first[_order(v)[:2]])),
        slip("kept-normalized", "The probabilities of the kept prefixes do not have to sum to 1.",
             kept=lambda v: v.first[_order(v)[:2]] / v.first[_order(v)[:2]].sum()),
        slip("middle-word", "Take the most probable next word, not the second one.",
             second=lambda v: v.kept * np.sort(_two(v), 1)[:, 1]),
        slip("complement", "Multiply by the probability of the next word, not of all others.",
             second=lambda v: v.kept * (1 - _two(v).max(1))),
        slip("divided", "Multiply by the probability of the next word; do not divide.",
             second=lambda v: v.kept / _two(v).max(1)),
        slip("smaller", "Beam search returns the more probable sentence.",
             best=lambda v: v.second.min()),
        slip("multiplied", "The result is one sentence; do not multiply the two.",
             best=lambda v: v.second.prod()),
        slip("mean", "The result is one sentence; do not average the two.",
             best=lambda v: v.second.mean()),
        slip("negative-logarithm", "That is minus the log-probability; the question asks for the "
             "probability.", best=lambda v: -np.log(v.second.max())),
        slip("share", "Do not divide by the sum of both.",
             best=lambda v: v.second.max() / v.second.sum()),
    ),
    decimals=4,
    fits=lambda v: bool(v.second[1] > v.second[0]),  # greedy search finds another sentence
)  # fmt: skip


def _draw_params(draw: Draw) -> dict[str, Any]:
    d = draw.choice([6, 8, 10, 12, 16])
    return {"d": d, "h": 2, "N": draw.whole(3, 6), "ff": draw.choice([2, 4]) * d,
            "V": 10 * draw.whole(2, 9)}  # fmt: skip


PARAMS = Topic(
    "params",
    "The number of parameters of a decoder",
    "All matrices have biases. Each layer has two layer norms with gain and bias, and one more "
    "follows the last layer. Positions are sinusoidal; the output head is tied to the embedding.",
    _draw_params,
    lambda v: worked_params(v.d, v.h, v.N, d_ff=v.ff, vocab=v.V),
    (
        Part("att", "the parameters of self-attention in one layer",
             lambda v: 4 * v.d**2 + 4 * v.d, r"P_{\mathrm{att}}"),
        Part("f", "the parameters of the feed-forward part of one layer",
             lambda v: 2 * v.d * v.ff + v.ff + v.d, r"P_{\mathrm{ff}}"),
        Part("norm", "the parameters of both norms of one layer", lambda v: 4 * v.d,
             r"P_{\mathrm{norm}}"),
        Part("layer", "the parameters of one layer", lambda v: v.att + v.f + v.norm,
             r"P_{\mathrm{layer}}"),
        Part("e", "the parameters of the embedding", lambda v: v.V * v.d, "E"),
        Part("total", "the number of all parameters", lambda v: v.e + v.N * v.layer + 2 * v.d, "P"),
    ),
    (
        slip("no-attention-bias", "Count the biases of the four matrices of attention.",
             att=lambda v: 4 * v.d**2),
        slip("no-output-matrix", "Attention also has an output matrix W_O with its bias.",
             att=lambda v: 3 * v.d**2 + 3 * v.d),
        slip("per-head", "All heads share one matrix of size d_model x d_model for the queries.",
             att=lambda v: v.h * (3 * v.d**2 + 3 * v.d) + v.d**2 + v.d),
        slip("one-head", "Count the columns of all heads.",
             att=lambda v: (4 * v.d**2 + 4 * v.d) / v.h),
        slip("one-matrix", "The feed-forward part has two matrices.",
             f=lambda v: v.d * v.ff + v.ff + v.d),
        slip("no-feed-forward-bias", "Count both biases of the feed-forward part.",
             f=lambda v: 2 * v.d * v.ff),
        slip("equal-biases", "The second bias of the feed-forward part has d_model numbers.",
             f=lambda v: 2 * v.d * v.ff + 2 * v.ff),
        slip("half-the-norms", "Each layer has two norms, each with a gain and a bias.",
             norm=lambda v: 2 * v.d),
        slip("no-embedding", "Count the embedding.", total=lambda v: v.N * v.layer + 2 * v.d),
        slip("one-layer", "Count all layers.", total=lambda v: v.e + v.layer + 2 * v.d),
        slip("untied", "The output head is tied to the embedding and has no parameters of its own.",
             total=lambda v: 2 * v.e + v.N * v.layer + 2 * v.d),
        slip("no-final-norm", "Count the norm after the last layer.",
             total=lambda v: v.e + v.N * v.layer),
        slip("two-matrices", "Attention has four matrices: W_Q, W_K, W_V and W_O.",
             att=lambda v: 2 * v.d**2 + 2 * v.d),
        slip("three-biases", "Each of the four matrices of attention has a bias, W_O too.",
             att=lambda v: 4 * v.d**2 + 3 * v.d),
        slip("three-matrices", "The feed-forward part has two matrices; it has no gate.",
             f=lambda v: 3 * v.d * v.ff + 2 * v.ff + v.d),
        slip("d-for-d_ff", "The hidden layer of the feed-forward part has d_ff units.",
             f=lambda v: 2 * v.d**2 + 2 * v.d),
        slip("three-norms", "A decoder layer without cross-attention has two norms.",
             norm=lambda v: 6 * v.d),
        slip("four-norms", "Each layer has two norms, not four.", norm=lambda v: 8 * v.d),
        slip("sum-for-product", "The embedding has V rows of d numbers: multiply.",
             e=lambda v: v.V + v.d),
        slip("square-embedding", "The embedding has d columns, not V.", e=lambda v: v.V**2),
        slip("one-more-layer", "The number of layers is N, not N + 1.",
             total=lambda v: v.e + (v.N + 1) * v.layer + 2 * v.d),
        slip("half-final-norm", "The last norm has a gain and a bias.",
             total=lambda v: v.e + v.N * v.layer + v.d),
        slip("all-times-layers", "Only the layers are counted N times.",
             total=lambda v: v.N * (v.e + v.layer) + 2 * v.d),
    ),
    decimals=0,
)  # fmt: skip

TOPICS = (BEAM, PARAMS)
