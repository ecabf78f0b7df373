"""Translation: read a source sentence, generate a target sentence."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from translucid.core.errors import ConfigError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.data.batching import pad
from translucid.data.packing import PackedTexts
from translucid.data.readers import dialect, tables
from translucid.data.readers.loading import Loading
from translucid.data.records import Pair
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.fast.decode_graphs import DecodeGraphs
from translucid.generate.beam_search import GenerationConfig, Hypothesis, Round
from translucid.generate.constraints import Constraint
from translucid.generate.decode import find
from translucid.generate.decoded import END
from translucid.generate.sampling import SamplingConfig
from translucid.models.base import AutoregressiveNetwork
from translucid.models.ensemble import GeneratingEnsemble
from translucid.tasks import metrics
from translucid.tasks.base import Score, Task, Traits, toy_sentences
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.findings import Finding
from translucid.tasks.in_batches import in_batches, item_losses, summed_loss
from translucid.tasks.loss import cross_entropy
from translucid.tasks.next_tokens import TargetTokens, prefixes_and_sources, search_ids
from translucid.tasks.options import DataConfig, Resources, TokenizerConfig
from translucid.tasks.registry import task
from translucid.tasks.score import Baseline, degenerate_outputs
from translucid.tasks.significance import PER_TOKEN, Sums, of_lines, ratio
from translucid.tasks.vocabulary import learn
from translucid.tasks.words import Words, of_text, readable


@dataclass(frozen=True, slots=True)
class TranslateItem:
    source: list[int]  # with the end token
    target: list[int]  # without start and end
    line: int
    # The text of the target, for scoring; None: decoded from its tokens, which may lack words.
    reference: str | None = field(default=None, compare=False)


class PackedPairs:
    """Pairs packed into shared rows. Pairs in the same row do not attend to one another."""

    def __init__(
        self, source: Tokenizer, target: Tokenizer, items: Sequence[TranslateItem]
    ) -> None:
        self._source_pad, self._target_pad, count = source.pad_id, target.pad_id, len(items)
        (start,), self._end = target.start_ids, target.eos_id
        self._source = PackedTexts((item.source for item in items), count)
        self._target = PackedTexts(([start, *item.target] for item in items), count)
        self._lines = np.fromiter((item.line for item in items), np.int64, count)

    def collate(
        self, rows: Sequence[NDArray[np.int64]], count: int, lengths: Sequence[int]
    ) -> Batch:
        source, source_mask = self._source.join(
            rows, self._source_pad, count=count, length=lengths[0]
        )
        target, target_mask = self._target.join(
            rows, self._target_pad, count=count, length=lengths[1]
        )
        inputs = {
            "source": source, "target": target,
            "source_mask": source_mask, "target_mask": target_mask,
        }  # fmt: skip
        lines = tuple(self._lines[np.concatenate(rows)].tolist())
        return Batch(
            inputs, self._targets(target, target_mask), int(target_mask.count_nonzero()), lines
        )

    def _targets(self, target: Tensor, texts: Tensor) -> Tensor:
        """The target of each token: the next token of the same text, or the end."""
        next_ids, next_texts = (F.pad(t[:, 1:], (0, 1)) for t in (target, texts))
        following = torch.where(texts == next_texts, next_ids, self._end)
        return torch.where(texts == 0, IGNORE, following)


MANY_COPIES = 0.05  # fraction of untranslated pairs above which a check warns
# Pairs this many times longer or shorter than usual are odd; above this fraction a check warns.
ODD_RATIO, MANY_ODD = 3.0, 0.01
# A note on the score of an imported model whose folder sets do_sample.
SAMPLES = (
    "scored with beam search, which is deterministic; translate samples, because the model's "
    "folder sets do_sample"
)


@task
class Translate(Task[Pair, TranslateItem]):
    """Translation: the decoder reads start + target and predicts target + end. Scored by BLEU and
    chrF."""

    name = "translate"
    around = (None, "eos")
    metric = "bleu"
    higher_is_better = True
    shape, head = "encoder-decoder", "language"
    answer_name = "translation"
    models = ("transformer", "recurrent", "lexicon")
    traits = Traits(
        command="translate",
        max_files=2,
        row_columns=("source", "target"),
        asks_about=("source", "text"),
        suggested={"task": {"label_smoothing": 0.1}},
        baseline={"model": {"kind": "lexicon"}},
        data_keys=("source_column", "target_column", "max_length", "long"),
        decoding_keys=("beam_size", "alpha"),
        task_keys=("label_smoothing",),
        empty_stays_empty=True,
        costly_metric=True,
    )

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Pair]:
        from translucid.data.readers import read as read_files  # most uses of a model read no files

        if len(files) == 2:
            return read_files.read_parallel(
                files[0], files[1], rule=data.rule.lines, loading=loading
            )
        if (data.format or tables.format_of(files[0], otherwise="text")) == "text":
            raise ConfigError(
                f"{files[0]}: translation needs two files, the source and the target, or one "
                "table whose name ends with its format, such as pairs.tsv"
                f"{dialect.as_table(files[0], data.rule.lines)}"
            )
        return read_files.read_pairs(
            files[0], source=data.source_column, target=data.target_column, rule=data.rule,
            loading=loading,
        )  # fmt: skip

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Pair]:
        for line, made in toy_sentences(split, count):
            yield Pair(made.source, made.target, line)

    @classmethod
    def check_data(cls, parts: Mapping[str, Sequence[Pair]]) -> list[Finding]:
        return [untranslated(parts["train"]), length_ratios(parts["train"])]

    @classmethod
    def learn_tokenizers(
        cls, records: Iterable[Pair], options: TokenizerConfig
    ) -> dict[str, Tokenizer]:
        """Train one tokenizer for both languages, or one for each."""
        if options.joint or options.folder is not None:
            return super().learn_tokenizers(records, options)
        return {
            "source": learn((pair.source for pair in records), options),
            "target": learn((pair.target for pair in records), options),
        }

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[Pair]) -> dict[str, Any]:
        if "tokenizer" in resources.tokenizers:
            return super().network_sizes(resources, train)
        source, target = (len(resources.tokenizers[side]) for side in ("source", "target"))
        return cls._sizes(source, None) | {"target_vocab": target}

    @classmethod
    def make(cls, resources: Resources) -> Self:
        source, target = (
            resources.tokenizers.get(side) or resources.tokenizer for side in ("source", "target")
        )
        search = resources.search or GenerationConfig(**resources.decoding.search())
        return cls(
            source, target, smoothing=resources.smoothing, search=search,
            sampling=resources.sampling,
        )  # fmt: skip

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"source": self.source, "target": self.target}

    def read_line(self, line: str, where: str, network: nn.Module) -> TranslateItem:
        return TranslateItem(self.frame(self.source.encode(line)), [], 0)

    def answer_text(self, answer: str) -> str:
        """The translation on one line, so that output lines match input lines."""
        return " ".join(answer.splitlines())

    def answer_json(self, line: str, answer: str) -> dict[str, Any]:
        return {"source": line, "translation": answer}

    def own_target(self, model: nn.Module, text: str) -> str:
        written: str = self.predict_lines(model, [text])[0]
        return written

    def followed(self, model: nn.Module, text: str, target: str | None) -> str | None:
        return target  # from own_target: the model's own translation

    def __init__(
        self,
        source: Tokenizer,
        target: Tokenizer,
        *,
        smoothing: float = 0.1,
        search: GenerationConfig = GenerationConfig(),  # noqa: B008 (frozen)
        sampling: SamplingConfig | None = None,
    ) -> None:
        """sampling: settings for imported models that sample instead of searching."""
        self.source, self.target = source, target
        self.frame = source.frame(*self.around)
        self.smoothing, self.search, self.sampling = smoothing, search, sampling
        self.graphs = DecodeGraphs()  # for the network that is evaluated

    def encode(self, record: Pair) -> TranslateItem:
        return self.encode_all([record])[0]

    def encode_all(self, records: Sequence[Pair]) -> list[TranslateItem]:
        sources = self.source.encode_batch(record.source for record in records)
        targets = self.target.encode_batch(record.target for record in records)
        return [
            TranslateItem(self.frame(source), target, record.line)
            for source, target, record in zip(sources, targets, records, strict=True)
        ]

    def held_out_items(self, records: Sequence[Pair], row: int) -> list[TranslateItem]:
        """Items with the reference texts, so that words unknown to the tokenizer count too."""
        items = super().held_out_items(records, row)
        pairs = zip(items, records, strict=True)
        return [replace(item, reference=record.target) for item, record in pairs]

    def sizes(self, item: TranslateItem) -> tuple[int, ...]:
        return len(item.source), len(item.target) + 1

    def targets(self, item: TranslateItem) -> int:
        return len(item.target) + 1  # and the end

    def shorten(self, item: TranslateItem, max_length: int) -> TranslateItem:
        source = self.frame.shorten(item.source, max_length)
        target = item.target[: max_length - 1]
        return TranslateItem(source, target, item.line)  # the reference is truncated too

    def collate(self, items: Sequence[TranslateItem]) -> Batch:
        source, source_mask = pad([item.source for item in items], self.source.pad_id)
        start = self.target.start_ids
        target, target_mask = pad([[*start, *item.target] for item in items], self.target.pad_id)
        forced, end = [IGNORE] * (len(start) - 1), self.target.eos_id
        targets, _ = pad([[*forced, *item.target, end] for item in items], IGNORE)
        inputs = {
            "source": source, "target": target,
            "source_mask": source_mask, "target_mask": target_mask,
        }  # fmt: skip
        count = sum(self.targets(item) for item in items)
        return Batch(inputs, targets, count, tuple(item.line for item in items))

    @property
    def packs(self) -> bool:
        return len(self.target.start_ids) == 1  # else an item is longer than `sizes` says

    def packed(self, items: Sequence[TranslateItem]) -> PackedPairs:
        return PackedPairs(self.source, self.target, items)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(
            model(**batch.inputs),
            batch.targets,
            smoothing=self.smoothing,
            never=self.target.never_targets,
        )

    def evaluate(self, model: nn.Module, items: Sequence[TranslateItem]) -> Score:
        nats = summed_loss(model, items, self)
        tokens = sum(self.targets(item) for item in items)
        written = self.predict(model, items)
        score = self._score(written, items)
        numbers = score.numbers | {"loss": nats / max(tokens, 1)}
        lines = [self.answer_text(translation) for translation in written]
        sources = [tuple(item.source) for item in items]
        return replace(
            score, numbers=numbers, predictions=lines,
            notes=(*score.notes, *([] if self.sampling is None else [SAMPLES])),
            warnings=degenerate_outputs(lines, sources, self._references(items)),
            sums=lambda: self._sums(written, items, item_losses(model, items, self)),
        )  # fmt: skip

    def _sums(
        self, written: Sequence[str], items: Sequence[TranslateItem], losses: Sequence[float]
    ) -> dict[str, Sums]:
        lines, gold = [item.line for item in items], self._references(items)
        bleu, chrf = (
            of_lines(lines, *metrics.corpus_sums(metric, written, gold))
            for metric in metrics.translation_metrics()
        )
        exact = [(float(one == other), 1.0) for one, other in zip(written, gold, strict=True)]
        nats = [(loss, self.targets(item)) for loss, item in zip(losses, items, strict=True)]
        return {
            "bleu": bleu,
            "chrf": chrf,
            "exact_match": of_lines(lines, exact, ratio),
            "loss": of_lines(lines, nats, ratio),
        }

    @property
    def units(self) -> Mapping[str, tuple[str, object]]:
        return {"loss": (PER_TOKEN, self.target.fingerprint)}

    def baseline(
        self, train: Sequence[TranslateItem], held_out: Sequence[TranslateItem]
    ) -> Baseline:
        copied = [self.source.decode(item.source) for item in held_out]
        return Baseline("a copy of the source", self._score(copied, held_out))

    def _score(self, written: Sequence[str], items: Sequence[TranslateItem]) -> Score:
        return Score(*metrics.translation(written, self._references(items)))

    def _references(self, items: Sequence[TranslateItem]) -> list[str]:
        return [
            self.target.decode(item.target) if item.reference is None else item.reference
            for item in items
        ]

    def predict(self, model: nn.Module, items: Sequence[TranslateItem]) -> list[str]:
        """The best translation of each source."""
        results = self.find(model, [replace(item, target=[]) for item in items])
        return [self.target.decode(hypotheses[0].tokens) for hypotheses in results]

    def find(
        self,
        model: nn.Module,
        items: Sequence[TranslateItem],
        config: GenerationConfig | None = None,
        *,
        ensemble: Sequence[AutoregressiveNetwork[Any]] = (),
        extra: Sequence[Constraint] = (),
        watch: Callable[[Round], None] | None = None,
        trace: NoTrace = NO_TRACE,
        graphs: DecodeGraphs | None = None,
    ) -> list[list[Hypothesis]]:
        """The best translations of each source, best first. Each begins with the target of its
        item; the translation of an empty source is empty.

        ensemble: models whose probabilities are averaged with `model`'s. trace: edits to apply in
        every step. graphs: CUDA graphs to reuse; by default the task's own.
        """
        assert isinstance(model, AutoregressiveNetwork)
        chosen = config or self.search
        generator = GeneratingEnsemble([model, *ensemble]) if ensemble else model

        def act(batch: Batch) -> list[list[Hypothesis]]:
            return find(
                generator, *prefixes_and_sources(batch), chosen, **search_ids(self.target, model),
                extra=extra, watch=watch, trace=trace,
                graphs=self.graphs if graphs is None else graphs,
            )  # fmt: skip

        # A GPU needs as long for few rows as for many; a CPU is fastest if they fit its caches.
        # Measured there with 1 or 4 beams, float32 or int8: 2,048 to 8,192 tokens are within 8 % of
        # the best, except 8,192 with one beam (18 %); 1,024 and 16,384 are slower.
        budget = 32768 if next(model.parameters()).is_cuda else 4096
        results = in_batches(model, items, self, act, batch_tokens=budget // chosen.beam_size)
        return [
            [_NOTHING] if self.is_empty(item) else hypotheses
            for item, hypotheses in zip(items, results, strict=True)
        ]

    def is_empty(self, item: TranslateItem) -> bool:
        """Whether the source has no tokens besides the special ones."""
        return len(item.source) <= len(self.frame(()))

    # ---- tracing and the studio ----

    samples = ("The old dog does not like the cat.", "She has not seen the small bird.")

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from a text. target: the translation; without it, the decoder reads only
        its start token."""
        target = target or ""
        source = self.frame(self.source.encode(text))
        batch = self.collate([TranslateItem(source, self.target.encode(target), 0)])
        read = (*readable(self.target, self.target.start_ids), *of_text(self.target, target))
        words = Words(self._source_words(text), read, (*read[1:], END))
        return Example(
            text, batch, words,
            source=TokenInput("source", self.source), target=TokenInput("target", self.target),
        )  # fmt: skip

    def _source_words(self, text: str) -> tuple[str, ...]:
        t = self.source
        start, end = (readable(t, ids) for ids in (self.frame.prefix, self.frame.suffix))
        ended = (END,) if self.frame.suffix == (t.special.eos,) else end
        return (*start, *of_text(t, text), *ended)

    @property
    def outputs(self) -> TargetTokens:
        return TargetTokens(self.target)


