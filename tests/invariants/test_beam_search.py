"""Beam search: with the cache = without; a beam of 1 = greedy; a very wide beam = all there is."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from tests.invariants.cases import (
    Text,
    begin,
    close,
    every,
    model_of,
    random_text,
    randomised,
    recurrent,
    transformer,
    whole,
    writers,
)
from torch import Tensor

from translucid.generate.beam import Beams, beam_step
from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.generate.beam_search import search as run_search
from translucid.models import ModelConfig, Network

pytestmark = pytest.mark.usefixtures("no_grad")
EOS, PAD, BEAMS, STEPS = 1, 0, 3, 4


def search(
    model: Network, text: Text, how: GenerationConfig, *steps: int
) -> list[list[Hypothesis]]:
    """Through a state that has read the prefix with one beam; steps: for all rows, or for each."""
    rows = text.ids.shape[0]
    state = begin(model, text)
    model.step(text.ids[:, :-1], state)
    state.expand(how.beam_size)
    most = torch.tensor(steps or (STEPS,)).expand(rows)
    return run_search(model.step, state, text.ids, 0 * most, most, how, eos=EOS, pad=PAD)


def slow_search(model: Network, text: Text, how: GenerationConfig) -> Beams:
    """Without a state: every prefix is read anew at every step."""
    rows = torch.arange(text.ids.shape[0]).repeat_interleave(how.beam_size)
    found = Beams.start(text.ids, how.beam_size, dtype=torch.float64)
    for _ in range(STEPS):
        prefixes = replace(text.take(rows), ids=found.tokens.flatten(0, 1))
        log_probs = (
            whole(model, prefixes)[:, -1].log_softmax(dim=-1).unflatten(0, (-1, how.beam_size))
        )
        found, _ = beam_step(found, log_probs, eos=EOS, pad=PAD)
        if found.finished.all():
            break
    return found


def score(model: Network, text: Text, tokens: Tensor, lengths: Tensor) -> Tensor:
    """The log-probability of each row's continuation, end included, by one reading of the whole."""
    start = text.ids.shape[1]
    log_probs = whole(model, replace(text, ids=tokens))[:, start - 1 : -1].log_softmax(dim=-1)
    chosen = log_probs.gather(2, tokens[:, start:, None]).squeeze(-1)  # (rows, steps)
    return (chosen * (torch.arange(chosen.shape[1]) < lengths[:, None])).sum(dim=1)


def words(found: Hypothesis) -> list[int]:
    """The tokens with the end."""
    return found.tokens + [EOS] * found.finished


@pytest.mark.invariant("beam search through the cache = without a cache")
@writers
def test_cached_search(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=2)
    alpha = 0.0 if "pre" in name else 0.7
    how = GenerationConfig(beam_size=BEAMS, n_best=BEAMS, alpha=alpha)
    fast, slow = search(model, text, how), slow_search(model, text, how)
    ranking = slow.ranking(alpha)
    for row, texts in enumerate(fast):
        order = ranking[row].argsort(descending=True)
        assert [len(words(each)) for each in texts] == slow.lengths[row, order].tolist()
        for each, place in zip(texts, order.tolist(), strict=True):
            length = int(slow.lengths[row, place])
            assert words(each) == slow.tokens[row, place, 2 : 2 + length].tolist()
            assert each.finished == bool(slow.finished[row, place])
            close(torch.tensor(each.score, dtype=torch.float64), ranking[row, place])
            assert len(each.token_log_probs) == length
            assert sum(each.token_log_probs) == pytest.approx(
                float(slow.scores[row, place]), abs=1e-12
            )


@pytest.mark.invariant("scores recomputable")
@writers
def test_scores(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=2)
    found = search(model, text, GenerationConfig(beam_size=BEAMS, n_best=BEAMS, alpha=0.5))
    for row, texts in enumerate(found):
        ranks = [each.score for each in texts]
        assert ranks == sorted(ranks, reverse=True), "best first"
        for each in texts:
            ids = torch.tensor([text.ids[row].tolist() + words(each)])
            length = len(words(each))
            expected = float(score(model, text.take([row]), ids, torch.tensor([length])))
            assert each.log_probability == pytest.approx(expected, abs=1e-12)
            assert each.score == pytest.approx(expected / length**0.5, abs=1e-12)


