"""Build an ONNX graph node by node. A value is the name of a tensor in the graph.

torch.onnx.export is not used: with dynamo=True (torch 2.13), a prototype reproduced 15 of 16
Transformers, including trace points and cached steps, but took 7 to 16 s of processor time for one
or two layers instead of hundredths of a second, and failed for padded recurrent networks. With
dynamo=False, it failed for the encoders that were tried.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
from torch import Tensor

from translucid.core.errors import ConfigError, install_command
from translucid.parts.activations import ActivationName

OPSET = 20  # the first with a Gelu node
IR_VERSION = 9  # the version released with this opset: software that reads one reads the other
LOWEST = -3e38  # attention score of masked positions
Kind = Literal["float32", "int64", "bool", "int32"]
KINDS: Mapping[Kind, int] = {"float32": 1, "int32": 6, "int64": 7, "bool": 9}  # ONNX's type numbers
Scanned = tuple[str, Kind, int]  # a value, its type, and its number of axes inside the loop
# Names of dynamic axes
BATCH, QUERIES, KEYS, PAST, SOURCE = "batch", "queries", "keys", "past", "source_length"
INSTALL = f"install it with: {install_command('onnx')}"


def onnx_package() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ConfigError(f"export to onnx needs the package onnx; {INSTALL}") from error
    return onnx


@dataclass(frozen=True)
class _Output:
    value: str
    kind: Kind
    rank: int | None = None


class Graph:
    """An ONNX graph under construction: nodes and constants. weights: the network's tensors, by
    name. traced: every trace point becomes an output, computed step by step instead of by a fused
    node."""

    def __init__(
        self, weights: Mapping[str, Tensor], *, traced: bool = False, outer: "Graph | None" = None
    ) -> None:
        self.onnx = onnx_package()
        self.weights, self.traced = weights, traced
        self._numbers: Iterator[int] = count() if outer is None else outer._numbers
        self._constants: dict[str, Any] = {} if outer is None else outer._constants
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._ranks: list[Any] = []
        self._outputs: dict[str, _Output] = {}

    # ---- values ----

    def input(self, name: str, kind: Kind, shape: Sequence[str | int] | None) -> str:
        self._inputs.append(self.onnx.helper.make_tensor_value_info(name, KINDS[kind], shape))
        return name

    def output(self, name: str, value: str, kind: Kind = "float32") -> None:
        self._outputs[name] = _Output(value, kind)

    def point(self, name: str, value: str, kind: Kind = "float32", *, rank: int = 2) -> str:
        """Mark a value as a trace point, and return the value. rank: the number of axes of a value
        that is computed inside a loop."""
        if self.traced:
            self._outputs[name] = _Output(value, kind, rank)
        return value

    def ranked(self, value: str, rank: int, kind: Kind = "float32") -> str:
        """Declare that a value has `rank` axes, where onnx cannot infer it. Returns the value."""
        axes = [f"{value}_{i}" for i in range(rank)]
        self._ranks.append(self.onnx.helper.make_tensor_value_info(value, KINDS[kind], axes))
        return value

    def constant(self, value: Any, name: str | None = None) -> str:
        if isinstance(value, Tensor):
            value = value.detach().cpu()
            value = value.float() if value.is_floating_point() else value
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = name or f"constant_{next(self._numbers)}"
        self._constants[name] = self.onnx.numpy_helper.from_array(array.copy(order="C"), name)
        return name

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """A weight of the network as a constant, optionally transposed for MatMul."""
        stored = f"{name}.transposed" if transposed else name
        if stored not in self._constants:
            tensor = self.weights[name].detach().float()
            self.constant(tensor.t() if transposed else tensor, stored)
        return stored

    def has(self, name: str) -> bool:
        return name in self.weights

    def op(self, node: str, *values: str, **options: Any) -> str:
        (value,) = self.ops(node, 1, *values, **options)
        return value

    def ops(self, node: str, outputs: int, *values: str, **options: Any) -> list[str]:
        """Add a node with several outputs."""
        number = next(self._numbers)
        names = [f"{node}_{number}_{i}" for i in range(outputs)]
        self._nodes.append(self.onnx.helper.make_node(node, list(values), names, **options))
        return names

    # ---- shared helpers ----

    def ints(self, *numbers: int) -> str:
        name = "ints" + "".join(f"_{number}" for number in numbers)
        return self.constant(np.array(numbers, dtype=np.int64), name)

    def index(self, number: int) -> str:
        """An integer scalar constant."""
        return self.constant(np.array(number, dtype=np.int64), f"index_{number}")

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def size(self, value: str, axis: int) -> str:
        """The size of one axis of a value, as a tensor of shape (1,)."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def shape(self, *sizes: str) -> str:
        """Concatenate sizes, each of shape (1,), into a shape."""
        return self.op("Concat", *sizes, axis=0)

    def zeros(self, *sizes: str) -> str:
        return self.op("ConstantOfShape", self.shape(*sizes))

    def range(self, start: str, end: str) -> str:
        """The integers from start up to, but not including, end. Both have shape (1,)."""
        first, last = (self.op("Squeeze", value, self.ints(0)) for value in (start, end))
        return self.op("Range", first, last, self.index(1))

    def axes(self, value: str, *axes: int) -> str:
        return self.op("Unsqueeze", value, self.ints(*axes))

    def slice(self, value: str, start: str, end: str, axis: int) -> str:
        return self.op("Slice", value, start, end, self.ints(axis))

    def cast(self, value: str, kind: Kind) -> str:
        return self.op("Cast", value, to=KINDS[kind])

    def linear(self, name: str, x: str) -> str:
        """Apply a linear layer of the network to x: W x + b."""
        y = self.op("MatMul", x, self.weight(f"{name}.weight", transposed=True))
        return self.op("Add", y, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else y

    def activation(self, name: ActivationName, x: str) -> str:
        match name:
            case "identity":
                return x
            case "gelu" | "gelu_tanh":
                return self.op("Gelu", x, approximate="tanh" if name == "gelu_tanh" else "none")
            case "silu" | "quick_gelu":
                inner = x if name == "silu" else self.op("Mul", x, self.number(1.702))
                return self.op("Mul", x, self.op("Sigmoid", inner))
            case "relu_squared":
                positive = self.op("Relu", x)
                return self.op("Mul", positive, positive)
        return self.op({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}[name], x)

    def softmax(self, scores: str, mask: str, at: str | None = None) -> str:
        """Softmax over the last axis where mask is true; a fully masked row gives zeros. at: the
        part of the network to which the trace points belong."""
        if not self.traced or at is None:
            kept = self.op("Where", mask, scores, self.number(LOWEST))
            pattern = self.op("Softmax", kept, axis=-1)
            return self.op("Mul", pattern, self.cast(mask, "float32"))
        nothing, zero = self.constant(np.float32(-np.inf)), self.number(0.0)
        masked = self.op("Where", mask, scores, nothing)
        largest = self.op("ReduceMax", masked, self.ints(-1), keepdims=1)
        empty = self.op("Equal", largest, nothing)
        shift = self.point(f"{at}.shift", self.op("Where", empty, zero, largest), rank=3)
        exponentials = self.op("Exp", self.op("Sub", masked, shift))
        self.point(f"{at}.exponentials", exponentials, rank=3)
        total = self.op("ReduceSum", exponentials, self.ints(-1), keepdims=1)
        self.point(f"{at}.normaliser", total, rank=3)
        return self.op("Div", exponentials, self.op("Where", empty, self.number(1.0), total))

    # ---- a loop over positions ----

    def scan(
        self, states: Sequence[Scanned], inputs: Sequence[Scanned],
        body: "Callable[[Graph, list[str], list[str]], tuple[list[str], list[str]]]",
        *, backward: bool = False,
    ) -> tuple[list[str], list[str]]:  # fmt: skip
        """Add a loop over axis 1. body(graph, states, inputs) computes one position: it returns the
        new states and the outputs, each (batch, size). Trace points inside the body become trace
        points of this graph."""
        inner = Graph(self.weights, traced=self.traced, outer=self)
        names = []
        for part, kind, rank in (*states, *inputs):
            axes = [f"axis_{next(self._numbers)}" for _ in range(rank)]
            names.append(inner.input(f"{part}_here_{next(self._numbers)}", kind, axes))
        after, shown = body(inner, names[: len(states)], names[len(states) :])
        results = [
            _Output(value, kind, rank) for value, (_, kind, rank) in zip(after, states, strict=True)
        ]
        results += [_Output(value, "float32", 2) for value in shown]
        points = inner._outputs
        results += points.values()
        direction = [int(backward)]
        outputs = self.ops(
            "Scan", len(results), *(value for value, *_ in (*states, *inputs)),
            body=inner._graph("position", [(f"result_{next(self._numbers)}", r) for r in results]),
            num_scan_inputs=len(inputs), scan_input_axes=[1] * len(inputs),
            scan_input_directions=direction * len(inputs),
            scan_output_axes=[1] * (len(results) - len(states)),
            scan_output_directions=direction * (len(results) - len(states)),
        )  # fmt: skip
        first = len(states) + len(shown)
        for i, (value, result) in enumerate(zip(outputs, results, strict=True)):
            assert result.rank is not None
            self.ranked(value, result.rank + (i >= len(states)), result.kind)
        for (name, point), value in zip(points.items(), outputs[first:], strict=True):
            if point.rank == 3:  # (rows, 1, ...): from a part that reads one token
                value = self.op("Squeeze", value, self.ints(2))
            self.point(name, value, point.kind)
        return outputs[: len(states)], outputs[len(states) : first]

    # ---- building the model ----

    def _graph(self, name: str, outputs: Sequence[tuple[str, _Output]]) -> Any:
        helper = self.onnx.helper
        described = []
        for written, output in outputs:
            self._nodes.append(helper.make_node("Identity", [output.value], [written]))
            axes = None if output.rank is None else [f"{written}_{i}" for i in range(output.rank)]
            info = helper.make_tensor_value_info(written, KINDS[output.kind], axes)
            described.append(info)
        return helper.make_graph(self._nodes, name, self._inputs, described)

    def model(self, name: str) -> Any:
        """The finished ONNX model, with the shapes of its outputs."""
        outputs = {name: _Output(o.value, o.kind) for name, o in self._outputs.items()}
        graph = self._graph(name, [*outputs.items()])
        self._infer_shapes(graph)
        graph.initializer.extend(self._constants.values())
        return self._model(graph)

    def _model(self, graph: Any) -> Any:
        helper = self.onnx.helper
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
            producer_name="translucid",
        )  # fmt: skip

    def _infer_shapes(self, graph: Any) -> None:
        """Write the shapes of the outputs into a graph without constants. Shape inference runs on a
        copy that contains the values of integer constants, which it needs, but only the shapes of
        the weights."""
        light = type(graph)()
        light.CopyFrom(graph)
        light.value_info.extend(self._ranks)
        for name, constant in self._constants.items():
            if constant.data_type == KINDS["float32"]:
                info = self.onnx.helper.make_tensor_value_info(
                    name, constant.data_type, [*constant.dims]
                )
                light.input.append(info)
            else:
                light.initializer.append(constant)
        inferred = self.onnx.shape_inference.infer_shapes(self._model(light), data_prop=True)
        for output, known in zip(graph.output, inferred.graph.output, strict=True):
            output.CopyFrom(known)
