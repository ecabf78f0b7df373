"""Special tokens by their role (start, end, padding, mask, ...) instead of by fixed ids."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from translucid.core.errors import InputError


@dataclass(frozen=True)
class Frame:
    """The special tokens around an input text x: [CLS] x [SEP] of BERT, <s> x of Llama, x </s> of
    T5."""

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    between: tuple[int, ...] = ()  # between two texts: prefix, first, between, second, suffix

    def __call__(self, ids: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        rest = () if second is None else (*self.between, *second)
        return [*self.prefix, *ids, *rest, *self.suffix]

    def segments(self, ids: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """The segment of each token: 1 for the second text and the tokens after it, 0 for all
        others."""
        first = len(self.prefix) + len(ids)
        if second is None:
            return [0] * (first + len(self.suffix))
        return [0] * (first + len(self.between)) + [1] * (len(second) + len(self.suffix))

    def shorten(self, framed: Sequence[int], most: int) -> list[int]:
        """Truncate a framed text to `most` tokens, keeping its suffix."""
        inside = framed[: len(framed) - len(self.suffix)]
        return [*inside[: most - len(self.suffix)], *self.suffix]


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The ids of special tokens by role. A role is None if a model has no such token."""

    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    mask: int | None = None
    start: tuple[int, ...] = ()  # tokens that a decoder reads before its first output token
    frame: Frame | None = None  # None: the task defines it (tokenizers trained with Translucid)
    ends: tuple[int, ...] = ()  # other tokens that end a text
    never: tuple[int, ...] = ()  # tokens that are never generated


OURS = SpecialTokens(pad=0, bos=1, eos=2, unk=3, start=(1,))


Role = Literal["bos", "eos"]


class Roles(ABC):
    """The special tokens of a tokenizer by role."""

    special: SpecialTokens = OURS

    @abstractmethod
    def __len__(self) -> int:
        """The size of the vocabulary."""

    @property
    def pad_id(self) -> int:
        """The id that is used for padding. Without a padding token, the id of another token is
        used; it has no effect, since padding is always masked."""
        return next((i for i in (self.special.pad, self.special.eos) if i is not None), 0)

    @property
    def bos_id(self) -> int:
        return self._role("bos", "begins a text")

    @property
    def eos_id(self) -> int:
        return self._role("eos", "ends a text")

    @property
    def unk_id(self) -> int:
        """The id of the unknown token; -1 if the vocabulary can encode everything."""
        return -1 if self.special.unk is None else self.special.unk

    @property
    def mask_id(self) -> int:
        return self._role("mask", "hides a token")

    def _role(self, name: str, meaning: str) -> int:
        number: int | None = getattr(self.special, name)
        if number is None:
            raise InputError(
                f"this tokenizer has no {name} token (a token that {meaning}), but the task needs "
                "one; use the model for a different task"
            )
        return number

    @property
    @abstractmethod
    def special_ids(self) -> frozenset[int]:
        """The ids of special tokens, which are not text."""

    @property
    def start_ids(self) -> list[int]:
        """The tokens that a decoder reads before its first output token."""
        return list(self.special.start)

    def frame(self, start: Role | None = None, end: Role | None = None) -> Frame:
        """The tokens around an input text. An imported tokenizer may define them. Otherwise, start
        and end are the roles of the tokens before and after the text."""
        if self.special.frame is not None:
            return self.special.frame
        ids = {None: (), "bos": (self.bos_id,), "eos": (self.eos_id,)}
        return Frame(ids[start], ids[end])

    def never_generated(self, rows: int) -> tuple[int, ...]:
        """The tokens that no text contains, and the rows of the output layer that belong to no
        token."""
        self.check_rows(rows, "the model")
        return (*self.special.never, *range(len(self), rows))

    @property
    def never_targets(self) -> tuple[int, ...]:
        """The tokens that are never the target of a prediction in training."""
        return (self.pad_id, self.bos_id) if self.special.frame is None else self.special.never

    def check_rows(self, rows: int, where: str) -> None:
        """Raise an error if a model has fewer embedding rows than the tokenizer has tokens. More
        rows are common, as padding."""
        if rows < len(self):
            raise InputError(
                f"{where} has {rows:,} embedding rows, but the tokenizer has {len(self):,} tokens; "
                "use the tokenizer that belongs to the model"
            )
