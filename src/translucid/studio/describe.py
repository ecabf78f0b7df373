"""What the page is told about a model: its sizes, what its points mean, what can be switched."""

from functools import cache
from typing import Any

from translucid.core.catalogue import CATALOGUE, formula
from translucid.core.errors import InputError
from translucid.models.mlp import MLPConfig
from translucid.models.perceptron import PerceptronConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer import TransformerConfig
from translucid.see.render.mathml import mathml
from translucid.studio.opened import Opened
from translucid.studio.plane import PROBLEMS
from translucid.studio.run_follower import RunFollower
from translucid.tasks.fill import MaskedTokens
from translucid.tasks.outputs import Outputs, Values


def describe_model(opened: Opened) -> dict[str, Any]:
    model = opened.model
    config, outputs = model.network.config, model.task.outputs
    description: dict[str, Any] = {
        "m": opened.key, "name": opened.name, "task": model.task.name,
        "parameters": model.network.parameters_count, "family": _family(config),
        "config": config.model_dump(mode="json"),
        "outputs": outputs.kind, "generates": outputs.tokenizer is not None,
        "tuned": "start" in model.facts,
        "examples": examples(opened), "standardised": _standardised(outputs),
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
    if isinstance(config, SequenceConfig):
        description["shape"] = config.shape
    if model.facts.get("plane") in PROBLEMS:  # two inputs: it can be trained on the page
        kind = "perceptron" if isinstance(config, PerceptronConfig) else "mlp"
        description["plane"] = {"kind": kind, "problem": model.facts["plane"]}
    if isinstance(outputs, MaskedTokens):
        description["mask"] = outputs.mask
    return description | ({"labels": list(outputs.labels)} if outputs.labels else {})


def examples(opened: Opened) -> list[str]:
    """Texts to begin with: of the model's own data, where those are noted; else of its task."""
    facts = opened.model.facts
    own = facts.get("examples", [facts.get("example")])
    texts = [text for text in own if isinstance(text, str) and text.strip()]
    samples = [] if "examples" in facts and texts else opened.model.task.samples
    known = [*texts, *samples]
    config = opened.model.network.config
    zeros = [" ".join(["0"] * config.inputs)] if isinstance(config, MLPConfig) else []
    return [text for text in known if _reads(opened, text)] or zeros or known


def _reads(opened: Opened, text: str) -> bool:
    """Whether the model's task takes this text: a sample may have other numbers than the model."""
    try:
        opened.model.task.check_line(text, "text", opened.model.network)
    except InputError:
        return False
    return True


def _standardised(outputs: Outputs) -> bool:
    """Whether the network's values have other units than the data and the answer."""
    return isinstance(outputs, Values) and outputs.scale is not None


def describe_run(m: str, run: RunFollower) -> dict[str, Any]:
    """A run that has not saved a model yet: there is only its training to look at."""
    return {
        "m": m, "name": run.name, "task": run.about()["task"], "trains": True, "unopened": True,
        "family": "", "config": {}, "parameters": 0, "examples": [], "switches": [],
    }  # fmt: skip


def _family(config: object) -> str:
    if isinstance(config, TransformerConfig):
        return "transformer"
    return config.cell if isinstance(config, RecurrentConfig) else "mlp"


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Every kind of point, by the last two words of its name."""
    return {
        key: {
            "symbol": mathml(point.symbol),
            "meaning": point.meaning,
            "axes": point.axes,
            "formula": mathml(formula(key)) if point.formula else "",
        }
        for key, point in CATALOGUE.items()
    }
