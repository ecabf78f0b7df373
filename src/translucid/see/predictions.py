"""Predictions of a model: the likeliest tokens, tags or classes, and the loss of each text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.models.base import Network
from translucid.parts.activations import as_log_probs
from translucid.see.pictures import Axis, Bars, Heat
from translucid.see.text_trace import TextTrace
from translucid.see.trace_pictures import MOST, numbers, window
from translucid.tasks.base import Task
from translucid.tasks.example import Example, inputs_for, padded

BATCH_TOKENS = 2048  # maximum per batch, including padding; limits the memory for logits


def likeliest(
    reading: TextTrace, k: int = 5, *, tokens: tuple[int, int] | None = None
) -> Heat | Bars:
    """Draw the k likeliest next tokens or tags at every position; for a classifier, all classes.

    tokens: the range of positions to show, (first, last + 1).
    """
    check_count(k)
    check_likely(reading)
    return _ranked(reading, k, tokens) if reading.outputs.at_positions else _classes(reading)


def _ranked(reading: TextTrace, k: int, tokens: tuple[int, int] | None) -> Heat:
    logits, caption = reading.output_values, reading.outputs.caption  # (length, vocab)
    notes: list[str] = []
    first, last = window(logits.shape[0], tokens, notes)
    probabilities = as_log_probs(logits[first:last]).exp()
    best = probabilities.topk(min(k, logits.shape[-1]))  # (positions, k)
    values, ids = numbers(best.values), best.indices.tolist()
    words = [reading.names_at(place, row) for place, row in enumerate(ids, start=first)]
    texts = tuple(
        tuple(f"{word} {value:.2f}" for word, value in zip(*pair, strict=True))
        for pair in zip(words, values.tolist(), strict=True)
    )
    notes.append(_rest(best.values, logits.shape[-1], caption.many))
    if caption.note:
        notes.append(caption.note)
    return Heat(
        caption.title,
        values,
        Axis(caption.axis, reading.labels[first:last]),
        Axis("rank", tuple(str(rank) for rank in range(1, values.shape[1] + 1))),
        scale="unit",
        frames=_frames(ids, reading.wanted[first:last]),
        texts=texts,
        note="; ".join(notes),
        address=reading.network.output_point,
    )


def _rest(best: Tensor, count: int, what: str) -> str:
    """A note on the outputs that are not shown."""
    shown = best.shape[-1]
    if shown == count:
        return f"all {count:,} {what} are shown"
    most = max(float((1 - best.sum(dim=-1)).max()), 0.0)
    others = f"the other {count - shown:,} of {count:,} {what}"
    return f"{others} share at most {most:.2g} of the probability"


def _frames(ids: list[list[int]], targets: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (row, choices.index(target))
        for row, (choices, target) in enumerate(zip(ids, targets, strict=True))
        if target in choices
    )


def _classes(reading: TextTrace) -> Bars:
    probabilities = as_log_probs(reading.output_values).exp()  # (outputs,)
    count = len(probabilities)
    places, note = list(range(count)), ""
    if count > MOST:
        places = probabilities.topk(MOST).indices.tolist()
        rest = 1 - float(probabilities[places].sum())
        note = f"the {MOST} likeliest of {count:,} classes; the others sum to {rest:.2g}"
    target = int(reading.example.batch.targets[0])
    return Bars(
        "How likely each class is",
        "probability",
        tuple(reading.words.outputs[place] for place in places),
        numbers(probabilities[places]),
        note,
        marked=(places.index(target),) if target in places else (),
    )


def check_count(k: int) -> None:
    if k < 1:
        raise InputError(f"k = {k}: the number of outputs to show must be at least 1")


def check_likely(reading: TextTrace) -> None:
    if not reading.outputs.probabilities:
        raise InputError(
            f"a model for task {reading.task.name} predicts numbers, not tokens, tags or classes"
        )


@dataclass(frozen=True)
class TextLoss:
    """A text, its target, and the model's loss on it."""

    text: str
    target: str | None
    loss: float  # nats per target
    targets: int  # number of targets that count


def text_losses(
    network: Network, task: Task[Any, Any], texts: Sequence[tuple[str, str | None]]
) -> list[TextLoss]:
    """Compute the loss of each text as `evaluate` does, in large batches."""
    losses = [
        loss
        for examples in _batches([task.example(*pair) for pair in texts])
        for loss in _losses(network, task, examples)
    ]
    return [TextLoss(*pair, *loss) for pair, loss in zip(texts, losses, strict=True)]


def _batches(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Split examples into batches of at most BATCH_TOKENS tokens, in the given order."""
    waiting: list[Example] = []
    for example in examples:
        length = max(one.tokens for one in (*waiting, example))
        room = example.can_be_padded and length * (len(waiting) + 1) <= BATCH_TOKENS
        if waiting and not (room and waiting[0].can_be_padded):
            yield waiting
            waiting = []
        waiting.append(example)
    if waiting:
        yield waiting


def _losses(
    network: Network, task: Task[Any, Any], examples: Sequence[Example]
) -> Iterator[tuple[float, int]]:
    """The loss (nats per target) and the number of targets of each example."""
    batch = padded(examples) if len(examples) > 1 else examples[0].batch
    with torch.no_grad():
        outputs = network(**inputs_for(network, batch))
    targets = batch.targets.to(outputs.device)
    for row in range(len(examples)):
        own, right = outputs[row : row + 1], targets[row : row + 1]
        count = int(task.outputs.counts(right).sum())
        loss = float(task.outputs.summed_loss(own, right)) / max(count, 1)
        yield loss if count else float("nan"), count


def hardest(
    network: Network, task: Task[Any, Any], texts: Sequence[tuple[str, str | None]]
) -> list[TextLoss]:
    """The losses of all texts, sorted from largest to smallest."""
    return sorted(text_losses(network, task, texts), key=lambda one: -one.loss)
