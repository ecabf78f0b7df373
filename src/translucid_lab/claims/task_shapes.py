"""One answer for a sentence (C15), a tag for each word (C16), a text for a text (C17).

Shapes: ids (texts, longest), padded with 0.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.data import Sentence, Toyland
from translucid.models import MLPConfig, RecurrentConfig, TransformerConfig, build
from translucid.see import Bars
from translucid.tasks import IGNORE, span_f1
from translucid_lab import Data, Experiment, Finding, Verdict, fit
from translucid_lab.claims.toyland_text import numbered, padded
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import column, decide, has_learned, not_tested

BATCH = 32


def train_on_rows(
    net: nn.Module, loss: Callable[[Tensor], Tensor], rows: int, steps: int, seed: int
) -> None:
    """Train with Adam on random batches."""
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> Tensor:
        return loss(torch.randint(rows, (BATCH,), generator=generator))

    fit(net, drawn, steps=steps, learning_rate=3e-3, clip_norm=1.0)
    net.eval()


def token_loss(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=IGNORE)


LABELS = ("positive", "negative")  # without neutral sentences
READERS = ("whole sentence", "first half", "second half", "bag of words")
HALVES = READERS[1:3]


def _judgments(seed: int, quick: bool) -> Data:
    """Accuracy on new sentences of Toyland, whose words alone do not reveal the sentiment."""
    train, test, steps = (400, 200, 60) if quick else (4000, 500, 1200)
    texts = [*_judging(seed, "train", train), *_judging(seed, "test", test)]
    ids, words = numbered([text.english for text in texts])
    labels = torch.tensor([LABELS.index(text.sentiment) for text in texts])
    return accuracies(ids, words, labels, train, steps, seed)


def accuracies(
    ids: Tensor, words: int, labels: Tensor, train: int, steps: int, seed: int
) -> dict[str, float]:
    """Train four classifiers on the first `train` texts: one reads the whole text, two its first or
    second half, one a bag of words. Return the accuracy of each on the other texts."""
    first = torch.stack([first_half(row) for row in ids])
    second = torch.stack([second_half(row) for row in ids])
    bags = torch.stack([torch.bincount(row, minlength=words)[1:].float() for row in ids])
    measured = {}
    for reader, x in zip(READERS, (ids, first, second, bags), strict=True):
        torch.manual_seed(seed)
        net = bag(words - 1) if reader == "bag of words" else classifier(words)
        measured[reader] = accuracy(net, x, labels, train, steps, seed)
    return measured


def _judging(seed: int, split: str, count: int) -> list[Sentence]:
    """Draw `count` positive or negative sentences of Toyland."""
    judging = (value for value in Toyland(seed=seed).sentences(split, 10 * count)
             if value.sentiment in LABELS)  # fmt: skip
    return list(islice(judging, count))


def first_half(row: Tensor) -> Tensor:
    kept = row.clone()
    kept[(int((row != 0).sum()) + 1) // 2 :] = 0
    return kept


def second_half(row: Tensor) -> Tensor:
    """The words after the first half, moved to the beginning of the row."""
    length = int((row != 0).sum())
    begin = length // 2
    return F.pad(row[begin:length], (0, len(row) - length + begin))


def classifier(words: int) -> nn.Module:
    return build(RecurrentConfig(
        shape="encoder", head="classify", outputs=len(LABELS), vocab=words, d_model=32, hidden=32,
        cell="lstm", bidirectional=True, dropout=0.0, pooling="attention",
    ))  # fmt: skip


def bag(words: int) -> nn.Module:
    return build(MLPConfig(inputs=words, hidden=(32,), outputs=len(LABELS), activation="relu"))


def accuracy(net: nn.Module, x: Tensor, labels: Tensor, train: int, steps: int, seed: int) -> float:
    def called(rows: Tensor) -> Tensor:
        out: Tensor = net(x[rows], x[rows] != 0) if x.dtype == torch.long else net(x[rows])
        return out

    train_on_rows(net, lambda rows: token_loss(called(rows), labels[rows]), train, steps, seed)
    new = torch.arange(train, len(x))
    with torch.no_grad():
        return float((called(new).argmax(-1) == labels[new]).float().mean())


def needs_whole(data: Sequence[Data], margin: float, learned: float) -> Finding:
    """Whether a reader of the whole sentence is clearly better than readers of either half."""
    whole = column(data, READERS[0])
    lead = {other: difference_of(whole, column(data, other), "rank") for other in READERS[1:]}
    return decide(
        {f"better than the {half} by more than {margin}": clearly(
            lead[half].against(margin), "above") for half in HALVES},
        f"the whole sentence is right in {median_of(whole)}, ahead of "
        + ", ".join(f"the {other} by {gain}" for other, gain in lead.items()),
        learned={"judgments of whole sentences": has_learned(whole, learned)},
    )  # fmt: skip


def _judge_judgments(data: Sequence[Data]) -> Finding:
    return needs_whole(data, 0.1, 0.8)


def _draw_judgments(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, reader)) for reader in READERS])
    return Bars("Sentiment from the whole sentence, and from less", "accuracy", READERS, values,
                note="new sentences of Toyland, half of them positive")  # fmt: skip


whole_sentence = Experiment.described(
    "whole-sentence", _judgments, _draw_judgments, {"C15": _judge_judgments}
)


TAGGERS = ("both directions", "from left to right")


def _tags(seed: int, quick: bool) -> Data:
    """F1 of the name spans in new sentences, for each tagger. Some words can be recognised as names
    only by the words after them."""
    train, test, steps = (400, 150, 80) if quick else (4000, 500, 600)
    world = Toyland(seed=seed)
    texts = [value for split, count in (("train", train), ("test", test))
             for value in world.sentences(split, count)]  # fmt: skip
    ids, words = numbered([text.english for text in texts])
    names = sorted({tag for text in texts for tag in text.entities})
    tags = padded([[names.index(tag) for tag in text.entities] for text in texts], IGNORE)
    measured: dict[str, float] = {"aligned": float(((tags != IGNORE) == (ids != 0)).all())}
    for tagger in TAGGERS:
        torch.manual_seed(seed)
        net = build(RecurrentConfig(
            shape="encoder", head="tag", outputs=len(names), vocab=words, d_model=32,
            hidden=32, cell="gru", bidirectional=tagger == TAGGERS[0], dropout=0.0,
        ))  # fmt: skip

        def loss(rows: Tensor, net: nn.Module = net) -> Tensor:
            return token_loss(net(ids[rows], ids[rows] != 0), tags[rows])

        train_on_rows(net, loss, train, steps, seed)
        with torch.no_grad():
            best = net(ids[train:], ids[train:] != 0).argmax(-1)
        guessed = [[names[tag] for tag in row[: len(text.entities)]]
                   for row, text in zip(best.tolist(), texts[train:], strict=True)]  # fmt: skip
        measured[tagger] = span_f1(guessed, [list(text.entities) for text in texts[train:]])
    return measured


def _judge_tags(data: Sequence[Data]) -> Finding:
    both, left = (median_of(column(data, tagger)) for tagger in TAGGERS)
    gap = difference_of(column(data, TAGGERS[0]), column(data, TAGGERS[1]), "rank")
    enough = (
        True if both.against(0.9) == "above" else False if both.against(0.8) == "below" else None
    )
    return decide(
        {
            "there are as many tags as words": min(column(data, "aligned")) == 1.0,
            "a tag for each word finds the names (F1 above 0.9)": enough,
        },
        f"F1 of names {both} when both sides of a word are read, {left} from left to right: "
        f"what a reader of the left side alone cannot see costs {gap}",
    )


def _draw_tags(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, tagger)) for tagger in TAGGERS])
    return Bars("A tag for each word, by what the tagger reads", "F1 of names", TAGGERS, values,
                note="some names are told apart only by the words after them")  # fmt: skip


tag_each_word = Experiment.described("tag-each-word", _tags, _draw_tags, {"C16": _judge_tags})


# A made-up language: words stay the same, but every third one adds a particle at the end of the
# sentence, in reverse order. So lengths differ, and words move.
WORDS, MAX_LENGTH = 9, 5
BEGIN, END = 1, 2
SYSTEMS = ("a word for each word", "encoder and decoder", "one decoder for both")


def translated(source: Sequence[int]) -> list[int]:
    """The translation of a sentence as token ids: its words keep their ids, 3 to 2 + WORDS; the ids
    of particles are above these."""
    particles = [3 + WORDS + (word - 3) // 3 for word in source if word % 3 == 0]
    return [*source, *reversed(particles)]


def _pairs(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(2, MAX_LENGTH + 1, (count,), generator=generator).tolist()
    words = torch.randint(3, 3 + WORDS, (count, MAX_LENGTH), generator=generator).tolist()
    sources = [row[:length] for row, length in zip(words, lengths, strict=True)]
    targets = [[*translated(source), END] for source in sources]
    return padded(sources), padded(targets)


def _apart(train: int, test: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Training pairs, then distinct test pairs that are not among them."""
    source, target = _pairs(4 * (train + test), generator)
    seen = {tuple(row) for row in source[:train].tolist()}
    new: dict[tuple[int, ...], int] = {}
    for place, row in enumerate(source[train:].tolist(), start=train):
        if tuple(row) not in seen:
            new.setdefault(tuple(row), place)
    chosen = torch.tensor([*range(train), *list(new.values())[:test]])
    return source[chosen], target[chosen]


