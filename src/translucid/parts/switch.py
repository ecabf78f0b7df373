"""Parts of a network that can be switched off.

A part, or the module that contains it, defines

    def switches(self, path: str) -> Iterator[Switch]

where `path` is the part's path in the network and the scope of its trace points. The method yields
the switches of all submodules of the part too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from torch import nn

from translucid.core.trace import Edit

Kind = Literal[
    "heads", "layers", "attention", "feedforward", "patterns", "positions", "masks", "scale",
    "norms", "gates", "alignment", "bridge", "characters", "segments", "ngrams",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Switch:
    """A part of a network, and the trace edit that switches it off."""

    key: str  # stable identifier, such as encoder.layers.0.self_attention.head.2
    name: str  # readable name, such as encoder layer 0, head 2
    kind: Kind
    edit: Mapping[str, Edit]  # for `Trace(edit=...)`
    part: str = ""  # for a head: its kind of attention, such as encoder self-attention
    layer: int | None = None
    head: int | None = None


@runtime_checkable
class Switchable(Protocol):
    """A module with switches."""

    def switches(self, path: str) -> Iterator[Switch]: ...


def switches_of(part: nn.Module, path: str) -> Iterator[Switch]:
    """All switches of a module and its submodules, in the order of the network."""
    if isinstance(part, Switchable):
        yield from part.switches(path)
        return
    for name, child in part.named_children():
        yield from switches_of(child, f"{path}.{name}" if path else name)


def in_words(path: str) -> str:
    """A path in readable form: members.1.encoder.layers.0 becomes member 1, encoder layer 0."""
    parts: list[str] = []
    for part in path.split("."):
        if part.isdigit() and parts:
            parts[-1] = f"{parts[-1].removesuffix('s')} {part}" + ("," * (parts[-1] == "members"))
        elif part != "recurrent":
            parts.append(part)
    return " ".join(parts).rstrip(",")
