"""The names that a lesson gives to points and places of a run, and what stands there.

`let` gives names to points and places, in order. A capital letter is the first point that fits one
of the patterns, in which `{A}` is the part that A belongs to. A small letter is a place: `2 of E`
is row 2, or the last of a shorter text; `word not of E`, `column not of A` and `writes nicht of A`
are where a word stands, `word dogs or dog of E` where the first of them does; `largest A[h, q]` and
`second A[h, q]` are where a row has its largest numbers; `lowest F` and `highest F` the rows with
the least and the largest mean; `mildest A[q]` is the head whose row q is the most even one; `group
h K A` is the head of K that head h of A asks; `telling head of A`, `telling row of A` and `telling
column of A` are where a word that is written looks most at one in another place of the source.
"""

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from functools import cache
from typing import Any

from torch import Tensor

from translucid.studio import lesson_numbers
from translucid.studio.lesson_lacks import Lacks, Mistake, SentenceLacks, check_places, miscounted
from translucid.studio.text_runs import Run

NAMED = re.compile(r"(\w+)\[([^\]]*)\]")  # A[h, q, k]


@cache
def _matches(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match


def matched(pattern: re.Pattern[str], asked: str) -> re.Match[str]:
    match = pattern.fullmatch(asked)
    if match is None:
        raise Mistake(f"{asked}: write a point and its places, as in A[h, q, k]")
    return match


class Places:
    """The points and places of a run under the names of one step."""

    def __init__(self, run: Run, let: Mapping[str, Any], step: Mapping[str, Any]) -> None:
        self.run, self.description = run, step
        self.points: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.values: dict[str, float] = {}  # of a training in the plane
        self.lacks: dict[str, Lacks] = {}  # of names without a point or a place: why
        for name, value in {**let, **step.get("let", {})}.items():
            if name[0].isupper():
                self._find(name, value if isinstance(value, list) else [value])
            else:
                self._place(name, str(value))

    def check(self) -> None:
        for need, reason in self.description["needs"].items():
            if not self._has(need):
                raise (SentenceLacks if self._is_of_sentence(need) else Lacks)(reason)

    def _find(self, name: str, patterns: list[str]) -> None:
        filled = [re.sub(r"\{(\w+)\}", self._part, pattern) for pattern in patterns]
        for pattern in filled:
            at = next(filter(_matches(pattern), self.run.shapes), None)
            if at is not None:
                self.points[name] = at
                return
        known = [pattern for pattern in filled if not pattern.startswith("?")]
        self.lacks[name] = Lacks(f"this model has no {' or '.join(known) or 'such part'}")

    def _part(self, match: re.Match[str]) -> str:
        return self.points.get(match[1], "?").rpartition(".")[0]

    def _place(self, name: str, value: str) -> None:
        """Where it cannot be told, the name has no place, and steps that need it are left out."""
        try:
            self.places[name] = self._place_of(value)
        except Lacks as error:
            self.lacks[name] = error

    def _place_of(self, value: str) -> int:
        way, _, rest = value.partition(" ")
        match way:
            case "largest" | "second":
                row = self._row(rest)
                return int(row.argsort(descending=True)[int(way == "second")])
            case "mildest":
                heads = self._point(rest[0])[:, self.index(matched(NAMED, rest)[2])]
                return int(heads.amax(-1).argmin())
            case "group":
                head, keys, queries = rest.split(" ")
                group_size = len(self._point(queries)) // len(self._point(keys))
                return self.index(head) // group_size
            case "lowest" | "highest":
                means = self._point(rest).flatten(1).mean(-1)
                return int(means.argmin() if way == "lowest" else means.argmax())
            case "word" | "column" | "writes":
                return self._place_of_word(way, *rest.split(" of "))
            case "telling":
                axis, point = rest.split(" of ")
                link = lesson_numbers.telling_link(self._point(point), self.run.example.words)
                if link is None:
                    raise SentenceLacks("no word looks strongly at one in another place")
                return link[("head", "row", "column").index(axis)]
            case _:
                number, _, point = value.partition(" of ")
                place = int(number)
                if point:
                    self._point(point)
                    place = min(place, len(self._words(point, 0)[1]) - 1)
                return place

    def _place_of_word(self, way: str, word: str, point: str) -> int:
        """Where a word stands along the rows of a point or its columns, or is written; of `dogs or
        dog` the first that the sentence has."""
        self._point(point)
        words = self._words(point, int(way == "column"))[1]
        if way == "writes":
            words = self.run.example.words.follows
        wanted = word.split(" or ")
        place = next((place for place, word in enumerate(words) if word in wanted), None)
        if place is None:
            raise SentenceLacks(
                f"it writes no {word} here" if way == "writes"
                else f"there is no {word} in this sentence"
            )  # fmt: skip
        return place

    def _row(self, asked: str) -> Tensor:
        match = matched(NAMED, asked)
        row, at, places = self._number(match[1], match[2])
        if row.dim() != 1:
            raise Mistake(f"largest {asked}: all indices of {at} but the last, not {len(places)}")
        if len(row) < 2:
            raise SentenceLacks("the sentence has one word only")
        return row

    def _point(self, name: str) -> Tensor:
        if name not in self.points:
            raise self.lacks.get(name) or Lacks("the page shows no such part")
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
                if " >= " in need:
                    value, least = need.split(" >= ")
                    return float(self.numbers(value)) >= float(least)
                return need in self.points or need in self.places

    def _is_of_sentence(self, need: str) -> bool:
        """Whether another sentence could give what is needed and not there."""
        kind, _, rest = need.partition(" ")
        if kind == "words":
            return rest.partition(" ")[0] in self.points
        return " >= " in need or isinstance(self.lacks.get(need), SentenceLacks)

    def numbers(self, asked: str) -> Tensor:
        """What stands at A[h, q, k], or at a part of it, as A[h]."""
        match = matched(NAMED, asked)
        return self._number(match[1], match[2])[0]

    def _number(self, name: str, index: str) -> tuple[Tensor, str, tuple[int, ...]]:
        """What stands at A[h, q, k], the point's name, and the places."""
        value = self._point(name)
        places = tuple(self.index(part) for part in index.split(",") if part.strip())
        check_places(f"{name}[{index}]", self.points[name], value.shape, places)
        return value[places], self.points[name], places

    def one_number(self, asked: str) -> tuple[float, str, tuple[int, ...]]:
        """As `_number`, where every index is given."""
        match = matched(NAMED, asked)
        value, at, places = self._number(match[1], match[2])
        if value.dim():
            raise miscounted(asked, at, self._point(match[1]).shape, places)
        return float(value), at, places

    def index(self, text: str) -> int:
        text = text.strip()
        if text.isdigit():
            return int(text)
        if text not in self.places:
            raise self.lacks.get(text) or Lacks(f"the page has chosen no {text}")
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
