"""Trace points for lessons: their numbers, and the tokens of their rows and columns.

Values in a lesson's f-string keep their origin: numbers (`RunNumber`), tokens of the text
(`Token`) and other words (`Word`).
"""

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.studio.lesson import Lacks, SentenceLacks, marked
from translucid.studio.text_runs import Run
from translucid.tasks.words import ACROSS

STRONG = 0.5  # the smallest weight that counts as a strong link
TOO_SHORT = "the sentence is too short"
# Axes whose length depends on the text; the others are fixed by the model.
TEXT_AXES = ("length", "queries", "keys", "windows", "characters")
AXIS_NOUNS = {
    "heads": "head", "kv_heads": "head", "layers": "layer", "hidden": "unit", "d_ff": "unit",
}  # fmt: skip


class RunNumber(float):
    """A number from a run, with its address. `{number:.2f}` formats it as plain text."""

    def __new__(cls, value: float, *_: Any) -> "RunNumber":
        return super().__new__(cls, value)

    def __init__(self, value: float, at: str, index: Sequence[int] = ()) -> None:
        """`at`: a point, or a value computed from one, such as `mean POINT`."""
        self.at, self.index = at, tuple(index)

    __hash__ = float.__hash__

    def __eq__(self, other: object) -> bool:
        """Refuse 0.9 and the like, which no number in float32 equals."""
        if type(other) is float and math.isfinite(other) and float(np.float32(other)) != other:
            raise TypeError(
                f"a number of the run never equals {other:g} exactly; compare with a range, such "
                f"as {other - 0.05:g} < number < {other + 0.05:g}"
            )
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __format__(self, spec: str) -> str:
        if spec:
            return super().__format__(spec)
        value = float(self) if math.isfinite(self) else None
        piece = {"value": value, "at": self.at, "index": self.index, "digits": 3}
        return marked(piece if " " in self.at else piece | {"meaning": describe(self.at).meaning})


class Word(str):
    """A word that is not a token of the text: an answer, a prediction, a neighbour."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Refuse numbers: the answer 0.9 is the text "0.9"."""
        if isinstance(other, int | float):
            raise TypeError(
                f"{self!s:.40} is a text and never equals the number {other:g}; read the number "
                "from a point, such as run.point(NAME)[0], and compare it with a range"
            )
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else marked({"word": str(self), "means": ""})


@dataclass(frozen=True)
class Token:
    """A token of the text. Used as an index, it stands for its position."""

    word: str
    place: int
    side: str  # src: read by the encoder; tgt: read by the decoder
    run: Run = field(repr=False, compare=False)

    def __index__(self) -> int:
        return self.place

    def __format__(self, spec: str) -> str:
        return format(self.word, spec) if spec else marked({"word": self.word, "means": self.key})

    @property
    def key(self) -> str:
        """The token's name in page addresses."""
        return f"{self.side}:{self.place}"

    @property
    def id(self) -> int:
        """The token's id in the vocabulary."""
        inputs = self.run.example.batch.inputs
        ids = inputs.get("source" if self.side == "src" else "target", inputs.get("ids"))
        assert ids is not None
        return int(ids[0, self.place])

    @property
    def next(self) -> "Token":
        """The token that the model writes after this one."""
        follows = self.run.example.words.follows
        if self.place >= len(follows):
            raise SentenceLacks(TOO_SHORT)
        return Token(follows[self.place], self.place, "tgt", self.run)


