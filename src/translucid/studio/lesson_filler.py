"""The numbers of a run, put into the text of a lesson.

The text of a lesson holds no number of its own. `{A[h, q, k]}` becomes the number that stands
there in the run at hand, `{word E[q]}` the word of a row, `{follows D[q]}` what is written after
it, `{id E[q]}` its number in the vocabulary, `{size E 1}` how many there are along an axis,
`{likeliest q}` and `{probability q}` the likeliest token there and its probability, `{probability
q are}` that of a word, `{answer}` what the model says, and `[noun](part:{A})` a noun that lights
what it names. Beside the trace there are `{weight NAME[i, j]}`, `{input 0}`, `{gradient H[t] n}`
(how long the gradient of target n is at position t), `{neighbour E[q] 0}`, `{cosine E[q] 0}` and
`{angle E[q] 0}` (the word whose embedding is nearest, and how far its direction is), and
`{zeros F[q]}` (how many values of a row are 0).

`{claim NAME}` is a sentence that compares: `claims` has it with the conditions under which it is
true, in the language of the tasks. Where they do not hold, or cannot be evaluated, its `else` is
shown instead, or nothing.

`let` gives names to points and places, in order. A capital letter is the first point that fits one
of the patterns, in which `{A}` is the part that A belongs to. A small letter is a place: `2 of E`
is row 2, or the last of a shorter text; `word not of E`, `column not of A` and `writes nicht of A`
are where a word stands, `word dogs or dog of E` where the first of them does; `largest A[h, q]` and
`second A[h, q]` are where a row has its largest numbers; `lowest F` and `highest F` the rows with
the least and the largest mean; `mildest A[q]` is the head whose row q is the most even one; `group
h K A` is the head of K that head h of A asks; `telling head of A`, `telling row of A` and `telling
column of A` are where a word that is written looks most at one in another place of the source.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import translate
from functools import cache
from typing import Any

from torch import Tensor

from translucid.catalogue import describe
from translucid.studio import lesson_numbers
from translucid.studio.answers import steps
from translucid.studio.lesson_lacks import (
    Lacks,
    Mistake,
    SentenceLacks,
    check_attention,
    check_places,
    miscounted,
)
from translucid.studio.text_runs import Run

COMPARISON = re.compile(r"(.+?) (>=|<=|=|>|<) (.+)")
COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    "<": lambda a, b: a < b, "=": lambda a, b: a == b,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[Any, Any], float]] = {
    "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else math.inf,
}  # fmt: skip
NAMED = re.compile(r"(\w+)\[([^\]]*)\]")  # A[h, q, k]
PIECE = re.compile(r"\[(?P<noun>[^\]\[]+)\]\((?P<means>[^)]+)\)|\{(?P<asked>[^{}]+)\}")


@cache
def _matches(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match


def matched(pattern: re.Pattern[str], asked: str) -> re.Match[str]:
    match = pattern.fullmatch(asked)
    if match is None:
        raise Mistake(f"{asked}: write a point and its places, as in A[h, q, k]")
    return match


class Filler:
    """Puts the numbers of a run into one step."""

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

    def step(self) -> dict[str, Any]:
        self.check()
        address = self._filled(self.description["address"])
        check_attention(address, ((at, shape[1:]) for at, shape in self.run.shapes.items()))
        pins = [
            key for key in map(self._filled, self.description.get("pin", [])) if self._is_there(key)
        ]
        view, _, query = address.partition("?")
        asked = [*filter(None, query.split("&")), *([f"pin={','.join(pins)}"] if pins else [])]
        return {
            "say": list(self.pieces(self.description["say"])),
            "do": list(self.pieces(self.description["do"])),
            "address": f"{view}?{'&'.join(asked)}" if asked else view, "pin": pins,
            "light": [self._filled(key) for key in self.description.get("light", [])],
            **({"task": True} if "check" in self.description else {}),
        }  # fmt: skip

    def unfilled(self, reason: str) -> dict[str, Any]:
        """A task on a sentence that lacks what it points at: it is set all the same, for a task
        may be to write another sentence."""
        view, _, query = self.description["address"].partition("?")
        asked = [pair for pair in map(self._if_there, query.split("&")) if pair]
        return {
            "say": [{"text": f"Not here: {reason}."}],
            "do": list(self.pieces(self.description["do"], gaps=True)),
            "address": f"{view}?{'&'.join(asked)}" if asked else view, "pin": [], "light": [],
            "task": True,
        }  # fmt: skip

    def _if_there(self, text: str) -> str:
        try:
            return self._filled(text)
        except SentenceLacks:
            return ""

    # ---- names and places ----

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
            return str(self.index(asked))

        return re.sub(r"\{([^{}]+)\}", put, text)

    def pieces(self, text: str, gaps: bool = False) -> Iterator[dict[str, Any]]:
        """Plain text, words, numbers, and nouns that light something. gaps: what this sentence
        lacks is left out, as …"""
        at = 0
        for match in PIECE.finditer(text):
            if match.start() > at:
                yield {"text": text[at : match.start()]}
            at = match.end()
            if (match["asked"] or "").startswith("claim "):
                yield from self._claim(match["asked"].partition(" ")[2], gaps)
                continue
            try:
                if match["noun"]:
                    yield {"text": match["noun"], "means": self._filled(match["means"])}
                else:
                    yield self._asked(match["asked"])
            except SentenceLacks:
                if not gaps:
                    raise
                yield {"text": match["noun"] or "…"}
        if at < len(text):
            yield {"text": text[at:]}

    # ---- claims ----

    def _claim(self, name: str, gaps: bool) -> Iterator[dict[str, Any]]:
        claim = self.description["claims"][name]
        text = claim["say"] if self.claim_holds(claim) else claim.get("else", "")
        return self.pieces(text, gaps)

    def claim_holds(self, claim: Mapping[str, Any]) -> bool:
        """Whether a sentence is true of this run; one that cannot be evaluated is not."""
        try:
            return all(self.holds(condition) for condition in claim["that"])
        except Mistake:
            raise
        except Lacks:
            return False

    def holds(self, condition: str) -> bool:
        """A condition about the run; those about the page are `lesson_checks`'s."""
        if match := COMPARISON.fullmatch(condition):
            left, right = self._side(match[1]), self._side(match[3])
            if isinstance(left, str) or isinstance(right, str):
                return match[2] == "=" and str(left) == str(right)
            return COMPARED[match[2]](left, right)
        kind, _, rest = condition.partition(" ")
        match kind:
            case "config":
                return self._has(condition)
            case "reads":
                return rest.lower() in re.findall(r"[\w'-]+", self.run.text.lower())
            case "says":
                return rest.lower() in self.answer().lower()
        raise Mistake(f"{condition}: it is about the page, and not about the run")

    def _side(self, text: str) -> float | str:
        """A number: written, a place, any that a text may have, the mean, largest or least of some,
        or two of them with a sign in between; or a word."""
        try:
            return float(text)
        except ValueError:
            pass
        for sign, act in ARITHMETIC.items():
            first, separator, second = text.partition(f" {sign} ")
            if separator:
                numbers = self._side(first), self._side(second)
                if not all(isinstance(number, float) for number in numbers):
                    raise Mistake(f"{text}: these are no numbers")
                return act(*numbers)
        if text in self.values:
            return self.values[text]
        way, _, rest = text.partition(" ")
        if way in ("mean", "largest", "least"):
            value = self.numbers(rest)
            made = {"mean": value.mean(), "largest": value.amax(), "least": value.amin()}
            return float(made[way])
        if "[" in text or rest:
            piece = self._asked(text)
            if "word" in piece:
                return str(piece["word"])
            if "value" not in piece:
                return float(piece["text"].replace(",", ""))
            return float("-inf") if piece["value"] is None else float(piece["value"])
        if re.fullmatch(r"[^\W\d_]{2,}", text) and text not in self.places:
            return text  # a word, as in neighbour E[q] 0 = sleeps
        return float(self.index(text))

    def _asked(self, asked: str) -> dict[str, Any]:
        kind, _, rest = asked.partition(" ")
        if asked in self.values:
            return self._value_piece(self.values[asked], f"training {asked}", [])
        match kind:
            case "word" | "id":  # {word A[k]}: of a row; {word A column[k]}: of a column
                named = matched(re.compile(r"(\w+)( column)?\[([^\]]*)\]"), rest)
                self._point(named[1])
                side, words = self._words(named[1], int(bool(named[2])))
                place = self.index(named[3])
                if place >= len(words):
                    raise SentenceLacks("the sentence is too short")
                if kind == "id":
                    inputs = self.run.example.batch.inputs
                    ids = inputs.get("source" if side == "src" else "target", inputs.get("ids"))
                    assert ids is not None
                    return {"text": str(int(ids[0, place]))}
                return {"word": words[place], "means": f"{side}:{place}"}
            case "follows":
                named = matched(NAMED, rest)
                follows, place = self.run.example.words.follows, self.index(named[2])
                if place >= len(follows):
                    raise SentenceLacks("the sentence is too short")
                return {"word": follows[place], "means": f"tgt:{place}"}
            case "mean":  # {mean A[q, k]}: over the heads
                named = matched(NAMED, rest)
                return self._over_heads(asked, named[1], named[2])
            case "zeros":
                return {"text": f"{int((self.numbers(rest) == 0).sum()):,}"}
            case "weight" | "input" | "gradient" | "neighbour" | "cosine" | "angle" | "answer":
                return self._outside_the_trace(kind, rest)
            case "size":
                name, axis = rest.split(" ")
                shape = self._point(name).shape
                if int(axis) >= len(shape):
                    raise Mistake(f"size {rest}: {self.points[name]} has {len(shape)} axes, from 0")
                return {"text": f"{shape[int(axis)]:,}"}
            case "likeliest" | "probability":
                at, _, word = rest.partition(" ")
                n = self.index(at)
                if word:
                    return self._probability(n, word)
                likely = steps(self.run, range(n, n + 1), 1)
                (likeliest,) = likely["steps"]
                if kind == "likeliest":
                    return {"word": likeliest["words"][0], "means": ""}
                index = [n, likeliest["ids"][0]]
                return {"value": likeliest["probabilities"][0], "at": f"softmax {likely['at']}",
                        "index": index, "digits": 3}  # fmt: skip
        if NAMED.fullmatch(asked):
            exact, at, places = self.one_number(asked)
            return {"value": exact if math.isfinite(exact) else None, "at": at,
                    "index": list(places), "digits": 3,
                    "meaning": describe(at).meaning}  # fmt: skip
        return {"text": self._filled(f"{{{asked}}}")}

    def _over_heads(self, asked: str, name: str, index: str) -> dict[str, Any]:
        value = self._point(name)
        at, places = self.points[name], [self.index(part) for part in index.split(",")]
        check_places(asked, at, value.shape, [0, *places])
        if value.dim() != len(places) + 1:
            raise Mistake(
                f"{asked}: {at} has {value.dim()} indices, of which the first is left out"
            )
        means = value.mean(0)
        return self._value_piece(float(means[tuple(places)]), f"mean {at}", places)

    # ---- what stands in no point of the trace ----

    def _probability(self, n: int, word: str) -> dict[str, Any]:
        """Of one word, however likely."""
        tokenizer = self.run.outputs.tokenizer
        ids = [] if tokenizer is None else tokenizer.encode(word)
        if len(ids) != 1:
            raise Lacks(f"{word} is no word of its own to this model")
        value = float(self.run.logits[0, n].softmax(-1)[ids[0]])
        return self._value_piece(value, f"softmax {self.run.output_point}", [n, ids[0]])

    def answer(self) -> str:
        """What the model says, as one text."""
        return lesson_numbers.answer_text(self.run)

    def _outside_the_trace(self, kind: str, rest: str) -> dict[str, Any]:
        """What is asked for by a weight, an input, a gradient, a neighbour."""
        if kind == "answer":
            return {"word": self.answer(), "means": ""}
        if kind == "input":
            typed, place = lesson_numbers.read_numbers(self.run), self.index(rest)
            if place >= len(typed):
                raise Lacks("it reads words, not numbers")
            return {"text": f"{typed[place]:g}"}
        match = matched(re.compile(r"([\w.]+)\[([^\]]*)\] ?(\w*)"), rest)
        places = [self.index(part) for part in match[2].split(",") if part.strip()]
        if kind == "weight":
            weight = lesson_numbers.weight(self.run, match[1])
            if weight is None:
                raise Lacks(f"this model has no weight {match[1]}")
            if len(places) != weight.dim() or any(map(int.__ge__, places, weight.shape)):
                raise Mistake(
                    f"weight {rest}: {match[1]} is of the shape {tuple(weight.shape)}, from 0"
                )
            return self._value_piece(float(weight[tuple(places)]), f"weight {match[1]}", places)
        self._point(match[1])
        if kind == "gradient":
            of = self.index(match[3]) if match[3] else -1
            norms = lesson_numbers.gradient_norms(self.run, self.points[match[1]], of)
            if places[0] >= len(norms):
                raise SentenceLacks("the sentence is too short")
            return self._value_piece(norms[places[0]], f"gradient {self.points[match[1]]}", places)
        words = self._words(match[1], 0)[1]
        if places[0] >= len(words):
            raise SentenceLacks("the sentence is too short")
        near = lesson_numbers.nearest_words(self.run, words[places[0]], 8)
        if int(match[3] or 0) >= len(near):
            raise SentenceLacks("the word has no row of its own")
        word, cosine = near[int(match[3] or 0)]
        if kind == "neighbour":
            return {"word": word, "means": ""}
        if kind == "angle":
            degrees = math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
            return {"text": f"{degrees:.0f}"}
        return self._value_piece(cosine, f"cosine {words[places[0]]} {word}", [])

    def _value_piece(self, value: float, at: str, index: list[int]) -> dict[str, Any]:
        return {"value": value, "at": at, "index": index, "digits": 3}
