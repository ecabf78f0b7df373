"""Schedules at their corners; optimizers against each other."""

import copy
from itertools import pairwise
from typing import get_args

import pytest
import torch
from torch import nn

from translucid.models import TransformerConfig, build
from translucid.training.config import TrainingConfig
from translucid.training.optimizers import (
    STEPS,
    A,
    B,
    C,
    Muon,
    OptimizerName,
    ScheduleName,
    make_optimizer,
    orthogonal,
    product_dtype,
    rate,
)
from translucid.training.state import State


@pytest.mark.parametrize("name", get_args(ScheduleName))
def test_every_schedule_climbs_to_one_and_stays_between_zero_and_one(name: ScheduleName) -> None:
    rates = [rate(step, name, steps=100, warmup=10) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == 1.0
    assert max(rates) == 1.0
    assert min(rates) > 0
    assert all(after <= before for before, after in pairwise(rates[9:]))


def test_where_the_schedules_end() -> None:
    ends = {name: rate(99, name, steps=100, warmup=10) for name in get_args(ScheduleName)}
    assert ends["constant"] == 1.0
    assert ends["linear"] == pytest.approx(1 / 90)
    assert ends["cosine"] < 0.001
    assert ends["wsd"] == pytest.approx(1 / 20)
    assert rate(39, "inverse_sqrt", steps=0, warmup=10) == pytest.approx(0.5)
    assert rate(79, "wsd", steps=100, warmup=10) == 1.0


@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_every_optimizer_moves_every_parameter_and_lowers_the_loss(name: OptimizerName) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        shape="decoder", head="language", vocab=11, d_model=16, layers=1, dropout=0.0
    )
    model = build(config)
    optimizers = make_optimizer(model, name, learning_rate=1e-2, weight_decay=0.0)
    ids = torch.randint(0, 11, (4, 8))
    before = {n: p.clone() for n, p in model.named_parameters()}
    losses = []
    for _ in range(5):
        logits = model(ids)[:, :-1].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    for n, p in model.named_parameters():
        assert not torch.equal(p, before[n]), n


def stepped(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
    """Four steps with gradients that depend on nothing but the shapes."""
    drawn = torch.Generator().manual_seed(1)
    for _ in range(4):
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=drawn)
        optimizer.step()


