"""What a model is about to say: the likeliest words, tags or classes with their probabilities."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from translucid.errors import InputError
from translucid.models.base import EncoderModel, Network
from translucid.models.ensemble import Ensemble
from translucid.parts.activations import as_log_probs
from translucid.see.of_points import MOST, numbers, window
from translucid.see.pictures import Axis, Bars, Heat
from translucid.see.reading import Reading
from translucid.see.words import readable
from translucid.tasks.base import Task
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate


def likeliest(
    reading: Reading, k: int = 5, *, tokens: tuple[int, int] | None = None
) -> Heat | Bars:
    """The k likeliest next words, or tags, at every position; of a classifier, all classes.

    tokens: the first position to show, and the one after the last.
    """
    check_count(k)
    match reading.task:
        case Translate() | Language() | Tag():
            return _ranked(reading, k, tokens)
        case Classify():
            return _classes(reading)
        case _:
            raise InputError(f"a model for task {reading.task.name} says numbers, no words or tags")


def _ranked(reading: Reading, k: int, tokens: tuple[int, int] | None) -> Heat:
    name = logits_point(reading.network, reading.task)
    logits = reading[name][0]  # (length, vocab)
    notes: list[str] = []
    first, last = window(logits.shape[0], tokens, notes)
    probabilities = as_log_probs(logits[first:last]).exp()
    best = probabilities.topk(min(k, logits.shape[-1]))  # (positions, k)
    values, ids = numbers(best.values), best.indices.tolist()
    words = [said(reading, place, row) for place, row in enumerate(ids, start=first)]
    texts = tuple(
        tuple(f"{word} {value:.2f}" for word, value in zip(*pair, strict=True))
        for pair in zip(words, values.tolist(), strict=True)
    )
    tags = isinstance(reading.task, Tag)
    notes.append(_rest(best.values, logits.shape[-1], "tags" if tags else "words"))
    if tags:
        notes.append("each word by itself, before any rule about spans")
    return Heat(
        "The likeliest tags of each word" if tags else "The likeliest next words at each position",
        values,
        Axis("word" if tags else "word read → word that follows", labels(reading)[first:last]),
        Axis("rank", tuple(str(rank) for rank in range(1, values.shape[1] + 1))),
        scale="unit",
        frames=_frames(ids, wanted(reading)[first:last]),
        texts=texts,
        note="; ".join(notes),
        address=name,
    )


def _rest(best: Tensor, count: int, what: str) -> str:
    """How much is not shown."""
    shown = best.shape[-1]
    if shown == count:
        return f"all {count:,} {what} are shown"
    most = max(float((1 - best.sum(dim=-1)).max()), 0.0)
    others = f"the other {count - shown:,} of {count:,} {what}"
    return f"{others} share at most {most:.2g} of the probability"


def _frames(ids: list[list[int]], targets: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (row, found.index(target))
        for row, (found, target) in enumerate(zip(ids, targets, strict=True))
        if target in found
    )


def _classes(reading: Reading) -> Bars:
    name = logits_point(reading.network, reading.task)
    probabilities = as_log_probs(reading[name][0]).exp()  # (outputs,)
    count = len(probabilities)
    places, note = list(range(count)), ""
    if count > MOST:
        places = probabilities.topk(MOST).indices.tolist()
        rest = 1 - float(probabilities[places].sum())
        note = f"the {MOST} likeliest of {count:,} classes; the others share {rest:.2g}"
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
        raise InputError(f"k = {k}: give how many to show, 1 or more")


def logits_point(network: Network, task: Task[Any, Any]) -> str:
    """Where the trace holds what the network says in the end."""
    if isinstance(task, Regress):
        return "output.dense.activation"
    point = "class_logits" if isinstance(task, Classify) else "logits"
    if isinstance(network, Ensemble):
        return f"committee.{point}"
    if isinstance(network, EncoderModel) and network.votes is not None:
        return "votes.sum"
    return f"head.{point}"


def labels(reading: Reading) -> tuple[str, ...]:
    """What stands at each position at which the model says something."""
    return reading.words.steps or reading.words.last


def wanted(reading: Reading) -> list[int]:
    """The word or tag that should be said at each position; IGNORE where nobody knows."""
    return reading.example.batch.targets[0].tolist()


def said(reading: Reading, place: int, ids: Sequence[int]) -> list[str]:
    """Words or tags that could be said at a position, as people write them there."""
    task, inputs = reading.task, reading.example.batch.inputs
    match task:
        case Tag():
            return [task.tags[number] for number in ids]
        case Translate():
            tokenizer, read = task.target, inputs["target"]
        case Language():
            tokenizer, read = task.tokenizer, inputs["ids"]
        case _:
            raise AssertionError(f"a model for task {task.name} says nothing at a position")
    before = int(read[0, place])  # a piece may go on with it
    return [readable(tokenizer, [before, number])[1] for number in ids]
