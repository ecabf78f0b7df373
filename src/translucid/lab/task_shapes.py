"""The shapes of tasks: one label for a text, one for each word, a text for a text.

Shapes: ids (texts, longest), 0 where a text has ended.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.data.toyland import Sentence, Toyland
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.fit import fit
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    Verdict,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
)
from translucid.lab.toytext import numbered, padded
from translucid.models import MLPConfig, RecurrentConfig, TransformerConfig, build
from translucid.see.pictures import Bars
from translucid.tasks.metrics import span_f1

BATCH = 32
NOTHING = -100  # a wanted class where nothing is asked


def train_on_rows(
    net: nn.Module, loss: Callable[[Tensor], Tensor], rows: int, steps: int, seed: int
) -> None:
    """Adam on the loss of as many random batches as there are steps."""
    chance = torch.Generator().manual_seed(seed)

    def drawn() -> Tensor:
        return loss(torch.randint(rows, (BATCH,), generator=chance))

    fit(net, drawn, steps=steps, learning_rate=3e-3, clip_norm=1.0)
    net.eval()


def wrong(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=NOTHING)


# ---- C15: a judgment needs the whole sentence ----

LABELS = ("positive", "negative")  # of sentences that judge: those that do not show it
READERS = ("whole sentence", "first half", "bag of words")


def _judgments(seed: int, quick: bool) -> Data:
    """Accuracy on new sentences of Toyland, where words alone do not give the sentiment away."""
    train, test, steps = (400, 200, 60) if quick else (4000, 500, 1200)
    texts = [*_judging(seed, "train", train), *_judging(seed, "test", test)]
    ids, words = numbered([each.english for each in texts])
    labels = torch.tensor([LABELS.index(each.sentiment) for each in texts])
    halves = torch.stack([_first_half(row) for row in ids])
    bags = torch.stack([torch.bincount(row, minlength=words)[1:].float() for row in ids])
    found = {}
    for reader, x in zip(READERS, (ids, halves, bags), strict=True):
        torch.manual_seed(seed)
        net = _bag(words - 1) if reader == "bag of words" else _classifier(words)
        found[reader] = _accuracy(net, x, labels, train, steps, seed)
    return found


def _judging(seed: int, split: str, count: int) -> list[Sentence]:
    """As many sentences that are positive or negative."""
    found = (each for each in Toyland(seed=seed).sentences(split, 10 * count)
             if each.sentiment in LABELS)  # fmt: skip
    return list(islice(found, count))


def _first_half(row: Tensor) -> Tensor:
    kept = row.clone()
    kept[(int((row != 0).sum()) + 1) // 2 :] = 0
    return kept


def _classifier(words: int) -> nn.Module:
    return build(RecurrentConfig(
        shape="encoder", head="classify", outputs=len(LABELS), vocab=words, d_model=32, hidden=32,
        cell="lstm", bidirectional=True, dropout=0.0, pooling="attention",
    ))  # fmt: skip


def _bag(words: int) -> nn.Module:
    return build(MLPConfig(inputs=words, hidden=(32,), outputs=len(LABELS), activation="relu"))


def _accuracy(
    net: nn.Module, x: Tensor, labels: Tensor, train: int, steps: int, seed: int
) -> float:
    def called(rows: Tensor) -> Tensor:
        out: Tensor = net(x[rows], x[rows] != 0) if x.dtype == torch.long else net(x[rows])
        return out

    train_on_rows(net, lambda rows: wrong(called(rows), labels[rows]), train, steps, seed)
    new = torch.arange(train, len(x))
    with torch.no_grad():
        return float((called(new).argmax(-1) == labels[new]).float().mean())


def _judge_judgments(data: Sequence[Data]) -> Finding:
    whole = column(data, READERS[0])
    gains = {other: difference_of(whole, column(data, other)) for other in READERS[1:]}
    sides = {f"better than the {other} by more than 0.1": clearly(gain.against(0.1), "above")
             for other, gain in gains.items()}  # fmt: skip
    said = " and ".join(f"the {other} by {gain}" for other, gain in gains.items())
    return decide(sides, f"the whole sentence is right in {mean_of(whole)}, ahead of {said}")


def _draw_judgments(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, reader)) for reader in READERS])
    return Bars("Sentiment from the whole sentence, and from less", "share right", READERS, values,
                note="new sentences of Toyland, half of them positive")  # fmt: skip


whole_sentence = Experiment(
    name="whole-sentence",
    title="Sentiment from the whole sentence, its first half, and its words without order",
    varies="what is read: the whole sentence, its first half, the counts of its words",
    measures="accuracy on new sentences",
    claims={
        "C15": Rule(
            "Supported if reading the whole sentence is right more often than reading half of it "
            "and than a bag of words, each by clearly more than 0.1; refuted if one of the two "
            "gains is clearly less.",
            _judge_judgments,
        )
    },
    run=_judgments,
    draw=_draw_judgments,
    seconds=60.0,
    references=("https://aclanthology.org/D13-1170", "https://aclanthology.org/P12-2018"),
)

# ---- C16: a tag for each word ----

TAGGERS = ("both directions", "from left to right")


def _tags(seed: int, quick: bool) -> Data:
    """F1 of the spans of names on new sentences; some names are told apart only by what follows."""
    train, test, steps = (400, 150, 80) if quick else (4000, 500, 600)
    world = Toyland(seed=seed)
    texts = [each for split, count in (("train", train), ("test", test))
             for each in world.sentences(split, count)]  # fmt: skip
    ids, words = numbered([each.english for each in texts])
    names = sorted({tag for each in texts for tag in each.entities})
    tags = padded([[names.index(tag) for tag in each.entities] for each in texts], NOTHING)
    found: dict[str, float] = {"aligned": float(((tags != NOTHING) == (ids != 0)).all())}
    for tagger in TAGGERS:
        torch.manual_seed(seed)
        net = build(RecurrentConfig(
            shape="encoder", head="tag", outputs=len(names), vocab=words, d_model=32,
            hidden=32, cell="gru", bidirectional=tagger == TAGGERS[0], dropout=0.0,
        ))  # fmt: skip

        def loss(rows: Tensor, net: nn.Module = net) -> Tensor:
            return wrong(net(ids[rows], ids[rows] != 0), tags[rows])

        train_on_rows(net, loss, train, steps, seed)
        with torch.no_grad():
            best = net(ids[train:], ids[train:] != 0).argmax(-1)
        guessed = [[names[tag] for tag in row[: len(each.entities)]]
                   for row, each in zip(best.tolist(), texts[train:], strict=True)]  # fmt: skip
        found[tagger] = span_f1(guessed, [list(each.entities) for each in texts[train:]])
    return found


def _judge_tags(data: Sequence[Data]) -> Finding:
    both, left = (mean_of(column(data, tagger)) for tagger in TAGGERS)
    gap = difference_of(*(column(data, tagger) for tagger in TAGGERS))
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


tag_each_word = Experiment(
    name="tag-each-word",
    title="Names by one tag for each word, reading one side or both",
    varies="whether the tagger reads from left to right, or in both directions",
    measures="F1 of the spans of names on new sentences",
    claims={
        "C16": Rule(
            "Supported if every sentence has as many tags as words and a tagger that reads both "
            "sides clearly reaches an F1 above 0.9; refuted if it is clearly below 0.8.",
            _judge_tags,
        )
    },
    run=_tags,
    draw=_draw_tags,
    seconds=40.0,
    references=("https://arxiv.org/abs/1508.01991", "https://aclanthology.org/N16-1030"),
)

# ---- C17: a text for a text ----

# A made-up language: word w becomes w, but every third word has a particle too, which goes to the
# end of the sentence, the last word's particle first. So lengths differ, and words move.
WORDS, LONGEST = 9, 5
BEGIN, END = 1, 2
SYSTEMS = ("a word for each word", "encoder and decoder", "one decoder for both")


def translated(source: Sequence[int]) -> list[int]:
    """Words are 3 to 2 + WORDS; so are their translations, and particles come after those."""
    particles = [3 + WORDS + (word - 3) // 3 for word in source if word % 3 == 0]
    return [*source, *reversed(particles)]


def _pairs(count: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(2, LONGEST + 1, (count,), generator=chance).tolist()
    words = torch.randint(3, 3 + WORDS, (count, LONGEST), generator=chance).tolist()
    sources = [row[:length] for row, length in zip(words, lengths, strict=True)]
    targets = [[*translated(source), END] for source in sources]
    return padded(sources), padded(targets)


def _translations(seed: int, quick: bool) -> Data:
    """The share of new sentences that are translated without a fault. A text is written without a
    fault if every word is the likeliest after the right ones, so one pass tells."""
    train, test, steps = (500, 100, 80) if quick else (3000, 400, 1000)
    chance = torch.Generator().manual_seed(seed)
    source, target = _pairs(train + test, chance)
    vocab = 3 + WORDS + WORDS // 3
    found: dict[str, float] = {}
    for system in SYSTEMS:
        torch.manual_seed(seed)
        net, given, wanted = _system(system, source, target, vocab)

        def called(rows: Tensor, net: nn.Module = net, given: list[Tensor] = given) -> Tensor:
            out: Tensor = net(*(each[rows] for each in given))
            return out

        def loss(
            rows: Tensor, called: Callable[[Tensor], Tensor] = called, wanted: Tensor = wanted
        ) -> Tensor:
            return wrong(called(rows), wanted[rows])

        train_on_rows(net, loss, train, steps, seed)
        new = torch.arange(train, train + test)
        with torch.no_grad():
            right = (called(new).argmax(-1) == wanted[new]) | (wanted[new] == NOTHING)
        whole = right.all(-1)
        if system == SYSTEMS[0]:  # what does not fit into as many words as were given is lost
            whole &= (target[new] > END).sum(-1) <= (source[new] != 0).sum(-1)
        found[system] = float(whole.float().mean())
    equal = (target[train:] > END).sum(-1) == (source[train:] != 0).sum(-1)
    return found | {"equal lengths": float(equal.float().mean())}


def _system(
    system: str, source: Tensor, target: Tensor, vocab: int
) -> tuple[nn.Module, list[Tensor], Tensor]:
    """A net, what it is called with, and what it should answer."""
    sizes: dict[str, Any] = {"vocab": vocab, "d_model": 48, "heads": 4, "layers": 2, "dropout": 0.0}
    asked = torch.where(target == 0, NOTHING, target)
    before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], dim=1)
    if system == SYSTEMS[0]:
        places = asked[:, : source.shape[1]].masked_fill(source == 0, NOTHING)
        net = build(TransformerConfig(shape="encoder", head="tag", outputs=vocab, **sizes))
        return net, [source, source != 0], places
    if system == SYSTEMS[1]:
        net = build(TransformerConfig(shape="encoder-decoder", head="language", **sizes))
        return net, [source, before, source != 0], asked
    joined = torch.cat([source, before], dim=1)
    silent = torch.full_like(source, NOTHING)
    net = build(TransformerConfig(shape="decoder", head="language", **sizes))
    return net, [joined, joined != 0], torch.cat([silent, asked], dim=1)


def _judge_translations(data: Sequence[Data]) -> Finding:
    aligned, two, one = (mean_of(column(data, system)) for system in SYSTEMS)
    fails, solves, needed = (
        clearly(aligned.against(0.5), "below"),
        clearly(two.against(0.9), "above"),
        clearly(one.against(0.9), "below"),
    )
    said = (
        f"new sentences without a fault: {aligned} with a word for each word, {two} with encoder "
        f"and decoder, {one} with one decoder that reads and writes"
    )
    verdict: Verdict = "undecided"
    if False in (fails, solves):
        verdict = "refuted"
    elif fails and solves and needed is not None:
        verdict = "supported" if needed else "depends"
    if verdict == "depends":
        said += "; it depends on what is meant by separate: the lengths forbid a word for each "
        said += "word, but one decoder that reads the source first does as well"
    return Finding(verdict, said)


def _draw_translations(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, system)) for system in SYSTEMS])
    equal = np.mean(column(data, "equal lengths"))
    return Bars("Translations whose length differs from the source", "sentences without a fault",
                SYSTEMS, values, note=f"{equal:.0%} of the pairs have equal lengths")  # fmt: skip


unequal_lengths = Experiment(
    name="unequal-lengths",
    title="Translation when lengths differ: a word for each word, two nets, one net",
    varies="a tagger that writes a word for each word, an encoder with a decoder, one decoder",
    measures="the share of new sentences that are translated without a fault",
    claims={
        "C17": Rule(
            "Supported if a word for each word is clearly below 0.5, an encoder with a decoder "
            "clearly above 0.9, and one decoder for both clearly below 0.9; depends (on what is "
            "meant by separate) if the first two hold and one decoder is clearly above 0.9; "
            "refuted if one of the first two clearly fails.",
            _judge_translations,
        )
    },
    run=_translations,
    draw=_draw_translations,
    seconds=60.0,
    references=("https://arxiv.org/abs/1406.1078", "https://arxiv.org/abs/1409.3215"),
)
