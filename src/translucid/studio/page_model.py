"""The interface that the studio requires of a model, and facts about a model that do not depend on
a text."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from translucid.core.catalogue import CATALOGUE, describe, entry, formula
from translucid.core.errors import InputError
from translucid.core.trace import Edit, Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decoded import Decoded
from translucid.models.adapters import is_adapted
from translucid.models.base import Network
from translucid.models.lexicon import LexiconConfig
from translucid.models.linear import LinearConfig
from translucid.models.mlp import MLP, MLPConfig, Perceptron, PerceptronConfig
from translucid.models.ngram import NGramConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import TextConfig
from translucid.models.transformer import TransformerConfig
from translucid.parts.computation import formulas
from translucid.parts.feedforward import Dense
from translucid.parts.switch import Switch
from translucid.runs.fine_tuning.take_over import digest_of
from translucid.runs.recipe.examples import Part
from translucid.see.part_switches import at_strength, switches, together
from translucid.see.render.mathml import mathml
from translucid.see.trace_pictures import scale_of
from translucid.studio.plane import HIGH, LOW, PROBLEMS
from translucid.studio.query_values import clipped, hinted
from translucid.studio.run_follower import RunFollower
from translucid.tasks.base import Task
from translucid.tasks.example import Example
from translucid.tasks.fill import MaskedTokens
from translucid.tasks.outputs import Outputs, Values


class StudioModel(Protocol):
    """A trained model and its task."""

    network: Network
    task: Task[Any, Any]
    folder: Path | None  # the folder it was loaded from
    facts: dict[str, Any]  # scores, steps, an example from its data

    def examples(
        self, *files: str, limit: int | None = None, part: Part = "test"
    ) -> list[tuple[str, str | None]]: ...
    def default_target(self, text: str) -> str | None: ...
    @property
    def decode(self) -> Callable[..., list[Decoded]]: ...
    @property
    def generation_config(self) -> Callable[..., GenerationConfig]: ...
    @property
    def output_tokenizer(self) -> Tokenizer: ...


EDGES = 300  # maximum weights of a layer that the page draws as lines
MAPPED = 16  # maximum hidden neurons that the page draws as maps of the plane
GRID = 17  # points of such a map, along each axis
Load = Callable[[Path], StudioModel]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]  # names of points with their shapes

RECENT = 8  # number of texts whose examples and points are cached

as_mathml = cache(mathml)  # every layer has the same few formulas


@dataclass(frozen=True)
class PageModel:
    """A model opened in the studio, with cached facts about it."""

    key: str  # its key in page addresses: a, b, ...
    name: str  # name of its folder
    model: StudioModel

    @cached_property
    def switches(self) -> dict[str, Switch]:
        return {switch.key: switch for switch in switches(self.model.network)}

    @cached_property
    def adapted(self) -> bool:
        """Whether the model has LoRA adapters."""
        return is_adapted(self.model.network)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model's configuration and weights."""
        digest = hashlib.sha256(repr(self.model.network.config).encode())
        for name, value in self.model.network.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().float().cpu().contiguous().numpy())
        return digest.hexdigest()[:16]

    @cached_property
    def weights(self) -> str:
        """Digest of the weights, in the form in which a model fine-tuned from this one records
        it."""
        return digest_of(self.model.network)

    def began_from(self, other: "PageModel") -> bool:
        """Whether this model was fine-tuned from the other one, so that their units correspond."""
        start = self.model.facts.get("start")
        return isinstance(start, dict) and start.get("weights") == other.weights

    def points(self, shapes: Mapping[str, tuple[int, ...]]) -> list[dict[str, Any]]:
        """The points of a run for the page, with this model's formulas where they differ from the
        catalogue's."""
        return self._points(tuple(shapes.items()))

    @cached_property
    def _points(self) -> Callable[[Shapes], list[dict[str, Any]]]:
        return lru_cache(RECENT)(self._described)

    def _described(self, shapes: Shapes) -> list[dict[str, Any]]:
        own = formulas(self.model.network, tuple(name for name, _ in shapes))
        return [
            {
                "at": name, "shape": shape[1:], "axes": describe(name).axes[1:],
                "scale": scale_of(name),
                **({"formula": as_mathml(own[name])} if own[name] != formula(entry(name)) else {}),
            }
            for name, shape in shapes
        ]  # fmt: skip

    @cached_property
    def example(self) -> Callable[[str, str | None], Example]:
        """`task.example`, cached: it is needed again for every part that is switched off."""
        return lru_cache(RECENT)(self.model.task.example)

    def edit(self, keys: Sequence[str]) -> dict[str, Edit]:
        """The combined edit of these switches. KEY@50 reduces a head to 50 % of its strength."""
        return together(map(self._switch, keys))

    def _switch(self, text: str) -> Switch:
        key, at, percent = text.partition("@")
        if key not in self.switches:
            raise InputError(f"off: this model has no switch {hinted(key, self.switches)}")
        if not at:
            return self.switches[key]
        if not re.fullmatch("[0-9]{1,3}", percent) or int(percent) > 200:
            raise InputError(f"off: @ must be followed by 0 to 200 percent, not {clipped(percent)}")
        return at_strength(self.switches[key], int(percent) / 100)


