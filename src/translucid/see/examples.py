"""One text as a model reads it: tensors, and the words that stand for them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from translucid.data.spans import split_words
from translucid.errors import InputError
from translucid.see.words import Words, of_text, readable
from translucid.tasks.base import IGNORE, Batch, Task
from translucid.tasks.classify import Classify, ClassifyItem
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress, RegressItem
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate, TranslateItem
from translucid.tasks.written import END

MASKS = ("real", "source_real", "target_real")  # all is real where there is one text


@dataclass(frozen=True)
class Example:
    """What a model is called with, and what people call it."""

    text: str
    batch: Batch  # a target that was not given is IGNORE
    words: Words

    def inputs_for(self, network: nn.Module) -> dict[str, Tensor]:
        """On the network's device, and numbers in its precision."""
        like = next(network.parameters())
        return {
            name: value.to(like) if value.is_floating_point() else value.to(like.device)
            for name, value in self.batch.inputs.items()
        }


def make_example(task: Task[Any, Any], text: str, target: str | None = None) -> Example:
    """A text, with what the model should say to it: a translation, a label, a tag for each word,
    numbers. Without it a translator reads nothing but its start."""
    match task:
        case Translate():
            batch, words = _pair(task, text, target or "")
        case Language():
            _no_target(task, target)
            batch, words = _continued(task, text)
        case Classify():
            batch, words = _labelled(task, text, target)
        case Tag():
            batch, words = _tagged(task, text, target)
        case Regress():
            batch, words = _row(task, text, target)
        case _:
            raise InputError(f"a model for task {task.name} reads no text")
    inputs = {name: value for name, value in batch.inputs.items() if name not in MASKS}
    return Example(text, replace(batch, inputs=inputs), words)


def _pair(task: Translate, text: str, target: str) -> tuple[Batch, Words]:
    source = [*task.source.encode(text), task.source.eos_id]
    batch = task.collate([TranslateItem(source, task.target.encode(target), 0)])
    written = of_text(task.target, target)
    start = readable(task.target, [task.target.bos_id])
    words = Words((*of_text(task.source, text), END), (*start, *written), (*written, END))
    return batch, words


def _continued(task: Language, text: str) -> tuple[Batch, Words]:
    ids = task.tokenizer.encode(text)
    inputs = torch.tensor([[task.start_id, *ids]])
    said = torch.tensor([[*ids, IGNORE]])  # the text may go on
    written = of_text(task.tokenizer, text)
    start = readable(task.tokenizer, [task.start_id])
    return Batch({"ids": inputs}, said, len(ids)), Words(
        target=(*start, *written), follows=(*written, "?")
    )


def _labelled(task: Classify, text: str, label: str | None) -> tuple[Batch, Words]:
    if label is not None and label not in task.labels:
        raise InputError(f"label {label!r}: the model knows {', '.join(task.labels)}")
    number = IGNORE if label is None else task.labels.index(label)
    batch = task.collate([ClassifyItem(task.encode_text(text), number, 0)])
    ends = readable(task.tokenizer, [task.tokenizer.bos_id, task.tokenizer.eos_id])
    source = (ends[0], *of_text(task.tokenizer, text), ends[1])
    return batch, Words(source, outputs=tuple(task.labels))


def _tagged(task: Tag, text: str, tags: str | None) -> tuple[Batch, Words]:
    words = [text[first:last] for first, last in split_words(text)]
    if not words:
        raise InputError(f"{text!r}: there is no word to tag; give a text")
    item = task.encode_words(words)
    if tags is not None:
        given = tags.split()
        unknown = [tag for tag in given if tag not in task.tags]
        if unknown:
            raise InputError(f"tag {unknown[0]!r}: the model knows {', '.join(task.tags)}")
        if len(given) != len(words):
            raise InputError(
                f"{len(given)} tags for {len(words)} words ({', '.join(words)}); give one for each"
            )
        numbers = [IGNORE] * len(item.ids)
        for place, tag in zip(item.firsts, given, strict=True):
            numbers[place] = task.tags.index(tag)
        item = replace(item, tags=numbers)
    source = list(readable(task.tokenizer, item.ids))
    for place, word in zip(item.firsts, words, strict=True):
        if item.ids[place] == task.tokenizer.unk_id:
            source[place] = word
    return task.collate([item]), Words(tuple(source), outputs=tuple(task.tags))


def _row(task: Regress, text: str, target: str | None) -> tuple[Batch, Words]:
    given, wanted = _numbers(text), _numbers(target or "")
    batch = task.collate([RegressItem(given, wanted, 0)])
    return batch, Words(features=tuple(f"x{number}" for number in range(1, len(given) + 1)))


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(cell) for cell in text.replace(",", " ").split())
    except ValueError as error:
        raise InputError(f"{text!r}: give numbers, separated by commas or spaces") from error


def _no_target(task: Task[Any, Any], target: str | None) -> None:
    if target is not None:
        raise InputError(
            f"target = {target!r}: a model for task {task.name} has none; leave it out"
        )