def _translations(seed: int, quick: bool) -> Data:
    """The fraction of new sentences translated without error. Greedy decoding makes no error if
    every word is the likeliest with teacher forcing, so one pass is enough."""
    train, test, steps = (500, 100, 80) if quick else (3000, 400, 1000)
    generator = torch.Generator().manual_seed(seed)
    source, target = _apart(train, test, generator)
    vocab = 3 + WORDS + WORDS // 3
    measured: dict[str, float] = {}
    for system in SYSTEMS:
        torch.manual_seed(seed)
        net, sides, wanted = _system(system, source, target, vocab)

        def called(rows: Tensor, net: nn.Module = net, sides: list[Tensor] = sides) -> Tensor:
            out: Tensor = net(*(value[rows] for value in sides))
            return out

        def loss(
            rows: Tensor, called: Callable[[Tensor], Tensor] = called, wanted: Tensor = wanted
        ) -> Tensor:
            return token_loss(called(rows), wanted[rows])

        train_on_rows(net, loss, train, steps, seed)
        new = torch.arange(train, train + test)
        with torch.no_grad():
            right = (called(new).argmax(-1) == wanted[new]) | (wanted[new] == IGNORE)
        whole = right.all(-1)
        if system == SYSTEMS[0]:  # a longer translation does not fit
            whole &= (target[new] > END).sum(-1) <= (source[new] != 0).sum(-1)
        measured[system] = float(whole.float().mean())
    equal = (target[train:] > END).sum(-1) == (source[train:] != 0).sum(-1)
    return measured | {"equal lengths": float(equal.float().mean())}


