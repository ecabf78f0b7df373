"""The exercises in plain numpy, each in at most 20 lines, for reading and comparison.

`translucid work ... --plain` prints a function with the numbers of the exercise as a program. The
tests check that its results equal those of the solution, which the production parts compute. The
functions have no type annotations, because their source is printed unchanged.
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


def positions(d, where, base):
    angles = np.array(where)[:, None] / base ** (np.arange(0, d, 2) / d)
    pairs = np.stack([np.sin(angles), np.cos(angles)], axis=2)
    encoding = pairs.reshape(len(where), d)
    return {"angles": angles, "encoding": encoding, "gram": encoding @ encoding.T}


def rotary(q, k, pairs, base):
    def rotate(x, position):
        angles = position / base ** (np.arange(0, len(x), 2) / len(x))
        a, b = x[0::2], x[1::2]
        turned = [a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)]
        return np.stack(turned, axis=1).ravel()

    return {"scores": np.array([rotate(q, m) @ rotate(k, n) for m, n in pairs])}


def feedforward(X, W_1, b_1, W_2, b_2):
    H = np.maximum(X @ W_1 + b_1, 0)
    return {"activated": H, "output": H @ W_2 + b_2}


def encoder_layer(X, W_Q, W_K, W_V, W_O, W_1, b_1, W_2, b_2, eps):
    def norm(Z):
        mean, variance = Z.mean(axis=1, keepdims=True), Z.var(axis=1, keepdims=True)
        return (Z - mean) / np.sqrt(variance + eps)

    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    E = np.exp(Q @ K.T / np.sqrt(K.shape[1]))
    A = E / E.sum(axis=1, keepdims=True)
    first = norm(X + A @ V @ W_O)
    second = norm(first + np.maximum(first @ W_1 + b_1, 0) @ W_2 + b_2)
    return {"pattern": A, "normalised": np.array([first, second])}


def decoder_layer(X, H, own, cross, W_1, b_1, W_2, b_2, eps):
    def norm(Z):
        mean, variance = Z.mean(axis=1, keepdims=True), Z.var(axis=1, keepdims=True)
        return (Z - mean) / np.sqrt(variance + eps)

    def attend(rows, keys, weights, visible):
        W_Q, W_K, W_V, W_O = weights
        Q, K, V = rows @ W_Q, keys @ W_K, keys @ W_V
        E = np.where(visible, np.exp(Q @ K.T / np.sqrt(K.shape[1])), 0)
        return E / E.sum(axis=1, keepdims=True) @ V @ W_O

    first = norm(X + attend(X, X, own, np.tri(len(X), dtype=bool)))
    second = norm(first + attend(first, H, cross, True))
    third = norm(second + np.maximum(second @ W_1 + b_1, 0) @ W_2 + b_2)
    return {"normalised": np.array([first, second, third])}


def embedding(table, ids, first):
    count, d = len(ids), table.shape[1]
    angles = (first + np.arange(count))[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    places = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(count, d)
    return {"lookup": table[ids], "encoding": places, "output": table[ids] + places}


def mlp(x, W, b, v, c, y, rate):
    z = W @ x + b
    h = np.maximum(z, 0)
    output = v @ h + c[0]
    delta = output - y[0]
    dz = delta * v * (z > 0)
    new = {"new W": W - rate * np.outer(dz, x), "new b": b - rate * dz}
    new |= {"new v": v - rate * delta * h, "new c": c - rate * delta}
    return {"dL/dz": dz, "dL/dW": np.outer(dz, x), "dL/dv": delta * h} | new


def gradcheck(x, W, b, v, c, y, step=1e-5):
    def loss(W, b, v, c):
        return ((v @ np.maximum(W @ x + b, 0) + c[0] - y[0]) ** 2) / 2

    parameters, gradients = [W, b, v, c], {}
    for i, name in enumerate("Wbvc"):
        gradients[name] = np.zeros(parameters[i].shape)
        for place in np.ndindex(parameters[i].shape):
            up, down = [p.astype(float) for p in parameters], [p.astype(float) for p in parameters]
            up[i][place] += step
            down[i][place] -= step
            gradients[name][place] = (loss(*up) - loss(*down)) / (2 * step)
    return gradients


def norm(X, eps):
    rows, columns = {"axis": 1, "keepdims": True}, {"axis": 0, "keepdims": True}
    layer = (X - X.mean(**rows)) / np.sqrt(X.var(**rows) + eps)
    rms = X / np.sqrt((X**2).mean(**rows) + eps)
    batch = (X - X.mean(**columns)) / np.sqrt(X.var(**columns) + eps)
    return {"layer": layer, "rms": rms, "batch": batch}


def clip(g, norm, value):
    lengths = np.linalg.norm(g, axis=1, keepdims=True)
    by_norm = g * np.minimum(1, norm / (lengths + 1e-6))
    return {"clipped by norm": by_norm, "clipped by value": np.clip(g, -value, value)}


def steps(jumps, heights, start, steepness, x):
    values = []
    for M in steepness:
        z = M * (x[:, None] - jumps)
        sigmoids = (1 + np.tanh(z / 2)) / 2  # equal to 1 / (1 + exp(-z)), without overflow
        values.append(start + sigmoids @ heights)
    return {"values": np.array(values)}


def activations(z):
    sigmoid, tanh = 1 / (1 + np.exp(-z)), np.tanh(z)
    return {
        "sigmoid": sigmoid, "slope of sigmoid": sigmoid * (1 - sigmoid),
        "tanh": tanh, "slope of tanh": 1 - tanh**2,
        "relu": np.maximum(z, 0), "slope of relu": (z > 0) * 1.0,
        "silu": z * sigmoid, "slope of silu": sigmoid * (1 + z * (1 - sigmoid)),
    }  # fmt: skip


def variance(d_k, sizes, keys, draws, seed):
    signs = np.array(np.meshgrid(*[[-1, 1]] * d_k)).reshape(d_k, -1)  # all vectors, as columns
    scores = signs.T @ signs  # all queries with all keys
    exact = {"variance": scores.var(), "scaled variance": (scores / np.sqrt(d_k)).var()}
    random, measured = np.random.default_rng(seed), []
    for d in sizes:
        q, k = random.standard_normal((draws, 1, d)), random.standard_normal((draws, keys, d))
        measured.append((q * k).sum(axis=2).var())
    return exact | {"measured variance": np.array(measured)}


def rnn(x, W, U, b, h, activation):
    states = []
    for row in x:
        z = W @ row + U @ h + b
        h = np.tanh(z) if activation == "tanh" else np.maximum(z, 0)
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


def beam(table, prefix, size, rounds):
    beams, finished = [(0.0, prefix)], []
    for _ in range(rounds):
        longer = []
        for logprob, text in beams:
            following = table.get(text, {"<eos>": 1.0})
            longer += [(logprob + np.log(p), text, word) for word, p in following.items() if p > 0]
        best = sorted(longer, reverse=True)[:size]
        finished += [(p, f"{text} {word}") for p, text, word in best if word == "<eos>"]
        beams = [(p, f"{text} {word}") for p, text, word in best if word != "<eos>"]
        if not beams:
            break
    return dict(zip(("score", "sentence"), max(finished or beams), strict=True))


def params(d_model, heads, layers, d_ff, vocab):
    attention = 4 * d_model * d_model + 4 * d_model  # Q, K, V and the output, with biases
    feedforward = 2 * d_model * d_ff + d_ff + d_model
    layer = attention + feedforward + 2 * 2 * d_model  # with two layer norms
    total = vocab * d_model + layers * layer + 2 * d_model  # with a final norm
    return {"d_k": d_model // heads, "layer": layer, "total": total}
