"""Lessons: guided tours through the views, on whatever model is open.

A lesson is a file in `lessons/`: steps with something to say, an address to go to, a thing to do.
Its text holds no number of its own. `{A[h, q, k]}` becomes the number that stands there in the run
at hand, `{word E[q]}` the word of a row, `{id E[q]}` its number in the vocabulary, `{size E 1}` how
many there are along an axis, `{likeliest q}` and `{probability q}` the likeliest token there and
its probability, and `[noun](part:{A})` a noun that lights what it names. A model that lacks what a
step needs skips it, and the reason is told.

`let` gives names to points and places, in order. A capital letter is the first point that fits one
of the patterns, in which `{A}` is the part that A belongs to. A small letter is a place: `2 of E`
is row 2, or the last of a shorter text; `largest A[h, q]` and `second A[h, q]` are where a row has
its largest numbers; `mildest A[q]` is the head whose row q is the most even one; `group h K A` is
the head of K that head h of A asks.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from translucid.errors import InputError, nearest
from translucid.studio.answers import steps
from translucid.studio.text_runs import Run, clipped

FOLDER = Path(__file__).parent / "lessons"
NAMED = re.compile(r"(\w+)\[([^\]]*)\]")  # A[h, q, k]
PIECE = re.compile(r"\[(?P<noun>[^\]\[]+)\]\((?P<means>[^)]+)\)|\{(?P<asked>[^{}]+)\}")


@cache
def _matches(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match


class Lacks(Exception):
    """What a step needs and this model has not got."""


@cache
def lessons() -> dict[str, dict[str, Any]]:
    return {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))
    }


def lesson(key: str) -> dict[str, Any]:
    if key not in lessons():
        close = nearest(key[:200], list(lessons()), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(
            f"there is no lesson {clipped(key)}; there are {', '.join(lessons())}{hint}"
        )
    return lessons()[key]


def listed() -> list[dict[str, Any]]:
    return [
        {
            "id": key,
            "name": entry["name"],
            "teaches": entry["teaches"],
            "steps": len(entry["steps"]),
        }
        for key, entry in lessons().items()
    ]


def on_run(run: Run, key: str) -> dict[str, Any]:
    """A lesson on one run: every number put in, every address written out."""
    wanted = lesson(key)
    return {
        "id": key, "name": wanted["name"], "teaches": wanted["teaches"],
        "steps": [_step(run, wanted, step) for step in wanted["steps"]],
    }  # fmt: skip


def _step(run: Run, lesson_: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """The step itself, or the first of its kinds that this model has."""
    try:
        TextStream(run, lesson_["let"], lesson_).check()
    except Lacks as error:
        return {"title": step["title"], "lacks": str(error)}
    lacks = ""
    for kind in step.get("one_of", [step]):
        try:
            return {"title": step["title"], **TextStream(run, lesson_["let"], kind).step()}
        except Lacks as error:
            lacks = lacks or str(error)
    return {"title": step["title"], "lacks": step.get("lacks", lacks)}


class TextStream:
    """Puts the numbers of a run into one step."""

    def __init__(self, run: Run, let: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        self.run, self.description = run, step
        self.points: dict[str, str] = {}
        self.places: dict[str, int] = {}
        for name, value in {**let, **step.get("let", {})}.items():
            if name[0].isupper():
                self._find(name, value if isinstance(value, list) else [value])
            else:
                self._place(name, str(value))

    def check(self) -> None:
        for need, reason in self.description["needs"].items():
            if not self._has(need):
                raise Lacks(reason)

    def step(self) -> dict[str, Any]:
        self.check()
        address = self._filled(self.description["address"])
        pins = [
            key for key in map(self._filled, self.description.get("pin", [])) if self._is_there(key)
        ]
        view, _, query = address.partition("?")
        asked = [*filter(None, query.split("&")), *([f"pin={','.join(pins)}"] if pins else [])]
        return {
            "say": list(self._pieces(self.description["say"])),
            "do": list(self._pieces(self.description["do"])),
            "address": f"{view}?{'&'.join(asked)}" if asked else view, "pin": pins,
            "light": [self._filled(key) for key in self.description.get("light", [])],
        }  # fmt: skip

    # ---- names and places ----

    def _find(self, name: str, patterns: list[str]) -> None:
        for pattern in patterns:
            filled = re.sub(r"\{(\w+)\}", self._part, pattern)
            at = next(filter(_matches(filled), self.run.shapes), None)
            if at is not None:
                self.points[name] = at
                return

    def _part(self, match: re.Match[str]) -> str:
        return self.points.get(match[1], "?").rpartition(".")[0]

    def _place(self, name: str, value: str) -> None:
        """Where it cannot be told, the name has no place, and steps that need it are left out."""
        with suppress(Lacks):
            way, _, rest = value.partition(" ")
            match way:
                case "largest" | "second":
                    row = self._row(rest)
                    self.places[name] = int(row.argsort(descending=True)[int(way == "second")])
                case "mildest":
                    heads = self._point(rest[0])[:, self._index(NAMED.fullmatch(rest)[2])]  # type: ignore[index]
                    self.places[name] = int(heads.amax(-1).argmin())
                case "group":
                    head, keys, queries = rest.split(" ")
                    group_size = len(self._point(queries)) // len(self._point(keys))
                    self.places[name] = self._index(head) // group_size
                case _:
                    number, _, point = value.partition(" of ")
                    place = int(number)
                    if point:
                        self._point(point)
                        place = min(place, len(self._words(point, 0)[1]) - 1)
                    self.places[name] = place

    def _row(self, asked: str) -> Tensor:
        match = NAMED.fullmatch(asked)
        assert match is not None, asked
        row = self._number(match[1], match[2])[0]
        if row.shape[-1] < 2:
            raise Lacks("the sentence has one word only")
        return row

    def _point(self, name: str) -> Tensor:
        if name not in self.points:
            raise Lacks("this model has no such part")
        value = self.run[self.points[name]]
        return (value[0] if value.dim() else value).float()

    def _has(self, need: str) -> bool:
        kind, _, rest = need.partition(" ")
        match kind:
            case "writes":
                return self.run.outputs.tokenizer is not None
            case "switch":
                return rest in self.run.opened.switches
            case "config":
                key, _, wanted = rest.partition(" ")
                config = self.run.opened.model.network.config.model_dump(mode="json")
                return key in config and str(config[key]).lower() == wanted
            case "heads":
                name, least = rest.split(" ")
                return name in self.points and len(self._point(name)) >= int(least)
            case "words":
                name, least = rest.split(" ")
                return name in self.points and len(self._words(name, 0)[1]) >= int(least)
            case _:
                return need in self.points or need in self.places

    def _number(self, name: str, index: str) -> tuple[Tensor, str, tuple[int, ...]]:
        """What stands at A[h, q, k], the point's name, and the places."""
        value = self._point(name)
        places = [self._index(part) for part in index.split(",") if part.strip()]
        if any(place >= size for place, size in zip(places, value.shape, strict=False)):
            raise Lacks("the sentence is too short")
        return value[tuple(places)], self.points[name], tuple(places)

    def _index(self, text: str) -> int:
        text = text.strip()
        if text.isdigit():
            return int(text)
        if text not in self.places:
            raise Lacks("this model has no such part")
        return self.places[text]

    def _words(self, name: str, axis: int) -> tuple[str, tuple[str, ...]]:
        """The side and the words that a row (0) or a column (1) of a point belongs to."""
        at, words = self.points[name], self.run.example.words
        scopes = at.split(".")
        across = bool({"cross_attention", "alignment"} & set(scopes))
        reads = "encoder" in scopes or (across and axis == 1)
        return ("src", tuple(words.source)) if reads else ("tgt", tuple(words.target))

    def _is_there(self, key: str) -> bool:
        side, _, place = key.partition(":")
        words = self.run.example.words
        return int(place) < len(words.source if side == "src" else words.target)

    # ---- text ----

    def _filled(self, text: str) -> str:
        """Addresses and keys: {A} is a name, {h} a place, {row A} a side."""

        def put(match: re.Match[str]) -> str:
            asked = match[1].strip()
            kind, _, name = asked.partition(" ")
            if kind in ("row", "column"):
                self._point(name)
                return self._words(name, int(kind == "column"))[0]
            if kind == "layer" and name in self.points:
                layer = re.search(r"layers\.(\d+)", self.points[name])
                return layer[1] if layer else "0"
            if asked in self.points:
                return self.points[asked]
            return str(self._index(asked))

        return re.sub(r"\{([^{}]+)\}", put, text)

    def _pieces(self, text: str) -> Iterator[dict[str, Any]]:
        """Plain text, words, numbers, and nouns that light something."""
        at = 0
        for match in PIECE.finditer(text):
            if match.start() > at:
                yield {"text": text[at : match.start()]}
            at = match.end()
            if match["noun"]:
                yield {"text": match["noun"], "means": self._filled(match["means"])}
            else:
                yield self._asked(match["asked"])
        if at < len(text):
            yield {"text": text[at:]}

    def _asked(self, asked: str) -> dict[str, Any]:
        kind, _, rest = asked.partition(" ")
        match kind:
            case "word" | "id":  # {word A[k]}: of a row; {word A column[k]}: of a column
                named = re.fullmatch(r"(\w+)( column)?\[([^\]]*)\]", rest)
                assert named is not None, asked
                self._point(named[1])
                side, words = self._words(named[1], int(bool(named[2])))
                place = self._index(named[3])
                if kind == "id":
                    inputs = self.run.example.batch.inputs
                    ids = inputs.get("source" if side == "src" else "target", inputs.get("ids"))
                    assert ids is not None
                    return {"text": str(int(ids[0, place]))}
                return {"word": words[place], "means": f"{side}:{place}"}
            case "size":
                name, axis = rest.split(" ")
                return {"text": f"{self._point(name).shape[int(axis)]:,}"}
            case "likeliest" | "probability":
                n = self._index(rest)
                likely = steps(self.run, range(n, n + 1), 1)
                (likeliest,) = likely["steps"]
                if kind == "likeliest":
                    return {"word": likeliest["words"][0], "means": ""}
                index = [n, likeliest["ids"][0]]
                return {"value": likeliest["probabilities"][0], "at": f"softmax {likely['at']}",
                        "index": index, "digits": 3}  # fmt: skip
        if named := NAMED.fullmatch(asked):
            value, at, places = self._number(named[1], named[2])
            assert value.dim() == 0, f"{asked} is not one number"
            exact = float(value)
            return {"value": exact if math.isfinite(exact) else None, "at": at,
                    "index": list(places), "digits": 3}  # fmt: skip
        return {"text": self._filled(f"{{{asked}}}")}
