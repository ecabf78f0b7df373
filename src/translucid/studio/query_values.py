"""Parse and check query parameters; error messages name the allowed values."""

import re
from collections.abc import Iterable

from translucid.core.errors import InputError, nearest
from translucid.studio.server.questions import Query
from translucid.studio.tensors import Place


def clipped(value: object) -> str:
    """Shorten a value for an error message."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"


def hinted(name: str, allowed: Iterable[str]) -> str:
    """A name as shown in an error message, followed by the most similar allowed names."""
    close = nearest(name[:200], list(allowed), 3)
    return clipped(name) + (f"; the nearest are {', '.join(close)}" if close else "")


def named(query: Query, name: str) -> str:
    if name not in query:
        raise InputError(f"{name} is required")
    return query.text(name, "")


def whole(text: str | None, name: str, least: int, most: int) -> int:
    if text is not None and text.isascii() and text.isdigit() and len(text) < 10:
        number = int(text)
        if least <= number <= most:
            return number
    raise InputError(f"{name}: must be a whole number from {least} to {most}, not {clipped(text)}")


def fraction(text: str, name: str, least: float, most: float) -> float:
    if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{0,9})?", text) and least <= float(text) <= most:
        return float(text)
    raise InputError(f"{name}: must be a number from {least} to {most}, not {clipped(text)}")


def place_of(query: Query, name: str) -> int:
    return whole(named(query, name), name, 0, 10**7)


def token_ids(text: str, name: str) -> list[int]:
    """Parse token ids such as 7.43.269."""
    return [whole(part, name, 0, 10**7) for part in text.split(".")] if text else []


def index_of(text: str) -> tuple[Place, ...]:
    """Parse an index such as 2,5 or 2,*,3 or 2,10:30, where * is all and 10:30 is 10 to 29."""
    return tuple(map(_place, text.split(","))) if text else ()


def _place(text: str) -> Place:
    if text == "*":
        return None
    return span(text, "index") if ":" in text else whole(text, "index", 0, 10**6)


def span(text: str, name: str) -> range:
    """Parse a range such as 10:30, which is 10 to 29."""
    first, _, last = text.partition(":")
    begin = whole(first, name, 0, 10**6)
    return range(begin, whole(last, name, begin + 1, 10**6))


def pool_sizes(text: str | None) -> int | tuple[int, int] | None:
    """Parse pool sizes such as 64, or 100,8 for the last two axes."""
    sizes = tuple(whole(part, "pool", 1, 1024) for part in (text or "").split(",", 1))
    return (sizes[0], sizes[1]) if len(sizes) > 1 else sizes[0]
