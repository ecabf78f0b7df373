"""What a lesson can access: the current run, and the page's state when *Check* is pressed."""

import math
import operator
import re
from dataclasses import dataclass
from fnmatch import translate
from typing import Any, SupportsIndex
from urllib.parse import parse_qs

from torch import Tensor

from translucid.core.errors import InputError
from translucid.see.embeddings import neighbours
from translucid.see.gradients import gradients
from translucid.studio import plane
from translucid.studio.answers import steps
from translucid.studio.attention_tables import kinds_of_attention
from translucid.studio.lesson import Lacks, ModelLacks, NotChosen, SentenceLacks
from translucid.studio.lesson_point import TOO_SHORT, RunNumber, Token, TracePoint, Word
from translucid.studio.text_runs import Run


@dataclass(frozen=True)
class Prediction:
    """The likeliest next token after a row, and its probability."""

    word: Word
    id: int
    probability: RunNumber


@dataclass(frozen=True)
class NearbyWord:
    """A word with a similar embedding; `angle` between the two vectors is in degrees."""

    word: Word
    cosine: RunNumber
    angle: float


@dataclass(frozen=True)
class TrainingStep:
    """The state of 2-D training after some steps; a perceptron has no loss."""

    step: int
    mistakes: int
    loss: RunNumber | None


