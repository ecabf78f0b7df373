"""The loss after true prefixes (teacher forcing) and after the model's own prefixes.

In training, each token is predicted from the true tokens before it; at inference, from the tokens
that the model has generated. The difference between the two losses is an upper estimate
of exposure bias: a prefix that is longer or shorter than the true one shifts all later tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.models.autoregressive import AutoregressiveModel, GenerationInputs
from translucid.tasks.batch import IGNORE


@dataclass(frozen=True)
class PrefixScored:
    """The log-probabilities of a text's tokens after both kinds of prefixes."""

    pieces: list[str]  # the tokens of the text, including the end
    token_log_probs: list[float]  # after the true tokens
    own_pieces: list[str]  # what the model generates in place of all tokens except the last
    own_token_log_probs: list[float]  # of the tokens of the text, after the model's own tokens


@dataclass(frozen=True)
class PrefixLoss:
    """The mean loss at one position, or over all positions, in nats."""

    position: int | None  # counted from 1; None: all positions
    tokens: int
    true_prefix: float
    own_prefix: float


def by_position(texts: Sequence[PrefixScored]) -> list[PrefixLoss]:
    """The mean losses at each position, and over all positions in the last row."""
    pairs: list[list[tuple[float, float]]] = []
    for text in texts:
        both = zip(text.token_log_probs, text.own_token_log_probs, strict=True)
        for place, pair in enumerate(both):
            if place == len(pairs):
                pairs.append([])
            pairs[place].append(pair)
    rows = [_mean(place, column) for place, column in enumerate(pairs, start=1)]
    return [*rows, _mean(None, [pair for column in pairs for pair in column])]


def _mean(position: int | None, pairs: Sequence[tuple[float, float]]) -> PrefixLoss:
    true, own = (-sum(side) / len(pairs) for side in zip(*pairs, strict=True))
    return PrefixLoss(position, len(pairs), true, own)


def on_own_prefixes(
    model: AutoregressiveModel[Any],
    sources: GenerationInputs | None,
    read: Tensor,
    targets: Tensor,
    never: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The model's logits after its own greedy tokens, and these tokens: (rows, length, vocab) and
    (rows, length).

    read, targets: (rows, length), as in teacher forcing. Where the target is IGNORE, the model
    reads the true next token. never: tokens that the model must not generate, such as the end
    token, so that its text is as long as the true one.
    """
    rows, length = read.shape
    state = model.start(sources or GenerationInputs(rows), length)
    token, logits, own = read[:, 0], list[Tensor](), list[Tensor]()
    for place in range(length):
        logits.append(model.step(token[:, None], state)[:, 0])
        allowed = logits[-1].clone()
        allowed[:, list(never)] = -torch.inf
        own.append(allowed.argmax(dim=-1))
        if place + 1 < length:
            token = torch.where(targets[:, place] == IGNORE, read[:, place + 1], own[-1])
    return torch.stack(logits, dim=1), torch.stack(own, dim=1)
