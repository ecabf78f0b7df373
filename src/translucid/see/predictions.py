"""What a model is about to say: the likeliest words, tags or classes with their probabilities."""

from torch import Tensor

from translucid.core.errors import InputError
from translucid.parts.activations import as_log_probs
from translucid.see.of_points import MOST, numbers, window
from translucid.see.picture_data import Axis
from translucid.see.pictures import Bars, Heat
from translucid.see.text_trace import TextTrace


def likeliest(
    reading: TextTrace, k: int = 5, *, tokens: tuple[int, int] | None = None
) -> Heat | Bars:
    """The k likeliest next tokens, or tags, at every position; of a classifier, all classes.

    tokens: the first position to show, and the one after the last.
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
    """How much is not shown."""
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


def check_likely(reading: TextTrace) -> None:
    if not reading.outputs.probabilities:
        raise InputError(f"a model for task {reading.task.name} gives numbers, no tokens or tags")
