"""Sampling: the next token is drawn at random, with its probability.

Every text has its own random numbers, one for each token, derived from the seed, its prompt and its
index among the samples of that prompt. The same seed gives the same text, alone or in any batch, on
any device.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.core.config import Config, key


class SamplingConfig(Config):
    """Settings of sampling, in the order in which they are applied."""

    temperature: float = key(1.0, "temperature: values below 1 favor likely tokens; 0: greedy",
                             ge=0)  # fmt: skip
    top_k: int | None = key(None, "top-k: sample from the k most probable tokens", gt=0)
    top_p: float | None = key(
        None,
        "top-p: sample from the smallest set of tokens with at least this probability",
        gt=0,
        le=1,
    )
    min_p: float | None = key(
        None, "min-p: sample from tokens at least this fraction as probable as the best", gt=0, le=1
    )


def shape(log_probs: Tensor, by: SamplingConfig) -> Tensor:
    """The log-probabilities (rows, vocab) from which to sample; those of excluded tokens are
    -inf."""
    if by.temperature not in (0, 1):
        log_probs = (log_probs / by.temperature).log_softmax(dim=-1)
    if by.top_k is not None:
        least = log_probs.topk(min(by.top_k, log_probs.shape[-1])).values[:, -1:]
        log_probs = log_probs.masked_fill(log_probs < least, -torch.inf).log_softmax(dim=-1)
    if by.top_p is not None and by.top_p < 1:
        ordered, order = log_probs.sort(dim=-1, descending=True)
        before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # of more probable tokens
        ordered = ordered.masked_fill(before >= by.top_p, -torch.inf)
        log_probs = torch.zeros_like(log_probs).scatter(1, order, ordered).log_softmax(dim=-1)
    if by.min_p is not None:
        least = log_probs.amax(dim=-1, keepdim=True) + np.log(by.min_p)
        log_probs = log_probs.masked_fill(log_probs < least, -torch.inf).log_softmax(dim=-1)
    return log_probs


def pick(log_probs: Tensor, uniform: Tensor, by: SamplingConfig) -> Tensor:
    """Choose a token for each row: the first one, in the order of the vocabulary, at which the
    cumulative probability exceeds `uniform`. uniform: (rows,), numbers between 0 and 1; result:
    (rows,)."""
    if by.temperature == 0:
        return log_probs.argmax(dim=-1)
    return draw_from(shape(log_probs, by), uniform)


def draw_from(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Choose a token for each row, as `pick` does. log_probs: (rows, vocab), after `shape`."""
    widths = log_probs.double().exp()
    ends = widths.cumsum(dim=-1)
    target = uniform.to(ends)[:, None] * ends[:, -1:]
    index = torch.searchsorted(ends, target, right=True).squeeze(-1)
    # Because of rounding, the index may be past the last token with a probability above 0.
    last = widths.shape[-1] - 1 - (widths > 0).flip(-1).to(torch.int8).argmax(dim=-1)
    return torch.minimum(index, last)


def uniforms(seed: int, prompt: Sequence[int], sample: int, count: int) -> Tensor:
    """The random numbers of one text, between 0 and 1: (count,)."""
    source = np.random.SeedSequence((seed, sample, *prompt))
    return torch.from_numpy(np.random.Generator(np.random.PCG64(source)).random(count))