def _system(
    system: str, source: Tensor, target: Tensor, vocab: int
) -> tuple[nn.Module, list[Tensor], Tensor]:
    """A network, its inputs and its targets."""
    sizes: dict[str, Any] = {"vocab": vocab, "d_model": 48, "heads": 4, "layers": 2, "dropout": 0.0}
    asked = torch.where(target == 0, IGNORE, target)
    before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], dim=1)
    if system == SYSTEMS[0]:
        places = asked[:, : source.shape[1]].masked_fill(source == 0, IGNORE)
        net = build(TransformerConfig(shape="encoder", head="tag", outputs=vocab, **sizes))
        return net, [source, source != 0], places
    if system == SYSTEMS[1]:
        net = build(TransformerConfig(shape="encoder-decoder", head="language", **sizes))
        return net, [source, before, source != 0], asked
    joined = torch.cat([source, before], dim=1)
    silent = torch.full_like(source, IGNORE)
    net = build(TransformerConfig(shape="decoder", head="language", **sizes))
    return net, [joined, joined != 0], torch.cat([silent, asked], dim=1)


def _judge_translations(data: Sequence[Data]) -> Finding:
    aligned, two, one = (median_of(column(data, system)) for system in SYSTEMS)
    fails, needed = clearly(aligned.against(0.5), "below"), clearly(one.against(0.9), "below")
    summary = (
        f"new sentences without a fault: {aligned} with a word for each word, {two} with encoder "
        f"and decoder, {one} with one decoder that reads and writes"
    )
    if not has_learned(column(data, SYSTEMS[1]), 0.9):
        return not_tested(summary, ["an encoder with a decoder that translates"])
    verdict: Verdict = "undecided"
    if fails is False:
        verdict = "refuted"
    elif fails and needed is not None:
        verdict = "supported" if needed else "depends"
    if verdict == "depends":
        summary += "; it depends on what is meant by separate: the lengths forbid a word for each "
        summary += "word, but one decoder that reads the source first does as well"
    return Finding(verdict, summary)


def _draw_translations(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, system)) for system in SYSTEMS])
    equal = np.mean(column(data, "equal lengths"))
    return Bars("Translations whose length differs from the source", "sentences without a fault",
                SYSTEMS, values, note=f"{equal:.0%} of the pairs have equal lengths")  # fmt: skip


unequal_lengths = Experiment.described(
    "unequal-lengths", _translations, _draw_translations, {"C17": _judge_translations}
)
