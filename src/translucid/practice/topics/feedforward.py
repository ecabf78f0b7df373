"""Topics: the perceptron, softmax and its loss, networks with one hidden layer."""

from typing import Any

import numpy as np

from translucid.practice.topic import DIGITS, Draw, Formula, Part, Topic, sigmoid, slip
from translucid.worked import mlp as worked_mlp
from translucid.worked import perceptron as worked_perceptron
from translucid.worked import softmax as worked_softmax


def _draw_perceptron(draw: Draw) -> dict[str, Any]:
    x, w, b = draw.distinct(2), draw.distinct(2), draw.halves(most=3.0)
    wrong = 0 if np.dot(w, x) + b > 0 else 1  # a target that the perceptron misses
    return {"x": x, "w": w, "b": b, "t": wrong, "rate": draw.choice([0.25, 3.0])}


def _flips(formula: Formula) -> Formula:
    """A wrong sum, if it leads to the other output; otherwise the mistake has no effect."""

    def wrong(v: Any) -> Any:
        z = formula(v)
        return z if (z > 0) != (v.w @ v.x + v.b > 0) else None

    return wrong


def _rule(factor: Formula) -> Formula:
    """The update with a different factor of the input."""
    return lambda v: v.w + factor(v) * v.x


PERCEPTRON = Topic(
    "perceptron",
    "One update of the perceptron rule",
    "The perceptron classifies the point with its old weights, then learns from it.",
    _draw_perceptron,
    lambda v: worked_perceptron([v.x], v.w, v.b, [v.t], rate=v.rate, epochs=1, digits=DIGITS),
    (
        Part("z", r"the sum $z = w \cdot x + b$", lambda v: v.w @ v.x + v.b, "perceptron.sum"),
        Part("y", "the output $y$", lambda v: np.where(v.z > 0, 1.0, 0.0), "perceptron.output"),
        Part("new", "the new weights", lambda v: v.w + v.rate * (v.t - v.y) * v.x, "new w"),
    ),
    (
        slip("no-bias", "Add the bias b to the sum.", z=lambda v: v.w @ v.x),
        slip(
            "away",
            "Move the weights by η (t - y) x, not by η (y - t) x.",
            new=lambda v: v.w - v.rate * (v.t - v.y) * v.x,
        ),
        slip(
            "no-rate",
            "Multiply the change by the learning rate η.",
            new=lambda v: v.w + (v.t - v.y) * v.x,
        ),
        slip(
            "no-input",
            "Multiply the change by the input x.",
            new=lambda v: v.w + v.rate * (v.t - v.y),
        ),
        slip(
            "sum-for-output",
            "Compare the target with the output y, which is 0 or 1, not with the sum z.",
            new=lambda v: v.w + v.rate * (v.t - v.z) * v.x,
        ),
        slip(
            "only-change",
            "Add the change to the old weights.",
            new=lambda v: v.rate * (v.t - v.y) * v.x,
        ),
        slip("minus-bias", "Add the bias; do not subtract it.",
             z=_flips(lambda v: v.w @ v.x - v.b)),
        slip("added", "Multiply each input by its weight; do not add them.",
             z=_flips(lambda v: (v.w + v.x).sum() + v.b)),
        slip("first-input", "Add the terms of both inputs.",
             z=_flips(lambda v: v.w[0] * v.x[0] + v.b)),
        slip("crossed", "Multiply each input by its own weight.",
             z=_flips(lambda v: v.w @ v.x[::-1] + v.b)),
        slip("minus-one", "The output is 0 or 1, not -1 or 1.",
             y=lambda v: np.where(v.z > 0, 1.0, -1.0) if v.z <= 0 else None),
        slip("sigmoid", "The output of a perceptron is 0 or 1; it has no sigmoid.",
             y=lambda v: sigmoid(v.z) if abs(v.z) < 3 else None),
        slip("no-error", "Multiply the rate by the error t - y.",
             new=lambda v: v.w + v.rate * v.x if v.t < v.y else None),
        slip("weights-for-input", "The change is a multiple of the input, not of the weights.",
             new=lambda v: v.w + v.rate * (v.t - v.y) * v.w),
        slip("divided-rate", "Multiply by the learning rate; do not divide.",
             new=_rule(lambda v: (v.t - v.y) / v.rate)),
        slip("all-by-rate", "The rate multiplies only the change.",
             new=lambda v: v.rate * (v.w + (v.t - v.y) * v.x)),
        slip("halved", "The rule has no factor 1/2.",
             new=_rule(lambda v: v.rate * (v.t - v.y) / 2)),
        slip("crossed-update", "Add to each weight a multiple of its own input.",
             new=lambda v: v.w + v.rate * (v.t - v.y) * v.x[::-1]),
        slip("one-weight", "Both weights change.",
             new=lambda v: v.w + v.rate * (v.t - v.y) * v.x * [1, 0]),
    ),
    decimals=2,
    fits=lambda v: bool((v.w @ v.x > 0) != (v.z > 0)),  # the bias counts
)  # fmt: skip

