"""Chance: which tokens may be drawn, how often they are, and always the same by the same seed."""

import math
from collections import Counter

import pytest
import torch
from tests.invariants.cases import randomised, recurrent, transformer
from torch import Tensor

from translucid.generate.constraints import forbid
from translucid.generate.decode import draw
from translucid.generate.sampling import SamplingConfig, pick, shape, uniforms
from translucid.models import GenerationInputs, ModelConfig, Network

EOS = 1


def naive(probabilities: list[float], by: SamplingConfig) -> list[float]:
    """The same filters on a Python list, by sorting."""

    def keep(which: set[int]) -> list[float]:
        total = sum(p for i, p in enumerate(probabilities) if i in which)
        return [p / total if i in which else 0.0 for i, p in enumerate(probabilities)]

    if by.temperature != 1:
        warmed = [p ** (1 / by.temperature) for p in probabilities]
        probabilities = [p / sum(warmed) for p in warmed]
    order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])
    if by.top_k is not None:
        probabilities = keep(set(order[: by.top_k]))
    if by.top_p is not None:
        kept, reached = set(), 0.0
        for i in order:
            if reached >= by.top_p:
                break
            kept.add(i)
            reached += probabilities[i]
        probabilities = keep(kept)
    if by.min_p is not None:
        least = by.min_p * max(probabilities)
        probabilities = keep({i for i, p in enumerate(probabilities) if p >= least})
    return probabilities


SAMPLINGS = [
    SamplingConfig(),
    SamplingConfig(temperature=0.5),
    SamplingConfig(temperature=2.0, top_k=4),
    SamplingConfig(top_k=3),
    SamplingConfig(top_p=0.6),
    SamplingConfig(top_p=0.05),  # the likeliest alone
    SamplingConfig(min_p=0.3),
    SamplingConfig(temperature=1.5, top_k=6, top_p=0.8, min_p=0.2),
]


@pytest.mark.parametrize("by", SAMPLINGS, ids=repr)
def test_filters(by: SamplingConfig) -> None:
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(5, 12, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    for found, row in zip(shape(log_probs, by).exp(), log_probs.exp(), strict=True):
        assert found.tolist() == pytest.approx(naive(row.tolist(), by))


@pytest.mark.parametrize("by", SAMPLINGS, ids=repr)
def test_frequencies_are_the_probabilities(by: SamplingConfig) -> None:
    """20,000 draws; the sum of (seen - expected)^2 / expected stays where chance keeps it."""
    count = 20_000
    generator = torch.Generator().manual_seed(1)
    log_probs = (2 * torch.randn(1, 8, generator=generator)).log_softmax(dim=-1)
    numbers = uniforms(3, [5, 6], 0, count)
    seen = Counter(pick(log_probs.expand(count, -1), numbers, by).tolist())
    expected = shape(log_probs, by).exp()[0].tolist()
    assert all(expected[token] > 0 for token in seen)
    away = sum(
        (seen[token] - count * p) ** 2 / (count * p) for token, p in enumerate(expected) if p > 0
    )
    degrees = sum(p > 0 for p in expected) - 1
    assert away <= degrees + 4 * math.sqrt(2 * max(degrees, 1))


def test_numbers_at_the_edge_point_at_tokens_that_may_be_drawn() -> None:
    log_probs = torch.tensor([[0.0, 0.5, 0.5, 0.0]]).log()
    edges = torch.tensor([0.0, 0.5, 1 - 1e-12, 1.0])
    found = pick(log_probs.expand(4, -1), edges, SamplingConfig())
    assert found.tolist() == [1, 2, 2, 2]


def test_numbers_differ_by_seed_sample_and_prompt_and_begin_alike() -> None:
    some = uniforms(0, [4, 5], 0, 6)
    assert torch.equal(some, uniforms(0, [4, 5], 0, 9)[:6])
    for other in (uniforms(1, [4, 5], 0, 6), uniforms(0, [4, 6], 0, 6), uniforms(0, [4, 5], 1, 6)):
        assert not torch.equal(some, other)
    assert 0 <= float(some.min()) <= float(some.max()) < 1


WRITERS: dict[str, ModelConfig] = {
    "transformer": transformer("decoder", positions="rotary"),
    "lstm": recurrent("decoder"),
    "translator": transformer("encoder-decoder"),
    "gru translator": recurrent("encoder-decoder", cell="gru", attention="dot"),
}
PROMPTS = [[1, 4], [1, 7, 3, 9, 2], [1]]
SOURCES = [[3, 4, 5, 2], [6, 2], [7, 8, 9, 2]]


def written(
    model: Network, rows: list[int], numbers: Tensor, least: int = 0, **more: object
) -> list[list[int]]:
    prompts = [PROMPTS[row] for row in rows]
    sources = None
    if model.config.shape == "encoder-decoder":
        width = max(len(SOURCES[row]) for row in rows)
        ids = torch.tensor([SOURCES[row] + [0] * (width - len(SOURCES[row])) for row in rows])
        sources = GenerationInputs.of(ids, ids > 0)
    found: list[list[int]] = [[] for _ in rows]
    lengths = {"least": [least] * len(rows)} | more
    for step in draw(model, prompts, sources, SamplingConfig(), numbers, eos=EOS, **lengths):
        for row, token in zip(step.rows, step.tokens, strict=True):
            found[row].append(token)
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_a_text_is_the_same_alone_and_in_a_batch(name: str) -> None:
    model = randomised(WRITERS[name])
    numbers = torch.stack([uniforms(0, prompt, 0, 30) for prompt in PROMPTS])
    together = written(model, [0, 1, 2], numbers)
    assert together == [written(model, [row], numbers[[row]])[0] for row in range(3)]
    assert len({len(text) for text in together}) > 1, "all of one length shows little"


def test_minimum_and_maximum_length() -> None:
    model = randomised(WRITERS["lstm"])
    numbers = torch.stack([uniforms(seed, [1], 0, 40) for seed in range(3)])
    for text in written(model, [0, 1, 2], numbers, least=30):
        assert EOS not in text[:30]
    assert any(EOS in text[:30] for text in written(model, [0, 1, 2], numbers))

    def eager(log_probs: Tensor, tokens: Tensor) -> Tensor:  # it ends as soon as it may
        return log_probs.index_fill(-1, torch.tensor(EOS), 50.0)

    for text in written(model, [0, 1, 2], numbers, least=3, extra=[eager]):
        assert text.index(EOS) == 3
    texts = written(model, [0, 1, 2], numbers, least=30, most=[4, 7, 2])
    assert [len(text) for text in texts] == [4, 7, 2]


def test_a_text_ends_if_every_token_is_forbidden() -> None:
    model = randomised(WRITERS["lstm"])
    everything = forbid(list(range(model.config.vocab)))
    assert written(model, [0], uniforms(0, [1], 0, 5)[None], extra=[everything]) == [[EOS]]
