"""The tokens that are no text, by what they are for: a role, never a fixed number."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """What stands around a text that is read: BERT's [CLS] x [SEP], Llama's <s> x, T5's x </s>."""

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    between: tuple[int, ...] = ()  # of a pair: prefix, first, between, second, suffix

    def __call__(self, ids: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        rest = () if second is None else (*self.between, *second)
        return [*self.prefix, *ids, *rest, *self.suffix]

    def segments(self, ids: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """0 for each token of the first text and what is around it, 1 for those of the second."""
        first = len(self.prefix) + len(ids)
        if second is None:
            return [0] * (first + len(self.suffix))
        return [0] * (first + len(self.between)) + [1] * (len(second) + len(self.suffix))

    def shorten(self, framed: Sequence[int], most: int) -> list[int]:
        """A framed text cut down to so many tokens, its suffix among them."""
        inside = framed[: len(framed) - len(self.suffix)]
        return [*inside[: most - len(self.suffix)], *self.suffix]


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids by role; None where a model has no such token."""

    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    mask: int | None = None
    start: tuple[int, ...] = ()  # what a decoder reads before the first token of its text
    frame: Frame | None = None  # None: each task has its own, as with tokenizers trained here
    ends: tuple[int, ...] = ()  # that end a text as eos does
    never: tuple[int, ...] = ()  # that are never generated


OURS = SpecialTokens(pad=0, bos=1, eos=2, unk=3, start=(1,))
