"""Gradients of the loss of one text, at every weight and every trace point.

The gradient at a point is the derivative of the loss with respect to its value, where only this
point changes and everything after it is recomputed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.core.trace import DEFAULT_BUDGET, Trace
from translucid.models.base import Network
from translucid.parts.recurrent import Recurrent
from translucid.see.picture_layout import readable
from translucid.see.pictures import Axis, Bars, Heat, Lines, Numbers
from translucid.see.trace_pictures import numbers
from translucid.tasks.base import Task
from translucid.tasks.example import Example
from translucid.tasks.outputs import Outputs
from translucid.tasks.words import ALONG_TEXT, Words

STATES = ("rnn.hidden", "lstm.hidden", "lstm.cell", "gru.hidden")
STREAM = ("embedding.scaled", "feedforward_residual.sum")  # a Transformer's residual stream
PARTS = ("embedding", "characters", "segments", "positions", "bridge", "self attention",
         "cross attention", "feedforward", "norms")  # fmt: skip
FUSED = re.compile(r"(weight|bias)_(ih|hh)_l(\d+)(_reverse)?")  # torch's names
WEIGHT_NAMES = {("weight", "ih"): "input weights", ("weight", "hh"): "state weights",
        ("bias", "ih"): "biases", ("bias", "hh"): "biases"}  # fmt: skip


class Gradients(Trace):
    """The gradients of a loss. `parameters` contains those of the weights; those of trace points
    are read by name, as in `gradients["encoder.layers.0.self_attention.pattern"]`. Append `@3` to
    the name for position 3."""

    loss: float
    parameters: Mapping[str, Tensor]

    def __init__(
        self,
        network: Network,
        example: Example,
        at: str,
        keep: str | Sequence[str],
        budget: int | None,
    ) -> None:
        super().__init__(keep, budget_bytes=budget)
        self._network, self._words, self._at = network, example.words, at

    def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
        # Each point needs its own graph node: the skip connection and the sub-layer's input share
        # a tensor.
        if value.is_floating_point():
            value = value.view_as(value) if value.requires_grad else value.detach()
            value.requires_grad_()
        return value

    def differentiate(self, loss: Tensor) -> None:
        """Replace the recorded values with the gradients of the loss at these values. Boolean
        points have no gradient."""
        weights = {name: p for name, p in self._network.named_parameters() if p.requires_grad}
        nodes = [node for node in self.written() if node[2].requires_grad]
        sought = [*weights.values(), *(value for _, _, value in nodes)]
        gradients = [
            torch.zeros_like(value) if gradient is None else gradient
            for value, gradient in zip(
                sought, torch.autograd.grad(loss, sought, allow_unused=True), strict=True
            )
        ]
        self.loss = loss.item()
        self.parameters = dict(zip(weights, gradients, strict=False))
        self.clear()
        for (name, position, _), gradient in zip(nodes, gradients[len(weights) :], strict=True):
            self.keeps(name, position, gradient)

    def by_layer(self) -> Bars:
        """Bar chart of the gradient norm of each layer's weights, in order of use."""
        layers = layers_of(self._network, self.parameters)
        return Bars(
            f"Size of each layer's gradient{self._at}",
            "norm of the gradient of its weights", tuple(layers),
            self._sizes(list(layers.values())), tied_layers(self._network),
        )  # fmt: skip

    def by_part(self) -> Heat:
        """Table of gradient norms, by layer and part."""
        places = self._places()
        rows = _in_order([layer for layer, _ in places.values()])
        parts = list(dict.fromkeys(part for _, part in places.values()))
        parts.sort(key=lambda part: PARTS.index(part) if part in PARTS else len(PARTS))
        cells = [[name for name in places if places[name] == (row, part)]
                 for row in rows for part in parts]  # fmt: skip
        sizes = self._sizes(cells)
        sizes[[not names for names in cells]] = np.nan
        return Heat(
            f"Norm of the gradient of the weights{self._at}", sizes.reshape(len(rows), -1),
            Axis("layer", tuple(rows)), Axis("part", tuple(parts)), "positive",
            note=tied_layers(self._network),
        )  # fmt: skip

    def by_time(self, pattern: str | None = None) -> Lines:
        """Line chart of the gradient norm at each token, by default for the recurrent states or the
        residual stream after each layer. pattern: other points with a vector for each token."""
        names = self._over_words(pattern)
        sides = [side for side in (self._words.source, self._words.target) if side]
        along = {name: self._side(name) for name in names}
        sides = [side for side in sides if side in along.values()]
        series: dict[str, Numbers] = {}
        for name in names:
            sizes = numbers(self[name][0].flatten(1).norm(dim=1))
            before = sides.index(along[name])
            series[_line(name)] = np.concatenate(
                [sizes if place == before else np.full(len(side), np.nan)
                 for place, side in enumerate(sides)]
            )  # fmt: skip
        none = any((values == 0).any() for values in series.values())
        return Lines(
            f"How much of the gradient reaches each token{self._at}",
            Axis("token", tuple(word for side in sides for word in side)),
            "norm of the gradient",
            {name: np.where(values == 0, np.nan, values) for name, values in series.items()},
            logarithmic=True,
            note="where a line has no dot, the gradient is 0" if none else "",
        )

    # ---- grouping of weights ----

    def _places(self) -> dict[str, tuple[str, str]]:
        return {name: _place(name, self._network) for name in self.parameters}

    def _sizes(self, groups: Sequence[Sequence[str]]) -> Numbers:
        """The gradient norm of each group of weights."""
        squares = [
            sum((self.parameters[name].double().square().sum() for name in names), _ZERO)
            for names in groups
        ]
        return numbers(torch.stack([square.cpu() for square in squares]).sqrt())

    # ---- which points have a vector for each token ----

    def _over_words(self, pattern: str | None) -> list[str]:
        if pattern is None:
            stream: tuple[str, ...] = STREAM
            if not any(name.endswith("embedding.scaled") for name in self):
                stream = ("embedding.lookup", *STREAM)
            names = [name for name in self if name.endswith(STATES)] or [
                name for name in self if name.endswith(stream)
            ]
            if not names:
                raise InputError(
                    "the trace has neither recurrent states nor a residual stream; keep more "
                    'points, or choose others, such as pattern="*.output"'
                )
            return names
        names = self.names(pattern)
        if not names:
            self[pattern]  # raises an error that names the cause
            raise InputError(f"no point with a gradient matches {pattern!r}")
        over = [name for name in names if _has_token_vectors(name)]
        if not over:
            raise InputError(
                f"{names[0]} has no vector for each token "
                f"(its axes are {', '.join(describe(names[0]).axes)}); choose a different pattern"
            )
        return over

    def _side(self, name: str) -> tuple[str, ...]:
        words: Words = self._words
        along = words.along(name, describe(name).axes[1])
        return along if along in (words.source, words.target) else words.last

    def missing(self, name: str) -> str:
        if name in self.met and self.wants(name):
            return f"{name} is boolean, so it has no gradient"
        return super().missing(name)


