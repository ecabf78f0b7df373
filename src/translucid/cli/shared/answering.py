"""Process the lines of a file or of standard input in order, with progress and resume.

With `--out FILE`, output goes to FILE.part; FILE.part.json stores its length, the model, the file
and the settings. A chunk is on disk before FILE.part.json counts it, so a process that dies at any
time can be resumed. At the end only FILE is left.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import typer

from translucid.cli.shared.inputs import Inputs
from translucid.cli.shared.on_ray import SHARD, answer_shards
from translucid.cli.shared.options import check_unused
from translucid.core.errors import InputError, check_same_settings
from translucid.core.progress import Progress, duration


@dataclass(frozen=True)
class Answered:
    """The output for one line, and the error in the line, if any."""

    text: str
    fault: str = ""


def answer_lines(
    inputs: Inputs,
    answer: Callable[[Sequence[Any]], list[Answered]],
    *,
    out: Path | None,
    settings: dict[str, Any],
    chunk: int,
    verb: str,
    read: Callable[[], Iterator[Any]] | None = None,
    count: Callable[[], int | None] | None = None,
    as_it_comes: bool = False,
    ray: bool = False,
) -> None:
    """Read the input in chunks, and write the output of each chunk before reading the next.

    settings: everything that determines the output; unfinished output is resumed only with the same
    settings. read: returns the records, each with a `text`, if they are not the lines of the file;
    count: their number. as_it_comes: process the lines that a pipe has delivered without waiting
    for more. ray: distribute the work over the processes of a Ray cluster.
    """
    read = read or inputs.records
    shard = SHARD.get()
    if ray and shard is None:
        report = partial(_report, verb=verb)
        return answer_shards(
            inputs, read, out=out, settings=settings, chunk=chunk, report=report
        )  # fmt: skip
    total = None
    if shard is not None:
        out, whole = shard.out, read
        read = lambda: islice(whole(), shard.start, shard.stop)  # noqa: E731
    elif out is not None or sys.stderr.isatty():
        total = (count or inputs.count)()
    sink = _PartFile(out, settings) if out is not None else _Screen()
    live = out is not None or not sys.stdout.isatty()  # else the answers are on the terminal
    with sink, Progress("lines", total, start=sink.lines, live=live, stays=True) as progress:
        try:
            for records in _chunks(inputs, read(), sink, chunk, as_it_comes and out is None):
                answers = answer(records)
                for answered in answers:
                    if answered.fault:
                        progress.say(f"{inputs.name}:{answered.fault}")
                sink.write(records, answers)
                progress.move(sink.lines)
        except KeyboardInterrupt:
            progress.say(f"stopped after {sink.kept:,} lines" + sink.resume_advice())
            raise typer.Exit(130) from None
        took = progress.seconds
    if shard is not None:
        shard.failed = sink.failed
        return
    _report(out, sink.lines, sink.failed, took, verb)


def _report(out: Path | None, lines: int, failed: int, seconds: float, verb: str) -> None:
    """Print what was written; exit with status 1 if lines were left empty."""
    if out is not None:
        what = f"{lines:,} line{'s' * (lines != 1)} {verb}"
        typer.echo(f"{out}: {what} in {duration(seconds)}", err=True)
    if failed:
        which = "1 line was" if failed == 1 else f"{failed:,} lines were"
        typer.echo(f"{which} left empty; see the messages above", err=True)
        raise typer.Exit(1)


def digest_of_model(folder: Path) -> str:
    """A digest of the model, independent of its path: one of the settings of an output file."""
    from translucid.core.atomic_files import MANIFEST, digest_of
    from translucid.interop.kinds import identify
    from translucid.tasks.model_folder import place

    # Another tool's weights have no manifest and may be too large to hash: use size and date.
    if folder.is_file() or identify(folder).kind is not None:
        files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        return hashlib.sha256(repr(facts).encode()).hexdigest()
    return digest_of(place(folder) / MANIFEST)


def chunk_size(inputs: Inputs, *, large: int) -> int:
    """The number of lines to answer at once: 1 for lines typed at a terminal, which are answered
    immediately; otherwise `large`, which fills batches."""
    return 1 if inputs.typed else large


def _chunks(
    inputs: Inputs,
    records: Iterator[Any],
    sink: "_Screen | _PartFile",
    size: int,
    as_it_comes: bool,
) -> Iterator[list[Any]]:
    from translucid.data.readers.standard_input import at_once

    sink.skip(records, inputs.name)
    while True:
        chunk = list(islice(records, 1 if as_it_comes else size))
        if as_it_comes:
            chunk += islice(at_once(inputs.file, records), size - 1)
        if not chunk:
            return
        yield chunk


class _Screen:
    """Writes the output to standard output."""

    def __init__(self) -> None:
        self.lines = self.failed = 0

    def __enter__(self) -> "_Screen":
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def skip(self, records: Iterator[Any], name: str) -> None:
        pass

    def write(self, records: Sequence[Any], answers: Sequence[Answered]) -> None:
        for answered in answers:
            sys.stdout.write(answered.text)
        sys.stdout.flush()
        self.lines += len(records)
        self.failed += sum(bool(answered.fault) for answered in answers)

    @property
    def kept(self) -> int:
        """The lines that need not be computed again."""
        return self.lines

    def resume_advice(self) -> str:
        return "; with --out FILE the command can be resumed"


class _PartFile(_Screen):
    """A growing file, and a second file that records its length and settings."""

    def __init__(self, out: Path, settings: dict[str, Any]) -> None:
        super().__init__()
        self.out, self.settings = out, settings
        self.part, self.note = (out.with_name(out.name + end) for end in (".part", ".part.json"))
        self._digest = hashlib.sha256()
        self._stream: BinaryIO | None = None
        self._kept: dict[str, Any] = {"lines": 0, "bytes": 0, "failed": 0}
        check_unused(out)
        if self.part.exists() or self.note.exists():
            self._kept = self._read_note()
            self.lines, self.failed = self._kept["lines"], self._kept["failed"]

    def __enter__(self) -> "_PartFile":
        from translucid.core.atomic_files import saving

        if not self.note.exists():
            self._write_note(0)
        with saving(self.part):
            self._stream = self.part.open("ab")
            self._stream.truncate(self._kept["bytes"])  # the note does not count the rest
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        from translucid.core.atomic_files import saving

        assert self._stream is not None
        self._stream.close()
        if kind is None:
            with saving(self.out):
                self.part.replace(self.out)
        if kind is None or not self.lines:  # finished, or nothing to resume
            self.part.unlink(missing_ok=True)
            self.note.unlink(missing_ok=True)

    def skip(self, records: Iterator[Any], name: str) -> None:
        if not self.lines:
            return
        before = list(islice(records, self.lines))
        self._hash(before)
        if len(before) < self.lines or self._digest.hexdigest() != self._kept["digest"]:
            raise InputError(
                f"{name}: the first {self.lines:,} lines are not those that {self.part} was made "
                f"from; give the same lines to resume, or remove {self.part} and {self.note.name} "
                "to start over"
            )
        typer.echo(f"resuming after the {self.lines:,} lines in {self.part}", err=True)

    def write(self, records: Sequence[Any], answers: Sequence[Answered]) -> None:
        from translucid.core.atomic_files import saving

        assert self._stream is not None
        with saving(self.part):
            self._stream.write("".join(answered.text for answered in answers).encode())
            self._stream.flush()
            os.fsync(self._stream.fileno())
        self.lines += len(records)
        self.failed += sum(bool(answered.fault) for answered in answers)
        self._hash(records)
        self._write_note(self._stream.tell())

    @property
    def kept(self) -> int:
        return int(self._read_note()["lines"])  # Ctrl-C may come between a chunk and its note

    def resume_advice(self) -> str:
        return f", which are in {self.part}; run the same command again to resume"

    def _hash(self, records: Sequence[Any]) -> None:
        for record in records:
            self._digest.update(record.text.encode() + b"\n")

    def _write_note(self, size: int) -> None:
        from translucid.core.atomic_files import write_text

        kept = {
            "settings": self.settings,
            "lines": self.lines,
            "failed": self.failed,
            "bytes": size,
            "digest": self._digest.hexdigest(),
        }
        write_text(self.note, json.dumps(kept, indent=2) + "\n")

    def _read_note(self) -> dict[str, Any]:
        try:
            kept: dict[str, Any] = json.loads(self.note.read_text("utf-8"))
            before = kept["settings"]
            size = self.part.stat().st_size if self.part.exists() else 0
            whole = size >= kept["bytes"] and kept["lines"] >= 0 and kept["failed"] >= 0
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise InputError(
                f"{self.part} cannot be resumed: {self.note} does not match it; remove both to "
                "start over"
            )
        now = json.loads(json.dumps(self.settings))
        check_same_settings(
            self.part, before, now,
            f"use the same settings to resume, or remove {self.part} and {self.note.name} to start "
            "over",
        )  # fmt: skip
        return kept
