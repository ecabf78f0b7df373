"""Outputs that are a choice among labels or tags, with probabilities from a softmax."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.parts.activations import as_log_probs
from translucid.tasks.batch import IGNORE
from translucid.tasks.example import Example
from translucid.tasks.loss import cross_entropy
from translucid.tasks.outputs import (
    Answer,
    Caption,
    Cell,
    Ending,
    OutputRow,
    Outputs,
    floats,
    place_of,
)
from translucid.tasks.words import INNER

SOFTMAX = "Every label gets a score, and the softmax turns the scores into probabilities."
ILLEGAL = "the likeliest tag would break a span"


class Choices(Outputs):
    """Base class for outputs of which exactly one is correct; the target is its index."""

    def counts(self, targets: Tensor) -> Tensor:
        return targets != IGNORE

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        log_probs = as_log_probs(outputs.flatten(0, -2))  # (targets, choices)
        return F.nll_loss(log_probs, targets.flatten(), ignore_index=IGNORE, reduction="none")

    def summed_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs, targets)


def label_answer(labels: Sequence[str], outputs: Tensor, of: int | str | None) -> Answer:
    """The answer for the label `of`; by default the label with the largest output."""
    choice = int(outputs.argmax()) if of is None else place_of(of, labels, "the labels are")
    return Answer(None, choice, labels[choice])


class OneLabel(Choices):
    """Outputs that are one label for the whole text."""

    kind = "label"

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)

    def name(self, number: int, before: int | None = None) -> str:
        return self.labels[number]

    def plain(self, outputs: Tensor) -> Any:
        return dict(zip(self.labels, outputs.softmax(-1).tolist(), strict=True))

    @property
    def lacking(self) -> str:
        return f"pass its label as target: {', '.join(self.labels)}"

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        return label_answer(self.labels, outputs, of)

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        return [self.answer(example, outputs, choice) for choice in range(len(outputs))]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        wanted = int(example.batch.targets[0])
        probabilities = outputs.float().softmax(dim=-1)  # (labels,)
        best = int(probabilities.argmax())
        cells = likeliest(probabilities, self.labels, top, best, wanted)
        return [Ending("choices", "the label", SOFTMAX, (OutputRow("", cells),))], self.labels[best]


class Tags(Choices):
    """Outputs that are one tag per word, predicted at the word's first token.

    choose: computes the tags from scores (batch, length, tags) and a mask of first tokens (batch,
    length); by default, the most probable tag of each word. spans: whether the tags mark spans, so
    that `choose` returns no broken spans.
    """

    kind = "tags"
    at_positions = True
    caption = Caption(
        "tag", "tags", "The likeliest tags of each word", "word",
        "each word independently, before any span constraint",
    )  # fmt: skip

    def __init__(
        self,
        tags: Sequence[str],
        choose: Callable[[Tensor, Tensor], Tensor] = lambda scores, words: scores.argmax(dim=-1),
        *,
        spans: bool = False,
    ) -> None:
        self.labels, self.choose, self.spans = tuple(tags), choose, spans

    def name(self, number: int, before: int | None = None) -> str:
        return self.labels[number]

    def plain(self, outputs: Tensor) -> Any:
        return [self.labels[number] for number in outputs.argmax(-1).tolist()]

    @property
    def lacking(self) -> str:
        return f"pass the tag of each word as target, such as {self.labels[0]!r} for one word"

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        words = example.words.source
        place = _tagged(example)[-1] if of is None else place_of(of, words, "there are")
        choice = int(outputs[place].argmax())
        return Answer(place, choice, f"{self.labels[choice]} at {words[place]}")

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        return [self.answer(example, outputs, place) for place in _tagged(example)]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        scores = outputs.float()  # (length, tags)
        counted = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
        counted[[place for place, _ in example.starts]] = True
        tags = self.choose(scores[None], counted[None])[0].tolist()
        targets = example.batch.targets[0].tolist()
        probabilities = scores.softmax(dim=-1)
        rows = tuple(
            OutputRow(word, likeliest(probabilities[at], self.labels, top, tags[at], targets[at]),
                remark="" if tags[at] == int(probabilities[at].argmax()) else ILLEGAL)
            for at, word in example.starts
        )  # fmt: skip
        sentence = (
            "At each word every tag gets a score, and the softmax turns the scores into "
            "probabilities."
        )
        if self.spans:
            sentence += " The best sequence of tags without a broken span is chosen."
        last = Ending("choices", "a tag for each word", sentence, rows, least_sure(rows, "at"))
        answer = [f"{word}/{self.labels[tags[place]]}" for place, word in example.starts]
        return [last], " ".join(answer)


def _tagged(example: Example) -> list[int]:
    """The positions of the words' first tokens."""
    if example.starts:
        return [place for place, _ in example.starts]
    counted: list[int] = (example.batch.targets[0] != IGNORE).nonzero()[:, 0].tolist()
    words = example.words.source
    return counted or [place for place, word in enumerate(words) if not word.startswith(INNER)]


def likeliest(
    probabilities: Tensor, labels: Sequence[str], top: int, chosen: int, wanted: int
) -> tuple[Cell, ...]:
    """The `top` most probable labels, plus the chosen label and the target."""
    order = probabilities.argsort(descending=True).tolist()
    places = order[:top]
    places += [place for place in dict.fromkeys((chosen, wanted)) if place not in (*places, IGNORE)]
    values = floats(probabilities)
    return tuple(
        Cell(labels[place], values[place], chosen=place == chosen, wanted=place == wanted,
             rank=order.index(place) + 1)
        for place in places
    )  # fmt: skip


def ranked(probabilities: Tensor, top: int, also: int = IGNORE) -> list[tuple[int, float, int]]:
    """Index, probability and rank of the `top` most probable outputs, plus the output `also`."""
    best = probabilities.topk(min(top, len(probabilities)))
    numbers, values = best.indices.tolist(), floats(best.values)
    rows = [(n, p, rank) for rank, (n, p) in enumerate(zip(numbers, values, strict=True), start=1)]
    if also not in (*numbers, IGNORE):
        value = probabilities[also]
        rows.append((also, float(value), 1 + int((probabilities > value).sum())))
    return rows


def least_sure(rows: Sequence[OutputRow], where: str = "after") -> str:
    """Describe the chosen output that has the smallest probability."""
    sure = [(cell.value, row, cell) for row in rows for cell in row.cells if cell.chosen]
    if not sure:
        return ""
    value, row, cell = min(sure, key=lambda one: one[0])
    best = row.cells[0]
    instead = f", the {nth(cell.rank)} likeliest; {best.label!r} was likelier ({best.value:.1%})"
    return (
        f"least sure of {cell.label!r} {where} {row.label!r}: {value:.1%}"
        f"{instead if cell.rank > 1 else ''}"
    )


def nth(rank: int) -> str:
    """Format an ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{rank}{'th' if rank % 100 in (11, 12, 13) else ends.get(rank % 10, 'th')}"
