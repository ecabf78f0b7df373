"""Direct logit attribution: a logit as a sum over embedding, heads and feed-forward layers; and how
much LoRA adapters add to their layers' outputs.

Every part adds its vector to the residual stream, and the output head is linear. Each norm in
between is linear too if the mean and deviation by which it normalises are fixed at their values in
this run. Therefore the contributions and a remainder add up to the logit exactly. The remainder
contains the biases of norms, projections and head. With pre-norm, a contribution passes only
through the final norm; with post-norm, through all later norms.

Elhage et al. 2021, "A mathematical framework for Transformer circuits".
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.models.heads import Tagger
from translucid.models.transformer import Stack
from translucid.parts.attention import MultiHead
from translucid.parts.computation import Computation
from translucid.parts.embedding import LanguageHead
from translucid.parts.lora import AdaptedLinear
from translucid.parts.norms import Norm
from translucid.see.text_trace import TextTrace


@dataclass(frozen=True)
class Contribution:
    """What one part adds to a logit; for a head, also split by the tokens it attends to."""

    part: str  # such as decoder.layers.0.cross_attention
    head: int | None
    value: float
    by_token: tuple[float, ...] = ()


@dataclass(frozen=True)
class Contributions:
    """A logit, split into the contributions that sum to it."""

    logit: float
    parts: tuple[Contribution, ...]
    remainder: float  # from biases, including those of norms
    rounding: float  # rounding error: the logit minus the sum of all terms


class _Direction:
    """The direction in the residual stream that determines the logit, followed from the final norm
    back to the embedding. Each part's contribution is its component in this direction."""

    def __init__(self, reading: TextTrace, position: int, direction: Tensor) -> None:
        self.reading, self.position = reading, position
        self.direction = direction  # (d_model,), float64
        self.parts: list[Contribution] = []  # last part first
        self.remainder = 0.0

    def at(self, name: str) -> Tensor:
        return self.reading[name][0, self.position].double()

    def before_norm(self, norm: Norm, name: str) -> None:
        """Follow the direction back through a norm, using its statistics from this run."""
        self.direction, constant = norm.linearised(
            self.direction, lambda statistic: self.at(f"{name}.{statistic}")
        )
        self.remainder += constant

    def add_constant(self, vector: Tensor) -> None:
        self.remainder += float(vector.detach().double() @ self.direction)

    def add_vector(self, part: str, vector: Tensor) -> None:
        self.parts.append(Contribution(part, None, float(vector @ self.direction)))

    def add_heads(self, part: MultiHead, name: str) -> None:
        """Add the contributions of an attention layer's heads, split by the tokens attended to."""
        weight = part.output.weight.detach().double()  # (d_model, heads * d_head)
        wanted = (self.direction @ weight).unflatten(-1, (part.heads, part.d_head))
        pattern = self.reading[f"{name}.pattern"][0, :, self.position].double()  # (heads, keys)
        values = self.reading[f"{name}.value"][0].double()  # (kv_heads, keys, d_head)
        for head in reversed(range(part.heads)):
            served = values[head // (part.heads // part.kv_heads)]
            by_token = pattern[head] * (served @ wanted[head])
            total = float(by_token.sum())
            self.parts.append(Contribution(name, head, total, tuple(by_token.tolist())))
        if part.output.bias is not None:
            self.add_constant(part.output.bias)


def contributions(reading: TextTrace, position: int, output: int) -> Contributions:
    """Split a logit into the contributions of the network's parts.

    position: the position in the text that the output head reads. output: id of the token or tag.
    """
    network = reading.network
    side = "decoder" if hasattr(network, "decoder") else "encoder"
    stack, head = getattr(network, side, None), getattr(network, "head", None)
    if not isinstance(stack, Stack) or not isinstance(head, LanguageHead | Tagger):
        raise InputError(
            "contributions are only defined for Transformers with an output at each position "
            "(translate, language, tag); for other networks use trace.terms(...) or "
            "model.saliency(...)"
        )
    reading.check_eval()
    logits = reading["head.logits"][0]
    if not 0 <= position < logits.shape[0] or not 0 <= output < logits.shape[1]:
        raise InputError(
            f"position = {position}, output = {output}: position must be between 0 and "
            f"{logits.shape[0] - 1}, output between 0 and {logits.shape[1] - 1}"
        )
    direction = head.linear.weight.detach()[output].double()
    direction = direction * (head.scale if isinstance(head, LanguageHead) else 1.0)
    followed = _back(reading, stack, side, position, direction)
    remainder = followed.remainder
    if head.linear.bias is not None:
        remainder += float(head.linear.bias.detach()[output])
    parts = tuple(reversed(followed.parts))
    total = math.fsum([*(one.value for one in parts), remainder])
    logit = float(logits[position, output])
    return Contributions(logit, parts, remainder, rounding=logit - total)


def _back(
    reading: TextTrace, stack: Stack, side: str, position: int, direction: Tensor
) -> _Direction:
    """Follow the direction back from the final norm to the embedding, part by part."""
    followed = _Direction(reading, position, direction)
    followed.before_norm(stack.final_norm, f"{side}.final_norm")
    for number, layer in reversed([*enumerate(stack.blocks())]):
        for name, frame in reversed(layer.frames().items()):
            part, scope = layer.get_submodule(name), f"{side}.layers.{number}.{name}"
            if frame.placement == "post":
                followed.before_norm(frame.norm, f"{scope}_residual.norm")
            if isinstance(part, MultiHead):
                followed.add_heads(part, scope)
            else:
                followed.add_vector(scope, followed.at(f"{scope}.output"))
    first = followed.at(f"{side}.layers.0.self_attention_residual.skip")
    followed.add_vector(f"{side}.embedding", first)
    return followed


@dataclass(frozen=True)
class AdapterNorm:
    """The lengths of an adapter's output vectors and of its frozen layer's output vectors, each
    averaged over the tokens."""

    layer: str  # its name in the network
    added: float  # of (alpha / rank) B A x
    frozen: float  # of W x + b

    @property
    def ratio(self) -> float:
        """Length of the adapter's output relative to that of the frozen layer's output."""
        return self.added / max(self.frozen, 1e-30)


@torch.no_grad()
def adapter_norms(c: Computation) -> tuple[AdapterNorm, ...]:
    """Measure what each LoRA adapter adds, in network order. Outputs are recomputed from the
    layers' inputs, because not every projection is a trace point."""
    norms = []
    for layer, part in c.network.named_modules():
        if isinstance(part, AdaptedLinear):
            x = _input(c, layer).to(part.base.weight)
            norms.append(AdapterNorm(layer, _length(part.lora(x)), _length(part.base(x))))
    return tuple(norms)


def _input(c: Computation, layer: str) -> Tensor:
    """The input of a linear layer of a Transformer. (batch, length, features)"""
    name = c.reads(layer)
    x = c.points[name]
    return x.transpose(1, 2).flatten(2) if name.endswith(".mixed") else x  # the heads, joined


def _length(vectors: Tensor) -> float:
    return float(torch.linalg.vector_norm(vectors.float(), dim=-1).mean())