class TracePoint:
    """A trace point; `point[head, row, column]` returns one of its numbers."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name = run, name

    def __str__(self) -> str:
        return self.name

    @property
    def part(self) -> str:
        """The part that the point belongs to: its name without the last component."""
        return self.name.rpartition(".")[0]

    @property
    def layer(self) -> int:
        layer = re.search(r"layers\.(\d+)", self.name)
        return int(layer[1]) if layer else 0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.run.shapes[self.name][1:])

    @cached_property
    def _all(self) -> Tensor:
        value = self.run[self.name]
        return (value[0] if value.dim() else value).float()

    # ---- its numbers ----

    def __getitem__(self, places: SupportsIndex | tuple[SupportsIndex, ...]) -> RunNumber:
        index = self.checked(places if isinstance(places, tuple) else (places,))
        if len(index) != len(self.shape):
            raise self._miscounted(index)
        return RunNumber(float(self._all[index]), self.name, index)

    @property
    def value(self) -> RunNumber:
        """The value, if the point is a single number."""
        return self[()]

    def values(self, *places: SupportsIndex) -> Tensor:
        """All numbers of the point as a tensor, or those at the given leading indices."""
        return self._all[self.checked(places)]

    def mean_over_heads(self, *places: SupportsIndex) -> RunNumber:
        """The mean over heads at one place; `places` are all indices except the head."""
        _, *index = self.checked((0, *places))
        if len(index) + 1 != len(self.shape):
            raise self._miscounted((0, *index))
        return RunNumber(float(self._all.mean(0)[tuple(index)]), f"mean {self}", index)

    def _axes(self) -> tuple[str, ...]:
        axes = tuple(describe(self.name).axes[1:])
        return axes if len(axes) == len(self.shape) else ("",) * len(self.shape)

    def checked(self, places: Sequence[SupportsIndex]) -> tuple[int, ...]:
        """Convert indices to integers; raises an error if one is out of range."""
        index = tuple(map(operator.index, places))
        if len(index) > len(self.shape):
            raise self._miscounted(index)
        for place, size, axis in zip(index, self.shape, self._axes(), strict=False):
            if 0 <= place < size:
                continue
            if axis in TEXT_AXES:
                raise SentenceLacks(TOO_SHORT)
            noun = AXIS_NOUNS.get(axis, "dimension")
            raise Lacks(f"there is no {noun} {place}; {self} has {noun}s 0 to {size - 1}")
        return index

    def _miscounted(self, index: Sequence[int]) -> Lacks:
        names = f" ({', '.join(self._axes())})" if any(self._axes()) else ""
        return Lacks(f"{self} has {len(self.shape)} indices{names}, not {len(index)}")

    # ---- its rows and columns, which are tokens of the text ----

    def _words(self, axis: int) -> tuple[str, tuple[str, ...]]:
        """The side and the tokens of the point's rows (axis 0) or columns (axis 1)."""
        scopes, words = set(self.name.split(".")), self.run.example.words
        reads = "encoder" in scopes or (axis == 1 and scopes & {*ACROSS})
        return ("src", words.source) if reads else ("tgt", words.target)

    def _token(self, place: SupportsIndex, axis: int) -> Token:
        at, (side, words) = operator.index(place), self._words(axis)
        if not 0 <= at < len(words):
            raise SentenceLacks(TOO_SHORT)
        return Token(words[at], at, side, self.run)

    def row(self, place: SupportsIndex) -> Token:
        return self._token(place, 0)

    def column(self, place: SupportsIndex) -> Token:
        return self._token(place, 1)

    def row_up_to(self, place: int) -> Token:
        """The row at this position, or the last row if the text is shorter."""
        return self.row(min(place, len(self._words(0)[1]) - 1))

    def row_of(self, *words: str) -> Token:
        """The first row whose token is one of these words."""
        return self.row(_first(self._words(0)[1], words, "this sentence does not contain {}"))

    def column_of(self, *words: str) -> Token:
        """The first column whose token is one of these words."""
        return self.column(_first(self._words(1)[1], words, "this sentence does not contain {}"))

    def row_writing(self, *words: str) -> Token:
        """The first row after which the model writes one of these words."""
        return self.row(_first(self.run.example.words.follows, words, "it does not write {}"))

    def lowest_row(self) -> Token:
        """The row whose numbers have the lowest mean."""
        return self.row(self._all.flatten(1).mean(-1).argmin())

    def highest_row(self) -> Token:
        """The row whose numbers have the highest mean."""
        return self.row(self._all.flatten(1).mean(-1).argmax())

    def largest(self, *places: SupportsIndex) -> Token | int:
        """The token or unit at which the numbers along the last axis are largest."""
        return self._ranked(places)[0]

    def second_largest(self, *places: SupportsIndex) -> Token | int:
        return self._ranked(places)[1]

    def _ranked(self, places: Sequence[SupportsIndex]) -> list[Token | int]:
        numbers = self.values(*places)
        if numbers.dim() != 1:
            raise Lacks(f"{self} needs an index for each axis but the last, got {len(places)}")
        if len(numbers) < 2:
            raise SentenceLacks(TOO_SHORT)
        first_two = numbers.argsort(descending=True)[:2].tolist()
        return [*map(self.column, first_two)] if self._axes()[-1] == "keys" else first_two

    # ---- its heads ----

    def evenest_head(self, row: SupportsIndex) -> int:
        """The head that attends most evenly from a row: the one with the smallest maximum."""
        return int(self._all[:, operator.index(row)].amax(-1).argmin())

    def agreed(self, row: SupportsIndex) -> Token:
        """The column to which a row attends most, averaged over heads."""
        return self.column(self._all.mean(0)[operator.index(row)].argmax())

    def row_attending_to(self, column: SupportsIndex) -> Token:
        """The row that attends most to a column, averaged over heads."""
        return self.row(self._all.mean(0)[:, operator.index(column)].argmax())

    def strongest_link(self) -> tuple[int, Token, Token]:
        """The head, row and column at which a written word attends most to a source word at a
        different position, among the rows whose mean over heads is largest there too."""
        weights, words = self._all.clone(), self.run.example.words
        agreed = self._all.mean(0).argmax(-1)
        for row, written in enumerate(words.follows):
            for column, read in enumerate(words.source):
                lettered = written.isalpha() and read.isalpha()  # no punctuation, no special token
                if row == column or not lettered or agreed[row] != column:
                    weights[:, row, column] = 0.0
        head, place = divmod(int(weights.argmax()), weights[0].numel())
        row, column = divmod(place, weights.shape[2])
        if weights[head, row, column] < STRONG:
            raise SentenceLacks("no word attends strongly to a word at a different position")
        return head, self.row(row), self.column(column)


def _first(words: Sequence[str], wanted: Sequence[str], reason: str) -> int:
    for place, word in enumerate(words):
        if word in wanted:
            return place
    raise SentenceLacks(reason.format(" or ".join(f"“{word}”" for word in wanted)))
