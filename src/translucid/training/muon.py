"""Muon: momentum, then the nearest orthogonal matrix (Jordan et al. 2024,
https://kellerjordan.github.io/posts/muon), for all matrices of a shape at once."""

import math
from typing import Any

import torch
from torch import Tensor

STEPS = 5  # of Newton and Schulz
A, B, C = 3.4445, -4.7750, 2.0315  # x becomes A x + B (x xᵀ) x + C (x xᵀ)² x in each
EPS = 1e-7


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon with adjust_lr_fn="match_rms_adamw": its steps are as long as AdamW's, so
    one learning rate serves both. Matrices of a shape are moved together, since a GPU would spend
    its time on starting small kernels. On a CPU it works in float32, torch's always in bfloat16."""

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
    """About U Vᵀ of each matrix U S Vᵀ, in `product_dtype`. (count, rows, columns)"""
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
    """The type to multiply matrices in: bfloat16 on GPUs that have it, else float32.

    A CPU without bfloat16 instructions would take 20 to 50 times as long in bfloat16, or fail and
    fall back with a warning. With them it would take about as long as in float32.
    """
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32
