"""The numbers of the solutions, each against a second way of getting them."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from tests.tiny.dealt import dealt
from tests.worked.arithmetic import compute

from translucid import worked
from translucid.core import catalogue
from translucid.core.errors import ConfigError, InputError
from translucid.core.trace import Trace
from translucid.models import TransformerConfig, build
from translucid.parts.attention import Layout, SelfAttention, attend
from translucid.parts.positions import Sinusoidal
from translucid.parts.recurrent_cells import BLOCKS
from translucid.worked.solution.solution import Solution

X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
A = [[0.2, -1.0, 0.5], [1.5, 0.3, -0.4]]
LSTM = {
    "W_f": 0.5, "U_f": 0.1, "b_f": 1.0, "W_i": -0.25, "U_i": 0.2,
    "W_g": 0.75, "U_g": 0.4, "W_o": 1.0, "U_o": -0.3,
}  # fmt: skip
WIDE: dict[str, Any] = {  # two inputs, two units, every bias
    name: torch.randn(*size, generator=torch.Generator().manual_seed(i)).mul(0.7).tolist()
    for i, (name, size) in enumerate(
        (letter + gate, (2,) if letter == "b" else (2, 2))
        for gate in ("", "_f", "_i", "_g", "_o", "_r", "_z", "_n", "_hn")
        for letter in ("W", "U", "b")
    )
}
SEQUENCE = [[1.0, 0.5], [-0.5, 0.25], [2.0, -1.0]]


def wide(cell: str) -> dict[str, Any]:
    names = [letter + gate for gate in BLOCKS[cell] for letter in ("W", "U", "b")]
    return {name: WIDE[name] for name in [*names, *(["b_hn"] if cell == "gru" else [])]}


def solutions(digits: int = 12) -> dict[str, Solution]:
    """One of each kind; with this many digits, what is written can be computed again."""
    d = {"digits": digits}
    return {
        "perceptron": worked.perceptron(**d),
        "perceptron answer": worked.perceptron("1 -2 0.5", "0.5 1 -3", 0.1, **d),
        "perceptron rate": worked.perceptron(
            "0.5 1 -1; 2 0.25 1; -1 0 3", "0.1 -0.3 2", 0.7, "1 0 0", rate=0.1, **d
        ),
        "softmax": worked.softmax("2 1 -0.5", target=2, **d),
        "softmax shifted": worked.softmax("800 799 -3", target=2, **d),
        "attention": worked.attention(x=X, identity=True, **d),
        "attention causal": worked.attention(A, A, X[:2], causal=True, **d),
        "attention unscaled": worked.attention(A, A, A, unscaled=True, **d),
        "attention shifted": worked.attention([[900.0, 1]], X, X, **d),
        "attention weights": worked.attention(
            x=X, wq="1 2; 3 4", wk="0 1; 1 0.5", wv="1 0 1; 0 1 -1", **d
        ),
        "attention padding": worked.attention(mask="1 1 0", **d),
        "attention backward": worked.attention(target="1 0; 0 1; 0 0", causal=True, **d),
        "attention backward weights": worked.attention(
            x=X, wq="1 2; 3 4", wk="0 1; 1 0.5", wv="1 0 1; 0 1 -1", unscaled=True,
            mask="1 1 0; 1 0 1; 1 1 1", target="1 0 0; 0 1 0; 0 0 0.5", **d,
        ),
        "attention backward direct": worked.attention(A, A, X[:2], target=X[1:], **d),
        "attention of one": worked.attention([[2.0]], [[3.0]], [[4.0]], **d),
        "multihead": worked.multihead("1 0 1 0; 0 1 0 1; 1 1 0 0", 2, identity=True, **d),
        "multihead weights": worked.multihead(
            X, 2, wq="1 2; 3 4", wk="0 1; 1 0.5", wv="1 0; 0 -1", wo="2 1; 0 1", causal=True, **d
        ),
        "multihead of heads": worked.multihead(
            "1 2 0 1; 0 1 1 0; 1 1 1 1", wq="1 0; 0 1; 0 0; 0 0 | 0 0; 0 0; 1 0; 0 1",
            mask="1 1 0", **d,
        ),
        "positions": worked.positions(6, [0, 1, 7], **d),
        "positions terms": worked.positions(
            positions="1 2", shift=3, embeddings=[[2.0, -2.5, 0.4, -0.5], [-0.4, -0.2, -2, 0.3]],
            **d,
        ),
        "rotary": worked.positions(rotary=True, **d),
        "embedding": worked.embedding(scale=True, first=3, **d),
        "feedforward": worked.feedforward(
            "1 -1; -2 0.5; 1 1", w1=A, b1="1 0 -1", w2="1 0; 0 1; 1 1", b2="0.5 0",
            activation="tanh", **d,
        ),
        "encoder layer": worked.encoder_layer(mask="1 1 0", **d),
        "encoder layer of heads": worked.encoder_layer(
            heads=2, b2="1 0 -1 2", placement="pre", activation="gelu", eps=0, **d
        ),
        "decoder layer": worked.decoder_layer(mask="1 0", **d),
        "layer shapes": worked.decoder_layer(d_model=8, heads=2, length=3),
        "mlp": worked.mlp(**d),
        "mlp tanh": worked.mlp(
            "1 2", "1 .5; .25 -1; 1 1", "0.1 0 -1", "1 2 3; -1 0 1", "0 1", "1 1", 0.1,
            activation="tanh", **d,
        ),
        "mlp sigmoid": worked.mlp("1", "2", "0.5", "3", y="1", activation="sigmoid", **d),
        "mlp gelu": worked.mlp("1 2", "2 1", v="3", y="1", rate=1, activation="gelu", **d),
        "mlp forward": worked.mlp("1 2", "2 1; 0 -3", v="3 1", activation="identity", **d),
        "mlp rows": worked.mlp(
            "1 0 2; 0 1 1; -1 2 0", "1 -1 0; 0 2 1", "0 1", "2 -1", 0.5, "3 1 -2", 0.1,
            rates="0.01 1", steps=3, check=True, **d,
        ),
        "mlp outputs": worked.mlp(
            "1 0.3; -2 4", "1 2; 0 -1; 3 1", "1 0 -1", "2 0 1; 1 -1 0", "0.5 2", "1 2; 3 4", 0.01,
            activation="identity", **d,
        ),
        "mlp silu": worked.mlp("1 2", "2 1; 1 -1", v="3 1", y="1", activation="silu", **d),
        "gradcheck": worked.gradcheck(along="b_1", **d),
        "gradcheck v": worked.gradcheck(wrong="v", **d),
        "gradcheck slope": worked.gradcheck(wrong="slope", activation="tanh", **d),
        "gradcheck sign": worked.gradcheck(
            "1 2; 0 1", "1 1", v="2", y="1 1", wrong="sign", along="c", by=0.5, **d
        ),
        "activations": worked.activations("-2 -1 0 0.5 5", **d),
        "steps": worked.steps(**d),
        "steps sine": worked.steps(sine="2 4", **d),
        "clip": worked.clip(**d),
        "clip one": worked.clip("3 -4 0.1", norm=2.5, value=1, **d),
        "norm": worked.norm(**d),
        "norm of one": worked.norm("1 2 4 9", eps=0.5, gamma="1 2 1 1", beta="0 -1 0 1", **d),
        "norm constant": worked.norm("1 2; 1 -5", eps=0.1, gamma="2 3", **d),
        "variance": worked.variance(3, sizes="2 8", draws=10, **d),
        "rnn": worked.rnn(SEQUENCE, wide("rnn"), h0="0.5 -1", target="1 0", rate=0.1, **d),
        "rnn relu": worked.rnn(target="1 0", rate=0.5, activation="relu", **d),
        "rnn truncated": worked.rnn("1 2 3 4 5 6", wide("rnn") | {"W": [[1.0], [0.5]]},
                                    target="1 0", truncate=2, rate=1, **d),
        "rnn one": worked.rnn(target=1, rate=0.1, **d),
        "gru truncated": worked.gru(SEQUENCE, wide("gru"), target="1 0", truncate=1, **d),
        "lstm truncated": worked.lstm(weights={"b_f": 10}, target=1, truncate=2, **d),
        "rnn long": worked.rnn("1 2 3 4 5 6", {"W": 0.1, "U": 0.2}, target=1, **d),
        "lstm": worked.lstm("1 -0.5 2", LSTM, target=1, rate=0.1, **d),
        "lstm wide": worked.lstm(
            SEQUENCE, wide("lstm"), h0="0.5 -1", c0="1 1", target="1 0", rate=1, **d
        ),
        "gru": worked.gru(target=1, rate=0.1, **d),
        "gru wide": worked.gru(SEQUENCE, wide("gru"), h0="0.5 -1", target="1 0", rate=1, **d),
        "beam": worked.beam(digits=digits),
        "beam alpha": worked.beam(beam_size=3, alpha=0.6, digits=digits),
        "params": worked.params(),
        "params wide": worked.params(
            512, 8, 6, kv_heads=2, shape="encoder-decoder", activation="swiglu",
            positions="learned", norm="rms", untied=True, no_bias=True,
        ),
        "params encoder": worked.params(64, 4, 2, vocab=100, shape="encoder", kv_heads=2),
        "params gated": worked.params(64, 4, 2, vocab=100, activation="geglu", norm="none"),
    }  # fmt: skip


SOLUTIONS = solutions()


def values(solution: Solution) -> dict[str, Any]:
    """name -> value, from the JSON; of a name that comes twice, the first."""
    found: dict[str, Any] = {}
    for step in json.loads(solution.json())["steps"]:
        found.setdefault(step["name"], step["value"])
    return found


def close(value: Any, wanted: Any, tolerance: float = 1e-12) -> bool:
    one, other = (torch.as_tensor(v, dtype=torch.float64) for v in (value, wanted))
    return one.shape == other.shape and torch.allclose(one, other, rtol=tolerance, atol=tolerance)


# --- what is written is what was computed


@pytest.mark.parametrize("kind", SOLUTIONS)
def test_each_formula_with_its_numbers_gives_its_result(kind: str) -> None:
    checked = 0
    for step in SOLUTIONS[kind].steps:
        if step.numbers:
            value = [-math.inf if v == "-inf" else v for v in _flat(step.value)]
            written = compute(step.numbers).flatten()
            assert written.shape == (len(value),), step.title
            wanted = torch.tensor(value, dtype=torch.float64)
            assert torch.allclose(written, wanted, rtol=1e-6, atol=1e-9), step.title
            checked += 1
    few = (
        "beam",
        "positions",
        "layer shapes",
        "embedding",
        "steps sine",
        "gradcheck",
        "perceptron answer",
    )
    assert checked > 2 or kind.startswith(few)


def _flat(value: Any) -> list[Any]:
    return [entry for v in value for entry in _flat(v)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("kind", SOLUTIONS)
def test_a_step_from_the_trace_says_what_the_catalogue_says(kind: str) -> None:
    for step in SOLUTIONS[kind].steps:
        if "." in step.name and step.name.rpartition(".")[0]:
            meaning = catalogue.describe(step.name).meaning
            if step.name not in ("positions.encoding", "attention.scores"):
                assert step.title.replace("$", "").endswith(meaning)
            if step.formula and step.name == "attention.pattern":
                assert "/" in step.formula


# --- softmax


def test_softmax_loss_and_gradient() -> None:
    x = torch.tensor([2.0, 1.0, -0.5], dtype=torch.float64, requires_grad=True)
    found = values(SOLUTIONS["softmax"])
    p = x.softmax(dim=0)
    (-p[1].log()).backward()
    assert close(found["softmax.probabilities"], p[None].tolist())
    assert close(found["loss"], -math.log(p[1].item()))
    assert x.grad is not None
    assert close(found["gradient"], x.grad[None].tolist())


def test_the_textbook_form_is_taken_where_it_cannot_overflow() -> None:
    textbook, shifted = worked.softmax("2 1 0"), worked.softmax("800 799 -3")
    assert "softmax.shift" not in values(textbook)
    assert textbook.steps[0].formula == r"\exp(x)"
    assert r"\exp(x - \max x)" in textbook.notes[0]
    assert values(shifted)["softmax.shift"] == [[800.0]]
    assert shifted.steps[1].formula == r"\exp(x - m)"
    for low in ("-800 -801", "-709.5 -1e5"):  # all exponentials would be 0
        assert close(values(worked.softmax(low))["softmax.probabilities"][0][0], 1.0, 0.3)
    stable = values(worked.softmax("701 700 699"))["softmax.probabilities"]
    assert close(stable, values(worked.softmax("2 1 0"))["softmax.probabilities"], 1e-12)


def test_softmax_of_the_sources() -> None:
    text = worked.softmax("2 1 0").text()
    assert "[7.389 2.718 1]" in text
    assert "11.107" in text
    assert "[0.665 0.245 0.090]" in text


# --- attention


def test_the_example_of_the_sources() -> None:
    solution = worked.attention(x=X, identity=True)
    assert "⎢0.198 0.401 0.401⎥" in solution.text()
    assert "Output 2 is 0.198 of value 1, 0.401 of value 2 and 0.401 of value 3." in str(solution)
    found = values(solution)
    assert close(found["attention.scores"], [[1, 0, 1], [0, 1, 1], [1, 1, 2]])
    assert close(found["attention.mixed"][1], [0.5988879073202141, 0.8022241853595719])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("unscaled", [False, True])
def test_attention_is_the_part(causal: bool, unscaled: bool) -> None:
    trace = Trace()
    q, k, v = (torch.randn(1, 1, 4, d, dtype=torch.float64) for d in (3, 3, 2))
    mixed = attend(q, k, v, Layout(causal=causal), scaled=not unscaled, trace=trace)
    q2, k2, v2 = (t[0, 0] for t in (q, k, v))
    found = values(worked.attention(q2, k2, v2, causal=causal, unscaled=unscaled))
    assert close(found["attention.pattern"], trace["pattern"][0, 0].tolist())
    assert close(found["attention.mixed"], mixed[0, 0].tolist())
    assert ("attention.scaled" in found) == (not unscaled)
    assert ("attention.mask" in found) == causal


def test_masked_entries_are_minus_infinity_and_zero() -> None:
    solution = worked.attention(x=X, identity=True, causal=True)
    assert values(solution)["attention.masked"][0][1:] == ["-inf", "-inf"]
    assert "⎡0.707 -∞     -∞    ⎤" in solution.text()
    assert values(solution)["attention.pattern"][0] == [1.0, 0.0, 0.0]
    assert r"-\infty" in solution.latex()


def test_multihead_is_the_part() -> None:
    x, wq, wk, wv, wo = (torch.randn(4, 4, dtype=torch.float64) for _ in range(5))
    part, trace = SelfAttention(4, 2, bias=False).double(), Trace()
    with torch.no_grad():
        part.qkv.weight.copy_(torch.cat([wq.T, wk.T, wv.T]))
        part.output.weight.copy_(wo.T)
        output = part(x[None], Layout(), trace=trace)
    solution = worked.multihead(x, 2, wq=wq, wk=wk, wv=wv, wo=wo)
    assert close(values(solution)["attention.output"], output[0].tolist())
    patterns = [step.value for step in solution.steps if step.name == "attention.pattern"]
    assert close(patterns, trace["pattern"][0].tolist())
    assert "$d_k = d_{\\mathrm{model}} / h = 4 / 2 = 2$" in solution.closing


# --- the network of 3, 2 and 1


def test_the_network_of_the_sources() -> None:
    solution = worked.mlp()
    found = values(solution)
    assert found["layers.0.dense.preactivation"] == [1.0, 3.0]
    assert found["output.dense.preactivation"] == [-1.0]
    assert (found["loss"], found["delta"]) == (8.0, [-4.0])
    assert found["dL/dW"] == [[-8.0, 0.0, -16.0], [4.0, 0.0, 8.0]]
    assert (found["dL/db"], found["dL/dv"], found["dL/dc"]) == ([-8.0, 4.0], [-4.0, -12.0], [-4.0])
    assert close(found["new W"], [[1.16, -1.0, 0.32], [-0.08, 2.0, 0.84]])
    assert close(found["new b"], [0.16, 0.92])
    assert close(found["new v"], [2.08, -0.76])
    assert close(found["new c"], [0.08])
    losses = [step.value for step in solution.steps if step.name == "loss"]
    assert close(losses, [8.0, 0.28758528])
    assert solution.closing == "The loss fell from $8$ to $0.2876$."


def test_steps_follow_what_was_asked() -> None:
    asked = [dict.fromkeys(s.section for s in worked.mlp("1 2", "1 1", v="2", **more).steps)
             for more in ({}, {"y": 1}, {"y": 1, "rate": 0.1})]  # fmt: skip
    assert [list(sections) for sections in asked] == [
        [""],
        ["Forward", "Backward"],
        ["Forward", "Backward", "One step of gradient descent",
         "Forward again, with the new parameters"],
    ]  # fmt: skip
    assert worked.mlp("1 2", "1 1", v="2").closing == "The output is $6$."


# --- recurrent cells


def test_the_lstm_of_the_sources() -> None:
    solution = worked.lstm("1 -0.5 2", LSTM)
    hidden = [s.value for s in solution.steps if s.name.endswith("lstm.hidden")]
    cell = [s.value for s in solution.steps if s.name.endswith("lstm.cell")]
    assert close(hidden, [[0.19821195156978297], [0.012566843269889364], [0.3140084482737174]])
    assert close(cell, [[0.2780831367929218], [0.034569235883238986], [0.3730600317562877]])


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_cells_gradients_and_step_are_those_of_torch(cell: str) -> None:
    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell]
    theirs, weights, gates = kind(2, 2, batch_first=True).double(), wide(cell), BLOCKS[cell]
    bias = torch.zeros_like(theirs.bias_hh_l0)
    if cell == "gru":
        bias[-2:] = torch.tensor(weights["b_hn"])
    with torch.no_grad():
        for name, letter in (("weight_ih_l0", "W"), ("weight_hh_l0", "U"), ("bias_ih_l0", "b")):
            stacked = [torch.tensor(weights[letter + gate]) for gate in gates]
            getattr(theirs, name).copy_(torch.cat(stacked))
        theirs.bias_hh_l0.copy_(bias)
    x = torch.tensor([SEQUENCE], dtype=torch.float64)
    goal = torch.tensor([1.0, 0.0], dtype=torch.float64)
    output = theirs(x)[0][0]
    loss = ((output[-1] - goal) ** 2).sum() / 2
    loss.backward()

    solution = getattr(worked, cell)(SEQUENCE, weights, target=[1, 0], rate=0.5)
    hidden = [s.value for s in solution.steps if s.name.endswith(f"{cell}.hidden")]
    assert close(hidden, output.tolist())
    found = values(solution)
    assert close(found["loss"], loss.item())
    for letter, name in (("W", "weight_ih_l0"), ("U", "weight_hh_l0"), ("b", "bias_ih_l0")):
        slopes = torch.cat([torch.tensor(found[f"dL/d{letter}{g}"]).double() for g in gates])
        assert torch.allclose(slopes, getattr(theirs, name).grad, atol=1e-6)
        moved = [found[f"new {letter}{g}"] for g in gates]
        with torch.no_grad():
            getattr(theirs, name).sub_(0.5 * getattr(theirs, name).grad)
        assert torch.allclose(
            torch.cat([torch.tensor(m).double() for m in moved]), getattr(theirs, name), atol=1e-6
        )
    if cell == "gru":
        assert close(found["dL/db_hn"], theirs.bias_hh_l0.grad[-2:].tolist())
        with torch.no_grad():
            theirs.bias_hh_l0[-2:] -= 0.5 * theirs.bias_hh_l0.grad[-2:]
    after = ((theirs(x)[0][0, -1] - goal) ** 2).sum() / 2
    losses = [s.value for s in solution.steps if s.name == "loss"]
    assert close(losses[1], after.item())


def test_the_gradient_at_each_state_is_finite_differences() -> None:
    solution = worked.rnn("1 -0.5 2", {"W": 0.5, "U": 0.8, "b": 0.1}, target=1)
    found = torch.tensor(values(solution)["dL/dh"]).flatten()

    def loss(h: float, rest: list[float]) -> float:
        for x in rest:
            h = math.tanh(0.5 * x + 0.8 * h + 0.1)
        return (1 - h) ** 2 / 2

    states, h = [], 0.0
    for x in (1, -0.5, 2):
        h = math.tanh(0.5 * x + 0.8 * h + 0.1)
        states.append(h)
    for t, rest in enumerate(([-0.5, 2.0], [2.0], [])):
        slope = (loss(states[t] + 1e-6, rest) - loss(states[t] - 1e-6, rest)) / 2e-6
        assert slope == pytest.approx(found[t].item(), rel=1e-6)
    assert "the gradient shrinks to" in solution.closing


def test_a_bias_that_was_not_given_is_not_written_and_does_not_learn() -> None:
    solution = worked.rnn("1 2", {"W": 0.5, "U": 0.8}, target=1, rate=0.1)
    assert "b" not in {given.name for given in solution.given}
    assert solution.steps[0].formula == "W x_{1} + U h_{0}"
    found = values(solution)
    assert not {"dL/db", "new b"} & set(found)
    again = worked.rnn("1 2", {"W": found["new W"], "U": found["new U"]}, target=1)
    losses = [step.value for step in solution.steps if step.name == "loss"]
    assert close(losses[1], values(again)["loss"])


# --- positions, beam, parameters


def test_sinusoidal_positions_are_the_part() -> None:
    found = values(SOLUTIONS["positions"])
    encoding = Sinusoidal(6).encode(torch.tensor([0, 1, 7]))
    assert close(found["positions.encoding"], encoding.tolist())
    assert close(found["gram"], (encoding @ encoding.T).tolist())
    example = values(worked.positions())
    assert close(example["positions.angles"], [[0, 0], [1, 0.01], [2, 0.02]])
    assert close(example["periods"], [2 * math.pi, 200 * math.pi])
    assert close(example["gram"][0], [2.0, 1.540252306284805, 0.5836531701194354])


def test_rotary_scores_depend_on_the_offset_alone() -> None:
    scores = values(worked.positions(rotary=True))["scores"]
    assert close(scores, [-0.3565673222475387, -0.3565673222475387, 0.32789471080191296])


def test_greedy_against_beam() -> None:
    results = values(worked.beam())["results"]
    assert results["greedy"]["sentence"] == "I am fine <eos>"
    assert results["greedy"]["probability"] == pytest.approx(0.25)
    assert results["beam"]["sentence"] == "I am finally feeling much better <eos>"
    assert results["beam"]["probability"] == pytest.approx(0.3258025)
    rounds = [s.value for s in worked.beam().steps if s.section.startswith("Beam")]
    assert len(rounds) == 5
    for candidates in rounds:
        assert sum(candidate["kept"] for candidate in candidates) == 2
        ranks = [c["rank"] for c in candidates if c["word"] != "(ended)"]
        assert ranks == sorted(ranks, reverse=True)
        assert [c["kept"] for c in candidates] == [True, True] + [False] * (len(candidates) - 2)
    assert worked.beam(beam_size=1).closing == "Both searches find “I am fine”."


def test_a_length_penalty_changes_the_ranking() -> None:
    table = {
        "a": {"b": 0.6, "c": 0.4}, "a b": {"<eos>": 1.0},
        "a c": {"d": 0.9, "<eos>": 0.1}, "a c d": {"<eos>": 1.0},
    }  # fmt: skip
    assert values(worked.beam(table))["results"]["beam"]["sentence"] == "a b <eos>"
    lower = worked.beam({**table, "a": {"b": 0.51, "c": 0.49}}, alpha=2)
    assert values(lower)["results"]["beam"]["sentence"] == "a c d <eos>"
    assert "at $0.8647$ times the probability" in lower.closing


def test_parameters_of_the_sources() -> None:
    found = values(worked.params(768, 12))
    assert (found["d_k"], found["P_Q"], found["P_{QKV}"]) == (64, 589_824, 1_769_472)
    assert "1,769,472" in worked.params(768, 12).text()
    assert found[r"P_{\mathrm{att}}"] == 2_362_368
    model = build(TransformerConfig(shape="decoder", head="language", vocab=50, d_model=8, heads=2))
    small = worked.params(8, 2, 4, vocab=50)
    assert values(small)["P"] == sum(p.numel() for p in model.parameters())


# --- a solution as an object


@pytest.mark.parametrize("exercise", worked.EXERCISES)
def test_without_numbers_there_is_an_example(exercise: Callable[[], Solution]) -> None:
    solution = exercise()
    assert solution.example
    assert "built-in example" in solution.text()
    assert "built-in example" in solution.markdown()
    assert solution.next.startswith("translucid work ")


def test_numbers_of_every_kind_give_the_same_solution() -> None:
    first = worked.attention(X, X, X)
    for kind in (torch.tensor, numpy.array, tuple):
        assert worked.attention(kind(X), kind(X), kind(X)) == first  # type: ignore[operator]
    assert worked.attention("1 0; 0 1; 1 1", X, X) == first


def test_a_solution_is_frozen_and_shows_itself() -> None:
    solution = worked.softmax("2 1 0")
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution.title = "x"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution.steps[0].title = "x"  # type: ignore[misc]
    assert str(solution) == solution.text()
    assert solution._repr_markdown_() == solution.markdown()
    assert solution._repr_latex_() in solution.latex()


def test_digits() -> None:
    assert "0.66524096" in worked.softmax("2 1 0", digits=8).text()
    assert "0.7 0.2 0.1" in worked.softmax("2 1 0", digits=1).text()
    with pytest.raises(InputError, match=r"digits = 99.*between 1 and 12"):
        worked.softmax("2 1 0", digits=99)


@pytest.mark.parametrize(("kind", "width"), dealt(SOLUTIONS, [80, 100, 120], share=3))
def test_text_keeps_to_the_width(kind: str, width: int) -> None:
    from translucid.see.render.plain_math import columns

    text = solutions_with_few_digits()[kind].text(width)
    for line in text.splitlines():
        if not line.startswith("next: "):
            assert columns(line) <= width, line
    assert not re.search(r"\\|\$|[{}]", text)


def test_columns_that_were_cut_are_mentioned() -> None:
    wide_one = worked.attention([[float(i) for i in range(60)]], [[1.0] * 60], [[1.0]])
    assert "… marks columns" in wide_one.text(80)
    assert "…" not in worked.attention().text(80)


def solutions_with_few_digits(cache: dict[str, Solution] = {}) -> dict[str, Solution]:  # noqa: B006
    if not cache:
        cache |= solutions(4)
    return cache


# --- mistakes that need no command line


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("perceptron", {"x": "1 a", "w": "1 2"}, "x: 'a' is not a number"),
        ("perceptron", {"x": "1 2", "w": "1"}, "x is 1 x 2 and w has 1 number.* 2$"),
        ("perceptron", {"x": "1 2", "w": "1 b"}, "w: 'b' is not a number"),
        ("perceptron", {"x": "1 2"}, "w is missing.* or target"),
        ("perceptron", {"target": "0 1"}, "x has 4 rows and target has 2.*: pass x too"),
        ("perceptron", {"x": "1; 2", "target": "1"}, "x has 2 rows and target has 1 number: each"),
        ("perceptron", {"x": "1; 2", "target": "1 2"}, "target: .*2.* 0 or 1"),
        ("perceptron", {"x": "1; 2", "target": "-1 1"}, "target: .*-1.* 0 instead of -1"),
        ("perceptron", {"x": "1", "w": "1", "rate": 1}, "rate needs target or data"),
        ("perceptron", {"x": "1", "w": "1", "epochs": 1}, "epochs needs target or data"),
        ("perceptron", {"data": "nand"}, "data = nand: .*and, or, xor"),
        ("perceptron", {"data": "and", "x": "1 2"}, "data, or x with target, not both"),
        ("perceptron", {"rate": 0}, "rate = 0: must be greater than 0"),
        ("perceptron", {"data": "or", "epochs": 0}, "epochs = 0: must be at least 1"),
        ("softmax", {"x": "1 2; 3 4"}, "x is 2 x 2; expected one row"),
        ("softmax", {"x": "1 2", "target": 3}, "target = 3: x has 2 numbers.* 1 and 2"),
        ("attention", {"q": A}, "q is 2 x 3 and k is 3 x 2.* built-in example: pass k and v too"),
        ("attention", {"q": X, "wq": X}, "wq needs x instead"),
        ("attention", {"q": X, "identity": True}, "identity needs x"),
        ("attention", {"wq": A}, "q is 3 x 3 and k is 3 x 2.* built-in.*pass x, wk and wv"),
        ("attention", {"mask": "1 1"}, "mask is 1 x 2: .*each of the 3 keys"),
        ("attention", {"mask": "1 1 2"}, "mask: 2 is not allowed"),
        ("attention", {"target": "1 2"}, "target is 1 x 2: the output has 3 x 2.*must be 3 x 2"),
        ("attention", {"target": X, "heads": 1}, "target is 3 x 2: the output has 3 x 4"),
        ("multihead", {"wq": "1 0; 0 1 | 1; 0"}, "wq: head 2 is 2 x 1, but head 1 is 2 x 2"),
        ("multihead", {"wq": "1; 0 | 0; 1", "x": X, "heads": 1}, "matrices for 2 heads"),
        ("attention", {"x": X, "q": X}, "either q, k and v, or x"),
        ("attention", {"x": X, "wq": X, "identity": True}, "wq and identity"),
        (
            "attention",
            {"x": X, "wq": X, "wk": X, "wv": X},
            "x has 2 columns and wq is 3 x 2: wq must",
        ),
        ("attention", {"q": X, "k": A, "v": X}, "q is 3 x 2 and k is 2 x 3.* columns"),
        ("attention", {"q": X, "k": X, "v": A}, "k is 3 x 2 and v is 2 x 3: every key"),
        ("attention", {"q": X, "k": X[:2], "v": A, "causal": True}, "as many queries as keys"),
        ("multihead", {"wq": X}, "x has 4 columns and wq is 3 x 2.*pass x, wk, wv and wo"),
        (
            "multihead",
            {"x": X, "heads": 3, "identity": True},
            "heads = 3: x has 2 columns, .*try 2",
        ),
        (
            "multihead",
            {"x": X, "wq": A, "wk": A, "wv": A, "wo": A},
            "wq is 2 x 3: it must be 2 x 2, all heads",
        ),
        ("embedding", {"text": " "}, "text is empty"),
        ("embedding", {"table": "1 2; 3 4"}, "table is 2 x 2: it needs one row for each of the 8"),
        ("embedding", {"d": 3}, "d = 3: sines and cosines come in pairs; try 4"),
        ("embedding", {"table": "1; 2", "text": "a"}, "table is 2 x 1: it needs .* 5 ids"),
        ("feedforward", {"x": "1 2 3"}, "x has 3 columns and w1 is 2 x 4.*pass w1 and w2 too"),
        ("feedforward", {"w2": "1 0"}, "w1 is 2 x 4 and w2 is 1 x 2: w2 must be 4 x 2"),
        ("feedforward", {"b1": "1 0"}, "b1 has 2 numbers, but needs one for each of the 4 columns"),
        ("encoder_layer", {"heads": 3}, "heads = 3: x has 4 columns, which 3 heads cannot share"),
        ("encoder_layer", {"x": X}, "x has 2 columns and w1 is 4 x 2.*pass wq"),
        ("encoder_layer", {"wq": X}, "x has 4 columns and wq is 3 x 2"),
        ("encoder_layer", {"placement": "sandwich"}, "placement = sandwich: must be post or pre"),
        ("encoder_layer", {"eps": -1}, "eps = -1: must be 0 or more"),
        ("encoder_layer", {"d_model": 8, "x": X}, "x does not work with d_model"),
        ("encoder_layer", {"length": 8}, "d_model is missing"),
        ("encoder_layer", {"d_model": 8, "heads": 3}, "3 heads cannot share 8 dimensions"),
        ("decoder_layer", {"h": X}, "x is 3 x 4 and h is 3 x 2: both need as many columns"),
        ("decoder_layer", {"mask": "1 1 1"}, "mask is 1 x 3: .*each of the 2 keys"),
        ("positions", {"d": 5}, "d = 5: sines and cosines come in pairs; try 6"),
        ("positions", {"count": 2, "positions": "1"}, "positions or count, not both"),
        ("positions", {"q": "1 2"}, "q works only with rotary positions"),
        ("positions", {"base": 1}, "base = 1: must be greater than 1"),
        ("positions", {"rotary": True, "d": 4}, "d works only with sinusoidal positions"),
        ("positions", {"rotary": True, "q": "1 2"}, "q has 2 values and k has 4.*pass k and pairs"),
        ("positions", {"rotary": True, "shift": 1}, "shift works only with sinusoidal"),
        ("positions", {"shift": 0}, "shift = 0: must be at least 1"),
        ("positions", {"embeddings": "1 2 3"}, "d = 3: sines and cosines come in pairs; try 4"),
        (
            "positions",
            {"embeddings": "1 2; 1 2", "count": 3},
            "embeddings is 2 x 2: .* 3 positions",
        ),
        ("positions", {"embeddings": "1 2"}, "embeddings needs two positions"),
        ("positions", {"rotary": True, "q": "1 2", "k": "1"}, "q has 2 values and k has 1"),
        ("positions", {"rotary": True, "q": "1", "k": "1"}, "even number"),
        ("positions", {"rotary": True, "pairs": "1 2 3"}, "pairs is 1 x 3.* two"),
        ("positions", {"rotary": True, "pairs": "1 -2"}, "pairs: -2 is not a position"),
        ("mlp", {"x": "1 2"}, "x has 2 numbers and w is 2 x 3.* pass w and v too"),
        ("mlp", {"x": "1 2", "w": "1 2 3", "v": "1"}, "x has 2 numbers and w is 1 x 3"),
        ("mlp", {"x": "1", "w": "1;2", "v": "1 2 3"}, "w is 2 x 1 and v is 1 x 3"),
        ("mlp", {"x": "1", "w": "1;2", "v": "1 2", "b": "1"}, "w is 2 x 1 and b has 1 number"),
        ("mlp", {"x": "1", "w": "1", "v": "1", "c": "1 2"}, "v is 1 x 1 and c has 2 numbers"),
        ("mlp", {"x": "1", "w": "1", "v": "1", "y": "1 2"}, "y has 2 numbers, but v has 1"),
        ("mlp", {"x": "1", "w": "1", "v": "1", "rate": 1}, "rate needs y"),
        ("mlp", {"rate": 0}, "rate = 0: must be greater than 0"),
        ("mlp", {"activation": "rellu"}, "activation = rellu: .*tanh.* mean relu"),
        ("mlp", {"x": "1", "w": [[[1.0]]], "v": "1"}, "one hidden layer"),
        (
            "rnn",
            {"x": "1", "weights": {"W": "1 2"}},
            "W is 1 x 2 and U is 2 x 2: U must be 1 x 1.*pass U too",
        ),
        ("rnn", {"truncate": 2}, "truncate needs target"),
        ("rnn", {"target": 1, "truncate": 4}, "truncate = 4: must be at most 3"),
        ("rnn", {"target": 1, "truncate": 0}, "truncate = 0: must be at least 1"),
        ("rnn", {"x": "1", "weights": {"W_f": 1}}, "W_f; did you mean W?"),
        ("rnn", {"activation": "gelu"}, "tanh or relu"),
        ("rnn", {"target": "1 2 3"}, "target has 3 numbers, but the state has 2"),
        ("rnn", {"rate": 1}, "rate needs target"),
        ("rnn", {"x": "1 2", "weights": {"W": "1 1 1", "U": 1}}, "x is 1 x 2 and W is 1 x 3"),
        ("rnn", {"x": "1", "weights": {"W": "1; 1", "U": 1}}, "W is 2 x 1 and U is 1 x 1: U must"),
        ("rnn", {"x": "1", "weights": {"W": 1, "U": 1, "b": "1 2"}}, "b is 2: b must be 1, one"),
        ("lstm", {"weights": {"W_f": "1; 2"}}, "W_f is 2 x 1 and U_f is 1 x 1.*built-in example"),
        ("beam", {"table": {}}, "table is empty"),
        ("beam", {"table": {"a": {}}}, "table, after 'a': .*next words"),
        ("beam", {"table": {"a": {"b": "x"}}}, r"P\(b\) = 'x' is not a number"),
        ("beam", {"table": {"a": {"b": 0.4}}}, "the probabilities sum to 0.4, but must sum to 1"),
        ("beam", {"prefix": " "}, "prefix is empty"),
        ("beam", {"prefix": "You"}, "the table has no word 'You'"),
        ("beam", {"beam_size": 0}, "beam_size = 0: must be at least 1"),
    ],
)
def test_mistakes_name_the_argument(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        getattr(worked, name)(**arguments)


def test_sizes_that_do_not_divide() -> None:
    with pytest.raises(ConfigError, match=r"64.*5.*4 or 8"):
        worked.params(64, 5)