_WRONG_SOFTMAX = (
    slip("base-2", "Use powers of e, not of 2.", e=lambda v: 2**v.x),
    slip("base-10", "Use powers of e, not of 10.", e=lambda v: 10**v.x),
    slip("no-exp", "Take the exponential of every entry before you divide.", e=lambda v: v.x),
    slip("negative", "Use exp(x), not exp(-x).", e=lambda v: np.exp(-v.x)),
    slip("mean", "Divide by the sum of the exponentials, not their mean.", z=lambda v: v.e.mean()),
    slip("largest", "Divide by the sum of all exponentials.", z=lambda v: v.e.max()),
    slip(
        "exp-of-sum",
        "Add up the exponentials, not the entries: exp(a) + exp(b), not exp(a + b).",
        z=lambda v: np.exp(v.x.sum()),
    ),
    slip("squares", "Take exp(x), not the square of x.", e=lambda v: v.x**2),
    slip("product", "exp(x) is e to the power of x, not e times x.", e=lambda v: np.e * v.x),
    slip("no-minus", "Keep the sign of the negative entries.",
         e=lambda v: np.exp(abs(v.x)) if v.x.min() < 0 else None),
    slip("length", "Divide by the sum of the exponentials, not by the root of their squares.",
         z=lambda v: np.sqrt((v.e**2).sum())),
    slip("two-of-three", "Add up all three exponentials.", z=lambda v: v.e[:-1].sum()),
    slip("one-more", "The sum has no further 1, as the sigmoid has.", z=lambda v: v.e.sum() + 1),
)  # fmt: skip
_SOFTMAX_PARTS = (
    Part("e", r"the exponentials $e = \exp(x)$", lambda v: np.exp(v.x), "softmax.exponentials"),
    Part("z", "the normaliser $Z$", lambda v: v.e.sum(), "softmax.normaliser"),
    Part("p", "the probabilities $p$", lambda v: v.e / v.z, "softmax.probabilities"),
)


def _draw_softmax(draw: Draw) -> dict[str, Any]:
    x = draw.shuffled([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0])[:3]
    return {"x": x, "k": draw.whole(1, 3)}


def _onehot(v: Any, shift: int = 0) -> Any:
    return np.eye(len(v.x))[(v.k - 1 + shift) % len(v.x)]


SOFTMAX = Topic(
    "softmax",
    "Softmax",
    "Turn the numbers x into probabilities.",
    _draw_softmax,
    lambda v: worked_softmax(v.x, digits=DIGITS),
    _SOFTMAX_PARTS,
    (
        *_WRONG_SOFTMAX,
        slip(
            "sigmoid",
            "Softmax divides by the sum of all exponentials; 1 + exp(x) belongs to the sigmoid.",
            p=lambda v: sigmoid(v.x),
        ),
        slip("others", "The sum includes the entry itself.", p=lambda v: v.e / (v.z - v.e)),
        slip("inverted", "Divide the exponential by the sum, not the sum by it.",
             p=lambda v: v.z / v.e),
        slip("logarithm", "The question asks for the probabilities, not for their logarithms.",
             p=lambda v: np.log(v.e / v.z)),
        slip("complement", "Divide the exponential itself; 1 - p is the probability of the others.",
             p=lambda v: 1 - v.e / v.z),
        slip("input-over-sum", "Divide the exponential of the entry, not the entry.",
             p=lambda v: v.x / v.z),
    ),
)  # fmt: skip

