"""Tagging: one tag for each word, predicted at the word's first subword.

Models with characters also read the characters of the word that each token belongs to. With a
tokenizer of kind `space`, each word is one position, whether it is in the vocabulary or not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import Any, Self

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.data.batching import pad, pad_characters, spell
from translucid.data.readers.loading import Loading
from translucid.data.records import Tagged
from translucid.data.spans import Span, first_subwords, scheme_of, split_words, tag_spans
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks import metrics
from translucid.tasks.base import Score, Traits, toy_sentences
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.choices import Tags
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.findings import Finding
from translucid.tasks.in_batches import in_batches
from translucid.tasks.long_texts import text_limit
from translucid.tasks.loss import cross_entropy
from translucid.tasks.options import DataConfig, Resources, SpanDecoding
from translucid.tasks.registry import task
from translucid.tasks.score import Baseline, one_answer
from translucid.tasks.significance import Sums, of_lines, ratio
from translucid.tasks.span_decoder import best_tags, broken_spans, tag_transitions
from translucid.tasks.tag_windows import TagItem, beginning, sentences, windows
from translucid.tasks.text_task import TextTask, linear_baseline
from translucid.tasks.words import Words, readable

LENIENT = "span_f1: an I- tag that continues no span begins one, as in conlleval"


@task
class Tag(TextTask[Tagged, TagItem]):
    """Tagging, scored by span F1 if the tags mark spans, and by accuracy over all words."""

    name = "tag"
    around = (None, None)
    metric = "span_f1"
    higher_is_better = True
    shape, head = "encoder", "tag"
    label_noun = "tag"
    models = ("transformer", "recurrent", "linear")
    long = "split"
    traits = Traits(
        command="tag",
        row_columns=("words", "tags"),
        asks_about=("words", "text"),
        baseline=linear_baseline("space"),
        data_keys=("words_column", "tags_column", "max_length", "long"),
        decoding_keys=("spans",),
        task_keys=("label_smoothing",),
        empty_stays_empty=True,
    )

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Tagged]:
        from translucid.data.readers import read  # most uses of a model read no files

        return read.read_tagged(
            files[0], words=data.words_column, tags=data.tags_column, rule=data.rule,
            loading=loading,
        )  # fmt: skip

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Tagged]:
        for line, made in toy_sentences(split, count):
            yield Tagged(made.english, made.entities, line)

    @classmethod
    def check_data(cls, parts: Mapping[str, Sequence[Tagged]]) -> list[Finding]:
        tags = {tag[:2] for records in parts.values() for r in records for tag in r.tags}
        return [broken_spans(parts)] if tags & {"B-", "I-"} else []  # parts of speech: no spans

    @classmethod
    def make(cls, resources: Resources) -> Self:
        return cls(
            resources.tokenizer, resources.labels, smoothing=resources.smoothing,
            characters=resources.characters, spans=resources.decoding.spans,
            max_length=resources.max_length,
        )  # fmt: skip

    @property
    def label_names(self) -> Sequence[str]:
        return self.tags

    def expected_targets(self, records: Sequence[Tagged]) -> tuple[Tensor, str]:
        coded = [self._coded(record.words) for record in records]
        wanted = torch.full((len(records), max(len(ids) for ids, _ in coded)), IGNORE)
        for row, (record, (_, word_of)) in enumerate(zip(records, coded, strict=True)):
            for place, tag in zip(first_subwords(word_of), record.tags, strict=True):
                wanted[row, place] = self.tags.index(tag)
        return wanted, "the first piece of its word"

    def read_line(self, line: str, where: str, network: nn.Module) -> TagItem:
        return self.encode_words(_words(line))

    def predict_lines(self, model: nn.Module, lines: Sequence[str]) -> list[list[Span]]:
        """The labelled spans of each line, with character offsets."""
        tags = super().predict_lines(model, lines)
        places = [split_words(line) for line in lines]
        return [tag_spans(*tagged) for tagged in zip(lines, places, tags, strict=True)]

    def unknown_in(self, question: Any) -> list[str]:
        words = _words(question)
        pairs = zip(*self.tokenizer.encode_words(words), strict=True)
        unk_id = self.tokenizer.unk_id
        return [words[place] for i, place in pairs if i == unk_id and place is not None]

    def predict_columns(
        self, model: nn.Module, questions: Sequence[Any], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The spans of a text, or one tag per word of a list, as table columns; with
        `probabilities`, also the probability of each tag."""
        items = [self.encode_words(_words(question)) for question in questions]
        answers = self.predict_with_probabilities(model, items)
        columns = []
        for question, (tags, sure) in zip(questions, answers, strict=True):
            if isinstance(question, str):
                spans = tag_spans(question, split_words(question), tags)
                new: dict[str, Any] = {"predicted_spans": self.answer_json("", spans)["spans"]}
            else:
                new = {"predicted_tags": tags}
            columns.append(new | ({"probabilities": sure} if probabilities else {}))
        return columns

    def answer_text(self, answer: list[Span]) -> str:
        return "\t".join(f"{span.label}: {span.text}" for span in answer)

    def answer_json(self, line: str, answer: list[Span]) -> dict[str, Any]:
        names = ("start", "end", "label", "text")
        return {"text": line, "spans": [{n: getattr(span, n) for n in names} for span in answer]}

    def followed(self, model: nn.Module, text: str, target: str | None) -> list[list[str]]:
        words = text.split()
        (tags,) = self.predict(model, [self.encode_words(words)])
        return [[word, tag] for word, tag in zip(words, tags, strict=True)]

    def __init__(
        self,
        tokenizer: Tokenizer,
        tags: Sequence[str],
        *,
        smoothing: float = 0.0,
        characters: bool = False,
        spans: SpanDecoding = "legal",
        max_length: int | None = None,
    ) -> None:
        """max_length: tokens per window of a long sentence, if below the model's limit."""
        super().__init__(tokenizer)
        self.tags, self.smoothing = list(tags), smoothing
        self.characters, self.max_length = characters, max_length
        self._number = {tag: i for i, tag in enumerate(self.tags)}
        self.spans = spans
        self.has_spans = any(tag.startswith("B-") for tag in self.tags)
        # Without a constraint, an I- may begin a span, even if no tag begins with B-.
        self.span_mode: metrics.SpanMode = "strict" if spans == "legal" else "lenient"
        if spans != "legal":
            self.has_spans |= scheme_of(self.tags) is not None
        constrained = self.has_spans and spans != "free"
        self._transitions = (
            tag_transitions(self.tags, iob1=spans == "iob1") if constrained else None
        )

    def encode(self, record: Tagged) -> TagItem:
        item = self.encode_words(record.words, record.line)
        return _with_tags(item, [self._number[tag] for tag in record.tags])

    def encode_words(self, words: Sequence[str], line: int = 0) -> TagItem:
        ids, word_of = self._coded(words)
        characters: tuple[bytes, ...] = ()
        if self.characters:
            spelt = [spell(word) for word in words]
            characters = tuple(b"" if word is None else spelt[word] for word in word_of)
        return TagItem(ids, [IGNORE] * len(ids), first_subwords(word_of), line, characters)

    def _coded(self, words: Sequence[str]) -> tuple[list[int], list[int | None]]:
        ids, word_of = self.tokenizer.encode_words(words)
        frame = self.frame
        return frame(ids), [*[None] * len(frame.prefix), *word_of, *[None] * len(frame.suffix)]

    def targets(self, item: TagItem) -> int:
        return sum(tag != IGNORE for tag in item.tags)

    def count_examples(self, items: Sequence[TagItem]) -> int:
        return sum(not item.continues for item in items)

    def shorten(self, item: TagItem, max_length: int) -> TagItem:
        return beginning(item, self.frame, max_length)

    def split(self, item: TagItem, max_length: int) -> list[TagItem]:
        return windows(item, self.frame, max_length)

    def collate(self, items: Sequence[TagItem]) -> Batch:
        inputs = self.padded([item.ids for item in items])
        targets, _ = pad([item.tags for item in items], IGNORE)
        lines = tuple(item.line for item in items)
        if self.characters:
            inputs["characters"] = pad_characters([item.characters for item in items])
        return Batch(inputs, targets, sum(map(self.targets, items)), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(model(**batch.inputs), batch.targets, smoothing=self.smoothing)

    def predict(self, model: nn.Module, items: Sequence[TagItem]) -> list[list[str]]:
        """One tag for each word of each item."""
        return [tags for tags, _ in self.predict_with_probabilities(model, items)]

    def predict_with_probabilities(
        self, model: nn.Module, items: Sequence[TagItem]
    ) -> list[tuple[list[str], list[float]]]:
        """The tag of each word and its probability. Long texts are read in windows, as in
        evaluation; texts without words are not read."""
        limit = text_limit(model, self.max_length)
        asked: list[TagItem] = []
        for item in items:
            if item.firsts:
                whole = _with_tags(item, [0] * len(item.firsts))  # marks the words to be tagged
                fits = limit is None or len(item.ids) <= limit
                asked += [whole] if fits else self.split(whole, limit or 0)
        rows = iter(self._read(model, asked))
        empty = _TagReading([], [], 0.0)
        answers = [next(rows) if item.firsts else empty for item in items]
        return [([self.tags[tag] for tag in row.tags], row.probabilities) for row in answers]

    def _read(self, model: nn.Module, items: Sequence[TagItem]) -> "list[_TagReading]":
        """The predicted tags of each sentence. Windows are joined before tags are chosen."""

        def act(batch: Batch) -> list[_TagReading]:
            scores = model(**batch.inputs).float()  # (batch, length, tags)
            words = batch.targets != IGNORE
            tags = self.choose(scores, words)
            sure = scores.softmax(dim=-1).gather(-1, tags[..., None])[..., 0]
            losses = self.outputs.losses(scores, batch.targets).view(tags.shape).sum(dim=1)
            rows = (tags.tolist(), sure.tolist(), words.tolist(), losses.tolist())
            return [
                _TagReading([*compress(row, there)], [*compress(p, there)], loss)
                for row, p, there, loss in zip(*rows, strict=True)
            ]

        def act_on_windows(batch: Batch) -> list[tuple[Tensor, float]]:
            scores = model(**batch.inputs).float()
            words = batch.targets != IGNORE
            losses = self.outputs.losses(scores, batch.targets).view(words.shape).sum(dim=1)
            rows = zip(scores, losses, words, strict=True)
            return [(row[there], float(loss)) for row, loss, there in rows]

        whole = iter(in_batches(model, [i for i in items if i.window is None], self, act))
        parts = iter(in_batches(model, [i for i in items if i.window], self, act_on_windows))
        return [
            next(whole) if one[0].window is None else self._joined([*islice(parts, len(one))])
            for one in sentences(items)
        ]

    def _joined(self, parts: Sequence[tuple[Tensor, float]]) -> "_TagReading":
        """The predicted tags of a sentence from the scores of its windows, (words, tags) each."""
        scores = torch.cat([part for part, _ in parts])[None]
        tags = self.choose(scores, torch.ones_like(scores[..., 0], dtype=torch.bool))
        sure = scores.softmax(dim=-1).gather(-1, tags[..., None])[..., 0]
        return _TagReading(tags[0].tolist(), sure[0].tolist(), sum(loss for _, loss in parts))

    def choose(self, scores: Tensor, words: Tensor) -> Tensor:
        """The index of the tag at each position: from the most probable sequence without broken
        spans, or for each word independently.

        scores: (batch, length, tags); words: (batch, length), True at first subwords."""
        if self._transitions is None:
            return scores.argmax(dim=-1)
        return best_tags(scores.float(), words, self._transitions)

    def evaluate(self, model: nn.Module, items: Sequence[TagItem]) -> Score:
        rows = self._read(model, items)
        predicted = [[self.tags[tag] for tag in row.tags] for row in rows]
        gold, losses = self._gold(items), [row.loss for row in rows]
        lines = [item.line for item in items if not item.continues]
        score = self._score(predicted, gold)
        loss = sum(losses) / max(sum(map(len, gold)), 1)
        return replace(
            score, numbers=score.numbers | {"loss": loss},
            warnings=one_answer(_flat(predicted), _flat(gold), "word"),
            predictions=[" ".join(tags) for tags in predicted],
            sums=lambda: self._sums(predicted, gold, losses, lines),
        )  # fmt: skip

    def _sums(
        self,
        predicted: Sequence[Sequence[str]],
        gold: Sequence[Sequence[str]],
        losses: Sequence[float],
        lines: Sequence[int],
    ) -> dict[str, Sums]:
        hits = [
            (float(sum(p == g for p, g in zip(one, other, strict=True))), float(len(other)))
            for one, other in zip(predicted, gold, strict=True)
        ]
        spans = hits
        if self.has_spans:
            pairs = zip(predicted, gold, strict=True)
            counts = [metrics.span_counts(*pair, self.span_mode) for pair in pairs]
            spans = [(2.0 * hit, float(made + wanted)) for hit, made, wanted in counts]
        nats = [(loss, float(len(tags))) for loss, tags in zip(losses, gold, strict=True)]
        return {
            "span_f1": of_lines(lines, spans, ratio),
            "accuracy": of_lines(lines, hits, ratio),
            "loss": of_lines(lines, nats, ratio),
        }

    def _gold(self, items: Sequence[TagItem]) -> list[list[str]]:
        """The correct tags of each sentence."""
        return [
            [self.tags[item.tags[place]] for item in sentence for place in item.places]
            for sentence in sentences(items)
        ]

    def baseline(self, train: Sequence[TagItem], held_out: Sequence[TagItem]) -> Baseline:
        counts: defaultdict[Any, Counter[int]] = defaultdict(Counter)
        for item in train:
            for place, word in _words_in(item):
                counts[word][item.tags[place]] += 1
        every = sum(counts.values(), Counter[int]())
        usual = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
        majority = every.most_common(1)[0][0]
        predicted = [
            [
                self.tags[usual.get(word, majority)]
                for item in sentence
                for _, word in _words_in(item)
            ]
            for sentence in sentences(held_out)
        ]
        score = self._score(predicted, self._gold(held_out))
        return Baseline("the most frequent tag of each word", score)

    def _score(self, predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Score:
        accuracy = metrics.accuracy(_flat(predicted), _flat(gold))
        # For tags without spans, such as parts of speech, the metric is the accuracy.
        span_f1 = accuracy
        if self.has_spans:
            span_f1 = metrics.span_f1(predicted, gold, self.span_mode)
        notes = (LENIENT,) if self.has_spans and self.span_mode == "lenient" else ()
        return Score({"span_f1": span_f1, "accuracy": accuracy}, notes)

    @property
    def decoding_note(self) -> str:
        """How tags are chosen, and how spans are read from them."""
        scheme = scheme_of(self.tags)
        if not self.has_spans:
            return "each word's most probable tag; the tags mark no spans"
        if self.spans == "free":
            return f"each word's most probable tag; spans read as {scheme or 'IOB1 or IOB2'}"
        if self.spans == "iob1":
            return "the most probable sequence of tags that is legal in IOB1"
        legal = "IOB2" if scheme in (None, "IOB1 or IOB2") else scheme
        return f"the most probable sequence of tags that is legal in {legal}"

    # ---- tracing and the studio ----

    samples = ("Anna works for Lumina in Rome.",)

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from a text. target: one tag per word."""
        words = _words(text)
        if not words:
            raise InputError(f"{text!r} contains no word to tag")
        item = self.encode_words(words)
        if target is not None:
            item = _with_tags(item, self._read_tags(target, words))
        source = list(readable(self.tokenizer, item.ids))
        for place, word in zip(item.firsts, words, strict=True):
            if item.ids[place] == self.tokenizer.unk_id:
                source[place] = word
        return Example(
            text, self.collate([item]), Words(tuple(source), outputs=tuple(self.tags)),
            source=TokenInput("ids", self.tokenizer),
            starts=tuple(zip(item.firsts, words, strict=True)),
        )  # fmt: skip

    def _read_tags(self, text: str, words: Sequence[str]) -> list[int]:
        targets = text.split()
        unknown = [tag for tag in targets if tag not in self.tags]
        if unknown:
            raise InputError(f"tag {unknown[0]!r}: the model knows {', '.join(self.tags)}")
        if len(targets) != len(words):
            raise InputError(
                f"{len(targets)} tags for {len(words)} words ({', '.join(words)}); pass one tag "
                "per word"
            )
        return [self.tags.index(tag) for tag in targets]

    @property
    def outputs(self) -> Tags:
        return Tags(self.tags, self.choose, spans=self._transitions is not None)


@dataclass(frozen=True)
class _TagReading:
    """The prediction for a sentence: index and probability of each word's tag, and the loss."""

    tags: list[int]
    probabilities: list[float]
    loss: float


def _flat(rows: Sequence[Sequence[str]]) -> list[str]:
    """The tags of all sentences in one list."""
    return [tag for row in rows for tag in row]


def _words_in(item: TagItem) -> Iterator[tuple[int, Any]]:
    """The position of each tagged word, and what identifies the word: its tokens, and its
    characters if the model reads them."""
    ends = [*item.firsts[1:], len(item.ids)]
    words = list(zip(item.firsts, ends, strict=True))
    for first, last in words if item.window is None else words[slice(*item.window)]:
        spelt = item.characters[first] if item.characters else b""
        yield first, (*item.ids[first:last], spelt)


def _with_tags(item: TagItem, numbers: Sequence[int]) -> TagItem:
    """A copy of the item with these tags, one per word."""
    tags = [IGNORE] * len(item.ids)
    for place, number in zip(item.firsts, numbers, strict=True):
        tags[place] = number
    return replace(item, tags=tags)


def _words(question: str | Sequence[str]) -> Sequence[str]:
    """Split a text into words; a list of words is returned unchanged."""
    if not isinstance(question, str):
        return question
    return [question[first:last] for first, last in split_words(question)]
