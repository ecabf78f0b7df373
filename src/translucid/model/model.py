"""`tl.Model`: a trained model that translates, classifies, tags or generates, and can be traced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from translucid.core.device import pick_device
from translucid.core.errors import ConfigError, InputError, TraceBudgetError, install_command
from translucid.core.trace import DEFAULT_BUDGET
from translucid.core.untrusted_files import read_lines
from translucid.data import shipped_models
from translucid.data.python_rows import is_table, rows_of
from translucid.fast.precision import Precision, prepare
from translucid.models.sequence_config import TextConfig
from translucid.see import INTEGRATION_STEPS
from translucid.tasks import model_folder
from translucid.tasks.generator import Generator
from translucid.tasks.model_folder import expect, several, task_of

# Methods import what they need when they are called, so that loading a model stays fast.
if TYPE_CHECKING:
    from torch import Tensor

    from translucid.core.trace import Edit
    from translucid.data.readers.loading import Columns
    from translucid.data.spans import Span
    from translucid.data.tokenizers.chat_template import ChatTemplate
    from translucid.data.tokenizers.tokenizer import Tokenizer
    from translucid.interop.export.exporting import Exported
    from translucid.runs.recipe.examples import Part
    from translucid.runs.recipe.scoring import ScoringSettings
    from translucid.see.ablation import Ablation
    from translucid.see.embeddings import EmbeddingChange, Side
    from translucid.see.gradients import Gradients
    from translucid.see.head_scores import HeadScores
    from translucid.see.pictures import Bars, Heat
    from translucid.see.predictions import TextLoss
    from translucid.see.reading import Reading
    from translucid.see.saliency import Method, Saliency, Unit
    from translucid.see.walk.page import Explanation
    from translucid.tasks.base import Score, Task
    from translucid.tasks.classify import Classify
    from translucid.tasks.embed import Embed, Neighbour
    from translucid.tasks.example import Example
    from translucid.tasks.fill import Fill, Filling
    from translucid.tasks.input_notes import InputNote
    from translucid.tasks.model_folder import Bundle
    from translucid.tasks.options import SpanDecoding
    from translucid.tasks.regress import Regress
    from translucid.tasks.score import Coverage
    from translucid.tasks.table import Table
    from translucid.tasks.tag import Tag

Options = ParamSpec("Options")
Result = TypeVar("Result")
Input = str | Sequence[Any] | Mapping[str, Any]  # a text; for models of tables, also a row


def _generates(
    method: Callable[Concatenate[Generator, Options], Result],
) -> Callable[Concatenate[Model, Options], Result]:
    """Make a method of `Generator` a method of `Model`."""

    @wraps(method)
    def of_model(self: Model, /, *args: Options.args, **options: Options.kwargs) -> Result:
        return method(self.text_generator, *args, **options)

    return of_model


class Model:
    """A trained model. `tl.train` and `tl.load` return one.

    Its methods change neither the model nor global state, so several threads may call them at the
    same time.

    In `trace`, `explain`, `gradients` and `saliency`, `text` is the input and `target` the expected
    output: a translation (by default the model's own), a label, a tag for each word, or numbers.
    Language models need no target.
    """

    def __init__(self, held: Bundle, folder: Path | None = None) -> None:
        self.network = held.network
        self.folder = folder  # the folder that it was loaded from
        self.facts = held.facts
        self.task: Task[Any, Any] = task_of(held)
        self._bundle = held
        self._generator: Generator | None = None

    # ---- generating text ----

    translate = _generates(Generator.translate)
    decode = _generates(Generator.decode)
    generation_config = _generates(Generator.generation_config)
    score = _generates(Generator.score)
    scores = _generates(Generator.scores)
    prefix_scores = _generates(Generator.prefix_scores)
    generate = _generates(Generator.generate)
    stream = _generates(Generator.stream)
    logprob_difference = _generates(Generator.logprob_difference)

    @property
    def text_generator(self) -> Generator:
        """The object that generates text; only for translation and language models."""
        if self._generator is None or self._generator.network is not self.network:
            self._generator = Generator(self.task, self.network)
        return self._generator

    @property
    def tokenizers(self) -> Mapping[str, Tokenizer]:
        """The tokenizers by name: "tokenizer", or "source" and "target"; empty for regression."""
        return self._bundle.tokenizers

    @property
    def output_tokenizer(self) -> Tokenizer:
        """The tokenizer of generated text."""
        return self.text_generator.tokenizer

    def optimized(self, precision: Precision = "auto") -> Self:
        """A faster copy: weights packed for the CPU, or in another precision.

        precision: auto, float32, bfloat16 or int8. The copy generates text, labels, tags and
        vectors; it cannot be trained or saved.
        """
        twin = copy(self)
        twin.network, twin._generator = prepare(self.network, precision), None
        return twin

    # ---- other tasks ----

    def classify(self, texts: Sequence[str], *, threshold: float | None = None) -> list[Any]:
        """The most probable label of each text, as `Label`.

        Imported models may return something else. A multi-label model returns `Labels`, which
        contains all labels whose probability is above `threshold` (default 0.5). A model with one
        score returns a `LabelScore`.
        """
        task: Classify = expect(with_threshold(self, threshold).task, "classify")
        return task.predict_lines(self.network, several(texts))

    def tag(self, texts: Sequence[str], *, spans: SpanDecoding | None = None) -> list[list[Span]]:
        """The labelled spans of each text, with character offsets.

        spans: how tags are chosen, a value of the key decoding.spans; by default that of training,
        or free for imported models.
        """
        task: Tag = expect(with_spans(self, spans).task, "tag")
        return task.predict_lines(self.network, several(texts))

    def fill(self, text: str, k: int = 5) -> list[list[Filling]]:
        """The k most probable tokens at each mask of a text such as "The [MASK] barks."; for masked
        language models."""
        task: Fill = expect(self.task, "fill")
        return task.predict_lines(self.network, [text], k)[0]

    def embed(self, texts: Sequence[str]) -> Tensor:
        """The embedding of each text, on the CPU: (texts, dimensions)."""
        task: Embed = expect(self.task, "embed")
        return task.embed(self.network, several(texts))

    def chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> str:
        """The answer to a conversation, for models with a chat template.

        messages: each has a role (system, user or assistant) and content. options: as for
        `generate`.
        """
        if self.chat_template is None:
            raise InputError(
                "this model has no chat template, so it cannot answer messages; use generate"
            )
        prompt = self.chat_template.encode(messages, self.output_tokenizer)
        _, *pieces = self.stream(prompt, **options)
        return "".join(pieces)

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The template that turns messages into a prompt; None if the model has none."""
        from translucid.data.tokenizers.chat_template import ChatTemplate

        return ChatTemplate.stored(self._bundle.statistics)

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> Tensor:
        """The cosine similarity of each text to each other text: (texts, others)."""
        task: Embed = expect(self.task, "embed")
        return task.similarity(self.network, several(texts), several(others))

    def nearest_texts(self, text: str, texts: Sequence[str], k: int = 5) -> list[Neighbour]:
        """The k texts whose embeddings are most similar to that of `text`, best first."""
        from translucid.tasks.embed import nearest

        return nearest(self.similarity([text], texts)[0], texts, k)

    def compare_embeddings(self, before: Model, texts: Sequence[str]) -> EmbeddingChange:
        """Compare this model with another embedding model, such as the one that it was fine-tuned
        from: the difference in cosine similarity for each pair of texts."""
        from translucid.see.embeddings import embedding_change

        if len(several(texts)) < 2:
            raise InputError(f"got {len(texts)} text; pass two or more to form pairs")
        return embedding_change(texts, before.embed(texts), self.embed(texts))

    def predict(self, inputs: Any) -> list[Any]:
        """The answer to each line of text, for any task. Regression models also accept rows of
        numbers, in order or by the names of their columns.

        inputs: a list, or a pandas or polars data frame, a dataset or a dict of columns. The text
        is read from the column used in training, or else from one with a common name.
        """
        if is_table(inputs):
            inputs = self._questions(list(rows_of(inputs, (), "inputs")))
        lines = [line for line in several(inputs) if isinstance(line, str)]
        if lines and len(lines) == len(inputs):
            return self.task.predict_lines(self.network, lines)
        task: Regress | Table = expect(self.task, "regress", "table")
        items = [task.row_item(row, f"row {n}") for n, row in enumerate(inputs, start=1)]
        return list(task.predict(self.network, items))

    def _questions(self, rows: list[dict[str, Any]]) -> list[Any]:
        """The inputs of the task from rows of a table."""
        from translucid.data.readers.cells import as_text
        from translucid.data.readers.columns import USUAL

        if "input" in self.task.traits.asks_about or not rows:
            return rows
        names = list(rows[0])
        for role in self.task.traits.asks_about:
            usual = [self.data_columns.get(role), *USUAL[role]]
            column = next((name for name in usual if name in names), None)
            if column is not None and isinstance(rows[0][column], str):
                texts = enumerate((row[column] for row in rows), start=1)
                return [as_text(text, f"inputs, row {n}: {role}") for n, text in texts]
        raise InputError(
            f"inputs: which column holds the {self.task.traits.asks_about[-1]}? The columns are "
            f"{', '.join(map(repr, names))}; pass one as a list: frame[{names[0]!r}].tolist()"
        )

    def input_notes(self, texts: Sequence[str] | Sequence[Sequence[str]]) -> list[InputNote]:
        """For each text, whether it is empty and which parts are not in the vocabulary. Answers to
        such texts are unreliable."""
        from translucid.tasks.input_notes import note_of

        return [note_of(self.task, text) for text in texts]

    # ---- evaluation ----

    def evaluate(
        self,
        *files: str | Sequence[str],
        say: Callable[[str], None] = lambda line: None,
        **options: Any,
    ) -> Score:
        """Score the model on a file (two for translation) in the format of the training data.

        Without files, the model is scored on the test data of its run, and the score equals the one
        in the run's test.json. Files are read and scored as in the run. options: keys of the
        sections data and decoding that override the run's settings, such as text_column or context.
        say: receives messages about what was read, what was left out, and the settings.
        """
        from translucid.tasks.in_batches import reporting

        self.task.check_files()
        settings = self.evaluation_settings(**options)
        say(settings.line())
        items, coverage = self._limited(files, None, say, options)
        task = self.task
        if settings.changed.keys() & {*task.traits.decoding_keys}:
            task = task_of(replace(self._bundle, decoding=settings.decoding.model_dump()))
        task.check_evaluated(items, self.context_length, "held-out text")
        with reporting(say):
            return replace(task.evaluate(self.network, items), coverage=coverage)

    def evaluation_settings(self, **options: Any) -> ScoringSettings:
        """How `evaluate` reads and scores examples: the settings of the model's run, overridden by
        the options."""
        from translucid.runs.recipe.scoring import settings_of

        return settings_of(self._bundle, options)

    def ablate(
        self,
        *files: str,
        of: Sequence[str] | None = None,
        metric: bool = False,
        limit: int | None = None,
        **options: Any,
    ) -> Ablation:
        """Measure how much the loss on the examples of files rises without each part of the model.

        of: only these kinds of parts, such as heads, layers or gates. metric: measure the task's
        metric too. options: as for `evaluate`.
        """
        from translucid.see.ablation import ablate
        from translucid.see.part_switches import choose, switches

        known = switches(self.network)
        chosen = known if of is None else choose(known, of)
        items = self.encoded_examples(*files, limit=limit, **options)
        return ablate(self.network, self.task, items, chosen, metric=metric)

    def encoded_examples(
        self,
        *files: str | Sequence[str],
        limit: int | None = None,
        say: Callable[[str], None] = lambda line: None,
        **options: Any,
    ) -> Sequence[Any]:
        """The examples of files as token ids, in the form that `model.task` uses.

        Files are read and checked as by `evaluate`. limit: only the first examples.
        """
        return self._limited(files, limit, say, options)[0]

    def _limited(
        self,
        files: Sequence[str | Sequence[str]],
        limit: int | None,
        say: Callable[[str], None],
        options: Mapping[str, Any],
    ) -> tuple[Sequence[Any], Coverage]:
        """The first `limit` examples as items, and their coverage. Long texts are handled as in
        `classify` and `tag`."""
        from translucid.data.readers.loading import Loading
        from translucid.runs.recipe.scoring import ScoredExamples
        from translucid.tasks.long_texts import limit_length, text_limit
        from translucid.tasks.vocabulary import check_labels

        data = self.evaluation_settings(**options).data
        loading = Loading(expected=self.data_columns)
        examples = ScoredExamples(self._bundle, self.folder)
        records, name = examples.records(files, data, limit, say, loading=loading)
        check_labels(records, self._bundle.labels, name, self.task.label_noun)
        row = min(self.context_length or data.max_length, data.max_length)
        items = self.task.held_out_items(records, row)
        if "max_length" not in {
            **self._bundle.data,
            **options,
        }:  # older, or imported
            most = text_limit(self.network, getattr(self.task, "max_length", None))
            data = data.model_copy(update={"max_length": most or sys.maxsize})
        items, coverage = limit_length(self.task, items, data, "test", say)
        for item in items:
            self.task.check_item(item, f"{name}:{item.line}", self.network)
        unread = {} if self.task.traits.running_text else loading.lost
        return items, coverage.with_unread(unread)

    def examples(
        self, *files: str | Sequence[str], limit: int | None = None, part: Part = "test"
    ) -> list[tuple[str, str | None]]:
        """The examples of files, or of a part of the run's data, as pairs of text and target.

        `trace`, `gradients` and `saliency` accept these pairs.
        """
        from translucid.runs.recipe.scoring import ScoredExamples

        data = self.evaluation_settings().data
        examples = ScoredExamples(self._bundle, self.folder)
        records, _ = examples.records(files, data, limit, lambda line: None, limit, part)
        return [(self.task.text_of(record), record.answer) for record in records]

    def hardest_examples(
        self, *files: str | Sequence[str], limit: int | None = None
    ) -> list[TextLoss]:
        """The examples with their losses, the largest loss first."""
        from translucid.see.predictions import hardest

        return hardest(self.network, self.task, self.examples(*files, limit=limit))

    @property
    def history(self) -> list[dict[str, Any]]:
        """The training history: the lines of the run's metrics.jsonl."""
        from translucid.runs.recipe.scoring import run_of

        run = run_of(self.folder, "metrics.jsonl")
        if run is None:
            raise InputError(
                "this model is not in a run folder with a metrics.jsonl; load it from its run: "
                "tl.load('runs/...')"
            )
        return read_lines(run / "metrics.jsonl")

    # ---- tracing and explanation ----

    def trace(
        self,
        text: Input,
        target: str | None = None,
        *,
        keep: str | Sequence[str] = "*",
        edit: Mapping[str, Edit] | None = None,
        budget_bytes: int | None = DEFAULT_BUDGET,
    ) -> Reading:
        """Every intermediate value of one forward pass, by name and as figures.

        text: for models that read rows of a table, also a row as a list or a dict."""
        from translucid.see.reading import read

        text = self._typed(text)
        return read(
            self.network, self.task, text, self._target(text, target),
            keep=keep, edit=edit, budget_bytes=budget_bytes,
        )  # fmt: skip

    def explain(
        self,
        text: Input,
        target: str | None = None,
        *,
        layer: int | None = None,
        head: int | None = None,
        top: int = 5,
        budget_bytes: int | None = DEFAULT_BUDGET,
    ) -> Explanation:
        """Explain a prediction step by step, as `translucid explain` prints it.

        layer: show this layer in detail. head: show one attention head. top: how many answers to
        show. budget_bytes: limit for the values that are kept; None means no limit.
        """
        from translucid.see.walk.page import Explanation

        text = self._typed(text)
        self.task.check_line(text, "the text", self.network)
        try:
            reading = self.trace(text, target, budget_bytes=budget_bytes)
        except TraceBudgetError as error:  # an explanation needs every trace point
            remedy = "explain a part of the text, or raise budget_bytes"
            raise TraceBudgetError(error.fact, remedy) from None
        return Explanation(reading, reading.walk(layer=layer, head=head, top=top))

    def head_scores(
        self,
        texts: Sequence[str | Sequence[str]],
        links: Sequence[Sequence[tuple[int, int]]],
        targets: Sequence[str | Sequence[str]] | None = None,
    ) -> HeadScores:
        """How often the maximum of each attention head is the gold position of a link.

        links: for each text, pairs of word indices: (word, gold word), such as a verb and its
        subject. With `targets`, cross-attention is scored, and a pair is (source word, target
        word). A word is a run of letters and digits or a punctuation mark; to use other words, pass
        a text as a list of words.
        """
        from translucid.see.head_scores import head_scores

        return head_scores(self.network, self.task, texts, links, targets)

    def align(self, source: str, target: str) -> list[list[int]]:
        """The word alignment of a translation: for each target word, the indices of the source
        words it attends to most, averaged over all heads. Words are separated by spaces."""
        from translucid.see.word_alignment import align

        expect(self.task, "translate")
        return align(self.network, self.task, source.split(), target.split())

    def gradients(
        self,
        text: Input,
        target: str | None = None,
        *,
        of: int | None = None,
        keep: str | Sequence[str] = "*",
        budget_bytes: int | None = DEFAULT_BUDGET,
    ) -> Gradients:
        """The gradient of the loss of one text at every weight and every trace point.

        of: the position of one target, such as -1; by default all. keep, budget_bytes: as in trace.
        """
        from translucid.see.gradients import gradients

        return gradients(
            self.network, self.task, self._example(text, target),
            of=of, keep=keep, budget_bytes=budget_bytes,
        )  # fmt: skip

    def saliency(
        self,
        text: Input,
        target: str | None = None,
        *,
        of: int | str | None = None,
        method: Method = "gradient",
        steps: int = INTEGRATION_STEPS,
        unit: Unit = "logit",
    ) -> Saliency:
        """Saliency: how much each input token contributes to one output.

        of: the output: a class, or the position of a token or tag; by default the most probable
        class or the last token.
        """
        from translucid.see.saliency import saliency

        return saliency(
            self.network, self.task, self._example(text, target),
            of=of, method=method, steps=steps, unit=unit,
        )  # fmt: skip

    def saliency_map(
        self,
        text: Input,
        target: str | None = None,
        *,
        method: Method = "gradient",
        steps: int = INTEGRATION_STEPS,
        unit: Unit = "logit",
    ) -> Heat:
        """The saliency of every input token for every output."""
        from translucid.see.saliency import saliency_map

        return saliency_map(
            self.network, self.task, self._example(text, target),
            method=method, steps=steps, unit=unit,
        )  # fmt: skip

    def nearest_words(self, word: str, k: int = 8, *, side: Side = "source") -> Bars:
        """The k words whose embeddings have the largest cosine similarity to that of `word`."""
        from translucid.see.embeddings import neighbours

        tokenizers = self.tokenizers
        return neighbours(
            self.network, tokenizers.get(side) or next(iter(tokenizers.values())), word, k,
            side=side,
        )  # fmt: skip

    def position_encodings(
        self, length: int = 64, *, gram: bool = False, side: Side = "source"
    ) -> Heat:
        """The encoding of each position; with `gram`, the similarity of each pair of positions."""
        from translucid.see.embeddings import position_gram, position_table

        return (position_gram if gram else position_table)(self.network, length, side=side)

    def studio(
        self, text: str | None = None, *, view: str = "flow", height: int = 640,
        compare_with: Sequence[Model] = (), **address: str,
    ) -> Any:  # fmt: skip
        """A view of the studio in Jupyter or marimo; needs the extra [notebook].

        view: flow, attention, recurrent, decode, whatif, train, lesson, data, or compare, with the
        models `compare_with`. address: further keys of the page's address, such as head or theme.
        """
        try:
            from translucid.studio.widget import widget
        except ImportError as error:
            raise ConfigError(
                f"model.studio needs the package {error.name}; install it with: "
                f"{install_command('notebook')}"
            ) from error
        return widget(self, text, view=view, height=height, compare_with=compare_with, **address)

    # ---- properties ----

    @property
    def context_length(self) -> int | None:
        """The maximum number of tokens that the model reads; None if unlimited."""
        config = self.network.config
        return config.context_length if isinstance(config, TextConfig) else None

    @property
    def data_columns(self) -> dict[str, Columns]:
        """The columns of the training data by role, each as its name or number."""
        return self.task.columns_read(self._bundle.columns)

    def default_target(self, text: str) -> str | None:
        """The default target of `trace`, `explain` and `gradients`: the model's own translation."""
        return self.task.own_target(self.network, text)

    def _target(self, text: str, target: str | None) -> str | None:
        return self.default_target(text) if target is None else target

    def _typed(self, text: Input) -> str:
        return text if isinstance(text, str) else self.task.text_of_row(text)

    def _example(self, text: Input, target: str | None) -> Example:
        text = self._typed(text)
        return self.task.example(text, self._target(text, target))

    # ---- saving ----

    def save(self, folder: str | Path) -> None:
        """Write the model folder."""
        model_folder.save(self._bundle, Path(folder), f"# {self.task.name} model\n")

    def export(
        self,
        format: str,
        folder: str | Path,
        *,
        overwrite: bool = False,
        licence: str = "",
        int8: bool = False,
        trace: bool = False,
        verify: bool = False,
    ) -> Exported:
        """Write the model for another tool: ctranslate2, gguf, huggingface or onnx.

        The returned notes describe changes to the weights. A model that the tool does not support
        is rejected with an error. Every export is loaded again and compared before the folder is
        created. overwrite: replace a folder that is not empty. licence: for the model card. For
        onnx only: int8: weights in 8 bits; trace: make every trace point an output; verify: require
        the comparison with onnxruntime.
        """
        from translucid.interop.export.card import about
        from translucid.interop.export.exporting import export
        from translucid.interop.export.onnx.folder import OnnxOptions

        name = Path(folder).name
        return export(
            self._bundle, format, Path(folder), about(self.folder, name, licence),
            overwrite=overwrite, options=OnnxOptions(int8, trace, verify),
        )  # fmt: skip

    def summary(self, length: int = 128) -> str:
        """A table of the model's parts: shape, parameters, fraction, and FLOPs per token at this
        length."""
        return self.network.summary(length)

    def _repr_html_(self) -> str:
        from translucid.see.display import model_html

        facts = [("task", self.task.name), ("device", str(next(self.network.parameters()).device))]
        return model_html(repr(self), self.network, facts)

    def __repr__(self) -> str:
        size = self.network.parameters_count
        return f"Model(task={self.task.name!r}, parameters={size:,})"


def with_threshold(model: Model, threshold: float | None) -> Model:
    """A copy of a multi-label classifier with a different threshold; None: unchanged."""
    task: Classify = expect(model.task, "classify")
    if threshold is None:
        return model
    twin, changed = copy(model), copy(task)
    changed.reading = task.reading.with_threshold(threshold)
    twin.task = changed
    return twin


def with_spans(model: Model, spans: SpanDecoding | None) -> Model:
    """A copy of a tagger with a different decoding.spans; None: unchanged."""
    expect(model.task, "tag")
    if spans is None:
        return model
    twin, decoding = copy(model), model._bundle.decoding | {"spans": spans}
    twin._bundle = replace(model._bundle, decoding=decoding)
    twin.task = task_of(twin._bundle)
    return twin


def with_thresholds(model: Model, thresholds: Mapping[str, float]) -> Model:
    """A copy of a classifier of table rows with different decoding.thresholds."""
    expect(model.task, "table")
    twin = copy(model)
    decoding = model._bundle.decoding | {"thresholds": dict(thresholds)}
    twin._bundle = replace(model._bundle, decoding=decoding)
    twin.task = task_of(twin._bundle)
    return twin


def load(
    folder: str | Path, device: str = "cpu", *, say: Callable[[str], None] = lambda line: None,
    verify: bool = True,
) -> Model:  # fmt: skip
    """Load a model: a run or model folder, or a model of another tool.

    folder: a folder that training wrote, a folder in Hugging Face's layout, a .gguf file, a .bin
    file of llama2.c, `hf:org/name` on the hub, or `demo:translate`, which comes with the package.
    device: cpu, cuda, or auto (a GPU if there is one). say: receives notes on an imported model.
    verify: when a folder in Hugging Face's layout is opened for the first time and transformers is
    installed, compare token ids and answers; a difference is an error.
    """
    chosen = str(pick_device(device))
    if shipped_models.is_shipped_name(folder):
        folder = shipped_models.find(folder)
    if model_folder.is_model_folder(Path(folder)):
        return Model(model_folder.load(folder, chosen), Path(folder))
    from translucid.interop.hub import fetched
    from translucid.interop.importing import load as load_any

    folder = fetched(folder)
    return Model(load_any(folder, chosen, say, verify=verify), folder)
