"""What can be seen of a model: the part of `Model` that is about looking into it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from translucid.models.base import Network, SequenceConfig
from translucid.see.ablation import Ablation, ablate
from translucid.see.gradients import Gradients, gradients
from translucid.see.pictures import Bars, Heat
from translucid.see.reading import Reading, read
from translucid.see.saliency import STEPS, Method, Saliency, Unit, saliency, saliency_map
from translucid.see.switches import choose, switches
from translucid.see.tables import Side, neighbours, position_gram, position_table
from translucid.tasks.base import Task, check_length
from translucid.tasks.example import Example
from translucid.tasks.language import Language
from translucid.tasks.translate import Translate
from translucid.trace import DEFAULT_BUDGET, Edit
from translucid.training.examples import check_known_labels, read_records
from translucid.training.recipe import DataConfig
from translucid.training.writing_model import WritingModel

ROW = 256  # tokens that a language model is scored on at once


class SeeingModel(WritingModel):
    """`text` is what a model reads. `target` is what it should say: a translation (by default its
    own), a label, a tag for each word, numbers; a language model needs none."""

    network: Network
    task: Task[Any, Any]

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
        return read(
            self.network, self.task, text, self.target_for(text, target),
            keep=keep, edit=edit, budget_bytes=budget_bytes,
        )  # fmt: skip

    def gradients(
        self, text: str, target: str | None = None, *, of: int | None = None
    ) -> Gradients:
        """The gradient of the loss of one text, at every weight and at every point of the trace.
        of: the place of one target, such as -1; by default all."""
        return gradients(self.network, self.task, self._example(text, target), of=of)

    def saliency(
        self,
        text: str,
        target: str | None = None,
        *,
        of: int | str | None = None,
        method: Method = "gradient",
        steps: int = STEPS,
        unit: Unit = "logit",
    ) -> Saliency:
        """How much each word counted for one answer: of a class, or of the word or tag `of`, by
        default the likeliest class or the last word."""
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
        steps: int = STEPS,
        unit: Unit = "logit",
    ) -> Heat:
        """The same for all answers at once."""
        return saliency_map(
            self.network, self.task, self._example(text, target),
            method=method, steps=steps, unit=unit,
        )  # fmt: skip

    def neighbours(self, word: str, k: int = 8, *, side: Side = "source") -> Bars:
        """The words whose embeddings point most nearly where this word's does."""
        tokenizers = self._bundle.tokenizers
        return neighbours(
            self.network, tokenizers.get(side) or next(iter(tokenizers.values())), word, k,
            side=side,
        )  # fmt: skip

    def positions(self, length: int = 64, *, gram: bool = False, side: Side = "source") -> Heat:
        """How each position is told apart; with `gram`, how alike every two are."""
        return (position_gram if gram else position_table)(self.network, length, side=side)

    def ablate(
        self,
        *files: str,
        of: Sequence[str] | None = None,
        metric: bool = False,
        limit: int | None = None,
        **data: Any,
    ) -> Ablation:
        """What the model loses on the examples of files without each of its parts.

        of: only these kinds, such as heads, layers, gates. metric: also the task's metric. data:
        keys of a recipe's data section.
        """
        found = switches(self.network)
        chosen = found if of is None else choose(found, of)
        items = self.items(*files, limit=limit, **data)
        return ablate(self.network, self.task, items, chosen, metric=metric)

    def items(
        self,
        *files: str,
        limit: int | None = None,
        say: Callable[[str], None] = lambda line: None,
        **data: Any,
    ) -> Sequence[Any]:
        """The examples of files as the task wants them, or the first so many; read and refused as
        `evaluate` does."""
        records = read_records(self.task.name, files, DataConfig(**data), say)
        if limit is not None and limit < len(records):
            say(f"the first {limit:,} of {len(records):,} examples")
            records = records[:limit]
        check_known_labels(self.task.name, records, self._bundle.labels, files[0])
        if isinstance(self.task, Language):
            return self.task.rows(records, min(self.longest or ROW, ROW))
        items = [self.task.encode(record) for record in records]
        for item in items:
            check_length(max(self.task.sizes(item)), self.longest, f"{files[0]}:{item.line}")
        return items

    @property
    def longest(self) -> int | None:
        """How many tokens the model can read; None: as many as memory holds."""
        config = self.network.config
        return config.longest if isinstance(config, SequenceConfig) else None

    def _example(self, text: str, target: str | None) -> Example:
        return self.task.example(text, self.target_for(text, target))

    def target_for(self, text: str, target: str | None) -> str | None:
        """What was given, or what a translator writes itself."""
        if target is None and isinstance(self.task, Translate):
            return self.translate([text])[0]
        return target
