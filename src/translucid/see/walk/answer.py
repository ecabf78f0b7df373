"""The last stages of a walk: what the output head makes of the vectors, task by task."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from translucid.data.spans import split_words
from translucid.data.tokenizers import Tokenizer
from translucid.see.reading import Reading
from translucid.see.walk.data import Cell, Row, Stage, along, at, floats, nth
from translucid.see.words import readable
from translucid.tasks.base import IGNORE
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

CHAPTER = "What comes out"
WRITES = (
    "Every token of the vocabulary gets a score, and the softmax turns the scores into "
    "probabilities that sum to 1."
)
LABELS = "Every label gets a score, and the softmax turns the scores into probabilities."


def answers(reading: Reading, text: str, names: Sequence[str], top: int) -> tuple[list[Stage], str]:
    """The last stages, and the answer in words."""
    match reading.task:
        case Translate() as task:
            return _translated(reading, task, top)
        case Language() as task:
            return _continued(reading, task, top)
        case Classify() as task:
            return _labelled(reading, task, names, top)
        case Tag() as task:
            return _tagged(reading, task, text, top)
        case Regress():
            return _predicted(reading)
        case task:
            raise AssertionError(f"no example is made for task {task.name}")


def _last(reading: Reading) -> str:
    """The model's output: what it wrote into the trace at the end."""
    return reading.names()[-1]


def _translated(reading: Reading, task: Translate, top: int) -> tuple[list[Stage], str]:
    name = _last(reading)
    read = reading.example.batch.inputs["target"][0].tolist()
    written = reading.example.batch.targets[0].tolist()
    rows = _written(reading[name][0], task.target, read, written, reading.words.follows, top)
    happened, goes_on = _doubts(rows), _goes_on(reading[name][0, -1], task.target, read[-1])
    if goes_on:  # an end that others set is no doubt of the model's
        happened = "; ".join(filter(None, [_doubts(rows[:-1]), goes_on]))
        rows = (*rows[:-1], replace(rows[-1], remark=CUT))
    sentence = WRITES + " One token at a time, each with those before it in view."
    stage = Stage("choices", CHAPTER, "the next token, step by step", sentence,
                  **at(reading, name), rows=rows, came=True, happened=happened)  # fmt: skip
    return [stage], task.target.decode(written[:-1])


CUT = "the model would have gone on"


def _goes_on(logits: Tensor, tokenizer: Tokenizer, before: int) -> str:
    """What a model would write where a translation ends, if that is not the end: the text was cut
    off at a limit, it was given so, or a search preferred it. logits: (vocab,)"""
    probabilities = logits.float().softmax(dim=-1)
    written = probabilities.clone()
    written[[tokenizer.pad_id, tokenizer.bos_id]] = 0  # no search ever writes these
    best = int(written.argmax())
    if best == tokenizer.eos_id:
        return ""
    label = readable(tokenizer, [before, best])[1]
    return (
        f"the translation ends here (probability of the end: "
        f"{float(probabilities[tokenizer.eos_id]):.1%}); by itself the model would have gone on "
        f"with {label!r} ({float(probabilities[best]):.1%})"
    )


def _written(
    logits: Tensor,
    tokenizer: Tokenizer,
    read: Sequence[int],
    written: Sequence[int],
    follows: Sequence[str],
    top: int,
) -> tuple[Row, ...]:
    """At each step the likeliest tokens, and the one that was written. logits: (steps, vocab)"""
    probabilities = logits.float().softmax(dim=-1)
    found = probabilities.topk(min(top, probabilities.shape[-1]))
    rows = []
    for step, (before, after) in enumerate(zip(read, written, strict=True)):
        values, tokens = floats(found.values[step]), found.indices[step].tolist()
        cells = [
            Cell(readable(tokenizer, [before, token])[1], value, chosen=token == after, rank=rank)
            for rank, (value, token) in enumerate(zip(values, tokens, strict=True), start=1)
        ]
        if after != IGNORE and after not in tokens:
            value = float(probabilities[step, after])
            rank = 1 + int((probabilities[step] > probabilities[step, after]).sum())
            cells.append(Cell(follows[step], value, chosen=True, rank=rank))
        rows.append(Row(readable(tokenizer, [before])[0], tuple(cells)))
    return tuple(rows)


def _doubts(rows: Sequence[Row], where: str = "after") -> str:
    """Where what was written was least sure."""
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


def _continued(reading: Reading, task: Language, top: int) -> tuple[list[Stage], str]:
    name = _last(reading)
    read = reading.example.batch.inputs["ids"][0].tolist()
    follows = reading.example.batch.targets[0].tolist()
    rows = _written(reading[name][0], task.tokenizer, read, follows, reading.words.follows, top)
    sentence = WRITES + " What came next in the text is marked: how likely the model found it."
    found = at(reading, name)
    stages = []
    if len(rows) > 1:
        stages.append(
            Stage(
                "choices",
                CHAPTER,
                "guessing each next token",
                sentence,
                **found,
                rows=rows[:-1],
                came=True,
                happened=_doubts(rows[:-1]),
            )
        )
    stages.append(
        Stage(
            "choices",
            CHAPTER,
            "how the text may go on",
            "The likeliest tokens after the text.",
            **found,
            rows=rows[-1:],
        )
    )
    return stages, rows[-1].cells[0].label


