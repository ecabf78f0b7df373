"""What a tokenizer knows of its special tokens, as tasks and searches ask for it."""

from abc import ABC, abstractmethod
from typing import Literal

from translucid.core.errors import InputError
from translucid.data.tokenizers.special_tokens import OURS, Frame, SpecialTokens

Role = Literal["bos", "eos"]


class Roles(ABC):
    """Special tokens by role; the ids are the tokenizer's own."""

    special: SpecialTokens = OURS

    @abstractmethod
    def __len__(self) -> int:
        """Tokens of the vocabulary."""

    @property
    def pad_id(self) -> int:
        """Stands under a mask: where a model has none, any token does."""
        return next((i for i in (self.special.pad, self.special.eos) if i is not None), 0)

    @property
    def bos_id(self) -> int:
        return self._role("bos", "begins a text")

    @property
    def eos_id(self) -> int:
        return self._role("eos", "ends a text")

    @property
    def unk_id(self) -> int:
        """-1, which is no token, where the vocabulary can spell everything."""
        return -1 if self.special.unk is None else self.special.unk

    @property
    def mask_id(self) -> int:
        return self._role("mask", "hides a token")

    def _role(self, name: str, meaning: str) -> int:
        number: int | None = getattr(self.special, name)
        if number is None:
            raise InputError(
                f"this tokenizer has no {name} token, one that {meaning}, and the task needs it; "
                "use the model for a task without"
            )
        return number

    @property
    @abstractmethod
    def special_ids(self) -> frozenset[int]:
        """Tokens that are no text."""

    @property
    def start_ids(self) -> list[int]:
        """What a decoder reads before the first token of its text."""
        return list(self.special.start)

    def frame(self, start: Role | None = None, end: Role | None = None) -> Frame:
        """What stands around a text that is read; `start` and `end` where that is the task's
        choice, as it is with a tokenizer that was trained here."""
        if self.special.frame is not None:
            return self.special.frame
        ids = {None: (), "bos": (self.bos_id,), "eos": (self.eos_id,)}
        return Frame(ids[start], ids[end])

    def never_generated(self, rows: int) -> tuple[int, ...]:
        """Of a head with so many rows: tokens that no text holds, and rows that are no token."""
        self.check_rows(rows, "the model")
        return (*self.special.never, *range(len(self), rows))

    @property
    def never_targets(self) -> tuple[int, ...]:
        """Tokens that are no target of training."""
        return (self.pad_id, self.bos_id) if self.special.frame is None else self.special.never

    def check_rows(self, rows: int, where: str) -> None:
        """More rows than tokens is common, padding up to a round number; fewer is a mistake."""
        if rows < len(self):
            raise InputError(
                f"{where} has {rows:,} embedding rows, but the tokenizer {len(self):,} tokens; "
                "give the tokenizer that belongs to the model"
            )
