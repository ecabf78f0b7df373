"""Beam search as in transformers' `generate`, for imported models.

All `beam_size` places are for unfinished texts. A finished text moves to a pool of the best
finished texts, if it is among the `beam_size` best continuations of its round. In Translucid's own
search (beam_search.py), it keeps its place in the beam instead.

`early_stopping` determines when the search for a source ends:

    True      when the pool is full
    False     when the pool is full and no text in it scores less than the best prefix, to which
              the length penalty for its current length is applied
    "never"   like False, but with the length penalty for the maximum length
"""

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from translucid.generate import constraints
from translucid.generate.beam import append, stack_histories
from translucid.generate.beam_search import (
    After,
    GenerationConfig,
    Hypothesis,
    looking_back,
    run,
)
from translucid.generate.constraints import Constraint
from translucid.models.autoregressive import S
from translucid.parts.activations import as_log_probs


class PooledSearch:
    """The search for several sources, round by round, with the methods of `BeamSearch`."""

    tokens: Tensor  # (sources, beams, length)
    gained: Tensor  # log-probability of each token, (sources, beams, rounds)
    scores: Tensor  # (sources, beams)
    least: Tensor  # minimum length of each source
    most: Tensor
    rounds: Tensor  # how many rounds each source has had

    def __init__(
        self,
        config: GenerationConfig,
        *,
        ends: Sequence[int],
        start: int,
        extra: Sequence[Constraint] = (),
    ) -> None:
        """ends: all tokens that end a text. start: the length of the prefixes, for constraints on
        positions in the text."""
        self.config = config
        self.checks = [*extra, *looking_back(config), *config.constraints(start)]
        self.ends = sorted({*ends})
        self.numbers: list[int] = []  # of the sources in the batch
        self.pools: dict[int, list[Hypothesis]] = {}
        self._joined = 0

    def join(self, prefix: Tensor, least: Tensor, most: Tensor) -> list[int]:
        """Add sources. prefix: (sources, length), left-padded with -1. least, most: minimum and
        maximum lengths (sources,)."""
        sources, beams = len(prefix), self.config.beam_size
        tokens = prefix[:, None].expand(-1, beams, -1)
        gained = torch.zeros(sources, beams, 0, device=prefix.device)
        scores = torch.full((sources, beams), -torch.inf, device=prefix.device)
        scores[:, 0] = 0.0
        rounds = torch.zeros_like(least)
        if self.numbers:
            tokens = stack_histories(self.tokens, tokens, -1)
            gained = stack_histories(self.gained, gained.to(self.gained), 0.0)
            scores = torch.cat([self.scores, scores.to(self.scores)])
            least, most = torch.cat([self.least, least]), torch.cat([self.most, most])
            rounds = torch.cat([self.rounds, rounds])
        self.tokens, self.gained, self.scores = tokens, gained, scores
        self.least, self.most, self.rounds = least, most, rounds
        new = list(range(self._joined, self._joined + sources))
        self._joined += sources
        self.numbers += new
        self.pools |= {number: [] for number in new}
        return new

    @property
    def newest(self) -> Tensor:
        """The newest token of each beam, which the model reads next: (rows, 1)."""
        return self.tokens[..., -1].reshape(-1, 1)

    def round(self, logits: Tensor) -> After:
        """Extend every prefix by one token. logits: (rows, vocab), of the model."""
        config, beams, numbers = self.config, self.config.beam_size, self.numbers
        ending = torch.tensor(self.ends, device=logits.device)
        self.rounds += 1
        rounds: list[int] = self.rounds.tolist()
        log_probs = as_log_probs(logits).view(len(numbers), beams, -1)
        wanted = self._adjusted(log_probs, ending)
        vocab = wanted.shape[-1]
        total = (self.scores.to(wanted)[..., None] + wanted).flatten(1)
        width = min(max(2, 1 + len(self.ends)) * beams, total.shape[1])
        best, index = total.topk(width)  # (sources, width)
        parents, newest = index // vocab, index % vocab
        own = log_probs.flatten(1).gather(1, index)
        ended = torch.isin(newest, ending)
        leaves = (ended | (self.rounds >= self.most)[:, None]) & (best > -torch.inf)
        leaves[:, beams:] = False  # only the best `beams` continuations may enter the pool
        for row, rank in leaves.nonzero().tolist():
            parent, count = int(parents[row, rank]), rounds[row]
            over = bool(ended[row, rank])
            past = self.tokens[row, parent, self.tokens.shape[2] - (count - 1) :]
            written = [*past.tolist(), int(newest[row, rank])]
            gained = self.gained[row, parent, self.gained.shape[2] - (count - 1) :]
            log_prob = [*gained.tolist(), float(own[row, rank])]
            ranked = float(best[row, rank]) / (count + config.length_offset) ** config.alpha
            text = Hypothesis(
                written[: count - over], ranked, sum(log_prob), log_prob, finished=over
            )
            _keep(self.pools[numbers[row]], text, beams)
        self.scores, places = best.masked_fill(ended, -torch.inf).topk(beams)
        parents, newest = parents.gather(1, places), newest.gather(1, places)
        self.tokens = append(self.tokens, parents, newest)
        self.gained = append(self.gained, parents, own.gather(1, places).to(self.gained))
        done = [
            number
            for number, score, count, limit in zip(
                numbers, self.scores[:, 0].tolist(), rounds, self.most.tolist(), strict=True
            )
            if _done(self.pools[number], score, count, limit, config)
        ]
        return After(parents, *(self._leave(done) if done else (None, [])))

    def leave(self, numbers: Collection[int]) -> After:
        """Remove sources, and return the best texts that are finished."""
        return After(None, *self._leave(numbers))

    def _leave(self, leaving: Collection[int]) -> tuple[Tensor, list[tuple[int, list[Hypothesis]]]]:
        places = [place for place, number in enumerate(self.numbers) if number not in leaving]
        stay = torch.tensor(places, dtype=torch.long, device=self.rounds.device)
        done = [(n, self.pools.pop(n)[: self.config.n_best]) for n in self.numbers if n in leaving]
        self.numbers = [self.numbers[place] for place in places]
        self.least, self.most, self.rounds = self.least[stay], self.most[stay], self.rounds[stay]
        self.tokens, self.gained = self.tokens[stay], self.gained[stay]
        self.scores = self.scores[stay]
        return stay, done

    def _adjusted(self, log_probs: Tensor, ending: Tensor) -> Tensor:
        """The log-probabilities after all constraints: (sources, beams, vocab)."""
        config = self.config
        wanted = constraints.apply(self.checks, log_probs, self.tokens)
        short = self.rounds <= self.least
        if bool(short.any()):  # some texts are too short to end
            early = wanted.index_fill(-1, ending, -torch.inf)
            wanted = torch.where(short[:, None, None], early, wanted)
        last = self.rounds >= self.most
        if config.forced_end_ids and bool(last.any()):
            wanted = constraints.force_end(wanted, config.forced_end_ids, last)
        return wanted.log_softmax(dim=-1) if config.renormalise else wanted


