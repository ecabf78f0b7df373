"""Sampling of many texts at fixed addresses, as CUDA graphs need it.

The counterpart of `decode.Draw`, without constraints that depend on earlier tokens. Every row has
its own settings.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.device import on_device
from translucid.generate.constraints import one_end
from translucid.generate.sampling import SamplingConfig, draw_from
from translucid.parts.activations import as_log_probs

Kind = Literal["greedy", "plain", "filtered"]  # with temperature 0, without and with a filter


class RowDraw:
    """Draws the next token of each row. The rows are those of `fast.fixed_rows`."""

    def __init__(
        self,
        newest: Tensor,
        vocab: int,
        steps: int,
        *,
        eos: int,
        ends: Sequence[int] = (),
        never: Sequence[int] = (),
    ) -> None:
        """newest: the tokens that the model reads next, (rows, 1), which every draw replaces.
        steps: the number of draws whose tokens are kept. never: tokens that are not drawn."""
        device, rows = newest.device, len(newest)
        self.newest, self.vocab, self.eos, self.ends = newest, vocab, eos, tuple(ends)
        self.never = torch.tensor(never, device=device) if never else None
        self.is_eos = torch.arange(vocab, device=device) == eos
        self.uniforms = torch.zeros(rows, 1, dtype=torch.float64, device=device)
        self.least = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.taken = torch.zeros_like(self.least)
        self.top_k = torch.full_like(self.least, vocab)
        self.temperature, self.top_p, self.min_p = torch.ones(3, rows, 1, device=device)
        # What was drawn since `number` was set to 0: (steps, rows).
        self.number = torch.zeros(1, dtype=torch.long, device=device)
        self.tokens = torch.zeros(steps, rows, dtype=torch.long, device=device)
        self.log_probs = torch.zeros(steps, rows, device=device)

    @staticmethod
    def kind(several: Sequence[SamplingConfig]) -> Kind:
        """What a draw must compute for rows with these settings."""
        if all(by.temperature == 0 for by in several):
            return "greedy"
        filters = (by.top_k is not None or (by.top_p or 1) < 1 or by.min_p for by in several)
        return "filtered" if any(filters) else "plain"

    def reserve(self, tokens: int) -> None:
        """Make room for this many random numbers per row."""
        if tokens > self.uniforms.shape[1]:
            self.uniforms = F.pad(self.uniforms, (0, tokens - self.uniforms.shape[1]))

    def join(
        self,
        rows: Sequence[int],
        several: Sequence[SamplingConfig],
        least: Sequence[int],
        uniforms: Tensor,
    ) -> None:
        """Let texts take over rows. least: their minimum lengths. uniforms: their random numbers,
        (texts, tokens), for which there must be room."""
        at = on_device(torch.tensor(rows), self.newest.device)
        as_rows = [
            (self.temperature, [by.temperature for by in several]),
            (self.top_k, [min(by.top_k or self.vocab, self.vocab) for by in several]),
            (self.top_p, [math.inf if by.top_p in (None, 1) else by.top_p for by in several]),
            (self.min_p, [by.min_p or 0.0 for by in several]),
            (self.least, least),
        ]  # fmt: skip
        for part, values in as_rows:
            part[at] = on_device(torch.tensor(values, dtype=part.dtype), part.device)[:, None]
        self.taken[at] = 0
        self.uniforms[at, : uniforms.shape[1]] = on_device(uniforms, self.uniforms.device)

    def round(self, logits: Tensor, kind: Kind) -> None:
        """Draw a token for each of the first rows. logits: (rows, vocab), of the model."""
        first = slice(0, len(logits))
        log_probs = as_log_probs(logits)
        if self.ends:
            log_probs = one_end(log_probs, self.eos, self.ends)
        allowed = log_probs
        if self.never is not None:
            allowed = allowed.index_fill(1, self.never, -torch.inf)
        taken = self.taken[first]
        early = taken < self.least[first]
        allowed = allowed.masked_fill(early & self.is_eos, -torch.inf)
        chosen = allowed.argmax(dim=-1)
        if kind != "greedy":
            at = taken.clamp(max=self.uniforms.shape[1] - 1)
            uniform = self.uniforms[first].gather(1, at)[:, 0]
            drawn = draw_from(self._shape(allowed, first, kind), uniform)
            chosen = torch.where(self.temperature[first, 0] == 0, chosen, drawn)
        # If no token is allowed, the text ends.
        chosen = chosen.masked_fill(allowed.amax(dim=-1) == -torch.inf, self.eos)[:, None]
        self.tokens[:, first].index_copy_(0, self.number, chosen.T)
        self.log_probs[:, first].index_copy_(0, self.number, log_probs.gather(1, chosen).T)
        self.newest[first] = chosen
        self.taken[first] += 1
        self.number.copy_((self.number + 1).clamp(max=len(self.tokens) - 1))

    def _shape(self, log_probs: Tensor, first: slice, kind: Kind) -> Tensor:
        """Like `sampling.shape`, with the settings of each row."""
        warm = self.temperature[first]
        log_probs = (log_probs / warm.masked_fill(warm == 0, 1)).log_softmax(dim=-1)
        if kind == "plain":
            return log_probs
        ordered = log_probs.sort(dim=-1, descending=True).values
        least = ordered.gather(1, self.top_k[first] - 1)
        log_probs = log_probs.masked_fill(log_probs < least, -torch.inf).log_softmax(dim=-1)
        ordered, order = log_probs.sort(dim=-1, descending=True)
        before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # of more probable tokens
        ordered = ordered.masked_fill(before >= self.top_p[first], -torch.inf)
        log_probs = torch.zeros_like(log_probs).scatter(1, order, ordered).log_softmax(dim=-1)
        least = log_probs.amax(dim=-1, keepdim=True) + self.min_p[first].log()
        return log_probs.masked_fill(log_probs < least, -torch.inf).log_softmax(dim=-1)
