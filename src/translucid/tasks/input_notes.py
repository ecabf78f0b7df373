"""What an answer cannot rest on: a text that is empty, or that the vocabulary does not cover."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.base import Task

SHOWN = 5  # of the unknown words or characters
FINE: dict[str, Any] = {}


@dataclass(frozen=True)
class InputNote:
    """One text that was read: whether it is empty, and what of it was read as <unk>."""

    empty: bool = False
    unknown: tuple[str, ...] = ()  # words or characters, one for each token

    def __bool__(self) -> bool:
        return self.empty or bool(self.unknown)

    @property
    def words(self) -> str:
        """For a cell of a table; nothing where all is well."""
        if self.empty:
            return "empty text"
        if not self.unknown:
            return ""
        return f"{len(self.unknown)} unknown: {_listed(dict.fromkeys(self.unknown))}"

    def as_json(self) -> dict[str, Any]:
        """Keys beside the answer; none where all is well."""
        if self.empty:
            return {"empty": True}
        if self.unknown:
            return {"unknown_tokens": len(self.unknown), "unknown": list(self.unknown)}
        return FINE


def unknown_pieces(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[str]:
    """What stands in the text where it was read as <unk>; ids: those of the text."""
    if tokenizer.unk_id not in ids:
        return []
    places = zip(ids, tokenizer.offsets(text), strict=True)
    return [text[first:last].strip() for i, (first, last) in places if i == tokenizer.unk_id]


def note_of(task: Task[Any, Any], text: str | Sequence[object]) -> InputNote:
    """text: as it is asked about, or its words; numbers have no note."""
    if not task.vocabularies or not (
        isinstance(text, str) or all(isinstance(w, str) for w in text)
    ):
        return InputNote()
    text = text if isinstance(text, str) else " ".join(map(str, text))
    if not text.strip():
        return InputNote(empty=True)
    tokenizer = next(iter(task.vocabularies.values()))  # of what is asked
    return InputNote(unknown=tuple(unknown_pieces(tokenizer, text, tokenizer.encode(text))))


@dataclass
class InputNotes:
    """Counts over all texts of a command."""

    texts: int = 0
    empty: int = 0
    with_unknown: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, note: InputNote) -> None:
        self.texts += 1
        self.empty += note.empty
        self.with_unknown += bool(note.unknown)
        self.unknown.update(note.unknown)

    def lines(self) -> list[str]:
        """The summary; nothing where all is well."""
        lines = []
        if self.empty:
            verb = "is" if self.empty == 1 else "are"
            lines.append(
                f"{self.empty:,} of {self.texts:,} texts {verb} empty: an answer to an empty text "
                "says nothing"
            )
        if self.with_unknown:
            verb = "contains" if self.with_unknown == 1 else "contain"
            tokens = self.unknown.total()
            lines.append(
                f"{self.with_unknown:,} of {self.texts:,} texts {verb} words or characters that "
                f"this model has never seen ({_listed(w for w, _ in self.unknown.most_common())}): "
                f"{tokens:,} {'token was' if tokens == 1 else 'tokens were'} read as <unk>"
            )
        return lines


def _listed(words: Iterable[str]) -> str:
    several = list(words)
    return ", ".join([*several[:SHOWN], *["..."][: len(several) > SHOWN]])
