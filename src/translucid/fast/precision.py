"""Copy a network for decoding in a different precision, with LoRA adapters merged; measure how much
its outputs differ from the original's."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.spelling import our_value
from translucid.data.batching import pad
from translucid.fast import cpu_kernels
from translucid.fast.packed_linear import Int8Linear, PackedLinear, int8_engine
from translucid.fast.unchanged import parts_of
from translucid.models.adapters import merge
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import Network
from translucid.models.transformer import Stack
from translucid.parts.lora import AdaptedLinear
from translucid.parts.recurrent import Recurrent

Precision = Literal["auto", "float32", "bfloat16", "int8"]
N = TypeVar("N", bound=Network)


def prepare(network: N, precision: Precision = "auto") -> N:
    """Copy a network for decoding. On a CPU its linear layers are packed, in float32 or int8; on a
    GPU it is in float32 or bfloat16. Auto: float32 on a CPU, bfloat16 on a GPU.

    The copy has all trace points. It does not change when the network is trained further, and can
    be neither moved nor saved.
    """
    device = next(network.parameters()).device
    chosen = _checked(network, our_value("precision", precision), device)
    copy = deepcopy(network).eval().requires_grad_(False)
    merge(copy)
    if chosen == "bfloat16":
        return copy.to(torch.bfloat16)
    copy = copy.float()
    if device.type == "cpu":
        _replace_linears(copy, Int8Linear if chosen == "int8" else PackedLinear)
    return copy


def _checked(network: Network, precision: Precision, device: torch.device) -> Precision:
    """The precision to use, with "auto" resolved. Raises an error if the network or its device does
    not support it."""
    if any(isinstance(part, PackedLinear | Int8Linear) for part in network.modules()):
        raise InputError(
            "this network is already a copy prepared for decoding; pass the original network"
        )
    if precision == "auto":
        return "bfloat16" if device.type == "cuda" and has_bf16(device) else "float32"
    if precision == "bfloat16" and not has_bf16(device):
        raise InputError("bfloat16: this processor does not support it; use float32 or int8")
    if precision == "int8":
        if device.type != "cpu":
            raise InputError(
                f"int8 works only on CPUs, but the network is on {device}; use bfloat16"
            )
        if not any(isinstance(part, Stack | Recurrent) for part in network.modules()):
            raise InputError(
                "int8 works only with Transformers and recurrent networks; use float32 for this "
                "network"
            )
        if not cpu_kernels.available():
            int8_engine()  # raises if there is none
    return precision


def has_bf16(device: torch.device) -> bool:
    """Whether the device supports bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return torch.backends.mkldnn.is_available() and bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def _replace_linears(network: nn.Module, kind: type[PackedLinear] | type[Int8Linear]) -> None:
    for part in list(network.modules()):
        if isinstance(part, Recurrent):
            part.pack(lambda linear: kind(linear).of_rows, exact=kind is PackedLinear)
        for name, child in part.named_children():
            if isinstance(child, nn.Linear):
                setattr(part, name, kind(child).train(child.training))


@dataclass(frozen=True)
class PrecisionDifference:
    """How much two networks' log-probabilities over the vocabulary differ, at all positions of some
    texts."""

    mean: float
    most: float
    changed: float  # fraction of the positions at which the most probable token differs
    places: int

    def __str__(self) -> str:
        return (
            f"log-probabilities differ by {self.mean:.2g} on average and by {self.most:.2g} at "
            f"most; the most probable token differs at {self.changed:.1%} of {self.places:,} "
            "positions"
        )


@torch.no_grad()
def difference(
    network: Network,
    prepared: Network,
    texts: Sequence[Sequence[int]],
    sources: GenerationInputs | None = None,
) -> PrecisionDifference:
    """How much the outputs of two networks differ on the same texts."""
    ids, mask = pad([list(text) for text in texts], 0)
    apart, changed = [], []
    for row in range(len(texts)):  # one by one, to save memory
        one = slice(row, row + 1)
        before, after = (
            _log_probs(model, ids[one], mask[one], sources, one) for model in (network, prepared)
        )
        apart.append((after - before).abs().flatten())
        changed.append(after.argmax(dim=-1) != before.argmax(dim=-1))
    all_apart, all_changed = torch.cat(apart), torch.cat(changed)
    return PrecisionDifference(
        mean=float(all_apart.mean()),
        most=float(all_apart.max()),
        changed=float(all_changed.float().mean()),
        places=all_changed.numel(),
    )


def _log_probs(
    network: Network, ids: Tensor, mask: Tensor, sources: GenerationInputs | None, row: slice
) -> Tensor:
    """The log-probabilities at all tokens of one text: (tokens, vocab). row: the row of its
    source."""
    device = next(network.parameters()).device
    ids, mask = ids.to(device), mask.to(device)
    if sources is None or sources.source is None:
        logits = network(ids, mask)
    else:
        source_mask = None if sources.mask is None else sources.mask[row].to(device)
        logits = network(sources.source[row].to(device), ids, source_mask, mask)
    return logits.float().log_softmax(dim=-1)[mask].cpu()


class Merged:
    """A network whose LoRA adapters are merged: a copy if the network has adapters, which `refresh`
    updates, otherwise the network itself."""

    def __init__(self, model: Any) -> None:
        self.model, self._own = model, None
        if any(isinstance(part, AdaptedLinear) for part in parts_of(model)):
            self._own = model
            self.model = deepcopy(model)
            merge(self.model)

    @torch.no_grad()
    def refresh(self) -> None:
        """Update the copy if the original weights have been trained since."""
        if self._own is None:
            return
        there = dict(self.model.named_parameters())
        for name, parameter in self._own.named_parameters():
            if name in there:
                there[name].copy_(parameter)
        for name, module in self._own.named_modules():
            if isinstance(module, AdaptedLinear):
                there[f"{name}.weight"].copy_(module.weight)
                if module.bias is not None:
                    there[f"{name}.bias"].copy_(module.bias)
