"""Cross-entropy with label smoothing: plain, as one GPU kernel, or in blocks on a CPU."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.device import has_triton
from translucid.tasks.batch import IGNORE


def cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, never: Sequence[int] = ()
) -> Tensor:
    """-Σ log p(target), summed over the targets that are not IGNORE.

    smoothing: the fraction of the target's probability that is spread over all classes except those
    in `never`, such as padding.
    """
    logits, targets = logits.flatten(0, -2), targets.flatten()  # (targets, classes), (targets,)
    if _in_one_kernel(logits):
        from translucid.fast import loss_kernel  # on demand: it needs Triton

        return loss_kernel.cross_entropy(
            logits, targets, smoothing=smoothing, never=never, ignore=IGNORE
        )
    if smoothing and _large_on_cpu(logits):
        from translucid.fast.cpu_loss import SmoothedCrossEntropy

        return SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            logits, targets, smoothing, never, IGNORE
        )
    return plain_cross_entropy(logits, targets, smoothing=smoothing, never=never)


def _large_on_cpu(logits: Tensor) -> bool:
    """Whether a gradient is needed for more logits than fit a CPU's cache."""
    wanted = logits.requires_grad and logits.device.type == "cpu" and logits.numel() >= 2**20
    return wanted and logits.dtype is torch.float32 and not torch.compiler.is_compiling()


def _in_one_kernel(logits: Tensor) -> bool:
    """Whether the GPU kernel, which reads each logit once, supports these logits."""
    return (
        logits.is_cuda
        and logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and logits.stride(-1) == 1
        and logits.numel() > 0
        and has_triton()
    )


def plain_cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, never: Sequence[int] = ()
) -> Tensor:
    """Cross-entropy computed with plain torch operations. logits: (targets, classes)"""
    logits = logits.float()
    if smoothing == 0:
        return F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
    # -log p(class) = log Z - logit(class) for every class. Indexing by a mask or a list would make
    # the GPU wait for the CPU.
    counts = targets != IGNORE
    log_z = logits.logsumexp(dim=-1)
    target_logits = logits.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    allowed = logits.sum(dim=-1)
    for column in never:
        allowed = allowed - logits[:, column]
    hard = log_z - target_logits
    soft = log_z - allowed / (logits.shape[-1] - len(never))
    return (((1 - smoothing) * hard + smoothing * soft) * counts).sum()
