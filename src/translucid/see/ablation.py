"""Ablation: how the loss and the metric on a data set change when parts are switched off."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, Edit, NoTrace, Trace
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork, Network
from translucid.parts.switch import Switch
from translucid.see.pictures import Axis, Bars, Grid, Heat, Numbers
from translucid.tasks.base import Task
from translucid.tasks.in_batches import summed_loss

MARKED = 3  # how many of the largest effects to mark, but at most a third of all parts
WRITTEN = 12  # with up to this many heads per layer, the picture shows the numbers


class Edited(Network):
    """A network with an edit applied in every run. It shares the weights of the original."""

    def __init__(self, network: Network, edit: Mapping[str, Edit]) -> None:
        super().__init__()
        self.config, self.network = network.config, network
        self.watched = Trace([], edit=edit)
        self.training = network.training  # evaluation restores this mode

    def forward(self, *positional: Any, **named: Any) -> Tensor:
        return self.network(*positional, **named, trace=self.watched)


class EditedGenerator(Edited, AutoregressiveNetwork[Any]):
    """A text-generating network with an edit applied at every decoding step."""

    network: AutoregressiveNetwork[Any]

    def __init__(self, network: AutoregressiveNetwork[Any], edit: Mapping[str, Edit]) -> None:
        Edited.__init__(self, network, edit)
        self.config, self.vocab = network.config, network.vocab

    @property
    def max_length(self) -> int | None:
        return self.network.max_length

    def start(self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE) -> Any:
        return self.network.start(inputs, capacity, self.watched)

    def step(
        self, tokens: Tensor, state: Any, mask: Tensor | None = None, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        assert trace is NO_TRACE, "an edited network has its own trace"
        return self.network.step(tokens, state, mask, self.watched)


def edited(network: Network, edit: Mapping[str, Edit]) -> Edited:
    """Wrap a network so that an edit is applied in every run; evaluate it like any other."""
    if isinstance(network, AutoregressiveNetwork):
        return EditedGenerator(network, edit)
    return Edited(network, edit)


@dataclass(frozen=True)
class AblationScore:
    """The loss and the metric of a network on a data set."""

    loss: float  # per target, without smoothing
    metric: float | None = None  # the task's metric; None if it was not requested


@dataclass(frozen=True)
class Ablation:
    """Scores of a network with all parts, and with each part switched off."""

    metric: str  # name of the metric
    items: int
    targets: int
    whole: AblationScore
    rows: tuple[tuple[Switch, AblationScore], ...]
    switches: int  # number of planned runs; more than rows if stopped early

    @property
    def complete(self) -> bool:
        return len(self.rows) == self.switches

    def change(self, measured: AblationScore) -> float:
        """The increase of the loss per target, compared with all parts on."""
        return measured.loss - self.whole.loss

    @property
    def largest(self) -> list[Switch]:
        """The parts with the largest effect on the loss."""
        sizes = [
            (abs(size), -place)
            for place, (_, measured) in enumerate(self.rows)
            if (size := self.change(measured)) and math.isfinite(size)
        ]
        most = sorted(sizes, reverse=True)[: _marked(len(self.rows))]
        return [self.rows[-place][0] for _, place in most]

    def table(self) -> str:
        """A text table: each part, the loss without it, the change, and the metric if measured."""
        with_metric = self.whole.metric is not None
        wide = max([len("switched off"), *(len(switch.name) for switch, _ in self.rows)])
        heads = ["loss", "change"] + ([self.metric, "change"] if with_metric else [])
        lines = [f"{'switched off':<{wide}}" + "".join(f"  {head:>9}" for head in heads)]
        lines.append(f"{'nothing':<{wide}}" + _cells(self.whole, None))
        largest = self.largest
        for switch, measured in self.rows:
            mark = " *" if switch in largest else ""
            lines.append(f"{switch.name:<{wide}}{_cells(measured, self.whole)}{mark}")
        if largest:
            lines.append(f"* the largest change{'s' * (len(largest) > 1)} in the loss")
        if with_metric and any(switch.kind == "masks" for switch, _ in self.rows):
            lines.append(
                "masks: while a model generates there are no later tokens, so opening the causal "
                "mask hardly changes a metric of the generated text; it does change the loss"
            )
        if not self.complete:
            lines.append(f"stopped after {len(self.rows)} of {self.switches}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """All values as plain data; None for a number that is not finite."""
        return {
            "metric": self.metric,
            "items": self.items,
            "targets": self.targets,
            "complete": self.complete,
            "whole": {"loss": _finite(self.whole.loss), "metric": _finite(self.whole.metric)},
            "switches": [
                {
                    "key": switch.key,
                    "name": switch.name,
                    "kind": switch.kind,
                    "layer": switch.layer,
                    "head": switch.head,
                    "loss": _finite(measured.loss),
                    "loss_change": _finite(self.change(measured)),
                    "metric": _finite(measured.metric),
                    "metric_change": _finite(_gap(measured.metric, self.whole.metric)),
                }
                for switch, measured in self.rows
            ],
        }

    def pictures(self) -> list[Heat | Grid | Bars]:
        """One picture of the heads and one of all other parts. A picture without parts is left
        out."""
        pictures = [self._heads(), self._bars()]
        return [picture for picture in pictures if picture is not None]

    def picture(self) -> Heat | Grid | Bars:
        """The picture of the heads if there are any, otherwise that of the other parts."""
        pictures = self.pictures()
        if not pictures:
            raise InputError("no part was switched off, so there is no picture to draw")
        return pictures[0]

    def _heads(self) -> Heat | Grid | None:
        parts: dict[str, dict[tuple[int, int], float]] = {}
        for switch, measured in self.rows:
            if switch.layer is not None and switch.head is not None:
                cells = parts.setdefault(switch.part, {})
                cells[switch.layer, switch.head] = self.change(measured)
        if not parts:
            return None
        sizes = [abs(v) for cells in parts.values() for v in cells.values() if math.isfinite(v)]
        most = max(sizes, default=0.0) or None
        title, note = "How much the loss grows without each head", self._note()
        heats = tuple(_heat(part, cells, most, note) for part, cells in parts.items())
        if len(heats) == 1:
            return replace(heats[0], title=f"{title}: {heats[0].title}")
        return Grid(title, heats, min(len(heats), 3), note)

    def _bars(self) -> Bars | None:
        rows = [(switch, measured) for switch, measured in self.rows if switch.head is None]
        if not rows:
            return None
        values = np.array([self.change(measured) for _, measured in rows])
        order = np.argsort(-np.nan_to_num(np.abs(values), posinf=0.0), kind="stable")[
            : _marked(len(rows))
        ]
        return Bars(
            "How much the loss grows without each part",
            f"change in the loss, which is {self.whole.loss:.3g} with all parts",
            tuple(switch.name for switch, _ in rows),
            values,
            self._note(),
            tuple(sorted(int(place) for place in order if values[place])),
        )

    def _note(self) -> str:
        stopped = "" if self.complete else f"; stopped after {len(self.rows)} of {self.switches}"
        return f"loss per target {self.whole.loss:.4g}, over {self.targets:,} targets{stopped}"


def ablate(
    network: Network,
    task: Task[Any, Any],
    items: Sequence[Any],
    switches: Sequence[Switch],
    *,
    metric: bool = True,
    progress: Callable[[Ablation], None] | None = None,
) -> Ablation:
    """Measure loss and metric on the items with all parts on, then with one part off at a time.

    metric: False to skip the task's metric, which for translation means translating all items once
    for each part. progress: called before each part is switched off and at the end, with the
    results so far.
    """
    if not items:
        raise InputError("there are no examples to measure on; pass at least one example")
    targets = sum(task.targets(item) for item in items)
    whole = measure(network, task, items, {}, metric=metric)
    known = Ablation(task.metric, len(items), targets, whole, (), len(switches))
    for switch in switches:
        if progress is not None:
            progress(known)
        measured = measure(network, task, items, switch.edit, metric=metric)
        known = replace(known, rows=(*known.rows, (switch, measured)))
    if progress is not None:
        progress(known)
    return known


def measure(
    network: Network,
    task: Task[Any, Any],
    items: Sequence[Any],
    edit: Mapping[str, Edit],
    *,
    metric: bool = True,
) -> AblationScore:
    """Compute the loss and the metric of a network with an edit."""
    model = edited(network, edit)
    loss = reached = None
    if metric or task.traits.loss_by_evaluating:
        numbers = task.evaluate(model, items).numbers
        loss, reached = numbers.get("loss"), numbers[task.metric]
    if loss is None:
        loss = summed_loss(model, items, task) / max(sum(task.targets(i) for i in items), 1)
    model.watched.check()
    return AblationScore(loss, reached if metric else None)


def _heat(part: str, cells: Mapping[tuple[int, int], float], most: float | None, note: str) -> Heat:
    layers, heads = (sorted({place[side] for place in cells}) for side in (0, 1))
    values: Numbers = np.full((len(layers), len(heads)), np.nan)
    for (layer, head), change in cells.items():
        if math.isfinite(change):
            values[layers.index(layer), heads.index(head)] = change
    texts: tuple[tuple[str, ...], ...] = ()
    if len(heads) <= WRITTEN:
        texts = tuple(tuple(_written(v) for v in line) for line in values)
    return Heat(
        part, values, Axis("layer", tuple(map(str, layers))), Axis("head", tuple(map(str, heads))),
        "signed", most, texts=texts, note=note,
    )  # fmt: skip


def _marked(rows: int) -> int:
    return min(MARKED, max(1, rows // 3))


def _written(change: float) -> str:
    return "" if math.isnan(change) else f"{change:+.3f}".replace("-", "\N{MINUS SIGN}")


def _cells(measured: AblationScore, whole: AblationScore | None) -> str:
    cells = [f"{measured.loss:.4f}", "" if whole is None else f"{measured.loss - whole.loss:+.4f}"]
    if measured.metric is not None:
        gap = None if whole is None else _gap(measured.metric, whole.metric)
        cells += [f"{measured.metric:.4g}", "" if gap is None else f"{gap:+.4g}"]
    return "".join(f"  {cell:>9}" for cell in cells).rstrip()


def _gap(metric: float | None, whole: float | None) -> float | None:
    return None if metric is None or whole is None else metric - whole


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
