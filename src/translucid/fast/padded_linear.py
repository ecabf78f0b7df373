"""The output head while it is trained on a GPU: a vocabulary of an odd size costs no time.

The plain twin is `nn.Linear`, with the same weights under the same names.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from translucid.parts.embedding import LanguageHead


class PaddedLinear(nn.Linear):
    """W x + b, while training computed by `linear_in_eights`."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        return linear_in_eights(x, self.weight, self.bias)


def linear_in_eights(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + b, computed with rows of 0 below W up to a multiple of 8, which are cut off again.

    A GPU's matrix units want rows that begin at multiples of 16 bytes: forward and backward take
    several times as long for a vocabulary of an odd size.
    """
    rows = weight.shape[0]
    spare = -rows % 8
    if not spare:
        return F.linear(x, weight, bias)
    bias = None if bias is None else F.pad(bias, (0, spare))
    return F.linear(x, F.pad(weight, (0, 0, 0, spare)), bias)[..., :rows]


def pad_heads(network: nn.Module) -> None:
    """Let the language heads of a network be trained like that. It keeps its parameters."""
    for head in network.modules():
        if isinstance(head, LanguageHead) and type(head.linear) is nn.Linear:
            head.linear = _padded(head.linear)


def _padded(linear: nn.Linear) -> PaddedLinear:
    with_bias = linear.bias is not None
    padded = PaddedLinear(linear.in_features, linear.out_features, bias=with_bias, device="meta")
    padded.weight, padded.training = linear.weight, linear.training
    if with_bias:
        padded.bias = linear.bias
    return padded
