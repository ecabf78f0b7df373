"""Language modelling: predict the next token at every position."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.batching import pad
from translucid.data.packing import pack
from translucid.data.readers.loading import Loading
from translucid.data.records import Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.fast.attention_kernels import without_plans
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.generate.sampling import SamplingConfig
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel, evaluating
from translucid.models.recurrent import RecurrentDecoder
from translucid.tasks import metrics
from translucid.tasks.base import Score, Task, Traits, check_length, toy_sentences
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.findings import spread_out
from translucid.tasks.in_batches import LazyItems, advance, item_losses, summed_loss
from translucid.tasks.loss import cross_entropy
from translucid.tasks.next_tokens import NextTokens, search_ids
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.registry import task
from translucid.tasks.score import Baseline
from translucid.tasks.significance import PER_TOKEN, Sums, ratio
from translucid.tasks.text_task import read_texts
from translucid.tasks.words import Words, of_text, readable

if TYPE_CHECKING:
    from translucid.data.corpus.token_store import Store

MOST_ROWS = 20_000  # number of training rows in which the baseline counts tokens
BEGINNING = 6  # number of words to use as a prompt
STRETCH = 1024  # tokens of a stream that are read at once; affects only time and memory
CONTINUED, FOLLOWED = 100, 12  # tokens of a continuation: in answers, and during training


@dataclass(frozen=True, slots=True)
class LanguageItem:
    """A row of text, and the next token at each position."""

    ids: list[int]
    targets: list[int]
    characters: float  # in the text of the targets, for bits per character
    line: int


class StoreRows(LazyItems[LanguageItem]):
    """The rows of a token store, cut as `pack` does, and read from disk when they are used."""

    def __init__(
        self, store: "Store", length: int, start_id: int, numbers: range | None = None
    ) -> None:
        if length < 1:
            raise ConfigError(f"length = {length}: a row needs at least 1 token")
        self.store, self.length, self.start_id = store, length, start_id
        self._numbers = range(-(-len(store) // length)) if numbers is None else numbers
        rows = self._numbers
        ends = (np.arange(rows.start, rows.stop, rows.step, dtype=np.int64) + 1) * length
        self.sizes = (length - np.maximum(ends - len(store), 0))[:, None]
        self._per_token = store.characters / max(len(store), 1)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> LanguageItem: ...
    @overload
    def __getitem__(self, place: slice) -> "StoreRows": ...
    def __getitem__(self, place: int | slice) -> "LanguageItem | StoreRows":
        if isinstance(place, slice):
            return StoreRows(self.store, self.length, self.start_id, self._numbers[place])
        row = self._numbers[place]
        start = row * self.length
        tokens = self.store.window(max(start - 1, 0), self.length + (row > 0)).tolist()
        stream = tokens if row else [self.start_id, *tokens]
        ids, targets = stream[:-1], stream[1:]
        return LanguageItem(ids, targets, self._per_token * len(ids), row + 1)


@task
class Language(Task[Text, LanguageItem]):
    """Language modelling, scored by perplexity per token, and by bits per character, which do not
    depend on the tokenizer."""

    name = "language"
    around = ("eos", None)  # see start_id
    metric = "perplexity"
    higher_is_better = False
    shape, head = "decoder", "language"
    answer_name = "continuation"
    models = ("transformer", "recurrent", "ngram")
    traits = Traits(
        command="generate",
        asks_about=("text",),
        baseline={"model": {"kind": "ngram"}},
        data_keys=("text_column", "unit", "keep_empty", "max_length"),
        decoding_keys=("context", "carry_state"),
        task_keys=("label_smoothing",),
        running_text=True,
        storable=True,
        loss_by_evaluating=True,
    )

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Text]:
        return read_texts(files, data, loading)

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Text]:
        for line, made in toy_sentences(split, count):
            yield Text(made.source, line)

    @classmethod
    def make(cls, resources: Resources) -> Self:
        decoding = resources.decoding
        return cls(
            resources.tokenizer, smoothing=resources.smoothing, context=decoding.context,
            carry_state=bool(decoding.carry_state), search=resources.search,
            sampling=resources.sampling,
        )  # fmt: skip

    def training_items(self, records: Sequence[Text], data: DataConfig) -> list[LanguageItem]:
        return self.rows(records, data.max_length)

    def held_out_items(self, records: Sequence[Text], row: int) -> list[LanguageItem]:
        return self.rows(records, row) if records else []

    def check_evaluated(
        self, items: Sequence[LanguageItem], context_length: int | None, file: str
    ) -> None:
        for row in self.with_context(items):
            where = f"decoding.context = {self.context}: {file}, row {row.line}"
            check_length(len(row.ids), context_length, where)

    def first_text(self, records: Sequence[Text], items: Sequence[LanguageItem]) -> str:
        """The beginning of the first text, as a prompt."""
        text = next((record.text for record in records if record.text.strip()), "")
        if not text and items:  # a token store has no records
            text = self.tokenizer.decode(list(items[0].ids)[:BEGINNING])
        return " ".join(text.split()[:BEGINNING])

    def check_line(self, line: str, where: str, network: nn.Module) -> None:
        """Accept a line of any length; generation rejects prompts that are too long."""

    def predict_lines(self, model: nn.Module, lines: Sequence[str]) -> list[str]:
        """The continuation of each line, by greedy search unless the model's folder says
        otherwise."""
        return [self._continued(model, line, CONTINUED) for line in lines]

    def _continued(self, model: Any, line: str, tokens: int) -> str:
        start, prompt = self.prompt(line)
        config = GenerationConfig(beam_size=1, max_length=tokens)
        if self.search is not None:
            config = self.search.with_options(max_length=tokens)
        ids = search_ids(self.tokenizer, model)
        ((best,),) = find(model, [[*start, *prompt]], None, config, **ids)
        return self.tokenizer.decode([*prompt, *best.tokens])

    def answer_text(self, answer: str) -> str:
        return " ".join(answer.splitlines())

    def answer_json(self, line: str, answer: str) -> dict[str, Any]:
        return {"prompt": line, "text": answer}

    def followed(self, model: nn.Module, text: str, target: str | None) -> str:
        whole = self._continued(model, text, FOLLOWED)
        return whole[len(text) :] if whole.startswith(text) else whole

    def __init__(
        self, tokenizer: Tokenizer, *, smoothing: float = 0.0, context: int = 0,
        carry_state: bool = False, search: GenerationConfig | None = None,
        sampling: SamplingConfig | None = None,
    ) -> None:  # fmt: skip
        """search, sampling: how an imported model generates, from its generation_config.json."""
        self.search, self.sampling = search, sampling
        self.tokenizer, self.smoothing, self.context = tokenizer, smoothing, context
        self.carry_state = carry_state

    @property
    def start_id(self) -> int:
        """The token before the first text: the end token. A start token would occur only once in
        all rows, too rarely to be learned."""
        return self.tokenizer.eos_id

    def prompt(self, text: str) -> tuple[list[int], list[int]]:
        """The special tokens before a text, and the ids of the text itself. Together they contain
        at least one token, since a model cannot read an empty sequence."""
        ids = self.tokenizer.encode(text)
        start = list(self.tokenizer.frame(*self.around).prefix)
        return start or ([] if ids else [self.start_id]), ids

    def encode(self, record: Text) -> LanguageItem:
        """Encode one text between start and end tokens."""
        start, ids = self.prompt(record.text)
        read = [*start, *ids]
        targets = [*[IGNORE] * (len(start) - 1), *(ids if start else ids[1:])]
        return LanguageItem(
            read, [*targets, self.tokenizer.eos_id], len(record.text) + 1, record.line
        )

    def rows(self, records: Sequence[Text], length: int) -> list[LanguageItem]:
        """All texts joined and cut into rows of `length` tokens; every token is a target once."""
        t = self.tokenizer
        documents = (t.encode_document(record.text) for record in records)
        packed = pack(documents, length, bos=self.start_id, eos=t.eos_id, pad_id=t.pad_id)
        per_token = sum(len(record.text) + 1 for record in records) / max(int(packed.mask.sum()), 1)
        return [
            LanguageItem(
                ids[mask].tolist(), targets[mask].tolist(), per_token * int(mask.sum()), row
            )
            for row, (ids, targets, mask) in enumerate(zip(*packed, strict=True), start=1)
        ]

    def rows_of(self, store: "Store", length: int) -> "StoreRows":
        """The rows of a token store, read from disk on access."""
        self.tokenizer.check(store.manifest.making.tokenizer, str(store.folder))
        return StoreRows(store, length, self.start_id)

    def sizes(self, item: LanguageItem) -> tuple[int, ...]:
        return (len(item.ids),)

    def targets(self, item: LanguageItem) -> int:
        return len(item.ids)

    def shorten(self, item: LanguageItem, max_length: int) -> LanguageItem:
        fraction = min(max_length / len(item.ids), 1.0)
        ids, targets = item.ids[:max_length], item.targets[:max_length]
        return LanguageItem(ids, targets, fraction * item.characters, item.line)

    def collate(self, items: Sequence[LanguageItem]) -> Batch:
        ids, mask = pad([item.ids for item in items], self.tokenizer.pad_id)
        targets, _ = pad([item.targets for item in items], IGNORE)
        inputs = {"ids": ids} if bool(mask.all()) else {"ids": ids, "mask": mask}
        count = sum(len(item.ids) for item in items)
        return Batch(inputs, targets, count, tuple(item.line for item in items))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(
            model(**batch.inputs), batch.targets, smoothing=self.smoothing,
            never=self.tokenizer.never_targets,
        )  # fmt: skip

    def with_context(self, items: Sequence[LanguageItem]) -> Sequence[LanguageItem]:
        """Prepend the preceding `context` tokens to every row; the targets stay the same.

        Rows are split into shorter ones, so that with the context the model reads no more tokens
        at once than in training. This is impossible if the context alone fills a row.
        """
        if not self.context or not items:
            return items
        ids = [i for item in items for i in item.ids]
        targets = [i for item in items for i in item.targets]
        row = max(len(item.ids) for item in items)
        stretch = row - self.context if self.context < row else row
        rows: list[LanguageItem] = []
        for start in range(0, len(ids), stretch):
            stop, before = min(start + stretch, len(ids)), max(start - self.context, 0)
            labels = [IGNORE] * (start - before) + targets[start:stop]
            rows.append(LanguageItem(ids[before:stop], labels, 0.0, len(rows) + 1))
        return rows

    def evaluate(self, model: nn.Module, items: Sequence[LanguageItem]) -> Score:
        if self.carry_state:
            return self._score(self._loss_of_stream(model, items), items)
        rows = self.with_context(items)
        score = self._score(summed_loss(model, rows, self), items)
        return replace(score, sums=lambda: self._sums(item_losses(model, rows, self), rows, items))

    def _sums(
        self,
        losses: Sequence[float],
        rows: Sequence[LanguageItem],
        items: Sequence[LanguageItem],
    ) -> dict[str, Sums]:
        """The sums from which each metric is computed, with one row of terms for each row of text.
        Two models have the same rows of text if their tokenizers and row lengths are equal."""
        counts = [sum(target != IGNORE for target in row.targets) for row in rows]
        characters = sum(item.characters for item in items) / max(sum(counts), 1)  # per token
        fingerprint = self.tokenizer.fingerprint
        examples = tuple((fingerprint, *row) for row in enumerate(counts, start=1))
        terms = np.array([*zip(losses, counts, strict=True)], dtype=np.float64).reshape(-1, 2)

        def of(metric: Callable[[float, float], float]) -> Sums:
            return Sums(examples, terms, lambda sums: metric(float(sums[0]), float(sums[1])))

        return {
            "perplexity": of(metrics.perplexity),
            "bits_per_character": of(
                lambda nats, tokens: metrics.bits_per_character(nats, tokens * characters)
            ),
            "loss": Sums(examples, terms, ratio),
        }

    @property
    def units(self) -> Mapping[str, tuple[str, object]]:
        return dict.fromkeys(("loss", "perplexity"), (PER_TOKEN, self.tokenizer.fingerprint))

    @torch.no_grad()
    def _loss_of_stream(self, model: nn.Module, items: Sequence[LanguageItem]) -> float:
        """-Σ log p(target) of one long text: the recurrent state is carried through the text, so
        that each prediction depends on all earlier tokens."""
        if not (isinstance(model, DecoderModel) and isinstance(model.decoder, RecurrentDecoder)):
            raise InputError(
                "carry_state = true: this model has no state to carry; omit the key, or set "
                "context to the number of earlier tokens that the model should see before each row"
            )
        ids = torch.tensor([i for item in items for i in item.ids], dtype=torch.long)
        targets = torch.tensor([i for item in items for i in item.targets], dtype=torch.long)
        state, total = model.start(GenerationInputs(1), len(ids)), 0.0
        with evaluating(model), without_plans(model.device):
            for start in range(0, len(ids), STRETCH):
                part = slice(start, start + STRETCH)
                logits = model.step(ids[None, part].to(model.device), state)
                labels = targets[None, part].to(model.device)
                total += float(self.outputs.summed_loss(logits, labels))
                advance(min(start + STRETCH, len(ids)), len(ids))
        return total

    def baseline(self, train: Sequence[LanguageItem], held_out: Sequence[LanguageItem]) -> Baseline:
        rows = spread_out(train, MOST_ROWS)
        targets = np.fromiter((i for item in rows for i in item.targets), dtype=np.int64)
        # Add-one smoothing: no token is impossible.
        counts = np.bincount(targets, minlength=len(self.tokenizer)) + 1
        nats = -np.log(counts / counts.sum())
        wanted = np.fromiter((i for item in held_out for i in item.targets), dtype=np.int64)
        score = self._score(float(nats[wanted].sum()), held_out)
        return Baseline("token frequencies in the training data", score)

    def _score(self, nats: float, items: Sequence[LanguageItem]) -> Score:
        tokens = sum(len(item.ids) for item in items)
        characters = sum(item.characters for item in items)
        return Score(
            {
                "perplexity": metrics.perplexity(nats, tokens),
                "bits_per_character": metrics.bits_per_character(nats, characters),
                "loss": nats / max(tokens, 1),
            }
        )

    # ---- tracing and the studio ----

    samples = ("The dogs that the cat sees",)

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from a text, whose target is the text itself, shifted by one token."""
        if target is not None:
            raise InputError(
                f"target = {target!r}: a model for task {self.name} takes no target; omit target"
            )
        start, ids = self.prompt(text)
        item = self.encode(Text(text, 0))
        targets = torch.tensor([[*item.targets[:-1], IGNORE]])
        batch = Batch({"ids": torch.tensor([item.ids])}, targets, len(ids))
        read = (*readable(self.tokenizer, start), *of_text(self.tokenizer, text))
        words = Words(target=read, follows=(*read[1:], "?"))
        return Example(text, batch, words, target=TokenInput("ids", self.tokenizer))

    @property
    def outputs(self) -> NextTokens:
        return NextTokens(self.tokenizer)
