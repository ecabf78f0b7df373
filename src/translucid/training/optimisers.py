"""Optimizers by name, and schedules as plain functions of the step."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import torch
from torch import nn

from translucid.training.muon import Muon

OptimizerName = Literal["adamw", "adam", "sgd", "muon"]
ScheduleName = Literal["constant", "linear", "cosine", "inverse_sqrt", "wsd"]


Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def _lean(kind: type[Kind]) -> type[Kind]:
    """The same without what keeps torch's compiler away from its methods: nobody compiles ours, and
    to keep it away torch imports it, which takes two seconds."""
    names = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    methods["step"] = torch.no_grad()(methods["step"])
    return type(kind.__name__, (kind,), methods)


_Adam, _AdamW = _lean(torch.optim.Adam), _lean(torch.optim.AdamW)
_SGD, _Muon = _lean(torch.optim.SGD), _lean(Muon)


def make_optimizer(
    model: nn.Module,
    name: OptimizerName,
    *,
    learning_rate: float,
    weight_decay: float,
    momentum: float = 0.9,
    betas: tuple[float, float] = (0.9, 0.98),
    factors: Mapping[str, float] | None = None,
    decay_embeddings: bool = False,
) -> list[torch.optim.Optimizer]:
    """One optimizer, or two: Muon moves matrices only, so AdamW moves the rest.

    Vectors (biases, gains) and embeddings do not decay: they are few, and shrinking them shrinks
    what the model says rather than how freely it says it. But where most weights are embeddings
    and texts are few, decay_embeddings keeps a rare word from being learned by heart. factors: of
    the learning rate, by the name of a weight; the loop multiplies with that of a group.
    """
    matrices, rest = _split(model)
    tables = [p for p in rest if decay_embeddings and p.dim() == 2]
    chosen = {id(p) for p in tables}
    plain = [p for p in rest if id(p) not in chosen]
    by_factor = _by_factor(model, factors or {})

    def groups(decayed: list[nn.Parameter], plain: list[nn.Parameter]) -> list[dict[str, Any]]:
        return [group | {"weight_decay": weight_decay} for group in by_factor(decayed)] + [
            group | {"weight_decay": 0.0} for group in by_factor(plain)
        ]

    all_groups = groups(matrices + tables, plain)
    fused = all(p.device.type in ("cpu", "cuda") for p in model.parameters())
    match name:
        case "adamw":
            return [_AdamW(all_groups, lr=learning_rate, betas=betas, fused=fused)]
        case "adam":
            return [_Adam(all_groups, lr=learning_rate, betas=betas, fused=fused)]
        case "sgd":
            return [_SGD(all_groups, lr=learning_rate, momentum=momentum)]
        case "muon":
            both: list[torch.optim.Optimizer] = []
            if matrices:  # of a model that is partly frozen, one kind may be left alone
                of_matrices = groups(matrices, [])
                both.append(_Muon(of_matrices, lr=learning_rate, weight_decay=weight_decay))
            if rest:
                others = groups(tables, plain)
                both.append(_AdamW(others, lr=learning_rate, betas=betas, fused=fused))
            return both


def _by_factor(
    model: nn.Module, factors: Mapping[str, float]
) -> Callable[[list[nn.Parameter]], list[dict[str, Any]]]:
    """Parts a list of parameters by their factor, in the order in which factors come."""
    of = {id(p): factors.get(name, 1.0) for name, p in model.named_parameters()}

    def parted(parameters: list[nn.Parameter]) -> list[dict[str, Any]]:
        groups: dict[float, list[nn.Parameter]] = {}
        for p in parameters:
            groups.setdefault(of[id(p)], []).append(p)
        return [{"params": some, "factor": factor} for factor, some in groups.items()]

    return parted


def _split(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() == 2 and id(p) not in tables]
    chosen = {id(p) for p in matrices}
    return matrices, [p for p in trained if id(p) not in chosen]


def rate(step: int, name: ScheduleName, *, steps: int, warmup: int, cooldown: float = 0.2) -> float:
    """The fraction of the full learning rate at a step (from 0): up in a line, then as named.

    constant: stays. linear, cosine: down to 0 at the last step. inverse_sqrt: as 1 / sqrt(step),
    needing no last step. wsd: stays, then down in a line over the last fraction `cooldown`.
    """
    if step < warmup:
        return (step + 1) / warmup
    left = (steps - step) / max(steps - warmup, 1)  # 1 after the warm-up, 0 at the end
    match name:
        case "constant":
            return 1.0
        case "linear":
            return max(left, 0.0)
        case "cosine":
            return 0.5 * (1 - math.cos(math.pi * min(max(left, 0.0), 1.0)))
        case "inverse_sqrt":
            return math.sqrt(max(warmup, 1) / (step + 1))
        case "wsd":
            return min(1.0, max((steps - step) / max(cooldown * steps, 1), 0.0))