class LessonRun:
    """One text, processed by one model."""

    def __init__(self, run: Run) -> None:
        self.run, self.text = run, run.text
        self._gradients: dict[tuple[str, int], Tensor] = {}

    # ---- the trace ----

    def find(self, *patterns: str) -> TracePoint | None:
        """The first trace point that matches one of these patterns, in order; `*` is a wildcard."""
        for pattern in patterns:
            matches = re.compile(translate(pattern)).match
            if name := next(filter(matches, self.run.shapes), None):
                return TracePoint(self.run, name)
        return None

    def point(self, *patterns: str, lacks: str | None = None) -> TracePoint:
        """Like `find`, but raises an error if there is none. lacks: the reason to show for skipping
        the stop."""
        point = self.find(*patterns)
        if point is None:
            if lacks is not None:
                raise ModelLacks(lacks)
            raise Lacks(f"this model has no {' or '.join(patterns)}")
        return point

    def gradient_norm(
        self, point: TracePoint, row: SupportsIndex, *, target: SupportsIndex
    ) -> RunNumber:
        """Norm of the gradient of one target's loss at one row of a point."""
        of, place = operator.index(target), operator.index(row)
        if (point.name, of) not in self._gradients:
            model, example = self.run.opened.model, self.run.example
            try:
                kept = gradients(
                    model.network, model.task, example, of=of, keep=[point.name], budget_bytes=None
                )
            except InputError:
                raise SentenceLacks("the sentence ends there, so it has no next word") from None
            self._gradients[point.name, of] = kept[point.name][0]
        rows = self._gradients[point.name, of]
        if place >= len(rows):
            raise SentenceLacks(TOO_SHORT)
        return RunNumber(float(rows[place].norm()), f"gradient {point}", [place])

    # ---- the model ----

    def weight(self, name: str, *places: int) -> RunNumber:
        """One number of a weight tensor, by its name in the network."""
        weight = dict(self.run.opened.model.network.state_dict()).get(name)
        if weight is None:
            raise Lacks(f"this model has no weight {name}")
        outside = [at for at, size in zip(places, weight.shape, strict=False) if at >= size]
        if len(places) != weight.dim() or outside:
            raise Lacks(f"weight {name} has shape {tuple(weight.shape)}; index {places} is invalid")
        return RunNumber(float(weight[places]), f"weight {name}", places)

    def config(self, key: str) -> Any:
        """A setting of the network; None if it has no such setting."""
        return self.run.opened.model.network.config.model_dump(mode="json").get(key)

    def has_switch(self, key: str) -> bool:
        """Whether the What-if view has this switch, such as `decoder.masks.causal`."""
        return key in self.run.opened.switches

    @property
    def writes_text(self) -> bool:
        return self.run.outputs.tokenizer is not None

    # ---- what it reads and answers ----

    def reads(self, word: str) -> bool:
        """Whether the sentence contains this word."""
        return word.lower() in re.findall(r"[\w'-]+", self.text.lower())

    def unknown_word(self) -> Token:
        """The first word of the source that is not in the vocabulary."""
        places = self.run.unknown_in(self.run.example.source)
        if not places:
            raise SentenceLacks("this sentence contains no unknown word")
        return Token(self.run.example.words.source[places[0]], places[0], "src", self.run)

    def input(self, place: int) -> float:
        """One of the numeric inputs, as typed by the user."""
        typed = self.text.replace(",", " ").split() if self.run.example.words.features else []
        if place >= len(typed):
            raise Lacks("the model reads words, not numbers")
        try:
            return float(typed[place])
        except ValueError:  # a category or a date
            raise Lacks("the inputs of the model are not all numbers") from None

    @property
    def answer(self) -> Word:
        """The model's answer as one text."""
        answer = self.run.answer()
        if isinstance(answer, dict):
            return Word(max(answer, key=lambda label: answer[label]))
        parts = answer if isinstance(answer, list) else [answer]
        texts = [f"{part:.3g}" if isinstance(part, float) else str(part) for part in parts]
        words = " ".join(text for text in texts if not re.fullmatch(r"</?\w+>", text))
        return Word(re.sub(r" ([.,;:!?])", r"\1", words))

    def says(self, text: str) -> bool:
        """Whether the answer contains this text."""
        return text.lower() in self.answer.lower()

    def prediction(self, row: SupportsIndex) -> Prediction:
        """The likeliest next token after a row."""
        place = operator.index(row)
        likely = steps(self.run, range(place, place + 1), 1)
        (step,) = likely["steps"]
        word, number, probability = step["words"][0], step["ids"][0], step["probabilities"][0]
        value = RunNumber(probability, f"softmax {likely['at']}", [place, number])
        return Prediction(Word(word), number, value)

    def probability(self, row: SupportsIndex, word: str) -> RunNumber:
        """The probability of one word as the next token after a row."""
        place, tokenizer = operator.index(row), self.run.outputs.tokenizer
        ids = [] if tokenizer is None else tokenizer.encode(word)
        if len(ids) != 1:
            raise Lacks(f"{word} is not a single token in this model")
        value = float(self.run.logits[0, place].softmax(-1)[ids[0]])
        return RunNumber(value, f"softmax {self.run.output_point}", [place, ids[0]])

    def neighbours(self, token: Token) -> list[NearbyWord]:
        """The 8 words with the most similar embeddings, nearest first."""
        source = self.run.example.source or self.run.example.target
        if source is None:
            raise Lacks("the model reads numbers, not words")
        try:
            bars = neighbours(self.run.opened.model.network, source.tokenizer, token.word, 8)
        except InputError:  # several tokens, or an unknown word
            raise SentenceLacks("the word is not a single token of the vocabulary") from None
        words = []
        for word, value in zip(bars.labels, bars.values, strict=True):
            cosine = RunNumber(float(value), f"cosine {token.word} {word}")
            angle = math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
            words.append(NearbyWord(Word(word), cosine, angle))
        return words

    # ---- training in the plane ----

    @property
    def problem(self) -> str | None:
        """The problem a two-input network was trained on (and, or, xor), if Train can show it."""
        problem = self.run.opened.model.facts.get("plane")
        return None if problem is None else str(problem)

    def training(
        self, step: int = 0, problem: str | None = None, seed: int = plane.SEED
    ) -> TrainingStep:
        """The 2-D training that the Train view shows, after some steps."""
        if self.problem is None:
            raise Lacks("this model has no training on 2-D points to show")
        kind = "perceptron" if self.config("kind") == "perceptron" else "mlp"
        now = plane.answer(kind, problem or self.problem, min(step, plane.STEPS), seed)
        loss = RunNumber(now["loss"], "training loss") if "loss" in now else None
        return TrainingStep(step, now["mistakes"], loss)


