"""The loop: micro-batches are one batch, a bad gradient stops it, patience ends it."""

from collections.abc import Iterator

import pytest
import torch

from translucid.data.records import Labelled
from translucid.data.tokenizers import Tokenizer
from translucid.errors import TrainingError
from translucid.models import Network, TransformerConfig, build
from translucid.tasks.base import IGNORE, Batch, Score, cross_entropy
from translucid.tasks.classify import Classify, ClassifyItem
from translucid.training.trainer import Average, Best, Progress, TrainingConfig, Watchers, train

TEXTS = ["a good day", "a bad day", "good", "very very bad food and bad wine", "a day", "good bad"]
RECORDS = [Labelled(text, "yes" if "good" in text else "no", i) for i, text in enumerate(TEXTS)]


def parts() -> tuple[Network, Classify, list[ClassifyItem]]:
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("word", TEXTS)
    task = Classify(tokenizer, ["no", "yes"])
    config = TransformerConfig(
        shape="encoder", head="classify", vocab=len(tokenizer), outputs=2, d_model=8, heads=2,
        layers=1, dropout=0.0,
    )  # fmt: skip
    return build(config).double(), task, [task.encode(record) for record in RECORDS]


def silent(log: list[Progress] | None = None) -> Watchers:
    return Watchers((log if log is not None else []).append, lambda step, score, best: None)


def forever(task: Classify, items: list[ClassifyItem], size: int) -> Iterator[Batch]:
    while True:
        for i in range(0, len(items), size):
            yield task.collate(items[i : i + size])


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_micro_batches_of_unequal_length_are_one_batch(optimizer: str) -> None:
    results = []
    for size, accumulate in ((6, 1), (3, 2), (2, 3), (1, 6)):
        model, task, items = parts()
        config = TrainingConfig(
            steps=4, accumulate=accumulate, optimizer=optimizer, warmup=0, learning_rate=0.01,
            evaluate_every=99, log_every=1,
        )  # fmt: skip
        log: list[Progress] = []
        train(model, task, forever(task, items, size), items, config, silent(log))
        results.append(([p.loss for p in log], model.state_dict()))
    for losses, weights in results[1:]:
        assert losses == pytest.approx(results[0][0], abs=1e-6)
        for name, weight in weights.items():
            torch.testing.assert_close(weight, results[0][1][name], atol=1e-6, rtol=0)


def test_a_gradient_that_is_not_finite_stops_the_run_and_names_the_lines() -> None:
    model, task, items = parts()
    with torch.no_grad():
        model.get_parameter("head.linear.weight")[0, 0] = torch.inf
    config = TrainingConfig(steps=2)
    message = (
        r"step 0: the gradient norm is nan \(lines 0, 1, 2, 3, 4, 5 of the training data\); lower"
    )
    with pytest.raises(TrainingError, match=message):
        train(model, task, forever(task, items, 6), items, config, silent())


def test_patience_ends_a_run_that_no_longer_gets_better() -> None:
    model, task, items = parts()
    config = TrainingConfig(steps=50, learning_rate=1e-9, warmup=0, evaluate_every=1, patience=3)
    assert train(model, task, forever(task, items, 6), items, config, silent()) == 4


def test_an_interrupted_run_is_evaluated_and_saved_once_more() -> None:
    model, task, items = parts()
    saved: list[int] = []
    watchers = Watchers(
        lambda p: None, lambda step, score, best: saved.append(step), interrupted=lambda: True
    )
    steps = train(model, task, forever(task, items, 6), items, TrainingConfig(steps=9), watchers)
    assert (steps, saved) == (1, [1])


def test_best_knows_which_way_is_up() -> None:
    up, down = Best(True, None), Best(False, 2)
    assert [up.update(x) for x in (1.0, 3.0, 2.0)] == [True, True, False]
    assert [down.update(x) for x in (1.0, 3.0, 2.0)] == [True, False, False]
    assert down.stalled
    assert not up.stalled


def test_the_average_is_swapped_in_and_out() -> None:
    model, _, _ = parts()
    average = Average(model, 0.9)
    own = {name: p.clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    average.update(model)
    with average.swapped_in(model):
        for name, p in model.named_parameters():
            assert ((own[name] < p) & (p < own[name] + 1)).all()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.detach(), own[name] + 1)


def test_smoothing_gives_no_mass_to_what_is_never_written() -> None:
    """The smoothed loss is the cross-entropy with a target distribution written out by hand."""
    torch.manual_seed(0)
    logits, targets = torch.randn(2, 3, 6), torch.tensor([[2, 5, IGNORE], [3, IGNORE, 4]])
    wanted = torch.zeros(2, 3, 6)
    wanted[..., 2:] = 0.1 / 4
    for place in torch.nonzero(targets != IGNORE):
        wanted[(*place, targets[tuple(place)])] += 0.9
    by_hand = -(wanted * logits.log_softmax(-1))[targets != IGNORE].sum()
    got = cross_entropy(logits, targets, smoothing=0.1, never=(0, 1))
    torch.testing.assert_close(got, by_hand)
    plain = cross_entropy(logits, targets)
    torch.testing.assert_close(cross_entropy(logits, targets, smoothing=0.0, never=(0,)), plain)


def test_evaluation_leaves_the_model_in_training_mode() -> None:
    model, task, items = parts()
    model.train()
    score = task.evaluate(model, items)
    assert isinstance(score, Score)
    assert model.training
