"""What the demos on sentences teach, as pictures of numbers that were read off the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from translucid.data.records import Labelled
from translucid.data.spans import split_words
from translucid.data.toyland import Sentence
from translucid.demo.report import Section
from translucid.model import Model
from translucid.models.base import EncoderModel
from translucid.models.heads import Tagger
from translucid.see.picture_data import Axis
from translucid.see.pictures import Heat, Lines
from translucid.see.reading import Reading
from translucid.tasks import metrics
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

# ---- translation: attention beside the gold alignment ----


def gold_alignment(model: Model, sentence: Sentence) -> tuple[tuple[int, int], ...]:
    """(source, target) pairs, where tokens are words; of pieces of words nobody knows them."""
    assert isinstance(model.task, Translate)
    sides = ((model.task.source, sentence.source, sentence.english),
             (model.task.target, sentence.target, sentence.german))  # fmt: skip
    whole = all(len(tokenizer.tokens(text)) == len(words) for tokenizer, text, words in sides)
    return tuple(sorted(sentence.alignment)) if whole else ()


def attention_map(reading: Reading, gold: Sequence[tuple[int, int]]) -> Heat | None:
    """What the decoder looked at as it wrote: its last layer, mean over the heads."""
    names = reading.names("*.cross_attention.pattern") or reading.names("*.alignment.pattern")
    if not names:
        return None
    heat = reading.figure(names[-1], head="mean", gold=gold)
    assert isinstance(heat, Heat)
    return replace(heat, title="")


def hits(heat: Heat) -> tuple[int, int]:
    """How many rows with a frame have their largest value in one, and how many there are."""
    rows = sorted({row for row, _ in heat.frames})
    right = [(row, int(np.nanargmax(heat.values[row]))) in heat.frames for row in rows]
    return sum(right), len(rows)


def alignment_section(model: Model, sentences: Sequence[Sentence]) -> Section | None:
    maps = [
        attention_map(model.trace(one.source, one.target), gold_alignment(model, one))
        for one in sentences
    ]
    heats = [heat for heat in maps if heat is not None]
    if not heats:
        return None
    right, count = (sum(part) for part in zip(*map(hits, heats), strict=True))
    text = (
        "Rows: the German tokens, as they are written. Columns: the English tokens. The stronger "
        "the colour, the more a token is looked at. Last layer, mean of its heads."
    )
    if count:
        text += (
            f" Framed: the gold alignment. {right} of {count} aligned tokens look most at a token "
            "that they are aligned with."
        )
    return Section("What it looks at", text, heats)


# ---- tagging: one word with several tags, and where that comes from ----


def _word_places(model: Model, text: str) -> tuple[list[str], list[int]]:
    """The words, and where each one's first token is."""
    assert isinstance(model.task, Tag)
    words = [text[a:b] for a, b in split_words(text)]
    return words, model.task.encode_words(words).firsts


def tag_map(model: Model, text: str, gold: Sequence[str] = ()) -> Heat:
    """The probability of every tag at every word: softmax of the logits at its first token."""
    assert isinstance(model.task, Tag)
    words, places = _word_places(model, text)
    logits = model.trace(text, keep="head.logits")["head.logits"][0, places]  # (words, tags)
    tags = model.task.tags
    order = sorted(range(len(tags)), key=lambda tag: tags[tag].partition("-")[::-1])  # O first
    names = [tags[i] for i in order]
    return Heat(
        "", logits.softmax(dim=-1)[:, order].T.double().numpy(), Axis("", tuple(names)),
        Axis("", tuple(words)), "unit",
        frames=tuple((names.index(tag), word) for word, tag in enumerate(gold)),
    )  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """What each reading direction adds for the chosen tag and against the likeliest other one.

    The head is linear, so the difference of the two logits is an exact sum: a term for each
    direction, and the bias.
    """

    words: list[str]
    chosen: list[str]
    rival: list[str]
    terms: dict[str, list[float]]  # direction or bias -> one value for each word

    def heat(self) -> Heat:
        named = {"forward": "read from the left", "backward": "read from the right"}
        columns = zip(self.words, self.chosen, self.rival, strict=True)
        return Heat(
            "", np.array(list(self.terms.values())),
            Axis("", tuple(named.get(term, term) for term in self.terms)),
            Axis("", tuple(f"{word}: {tag}, not {other}" for word, tag, other in columns)),
            texts=tuple(tuple(f"{value:.1f}" for value in line) for line in self.terms.values()),
        )  # fmt: skip