def describe_model(opened: PageModel) -> dict[str, Any]:
    model = opened.model
    config, outputs = model.network.config, model.task.outputs
    description: dict[str, Any] = {
        "m": opened.key, "name": opened.name, "task": model.task.name,
        "parameters": model.network.parameters_count, "family": _family(config),
        "config": config.model_dump(mode="json"),
        "outputs": outputs.kind, "generates": outputs.tokenizer is not None,
        "tuned": "start" in model.facts,
        "examples": [as_opened(opened, text) for text in examples(opened)],
        "standardised": _standardised(outputs),
        "switches": [
            {
                "key": switch.key, "name": switch.name, "kind": switch.kind, "part": switch.part,
                "layer": switch.layer, "head": switch.head, "points": list(switch.edit),
                "sets": [
                    edit if isinstance(edit, float) else None for edit in switch.edit.values()
                ],
            }
            for switch in opened.switches.values()
        ],
    }  # fmt: skip
    if isinstance(config, TextConfig):
        description["shape"] = config.shape
    if model.facts.get("plane") in PROBLEMS:  # two inputs: the page can train it
        kind = "perceptron" if isinstance(config, PerceptronConfig) else "mlp"
        description["plane"] = {"kind": kind, "problem": model.facts["plane"]}
    if isinstance(config, MLPConfig | PerceptronConfig):
        description["edges"] = edges(model.network)
        description["maps"] = maps(model.network)
    if isinstance(outputs, MaskedTokens):
        description["mask"] = outputs.mask
    return description | ({"labels": list(outputs.labels)} if outputs.labels else {})


def edges(network: Network) -> dict[str, dict[str, Any]]:
    """The weights of small dense layers, by scope. The page's Flow view draws each weight as a
    line."""
    named: dict[str, tuple[str, Tensor]] = {
        f"{name}.dense": (f"{name}.linear.weight", layer.linear.weight)
        for name, layer in network.named_modules()
        if isinstance(layer, Dense)
    }
    if isinstance(network, Perceptron):
        named["perceptron"] = ("weight", network.weight[None])
    return {
        scope: {"name": name, "rows": weight.float().tolist()}
        for scope, (name, weight) in named.items()
        if weight.numel() <= EDGES
    }


def maps(network: Network) -> dict[str, Any] | None:
    """The values of each neuron over the plane, for a small network with two inputs; None for other
    networks. For each point there is one grid per neuron, with a row for each value of the second
    input. If the network standardises its inputs, the grids cover their mean plus or minus two
    standard deviations."""
    if not isinstance(network, MLP | Perceptron) or network.config.inputs != 2:
        return None
    if isinstance(network, MLP) and sum(network.config.hidden) > MAPPED:
        return None
    low, high = torch.full((2,), LOW), torch.full((2,), HIGH)
    if isinstance(network, MLP) and network.standardise is not None:
        mean, deviation = network.standardise.mean.float(), network.standardise.deviation.float()
        low, high = mean - 2 * deviation, mean + 2 * deviation
    ticks = torch.linspace(0, 1, GRID)
    second, first = torch.meshgrid(ticks, ticks, indexing="ij")
    plane = low + torch.stack([first, second], dim=-1).flatten(0, 1) * (high - low)
    traced = Trace(budget_bytes=None)
    with torch.no_grad():
        network(plane.to(next(iter(network.state_dict().values()))), trace=traced)
    return {
        "low": low.tolist(), "high": high.tolist(),
        "grids": {
            name: [
                [[round(value, 3) for value in row] for row in grid]
                for grid in traced[name].float().reshape(GRID, GRID, -1).movedim(-1, 0).tolist()
            ]
            for name in traced
        },
    }  # fmt: skip


def examples(opened: PageModel) -> list[str]:
    """Example texts: from the model's own data if the model records them, otherwise from its
    task."""
    facts = opened.model.facts
    own = facts.get("examples", [facts.get("example")])
    texts = [text for text in own if isinstance(text, str) and text.strip()]
    samples = [] if "examples" in facts and texts else opened.model.task.samples
    known = [*texts, *samples]
    config = opened.model.network.config
    inputs = config.inputs if isinstance(config, MLPConfig | LinearConfig) else None
    zeros = [" ".join(["0"] * inputs)] if inputs else []
    return [text for text in known if _reads(opened, text)] or zeros or known


def as_opened(opened: PageModel, text: str) -> str:
    """The text that the page opens with; for a language model, without its last third."""
    if opened.model.task.outputs.kind != "next_tokens":
        return text
    cut = text[: max(1, 2 * len(text) // 3)]
    return cut.rpartition(" ")[0] or cut


def _reads(opened: PageModel, text: str) -> bool:
    """Whether the model accepts this text; a task's sample may have the wrong number of inputs."""
    try:
        opened.model.task.check_line(text, "text", opened.model.network)
    except InputError:
        return False
    return True


def _standardised(outputs: Outputs) -> bool:
    """Whether the network's outputs are standardised, unlike the data and the answer."""
    return isinstance(outputs, Values) and outputs.scale is not None


def describe_run(m: str, run: RunFollower) -> dict[str, Any]:
    """Describe a training run that has not saved a model yet. The page can show only its
    training."""
    return {
        "m": m, "name": run.name, "task": run.about()["task"], "trains": True, "unopened": True,
        "family": "", "config": {}, "parameters": 0, "examples": [], "switches": [],
    }  # fmt: skip


def _family(config: object) -> str:
    if isinstance(config, TransformerConfig):
        return "transformer"
    if isinstance(config, LinearConfig | NGramConfig | LexiconConfig):
        return config.kind
    return config.cell if isinstance(config, RecurrentConfig) else "mlp"


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """All entries of the trace-point catalogue, by the last two components of their names."""
    return {
        key: {
            "symbol": mathml(point.symbol),
            "meaning": point.meaning,
            "axes": point.axes,
            "formula": mathml(formula(key)) if point.formula else "",
        }
        for key, point in CATALOGUE.items()
    }
