"""What an answer cannot rest on: a text that is empty, or that the vocabulary does not cover."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

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


def note_of(task: Task[Any, Any], question: Any) -> InputNote:
    """question: a text or its words, as the task is asked; numbers have no note."""
    words = [question] if isinstance(question, str) else question
    if not task.vocabularies or not all(isinstance(word, str) for word in words):
        return InputNote()
    if not any(word.strip() for word in words):
        return InputNote(empty=True)
    return InputNote(unknown=tuple(task.unknown_in(question)))


@dataclass
class InputNotes:
    """Counts over all texts of a command. empty_is_noted: not where an empty answer is right."""

    empty_is_noted: bool = True
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
        if self.empty and self.empty_is_noted:
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
