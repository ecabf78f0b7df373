"""Lessons as files: the tours, the stations of *Start here*, and a teacher's own.

JSON or TOML, one lesson a file. What a file says that cannot be is refused with the file, the stop,
the key, and what is allowed; docs/lessons.md describes the form. No torch here: a mistake shows
before anything is opened.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError, nearest
from translucid.studio.lesson_lacks import KINDS as ATTENTION

FOLDER = Path(__file__).parent / "lessons"
VIEWS = ("flow", "attention", "recurrent", "decode", "whatif", "compare", "data", "train")
ADDRESS = ("at", "i", "head", "moment", "unit", "step", "off", "kind", "layer",
           "problem", "seed")  # fmt: skip
MOMENTS = ("scores", "scaled", "biased", "masked", "weights")
# What the keys of an address may be; a name in braces stands for anything.
VALUES = {
    "kind": ("|".join(ATTENTION), ", ".join(ATTENTION)),
    "moment": ("|".join(MOMENTS), ", ".join(MOMENTS)),
    "head": (r"\d+|mean", "a number or mean"),
    **dict.fromkeys(("layer", "unit", "step", "seed"), (r"\d+", "a number")),
}
LESSON = ("name", "teaches", "model", "text", "needs", "let", "steps")
STOP = ("title", "say", "do", "address", "pin", "light", "needs", "let", "claims", "check",
        "one_of", "lacks")  # fmt: skip
CLAIM = ("that", "say", "else")
CHECK = ("that", "right", "wrong", "needs")
KINDS = {"pin": list, "light": list, "needs": dict, "let": dict, "claims": dict, "check": dict,
         "one_of": list, "steps": list}  # fmt: skip
OWN, OPENING = "own", "opening"  # the ids of a teacher's lesson, and of the first page
ASKED = re.compile(r"\{([^{}]+)\}")
CONDITION = re.compile(
    r"(.+?) (>=|<=|=|>|<) (.+)|(view|kind|at|off|reads|says|problem|differs|config)\b ?(.*)"
)
FUNCTIONS = ("word", "id", "size", "likeliest", "probability", "row", "column", "layer", "follows",
             "weight", "input", "gradient", "neighbour", "cosine", "angle", "answer", "mean",
             "zeros", "claim")  # fmt: skip
PLACE = re.compile(
    r"\d+( of [A-Z])?|(word|column|writes) .+ of [A-Z]|(largest|second|mildest) [A-Z]\[.*\]|"
    r"(lowest|highest) [A-Z]|telling (head|row|column) of [A-Z]|group \w [A-Z] [A-Z]"
)
NAME = re.compile(r"(?<![\w.=\"])[A-Za-z](?![\w.=\"])")  # one letter by itself


def read(path: Path) -> dict[str, Any]:
    """A lesson file with every key that may be left out put in."""
    try:
        text = path.read_text("utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise InputError(f"{path}: is not {kind}: {error}; a lesson is .toml or .json") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: a lesson is a table with the keys {', '.join(LESSON)}")
    return _lesson(content, str(path))


@cache
def tours() -> dict[str, dict[str, Any]]:
    """Those for any model, by id."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.json"))}


@cache
def stations() -> dict[str, dict[str, Any]]:
    """Those of *Start here*, by id, in order."""
    paths = sorted((FOLDER / "start").glob("*.toml"))
    return {path.stem.partition("-")[2]: read(path) for path in paths}


@cache
def opening() -> dict[str, Any]:
    """What the page begins with: one stop, a number that tells something."""
    return read(FOLDER / "opening.toml")


# ---- what may stand in a file ----


def _lesson(content: dict[str, Any], where: str) -> dict[str, Any]:
    _keys(content, LESSON, ("name", "steps"), where)
    lesson = {"teaches": "", "model": None, "text": None, "needs": {}, "let": {}, **content}
    _names(lesson["let"], where)
    if not lesson["steps"]:
        raise InputError(f"{where}: steps: it is empty; a lesson has one stop at least")
    stops = []
    for number, stop in enumerate(lesson["steps"], start=1):
        named = f"{where}, stop {number}"
        if not isinstance(stop, dict):
            raise InputError(f"{named}: a table with the keys {', '.join(STOP)}")
        named += f" {stop['title']!r:.60}" if "title" in stop else ""
        stops.append(_stop(stop, lesson["let"], named))
    return {**lesson, "steps": stops}


