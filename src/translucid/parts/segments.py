"""Segments: which of several texts that stand in one row a token belongs to.

Shapes: x (batch, length, d_model); segments (batch, length).
"""

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.tokens import InputPart, Tokens


class Segments(InputPart):
    """x + table[segment]: one trained row for each segment; all tokens are in segment 0 unless
    `model(ids, segments=...)` says otherwise.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805
    """

    needs = True

    def __init__(self, segments: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(segments, d_model)

    def check(self, tokens: Tokens, features: Tensor | None) -> None:
        if features is None:
            return
        if features.shape != tokens.ids.shape or features.dtype not in (torch.long, torch.int):
            raise InputError(
                f"segments: {tuple(features.shape)} of {features.dtype} was given; give one whole "
                f"number for each token, {tuple(tokens.ids.shape)}"
            )
        many = self.table.num_embeddings
        if features.device.type == "cpu" and not torch.compiler.is_compiling() and features.numel():
            low, high = int(features.min()), int(features.max())
            if low < 0 or high >= many:
                wrong = low if low < 0 else high
                raise InputError(f"segments holds {wrong}, but the model has 0 to {many - 1}")

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        if features is None:
            features = torch.zeros(x.shape[:2], dtype=torch.long, device=x.device)
        return trace("sum", x + trace("lookup", self.table(features)))
