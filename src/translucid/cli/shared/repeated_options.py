"""Several values behind one option: `--ensemble A B` is written `--ensemble A --ensemble B`.

The parser behind typer gives an option one value; a second one would be taken for the next argument
of the command, and be spoken of as if it were one.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperOption

from translucid.cli.shared.recipe_arguments import OVERRIDE
from translucid.core.errors import ConfigError
from translucid.core.spelling import quoted

FILES = {"file", "files", "source", "target"}  # arguments that are files, wherever they are
KEYS = "overrides"  # the argument that is keys of a recipe


def refuse_several(params: Sequence[Any], words: Sequence[str], command: str) -> None:
    """A further value of an option that must be repeated, with the line that repeats it."""
    names = {param.name for param in params}
    if not names & {*FILES, KEYS}:  # a text may follow anything
        return
    typed = list(_typed(params, words))
    further = [word for word, option in typed if option]
    if not further:
        return
    option = next(option for _, option in typed if option)
    line = " ".join(
        f"{option} {quoted(word)}" if option else quoted(word) for word, option in typed
    )
    lacking = ", and there is no such file" * (not (KEYS in names or _exists(further[0])))
    raise ConfigError(
        f"{further[0]}: {option} takes one value{lacking}; for several, repeat it: {command} {line}"
    )


def _typed(params: Sequence[Any], words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each word, and for a further value the option that it belongs to."""
    options = [param for param in params if isinstance(param, TyperOption)]
    repeated = {name for option in options if option.multiple for name in option.opts}
    taking = {name for option in options if not option.is_flag for name in option.opts}
    option: str | None = None  # that a further value may follow
    value, value_next, first_seen = "", False, False
    for place, word in enumerate(words):
        if word == "--":
            yield from ((rest, None) for rest in words[place:])
            return
        if value_next:
            value, value_next = word, False
            yield word, None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            option = name if name in repeated else None
            value_next = not equals and name in taking
            yield word, None
        elif option and first_seen and _is_further(word, value):
            yield word, option
        else:
            option, first_seen = None, True
            yield word, None


def _is_further(word: str, value: str) -> bool:
    """Not what the command's own arguments may be, or a file or folder just as the value is."""
    if OVERRIDE.match(word) or word == "-":
        return False
    if not _exists(word):
        return " " in value or " " not in word  # a text where a file stands is another mistake
    return Path(word).suffix == Path(value).suffix != "" or (
        Path(word).is_dir() and Path(value).is_dir()
    )


def _exists(word: str) -> bool:
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False
