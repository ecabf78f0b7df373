"""What a reader is told about each token, and the parts that make something of it.

A reader looks up a row for each id. Parts that are handed to it may do more: read other tokens than
were given (dropout of words), or add to the vectors what else is known about a token (its
characters).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace


@dataclass(frozen=True)
class Tokens:
    """A batch of texts, as a reader gets it."""

    ids: Tensor  # (batch, length)
    mask: Tensor | None = (
        None  # (batch, length), True at tokens, False at padding; None: no padding
    )
    more: Mapping[str, Tensor] = field(default_factory=dict)  # by the name of the part it is for


class InputPart(nn.Module):
    """One part of a reader's input; this one changes nothing.

    A part stands in the reader under a name of its own, and so do its weights, its trace points and
    what it needs beside the ids (`needs`): `model(ids, characters=...)` is for the part
    `characters`.
    """

    needs = False  # an input under its own name

    def check(self, tokens: Tokens, features: Tensor | None) -> None:
        """Raise if this is not what the part needs."""

    def read(self, tokens: Tokens) -> Tokens:
        """The tokens that are looked up."""
        return tokens

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        """x (batch, length, d_model), with what this part knows about each token."""
        return x