# torch's Muon multiplies in bfloat16 and warns on a processor without it; ours must not.
@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed, switching to")
def test_muon_in_batches_is_torchs_muon() -> None:
    """For matrices that are wide, tall, square and alone in their shape."""
    torch.manual_seed(0)
    shapes = [(8, 24), (24, 8), (8, 24), (8, 8), (24, 8), (5, 7)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    settings = {"lr": 0.02, "weight_decay": 0.1}
    muon = Muon(ours, **settings)
    wanted = torch.optim.Muon(theirs, **settings, adjust_lr_fn="match_rms_adamw")
    stepped(muon, ours)
    stepped(wanted, theirs)
    for p, q in zip(ours, theirs, strict=True):
        length = 4 * 0.02 * 0.2 * max(p.shape) ** 0.5  # of four steps whose matrix has norm 1
        torch.testing.assert_close(p, q, rtol=0, atol=0.02 * length)  # bfloat16 has 8 bits
        mean = wanted.state[q]["momentum_buffer"]
        torch.testing.assert_close(muon.state[p]["momentum_buffer"], mean)


def test_muon_on_a_cpu_multiplies_in_float32(recwarn: pytest.WarningsRecorder) -> None:
    """Each singular value goes through the polynomial of Newton and Schulz; the rest stays."""
    assert product_dtype(torch.device("cpu")) is torch.float32
    for shape in ((3, 6, 40), (2, 40, 6), (1, 16, 16)):
        matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        u, s, vh = torch.linalg.svd(matrices.double(), full_matrices=False)
        s = s / s.norm(dim=-1, keepdim=True)
        for _ in range(STEPS):
            s = A * s + B * s**3 + C * s**5
        wanted = (u * s.unsqueeze(1)) @ vh
        torch.testing.assert_close(orthogonal(matrices).double(), wanted, rtol=0, atol=1e-4)
    assert not recwarn.list


@pytest.mark.parametrize("embeddings", [False, True])
def test_only_matrices_decay(embeddings: bool) -> None:
    for name in get_args(OptimizerName):
        model = build(TransformerConfig(shape="decoder", head="language", vocab=11, d_model=16))
        config = TrainingConfig(optimizer=name, weight_decay=0.1, decay_embeddings=embeddings)
        groups = [group for one in State(model, config).optimizers for group in one.param_groups]
        decayed = {id(p) for g in groups if g["weight_decay"] for p in g["params"]}
        for n, p in model.named_parameters():
            assert (id(p) in decayed) == (p.dim() == 2 and (embeddings or "embedding" not in n)), n
        total = sum(len(group["params"]) for group in groups)
        assert total == len(list(model.parameters()))


@pytest.mark.parametrize("embeddings", [False, True])
def test_beside_muon_a_table_decays_as_adamw_decays_it(embeddings: bool) -> None:
    """A step without a gradient: weights that decay are multiplied with 1 - rate * decay."""
    model = build(TransformerConfig(shape="decoder", head="language", vocab=11, d_model=16))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizers = make_optimizer(
        model, "muon", learning_rate=0.5, weight_decay=0.1, decay_embeddings=embeddings
    )
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    for optimizer in optimizers:
        optimizer.step()
    for n, p in model.named_parameters():
        decays = p.dim() == 2 and (embeddings or "embedding" not in n)
        torch.testing.assert_close(p, before[n] * (0.95 if decays else 1.0), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_a_run_begins_with_fresh_moments(name: OptimizerName) -> None:
    """A state makes them before the first step; the steps are those of an optimizer that makes
    them itself."""
    torch.manual_seed(0)
    ours, its = nn.Linear(6, 4), nn.Linear(6, 4)
    its.load_state_dict(ours.state_dict())
    config = TrainingConfig(optimizer=name, learning_rate=0.1, weight_decay=0.1, betas=(0.5, 0.9))
    begun = State(ours, config).optimizers
    fresh = make_optimizer(
        its, name, learning_rate=0.1, weight_decay=0.1, momentum=config.momentum, betas=(0.5, 0.9)
    )
    x = torch.randn(5, 6)
    for _ in range(3):
        for network, optimizers in ((ours, begun), (its, fresh)):
            for optimizer in optimizers:
                optimizer.zero_grad()
            network(x).square().sum().backward()
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = 0.1
                optimizer.step()
        for one, other in zip(ours.parameters(), its.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_an_optimizer_is_torchs_to_the_bit_also_after_its_state_was_loaded(
    name: OptimizerName,
) -> None:
    theirs = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    twin = copy.deepcopy(model)
    (ours,) = make_optimizer(model, name, learning_rate=0.1, weight_decay=0.2)
    more = {"momentum": 0.9} if name == "sgd" else {"betas": (0.9, 0.98), "fused": True}
    other = theirs(
        [{"params": [twin.weight], "weight_decay": 0.2}, {"params": [twin.bias]}], lr=0.1,
        **({"weight_decay": 0.0} | more),
    )  # fmt: skip
    for step in range(6):
        if step == 3:  # into one that has moved something else
            saved = ours.state_dict()
            (ours,) = make_optimizer(model, name, learning_rate=0.5, weight_decay=0.7)
            ours.load_state_dict(saved)
        for network, optimizer in ((model, ours), (twin, other)):
            optimizer.zero_grad()
            network(torch.ones(2, 5)).square().sum().backward()
            assert torch.is_grad_enabled()
            optimizer.step()
    assert all(map(torch.equal, model.parameters(), twin.parameters()))
