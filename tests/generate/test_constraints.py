"""Rules against a naive check of every token, on random texts with padding in front."""

import pytest
import torch
from torch import Tensor

from translucid.generate import constraints

VOCAB = 5


def texts(seed: int, length: int = 7) -> tuple[Tensor, Tensor]:
    """Log-probabilities (2, 3, vocab) and tokens (2, 3, length), some rows padded with -1."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCAB, (2, 3, length), generator=generator)
    tokens[0, 0, :2] = tokens[1, 2, :4] = -1
    return torch.randn(2, 3, VOCAB, generator=generator).log_softmax(dim=-1), tokens


def each(log_probs: Tensor, tokens: Tensor) -> list[tuple[tuple[int, int], list[int]]]:
    """The place and the text of every row."""
    places = [(i, j) for i in range(log_probs.shape[0]) for j in range(log_probs.shape[1])]
    return [(place, [t for t in tokens[place].tolist() if t >= 0]) for place in places]


def same(actual: Tensor, log_probs: Tensor, banned: dict[tuple[int, int], set[int]]) -> None:
    expected = log_probs.clone()
    for place, tokens in banned.items():
        for token in tokens:
            expected[(*place, token)] = -torch.inf
    assert torch.equal(actual, expected)
    assert any(banned.values()), "a case in which nothing is forbidden shows nothing"


def repeats(text: list[int], token: int, size: int) -> bool:
    longer = [*text, token]
    runs = [tuple(longer[i : i + size]) for i in range(len(longer) - size + 1)]
    return len(longer) >= size and runs[-1] in runs[:-1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeat(size: int, seed: int) -> None:
    log_probs, tokens = texts(seed, length=12)
    banned = {
        place: {token for token in range(VOCAB) if repeats(text, token, size)}
        for place, text in each(log_probs, tokens)
    }
    same(constraints.no_repeat(size)(log_probs, tokens), log_probs, banned)


@pytest.mark.parametrize("seed", range(3))
def test_repetition(seed: int) -> None:
    log_probs, tokens = texts(seed)
    found = constraints.repetition(1.5)(log_probs, tokens)
    for place, text in each(log_probs, tokens):
        for token in range(VOCAB):
            expected = log_probs[(*place, token)] * (1.5 if token in text else 1.0)
            assert float(found[(*place, token)]) == pytest.approx(float(expected))


def test_forbid() -> None:
    log_probs, tokens = texts(0)
    banned = {place: {1, 4} for place, _ in each(log_probs, tokens)}
    same(constraints.forbid([1, 4])(log_probs, tokens), log_probs, banned)


@pytest.mark.parametrize("run", [[2], [2, 0], [0, 1, 2], [3, 3]])
@pytest.mark.parametrize("seed", range(3))
def test_forbid_run(run: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(20, 10, VOCAB, generator=generator)
    tokens = torch.randint(VOCAB, (20, 10, 4), generator=generator)
    first = run[:-1]
    banned = {
        place: {run[-1]} if text[len(text) - len(first) :] == first else set()
        for place, text in each(log_probs, tokens)
    }
    same(constraints.forbid_run(run)(log_probs, tokens), log_probs, banned)


@pytest.mark.parametrize(
    ("length", "rule"),
    [(1, constraints.no_repeat(3)), (4, constraints.forbid_run([0, 1, 2, 3, 4, 0]))],
)
def test_a_text_shorter_than_the_run_is_not_constrained(
    length: int, rule: constraints.Constraint
) -> None:
    log_probs, tokens = texts(0, length=length)
    assert torch.equal(rule(log_probs, tokens), log_probs)


def test_force() -> None:
    rule = constraints.force({0: 3, 2: 1}, start=5)
    for length, forced in ((5, 3), (6, None), (7, 1), (8, None)):
        log_probs, tokens = texts(0, length=length)
        if forced is None:
            assert torch.equal(rule(log_probs, tokens), log_probs)
        else:
            banned = {place: {*range(VOCAB)} - {forced} for place, _ in each(log_probs, tokens)}
            same(rule(log_probs, tokens), log_probs, banned)


@pytest.mark.parametrize("seed", range(3))
def test_behind_start_ignores_the_start_token(seed: int) -> None:
    log_probs, tokens = texts(seed, length=4)
    found = constraints.behind_start(constraints.no_repeat(1))(log_probs, tokens)
    banned = {place: set(text[1:]) for place, text in each(log_probs, tokens)}
    same(found, log_probs, banned)
