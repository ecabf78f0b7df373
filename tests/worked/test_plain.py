"""The plain numpy programs compute what the production parts compute, in at most 20 lines."""

import ast
import inspect
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from tests.in_process import run

from translucid import worked
from translucid.core.errors import InputError
from translucid.worked import plain

W = worked
CASES: dict[str, Callable[[], worked.Solution]] = {
    f"{exercise.__name__}, the example": exercise for exercise in worked.EXERCISES
} | {
    "softmax with a target": lambda: W.softmax("1 -2 0.5", 3),
    "large numbers": lambda: W.softmax("1000 999", 1),
    "causal": lambda: W.attention(causal=True),
    "unscaled": lambda: W.attention(unscaled=True),
    "padding": lambda: W.attention(mask="1 1 0"),
    "queries, keys and values": lambda: W.attention("1 2", "0 1; 1 1", "3; -1"),
    "causal heads": lambda: W.multihead(causal=True, wq="1 2 0 1; 0 1 1 0; 2 0 1 1; 1 1 0 0"),
    "rotary": lambda: W.positions(rotary=True, base=100),
    "positions with another base": lambda: W.positions(8, "0 3 7", base=50),
    "relu": lambda: W.rnn(activation="relu"),
    "rnn from a state": lambda: W.rnn("1; 2", {"W": "0.5", "U": "0.8"}, h0="0.3"),
    "lstm with a forget bias": lambda: W.lstm(weights={"b_f": "10"}),
    "gru with an inner bias": lambda: W.gru(weights={"b_hn": "0.5"}),
    "perceptron on or": lambda: W.perceptron(data="or", rate=0.5),
    "beam of three": lambda: W.beam(beam_size=3),
    "small model": lambda: W.params(8, 2, 3, d_ff=20, vocab=11),
    "clip one": lambda: W.clip("3 -4", norm=2.5, value=1),
    "norm with eps": lambda: W.norm("1 2 4; 3 9 1", eps=0.1),
    "one jump": lambda: W.steps("0.5", "2", c=-1),
    "encoder layer with biases": lambda: W.encoder_layer(
        b2="0.1 0.2 0 0", wq="2 0 0 0; 0 1 0 0; 0 0 1 0; 0 1 0 1"
    ),
    "decoder layer": lambda: W.decoder_layer(cross_wv="0 1 0 0; 1 0 0 0; 0 0 1 0; 0 0 0 2"),
    "dimension of 3": lambda: W.variance(3),
    "mlp with other numbers": lambda: W.mlp(x="2 1 -1", y="1", rate=0.1),
}  # fmt: skip
RENAMED = {  # what the plain program calls a step with a formula for a name
    "layer": r"P_{\mathrm{layer}}", "total": "P",
}  # fmt: skip


def steps_named(solution: worked.Solution, key: str) -> list[Any]:
    """The values of all steps with this name, or with a name that ends in it."""
    name = RENAMED.get(key, key) if solution.title.startswith("Counting") else key
    exactly = [s.value for s in solution.steps if s.name == name]
    values = exactly or [s.value for s in solution.steps if s.name.endswith(f".{name}")]
    return [_numbers(value) for value in values]


def _numbers(value: Any) -> Any:
    """The numbers of a step whose value also holds other results."""
    if isinstance(value, dict):
        return next(value[key] for key in ("output", "networks") if key in value)
    return value


def results(solution: worked.Solution) -> dict[str, Any]:
    """What the printed program computes: it is run as it is, and its own names are read."""
    text = solution.plain()
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as printed:
        exec(text, names)
    call = ast.parse(text).body[-1]
    assert isinstance(call, ast.For)
    found = eval(ast.unparse(call.iter.func.value), names)  # type: ignore[attr-defined]
    assert printed.getvalue() == "".join(f"{name} = {value}\n" for name, value in found.items())
    return found


def expected(solution: worked.Solution, key: str, shape: tuple[int, ...]) -> Any:
    if solution.title == "Gradients checked with central differences":
        return np.array(solution.steps[-1].value[key]["numeric"]).reshape(shape)
    values = steps_named(solution, key)
    if solution.title == "Gradients clipped by norm and by value" or len(values) > 1:
        return np.array(values).reshape(shape)
    assert values, f"no step is named {key}"
    return np.array(values[0]).reshape(shape)


@pytest.mark.parametrize("case", CASES)
def test_a_plain_program_agrees_with_the_solution(case: str) -> None:
    solution = CASES[case]()
    found = results(solution)
    assert found
    for key, value in found.items():
        if solution.title.startswith("Greedy"):
            assert value == pytest.approx(solution.steps[-1].value["beam"][key]), key
        elif key == "weights":
            last = solution.steps[-1].value[-1]
            assert np.allclose(value, [*last["w"], last["b"]])
        else:
            wanted = expected(solution, key, np.shape(value))
            assert np.allclose(value, wanted, rtol=1e-7, atol=1e-9), key


def test_a_plain_function_has_at_most_20_lines() -> None:
    for name, function in inspect.getmembers(plain, inspect.isfunction):
        if function.__module__ == plain.__name__ and not name.startswith("_"):
            code = [line for line in inspect.getsource(function).splitlines() if line.strip()]
            assert len(code) <= 20, name


@pytest.mark.parametrize(
    "solve",
    [
        lambda: W.encoder_layer(placement="pre"),
        lambda: W.mlp(activation="tanh"),
        lambda: W.params(no_bias=True),
    ],
)
def test_options_without_a_plain_program_are_refused(
    solve: Callable[[], worked.Solution],
) -> None:
    with pytest.raises(InputError, match="no plain program"):
        solve().plain()


def test_the_command_prints_a_program_that_runs() -> None:
    answer = run("work", "softmax", "2 1 0", "--target", "1", "--plain")
    assert answer.returncode == 0
    with redirect_stdout(io.StringIO()) as printed:
        exec(answer.stdout, {})
    assert "loss = 0.40760596" in printed.getvalue()