CROSS_ENTROPY = Topic(
    "cross-entropy",
    "Cross-entropy loss",
    "The entries x go through a softmax. The correct entry is number k.",
    _draw_softmax,
    lambda v: worked_softmax(v.x, v.k, digits=DIGITS),
    (*_SOFTMAX_PARTS, Part("loss", r"the loss $L$", lambda v: -np.log(v.p[v.k - 1]), "loss")),
    (
        *(s for s in _WRONG_SOFTMAX if s.name != "exp-of-sum"),
        slip("plus-log", "The loss is minus the logarithm.", loss=lambda v: np.log(v.p[v.k - 1])),
        slip("log-2", "Use the natural logarithm.", loss=lambda v: -np.log2(v.p[v.k - 1])),
        slip("log-10", "Use the natural logarithm.", loss=lambda v: -np.log10(v.p[v.k - 1])),
        slip(
            "from-0",
            "The correct entry k is counted from 1.",
            loss=lambda v: -np.log(v.p[v.k]) if v.k < 3 else None,
        ),
        slip(
            "all-entries",
            "Only the probability of the correct entry counts.",
            loss=lambda v: -np.log(v.p).sum(),
        ),
        slip("no-log", "Take the logarithm of the probability.", loss=lambda v: 1 - v.p[v.k - 1]),
        slip(
            "squared",
            "Cross-entropy is a logarithm, not a squared distance.",
            loss=lambda v: ((v.p - _onehot(v)) ** 2).sum() / 2,
        ),
        slip("entropy", "Use the probability p, not p ln p.",
             loss=lambda v: -v.p[v.k - 1] * np.log(v.p[v.k - 1])),
        slip("most-probable", "Use the probability of the correct entry, not the largest one.",
             loss=lambda v: -np.log(v.p.max()) if v.p[v.k - 1] < v.p.max() else None),
        slip("others", "Use the probability of the correct entry, not of the others.",
             loss=lambda v: -np.log(1 - v.p[v.k - 1])),
        slip("inverse", "Take the logarithm; 1/p is the perplexity.",
             loss=lambda v: 1 / v.p[v.k - 1]),
        slip("divided", "There is one example: do not divide by the number of entries.",
             loss=lambda v: -np.log(v.p[v.k - 1]) / 3),
    ),
)  # fmt: skip

SOFTMAX_GRADIENT = Topic(
    "softmax-gradient",
    "Gradient of the cross-entropy loss",
    "The entries x go through a softmax and the cross-entropy loss. The correct entry is "
    "number k.",
    _draw_softmax,
    lambda v: worked_softmax(v.x, v.k, digits=DIGITS),
    (*_SOFTMAX_PARTS, Part("g", r"the gradient $\frac{\partial L}{\partial x}$",
                           lambda v: v.p - _onehot(v), "gradient")),
    (
        *(s for s in _WRONG_SOFTMAX if s.name != "exp-of-sum"),
        slip("reversed", "The gradient is p minus onehot(k), not the reverse.",
             g=lambda v: _onehot(v) - v.p),
        slip("from-0", "Subtract 1 at the correct entry k, counted from 1.",
             g=lambda v: v.p - _onehot(v, 1)),
        slip("everywhere", "Subtract 1 only at the correct entry.", g=lambda v: v.p - 1),
        slip("sigmoid-slope", "The gradient of softmax with cross-entropy is p - onehot(k), "
             "without p (1 - p).", g=lambda v: v.p * (1 - v.p)),
        slip("squared-error", "Do not multiply by p (1 - p): it cancels against the logarithm.",
             g=lambda v: (v.p - _onehot(v)) * v.p * (1 - v.p)),
        slip("divided", "There is one example: do not divide by the number of entries.",
             g=lambda v: (v.p - _onehot(v)) / len(v.x)),
        slip("plus", "Subtract 1 at the correct entry; do not add it.",
             g=lambda v: v.p + _onehot(v)),
        slip("only-correct", "The gradient has an entry for every x, not only for the correct one.",
             g=lambda v: (v.p - 1) * _onehot(v)),
        slip("by-p", "That is the derivative with respect to p; go on to x.",
             g=lambda v: -_onehot(v) / v.p),
        slip("doubled", "The gradient has no factor 2.", g=lambda v: 2 * (v.p - _onehot(v))),
    ),
)  # fmt: skip

_ACT: dict[str, Formula] = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh, "sigmoid": sigmoid}
_SLOPE: dict[str, Formula] = {
    "relu": lambda z: (z > 0) * 1.0,
    "tanh": lambda z: 1 - np.tanh(z) ** 2,
    "sigmoid": lambda z: sigmoid(z) * (1 - sigmoid(z)),
}
_OTHER: dict[str, Formula] = {"relu": sigmoid, "tanh": sigmoid, "sigmoid": np.tanh}


def _draw_mlp(draw: Draw) -> dict[str, Any]:
    return {
        "x": draw.distinct(2), "W": draw.halves(2, 2), "b": draw.distinct(2, unit=0.5),
        "v": draw.distinct(2), "c": draw.halves(), "y": float(draw.whole(-2, 3)),
        "act": draw.choice(["relu", "tanh", "sigmoid"]), "rate": draw.choice([0.1, 0.2]),
    }  # fmt: skip