@torch.no_grad()
def pooled_search(
    step: Callable[[Tensor, S], Tensor],
    state: S,
    prefix: Tensor,
    least: Tensor,
    most: Tensor,
    config: GenerationConfig,
    *,
    ends: Sequence[int],
    extra: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return the best texts for each source, best first. The arguments are those of `search`,
    except for `ends`: all tokens that end a text."""
    searching = PooledSearch(config, ends=ends, start=prefix.shape[1], extra=extra)
    searching.join(prefix, least, most)
    return run(searching, step, state)


def _keep(pool: list[Hypothesis], text: Hypothesis, most: int) -> None:
    """Insert a finished text into the pool, which is sorted from best to worst and keeps `most`
    texts. If two are equally good, the earlier one comes first."""
    pool.append(text)
    pool.sort(key=lambda one: -one.score)
    del pool[most:]


def _done(
    pool: list[Hypothesis], best: float, rounds: int, most: int, config: GenerationConfig
) -> bool:
    """Whether the search for a source is over. best: the score of its best prefix."""
    if rounds >= most or best == -torch.inf:
        return True
    if len(pool) < config.beam_size:
        return False
    if config.early_stopping is True:
        return True
    length = most if config.early_stopping == "never" else rounds
    return best / (length + config.length_offset) ** config.alpha <= pool[-1].score
