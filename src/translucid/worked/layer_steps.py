"""The steps of an encoder or decoder layer: attention, Add & Norm, feed-forward on rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.models.transformer import SUBLAYERS, Layer
from translucid.parts.activations import SYMBOLS, ActivationName
from translucid.parts.attention import MultiHead
from translucid.worked.board import Board
from translucid.worked.heads import NO_BIAS, head_values, join_heads, write_head

# The formulas for rows; those of the catalogue are for one column.
_FEEDFORWARD = {
    "hidden": r"<x> <W_1> + <b_1>",
    "activated": r"<act>(<hidden>)",
    "output": r"<activated> <W_2> + <b_2>",
}
_NORM = {
    "mean": r"\frac{1}{<n>} \textstyle\sum_j <x>",
    "variance": r"\frac{1}{<n>} \textstyle\sum_j (<x> - <mean>)^2",
    "normalised": r"(<x> - <mean>) / \sqrt{<variance> + <epsilon>}",
}
_ROWS = {"hidden": "U", "activated": "U'", "output": "F"}


def write_feedforward(
    board: Board,
    trace: Trace,
    x: Tensor,
    weights: Mapping[str, Tensor],
    activation: ActivationName,
    symbol: str = "X",
    scope: str = "feedforward",
) -> None:
    """Write the feed-forward network, which acts on each row of X separately. weights: W_1 and W_2,
    and the biases that are not 0."""
    act = SYMBOLS[activation]
    values: dict[str, Tensor | str] = {"x": x, "act": act}
    values |= {n: w[None] if n.startswith("b") else w for n, w in weights.items()}
    values |= {point: trace[f"{scope}.{point}"][0].detach() for point in _FEEDFORWARD}
    symbols = {"x": symbol, "act": act, **_ROWS}
    absent = [name for name in ("b_1", "b_2") if name not in weights]
    for point, template in _FEEDFORWARD.items():
        name = f"b_{1 if point == 'hidden' else 2}"
        added = name in weights and point != "activated"
        note = f"${name}$ is added to every row." if added else ""
        board.point(f"{scope}.{point}", values, symbols, absent, template=template, note=note)


@dataclass
class LayerWriter:
    """Writes the steps of one layer from its trace."""

    board: Board
    layer: Layer
    trace: Trace
    weights: Mapping[str, Mapping[str, Tensor | str]]  # by sub-layer and symbol
    notes: Mapping[str, str]  # what the mask of each attention hides
    activation: ActivationName
    textbook: bool
    now: str = "X"  # the symbol of the current rows
    number: int = 0  # of the sub-layer

    def write(self, x: Tensor, encoder_output: Tensor | None = None) -> None:
        """Write all sub-layers. x: the input of the layer (rows, d_model)."""
        for name in self.layer.frames():
            self.number += 1
            before = self.layer.get_submodule(f"{name}_residual")
            title = SUBLAYERS[name].capitalize()
            title = "Masked self-attention" if self._is_masked(name) else title
            source, rows = self.now, x
            if before.placement == "pre":
                self.board.section = f"Norm before the {SUBLAYERS[name]}"
                source = rf"\hat{{X}}_{self.number}"
                rows = self._norm(name, x, self.now, source)
            self.board.section = title
            branch = self._sublayer(name, rows, source, encoder_output)
            x = self._add(name, x, branch, post=before.placement == "post")

    def _is_masked(self, name: str) -> bool:
        return name == "self_attention" and self.layer.cross_attention is not None

    def _sublayer(self, name: str, x: Tensor, source: str, encoder_output: Tensor | None) -> str:
        """Write a sub-layer; return the symbol of its output."""
        if name == "feedforward":
            weights = {n: w for n, w in self.weights[name].items() if isinstance(w, Tensor)}
            write_feedforward(self.board, self.trace, x, weights, self.activation, source)
            return "F"
        part = self.layer.get_submodule(name)
        assert isinstance(part, MultiHead)
        joined = {
            n: join_heads(self.trace[f"{name}.{n}"].detach()) for n in ("query", "key", "value")
        }
        for point in joined:
            outside = encoder_output is not None and name == "cross_attention" and point != "query"
            rows = encoder_output if outside and encoder_output is not None else x
            values = {**self.weights[name], **joined, "x": rows}
            self.board.point(f"{name}.{point}", values, {"x": "H" if outside else source}, NO_BIAS)
        section, many = self.board.section, part.heads > 1
        for head in range(part.heads):
            self.board.section = section + (f", head {head + 1}" if many else "")
            write_head(
                self.board, head_values(self.trace, head, name), f"_{head + 1}" if many else "",
                note=self.notes.get(name, ""), unscaled=False, textbook=self.textbook, scope=name,
            )  # fmt: skip
        self.board.section = section
        mixed = [self.trace[f"{name}.mixed"][0, i].detach() for i in range(part.heads)]
        written = ", ".join(self.board.writer.value(value) for value in mixed)
        symbols = ", ".join(f"Y_{i + 1}" for i in range(part.heads)) if many else "Y"
        output = f"O_{self.number}"
        self.board.point(
            f"{name}.output",
            {**self.weights[name], "mixed": written, "output": self._rows(f"{name}.output")},
            {"mixed": symbols, "output": output},
            NO_BIAS,
            template=r"\mathrm{concat}(<mixed>)\,<W_O>" if many else "<mixed> <W_O>",
        )
        return output

    def _add(self, name: str, x: Tensor, branch: str, *, post: bool) -> Tensor:
        """Write the residual connection and, with post-norm, the norm; return the rows after it."""
        scope = f"{name}_residual"
        self.board.section = f"{'Add & Norm' if post else 'Add'} after the {SUBLAYERS[name]}"
        total = f"R_{self.number}" if post else f"X_{self.number}"
        values = {n: self._rows(f"{scope}.{n}") for n in ("skip", "branch", "sum")}
        symbols = {"skip": self.now, "branch": branch, "sum": total}
        self.board.point(f"{scope}.sum", values, symbols)
        self.now = f"X_{self.number}"
        return self._norm(name, values["sum"], total, self.now) if post else values["sum"]

    def _norm(self, name: str, x: Tensor, source: str, symbol: str) -> Tensor:
        """Write layer norm, row by row; return the rows after it."""
        scope = f"{name}_residual.norm"
        eps = self.layer.frames()[name].norm.eps
        values: dict[str, Tensor | str] = {"x": x, "n": torch.tensor(float(x.shape[1]))}
        values["epsilon"] = torch.tensor(eps, dtype=torch.float64)
        values |= {point: self._rows(f"{scope}.{point}") for point in _NORM}
        symbols = {"x": source, "normalised": symbol, "n": "n", "epsilon": r"\epsilon"}
        for point, template in _NORM.items():
            note = "Each row has its own mean." if point == "mean" else ""
            self.board.point(f"{scope}.{point}", values, symbols, template=template, note=note)
        return self._rows(f"{scope}.normalised")

    def _rows(self, name: str) -> Tensor:
        return self.trace[name][0].detach()