def _solve_mlp(v: Any, rate: float | None = None, target: bool = True) -> Any:
    y = v.y if target else None
    return worked_mlp(v.x, v.W, v.b, v.v, v.c, y, rate, activation=v.act, digits=DIGITS)


_FORWARD = (
    Part("z", "the preactivation $z = W x + b$", lambda v: v.W @ v.x + v.b,
         "layers.0.dense.preactivation"),
    Part("h", "the activation $h$", lambda v: _ACT[v.act](v.z), "layers.0.dense.activation"),
    Part("out", r"the output $\hat{y}$", lambda v: v.v @ v.h + v.c, "output.dense.preactivation"),
)  # fmt: skip
_DELTA = Part("delta", r"the error $\delta$ of the output", lambda v: v.out - v.y, "delta")
_WRONG_FORWARD = (
    slip("no-bias", "Add the bias b to W x.", z=lambda v: v.W @ v.x),
    slip("transposed-W", "Each row of W belongs to one hidden unit: compute W x, not Wᵀ x.",
         z=lambda v: v.W.T @ v.x + v.b),
    slip("no-activation", "Apply the activation to z.", h=lambda v: v.z),
    slip("wrong-activation", "That is a different activation function.",
         h=lambda v: _OTHER[v.act](v.z)),
    slip("no-output-bias", "Add the bias c to the output.", out=lambda v: v.v @ v.h),
)  # fmt: skip


_LOSS = r"The loss is $L = (y - \hat{y})^2 / 2$."


def _activation(v: Any) -> str:
    name = {"relu": "ReLU", "tanh": "tanh", "sigmoid": "the sigmoid"}[v.act]
    return f"The activation of the hidden units is {name}."


def _moderate(v: Any) -> bool:
    return bool(abs(v.z).max() <= 3 and abs(v.out - v.y) > 0.4)


MLP_FORWARD = Topic(
    "mlp-forward",
    "Forward pass of a network with one hidden layer",
    lambda v: f"{_activation(v)} The output unit has none.",
    _draw_mlp,
    lambda v: _solve_mlp(v, target=False),
    _FORWARD,
    (
        *_WRONG_FORWARD,
        slip("output-activation", "The output unit has no activation.",
             out=lambda v: _ACT[v.act](v.v @ v.h + v.c)),
        slip("no-v", "Multiply each hidden unit by its weight in v.",
             out=lambda v: v.h.sum() + v.c),
        slip("negative-relu", "ReLU turns negative numbers into 0; it does not remove the sign.",
             h=lambda v: abs(v.z) if v.act == "relu" else None),
        slip("minus-bias", "Add the bias b; do not subtract it.", z=lambda v: v.W @ v.x - v.b),
        slip("crossed-inputs", "The first column of W belongs to the first input.",
             z=lambda v: v.W @ v.x[::-1] + v.b),
        slip("bias-first", "Add the bias after you multiply by W.", z=lambda v: v.W @ (v.x + v.b)),
        slip("crossed-bias", "Each hidden unit has its own bias.",
             z=lambda v: v.W @ v.x + v.b[::-1]),
        slip("slope", "Apply the activation, not its derivative.", h=lambda v: _SLOPE[v.act](v.z)),
        slip("crossed-v", "Multiply each hidden unit by its own weight.",
             out=lambda v: v.v @ v.h[::-1] + v.c),
        slip("minus-c", "Add the bias c; do not subtract it.", out=lambda v: v.v @ v.h - v.c),
        slip("mean", "Add up the hidden units; do not average them.",
             out=lambda v: (v.v @ v.h) / 2 + v.c),
        slip("b-for-c", "The output has its own bias, c.", out=lambda v: v.v @ v.h + v.b[0]),
    ),
    fits=_moderate,
)  # fmt: skip

