"""Configurations: immutable, strictly checked, with a description of every key.

Every configuration is a pydantic model derived from `Config`, defined next to the code that it
configures. One ConfigError lists all mistakes, each with the key, its value, what is allowed and
the nearest valid name.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from reprlib import Repr
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from translucid.core.errors import ConfigError, nearest
from translucid.core.spelling import our_name, unit_note

EXPLAINED = 20  # maximum number of mistakes to list
MAX_SHOWN = 200  # maximum characters of a key or value in a message


class Config(BaseModel):
    """Base class of configurations: strict types, no unknown keys, immutable."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            mistakes = error.errors()
            more = [f"and {len(mistakes) - EXPLAINED:,} more"] * (len(mistakes) > EXPLAINED)
            shown = (_explain(detail, type(self)) for detail in mistakes[:EXPLAINED])
            raise ConfigError(*shown, *more) from None


def key(default: Any, meaning: str, **limits: Any) -> Any:
    """Declare a configuration key with its default, meaning and limits.

    The meaning is printed in recipes, in the tables of the documentation and in the JSON schema.
    """
    return Field(default=default, description=meaning, **limits)


def _explain(detail: Any, config: type[BaseModel]) -> str:
    """The message for one mistake."""
    key = ".".join(str(part) for part in detail["loc"])
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        return unknown_key(key, config.model_fields)
    if detail["type"] == "missing":
        return f"{key} is required"
    if not key:  # a check of several keys names them itself
        return str(message)
    return f"{key[:MAX_SHOWN]} = {_shown(detail['input'])}: {message[:1].lower()}{message[1:]}"


_REPR = Repr()  # of the beginning only: a value may contain a million others
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = MAX_SHOWN // 3
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 2 * MAX_SHOWN


def _shown(value: object) -> str:
    text = _REPR.repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """The message for a key that does not exist."""
    key = key[:MAX_SHOWN]
    known, name = list(allowed), key.rpartition(".")[2]
    ours = our_name(name, known)
    close = [ours] if ours is not None else nearest(name, known)
    hint = f"did you mean {close[0]}?" if close else "the keys are " + ", ".join(known)
    hint += "" if ours is None else unit_note(name, ours)
    return f"{key}: no such key; {hint}"


def with_overrides(
    values: Mapping[str, Any],
    overrides: Iterable[str],
    full_name: Callable[[str], str | None] = lambda key: None,
) -> dict[str, Any]:
    """Return nested values with overrides of the form `section.key=value` applied. A value that is
    not valid TOML is taken as text. full_name: suggests the full name of a key without a
    section."""
    overrides = list(overrides)
    result: dict[str, Any] = {k: dict(v) if isinstance(v, dict) else v for k, v in values.items()}
    for override in overrides:
        if any("\ud800" <= character <= "\udfff" for character in override):
            raise ConfigError(f"{override!r} is not UTF-8; type it again")
        path, equals, text = override.partition("=")
        section, dot, key = path.strip().partition(".")
        if not (equals and dot and section and key):
            meant = full_name(path.strip()) if equals else None
            hint = "" if meant is None else f"; did you mean {meant}={text.strip()}?"
            if Path(override).is_file():
                data = " ".join(file for file in overrides if Path(file).is_file())
                hint = f"; if {override} is data, pass it as --train {data}"
            raise ConfigError(f"{override!r}: write overrides as section.key=value{hint}")
        result.setdefault(section, {})[key] = _toml_value(text.strip())
    return result


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # model.cell=lstm needs no quotes
