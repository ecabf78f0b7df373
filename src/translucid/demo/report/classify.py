"""Classification: which labels are confused, and how the verdict changes word by word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.data.records import Labelled
from translucid.demo.report import page, pictures
from translucid.model import Model
from translucid.tasks import metrics
from translucid.tasks.classify import Classify

COLOURS = {
    "positive": pictures.BLUE,
    "negative": pictures.ORANGE,
    "neutral": pictures.GREEN,
}


@dataclass(frozen=True)
class Confusion:
    """How often a text of one label was given another."""

    labels: list[str]
    counts: list[list[int]]  # (right, given)


def confusion(model: Model, records: Sequence[Labelled]) -> Confusion:
    labels = _task(model).labels
    said = [found.label for found in model.classify([record.text for record in records])]
    counts = metrics.confusion(said, [record.label for record in records])
    return Confusion(
        labels, [[counts.get((right, given), 0) for given in labels] for right in labels]
    )


@dataclass(frozen=True)
class Reading:
    """The probability of each label after each word, as if the text ended there."""

    words: list[str]
    labels: list[str]
    probabilities: list[list[float]]  # (words + 1, labels); the first has read nothing


def reading(model: Model, text: str) -> Reading:
    """Run the model on growing beginnings of the text."""
    task = _task(model)
    tokenizer = task.tokenizer
    ids = tokenizer.encode(text)
    beginnings = [[tokenizer.bos_id, *ids[:read], tokenizer.eos_id] for read in range(len(ids) + 1)]
    words = [text[start:end].strip() for start, end in tokenizer.offsets(text)]
    return Reading(words, task.labels, task.probabilities(model.network, beginnings))


def _task(model: Model) -> Classify:
    assert isinstance(model.task, Classify)
    return model.task


def write(
    folder: Path,
    model: Model,
    records: Sequence[Labelled],
    texts: Sequence[str],
    score: Mapping[str, float],
    bag_of_words: float,
) -> Path:
    """Write the report of a classification run."""
    scores = {**score, "accuracy of a bag of words": bag_of_words}
    note = (
        "A bag of words is a linear classifier on the mean of the words' vectors, trained as long "
        "on the same sentences. It can tell judgements from plain statements, but whether a "
        "judgement is praise depends on the order of its words."
    )
    parts = [
        page.score_table(scores, [note]),
        page.section("How it learnt"),
        page.figure(
            pictures.draw_curves(
                pictures.read_curves(folder, "accuracy"),
                loss="training loss per text",
                metric="accuracy, validation",
                level=("bag of words", bag_of_words),
            )
        ),
        page.section("What it takes for what", "Rows: the right label. Columns: the label given."),
        page.figure(draw_confusion(confusion(model, records))),
        page.section(
            "How the verdict changes word by word",
            "The probability of each label after each word, as if the sentence ended there.",
        ),
        *(page.figure(draw_reading(reading(model, text))) for text in texts),
    ]
    return page.write_page(
        folder,
        "Praise or blame, learnt on this machine",
        "A small network that says whether a sentence is positive, negative or neutral, trained "
        "from scratch on made-up sentences of toyland, where negation and contrast decide.",
        parts,
    )


def draw_confusion(found: Confusion) -> Any:
    most = max(max(row) for row in found.counts) or 1
    shades = [[float(count) for count in row] for row in found.counts]
    return pictures.heat_map(shades, found.labels, found.labels, most=most, numbers=".0f")


def draw_reading(found: Reading) -> Any:
    drawn, (axes,) = pictures.empty(2.2 + 0.5 * len(found.words), 2.8)
    places = range(len(found.words) + 1)
    spare = iter((pictures.PURPLE, pictures.BLACK) * len(found.labels))
    for label, values in zip(found.labels, zip(*found.probabilities, strict=True), strict=True):
        colour = COLOURS.get(label) or next(spare)
        axes.plot(places, values, color=colour, marker="o", markersize=4, label=label)
    axes.set_xticks(
        places,
        pictures.plain(["(start)", *found.words]),
        rotation=45,
        ha="right",
        rotation_mode="anchor",
    )
    axes.set(ylabel="probability", ylim=(-0.03, 1.03))
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn
