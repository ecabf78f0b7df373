"""The table printed by `model.summary()`: the parts of a model, and their FLOPs per token.

Identical layers share a row. A multiplication and an addition are two FLOPs. Attention compares
each token with all keys, so the cost per token grows with the length.
"""

import re
from dataclasses import dataclass, replace

from torch import nn

from translucid.parts.alignment import Alignment
from translucid.parts.attention import MultiHead, SelfAttention

WINDOWS = 7  # windows of three characters that overlap a word of five characters
_LAYER = re.compile(r"layers\.(\d+)")


@dataclass(frozen=True)
class SummaryRow:
    """A row of the table, for one part or for `copies` equal parts of identical layers. The numbers
    are those of a single copy."""

    part: str
    shape: str
    weights: int = 0  # values in matrices and embedding tables
    vectors: int = 0  # values in biases, gains and shifts
    flops: int = 0  # per token
    copies: int = 1

    @property
    def parameters(self) -> int:
        return self.copies * (self.weights + self.vectors)


def rows(model: nn.Module, length: int) -> list[SummaryRow]:
    """One row for each part that has parameters or computes attention weights. Identical layers
    share a row."""
    all_rows: list[SummaryRow] = []
    stored: dict[int, str] = {}  # a tied matrix is used in two places but stored once
    for name, module in model.named_modules():
        if isinstance(module, MultiHead | Alignment):
            cost = 4 * length * module.output.in_features  # scores, then the weighted mean
            all_rows.append(SummaryRow(f"{name} pattern", f"with {length} keys", flops=cost))
        row = _row(name or "model", module, stored)
        if row is not None:
            all_rows.append(_with_heads(model, row))
    return _join_layers(all_rows)


def _row(name: str, module: nn.Module, stored: dict[int, str]) -> SummaryRow | None:
    own = dict(module.named_parameters(recurse=False))
    if not own:
        return None
    matrices = [p for key, p in own.items() if p.dim() > 1 or key == "weight"]
    shape = ", ".join(" x ".join(str(n) for n in p.shape) for p in matrices or own.values())
    if isinstance(module, nn.RNNBase):
        ways = ", both ways" if module.bidirectional else ""
        layers = f", {module.num_layers} layers" if module.num_layers > 1 else ""
        blocks = matrices[0].shape[0] // module.hidden_size
        shape = f"{module.input_size} to {module.hidden_size}, {blocks} blocks{layers}{ways}"
    multiplied = not isinstance(module, nn.Embedding) and not name.endswith("positions")
    flops = 2 * sum(p.numel() for p in matrices) if multiplied else 0
    if name.endswith("characters.filters"):  # applied to each window that overlaps the word
        flops *= WINDOWS
        shape += f", {WINDOWS} windows of a usual word"
    tied = [stored[id(p)] for p in matrices if id(p) in stored]
    if tied:
        return SummaryRow(name, f"= {tied[0]}", flops=flops)
    stored.update({id(p): name for p in matrices})
    weights = sum(p.numel() for p in matrices)
    return SummaryRow(name, shape, weights, sum(p.numel() for p in own.values()) - weights, flops)


def _with_heads(model: nn.Module, row: SummaryRow) -> SummaryRow:
    """Describe in the row of a projection how its outputs are split into heads."""
    owner = model.get_submodule(row.part.rpartition(".")[0]) if "." in row.part else model
    if not isinstance(owner, SelfAttention) or not row.part.endswith(".qkv"):
        return row
    if owner.kv_heads == owner.heads:
        cut = f"Q, K, V of {owner.heads} heads, d_head {owner.d_head}"
    else:
        cut = f"Q of {owner.heads} heads, K, V of {owner.kv_heads}, d_head {owner.d_head}"
    return replace(row, shape=f"{row.shape}: {cut}")


def _join_layers(parts: list[SummaryRow]) -> list[SummaryRow]:
    """Merge identical rows `layers.0.x`, `layers.1.x`, ... into one row, `layers.0-1.x`."""
    groups: dict[SummaryRow, list[SummaryRow]] = {}
    for row in parts:
        groups.setdefault(replace(row, part=_LAYER.sub("layers.*", row.part)), []).append(row)
    joined = []
    for row, alike in groups.items():
        numbers = [int(m[1]) for one in alike if (m := _LAYER.search(one.part))]
        span = f"layers.{numbers[0]}" if numbers else ""
        span += f"-{numbers[-1]}" if len(numbers) > 1 else ""
        joined.append(replace(row, part=row.part.replace("layers.*", span), copies=len(alike)))
    return joined


def table(model: nn.Module, length: int) -> str:
    """The summary table as text, with fractions and a total."""
    body = rows(model, length)
    total = sum(row.parameters for row in body)
    cells: list[tuple[str, ...]] = [
        ("part", "shape", "copies", "weights", "vectors", "total", "fraction", "FLOPs/token")
    ]
    for row in body:
        fraction = f"{100 * row.parameters / max(total, 1):.1f} %"
        numbers = (row.weights, row.vectors, row.parameters)
        counts = [f"{n:,}" if n else "" for n in numbers]
        counts += [fraction, f"{row.copies * row.flops:,}" if row.flops else ""]
        cells.append((row.part, row.shape, str(row.copies), *counts))
    flops = sum(row.copies * row.flops for row in body)
    cells.append(("total", "", "", "", "", f"{total:,}", "100.0 %", f"{flops:,}"))
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    rule = "-" * max(len(line) for line in lines)
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])
