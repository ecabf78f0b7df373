"""Activation regularization and its temporal form, against the formulas written out."""

import pytest
import torch
from tests.training.test_carried_state import network, text

from translucid.core.errors import ConfigError
from translucid.core.trace import Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models.build import build
from translucid.models.transformer import TransformerConfig
from translucid.tasks.language import Language, LanguageItem
from translucid.training.config import TrainingConfig
from translucid.training.distributed import ALONE
from translucid.training.gradients import Gradients

CPU = torch.device("cpu")


@pytest.mark.parametrize("factors", [(2.0, 0.0), (0.0, 3.0), (2.0, 3.0)])
def test_gradients_are_those_of_the_formula(factors: tuple[float, float]) -> None:
    """Over a batch of two lengths; the reported loss is without the penalty."""
    task = Language(Tokenizer.train("word", ["a b c d e f g"]))
    rows = [row.tolist() for row in text()]
    items = [LanguageItem(rows[0][:9], rows[0][1:10], 1.0, 1),
             LanguageItem(rows[1][:6], rows[1][1:7], 1.0, 2)]  # fmt: skip
    batch = task.collate(items)
    model, by_hand = network(), network()
    config = TrainingConfig(
        activation_regularization=factors[0], temporal_regularization=factors[1]
    )
    loss = Gradients(model, task, config, CPU, ALONE).add(batch, 0.5, last=True)

    trace = Trace(keep=["decoder.recurrent.output"])
    plain = task.loss(by_hand, batch)
    by_hand(**batch.inputs, trace=trace)
    h = trace["decoder.recurrent.output"]
    real = [h[0, :9], h[1, :6]]
    changes = [one[1:] - one[:-1] for one in real]
    penalty = factors[0] * torch.cat(real).square().mean()
    penalty = penalty + factors[1] * torch.cat(changes).square().mean()
    (0.5 * (plain + 15 * penalty)).backward()
    assert torch.allclose(loss, plain.detach())
    for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        assert ours.grad is not None
        assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=1e-6)
    assert not model.decoder.recurrent._forward_hooks


def test_a_network_without_recurrent_layers_is_refused() -> None:
    task = Language(Tokenizer.train("word", ["a b"]))
    config = TransformerConfig(
        shape="decoder", head="language", vocab=11, d_model=8, heads=2, layers=1
    )
    training = TrainingConfig(temporal_regularization=1.0)
    with pytest.raises(ConfigError, match=r"training\.temporal_regularization = 1\.0: .* no rec"):
        Gradients(build(config), task, training, CPU, ALONE)
