"""Surveys of many texts, which are processed in batches.

The page repeats its request until all texts are processed, and shows the progress. To stop a
survey, it does not ask again. Results are cached.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch

from translucid.core.errors import ConfigError, InputError
from translucid.runs.recipe.scoring import NAMES, run_of
from translucid.see.predictions import TextLoss, text_losses
from translucid.see.reading import read
from translucid.see.unit_labels import SENTENCES, Activations, Extreme, Measuring, UnitLabels
from translucid.studio.page_model import PageModel, examples

TEXTS = 200  # number of texts to read from the model's data
SAVED = 30  # number of texts for a saved file
AT_ONCE = 25  # maximum texts per request
SECONDS = 1.0  # processor time per request; a slow model reads fewer texts
SHOWN = 20  # maximum texts in the list
EXTREMES = 5  # how many texts with a unit's largest and smallest values to show
KEPT = 6  # number of cached surveys
T = TypeVar("T")


class Surveys:
    """The recent surveys of the opened models."""

    def __init__(self, texts: int | None = None) -> None:
        """`texts`: how many texts to read [default: TEXTS]."""
        self._most = texts
        self.kept: OrderedDict[tuple[str, ...], Any] = OrderedDict()

    def hardest(self, opened: PageModel) -> dict[str, Any]:
        """The examples from the model's data with the highest loss."""
        survey = self._of(_Losses, "losses", opened, self._texts())
        survey.advance()
        return {**survey.progress(), "from": survey.origin, "texts": survey.listed()}

    def unit(self, opened: PageModel, point: str, unit: int) -> dict[str, Any]:
        """The texts with the largest and smallest values of a unit."""
        survey = self._of(_Units, "units", opened, point, self._texts())
        survey.advance()
        largest, smallest = survey.activations.extremes(unit, EXTREMES)
        return {
            **survey.progress(), "at": point, "unit": unit, "units": survey.activations.units,
            "from": survey.origin, "largest": list(map(_shown, largest)),
            "smallest": list(map(_shown, smallest)),
        }  # fmt: skip

    def labels(self, opened: PageModel, point: str) -> dict[str, Any]:
        """Labels for the units of a point, measured with Toyland's grammar."""
        survey = self._of(_Labels, "labels", opened, point)
        survey.advance()
        done = survey.progress()
        labels = survey.result()
        return done if labels is None else {
            **done, "at": point, "control": 0.5 + labels.control, "tokens": labels.tokens,
            "labels": [vars(label) for label in labels.labels],
            "of_unit": [
                [{"feature": one.feature, "auc": one.auc} for one in labels.of(unit)[:3]]
                for unit in range(len(labels.auc))
            ],
        }  # fmt: skip

    def _texts(self) -> int:
        return TEXTS if self._most is None else min(self._most, TEXTS)

    def _of(self, kind: Any, *key: Any) -> Any:
        name = tuple(part.key if isinstance(part, PageModel) else part for part in key)
        if name not in self.kept:
            self.kept[name] = kind(*key[1:])
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(name)
        return self.kept[name]


def texts_of(opened: PageModel, most: int) -> tuple[list[tuple[str, str | None]], str]:
    """Texts for a survey, each with a reference answer or None, and a description of where they
    come from. They are the test data of the model's run, or its validation data if there is no test
    data. For a model without a run, they are its example sentences and generated sentences, without
    reference answers."""
    why = ""
    for part, name in NAMES.items():
        try:
            return opened.model.examples(limit=most, part=part), f"the {name} data of its run"
        except InputError as error:
            why = str(error)
    if "step" in opened.model.facts:  # generated texts would differ from its data
        if run_of(opened.model.folder, "recipe.toml") is None:
            why = (
                "the model is outside its run folder, whose recipe names the data; open the run "
                "folder instead"
            )
        raise InputError(f"cannot read the model's data: {why}")
    texts = examples(opened)
    try:
        made_up = opened.model.task.toyland("test", max(most - len(texts), 0))
        texts += [record.asked for record in made_up]
    except ConfigError:  # Toyland has no data for this task
        return [(text, None) for text in texts], "its example sentences"
    return [(text, None) for text in texts], "its example sentences and sentences of Toyland"


def _some(left: Sequence[T], most: int) -> Iterator[T]:
    """Yield items until the time for one request is used up, but at least one item."""
    began = time.thread_time()
    for number, one in enumerate(left[:most]):
        if number and time.thread_time() - began >= SECONDS:
            return
        yield one


class _Losses:
    def __init__(self, opened: PageModel, most: int) -> None:
        if not opened.model.task.outputs.probabilities:
            raise InputError("losses: this model predicts numbers; look at its predictions instead")
        self.opened = opened
        self.texts, self.origin = texts_of(opened, most)
        self.read: list[TextLoss] = []

    def advance(self) -> None:
        """Process one text to measure the time it takes, then as many as there is time for."""
        began, begin, model = time.thread_time(), len(self.read), self.opened.model
        some = self.texts[begin : begin + AT_ONCE]
        self.read += text_losses(model.network, model.task, some[:1])
        took = max(time.thread_time() - began, 1e-9)
        more = some[1:][: int(max(SECONDS - took, 0) / took)]
        self.read += text_losses(model.network, model.task, more)

    def progress(self) -> dict[str, int]:
        return {"done": len(self.read), "of": len(self.texts)}

    def listed(self) -> list[dict[str, Any]]:
        """The texts with the largest loss so far, each with the reference. When all texts are read,
        also with the model's answer."""
        model = self.opened.model
        of_text = model.task.outputs.kind == "next_tokens"  # a text is its own reference
        known = [one for one in self.read if one.targets and (of_text or one.target is not None)]
        hardest = sorted(known, key=lambda one: -one.loss)[:SHOWN]
        answers: list[str | None] = [None] * len(hardest)
        if hardest and not of_text and len(self.read) == len(self.texts):
            predicted = model.task.predict_lines(model.network, [one.text for one in hardest])
            answers = list(map(model.task.answer_text, predicted))
        return [
            {"text": one.text, "target": one.target, "loss": one.loss, "answer": answer}
            for one, answer in zip(hardest, answers, strict=True)
        ]


class _Units:
    def __init__(self, opened: PageModel, point: str, most: int) -> None:
        self.opened, self.activations = opened, Activations(point)
        self.texts, self.origin = texts_of(opened, most)

    def advance(self) -> None:
        begin, model = len(self.activations.texts), self.opened.model
        for text, target in _some(self.texts[begin:], AT_ONCE):
            target = model.default_target(text) if target is None else target
            point = self.activations.point
            self.activations.add(read(model.network, model.task, text, target, keep=[point]))
        if self.activations.full:
            del self.texts[len(self.activations.texts) :]

    def progress(self) -> dict[str, int]:
        return {"done": len(self.activations.texts), "of": len(self.texts)}


class _Labels:
    def __init__(self, opened: PageModel, point: str) -> None:
        model = opened.model
        self.measuring = Measuring(model.network, model.task, point, SENTENCES)
        self.labels: UnitLabels | None = None

    def advance(self) -> None:
        for _ in _some(self.measuring.left, 2 * AT_ONCE):
            self.measuring.advance(1)

    def progress(self) -> dict[str, int]:
        left = len(self.measuring.left)
        return {"done": self.measuring.asked - left, "of": self.measuring.asked}

    def result(self) -> UnitLabels | None:
        if self.labels is None and not self.measuring.left:
            with torch.no_grad():
                self.labels = self.measuring.result()
        return self.labels


def _shown(one: Extreme) -> dict[str, Any]:
    return {"value": one.value, "text": one.text, "tokens": one.tokens, "place": one.place}
