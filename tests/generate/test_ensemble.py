"""Several models: one alone is itself; two say the mean of their probabilities."""

import pytest
import torch
from tests.invariants.cases import Text, randomised, recurrent, transformer, whole
from torch import Tensor

from translucid.core.errors import InputError
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.models import GenerationInputs, Network
from translucid.models.ensemble import GeneratingEnsemble

EOS, PAD = 1, 0
HOW = GenerationConfig(beam_size=3, n_best=3, max_length=6)


def decoders() -> list[Network]:
    """Of different families: only the vocabulary must be one."""
    return [randomised(transformer("decoder"), 0), randomised(recurrent("decoder"), 1)]


def found(
    model: object, prefixes: list[list[int]], sources: GenerationInputs | None = None
) -> list[list]:
    return find(model, prefixes, sources, HOW, eos=EOS, pad=PAD)


def test_an_ensemble_of_one_equals_the_model() -> None:
    model = decoders()[0]
    for one, other in zip(
        found(model, [[3], [4, 5]]), found(GeneratingEnsemble([model]), [[3], [4, 5]]), strict=True
    ):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        for a, b in zip(one, other, strict=True):
            assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-12)


def mean_log_probs(models: list[Network], ids: Tensor) -> Tensor:
    each = [whole(model, Text(ids)).softmax(dim=-1) for model in models]
    return (sum(each) / len(each)).log()


def test_an_ensemble_averages_probabilities() -> None:
    models = decoders()
    together, ids = GeneratingEnsemble(models), torch.tensor([[3, 5, 7], [2, 2, 4]])
    state = together.start(GenerationInputs(2), capacity=5)
    with torch.no_grad():
        first, rest = together.step(ids[:, :1], state), together.step(ids[:, 1:], state)
        expected = mean_log_probs(models, ids)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", ["decoder", "encoder-decoder"])
def test_a_search_reports_the_mean_of_the_models(shape: str) -> None:
    models = [randomised(transformer(shape), 0), randomised(recurrent(shape), 1)]
    source = torch.tensor([[3, 4, 5, 2]]) if shape == "encoder-decoder" else None
    inputs = None if source is None else GenerationInputs.of(source)
    for prefix in ([3], [4, 5]):
        (texts,) = found(GeneratingEnsemble(models), [prefix], inputs)
        for each in texts:
            tokens = each.tokens + [EOS] * each.finished
            text = Text(torch.tensor([[*prefix, *tokens]]), source=source)
            with torch.no_grad():
                mean = (sum(whole(m, text).softmax(dim=-1) for m in models) / 2).log()
            chosen = [float(mean[0, len(prefix) - 1 + i, t]) for i, t in enumerate(tokens)]
            assert each.token_log_probs == pytest.approx(chosen, abs=1e-5)


def test_different_vocabularies_are_refused() -> None:
    models = [randomised(transformer("decoder")), randomised(transformer("decoder", vocab=12))]
    with pytest.raises(InputError, match="11, 12 tokens"):
        GeneratingEnsemble(models)
    with pytest.raises(InputError, match="at least one model"):
        GeneratingEnsemble([])
