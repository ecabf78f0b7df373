"""Which part of a Transformer speaks for an output: a logit as a sum over embedding, heads and
feed-forward layers.

Every part adds its vector to the residual stream, and the output head is linear. What stands
between are norms; with the mean and the deviation that a norm had in this run held fixed, each is
linear too, so that the contributions and a remainder add up to the logit exactly. The remainder is
what belongs to no part: shifts of norms, biases of projections and of the head. With pre-norm only
the last norm is in the way. With post-norm each part passes all norms behind it, and its
contribution says what is left of it at the end.

Elhage et al. 2021, "A mathematical framework for Transformer circuits".
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from translucid.errors import InputError
from translucid.models.heads import Tagger
from translucid.models.transformer import Stack
from translucid.parts.attention import MultiHead
from translucid.parts.embedding import LanguageHead
from translucid.parts.norms import BatchNorm, NoNorm, RMSNorm
from translucid.see.text_trace import TextTrace

FRAMES = ("self_attention", "cross_attention", "feedforward")  # in the order of a layer


@dataclass(frozen=True)
class Contribution:
    """What one part adds to a logit; of a head, also through the value of each token."""

    part: str  # such as decoder.layers.0.cross_attention
    head: int | None
    value: float
    by_token: tuple[float, ...] = ()


@dataclass(frozen=True)
class Contributions:
    """A logit, and what it is the sum of."""

    logit: float
    parts: tuple[Contribution, ...]
    remainder: float  # shifts of norms, biases
    rounding: float  # of the model's own precision: what is left of the logit after all these


class _Stream:
    """The residual stream at one position, kept apart by who wrote it."""

    def __init__(self, reading: TextTrace, position: int) -> None:
        self.reading, self.position = reading, position
        self.vectors: dict[tuple[str, int | None], Tensor] = {}  # (tokens or 1, d_model), float64
        self.constant: Tensor | float = 0.0  # (d_model,)

    def at(self, name: str) -> Tensor:
        return self.reading[name][0, self.position].double()

    def normalise(self, norm: nn.Module, name: str) -> None:
        """A norm with the statistics that it had."""
        if isinstance(norm, NoNorm):
            return
        gain: Tensor = norm.gain.detach().double()  # type: ignore[operator]
        if isinstance(norm, RMSNorm):
            size = self.at(f"{name}.rms")
        else:
            size = (self.at(f"{name}.variance") + float(norm.eps)).sqrt()  # type: ignore[arg-type]

        def through(x: Tensor) -> Tensor:
            centred = not isinstance(norm, RMSNorm | BatchNorm)
            return gain * (x - x.mean(-1, keepdim=True) if centred else x) / size

        self.vectors = {part: through(vector) for part, vector in self.vectors.items()}
        constant = through(torch.as_tensor(self.constant) + torch.zeros_like(gain))
        if isinstance(norm, BatchNorm):
            constant = constant - gain * self.at(f"{name}.mean") / size
        shift: Any = getattr(norm, "shift", None)
        self.constant = constant if shift is None else constant + shift.detach().double()

    def add_heads(self, part: MultiHead, name: str) -> None:
        """The heads of an attention layer, each as the tokens whose values it hands over."""
        weight = part.output.weight.detach().double()  # (d_model, heads * d_head)
        pattern = self.reading[f"{name}.pattern"][0, :, self.position].double()  # (heads, keys)
        values = self.reading[f"{name}.value"][0].double()  # (kv_heads, keys, d_head)
        for head in range(part.heads):
            own = weight[:, head * part.d_head : (head + 1) * part.d_head]
            handed = values[head // (part.heads // part.kv_heads)] @ own.T  # (keys, d_model)
            self.vectors[name, head] = pattern[head][:, None] * handed
        if part.output.bias is not None:
            self.constant = self.constant + part.output.bias.detach().double()


def contributions(reading: TextTrace, position: int, output: int) -> Contributions:
    """What each part adds to the logit of an output (a token or tag, by its number) at a position
    of the text that the head stands on."""
    network = reading.network
    side = "decoder" if hasattr(network, "decoder") else "encoder"
    stack, head = getattr(network, side, None), getattr(network, "head", None)
    if not isinstance(stack, Stack) or not isinstance(head, LanguageHead | Tagger):
        raise InputError(
            "contributions are for Transformers that say something at each position (translate, "
            "language, tag); of another network ask trace.terms(...) or model.saliency(...)"
        )
    if network.training:
        raise InputError("the network is in training mode; call network.eval() and trace again")
    logits = reading["head.logits"][0]
    if not 0 <= position < logits.shape[0] or not 0 <= output < logits.shape[1]:
        raise InputError(
            f"position {position} and output {output}: there are positions 0 to "
            f"{logits.shape[0] - 1} and outputs 0 to {logits.shape[1] - 1}"
        )
    stream = _through(reading, stack, side, position)
    direction = head.linear.weight.detach()[output].double()
    direction = direction * (head.scale if isinstance(head, LanguageHead) else 1.0)
    parts = tuple(
        Contribution(
            part, number, float((vector @ direction).sum()),
            tuple((vector @ direction).tolist()) if number is not None else (),
        )
        for (part, number), vector in stream.vectors.items()
    )  # fmt: skip
    constant = torch.as_tensor(stream.constant, dtype=torch.float64) * torch.ones_like(direction)
    remainder = float(constant @ direction)
    if head.linear.bias is not None:
        remainder += float(head.linear.bias.detach()[output])
    total = math.fsum([*(one.value for one in parts), remainder])
    logit = float(logits[position, output])
    return Contributions(logit, parts, remainder, rounding=logit - total)


def _through(reading: TextTrace, stack: Stack, side: str, position: int) -> _Stream:
    """The stream behind the last norm, part by part."""
    stream = _Stream(reading, position)
    first = stream.at(f"{side}.layers.0.self_attention_residual.skip")
    stream.vectors[f"{side}.embedding", None] = first[None]
    for number, layer in enumerate(stack.blocks()):
        for name in FRAMES:
            part = getattr(layer, name)
            if part is None:
                continue
            scope = f"{side}.layers.{number}.{name}"
            if isinstance(part, MultiHead):
                stream.add_heads(part, scope)
            else:
                stream.vectors[scope, None] = stream.at(f"{scope}.output")[None]
            frame = getattr(layer, f"{name}_residual")
            if frame.placement == "post":
                stream.normalise(frame.norm, f"{scope}_residual.norm")
    stream.normalise(stack.final_norm, f"{side}.final_norm")
    return stream
