"""A progress bar in a notebook: one display, updated in place. It has of rich's bar what `progress`
uses."""

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

PAUSE = 0.2  # seconds between two updates: each is a message to the browser


def in_notebook() -> bool:
    """Whether this process is the kernel of one; IPython on a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")


class NotebookBar:
    """Rows of label, count, bar and note."""

    def __init__(self) -> None:
        self.console = self  # which prints, beside the bar
        self._rows: list[dict[str, Any]] = []
        self._handle: Any = None
        self._began = self._last = time.monotonic()

    def start(self) -> None:
        self._handle = import_module("IPython.display").display(self, display_id=True)

    def stop(self) -> None:
        self._show()

    def add_task(self, label: str, *, total: int | None, completed: int = 0, note: str) -> int:
        self._rows.append({"label": label, "total": total, "done": completed, "note": note})
        return len(self._rows) - 1

    def update(
        self, task: int, *, completed: int, note: str | None = None, visible: bool = True
    ) -> None:
        row = self._rows[task]
        row["done"], row["hidden"] = completed, not visible
        if note is not None:
            row["note"] = note
        if time.monotonic() - self._last >= PAUSE:
            self._show()

    def print(self, line: str, **options: Any) -> None:
        print(line, file=sys.stderr, flush=True)

    def _show(self) -> None:
        self._last = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    def _shown(self) -> list[tuple[str, str, float]]:
        """Label and count, note, and the fraction that is done."""
        rows = []
        for row in self._rows:
            if not row.get("hidden"):
                of = "" if row["total"] is None else f"/{row['total']:,}"
                part = row["done"] / row["total"] if row["total"] else 0.0
                rows.append((f"{row['label']} {row['done']:,}{of}", row["note"].strip(), part))
        return rows

    def __repr__(self) -> str:
        return "\n".join(f"{words}  {part:.0%}  {note}" for words, note, part in self._shown())

    def _repr_html_(self) -> str:
        seconds = f"{self._last - self._began:,.0f} s"
        return "".join(
            f"<div>{escape(words)} <progress value='{part:.4f}' max='1'></progress> "
            f"{escape(note)} <small>{seconds}</small></div>"
            for words, note, part in self._shown()
        )
