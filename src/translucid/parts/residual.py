"""x + f(x), and where the norm stands.

"post" is the original order, norm(x + f(x)); "pre" is x + f(norm(x)), which keeps a straight path
from the output to every layer and trains without warm-up (Xiong et al. 2020,
https://arxiv.org/abs/2002.04745).
"""

from typing import Literal

from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace

Placement = Literal["pre", "post"]


class Residual(nn.Module):
    """The frame around a sub-layer f: `leave(x, f(enter(x)))`."""

    def __init__(self, norm: nn.Module, placement: Placement, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.placement = norm, placement
        self.dropout = nn.Dropout(dropout)

    def enter(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        """What the sub-layer gets."""
        return self.norm(x, mask, trace.at("norm")) if self.placement == "pre" else x

    def leave(
        self, x: Tensor, branch: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        """What the next layer gets."""
        total = trace("sum", trace("skip", x) + trace("branch", self.dropout(branch)))
        return self.norm(total, mask, trace.at("norm")) if self.placement == "post" else total
