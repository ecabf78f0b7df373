"""Classification of table rows: one label for numbers, categories, dates and missing values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.features import Columns
from translucid.data.readers.loading import Loading
from translucid.data.records import TableRow
from translucid.tasks.base import Score, Traits
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.choices import OneLabel
from translucid.tasks.class_report import ClassReport
from translucid.tasks.classify import class_sums, label_balance, majority, score_of
from translucid.tasks.example import Example
from translucid.tasks.findings import Finding
from translucid.tasks.in_batches import in_batches
from translucid.tasks.input_notes import in_short
from translucid.tasks.label_scores import Label
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.outputs import Outputs
from translucid.tasks.registry import task
from translucid.tasks.row_task import RowItem, RowTask
from translucid.tasks.score import Baseline, one_answer


@task
class Table(RowTask):
    """Classification of table rows, scored by accuracy, macro F1 and calibration."""

    name = "table"
    metric = "accuracy"
    higher_is_better = True
    shape, head = "", "classify"
    label_noun = "label"
    models = ("mlp", "linear")
    traits = Traits(
        row_columns=(),
        asks_about=("input",),
        baseline={"model": {"kind": "linear"}},
        cross_validated=True,
        suggested={
            "model": {"hidden": (128, 128), "dropout": 0.3},
            "training": {
                "steps": 600,
                "learning_rate": 3e-3,
                "weight_decay": 1.0,
                "batch_tokens": 128,
                "evaluate_every": 30,
                "patience": 8,
                "best_metric": "loss",
            },
        },
        data_keys=(
            "label_column", "missing_labels", "input_columns", "ignore_columns", "column_kinds",
            "decimal",
        ),
        decoding_keys=("thresholds",),
        task_keys=("label_smoothing", "class_weights"),
    )  # fmt: skip

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[TableRow]:
        from translucid.data.readers import read  # on demand: only needed to read files

        return read.read_rows(
            files[0], inputs=data.input_columns or None, label=data.label_column,
            ignored=data.ignore_columns or (), rule=data.rule, missing=data.missing_labels,
            loading=loading,
        )  # fmt: skip

    @classmethod
    def check_data(cls, parts: Mapping[str, Sequence[TableRow]]) -> list[Finding]:
        return [label_balance(parts["train"])]

    @classmethod
    def smallest_sizes(cls) -> dict[str, Any]:
        return {"inputs": 1, "outputs": 2, "head": "classify"}

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[TableRow]) -> dict[str, Any]:
        labels = {"outputs": len(resources.labels), "head": "classify"}
        return super().network_sizes(resources, train) | labels

    @classmethod
    def make(cls, resources: Resources) -> Self:
        made = WeightedTable if resources.class_weights else cls
        return made(
            Columns.read(resources.statistics["columns"]), resources.labels,
            smoothing=resources.smoothing, class_weights=resources.class_weights,
            thresholds=resources.decoding.thresholds,
        )  # type: ignore[return-value]  # fmt: skip

    def __init__(
        self,
        columns: Columns,
        labels: Sequence[str],
        *,
        smoothing: float = 0.0,
        class_weights: Sequence[float] = (),
        thresholds: Mapping[str, float] | None = None,
    ) -> None:
        """class_weights: the weight of each label in the loss; if empty, all weights are 1.
        thresholds: by label, the probability from which the label is predicted."""
        super().__init__(columns)
        self.labels, self.smoothing, self.class_weights = list(labels), smoothing, class_weights
        self.thresholds = dict(thresholds or {})
        for label in self.thresholds:
            if label not in self.labels:
                raise ConfigError(
                    f"decoding.thresholds: there is no label {label!r}; the labels are "
                    f"{', '.join(self.labels)}"
                )
        self._number = {label: i for i, label in enumerate(self.labels)}

    @property
    def label_names(self) -> Sequence[str]:
        return self.labels

    # ---- items and batches ----

    def targets_of(self, record: TableRow) -> tuple[float, ...]:
        return (self._number[record.label],)

    def collate(self, items: Sequence[RowItem]) -> Batch:
        targets = torch.tensor(list(map(_label, items)))
        lines = tuple(item.line for item in items)
        return Batch({"x": self.features(items)}, targets, sum(map(self.targets, items)), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = model(**batch.inputs).float()
        weights = torch.tensor(self.class_weights).to(logits) if self.class_weights else None
        return F.cross_entropy(
            logits, batch.targets, weight=weights, ignore_index=IGNORE, reduction="sum",
            label_smoothing=self.smoothing,
        )  # fmt: skip

    # ---- predictions ----

    def _rows(
        self, model: nn.Module, items: Sequence[RowItem]
    ) -> tuple[list[list[float]], list[float]]:
        """For each item, the probabilities of all labels and the loss of the correct one."""

        def act(batch: Batch) -> list[tuple[list[float], float]]:
            outputs = model(**batch.inputs).float()
            losses = self.outputs.losses(outputs, batch.targets)
            return list(zip(outputs.softmax(dim=-1).tolist(), losses.tolist(), strict=True))

        results = in_batches(model, items, self, act)
        return [row for row, _ in results], [loss for _, loss in results]

    def choose(self, row: Sequence[float]) -> int:
        """The index of the predicted label. A label with a threshold is predicted if its
        probability is at least the threshold; otherwise, the most probable of the other labels is
        predicted. Without a threshold, the most probable label is predicted."""
        for label, threshold in self.thresholds.items():
            place = self._number[label]
            if row[place] >= threshold:
                return place
            return max((n for n in range(len(row)) if n != place), key=row.__getitem__)
        return max(range(len(row)), key=row.__getitem__)

    def predict(self, model: nn.Module, items: Sequence[RowItem]) -> list[Label]:
        rows = self._rows(model, items)[0]
        return [Label(self.labels[n], row[n]) for row in rows for n in [self.choose(row)]]

    def answer_text(self, answer: Label) -> str:
        return answer.line()

    def answer_json(self, line: str, answer: Label) -> dict[str, Any]:
        return super().answer_json(line, answer) | answer.as_dict()

    @property
    def prediction_note(self) -> str:
        shown = (
            f"{label!r} is predicted from probability {threshold:g} (decoding.thresholds)"
            for label, threshold in self.thresholds.items()
        )
        return "; ".join(shown)

    def predict_columns(
        self, model: nn.Module, questions: Sequence[Any], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The label and its probability as table columns; with `probabilities`, also those of all
        other labels."""
        items = [self.row_item(row, f"row {n}") for n, row in enumerate(questions, start=1)]
        columns = []
        for row in self._rows(model, items)[0]:
            chosen = self.choose(row)
            every = {f"probability_{n}": p for n, p in zip(self.labels, row, strict=True)}
            own = Label(self.labels[chosen], row[chosen]).columns()
            columns.append(own | (every if probabilities else {}))
        return columns

    def followed(self, model: nn.Module, text: str, target: str | None) -> dict[str, float]:
        (row,), _ = self._rows(model, [self.row_item(text, "text")])
        return dict(zip(self.labels, row, strict=True))

    # ---- evaluation ----

    def evaluate(self, model: nn.Module, items: Sequence[RowItem]) -> Score:
        rows, losses = self._rows(model, items)
        chosen, gold = list(map(self.choose, rows)), list(map(_label, items))
        predicted, wanted = ([self.labels[n] for n in places] for places in (chosen, gold))
        chances = [row[n] for row, n in zip(rows, chosen, strict=True)]
        report = ClassReport.of(self.labels, gold, chosen, chances)
        score = score_of(predicted, losses, wanted)
        lines = [item.line for item in items]
        return replace(
            score,
            numbers=score.numbers | {"calibration_error": report.calibration_error},
            warnings=(
                *one_answer(predicted, gold, "row"),
                *in_short([item.remarks for item in items]),
            ),
            predictions=[
                Label(label, p).line() for label, p in zip(predicted, chances, strict=True)
            ],
            sums=lambda: class_sums(lines, predicted, losses, wanted),
            report=report,
        )

    def baseline(self, train: Sequence[RowItem], held_out: Sequence[RowItem]) -> Baseline:
        return majority(self.labels, [*map(_label, train)], [*map(_label, held_out)])

    # ---- tracing and the studio ----

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from a row as text. target: its label."""
        if target is not None and target not in self.labels:
            raise InputError(f"label {target!r}: the model knows {', '.join(self.labels)}")
        targets = () if target is None else (self._number[target],)
        return self.row_example(text, targets, self.labels)

    @property
    def outputs(self) -> Outputs:
        return OneLabel(self.labels)


def _label(item: RowItem) -> int:
    return int(item.targets[0]) if item.targets else IGNORE


class WeightedTable(Table):
    """Classification with class weights. Accuracy would favor the frequent labels, so the best
    model has the largest macro F1."""

    metric = "macro_f1"
