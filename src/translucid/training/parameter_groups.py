"""Which weights are trained, and the learning-rate multiplier of each.

Patterns are shell globs over the names of weights or parts, where `*` also matches dots:
`encoder.*`, `*.layers.0`, `head`. Adapters (`*.lora.*`) match only patterns that contain "lora".
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from torch import nn

from translucid.core.errors import ConfigError, nearest
from translucid.training.config import TrainingConfig

_LAYER = re.compile(r"(?P<stack>.*?\b(?:encoder|decoder))\..*?(?:layers\.|_l)(?P<layer>\d+)")
_BELOW = re.compile(
    r".*?\b(?P<stack>encoder|decoder)\.(embedding|positions|segments|characters|embedding_norm)\b"
)
ADAPTER = ".lora."


def freeze(network: nn.Module, patterns: Sequence[str]) -> None:
    """Freeze the weights that match these patterns."""
    parameters = dict(network.named_parameters())
    for name in frozen(network, patterns):
        parameters[name].requires_grad_(False)


def frozen(network: nn.Module, patterns: Sequence[str]) -> set[str]:
    """The names of weights that match these patterns; raise an error if all weights do."""
    names = _names(network)
    chosen = {name for pattern in patterns for name in _matching(names, pattern, "freeze")}
    if chosen == set(names):
        raise ConfigError(
            f"training.freeze = {list(patterns)!r}: no weight is left to train; omit a "
            "pattern, for example that of the head"
        )
    return chosen


def rate_factors(network: nn.Module, config: TrainingConfig) -> dict[str, float]:
    """The learning-rate multiplier of each weight, by name."""
    names = _names(network)
    factors = dict.fromkeys(names, 1.0)
    if config.layer_decay is not None:
        depths = _depths(names)
        factors = {name: config.layer_decay ** depths[name] for name in names}
    for pattern, factor in config.learning_rates.items():
        for name in _matching(names, pattern, "learning_rates"):
            factors[name] *= factor
    return factors


def _names(network: nn.Module) -> dict[str, list[str]]:
    """All names of every weight. A weight that two parts share has two names."""
    first = {id(parameter): name for name, parameter in network.named_parameters()}
    names: dict[str, list[str]] = {name: [] for name in first.values()}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names[first[id(parameter)]].append(name)
    return names


def _matching(names: Mapping[str, Sequence[str]], pattern: str, key: str) -> list[str]:
    """The weights that match a pattern, by their own name or by that of a part that contains
    them."""
    chosen = [
        name
        for name, every in names.items()
        if (ADAPTER not in name or "lora" in pattern)
        and any(fnmatchcase(part, pattern) for one in every for part in _with_parts(one))
    ]
    if not chosen:
        known = {part for every in names.values() for one in every for part in _with_parts(one)}
        close = nearest(pattern.replace("*", ""), sorted(known))
        parts = ", ".join(sorted({name.partition(".")[0] for name in names}))
        hint = f"did you mean {' or '.join(close)}?" if close else f"the parts are {parts}"
        raise ConfigError(f"training.{key}: {pattern!r} matches no weight of the model; {hint}")
    return chosen


def _with_parts(name: str) -> list[str]:
    """A weight's name and the names of all parts that contain it: encoder.layers.0.norm.gain,
    encoder.layers.0.norm, encoder.layers.0, ..."""
    words = name.split(".")
    return [".".join(words[:count]) for count in range(len(words), 0, -1)]


def _depths(names: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The distance of each weight from the output in layers: 0 for the head, 1 for the last layer,
    most for the embedding (Clark et al. 2020, https://arxiv.org/abs/2003.10555)."""
    layers: dict[str, int] = {}
    for name in names:
        if match := _LAYER.match(name):
            stack = match["stack"]
            layers[stack] = max(layers.get(stack, 0), int(match["layer"]) + 1)
    depths = {}
    for name in names:
        stack = name.partition("coder.")[0] + "coder"
        if match := _LAYER.match(name):
            depths[name] = layers[match["stack"]] - int(match["layer"])
        else:
            depths[name] = layers.get(stack, 0) + 1 if _BELOW.match(name) else 0
    return depths