_ZERO = torch.zeros((), dtype=torch.float64)


def gradients(
    network: Network,
    task: Task[Any, Any],
    example: Example,
    *,
    of: int | None = None,
    keep: str | Sequence[str] = "*",
    budget_bytes: int | None = DEFAULT_BUDGET,
) -> Gradients:
    """Compute the gradients of the loss of one example: -log p(target) or half the squared error,
    averaged over the targets, as in training but without label smoothing and dropout.

    of: the position of one target, such as 3 or -1; by default all targets. keep: the points to
    keep; the gradients of all weights are always kept.
    """
    means, targets = task.outputs, example.batch.targets
    counts = _counts(means, targets)
    place = None if of is None else _place_of(of, counts)
    twin = eval_copy(network, learning=True)
    trace = Gradients(twin, example, _at(example.words, place), keep, budget_bytes)
    with torch.enable_grad():
        outputs = twin(**example.inputs_for(twin), trace=trace)
        losses = means.losses(outputs, targets.to(outputs.device))
        trace.differentiate(losses.sum() / counts.sum() if place is None else losses[place])
    trace.check()
    return trace


def _counts(means: Outputs, targets: Tensor) -> Tensor:
    """A mask of the targets that count towards the loss. Raise an InputError if there is none."""
    counts = means.counts(targets)
    if not bool(counts.any()):
        raise InputError(f"the example has no target to compute a loss from; {means.lacking}")
    return counts


def _place_of(of: int, counts: Tensor) -> int:
    counted = counts.flatten().nonzero()[:, 0].tolist()
    if of < 0 and -of <= len(counted):
        return int(counted[of])
    if of not in counted:
        places = ", ".join(map(str, counted))
        raise InputError(f"of = {of}: must be the position of a target, one of {places}")
    return of


