"""Optimizers by name, including Muon, and learning rate schedules."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

STEPS = 5  # steps of the Newton-Schulz iteration
A, B, C = 3.4445, -4.7750, 2.0315  # each step maps x to A x + B (x xᵀ) x + C (x xᵀ)² x
EPS = 1e-7


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon with adjust_lr_fn="match_rms_adamw", so that its steps are as long as
    AdamW's. Unlike torch's, it updates matrices of the same shape together, which saves kernel
    launches, and works in float32 on a CPU."""

    def __init__(
        self, params: list[Any], *, lr: float, weight_decay: float, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            same: dict[torch.Size, list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    same.setdefault(p.shape, []).append(p)
            for matrices in same.values():
                self._move(matrices, group["lr"], group["weight_decay"], group["momentum"])

    def _move(
        self, matrices: list[Tensor], lr: float, weight_decay: float, momentum: float
    ) -> None:
        gradients = [p.grad for p in matrices if p.grad is not None]
        means = [self._mean(p) for p in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        nesterov = torch._foreach_lerp(gradients, means, momentum)  # Nesterov
        turned = orthogonal(torch.stack(list(nesterov))).to(matrices[0].dtype)
        torch._foreach_mul_(matrices, 1 - lr * weight_decay)
        length = lr * 0.2 * math.sqrt(max(matrices[0].shape))
        torch._foreach_add_(matrices, list(turned.unbind()), alpha=-length)

    def _mean(self, p: Tensor) -> Tensor:
        if not self.state[p]:
            self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        return self.state[p]["momentum_buffer"]


def orthogonal(matrices: Tensor) -> Tensor:
    """Orthogonalise matrices (count, rows, columns): approximately U Vᵀ for each U S Vᵀ, computed
    in `product_dtype`."""
    x = matrices.to(product_dtype(matrices.device))
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=EPS)
    for _ in range(STEPS):
        gram = x @ x.mT
        mixed = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
        x = torch.baddbmm(x, mixed, x, beta=A)
    return x.mT if tall else x


def product_dtype(device: torch.device) -> torch.dtype:
    """The dtype for matrix multiplication: bfloat16 on GPUs that support it, otherwise float32.

    A CPU without bfloat16 instructions takes 20 to 50 times as long in bfloat16, or fails. A CPU
    with these instructions is not faster in bfloat16 than in float32.
    """
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32


OptimizerName = Literal["adamw", "adam", "sgd", "muon"]
ScheduleName = Literal["constant", "linear", "cosine", "inverse_sqrt", "wsd"]
Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def _lean(kind: type[Kind]) -> type[Kind]:
    """Remove from an optimizer class torch's decorators that disable compilation, since they import
    the compiler, which takes two seconds."""
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
    """Build one optimizer, or two for Muon, which updates only matrices: AdamW updates the rest.

    Vectors (biases, gains) and embeddings have no weight decay. With few texts, where most weights
    are embeddings, decay_embeddings keeps the model from memorising rare words. factors:
    learning-rate multipliers by weight name; the loop applies them per parameter group.
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
            if matrices:  # may be empty if weights are frozen
                of_matrices = groups(matrices, [])
                both.append(_Muon(of_matrices, lr=learning_rate, weight_decay=weight_decay))
            if rest:
                others = groups(tables, plain)
                both.append(_AdamW(others, lr=learning_rate, betas=betas, fused=fused))
            return both


def _by_factor(
    model: nn.Module, factors: Mapping[str, float]
) -> Callable[[list[nn.Parameter]], list[dict[str, Any]]]:
    """A function that groups parameters by their factor, in order of first occurrence."""
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


def rate(
    step: float, name: ScheduleName, *, steps: int, warmup: int, cooldown: float = 0.2
) -> float:
    """The fraction of the peak learning rate at a step (from 0): linear warmup, then the schedule.

    constant: no decay. linear, cosine: down to 0 at the last step. inverse_sqrt: 1 / sqrt(step).
    wsd: constant, then linearly down over the last fraction `cooldown`.
    """
    if step < warmup:
        return (step + 1) / warmup
    left = (steps - step) / max(steps - warmup, 1)  # 1 after the warmup, 0 at the end
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