class PageState:
    """The page's current view and selection. The head, the unit and the step are 0 if none is
    selected."""

    def __init__(self, run: LessonRun, unchanged: Run, address: str) -> None:
        """`unchanged`: the run with nothing switched off."""
        self._run, self._unchanged = run, unchanged
        self.view, _, query = address.lstrip("#/").partition("?")
        self._query = {name: values[-1] for name, values in parse_qs(query).items()}

    @property
    def head(self) -> int:
        return self._number("head")

    @property
    def unit(self) -> int:
        return self._number("unit")

    @property
    def step(self) -> int:
        return self._number("step")

    def _number(self, key: str, default: int = 0) -> int:
        value = self._query.get(key, "")
        return int(value) if value.isdigit() else default

    @property
    def layer(self) -> int:
        """The selected layer, or the layer of the point on the page."""
        return self._number("layer") if "layer" in self._query else self.point.layer

    @property
    def point(self) -> TracePoint:
        """The point on the page, such as the attention pattern of the selected layer."""
        names = self._names()
        if not names:
            raise NotChosen("the page shows no such part")
        return TracePoint(self._run.run, names[0])

    @property
    def kind(self) -> str | None:
        """The kind of attention on the page: encoder, decoder or cross."""
        kinds = kinds_of_attention(self._run.run)
        names = self._names()[:1]
        return next((kind for kind, layers in kinds.items() if {*names} & {*layers}), None)

    def _names(self) -> list[str]:
        """The points that match the address; the page shows the first."""
        kind, at = self._query.get("kind"), self._query.get("at", "")
        if kind is not None and self.view == "attention":
            layers = kinds_of_attention(self._run.run).get(kind, [])
            wanted = self._query.get("layer")
            return [
                name for name in layers
                if wanted is None or "layers." not in name or f"layers.{wanted}." in name
            ]  # fmt: skip
        names = [name for name in self._run.run.shapes if at and f"{name}.".startswith(f"{at}.")]
        ends = (".pattern", ".hidden")
        return sorted(names, key=lambda name: name != at and not name.endswith(ends))

    @property
    def problem(self) -> str | None:
        """The problem that the Train view shows: and, or, xor."""
        return self._query.get("problem", self._run.problem) if self.view == "train" else None

    @property
    def training(self) -> TrainingStep:
        """The 2-D training at the step that the page shows."""
        if self.view != "train" or self._run.problem is None:
            raise NotChosen("the page shows no training")
        return self._run.training(self.step, self.problem, self._number("seed", plane.SEED))

    def is_off(self, part: str) -> bool:
        """Whether a switch whose key contains `part` is off."""
        return any(part in key for key in self._run.run.off)

    @property
    def answer_changed(self) -> bool:
        """Whether the answer differs from the answer with nothing switched off."""
        return bool(self._run.run.answer() != self._unchanged.answer())

    def check(self) -> None:
        """Raise an error if the model lacks a part, layer, head or switch in the address."""
        names, chosen = self._names(), self._query
        if not names and self.view == "attention" and "kind" in chosen:
            layer = f" in layer {chosen['layer']}" if "layer" in chosen else ""
            kinds = kinds_of_attention(self._run.run)
            has = [f"{kind} ({len(layers)} layers)" for kind, layers in kinds.items()] or ["none"]
            raise Lacks(f"there is no {chosen['kind']} attention{layer}, only {', '.join(has)}")
        if not names and "at" in chosen:
            raise Lacks(f"this model has no {chosen['at']}")
        for key in filter(None, chosen.get("off", "").split(",")):
            if not self._run.has_switch(key):
                raise Lacks(f"this model has no switch {key}")
        if names and self.view == "attention" and len(self.point.shape) == 3:
            self.point.checked([self.head])