def _stop(stop: dict[str, Any], let: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "one_of" in stop:
        _keys(stop, ("title", "one_of", "lacks"), ("title", "one_of"), where)
        kinds = [_filled({"title": stop["title"], **kind}, let, where) for kind in stop["one_of"]]
        return {**stop, "one_of": kinds}
    return _filled(stop, let, where)


def _filled(stop: dict[str, Any], let: Mapping[str, Any], where: str) -> dict[str, Any]:
    _keys(stop, tuple(k for k in STOP if k != "one_of"), ("title", "say", "address"), where)
    known = {**let, **stop.get("let", {})}
    _names(stop.get("let", {}), where)
    view, _, query = stop["address"].partition("?")
    if view not in VIEWS:
        raise InputError(f"{where}: address: there is no view {view}; choose {', '.join(VIEWS)}")
    for pair in filter(None, query.split("&")):
        key, _, value = pair.partition("=")
        if key not in ADDRESS:
            raise InputError(f"{where}: address: no key {key}; there are {', '.join(ADDRESS)}")
        _value(key, value, f"{where}: address")
    texts = {"say": stop["say"], "do": stop.get("do", ""), "address": stop["address"]}
    texts |= {f"pin {n}": pin for n, pin in enumerate(stop.get("pin", []), start=1)}
    claims = stop.get("claims", {})
    for name, claim in claims.items():
        texts |= _claim(name, claim, where, known)
    if "check" in stop:
        texts |= _check(stop["check"], where, known)
    _used(claims, " ".join(texts.values()), where)
    for key, text in texts.items():
        _asked(text, known, f"{where}: {key}")
    return {"do": "", "pin": [], "light": [], "needs": {}, **stop}


def _check(check: Mapping[str, Any], where: str, known: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a check, whose conditions were looked at."""
    where = f"{where}: check"
    _keys(check, CHECK, ("that", "right", "wrong"), where)
    _conditions(check["that"], where, known)
    return {"check: right": check["right"], "check: wrong": check["wrong"]}


def _claim(name: str, claim: Any, where: str, known: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a claim, whose conditions were looked at."""
    where = f"{where}: claims: {name}"
    if not isinstance(claim, dict):
        raise InputError(f"{where}: a table with the keys {', '.join(CLAIM)}")
    _keys(claim, CLAIM, ("that", "say"), where)
    _conditions(claim["that"], where, known)
    return {f"claims: {name}: {key}": claim[key] for key in ("say", "else") if key in claim}


def _used(claims: Mapping[str, Any], text: str, where: str) -> None:
    asked = re.findall(r"\{claim ([^{}]*)\}", text)
    for name in [*asked, *claims]:
        if name not in claims or name not in asked:
            raise InputError(
                f"{where}: {{claim {name}}} and its table claims.{name} belong together; the texts "
                f"ask for {', '.join(asked) or 'none'}, claims has {', '.join(claims) or 'none'}"
            )


def _conditions(that: Any, where: str, known: Mapping[str, Any]) -> None:
    if not isinstance(that, list) or not that:
        raise InputError(f"{where}: that: a list of conditions, such as 'head = 2'")
    for condition in that:
        if not CONDITION.fullmatch(condition):
            raise InputError(
                f"{where}: that: {_shown(condition)} is no condition; write A[h, q, k] >= 0.5 "
                "(or <=, >, <, =), view NAME, kind NAME, at A, off SWITCH, reads WORD, says WORD, "
                "problem NAME, differs, config KEY VALUE"
            )
        key, _, value = condition.partition(" ")
        if key == "kind":
            _value(key, value, f"{where}: that")
        if key == "view" and value not in VIEWS:
            raise InputError(f"{where}: that: there is no view {value}; choose {', '.join(VIEWS)}")
        if re.search(r" (>=|<=|=|>|<) ", condition):
            _check_names(condition, known, f"{where}: that")


def _value(key: str, value: str, where: str) -> None:
    pattern, allowed = VALUES.get(key, (".*", ""))
    if "{" not in value and not re.fullmatch(pattern, value):
        raise InputError(f"{where}: {key}: {allowed} is wanted, not {_shown(value)}")


def _keys(
    content: Mapping[str, Any], allowed: Iterable[str], needed: Iterable[str], where: str
) -> None:
    for key, value in content.items():
        if key not in allowed:
            close = nearest(key, list(allowed), 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise InputError(f"{where}: no key {key}; {hint}there are {', '.join(allowed)}")
        wanted = KINDS.get(key, list if key == "that" else str)
        if not isinstance(value, wanted):
            kind = {list: "a list", dict: "a table", str: "a text"}[wanted]
            raise InputError(f"{where}: {key}: {kind} is wanted, not {_shown(value)}")
    for key in needed:
        if key not in content:
            raise InputError(f"{where}: the key {key} is missing; it must be given")


def _names(let: Mapping[str, Any], where: str) -> None:
    for name, value in let.items():
        if not re.fullmatch(r"[A-Za-z]", name):
            raise InputError(
                f"{where}: let: {_shown(name)} is no name; one letter: a capital names a point, "
                "a small one a place"
            )
        if name.islower() and not PLACE.fullmatch(str(value)):
            raise InputError(
                f"{where}: let: {name} = {_shown(value)} is no place; write 2, 2 of E, word not of "
                "E, column not of A, writes nicht of A, largest A[h, q], lowest F or another of "
                "docs/lessons.md"
            )


def _asked(text: str, known: Mapping[str, Any], where: str) -> None:
    for asked in ASKED.findall(text):
        function, _, rest = asked.partition(" ")
        if rest and "[" not in function and function not in FUNCTIONS:
            raise InputError(
                f"{where}: {{{asked}}}: there is no {function}; there are {', '.join(FUNCTIONS)}"
            )
        plain = function in ("weight", "input", "answer", "claim")
        named = re.sub(r"^[\w.]+", "", rest) if plain else rest if rest else asked
        _check_names(named if function in FUNCTIONS else asked, known, where)


def _check_names(text: str, known: Mapping[str, Any], where: str) -> None:
    for letter in NAME.findall(re.sub(r"\b(column|mean|largest|least)\b", "", text)):
        if letter not in known:
            raise InputError(
                f"{where}: {_shown(text)} uses {letter}, which let does not name; it names "
                f"{', '.join(known) or 'nothing'}"
            )


def _shown(value: object) -> str:
    return repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}…"
