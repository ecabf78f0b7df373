"""Beam search: with the cache = without; a beam of 1 = greedy; a very wide beam = all there is."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from tests.invariants.cases import (
    Text,
    begin,
    close,
    model_of,
    random_text,
    randomised,
    recurrent,
    some_writers,
    transformer,
    whole,
)
from torch import Tensor

from translucid.decoding.beam import Beams, beam_search, beam_step
from translucid.models import ModelConfig, Network

pytestmark = pytest.mark.usefixtures("no_grad")
EOS, PAD, BEAMS, STEPS = 1, 0, 3, 4


def search(model: Network, text: Text, beams: int, alpha: float = 0.0, steps: int = STEPS) -> Beams:
    state = begin(model, text)
    state.expand(beams)
    return beam_search(
        model, state, text.ids, beams=beams, steps=steps, eos=EOS, pad=PAD, alpha=alpha
    )


def slow_search(model: Network, text: Text, beams: int, alpha: float) -> Beams:
    """Without a state: every prefix is read anew at every step."""
    rows = torch.arange(text.ids.shape[0]).repeat_interleave(beams)
    found = Beams.start(text.ids, beams, dtype=torch.float64)
    for _ in range(STEPS):
        prefixes = replace(text.take(rows), ids=found.tokens.flatten(0, 1))
        log_probs = whole(model, prefixes)[:, -1].log_softmax(dim=-1).unflatten(0, (-1, beams))
        found, _ = beam_step(found, log_probs, eos=EOS, pad=PAD, alpha=alpha)
        if found.finished.all():
            break
    return found


def score(model: Network, text: Text, tokens: Tensor, lengths: Tensor) -> Tensor:
    """The log-probability of each row's continuation, end included, by one reading of the whole."""
    start = text.ids.shape[1]
    log_probs = whole(model, replace(text, ids=tokens))[:, start - 1 : -1].log_softmax(dim=-1)
    chosen = log_probs.gather(2, tokens[:, start:, None]).squeeze(-1)  # (rows, steps)
    return (chosen * (torch.arange(chosen.shape[1]) < lengths[:, None])).sum(dim=1)


@pytest.mark.invariant("beam search through the cache = without a cache")
@some_writers
def test_cached_search(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=2)
    alpha = 0.0 if "pre" in name else 0.7
    fast, slow = search(model, text, BEAMS, alpha), slow_search(model, text, BEAMS, alpha)
    assert torch.equal(fast.tokens, slow.tokens)
    assert torch.equal(fast.lengths, slow.lengths)
    assert torch.equal(fast.finished, slow.finished)
    close(fast.scores, slow.scores)


@pytest.mark.invariant("scores recomputable")
@some_writers
def test_scores(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=2)
    found = search(model, text, BEAMS, alpha=0.5)
    rows = torch.arange(2).repeat_interleave(BEAMS)
    expected = score(
        model, text.take(rows), found.tokens.flatten(0, 1), found.lengths.flatten()
    ).unflatten(0, (2, BEAMS))
    close(found.scores, expected)
    ranking = found.ranking(0.5)
    close(ranking, expected / found.lengths**0.5)
    assert torch.equal(ranking, ranking.sort(dim=1, descending=True).values), "best first"


@pytest.mark.invariant("beam of 1 = greedy")
@some_writers
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
    found = search(model, text, beams=1)
    assert torch.equal(found.tokens[:, 0], tokens)
    assert torch.equal(found.finished[:, 0], ended)


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
    all_texts = sorted({ended(words) for words in product(range(4), repeat=steps)})
    found = search(model, text, len(all_texts), alpha, steps)
    for row in range(2):
        one = text.take([row] * len(all_texts))
        tokens = torch.cat([one.ids, torch.tensor(all_texts)], dim=1)
        lengths = torch.tensor([length(words) for words in all_texts])
        scores = score(model, one, tokens, lengths)
        order = (scores / lengths**alpha).argsort(descending=True)
        assert torch.equal(found.tokens[row], tokens[order])
        close(found.scores[row], scores[order])
        close(found.lengths[row], lengths[order])


def ended(words: tuple[int, ...]) -> tuple[int, ...]:
    """After the end comes padding only."""
    end = length(words)
    return words[:end] + (PAD,) * (len(words) - end)


def length(words: tuple[int, ...]) -> int:
    return words.index(EOS) + 1 if EOS in words else len(words)
