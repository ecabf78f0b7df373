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
    """What torch.optim.Muon computes with adjust_lr_fn="match_rms_adamw", its steps as long as
    AdamW's, so that one learning rate serves both. Matrix by matrix a GPU would spend its time on
    small kernels."""

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
    """About U Vᵀ of each matrix U S Vᵀ, in bfloat16. (count, rows, columns)"""
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=EPS)
    for _ in range(STEPS):
        gram = x @ x.mT
        mixed = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
        x = torch.baddbmm(x, mixed, x, beta=A)
    return x.mT if tall else x
