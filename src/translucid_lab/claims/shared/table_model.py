"""A model whose probabilities are a table, so that exact search is possible."""

from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.generate.beam_search import GenerationConfig, Hypothesis, search


@dataclass
class LastWords:
    """The last words of every row, and whose table it reads."""

    words: Tensor  # (rows, order)
    source: Tensor  # (rows,)
    beams: int = 1
    length: int = 0  # words read

    def expand(self, beams: int) -> None:
        self.beams = beams
        self.words, self.source = (
            part.repeat_interleave(beams, dim=0) for part in (self.words, self.source)
        )

    def follow(self, parents: Tensor) -> None:
        first = torch.arange(len(parents))[:, None] * self.beams
        self.words = self.words[(first + parents).flatten()]

    def select(self, sources: Tensor) -> None:
        rows = (sources[:, None] * self.beams + torch.arange(self.beams)).flatten()
        self.words, self.source = self.words[rows], self.source[rows]


class Tables:
    """Many small language models, one for each source: log-probabilities after the last one or two
    words, (sources, words, vocab) or (sources, words, words, vocab). To a search it looks like any
    model of the house."""

    def __init__(self, log_probs: Tensor) -> None:
        self.log_probs = log_probs
        self.order = log_probs.dim() - 2

    def step(self, tokens: Tensor, state: LastWords) -> Tensor:
        known = tokens.clamp(max=self.log_probs.shape[1] - 1)  # an empty place may hold an end
        state.words = torch.cat([state.words, known], dim=1)[:, -self.order :]
        state.length += 1
        return self.log_probs[(state.source, *state.words.T)][:, None]

    def find(
        self, start: int, most: int, config: GenerationConfig, *, eos: int
    ) -> list[Hypothesis]:
        """The best text of at most so many words after the word `start`, for each source."""
        sources = len(self.log_probs)
        prefix = torch.full((sources, 1), start)
        state = LastWords(torch.full((sources, self.order), start), torch.arange(sources))
        state.expand(config.beam_size)
        least, max_length = torch.zeros(sources, dtype=torch.long), torch.full((sources,), most)
        hypotheses = search(self.step, state, prefix, least, max_length, config, eos=eos, pad=start)
        return [texts[0] for texts in hypotheses]
