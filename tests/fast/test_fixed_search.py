"""The search with fixed shapes finds what the plain search finds. Without a GPU its rounds run as
they are; `tests/cuda` has them captured."""

import pytest
import torch
from tests.invariants.cases import randomised, transformer
from tests.tiny.dealt import dealt

from translucid.fast.decode_graphs import DecodeGraphs
from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.generate.decode import captured, find, limits
from translucid.models import GenerationInputs, ModelConfig

EOS, PAD, BOS = 1, 0, 2
LENGTHS = (5, 2, 4)

MODELS: dict[str, ModelConfig] = {
    **{
        positions: transformer("encoder-decoder", positions=positions)
        for positions in ("sinusoidal", "learned", "rotary", "alibi", "none")
    },
    "few key heads, post": transformer("encoder-decoder", kv_heads=2, placement="post"),
    "window": transformer("encoder-decoder", positions="rotary", window=3),
    "language model": transformer("decoder", positions="rotary", norm="rms"),
}
SEARCHES = {
    "greedy": GenerationConfig(beam_size=1),
    "beams": GenerationConfig(beam_size=4, n_best=3),
    "no length": GenerationConfig(beam_size=3, n_best=2, alpha=0.0),
    "not short": GenerationConfig(beam_size=3, min_length=3, max_length=6),
    "more beams than words": GenerationConfig(beam_size=13, n_best=13, max_length=3),
}


def words(texts: list[Hypothesis]) -> list[tuple[list[int], bool]]:
    return [(each.tokens, each.finished) for each in texts]


@pytest.mark.parametrize(("name", "which"), dealt(MODELS, SEARCHES, share=4))
def test_fixed_shapes_find_the_same(name: str, which: str) -> None:
    model, how = randomised(MODELS[name]), SEARCHES[which]
    graphs = DecodeGraphs()
    graphs.look_at(model)
    generator = torch.Generator().manual_seed(5)
    for prefixes in ([[BOS]] * 3, [[BOS, 5], [BOS], [BOS, 3, 4]]):
        sources = None
        if model.config.shape == "encoder-decoder":
            ids = torch.randint(3, 11, (3, max(LENGTHS)), generator=generator)
            mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
            sources = GenerationInputs.of(ids, mask)
        plain = find(model, prefixes, sources, how, eos=EOS, pad=PAD)

        bounds = limits(model, prefixes, sources, how)
        fixed = captured(graphs, model, prefixes, sources, bounds, how, eos=EOS, pad=PAD)
        assert [words(texts) for texts in fixed] == [words(texts) for texts in plain]
        for one, other in zip(fixed, plain, strict=True):
            for mine, its in zip(one, other, strict=True):
                assert mine.score == pytest.approx(its.score, abs=1e-5)
                assert mine.token_log_probs == pytest.approx(its.token_log_probs, abs=1e-5)
