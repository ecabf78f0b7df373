"""A search that texts join and leave = a search for each of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.invariants.cases import CONFIGS, model_of

from translucid.generate.beam_search import BeamSearch, GenerationConfig
from translucid.generate.decode import Draw, begin
from translucid.generate.pooled_search import PooledSearch
from translucid.generate.sampling import SamplingConfig

EOS, PAD = 2, 0
PREFIXES = ([1, 5, 4, 3, 6], [1], [1, 8, 3], [1, 9])
LEAST, MOST = (0, 3, 1, 0), (9, 4, 6, 5)
NAME = next(name for name, config in CONFIGS.items() if config.shape == "decoder")
NUMBERS = torch.rand(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def plain(**options: Any) -> Callable[[], BeamSearch]:
    config = GenerationConfig(beam_size=3, n_best=2, **options)
    return lambda: BeamSearch(config, eos=EOS, pad=PAD, start=1)


def pooled() -> PooledSearch:
    config = GenerationConfig(beam_size=3, n_best=2, early_stopping=False)
    return PooledSearch(config, ends=(EOS,), start=1)


def run(make: Callable[[], Any], joins: dict[int, list[int]]) -> dict[int, Any]:
    """The texts by place. joins: in which rounds which of them join."""
    model, searching, texts = model_of(NAME), make(), dict[int, Any]()
    places: dict[int, int] = {}  # by number in the search
    state, turn = None, 0
    while searching.numbers or turn <= max(joins):
        if new := joins.get(turn):
            read, prefix = begin(model, [PREFIXES[i] for i in new], None, steps=10)
            beams = 1 if isinstance(searching, Draw) else 3
            read.expand(beams)
            limits = [torch.tensor([of[i] for i in new]) for of in (LEAST, MOST)]
            more = (NUMBERS[new],) if isinstance(searching, Draw) else ()
            if searching.numbers:
                state.compact()
                state.join(read)
            else:
                state = read
            places |= dict(zip(searching.join(prefix, *limits, *more), new, strict=True))
        turn += 1
        if not searching.numbers:
            continue
        after = searching.round(model.step(searching.newest, state)[:, -1])
        if isinstance(searching, Draw):
            over = set()
            columns = (after.rows, after.tokens, after.token_log_probs, after.last)
            for number, token, log_prob, last in zip(*columns, strict=True):
                texts.setdefault(places[number], []).append((token, round(log_prob, 9)))
                if last or token == EOS:
                    over.add(number)
            if over:
                state.select(searching.leave(over))
            continue
        state.follow(after.parents)
        if after.stay is not None:
            state.select(after.stay)
        texts |= {places[number]: found for number, found in after.done}
    return texts


MAKES: dict[str, Callable[[], Any]] = {
    "plain": plain(),
    "no repeat": plain(no_repeat_ngram=2),
    "forced end": plain(forced_end_ids=(EOS,)),
    "pooled": pooled,
    "sampled": lambda: Draw(SamplingConfig(top_k=4), eos=EOS),
}


@pytest.mark.usefixtures("no_grad")
@pytest.mark.invariant("joined = separate")
def test_joined_searches_equal_separate_ones() -> None:
    for name, make in MAKES.items():
        together = run(make, {0: [0], 2: [1, 2], 3: [3]})
        for place in range(4):
            (alone,) = run(make, {0: [place]}).values()
            if name == "sampled":
                assert together[place] == alone
                continue
            assert [one.tokens for one in together[place]] == [one.tokens for one in alone], name
            for one, two in zip(together[place], alone, strict=True):
                assert one.finished == two.finished
                assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-9)
                assert one.score == pytest.approx(two.score, abs=1e-9)
