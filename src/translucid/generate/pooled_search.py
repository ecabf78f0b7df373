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

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from translucid.generate import constraints
from translucid.generate.beam import append
from translucid.generate.beam_search import GenerationConfig, Hypothesis, looking_back
from translucid.generate.constraints import Constraint
from translucid.models.autoregressive import S
from translucid.parts.activations import as_log_probs


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
    start, beams = prefix.shape[1], config.beam_size
    checks = [*extra, *looking_back(config), *config.constraints(start)]
    device = prefix.device
    ending = torch.tensor(sorted({*ends}), device=device)
    pools: list[list[Hypothesis]] = [[] for _ in prefix]
    numbers = torch.arange(len(prefix), device=device)
    tokens = prefix[:, None].expand(-1, beams, -1)  # (sources, beams, length)
    gained = torch.zeros(len(prefix), beams, 0, device=device)  # log-probability of each token
    scores = torch.full((len(prefix), beams), -torch.inf, device=device)
    scores[:, 0] = 0.0
    rounds = 0
    while len(numbers):
        rounds += 1
        log_probs = as_log_probs(step(tokens[..., -1].reshape(-1, 1), state)[:, -1])
        log_probs = log_probs.view(len(numbers), beams, -1)
        wanted = _adjusted(log_probs, tokens, checks, config, ending, rounds, least, most)
        vocab = wanted.shape[-1]
        total = (scores.to(wanted)[..., None] + wanted).flatten(1)
        width = min(max(2, 1 + len(ending)) * beams, total.shape[1])
        best, index = total.topk(width)  # (sources, width)
        parents, newest = index // vocab, index % vocab
        own = log_probs.flatten(1).gather(1, index)
        ended = torch.isin(newest, ending)
        leaves = (ended | (rounds >= most)[:, None]) & (best > -torch.inf)
        leaves[:, beams:] = False  # only the best `beams` continuations may enter the pool
        for row, rank in leaves.nonzero().tolist():
            parent = int(parents[row, rank])
            over = bool(ended[row, rank])
            written = [*tokens[row, parent, start:].tolist(), int(newest[row, rank])]
            log_prob = [*gained[row, parent].tolist(), float(own[row, rank])]
            ranked = float(best[row, rank]) / (rounds + config.length_offset) ** config.alpha
            text = Hypothesis(
                written[: rounds - over], ranked, sum(log_prob), log_prob, finished=over
            )
            _keep(pools[int(numbers[row])], text, beams)
        scores, places = best.masked_fill(ended, -torch.inf).topk(beams)
        parents, newest = parents.gather(1, places), newest.gather(1, places)
        tokens = append(tokens, parents, newest)
        gained = append(gained, parents, own.gather(1, places).to(gained))
        state.follow(parents)
        done = [
            _done(pools[number], score, rounds, limit, config)
            for number, score, limit in zip(
                numbers.tolist(), scores[:, 0].tolist(), most.tolist(), strict=True
            )
        ]
        if any(done):
            stay = torch.tensor([place for place, over in enumerate(done) if not over],
                                dtype=torch.long, device=device)  # fmt: skip
            numbers, least, most = numbers[stay], least[stay], most[stay]
            tokens, gained, scores = tokens[stay], gained[stay], scores[stay]
            state.select(stay)
    return [pool[: config.n_best] for pool in pools]


def _adjusted(
    log_probs: Tensor, tokens: Tensor, checks: Sequence[Constraint], config: GenerationConfig,
    ending: Tensor, rounds: int, least: Tensor, most: Tensor,
) -> Tensor:  # fmt: skip
    """The log-probabilities after all constraints: (sources, beams, vocab)."""
    wanted = constraints.apply(checks, log_probs, tokens)
    if bool((rounds <= least).any()):  # some texts are too short to end
        early = wanted.index_fill(-1, ending, -torch.inf)
        wanted = torch.where((rounds <= least)[:, None, None], early, wanted)
    if config.forced_end_ids and bool((rounds >= most).any()):
        wanted = constraints.force_end(wanted, config.forced_end_ids, rounds >= most)
    return wanted.log_softmax(dim=-1) if config.renormalise else wanted


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