@pytest.mark.invariant("beam of 1 = greedy")
@writers
def test_greedy(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=3, length=2)
    tokens, ended = text.ids, torch.zeros(3, dtype=torch.bool)
    for _ in range(STEPS):
        best = whole(model, replace(text, ids=tokens))[:, -1].argmax(dim=-1)
        best = torch.where(ended, PAD, best)
        tokens, ended = torch.cat([tokens, best[:, None]], dim=1), ended | (best == EOS)
        if ended.all():
            break
    for row, (each,) in enumerate(search(model, text, GenerationConfig(beam_size=1))):
        assert words(each) == tokens[row, 2 : 2 + len(words(each))].tolist()
        assert each.finished == bool(ended[row])


@pytest.mark.invariant("batched = one by one, in a search")
@writers
def test_batched_search(name: str) -> None:
    """Sentences that are settled leave the others in the batch."""
    model = model_of(name)
    text = random_text(model, rows=3, length=2)
    how = GenerationConfig(beam_size=BEAMS, n_best=2)
    limits = (3, 8, 5)
    together = search(model, text, how, *limits)
    for row, texts in enumerate(together):
        (alone,) = search(model, text.take([row]), how, limits[row])
        assert [words(each) for each in texts] == [words(each) for each in alone]
        for one, other in zip(texts, alone, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-12)


@pytest.mark.invariant("stopping early = searching to the end")
@every("decoder", "encoder-decoder", best=(1, 2), alpha=(0.0, 0.7, 1.5))
def test_stopping_early_loses_nothing(name: str, best: int, alpha: float) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=2)
    early = search(model, text, GenerationConfig(beam_size=4, n_best=best, alpha=alpha), 8)
    late = search(model, text, GenerationConfig(beam_size=4, n_best=4, alpha=alpha), 8)
    for one, other in zip(early, late, strict=True):
        ended = [each for each in other if each.finished]
        if len(ended) >= best:  # what is cut off may be ranked above what has ended
            assert one[0].score >= other[0].score - 1e-12
            assert [words(each) for each in one] == [words(each) for each in other[:best]]


TINY: dict[str, ModelConfig] = {
    "transformer-decoder": transformer("decoder", vocab=4, positions="rotary", kv_heads=2),
    "transformer-encoder-decoder": transformer("encoder-decoder", vocab=4, norm="rms"),
    "lstm-decoder": recurrent("decoder", vocab=4),
    "gru-encoder-decoder": recurrent("encoder-decoder", vocab=4, cell="gru", attention="dot"),
}


@pytest.mark.invariant("very wide beam = exhaustive search")
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("name", TINY)
def test_exhaustive(name: str, alpha: float) -> None:
    """Three steps over four words: 40 texts, of which 13 end."""
    steps, prefix = 3, 2
    model = randomised(TINY[name])
    text = random_text(model, rows=2, length=prefix)
    all_texts = sorted({ended(ids) for ids in product(range(4), repeat=steps)})
    everything = len(all_texts)
    how = GenerationConfig(beam_size=everything, n_best=everything, alpha=alpha)
    found = search(model, text, how, steps)
    for row in range(2):
        one = text.take([row] * everything)
        tokens = torch.cat([one.ids, torch.tensor(all_texts)], dim=1)
        lengths = torch.tensor([length(ids) for ids in all_texts])
        scores = score(model, one, tokens, lengths)
        order = (scores / lengths**alpha).argsort(descending=True)
        expected = [list(all_texts[i][: int(lengths[i])]) for i in order.tolist()]
        assert [words(each) for each in found[row]] == expected
        sums = torch.tensor([each.log_probability for each in found[row]], dtype=torch.float64)
        close(sums, scores[order])


def ended(words: tuple[int, ...]) -> tuple[int, ...]:
    """After the end comes padding only."""
    end = length(words)
    return words[:end] + (PAD,) * (len(words) - end)


def length(words: tuple[int, ...]) -> int:
    return words.index(EOS) + 1 if EOS in words else len(words)