MLP_GRADIENTS = Topic(
    "mlp-gradients",
    "Gradients of a network with one hidden layer",
    lambda v: f"{_activation(v)} {_LOSS}",
    _draw_mlp,
    _solve_mlp,
    (
        *_FORWARD,
        _DELTA,
        Part("dh", r"$\frac{\partial L}{\partial h}$", lambda v: v.delta * v.v, "dL/dh"),
        Part("slope", "the slope of the activation at $z$", lambda v: _SLOPE[v.act](v.z), "slope"),
        Part("dz", r"$\frac{\partial L}{\partial z}$", lambda v: v.dh * v.slope, "dL/dz"),
        Part("dW", r"$\frac{\partial L}{\partial W}$", lambda v: np.outer(v.dz, v.x), "dL/dW"),
    ),
    (
        *(s for s in _WRONG_FORWARD if s.name != "wrong-activation"),
        slip("reversed", "The error is the output minus the target.", delta=lambda v: v.y - v.out),
        slip("no-half", "The loss is half the squared error, so its derivative has no factor 2.",
             delta=lambda v: 2 * (v.out - v.y)),
        slip("through-h", "The error of the output reaches h through the weights v.",
             dh=lambda v: v.delta * v.h),
        slip("no-delta", "Multiply the weights v by the error of the output.", dh=lambda v: v.v),
        slip("value-for-slope", "Use the derivative of the activation, not its value.",
             slope=lambda v: v.h),
        slip("slope-at-h", "Take the slope at z: h is the activation already.",
             slope=lambda v: None if v.act == "relu" else _SLOPE[v.act](v.h)),
        slip("wrong-slope", "That is the derivative of a different activation.",
             slope=lambda v: 1 - v.h if v.act != "relu" else v.h * (1 - v.h)),
        slip("no-slope", "Multiply by the slope of the activation.", dz=lambda v: v.dh),
        slip("transposed", "Row i of the gradient belongs to hidden unit i: compute dz xᵀ.",
             dW=lambda v: np.outer(v.x, v.dz)),
        slip("h-for-x", "The input of W is x, not h.", dW=lambda v: np.outer(v.dz, v.h)),
        slip("loss-for-error", "The gradient starts with the error, not with the loss.",
             delta=lambda v: (v.out - v.y) ** 2 / 2),
        slip("only-input", "Multiply the input by the gradient at z.",
             dW=lambda v: np.outer([1, 1], v.x)),
        slip("W-for-x", "The gradient uses the input x, not the weights.",
             dW=lambda v: v.dz[:, None] * v.W),
    ),
    fits=lambda v: _moderate(v) and bool(abs(v.dW).max() > 0.05),
)  # fmt: skip

SGD_STEP = Topic(
    "sgd-step",
    "One step of gradient descent",
    lambda v: f"{_activation(v)} {_LOSS} Update the weights of the output.",
    _draw_mlp,
    lambda v: _solve_mlp(v, v.rate),
    (
        *_FORWARD,
        _DELTA,
        Part("dv", r"$\frac{\partial L}{\partial v}$", lambda v: v.delta * v.h, "dL/dv"),
        Part("new", "the new weights $v$", lambda v: v.v - v.rate * v.dv, "new v"),
    ),
    (
        *(s for s in _WRONG_FORWARD if s.name != "wrong-activation"),
        slip("no-half", "The loss is half the squared error, so its derivative has no factor 2.",
             delta=lambda v: 2 * (v.out - v.y)),
        slip("loss-for-error", "The gradient starts with the error, not with the loss.",
             delta=lambda v: (v.out - v.y) ** 2 / 2),
        slip("z-for-h", "The input of the output unit is h, after the activation.",
             dv=lambda v: v.delta * v.z),
        slip("x-for-h", "The input of the output unit is h, not x.", dv=lambda v: v.delta * v.x),
        slip("no-input", "Multiply the error by the input h.", dv=lambda v: v.delta + 0 * v.h),
        slip("uphill", "Subtract the step: against the gradient, the loss falls.",
             new=lambda v: v.v + v.rate * v.dv),
        slip("no-rate", "Multiply the gradient by the learning rate.", new=lambda v: v.v - v.dv),
        slip("only-change", "Subtract the step from the old weights.",
             new=lambda v: -v.rate * v.dv),
        slip("through-v", "The gradient of v is the error times the input h, not times v.",
             dv=lambda v: v.delta * v.v),
        slip("no-delta", "Multiply the input h by the error.", dv=lambda v: v.h),
        slip("slope", "The output unit has no activation, and so no slope.",
             dv=lambda v: None if v.act == "relu" else v.delta * v.h * _SLOPE[v.act](v.z)),
        slip("crossed-inputs", "Each weight has its own input.",
             dv=lambda v: v.delta * v.h[::-1]),
        slip("divided-rate", "Multiply by the learning rate; do not divide.",
             new=lambda v: v.v - v.dv / v.rate),
        slip("added-rate", "Multiply the gradient by the learning rate; do not add it.",
             new=lambda v: v.v - (v.dv + v.rate)),
        slip("all-by-rate", "The rate multiplies only the gradient.",
             new=lambda v: v.rate * (v.v - v.dv)),
    ),
    fits=_moderate,
)  # fmt: skip

TOPICS = (
    PERCEPTRON, SOFTMAX, CROSS_ENTROPY, SOFTMAX_GRADIENT, MLP_FORWARD, MLP_GRADIENTS, SGD_STEP,
)  # fmt: skip
