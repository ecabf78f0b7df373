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
from translucid.generate.sampling import SamplingConfig, draw_from
from translucid.parts.activations import as_log_probs

Kind = Literal["greedy", "plain", "filtered"]  # with temperature 0, without and with a filter
KINDS: tuple[Kind, ...] = ("filtered", "plain", "greedy")  # each can draw for those after it


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
        self.newest, self.vocab, self.eos = newest, vocab, eos
        self.on_gpu = device.type == "cuda"  # with Triton, as `fast.fixed_rows` needs it
        self.ends = torch.tensor([eos, *ends], device=device) if ends else None
        self.never = torch.tensor(never, device=device) if never else None
        self.is_eos = torch.arange(vocab, device=device) == eos
        self.uniforms = torch.zeros(rows, 1, dtype=torch.float64, device=device)
        self.taken = torch.zeros(rows, 1, dtype=torch.long, device=device)
        # By row: temperature, top_k, top_p, min_p, and the minimum length.
        without = torch.tensor([1, vocab, math.inf, 0, 0], dtype=torch.float64, device=device)
        self.settings = without.repeat(rows, 1)
        # Tokens and their log-probabilities, by step. Numbers of tokens are exact in float64.
        self.written = torch.zeros(steps, 2, rows, dtype=torch.float64, device=device)

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
        uniforms: Tensor | None,
    ) -> None:
        """Let texts take over rows. least: their minimum lengths. uniforms: their random numbers,
        (texts, tokens), for which there must be room; None: all have temperature 0."""
        settings = [
            (
                row,
                by.temperature,
                min(by.top_k or self.vocab, self.vocab),
                math.inf if by.top_p in (None, 1) else by.top_p,
                by.min_p or 0.0,
                min_length,
            )
            for row, by, min_length in zip(rows, several, least, strict=True)
        ]
        values = on_device(torch.tensor(settings, dtype=torch.float64), self.newest.device)
        at = values[:, 0].long()
        self.settings.index_copy_(0, at, values[:, 1:])
        self.taken.index_fill_(0, at, 0)
        if uniforms is not None:
            self.uniforms[at, : uniforms.shape[1]] = on_device(uniforms, self.uniforms.device)

    def round(self, logits: Tensor, step: int, kind: Kind) -> None:
        """Draw a token for each of the first rows. logits: (rows, vocab), of the model. step: where
        to write the tokens."""
        first = slice(0, len(logits))
        if kind == "greedy" and self.on_gpu:
            return self._greedy(logits, step)
        temperature, top_k, top_p, min_p, least = self.settings[first].split(1, dim=1)
        log_probs = as_log_probs(logits)
        log_probs = self._one_end(log_probs)
        allowed = log_probs
        if self.never is not None:
            allowed = allowed.index_fill(1, self.never, -torch.inf)
        taken = self.taken[first]
        early = taken < least
        allowed = allowed.masked_fill(early & self.is_eos, -torch.inf)
        chosen = allowed.argmax(dim=-1)
        if kind != "greedy":
            at = taken.clamp(max=self.uniforms.shape[1] - 1)
            uniform = self.uniforms[first].gather(1, at)[:, 0]
            warm = temperature.masked_fill(temperature == 0, 1).to(allowed)
            shaped = (allowed / warm).log_softmax(dim=-1)
            if kind == "filtered":
                shaped = _filtered(shaped, top_k.long(), top_p.to(allowed), min_p.to(allowed))
            chosen = torch.where(temperature[:, 0] == 0, chosen, draw_from(shaped, uniform))
        # If no token is allowed, the text ends. If all logits are -inf, log-probabilities are nan.
        chosen = chosen.masked_fill(~(allowed.amax(dim=-1) > -torch.inf), self.eos)[:, None]
        self.written[step, 0, first] = chosen[:, 0].double()
        self.written[step, 1, first] = log_probs.gather(1, chosen)[:, 0].double()
        self.newest[first] = chosen
        self.taken[first] += 1

    def _one_end(self, scores: Tensor) -> Tensor:
        """Do what `constraints.one_end` does, in a way that a graph can contain."""
        if self.ends is None:
            return scores
        best = scores.index_select(1, self.ends).amax(dim=1, keepdim=True)
        scores = scores.index_fill(1, self.ends, -torch.inf)
        scores[:, self.eos : self.eos + 1] = best
        return scores

    def _greedy(self, logits: Tensor, step: int) -> None:
        """Do what `round` does for rows with temperature 0, by few GPU kernels."""
        from translucid.fast.row_kernel import store_best  # on demand: needs Triton

        first = slice(0, len(logits))
        scores = self._one_end(logits)
        allowed = scores
        if self.never is not None:
            allowed = scores.index_fill(1, self.never, -torch.inf)
        early = self.taken[first, 0] < self.settings[first, 4]
        store_best(logits, scores, allowed, early, self.newest, self.taken, self.written[step],
                   eos=self.eos)  # fmt: skip


def _filtered(log_probs: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """What `sampling.shape` does after the temperature, with settings of each row (rows, 1)."""
    ordered = log_probs.sort(dim=-1, descending=True).values
    least = ordered.gather(1, top_k - 1)
    log_probs = log_probs.masked_fill(log_probs < least, -torch.inf).log_softmax(dim=-1)
    ordered, order = log_probs.sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # of more probable tokens
    ordered = ordered.masked_fill(before >= top_p, -torch.inf)
    log_probs = torch.zeros_like(log_probs).scatter(1, order, ordered).log_softmax(dim=-1)
    least = log_probs.amax(dim=-1, keepdim=True) + min_p.log()
    return log_probs.masked_fill(log_probs < least, -torch.inf).log_softmax(dim=-1)