def evidence(model: Model, text: str) -> Evidence | None:
    """For a recurrent tagger; None for a model that does not read in a direction."""
    network = model.network
    assert isinstance(network, EncoderModel)
    assert isinstance(network.head, Tagger)
    assert isinstance(model.task, Tag)
    recurrent = getattr(network.encoder, "recurrent", None)
    if recurrent is None:
        return None
    words, places = _word_places(model, text)
    trace = model.trace(text, keep=["head.logits", "encoder.recurrent.output"])
    outputs = trace["encoder.recurrent.output"][0, places]  # (words, directions * hidden)
    first, second = trace["head.logits"][0, places].topk(2, dim=-1).indices.unbind(dim=-1)
    linear = network.head.linear
    difference = linear.weight[first] - linear.weight[second]  # (words, directions * hidden)
    terms = (difference * outputs).unflatten(-1, (len(recurrent.directions), -1)).sum(dim=-1)
    tags = model.task.tags
    return Evidence(
        words,
        [tags[i] for i in first.tolist()],
        [tags[i] for i in second.tolist()],
        dict(zip(recurrent.directions, terms.detach().T.tolist(), strict=True))
        | {"bias": (linear.bias[first] - linear.bias[second]).tolist()},
    )


def tag_sections(
    model: Model, sentences: Sequence[Sentence], texts: Sequence[str]
) -> list[Section]:
    """Sentences whose tags are known first, then those that were asked."""
    texts = [text for text in texts if text.strip()]
    maps = [
        *(tag_map(model, one.source, one.entities) for one in sentences),
        *(tag_map(model, text) for text in texts),
    ]
    sure = Section(
        "How sure it is of each tag",
        "Columns: the words. Rows: the tags; B begins a name, I continues it, O is no name. The "
        "stronger the colour, the likelier. Framed: right, where that is known. The same word can "
        "have several tags: compare Jordan (a person) and Jordan (a country).",
        maps,
    )
    asked = [evidence(model, text) for text in texts or [sentences[0].source]]
    heats = [terms.heat() for terms in asked if terms is not None]
    if not heats:
        return [sure]
    text = (
        "The network reads the sentence from the left and from the right. Its logits are sums: a "
        "term from each reading, and the bias. Values above 0 speak for the tag it chose, below 0 "
        "for the next likely one. Where a name could be several things (Jordan sleeps, Jordan lies "
        "in Asia), only the words after it can tell which: its value from the right."
    )
    return [sure, Section("Where it got that from", text, heats)]


# ---- classification: what is confused, and the prediction word by word ----


def confusion(model: Model, records: Sequence[Labelled]) -> Heat:
    """How often a text of one label (row) got another (column)."""
    assert isinstance(model.task, Classify)
    labels = model.task.labels
    predicted = [answer.label for answer in model.classify([record.text for record in records])]
    counts = metrics.confusion(predicted, [record.label for record in records])
    table = [[counts.get((right, label), 0) for label in labels] for right in labels]
    axis = tuple(labels)
    return Heat(
        "", np.array(table, dtype=np.float64), Axis("right", axis), Axis("predicted", axis),
        "positive", texts=tuple(tuple(map(str, line)) for line in table),
    )  # fmt: skip


def word_by_word(model: Model, text: str) -> Lines:
    """The probability of each label after each token, as if the text ended there."""
    assert isinstance(model.task, Classify)
    tokenizer = model.task.tokenizer
    ids = tokenizer.encode(text)
    prefixes = [[tokenizer.bos_id, *ids[:read], tokenizer.eos_id] for read in range(len(ids) + 1)]
    tokens = (text[start:end].strip() for start, end in tokenizer.offsets(text))
    probabilities = np.array(model.task.probabilities(model.network, prefixes))
    series = dict(zip(model.task.labels, probabilities.T, strict=True))
    return Lines("", Axis("", ("(start)", *tokens)), "probability", series)


# ---- language modelling: does the verb agree with its subject? ----

# The verb agrees with the first noun, not with the one beside it.
AGREEMENT = (
    "The key that the neighbor has found",
    "The key that the neighbors have found",
    "The keys that the neighbor has found",
    "The keys that the neighbors have found",
)


def agreement(
    model: Model, texts: Sequence[str] = AGREEMENT, forms: tuple[str, ...] = ("is", "are")
) -> Heat:
    """How likely each form of a verb is after each text."""
    assert isinstance(model.task, Language)
    encode = model.task.tokenizer.encode
    choices = [encode(f" {form}")[-1] for form in forms]
    rows = [
        model.trace(text, keep="head.logits")["head.logits"][0, -1].softmax(dim=-1)[choices]
        for text in texts
    ]
    values = np.array([row.tolist() for row in rows])
    return Heat("", values, Axis("", tuple(f"{text} …" for text in texts)), Axis("", forms), "unit")
