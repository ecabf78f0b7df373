"""Attention for the page: tables at screen resolution, and thumbnails of all heads."""

from collections.abc import Iterable, Iterator
from functools import partial

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.see.trace_pictures import pooled
from translucid.studio.layer_inputs import blocks
from translucid.studio.tensors import TensorSlice, frame, frame_by_heads, packed, raw_bytes
from translucid.studio.text_runs import Run


def kinds_of_attention(run: Run) -> dict[str, list[str]]:
    """The attention patterns by kind of attention, in layer order."""
    kinds: dict[str, list[str]] = {}
    for name in run.shapes:
        if name.endswith(".pattern"):
            scopes = name.split(".")
            across = scopes[-2] in ("cross_attention", "alignment")
            kind = "cross" if across else "encoder" if "encoder" in scopes else "decoder"
            kinds.setdefault(kind, []).append(name)
    return kinds


def frames(run: Run, names: list[str], cut: TensorSlice) -> Iterator[bytes]:
    """Binary frames of points: all their values, or those that `cut` selects. For attention points
    of a long text, only the requested heads and queries are computed."""
    parts = {name for name in names if len(run.shapes[name]) == 4 and run.attended(name)}
    others = [name for name in names if name not in parts]
    reading = run.reading(others) if others else run.kept
    for name in names:
        axes = describe(name).axes
        if name in parts:
            rows = partial(_rows_of_head, run, name)
            yield frame_by_heads(name, run.shapes[name], axes, cut, rows)
        else:
            yield frame(name, reading[name], axes, cut)


def _rows_of_head(run: Run, name: str, head: int, queries: range) -> Tensor:
    attended, own = run.attended(name), name.rpartition(".")[2]
    assert attended is not None
    return attended.points([own], range(head, head + 1), queries)[own][0]


def heads(run: Run, kind: str, pool: int, layers: range | None = None) -> bytes:
    """Thumbnails of the attention patterns of all heads of one kind of attention: bytes of shape
    (layers, heads, queries, keys) that encode 0 to 1. The header contains each head's entropy in
    bits and largest weight. layers: None for all."""
    kinds = kinds_of_attention(run)
    if kind not in kinds:
        raise InputError(f"kind: this run has {', '.join(kinds) or 'no'} attention, not {kind!r}")
    names = kinds[kind]
    some = range(len(names)) if layers is None else layers
    if some.stop > len(names):
        raise InputError(f"layers: must be 0 to {len(names) - 1}, not {some.start}:{some.stop}")
    names = names[some.start : some.stop]
    if not run.by_kernel:
        run.reading(names)  # all layers in one pass; of a long text, only one fits into memory
    small, entropy, most = zip(*(_glance(run, name, pool) for name in names), strict=True)
    stack = torch.stack(small).clamp(0, 1)
    header = {
        "at": names, "axes": ["layers", "heads", "queries", "keys"], "shape": list(stack.shape),
        "whole": [stack.shape[1], *run.shapes[names[-1]][-2:]], "dtype": "u8", "scale": "unit",
        "lo": 0.0, "hi": 1.0, "entropy": entropy, "most": most,
    }  # fmt: skip
    return packed(header, raw_bytes(stack, torch.ones_like(stack).bool(), 0.0, 1.0, "u8"))


def _glance(run: Run, name: str, pool: int) -> tuple[Tensor, list[float], list[float]]:
    """Thumbnails, entropies and largest weights of the heads of one layer."""
    queries, keys = run.shapes[name][-2:]
    by = [max(1, -(-size // pool)) for size in (queries, keys)]  # weights per cell along each axis
    small, bits, most = None, torch.zeros(()), torch.zeros(())
    for block, weights in _by_blocks(run, name, by[0]):
        if small is None:
            small = weights.new_zeros(len(weights), -(-queries // by[0]), -(-keys // by[1]))
        cells = _pooled(_pooled(weights, 2, by[1]), 1, by[0])
        first = block.start // by[0]
        small[:, first : first + cells.shape[1], : cells.shape[2]] = cells
        logs = weights.clamp_min(1e-12).log2_()  # 0 log 0 = 0
        bits = bits - logs.mul_(weights).sum((-1, -2))
        most = torch.maximum(most.to(weights), cells.amax((-1, -2)))
    assert small is not None
    return small, (bits / queries).tolist(), most.tolist()


def _by_blocks(run: Run, name: str, multiple: int) -> Iterable[tuple[range, Tensor]]:
    """The attention weights of all heads, (heads, queries, keys); for a long text, in blocks of
    queries."""
    queries, keys = run.shapes[name][-2:]
    attended = run.attended(name)
    if attended is None:
        whole = run[name][0].float()
        return [(range(queries), whole if whole.dim() == 3 else whole[None])]  # recurrent: one head
    heads = run.shapes[name][1]
    return (
        (block, attended.weights(block).float())
        for block in blocks(range(queries), heads * keys, multiple)
    )


def _pooled(weights: Tensor, place: int, size: int) -> Tensor:
    return pooled(weights, place, size) if size > 1 else weights