_NOTHING = Hypothesis([], 0.0, 0.0, [], True)


def untranslated(train: Sequence[Pair]) -> Finding:
    """Check for targets that are copies of their sources."""
    same = [pair.line for pair in train if pair.source.strip() == pair.target.strip()]
    fraction = len(same) / max(len(train), 1)
    words = f"{len(same):,} of {len(train):,} targets are a copy of their source ({fraction:.1%})"
    if same:
        words += f"; first: line {same[0]:,}"
    if fraction > MANY_COPIES:
        words += "; the model learns to copy from them; remove them unless they are intended"
    return Finding("copies", fraction <= MANY_COPIES, words)


def length_ratios(train: Sequence[Pair]) -> Finding:
    """Check for pairs in which one side is too long to be a translation of the other."""
    ratios = [len(pair.target.strip()) / max(len(pair.source.strip()), 1) for pair in train]
    usual = statistics.median(ratios) if ratios else 1.0
    odd = [
        pair.line
        for pair, ratio in zip(train, ratios, strict=True)
        if not usual / ODD_RATIO <= ratio <= usual * ODD_RATIO
        and max(len(pair.source), len(pair.target)) > 20  # short pairs often differ in length
    ]
    fraction = len(odd) / max(len(train), 1)
    words = (
        f"targets have {usual:.2f} characters per source character; {len(odd):,} of "
        f"{len(train):,} pairs are off by a factor above {ODD_RATIO:.0f} ({fraction:.1%})"
    )
    if odd:
        words += f"; first: line{'s'[: len(odd) - 1]} {', '.join(f'{n:,}' for n in odd[:5])}"
    if fraction > MANY_ODD:
        words += "; are these translations? Look at those lines"
    return Finding("length ratios", fraction <= MANY_ODD, words)
