"""Everything that can be switched off in a network, by a name for people and an edit for the trace.

Found in the tree of modules, whose paths are the scopes of the trace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError, nearest
from translucid.core.trace import Edit
from translucid.models.base import Network
from translucid.models.bridge import Bridge, CopyBridge
from translucid.models.mlp import MLP
from translucid.models.transformer import Layer, Stack
from translucid.parts.alignment import Alignment
from translucid.parts.attention import MultiHead
from translucid.parts.characters import Characters
from translucid.parts.feedforward import GatedFeedForward
from translucid.parts.ngrams import NGramFeatures
from translucid.parts.norms import BatchNorm, LayerNorm, RMSNorm
from translucid.parts.positions import Alibi, Learned, NoPositions, Rotary, Sinusoidal
from translucid.parts.recurrent import Recurrent
from translucid.parts.relative import RelativeBias
from translucid.parts.residual import Residual
from translucid.parts.segments import Segments

# Each kind by the word for several of them.
Kind = Literal[
    "heads", "layers", "attention", "feedforward", "patterns", "positions", "masks", "scale",
    "norms", "gates", "alignment", "bridge", "characters", "segments", "ngrams",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)

# What a gate does when it stands still.
GATES: dict[str, dict[tuple[str, float], str]] = {
    "lstm": {
        ("forget", 0.0): "keeps nothing",
        ("forget", 1.0): "keeps everything",
        ("input", 0.0): "writes nothing",
        ("input", 1.0): "writes everything",
        ("output", 1.0): "shows everything",
    },
    "gru": {
        ("reset", 0.0): "the candidate hears nothing of the old state",
        ("reset", 1.0): "the candidate hears all of the old state",
        ("update", 0.0): "nothing of the old state stays",
        ("update", 1.0): "the old state stays",
    },
}


@dataclass(frozen=True)
class Switch:
    """One part of a network, and how to run the network without it."""

    key: str  # stays the same from run to run: encoder.layers.0.self_attention.head.2
    name: str  # for people: encoder layer 0, head 2
    kind: Kind
    edit: Mapping[str, Edit]  # for `Trace(edit=...)`, on batches with padding too
    part: str = ""  # of a head: what its layers are layers of, such as encoder self-attention
    layer: int | None = None
    head: int | None = None


def switches(network: Network) -> list[Switch]:
    """All that can be switched off, from the input to the output."""
    return [switch for path, part in network.named_modules() for switch in _of(network, path, part)]


def choose(switches: Sequence[Switch], kinds: Iterable[str]) -> list[Switch]:
    """The switches of these kinds, in the order of the model."""
    wanted = list(kinds)
    there = [kind for kind in KINDS if any(switch.kind == kind for switch in switches)]
    for kind in wanted:
        if kind not in KINDS:
            close = nearest(kind, KINDS, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise InputError(f"{kind!r} is no kind of part; {hint}this model has {_list(there)}")
        if kind not in there:
            raise InputError(f"this model has no {kind} to switch off; it has {_list(there)}")
    return [switch for switch in switches if switch.kind in wanted]


def at_strength(switch: Switch, strength: float) -> Switch:
    """A head at some strength: 0 is off, 1 as trained, 2 twice as strong."""
    if switch.kind != "heads":
        raise InputError(f"{switch.key}: strengths are for heads; this one is on or off")
    if not 0 <= strength <= 2:
        raise InputError(f"{switch.key}: a strength from 0 to 2, not {strength}")
    edit = {point: partial(_between, change, strength) for point, change in switch.edit.items()}
    return replace(switch, edit=edit)


def _between(change: Edit, strength: float, value: Tensor) -> Tensor:
    off = change(value)  # type: ignore[operator]  # of heads, edits are functions
    return off + strength * (value - off)


def together(chosen: Iterable[Switch]) -> dict[str, Edit]:
    """One edit that throws several switches, also where they change the same point."""
    edits: dict[str, Edit] = {}
    for switch in chosen:
        for point, change in switch.edit.items():
            before = edits.get(point)
            edits[point] = change if before is None else partial(_both, before, change)
    return edits


def _both(first: Edit, second: Edit, value: Tensor) -> Tensor:
    for change in (first, second):
        if isinstance(change, int | float):
            value = torch.full_like(value, change)
        else:
            value = change if isinstance(change, Tensor) else change(value)
    return value


def _list(kinds: Sequence[str]) -> str:
    return ", ".join(kinds) or "nothing that can be switched off"


def _of(network: Network, path: str, part: nn.Module) -> Iterator[Switch]:
    place = in_words(path)
    match part:
        case Stack():
            yield from _stack(path, part)
        case Layer():
            stack = network.get_submodule(path.rpartition(".layers.")[0])
            assert isinstance(stack, Stack)
            yield from _layer(path, part, biased=_position_point(stack.positions) == "bias")
        case LayerNorm() | RMSNorm() | BatchNorm() if path.endswith(
            ("final_norm", "embedding_norm")
        ):
            where = in_words(path.rpartition(".")[0])
            which = "last norm" if path.endswith("final_norm") else "norm of the embedding"
            yield Switch(path, f"{where}, {which}", "norms", _no_norm(path, part))
        case Recurrent():
            yield from _recurrent(path, part)
        case Bridge():
            points = ["hidden"] + (["cell"] if part.cell is not None else [])
            yield Switch(
                path, "decoder starts from nothing", "bridge",
                {f"{path}.{point}": 0.0 for point in points},
            )  # fmt: skip
        case CopyBridge():
            points = ["copied_hidden"] + (["copied_cell"] if part.with_cell else [])
            yield Switch(
                path, "decoder starts from nothing", "bridge",
                {f"{path}.{point}": 0.0 for point in points},
            )  # fmt: skip
        case Alignment():
            name = "decoder looks at all source words alike"
            yield Switch(path, name, "alignment", {f"{path}.scores": 0.0})
        case Characters():
            yield Switch(path, place, "characters", {f"{path}.output": 0.0})
        case Segments():
            yield Switch(path, place, "segments", {f"{path}.lookup": 0.0})
        case NGramFeatures():
            for what in ("words", "pairs"):
                name = f"{place} of {what}"
                yield Switch(f"{path}.{what}", name, "ngrams", {f"{path}.{what}": 0.0})
        case MLP():
            for number in range(len(part.layers)):
                scope = _under(path, f"layers.{number}")
                yield Switch(
                    scope, in_words(scope), "layers", {f"{scope}.dense.activation": 0.0},
                    layer=number,
                )  # fmt: skip


def _stack(path: str, stack: Stack) -> Iterator[Switch]:
    """What all layers of an encoder or a decoder share."""
    place = in_words(path)
    point = _position_point(stack.positions)
    if point:
        scope = f"{path}.positions"
        yield Switch(scope, f"{place} positions", "positions", {f"{scope}.{point}": 0.0})
    if stack.causal:
        scope = f"{path}.masks.causal"
        name = f"{place} causal mask (later tokens can be seen)"
        yield Switch(scope, name, "masks", {scope: _open})
    if stack.window is not None:
        scope = f"{path}.masks.window"
        name = f"{place} window (words far away can be seen)"
        yield Switch(scope, name, "masks", {scope: _open})
    if stack.blocks()[0].self_attention.scaled:
        name = f"{place} scale = 1 (scores are not divided)"
        edit = {f"{path}.layers.*_attention.scale": 1.0}
        yield Switch(f"{path}.scale", name, "scale", edit)


def _position_point(positions: NoPositions) -> str | None:
    match positions:
        case Sinusoidal() | Learned():
            return "encoding"
        case Rotary():
            return "angles"
        case Alibi() | RelativeBias():
            return "bias"
        case _:
            return None


def _open(mask: Tensor) -> Tensor:
    return mask.new_ones(mask.shape)


def _layer(path: str, layer: Layer, *, biased: bool) -> Iterator[Switch]:
    place, number = in_words(path), int(path.rpartition(".")[2])
    frames: dict[str, Residual] = {
        name.removesuffix("_residual"): part
        for name, part in layer.named_children()
        if isinstance(part, Residual)
    }
    yield Switch(
        path, place, "layers", {f"{path}.{name}_residual.branch": 0.0 for name in frames},
        layer=number,
    )  # fmt: skip
    for name, frame in frames.items():
        branch, scope = layer.get_submodule(name), f"{path}.{name}"
        block = _block(name)
        norm = f"{scope}_residual.norm"
        if edit := _no_norm(norm, frame.norm):
            where = "before" if frame.placement == "pre" else "after"
            yield Switch(norm, f"{place}, norm {where} {block}", "norms", edit, layer=number)
        edit = {f"{scope}_residual.branch": 0.0}
        if not isinstance(branch, MultiHead):
            yield Switch(scope, f"{place}, {block}", "feedforward", edit, layer=number)
            if isinstance(branch, GatedFeedForward):
                yield Switch(
                    f"{scope}.gate", f"{place}, {block} gate = 1 (everything passes)", "gates",
                    {f"{scope}.gate": 1.0}, layer=number,
                )  # fmt: skip
            continue
        yield Switch(scope, f"{place}, {block}", "attention", edit, layer=number)
        last = "biased" if biased and name == "self_attention" else "scaled"  # before the mask
        yield Switch(
            f"{scope}.pattern", f"{place}, {block} looks everywhere alike", "patterns",
            {f"{scope}.{last}": 0.0}, layer=number,
        )  # fmt: skip
        which = f"{block} " if layer.cross_attention is not None else ""
        stack = in_words(path.rpartition(".layers.")[0])
        for head in range(branch.heads):
            yield Switch(
                f"{scope}.head.{head}", f"{place}, {which}head {head}", "heads",
                {f"{scope}.mixed": partial(_without_head, head)},
                part=f"{stack} {block}", layer=number, head=head,
            )  # fmt: skip


def _without_head(head: int, mixed: Tensor) -> Tensor:
    """mixed: (batch, heads, queries, d_head)"""
    mixed = mixed.clone()
    mixed[:, head] = 0
    return mixed


def _no_norm(scope: str, norm: nn.Module) -> dict[str, Edit]:
    """Nothing is taken off and nothing divided out; the trained gain and shift stay."""
    match norm:
        case LayerNorm() | BatchNorm():
            return {f"{scope}.mean": 0.0, f"{scope}.variance": 1.0}
        case RMSNorm():
            return {f"{scope}.rms": 1.0}
        case _:
            return {}


def _recurrent(path: str, stack: Recurrent) -> Iterator[Switch]:
    cell = "rnn" if stack.cell == "rnn_relu" else stack.cell
    for number in range(stack.layers):
        layer = f"{path}.layers.{number}"
        ways = [f"{layer}.{way}" for way in stack.directions] if len(stack.directions) > 1 else []
        scopes = [f"{way}.{cell}" for way in ways or [layer]]
        silent: dict[str, Edit] = {f"{scope}.hidden": 0.0 for scope in scopes}
        yield Switch(layer, f"{in_words(layer)} is silent", "layers", silent, layer=number)
        for way in ways:
            yield Switch(
                way, f"{in_words(way)} is silent", "layers", {f"{way}.{cell}.hidden": 0.0},
                layer=number,
            )  # fmt: skip
        for scope in scopes:
            place = in_words(scope.rpartition(".")[0])
            for (gate, value), does in GATES.get(cell, {}).items():
                point = f"{scope}.{gate}_gate"
                yield Switch(
                    f"{point}={value:.0f}", f"{place}, {gate} gate = {value:.0f} ({does})",
                    "gates", {point: value}, layer=number,
                )  # fmt: skip


def _block(name: str) -> str:
    return {
        "self_attention": "self-attention",
        "cross_attention": "cross-attention",
        "feedforward": "feed-forward",
    }[name]


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def in_words(path: str) -> str:
    """members.1.encoder.layers.0 -> member 1, encoder layer 0"""
    parts: list[str] = []
    for part in path.split("."):
        if part.isdigit() and parts:
            parts[-1] = f"{parts[-1].removesuffix('s')} {part}" + ("," * (parts[-1] == "members"))
        elif part != "recurrent":
            parts.append(part)
    return " ".join(parts).rstrip(",")
