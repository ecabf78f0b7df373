"""The object people hold: a trained model that translates, labels, writes, and can be seen into."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from translucid import shipped_models
from translucid.core.device import pick_device
from translucid.core.errors import ConfigError, InputError, TraceBudgetError
from translucid.core.renamed import is_now, refuse_old
from translucid.core.trace import DEFAULT_BUDGET
from translucid.core.untrusted_files import read_lines
from translucid.fast.precision import Precision, prepare
from translucid.models.sequence_config import SequenceConfig
from translucid.see import INTEGRATION_STEPS
from translucid.tasks import model_folder
from translucid.tasks.expect import expect, several
from translucid.tasks.generator import Generator
from translucid.tasks.model_folder import task_of

# Methods import what they need when they are called: most programs never look into a model, score
# it or export it, and need not wait for the code that does.
if TYPE_CHECKING:
    from torch import Tensor

    from translucid.core.trace import Edit
    from translucid.data.readers.loading import Columns
    from translucid.data.spans import Span
    from translucid.data.tokenizers.tokenizer import Tokenizer
    from translucid.interop.export.exporting import Exported
    from translucid.runs.recipe.examples import Part
    from translucid.runs.recipe.scoring import ScoringSettings
    from translucid.see.ablation import Ablation
    from translucid.see.embedding_change import EmbeddingChange
    from translucid.see.gradients import Gradients
    from translucid.see.hardest import Measured
    from translucid.see.pictures import Bars, Heat
    from translucid.see.reading import Reading
    from translucid.see.saliency import Method, Saliency, Unit
    from translucid.see.tables import Side
    from translucid.see.walk.explanation import Explanation
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
    from translucid.tasks.tag import Tag

Options = ParamSpec("Options")
Result = TypeVar("Result")


def _generates(
    method: Callable[Concatenate[Generator, Options], Result],
) -> Callable[Concatenate[Model, Options], Result]:
    """The same method of a model, which its generator carries out."""

    @wraps(method)
    def of_model(self: Model, /, *args: Options.args, **options: Options.kwargs) -> Result:
        refuse_old(options)
        return method(self.generator, *args, **options)

    return of_model


class Model:
    """A bundle in use. Made by `tl.train` or `tl.load`.

    Its methods change neither the model nor the process, so that several threads may call them at
    once.

    Where one looks into it, `text` is what the model reads. `target` is what it should say: a
    translation (by default its own), a label, a tag for each word, numbers; a language model needs
    none.
    """

    def __init__(self, held: Bundle, folder: Path | None = None) -> None:
        self.network = held.network
        self.folder = folder  # that it was read from
        self.facts = held.facts
        self.task: Task[Any, Any] = task_of(held)
        self._bundle = held
        self._generator: Generator | None = None

    # ---- translators and language models ----

    translate = _generates(Generator.translate)
    decode = _generates(Generator.decode)
    search = _generates(Generator.search)
    score = _generates(Generator.score)
    scores = _generates(Generator.scores)
    generate = _generates(Generator.generate)
    stream = _generates(Generator.stream)
    apart = _generates(Generator.apart)

    @property
    def generator(self) -> Generator:
        """What writes, if this model does."""
        if self._generator is None or self._generator.network is not self.network:
            self._generator = Generator(self.task, self.network)
        return self._generator

    @property
    def output_tokenizer(self) -> Tokenizer:
        """The tokenizer of what the model writes."""
        return self.generator.tokenizer

    def prepared(self, precision: Precision = "auto") -> Self:
        """The same model, packed for its processor or in other numbers: see `precision.prepare`. It
        writes; it cannot be saved."""
        twin = copy(self)
        twin.network, twin._generator = prepare(self.network, precision), None
        return twin

    # ---- the other tasks ----

    def classify(self, texts: Sequence[str], *, threshold: float | None = None) -> list[Any]:
        """The likeliest label of each text, as `Label`. An opened model may be of another kind: one
        that gives several labels at once answers with `Labels`, those above `threshold` (0.5) and
        the probability of each; one that gives a score with `LabelScore`."""
        task: Classify = expect(self.with_threshold(threshold).task, "classify")
        return task.predict_lines(self.network, several(texts))

    def with_threshold(self, threshold: float | None) -> Self:
        """The same classifier with another threshold for several labels at once; None: as it is."""
        task: Classify = expect(self.task, "classify")
        if threshold is None:
            return self
        twin, changed = copy(self), copy(task)
        changed.reading = task.reading.with_threshold(threshold)
        twin.task = changed
        return twin

    def tag(self, texts: Sequence[str], *, spans: SpanDecoding | None = None) -> list[list[Span]]:
        """The labelled spans of each text, by character. spans: how tags are chosen, a value of
        the key decoding.spans; not given: as the model was trained, and free if it was opened."""
        task: Tag = expect(self.with_spans(spans).task, "tag")
        return task.predict_lines(self.network, several(texts))

    def with_spans(self, spans: SpanDecoding | None) -> Self:
        """The same tagger with another value of the key decoding.spans; None: as it is."""
        expect(self.task, "tag")
        if spans is None:
            return self
        twin, decoding = copy(self), self._bundle.decoding | {"spans": spans}
        twin._bundle = replace(self._bundle, decoding=decoding)
        twin.task = task_of(twin._bundle)
        return twin

    def fill(self, text: str, k: int = 5) -> list[list[Filling]]:
        """The k likeliest tokens at each mask of a text, such as "The [MASK] barks."; of a masked
        language model."""
        task: Fill = expect(self.task, "fill")
        return task.predict_lines(self.network, [text], k)[0]

    def embed(self, texts: Sequence[str]) -> Tensor:
        """The embedding of each text, on the CPU; of an embedding model. (texts, dimensions)"""
        task: Embed = expect(self.task, "embed")
        return task.embed(self.network, several(texts))

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> Tensor:
        """The cosine between the embeddings of every two of them. (texts, others)"""
        task: Embed = expect(self.task, "embed")
        return task.similarity(self.network, several(texts), several(others))

    def nearest(self, text: str, texts: Sequence[str], k: int = 5) -> list[Neighbour]:
        """Those of the texts whose embeddings are most like that of `text`, best first."""
        from translucid.tasks.embed import nearest

        return nearest(self.similarity([text], texts)[0], texts, k)

    def embedding_change(self, before: Model, texts: Sequence[str]) -> EmbeddingChange:
        """Which pairs of the texts lie nearer here than in another embedding model, such as the one
        that this was tuned from, and which lie further apart."""
        from translucid.see.embedding_change import embedding_change

        if len(several(texts)) < 2:
            raise InputError(f"{len(texts)} text makes no pair; give two or more")
        return embedding_change(texts, before.embed(texts), self.embed(texts))

    def predict(
        self, inputs: Sequence[str] | Sequence[Sequence[float]] | Sequence[Mapping[str, float]]
    ) -> list[Any]:
        """The answer to each line of text, whatever the task; of a regressor, also the outputs for
        each row of numbers, by place or by the names of their columns."""
        lines = [line for line in several(inputs) if isinstance(line, str)]
        if lines and len(lines) == len(inputs):
            return self.task.predict_lines(self.network, lines)
        task: Regress = expect(self.task, "regress")
        named = self.columns.get("input", ())
        items = [task.row_item(row, named, f"row {n}") for n, row in enumerate(inputs, start=1)]
        return task.predict(self.network, items)

    def input_notes(self, texts: Sequence[str] | Sequence[Sequence[str]]) -> list[InputNote]:
        """Of each text, whether it is empty, and what of it the vocabulary lacks, so that it is
        read as <unk>: an answer to it says little."""
        from translucid.tasks.input_notes import note_of

        return [note_of(self.task, text) for text in texts]

    # ---- how well it does ----

    def evaluate(
        self,
        *files: str | Sequence[str],
        say: Callable[[str], None] = lambda line: None,
        **options: Any,
    ) -> Score:
        """Scores on a file (for translation, two) in the format of the training data; without one,
        on the test data of the model's run, which gives the number of its test.json.

        All is read and scored as in the run. `options` change that: the keys of a recipe's
        sections data and decoding that decide a score of this task, such as text_column or
        context; others are refused. `say` is told, line by line, what was read, what was left
        out, and what decides the score.
        """
        from translucid.tasks.base import check_length
        from translucid.tasks.in_batches import reporting

        self.task.check_files()
        settings = self.settings(**options)
        say(settings.line())
        items, coverage = self._limited(files, None, say, options)
        task = self.task
        if settings.changed.keys() & {*task.decoding_keys}:
            task = task_of(replace(self._bundle, decoding=settings.decoding.model_dump()))
        for row in task.as_evaluated(items):
            where = f"context = {settings.decoding.context}, row {row.line}"
            check_length(max(task.sizes(row)), self.context_length, where)
        with reporting(say):
            return replace(task.evaluate(self.network, items), coverage=coverage)

    def settings(self, **options: Any) -> ScoringSettings:
        """How examples are read and scored: as in the model's run, but for the options."""
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
        """What the model loses on the examples of files without each of its parts.

        of: only these kinds, such as heads, layers, gates. metric: also the task's metric. options:
        as of `evaluate`.
        """
        from translucid.see.ablation import ablate
        from translucid.see.switches import choose, switches

        known = switches(self.network)
        chosen = known if of is None else choose(known, of)
        items = self.items(*files, limit=limit, **options)
        return ablate(self.network, self.task, items, chosen, metric=metric)

    def items(
        self,
        *files: str | Sequence[str],
        limit: int | None = None,
        say: Callable[[str], None] = lambda line: None,
        **options: Any,
    ) -> Sequence[Any]:
        """The examples of files as the task wants them, or the first so many; read and refused as
        `evaluate` does."""
        return self._limited(files, limit, say, options)[0]

    def _limited(
        self,
        files: Sequence[str | Sequence[str]],
        limit: int | None,
        say: Callable[[str], None],
        options: Mapping[str, Any],
    ) -> tuple[Sequence[Any], Coverage]:
        """The examples, and how many they are; long ones as `classify` and `tag` read them."""
        from translucid.data.readers.loading import Loading
        from translucid.runs.recipe.scoring import ScoredExamples
        from translucid.tasks.long_texts import text_limit

        data, loading = self.settings(**options).data, Loading(expected=self._bundle.columns)
        examples = ScoredExamples(self._bundle, self.folder)
        records, name = examples.records(files, data, limit, say, loading=loading)
        self.task.check_labels(records, self._bundle.labels, name)
        row = min(self.context_length or data.max_length, data.max_length)
        items = self.task.held_out_items(records, row)
        if "max_length" not in {**self._bundle.data, **options}:  # an older run, or another tool's
            most = text_limit(self.network, getattr(self.task, "max_length", None))
            data = data.model_copy(update={"max_length": most or sys.maxsize})
        items, coverage = self.task.limited(items, data, "test", say)
        for item in items:
            self.task.check_item(item, f"{name}:{item.line}", self.network)
        unread = {} if self.task.running_text else loading.lost
        return items, coverage.with_unread(unread)

    def texts(
        self, *files: str | Sequence[str], limit: int | None = None, part: Part = "test"
    ) -> list[tuple[str, str | None]]:
        """The examples of files, or of a part of the run's data, as people type them: each a text
        and the right answer, which `trace`, `gradients` and `saliency` take."""
        from translucid.runs.recipe.scoring import ScoredExamples

        data = self.settings().data
        examples = ScoredExamples(self._bundle, self.folder)
        records, _ = examples.records(files, data, limit, lambda line: None, limit, part)
        return [(record.asked, record.answer) for record in records]

    def hardest(self, *files: str | Sequence[str], limit: int | None = None) -> list[Measured]:
        """The same examples with their losses, the largest first."""
        from translucid.see.hardest import hardest

        return hardest(self.network, self.task, self.texts(*files, limit=limit))

    @property
    def history(self) -> list[dict[str, Any]]:
        """What was computed while it was trained: the lines of its run's metrics.jsonl, one for
        each line of progress and each evaluation."""
        from translucid.runs.recipe.scoring import run_of

        run = run_of(self.folder, "metrics.jsonl")
        if run is None:
            raise InputError(
                "this model is not in a run folder, whose metrics.jsonl would tell its history; "
                "open it from there: tl.load('runs/...')"
            )
        return read_lines(run / "metrics.jsonl")

    # ---- what can be seen of it ----

    def trace(
        self,
        text: str,
        target: str | None = None,
        *,
        keep: str | Sequence[str] = "*",
        edit: Mapping[str, Edit] | None = None,
        budget_bytes: int | None = DEFAULT_BUDGET,
    ) -> Reading:
        """Every intermediate of reading a text: by name, and as pictures."""
        from translucid.see.reading import read

        return read(
            self.network, self.task, text, self.target_for(text, target),
            keep=keep, edit=edit, budget_bytes=budget_bytes,
        )  # fmt: skip

    def explain(
        self,
        text: str,
        target: str | None = None,
        *,
        layer: int | None = None,
        head: int | None = None,
        top: int = 5,
        budget_bytes: int | None = DEFAULT_BUDGET,
    ) -> Explanation:
        """The walk from a text to the answer, part by part, as `translucid explain` prints it.

        layer: this one, closer. head: one head of attention. top: how many answers to show.
        budget_bytes: how much may be kept of what the model computes; None means no limit.
        """
        from translucid.see.walk.explanation import explanation

        self.task.check_line(text, "the text", self.network)
        try:
            reading = self.trace(text, target, budget_bytes=budget_bytes)
        except TraceBudgetError as error:  # a walk needs every point
            remedy = "explain a part of the text, or raise budget_bytes"
            raise TraceBudgetError(error.fact, remedy) from None
        return explanation(reading, layer, head, top)

    def gradients(
        self,
        text: str,
        target: str | None = None,
        *,
        of: int | None = None,
        keep: str | Sequence[str] = "*",
        budget_bytes: int | None = DEFAULT_BUDGET,
    ) -> Gradients:
        """The gradient of the loss of one text, at every weight and at every point of the trace.
        of: the place of one target, such as -1; by default all. keep, budget_bytes: as in trace."""
        from translucid.see.gradients import gradients

        return gradients(
            self.network, self.task, self._example(text, target),
            of=of, keep=keep, budget_bytes=budget_bytes,
        )  # fmt: skip

    def saliency(
        self,
        text: str,
        target: str | None = None,
        *,
        of: int | str | None = None,
        method: Method = "gradient",
        steps: int = INTEGRATION_STEPS,
        unit: Unit = "logit",
    ) -> Saliency:
        """How much each word counted for one answer: of a class, or of the word or tag `of`, by
        default the likeliest class or the last word."""
        from translucid.see.saliency import saliency

        return saliency(
            self.network, self.task, self._example(text, target),
            of=of, method=method, steps=steps, unit=unit,
        )  # fmt: skip

    def saliency_map(
        self,
        text: str,
        target: str | None = None,
        *,
        method: Method = "gradient",
        steps: int = INTEGRATION_STEPS,
        unit: Unit = "logit",
    ) -> Heat:
        """The same for all answers at once."""
        from translucid.see.saliency import saliency_map

        return saliency_map(
            self.network, self.task, self._example(text, target),
            method=method, steps=steps, unit=unit,
        )  # fmt: skip

    def neighbours(self, word: str, k: int = 8, *, side: Side = "source") -> Bars:
        """The words whose embeddings point most nearly where this word's does."""
        from translucid.see.tables import neighbours

        tokenizers = self._bundle.tokenizers
        return neighbours(
            self.network, tokenizers.get(side) or next(iter(tokenizers.values())), word, k,
            side=side,
        )  # fmt: skip

    def positions(self, length: int = 64, *, gram: bool = False, side: Side = "source") -> Heat:
        """How each position is told apart; with `gram`, how alike every two are."""
        from translucid.see.tables import position_gram, position_table

        return (position_gram if gram else position_table)(self.network, length, side=side)

    def studio(
        self, text: str | None = None, *, view: str = "flow", height: int = 640,
        compare_with: Sequence[Model] = (), **address: str,
    ) -> Any:  # fmt: skip
        """A view of the studio in Jupyter or marimo: flow, attention, recurrent, decode, whatif,
        train, lesson, data, or compare, with the models `compare_with`. `address`: further keys
        of the page's address, such as at, head, pin, theme. Needs the extra [notebook]."""
        if "beside" in address:
            raise InputError(is_now("beside", "compare_with"))
        try:
            from translucid.studio.widget import widget
        except ImportError as error:
            raise ConfigError(
                f"model.studio needs the package {error.name}; install it with: "
                "pip install 'translucid[notebook]'"
            ) from error
        return widget(self, text, view=view, height=height, compare_with=compare_with, **address)

    # ---- what it can be asked ----

    @property
    def context_length(self) -> int | None:
        """How many tokens the model can read; None: as many as memory holds."""
        config = self.network.config
        return config.context_length if isinstance(config, SequenceConfig) else None

    @property
    def columns(self) -> dict[str, Columns]:
        """Which columns of its training data the model has read, by role: names, or numbers."""
        return self._bundle.columns

    def check_task(self, name: str) -> None:
        """Refuse what this model was not trained for, before anything is read."""
        if self.task.name != name:
            expect(self.task)

    def check_text(self, text: str, where: str) -> None:
        """Refuse a text that the model cannot read; `where` begins the message."""
        self.task.check_line(text, where, self.network)

    def read_row(self, text: str, where: str) -> list[float]:
        """The numbers of a line, separated by commas or spaces; `where` begins a message."""
        task: Regress = expect(self.task, "regress")
        return list(task.read_line(text, where, self.network).inputs)

    def target_for(self, text: str, target: str | None) -> str | None:
        """What was given, or what a translator writes itself."""
        return self.task.own_target(self.network, text) if target is None else target

    def _example(self, text: str, target: str | None) -> Example:
        return self.task.example(text, self.target_for(text, target))

    # ---- the model itself ----

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
        """Write the model for another tool: ctranslate2, gguf, huggingface or onnx. What was done
        to the weights is in the notes of what is returned; a model that the tool cannot compute is
        refused. overwrite: replace a folder that is not empty. licence: for the model card.

        Of onnx alone: int8: weights in 8 bits; trace: every point of the trace is an output;
        verify: require the comparison with onnxruntime. Every export is opened again and compared
        before anything is written under its name."""
        from translucid.interop.export.card import about
        from translucid.interop.export.exporting import export
        from translucid.interop.export.onnx.folder import OnnxOptions

        name = Path(folder).name
        return export(
            self._bundle, format, Path(folder), about(self.folder, name, licence),
            overwrite=overwrite, options=OnnxOptions(int8, trace, verify),
        )  # fmt: skip

    def summary(self, length: int = 128) -> str:
        return self.network.summary(length)

    def _repr_html_(self) -> str:
        from translucid.see.display import model_html

        facts = [("task", self.task.name), ("device", str(next(self.network.parameters()).device))]
        return model_html(repr(self), self.network, facts)

    def __repr__(self) -> str:
        size = self.network.parameters_count
        return f"Model(task={self.task.name!r}, parameters={size:,})"


def load(
    folder: str | Path, device: str = "cpu", *, say: Callable[[str], None] = lambda line: None,
    verify: bool = True,
) -> Model:  # fmt: skip
    """The model in a folder that training wrote, or one that another tool has made: a folder in
    Hugging Face's layout, a .gguf file, a .bin file of llama2.c, `hf:org/name`, a name on the
    hub, or `demo:translate`, one that comes with the package. device: cpu, cuda, or auto, a GPU if
    there is one. say: receives notes on a foreign model, a line each. verify: when a folder in
    Hugging Face's layout is opened for the first time and transformers is installed, compare ids
    and answers with it; a difference is an error."""
    chosen = str(pick_device(device))
    if shipped_models.is_shipped_name(folder):
        folder = shipped_models.find(folder)
    if model_folder.is_model_folder(Path(folder)):
        return Model(model_folder.load(folder, chosen), Path(folder))
    from translucid.interop.hub import fetched
    from translucid.interop.importing import load as load_any

    folder = fetched(folder)
    return Model(load_any(folder, chosen, say, verify=verify), folder)