def _labelled(
    reading: Reading, task: Classify, names: Sequence[str], top: int
) -> tuple[list[Stage], str]:
    name = _last(reading)
    wanted = int(reading.example.batch.targets[0])
    probabilities = reading[name][0].float().softmax(dim=-1)  # (outputs,)
    best = int(probabilities.argmax())
    cells = _likeliest(probabilities, task.labels, top, best, wanted)
    stage = Stage("choices", CHAPTER, "the label", LABELS, **at(reading, name),
                  rows=(Row("", cells),))  # fmt: skip
    before = [_pooled(reading, name) for name in names if _pools(reading, name)]
    before += [_votes(reading, name, task, best) for name in names if name.endswith("votes.words")]
    return [*before, stage], task.labels[best]


def _likeliest(
    probabilities: Tensor, labels: Sequence[str], top: int, chosen: int, wanted: int
) -> tuple[Cell, ...]:
    """The likeliest labels, with the one that was chosen and the one that was wanted."""
    order = probabilities.argsort(descending=True).tolist()
    places = order[:top]
    places += [place for place in dict.fromkeys((chosen, wanted)) if place not in (*places, IGNORE)]
    values = floats(probabilities)
    return tuple(
        Cell(labels[place], values[place], chosen=place == chosen, wanted=place == wanted,
             rank=order.index(place) + 1)
        for place in places
    )  # fmt: skip


def _pools(reading: Reading, name: str) -> bool:
    """One of two: the shares of the tokens, or, where a state is taken, the vector itself."""
    scope, _, point = name.rpartition(".")
    return point == "pool_pattern" or (point == "pooled" and f"{scope}.pool_pattern" not in reading)


def _pooled(reading: Reading, name: str) -> Stage:
    value = reading[name][0]
    if name.endswith(".pooled"):  # (d_model,)
        sentence = "The last state has read the whole text: it stands for all of it."
        first = (*(Cell("", number) for number in floats(value[:4])),
                 Cell("length", float(torch.linalg.vector_norm(value.float()))))  # fmt: skip
        return Stage("vectors", CHAPTER, "one vector for the text", sentence, **at(reading, name),
                     rows=(Row("text", first),))  # fmt: skip
    sentence = "One vector is made of all: the mean of the tokens' vectors, with these shares."
    if int((value > 0).sum()) == 1:
        sentence = "One vector is taken for the whole text: that of the token with share 1."
    return Stage("sizes", CHAPTER, "one vector for the text", sentence, **at(reading, name),
                 rows=_each(value, along(reading, name)))  # fmt: skip


def _votes(reading: Reading, name: str, task: Classify, label: int) -> Stage:
    scope = name.rpartition(".")[0]
    votes = reading[name][0, :, label] + reading[f"{scope}.pairs"][0, :, label]  # (length,)
    sentence = (
        "Beside the network, each token (and each pair of neighbours) votes for the labels "
        f"directly. The numbers: its votes for {task.labels[label]!r}."
    )
    return Stage("sizes", CHAPTER, "votes of the tokens", sentence, **at(reading, name),
                 rows=_each(votes, along(reading, name)))  # fmt: skip


def _each(values: Tensor, labels: Sequence[str]) -> tuple[Row, ...]:
    return tuple(
        Row(label, (Cell("", value),)) for label, value in zip(labels, floats(values), strict=True)
    )


def _tagged(reading: Reading, task: Tag, text: str, top: int) -> tuple[list[Stage], str]:
    name = _last(reading)
    words = [text[first:last] for first, last in split_words(text)]
    firsts = task.encode_words(words).firsts
    logits = reading[name].float()  # (1, length, tags)
    counted = torch.zeros(logits.shape[:2], dtype=torch.bool, device=logits.device)
    counted[0, firsts] = True
    tags = task.choose(logits, counted)[0].tolist()
    targets = reading.example.batch.targets[0].tolist()
    probabilities = logits[0].softmax(dim=-1)
    rows = tuple(
        Row(word, _likeliest(probabilities[place], task.tags, top, tags[place], targets[place]),
            remark="" if tags[place] == int(probabilities[place].argmax()) else ILLEGAL)
        for word, place in zip(words, firsts, strict=True)
    )  # fmt: skip
    sentence = "At each word every tag gets a score, and the softmax makes probabilities of them."
    if task.has_spans:
        sentence += " The best row of tags without a broken span is chosen."
    stage = Stage("choices", CHAPTER, "a tag for each word", sentence, **at(reading, name),
                  rows=rows, happened=_doubts(rows, "at"))  # fmt: skip
    said = [f"{word}/{task.tags[tags[place]]}" for word, place in zip(words, firsts, strict=True)]
    return [stage], " ".join(said)


ILLEGAL = "the likeliest tag would break a span"


def _predicted(reading: Reading) -> tuple[list[Stage], str]:
    name = _last(reading)
    outputs = floats(reading[name][0].reshape(-1))
    wanted = reading.example.batch.targets[0].tolist()
    rows = [
        Row(f"y{number}" if len(outputs) > 1 else "y", (Cell("", value, chosen=True),))
        for number, value in enumerate(outputs, start=1)
    ]
    if len(wanted) == len(outputs):
        rows = [
            Row(row.label, (*row.cells, Cell("wanted", goal, wanted=True)))
            for row, goal in zip(rows, wanted, strict=True)
        ]
    sentence = "A weighted sum of the last numbers: the answer."
    stage = Stage("values", CHAPTER, "the outputs", sentence, **at(reading, name),
                  rows=tuple(rows))  # fmt: skip
    return [stage], " ".join(f"{value:.6g}" for value in outputs)
