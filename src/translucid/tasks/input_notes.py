"""Notes on inputs whose answers are unreliable: empty texts, unknown tokens, rows with unknown
categories or with values outside the range of the training data."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from translucid.tasks.base import Task

SHOWN = 5  # unknown words or characters in a summary


@dataclass(frozen=True)
class InputNote:
    """A note on an input: whether the text is empty, which parts were read as <unk>, and how a row
    differs from the training data."""

    empty: bool = False
    unknown: tuple[str, ...] = ()  # words or characters, one for each token
    remarks: tuple[str, ...] = ()  # on the cells of a row

    def __bool__(self) -> bool:
        return self.empty or bool(self.unknown or self.remarks)

    @property
    def words(self) -> str:
        """The note as text for a table cell; empty if there is nothing to note."""
        if self.empty:
            return "empty text"
        if self.remarks:
            return "; ".join(self.remarks)
        if not self.unknown:
            return ""
        return f"{len(self.unknown)} unknown: {_listed(dict.fromkeys(self.unknown))}"

    def as_json(self) -> dict[str, Any]:
        """The note as keys to add to a JSON answer."""
        if self.empty:
            return {"empty": True}
        if self.remarks:
            return {"remarks": list(self.remarks)}
        if self.unknown:
            return {"unknown_tokens": len(self.unknown), "unknown": list(self.unknown)}
        return {}


def note_of(task: Task[Any, Any], question: Any) -> InputNote:
    """The note on a text, a list of words or a row of a table. Rows of plain numbers get an empty
    note."""
    if task.notes_inputs and not task.vocabularies:
        return InputNote(remarks=tuple(task.remarks(question)))
    words = [question] if isinstance(question, str) else question
    if not task.vocabularies or not all(isinstance(word, str) for word in words):
        return InputNote()
    if not any(word.strip() for word in words):
        return InputNote(empty=True)
    return InputNote(unknown=tuple(task.unknown_in(question)))


@dataclass
class InputNotes:
    """Counts of the notes on all texts of a command. empty_is_noted: whether `lines` reports empty
    texts; false if an empty text correctly gives empty output."""

    empty_is_noted: bool = True
    texts: int = 0
    empty: int = 0
    with_unknown: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    remarks: list[tuple[str, ...]] = field(default_factory=list)  # on each row

    def add(self, note: InputNote) -> None:
        self.texts += 1
        self.empty += note.empty
        self.with_unknown += bool(note.unknown)
        self.unknown.update(note.unknown)
        self.remarks.append(note.remarks)

    def lines(self) -> list[str]:
        """The summary lines; empty if there is nothing to note."""
        lines = list(in_short(self.remarks))
        if self.empty and self.empty_is_noted:
            verb = "is" if self.empty == 1 else "are"
            lines.append(
                f"{self.empty:,} of {self.texts:,} texts {verb} empty: predictions for empty texts "
                "are meaningless"
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


def in_short(remarks: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Summarize the remarks on several rows in one line; return no line if there are no remarks."""
    rows = sum(map(bool, remarks))
    if not rows:
        return ()
    verb = "has" if rows == 1 else "have"
    counts = Counter(remark for row in remarks for remark in row).most_common()
    listed = _listed(f"{remark} ({n:,})" if n > 1 else remark for remark, n in counts)
    return (
        f"{rows:,} of {len(remarks):,} rows {verb} values unlike those of the training data: "
        f"{listed}",
    )


def _listed(words: Iterable[str]) -> str:
    several = list(words)
    return ", ".join([*several[:SHOWN], *["..."][: len(several) > SHOWN]])
