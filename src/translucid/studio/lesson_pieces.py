"""One number or word of a run that the text of a lesson asks for.

`A[h, q, k]` is the number that stands there in the run at hand, `word E[q]` the word of a row,
`follows D[q]` what is written after it, `id E[q]` its number in the vocabulary, `size E 1` the
length of an axis, `likeliest q` and `probability q` the likeliest token there and its probability,
`probability q are` that of a word, `answer` the model's answer. Beside the trace there are
`weight NAME[i, j]`, `input 0`, `gradient H[t] n` (the norm of the gradient of target n at position
t), `neighbour E[q] 0`, `cosine E[q] 0` and `angle E[q] 0` (the word whose embedding is nearest, and
how far its direction is), and `zeros F[q]` (how many values of a row are 0).
"""

import math
import re
from typing import Any

from translucid.core.catalogue import describe
from translucid.studio import lesson_numbers
from translucid.studio.answers import steps
from translucid.studio.lesson_lacks import Lacks, Mistake, SentenceLacks, check_places
from translucid.studio.lesson_places import NAMED, Places, matched


class Asked(Places):
    """What a text asks for, as a piece that the page shows."""

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

    # ---- beside the trace ----

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
