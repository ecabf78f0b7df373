"""Training on random rows of Toyland's sentences.

Shapes: ids (texts, longest), 0 where a text has ended.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.tasks.batch import IGNORE
from translucid_lab.engine.fit import fit

BATCH = 32


def train_on_rows(
    net: nn.Module, loss: Callable[[Tensor], Tensor], rows: int, steps: int, seed: int
) -> None:
    """Adam on the loss of as many random batches as there are steps."""
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> Tensor:
        return loss(torch.randint(rows, (BATCH,), generator=generator))

    fit(net, drawn, steps=steps, learning_rate=3e-3, clip_norm=1.0)
    net.eval()


def token_loss(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=IGNORE)
