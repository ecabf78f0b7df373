"""The table behind `model.summary()`: what a model is made of and what a token costs.

Equal layers are counted together. A multiplication and an addition are two FLOPs; an attention layer
also pays for the keys it compares with, so the cost per token grows with the length.
"""

import re
from dataclasses import dataclass

from torch import nn

from translucid.parts.alignment import Alignment
from translucid.parts.attention import MultiHead


@dataclass(frozen=True)
class Row:
    """One part, or one part of each of several equal layers."""

    part: str
    shape: str
    parameters: int  # of all copies together
    flops: int  # per token, of all copies together


def rows(model: nn.Module, length: int) -> list[Row]:
    """One row per weight or bias, equal layers joined, in the order of the model."""
    seen: dict[int, str] = {}
    found: list[Row] = []
    for name, parameter in model.named_parameters(remove_duplicate=False):
        size, shape = parameter.numel(), " x ".join(str(n) for n in parameter.shape) or "1"
        is_matrix = parameter.dim() == 2 and not _is_table(model, name)
        flops = 2 * size if is_matrix else 0
        if id(parameter) in seen:  # tied: it computes again, but is stored once
            found.append(Row(name, f"= {seen[id(parameter)]}", 0, flops if "head" in name else 0))
            continue
        seen[id(parameter)] = name
        found.append(Row(name, shape + _heads(model, name), size, flops))
    for name, module in model.named_modules():
        if isinstance(module, MultiHead | Alignment):
            width = module.output.in_features
            found.append(Row(f"{name}.pattern", f"{length} keys", 0, 4 * length * width))
    return _join_layers(found)


def table(model: nn.Module, length: int) -> str:
    """The rows as text, with shares and a total."""
    body = rows(model, length)
    total = sum(row.parameters for row in body)
    cells = [("part", "shape", "parameters", "share", "FLOPs/token")]
    for row in body:
        share = f"{100 * row.parameters / total:.1f} %" if total else ""
        cells.append((row.part, row.shape, f"{row.parameters:,}", share, f"{row.flops:,}"))
    cells.append(("total", "", f"{total:,}", "100.0 %", f"{sum(row.flops for row in body):,}"))
    widths = [max(len(line[i]) for line in cells) for i in range(5)]
    lines = [
        f"{line[0]:<{widths[0]}}  {line[1]:<{widths[1]}}  "
        + "  ".join(f"{line[i]:>{widths[i]}}" for i in (2, 3, 4))
        for line in cells
    ]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0].rstrip(), rule, *lines[1:-1], rule, lines[-1]])


def _is_table(model: nn.Module, name: str) -> bool:
    """A table is looked up, not multiplied."""
    owner = model.get_submodule(name.rpartition(".")[0])
    return isinstance(owner, nn.Embedding) or name.endswith("positions.table")


def _heads(model: nn.Module, name: str) -> str:
    """How an attention projection is cut into heads, where it is."""
    owner = model.get_submodule(name.rpartition(".")[0].rpartition(".")[0])
    if not isinstance(owner, MultiHead) or not name.endswith(".weight"):
        return ""
    if name.endswith("qkv.weight"):
        kinds = owner.heads + 2 * owner.kv_heads
        grouped = "3 x " + str(owner.heads) if owner.heads == owner.kv_heads else str(kinds)
        return f" ({grouped} heads of {owner.d_head})"
    return ""


def _join_layers(found: list[Row]) -> list[Row]:
    """`layers.0.x`, `layers.1.x`, ... of the same shape become `layers.0-1.x`."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        shape = re.sub(r"layers\.\d+", "layers.*", row.shape)
        groups.setdefault((re.sub(r"layers\.\d+", "layers.*", row.part), shape), []).append(row)
    joined = []
    for (part, shape), members in groups.items():
        numbers = [int(m[1]) for row in members if (m := re.search(r"layers\.(\d+)", row.part))]
        if numbers:
            low, high = min(numbers), max(numbers)
            part = part.replace(
                "layers.*", f"layers.{low}-{high}" if high > low else f"layers.{low}"
            )
            shape = shape if len(members) == 1 else f"{len(members)} x ({shape})"
        joined.append(
            Row(
                part,
                shape,
                sum(row.parameters for row in members),
                sum(row.flops for row in members),
            )
        )
    return joined
