"""Any healthy family learns one batch by heart; what cannot be learnt is said."""

from typing import Any

import pytest
import torch
from tests.checks.checked import FAMILIES, PAIRS, TASKS, TINY, planted, told, world
from torch import Tensor, nn

from translucid.models import RecurrentConfig, TransformerConfig
from translucid.runs.checks.overfitting import overfit_one_batch, small
from translucid.tasks.batch import Batch
from translucid.tasks.classify import Classify
from translucid.tasks.findings import Finding
from translucid.tasks.loss import cross_entropy
from translucid.tasks.regress import Regress


@pytest.mark.parametrize(
    ("task", "family"),
    [("translate", "rotary pre"), ("translate", "gru additive"), ("language", "alibi post"),
     ("language", "lstm none"), ("classify", "learned pre"), ("tag", "rnn none")],
)  # fmt: skip
def test_one_batch_is_overfitted(task: str, family: str) -> None:
    finding = overfit(task, FAMILIES[family])
    assert finding.ok, finding.words


def test_regularization_is_off_while_overfitting() -> None:
    tags = {"shape": "encoder", "head": "tag", "outputs": 3, "vocab": 9, "word_dropout": 0.5}
    for config in (RecurrentConfig(**tags), TransformerConfig(**tags)):
        assert small(config).word_dropout == small(config).dropout == 0


# Every fourth family by one task, every task by some families; the rest on demand.
DEALT = [
    pytest.param(
        task,
        family,
        marks=pytest.mark.thorough
        if (TASKS.index(task) * 2 + list(FAMILIES).index(family)) % (4 * len(TASKS))
        else pytest.mark.slow,
    )
    for task, family in PAIRS
]


@pytest.mark.parametrize(("task", "family"), DEALT)
def test_every_kind_of_model_overfits_one_batch(task: str, family: str) -> None:
    wide = FAMILIES[family] | {"d_model": 256, "layers": 4}
    wide |= {"hidden": 256} if "hidden" in wide else {}
    finding = overfit(task, wide)
    assert finding.ok, finding.words


def overfit(task: str, model: dict[str, Any]) -> Finding:
    _, prepared, items = world(task)
    config = told(task, model).model_config_for(sizes=prepared.sizes)
    return overfit_one_batch(prepared.task, config, items)


class ChangingLabels(Classify):
    """The targets have nothing to do with the texts."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        labels = torch.randint(len(self.labels), batch.targets.shape)
        return cross_entropy(model(**batch.inputs), labels)


class CutOff(Regress):
    """The loss does not reach the weights."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return super().loss(model, batch).detach().requires_grad_()


@pytest.mark.parametrize(
    ("kind", "name", "model"),
    [(ChangingLabels, "classify", TINY), (CutOff, "regress", {"hidden": [8]})],
)
def test_data_that_cannot_be_learned_is_found(kind: type, name: str, model: dict[str, Any]) -> None:
    _, prepared, items = world(name)
    config = told(name, model).model_config_for(sizes=prepared.sizes)
    finding = overfit_one_batch(planted(kind, name), config, items, steps=60)
    assert finding.mark == "-"
    assert "after 60 steps" in finding.words
    assert "curve: " in finding.words


def test_small_model_keeps_the_settings() -> None:
    sizes = world("translate")[1].sizes
    options: dict[str, Any] = {"d_model": 512, "heads": 8, "kv_heads": 2, "layers": 6}
    options |= {"d_ff": 2048, "norm": "rms", "activation": "swiglu", "positions": "rotary"}
    options |= {"window": 5}
    large = told("translate", options).model_config_for(sizes=sizes)
    found = small(large).model_dump()
    assert found["d_model"] == 64
    assert (found["heads"], found["kv_heads"], found["layers"], found["d_ff"]) == (4, 1, 2, 256)
    kept = {"norm", "activation", "positions", "window", "placement", "tied", "vocab", "shape"}
    assert all(found[key] == large.model_dump()[key] for key in kept)
    assert found["dropout"] == 0
