"""Exercises once more in plain numpy, each in at most 20 lines, for reading and for comparison.

`translucid work ... --plain` prints a function with the numbers of the exercise as a program. The
tests hold what it computes equal to the solution, which the production parts compute. The functions
have no type annotations, because they are printed as they are.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Program:
    """A function of this file and its arguments, as a program that prints its results."""

    function: Callable[..., dict[str, Any]]
    arguments: Mapping[str, Any]

    def text(self) -> str:
        """The source of the program."""
        given = "".join(f"{name} = {_literal(v)}\n" for name, v in self.arguments.items())
        call = f"{self.function.__name__}({', '.join(self.arguments)})"
        return (
            f"import numpy as np\n\n\n{inspect.getsource(self.function)}\n\n{given}"
            f"for name, value in {call}.items():\n    print(name, '=', value)\n"
        )


def _literal(value: Any) -> str:
    """A value as Python code."""
    if isinstance(value, Tensor):
        value = value.detach().tolist()
        return repr(value) if isinstance(value, bool | int | float) else f"np.array({value!r})"
    return repr(value)


def perceptron(x, target, w, b, rate, epochs):
    for _ in range(epochs):
        mistakes = 0
        for point, t in zip(x, target, strict=True):
            y = int(w @ point + b > 0)
            w, b = w + rate * (t - y) * point, b + rate * (t - y)
            mistakes += y != t
        if mistakes == 0:
            break
    return {"weights": np.append(w, b)}


def softmax(x, target=None):
    e = np.exp(x - x.max())  # without the shift, large numbers overflow
    p = e / e.sum()
    if target is None:
        return {"probabilities": p}
    right = np.arange(1, len(x) + 1) == target
    return {"probabilities": p, "loss": -np.log(p[right][0]), "gradient": p - right}


def attention(Q, K, V, visible=None, scaled=True):
    S = Q @ K.T
    if scaled:
        S = S / np.sqrt(K.shape[1])
    if visible is not None:
        S = np.where(visible, S, -np.inf)
    E = np.exp(S - S.max(axis=1, keepdims=True))
    A = E / E.sum(axis=1, keepdims=True)
    return {"pattern": A, "mixed": A @ V}


def multihead(X, W_Q, W_K, W_V, W_O, heads, visible=None, scaled=True):
    Q, K, V = (np.split(X @ W, heads, axis=1) for W in (W_Q, W_K, W_V))
    patterns, outputs = [], []
    for q, k, v in zip(Q, K, V, strict=True):
        S = q @ k.T
        if scaled:
            S = S / np.sqrt(k.shape[1])
        if visible is not None:
            S = np.where(visible, S, -np.inf)
        E = np.exp(S - S.max(axis=1, keepdims=True))
        A = E / E.sum(axis=1, keepdims=True)
        patterns.append(A)
        outputs.append(A @ v)
    output = np.concatenate(outputs, axis=1) @ W_O
    return {"pattern": np.array(patterns), "mixed": np.array(outputs), "output": output}


def positions(d, positions, base):
    angles = np.array(positions)[:, None] / base ** (np.arange(0, d, 2) / d)
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=2)
    encoding = pairs.reshape(len(positions), d)
    return {"angles": angles, "encoding": encoding, "gram": encoding @ encoding.T}


def rotary(q, k, pairs, base):
    def rotate(x, position):
        angles = position / base ** (np.arange(0, len(x), 2) / len(x))
        a, b = x[0::2], x[1::2]
        turned = [a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)]
        return np.stack(turned, axis=1).ravel()

    return {"scores": np.array([rotate(q, m) @ rotate(k, n) for m, n in pairs])}


def rnn(x, W, U, b, h, activation):
    act = {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0)}[activation]
    states = []
    for row in x:
        h = act(W @ row + U @ h + b)
        states.append(h)
    return {"hidden": np.array(states)}


def lstm(x, W_f, U_f, b_f, W_i, U_i, b_i, W_g, U_g, b_g, W_o, U_o, b_o, h, c):
    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    states, cells = [], []
    for row in x:
        f = sigmoid(W_f @ row + U_f @ h + b_f)  # forget gate: the fraction of the cell to keep
        i = sigmoid(W_i @ row + U_i @ h + b_i)  # input gate: the fraction of the candidate to add
        g = np.tanh(W_g @ row + U_g @ h + b_g)  # candidate
        o = sigmoid(W_o @ row + U_o @ h + b_o)  # output gate: the fraction of the cell to show
        c = f * c + i * g
        h = o * np.tanh(c)
        states.append(h)
        cells.append(c)
    return {"cell": np.array(cells), "hidden": np.array(states)}


def gru(x, W_r, U_r, b_r, W_z, U_z, b_z, W_n, U_n, b_n, b_hn, h):
    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    states = []
    for row in x:
        r = sigmoid(W_r @ row + U_r @ h + b_r)  # reset gate
        z = sigmoid(W_z @ row + U_z @ h + b_z)  # update gate: the fraction of the state to keep
        n = np.tanh(W_n @ row + b_n + r * (U_n @ h + b_hn))  # candidate
        h = (1 - z) * n + z * h
        states.append(h)
    return {"hidden": np.array(states)}
