"""What `translate`, `classify`, `tag`, `predict`, `embed` and `fill` read: a file, standard input,
or texts typed in place of a file."""

import math
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from translucid.cli.shared.arguments import ENDING, files_and_keys, is_text
from translucid.cli.shared.options import name_of_model, print_note
from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import quoted

if TYPE_CHECKING:  # keeps the start of a command light
    from translucid.data.records import Text
    from translucid.model import Model
    from translucid.tasks.options import DataConfig


@dataclass(frozen=True)
class Inputs:
    """What a command reads: a file, standard input (`-`), or texts typed in place of a file.
    data: how files are read."""

    file: str
    data: "DataConfig"
    texts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        if self.texts:
            return "text"
        return "standard input" if self.file == "-" else self.file

    @property
    def typed(self) -> bool:
        """Whether the lines are typed at a terminal."""
        return not self.texts and self.file == "-" and bool(sys.stdin and sys.stdin.isatty())

    def records(self) -> "Iterator[Text]":
        from translucid.data.readers.read import read_text
        from translucid.data.records import Text

        if self.texts:
            return (Text(text, line) for line, text in enumerate(self.texts, start=1))
        rule = replace(self.data.rule, format="text")
        return read_text(self.file, keep_empty=True, rule=rule)

    def count(self) -> int | None:
        """The number of lines, if the file can be read twice."""
        if not self.texts and not Path(self.file).is_file():
            return None
        return sum(1 for _ in self.records())


def inputs_of(
    words: Sequence[str] | None, command: str, folder: Path, keys: Sequence[str] = ("encoding",)
) -> Inputs:
    """Interpret the words after the model: one file, or texts, each in quotes and with a space in
    it; data settings may follow. keys: the settings that the command supports; empty: all."""
    from translucid.tasks.options import DataConfig

    words, settings = files_and_keys(words or ())
    if "" in words:
        raise InputError(f"the text is empty; pass a text or a file, as in `{command} MODEL FILE`")
    for key in settings:
        if keys and key not in keys:
            raise ConfigError(
                f"data.{key}: {command} supports only data.{', data.'.join(keys)}; omit data.{key}"
            )
    data = DataConfig(**settings)
    if not words or (len(words) == 1 and (words[0] == "-" or _is_file_name(words[0]))):
        return Inputs(words[0] if words else "-", data)
    if any(word == "-" or _exists(word) for word in words):
        raise ConfigError(f"{', '.join(words)}: give one file; run the command once per file")
    if all(is_text(word) or _is_number(word) for word in words):
        return Inputs("", data, tuple(words))
    text, model = " ".join(words), shlex.quote(name_of_model(folder))
    line = f"put it in quotes: translucid {command} {model} {quoted(text)}"
    if not is_text(text):
        line = f"use standard input: echo {quoted(text)} | translucid {command} {model}"
    raise InputError(f"{text!r:.80}: no such file; to pass a text, {line}")


def _is_file_name(word: str) -> bool:
    """Whether a word names a file: the file exists, or the word looks like a file name, so that the
    reader reports the file as missing."""
    if _exists(word) or re.search(r"\s", word) or _is_number(word):
        return _exists(word)
    return len(Path(word).parts) > 1 or bool(ENDING.fullmatch(Path(word).suffix))


def _is_number(word: str) -> bool:
    """Whether a word is a number, such as the input of a model with one column."""
    with suppress(ValueError):
        return math.isfinite(float(word))
    return False


def _exists(word: str) -> bool:
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False


def prompt(inputs: Inputs, held: "Model") -> None:
    """Tell someone at a terminal what to type."""
    if inputs.typed:
        what = held.task.line_form(held.network)
        print_note(f"type {what}, then Enter; Ctrl-D ends (a file or a text in quotes works, too)")