def _at(words: Words, place: int | None) -> str:
    """The end of a picture's title: the target whose loss was chosen; empty for all targets."""
    if place is None:
        return ""
    labels = readable(words.follows or words.source)
    return f", from the loss at {labels[place]}" if place < len(labels) and len(labels) > 1 else ""


def layers_of(network: Network, names: Iterable[str]) -> dict[str, list[str]]:
    """Group weight names by layer, in the order in which the layers are used."""
    places = {name: _place(name, network)[0] for name in names}
    rows = _in_order(list(places.values()))
    return {row: [name for name in places if places[name] == row] for row in rows}


def tied_layers(network: Network) -> str:
    """A note listing the layers that share weights; their gradients are summed."""
    users: dict[int, list[str]] = {}
    for name, weight in network.named_parameters(remove_duplicate=False):
        users.setdefault(id(weight), []).append(_place(name, network)[0])
    shared = [list(dict.fromkeys(layers)) for layers in users.values() if len(layers) > 1]
    return "; ".join(f"{one} is also {' and '.join(more)}" for one, *more in shared if more)


def _place(name: str, network: Network) -> tuple[str, str]:
    """The layer and the part of a weight, in words."""
    scopes = name.split(".")
    fused = FUSED.fullmatch(scopes[-1])
    if fused:
        kind, source, layer, backward = fused.groups()
        stack = network.get_submodule(name.rpartition(".fused.")[0])
        assert isinstance(stack, Recurrent)
        part = f"{stack.cell.partition('_')[0]} {WEIGHT_NAMES[kind, source]}"
        return _layer([*scopes[:-3], "layers", layer]), f"{part}, backward" if backward else part
    if "layers" in scopes:
        behind = scopes.index("layers") + 2
        return _layer(scopes[:behind]), _part(scopes[behind])
    depth = next((at for at, scope in enumerate(scopes) if scope in ("encoder", "decoder")), None)
    if depth is None:
        depth = 1 if scopes[0] == "members" else -1  # members.0.head
    return _layer(scopes[: depth + 2]), _part(scopes[depth + 1])


def _layer(scopes: Sequence[str]) -> str:
    """A layer in words: encoder.layers.0 -> encoder layer 0"""
    return (
        " ".join(scopes).replace("layers", "layer").replace("members", "member").replace("_", " ")
    )


def _part(scope: str) -> str:
    return "norms" if scope.endswith(("_residual", "_norm")) else scope.replace("_", " ")


def _has_token_vectors(name: str) -> bool:
    axes = describe(name).axes
    return len(axes) > 2 and axes[1] in ALONG_TEXT


def _line(name: str) -> str:
    """The name of a point's line in a chart:

    decoder.recurrent.layers.0.lstm.hidden -> decoder layer 0 hidden
    """
    *scopes, point = name.split(".")
    shown = [scope for scope in scopes if scope != "recurrent"]
    if "layers" in shown and shown[-1] in ("rnn", "lstm", "gru", "feedforward_residual"):
        shown = shown[:-1]
    return _layer(shown) + ("" if name.endswith(STREAM) else f" {point}")


def _in_order(layers: Sequence[str]) -> list[str]:
    """Sort layers by order of use; the network lists the bridge after the decoder."""
    rows = list(dict.fromkeys(layers))
    sides = [row.rpartition("decoder ")[:2] if "decoder " in row else row for row in rows]

    def place(row: str) -> tuple[int, bool, int]:
        number = rows.index(row)
        return sides.index(sides[number]), not row.endswith("bridge"), number

    return sorted(rows, key=place)


def eval_copy(network: Network, *, learning: bool = False) -> Network:
    """Copy a network in evaluation mode, sharing the weights. The network itself is not changed, so
    several threads can use it at once.

    learning: True if all weights of the copy get gradients, even frozen ones; False if none do.
    """
    shared: dict[int, Any] = {id(buffer): buffer for buffer in network.buffers()}
    for weight in network.parameters():
        own = learning and weight.is_floating_point()
        shared[id(weight)] = nn.Parameter(weight.detach(), requires_grad=own)
    twin = deepcopy(network, shared).eval()
    for module in twin.modules():
        if isinstance(module, nn.RNNBase) and next(module.parameters()).is_cuda:
            # cuDNN's recurrent kernels have no backward pass in evaluation mode.
            module.dropout = 0.0
            module.train()
    return twin
