"""The loop: micro-batches are one batch, a bad gradient stops it, patience ends it."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from translucid.core.errors import TrainingError
from translucid.data.records import Labelled
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import Network, TransformerConfig, build
from translucid.tasks.base import Score
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.classify import Classify, ClassifyItem
from translucid.tasks.loss import cross_entropy
from translucid.tasks.score import Criterion
from translucid.training import loop
from translucid.training.config import TrainingConfig
from translucid.training.loop import TrainingProgress, Watchers, train
from translucid.training.optimizers import rate
from translucid.training.state import Average, Best, State

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


def silent(log: list[TrainingProgress] | None = None) -> Watchers:
    return Watchers((log if log is not None else []).append)


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
        log: list[TrainingProgress] = []
        train(State(model, config), task, forever(task, items, size), items, config, silent(log))
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
    with pytest.raises(TrainingError, match=r"step 0: .*nan \(lines 0, 1, 2, 3, 4, 5 .*; lower"):
        train(State(model, config), task, forever(task, items, 6), items, config, silent())


@pytest.mark.parametrize(("norm", "value"), [(1e9, 0.01), (0.05, 0.01), (0.05, None)])
def test_clipping_scales_by_the_norm_and_then_limits_each_entry(
    norm: float, value: float | None
) -> None:
    model, task, items = parts()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    task.loss(model, task.collate(items)).backward()
    slopes = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    count = task.collate(items).count
    slopes = {name: slope / count for name, slope in slopes.items()}
    size = math.sqrt(sum(float(slope.square().sum()) for slope in slopes.values()))
    assert size > 0.05
    assert max(float(slope.abs().max()) for slope in slopes.values()) * min(1, norm / size) > 0.01

    config = TrainingConfig(
        steps=1, optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=1.0, warmup=0,
        schedule="constant", clip_norm=norm, clip_value=value, log_every=1,
    )  # fmt: skip
    log: list[TrainingProgress] = []
    model.zero_grad()
    train(State(model, config), task, forever(task, items, 6), items, config, silent(log))
    assert log[0].norm == pytest.approx(size, rel=1e-5), "the norm before clipping"
    limit = math.inf if value is None else value
    for name, parameter in model.named_parameters():
        wanted = before[name]
        if name in slopes:
            wanted = wanted - (slopes[name] * min(1.0, norm / size)).clamp(-limit, limit)
        torch.testing.assert_close(parameter.detach(), wanted, atol=1e-6, rtol=0)


def test_patience_ends_a_run_that_no_longer_gets_better() -> None:
    model, task, items = parts()
    config = TrainingConfig(steps=50, learning_rate=1e-30, warmup=0, evaluate_every=1, patience=3)
    state = State(model, config)
    assert train(state, task, forever(task, items, 6), items, config, silent()) == "patience"
    assert state.step == 4


@pytest.mark.parametrize("end", [11, 40])
def test_a_new_end_stretches_the_schedule_also_after_a_resume(end: int) -> None:
    """Decided after step 6 of 20; the run is interrupted after step 8, and nothing is decided
    later."""
    config = TrainingConfig(
        steps=20, warmup=2, schedule="linear", evaluate_every=5, log_every=1, learning_rate=1.0,
        optimizer="sgd",
    )  # fmt: skip
    rates: list[float] = []
    evaluated: list[int] = []
    numbers: dict[str, Any] = {}
    for first in (True, False):
        model, task, items = parts()
        state = State(model, config)
        if not first:
            state.restore(lambda tensors: None, numbers)
        watchers = Watchers(
            lambda now: rates.append(now.learning_rate),
            evaluated=lambda network, score, best, state=state: evaluated.append(state.step),
            interrupted=lambda first=first, state=state: first and state.step >= 8,
        )
        ending = train(
            state, task, forever(task, items, 6), items, config, watchers,
            new_end=lambda plan, step, seconds: end if step == 6 else None,
        )  # fmt: skip
        numbers = json.loads(json.dumps(state.numbers()))
        assert ending == ("interrupted" if first else "steps")
    assert len(rates) == state.step == end
    usual = [rate(step, "linear", steps=20, warmup=2) for step in range(6)]
    assert rates[:6] == usual
    left = rates[6] / (end - 6)  # from here on, the rate falls to 0 at the new end
    assert rates[6:] == pytest.approx([left * (end - step) for step in range(6, end)])
    assert rates[6] == pytest.approx(rate(6, "linear", steps=20, warmup=2)), "without a jump"
    place = {step: 6 + 14 * (step - 6) / (end - 6) for step in range(6, end + 1)}
    assert evaluated == [5, *(min(s for s, p in place.items() if p >= n) for n in (10, 15, 20))]


def test_an_interrupted_run_saves_its_state_and_does_not_evaluate() -> None:
    """An evaluation would count for patience and stand in the log: the resumed run would differ."""
    model, task, items = parts()
    told: list[str] = []
    watchers = Watchers(
        evaluated=lambda network, score, best: told.append("evaluated"),
        save=lambda: told.append("saved"),
        interrupted=lambda: True,
    )
    config = TrainingConfig(steps=9)
    state = State(model, config)
    assert train(state, task, forever(task, items, 6), items, config, watchers) == "interrupted"
    assert (state.step, told) == (1, ["saved"])


def test_a_bad_batch_may_be_skipped_and_is_counted() -> None:
    """Every third batch has an infinite loss: two are skipped, the third ends the run after a
    save; the weights are those of a run that never saw them."""

    class Bad(Classify):
        calls = 0

        def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
            self.calls += 1
            return super().loss(model, batch) * (torch.inf if self.calls % 3 == 0 else 1.0)

    model, task, items = parts()
    bad = Bad(task.tokenizer, task.labels)
    said: list[str] = []
    saved: list[tuple[int, int]] = []
    config = TrainingConfig(
        steps=20, skip_bad_batches=2, evaluate_every=99, warmup=0, schedule="constant"
    )
    state = State(model, config)
    watchers = Watchers(save=lambda: saved.append((state.step, state.skipped)), say=said.append)
    with pytest.raises(TrainingError, match=r"step 8: .*nan"):
        train(state, bad, forever(task, items, 6), items, config, watchers)
    assert saved == [(8, 2)]
    assert [line.split(":")[0] for line in said] == ["step 2", "step 5"]
    assert said[1].endswith("skipped, 2 so far")
    other, _, _ = parts()
    six = config.model_copy(update={"steps": 6})
    train(State(other, six), task, forever(task, items, 6), items, six, silent())
    for name, weight in other.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], weight, rtol=0, atol=1e-9)


def test_best_follows_the_direction_of_the_metric() -> None:
    up, down = Best(Criterion("accuracy"), None), Best(Criterion("perplexity", False), 2)
    assert [up.update(x) for x in (1.0, 3.0, 2.0)] == [True, True, False]
    assert [down.update(x) for x in (1.0, 3.0, 2.0)] == [True, False, False]
    assert down.stalled
    assert not up.stalled


def test_of_equal_scores_the_one_with_the_lower_loss_is_best() -> None:
    """F1 0 again and again, while the loss falls: the newest is best, and nothing has stalled."""
    best = Best(Criterion("span_f1"), 2)
    seen = [best.update(0.0, loss) for loss in (2.0, 1.5, 1.5, 1.6)]
    assert seen == [True, True, False, False]
    assert best.stalled
    assert not best.update(0.0, math.nan)
    assert best.update(0.1, 9.0)
    assert not best.update(0.0, 1.0)


def test_nan_is_worse_than_any_score() -> None:
    best = Best(Criterion("perplexity", False), None)
    assert [best.update(x) for x in (math.nan, math.nan, math.inf, 5.0, math.nan)] == [
        True, False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "ending", "step"),
    [
        ({}, "steps", 7),
        ({"minutes": 0.05}, "minutes", 4),  # 3 s, and a step takes 1
        ({"patience": 2}, "patience", 3),
    ],
)
def test_every_end_has_its_name(more: Any, ending: str, step: int, clock: "Clock") -> None:
    model, task, items = parts()
    config = TrainingConfig(steps=7, learning_rate=1e-30, warmup=0, evaluate_every=1, **more)
    state = State(model, config)
    batches = clock.taking(1.0, forever(task, items, 6))
    assert train(state, task, batches, items, config, silent()) == ending
    assert state.step == step
    assert train(state, task, batches, items, config, silent()) == ending, "already finished"


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def taking(self, seconds: float, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.now += seconds
            yield batch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """In place of the loop's own."""
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    return clock


def test_targets_a_second_are_those_of_training(clock: Clock) -> None:
    """A step has 6 targets and takes 2 s; evaluating, saving and looking on take far longer, at
    steps inside a window of the log, at its end, and in the last."""
    model, task, items = parts()

    def takes(seconds: float) -> None:
        clock.now += seconds

    log: list[TrainingProgress] = []
    watchers = Watchers(
        log.append,
        evaluated=lambda network, score, best: takes(100.0),
        save=lambda: takes(50.0),
        looks=lambda step, evaluating: step in (0, 4),
        looked=lambda network: takes(30.0),
    )
    config = TrainingConfig(steps=11, warmup=0, log_every=5, evaluate_every=3, save_every=2)
    batches = clock.taking(2.0, forever(task, items, 6))
    train(State(model, config), task, batches, items, config, watchers)
    assert [now.step for now in log] == [5, 10, 11]
    assert [now.targets_per_second for now in log] == pytest.approx([3.0, 3.0, 3.0])
    pauses = 30 + 100 + 50 + 50 + 30  # before and after steps 2, 3 and 4
    assert log[0].seconds == pytest.approx(5 * 2.0 + pauses)
    model, task, items = parts()
    state = State(model, config)
    state.unscored = True  # what an interrupted session owes is scored first
    owing = replace(watchers, looks=lambda step, evaluating: False)
    train(state, task, clock.taking(2.0, forever(task, items, 6)), items, config, owing)
    assert [now.targets_per_second for now in log[3:]] == pytest.approx([3.0, 3.0, 3.0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_classifier_is_scored_by_its_loss_too(smoothing: float) -> None:
    """Without smoothing, as the sum over batches of one has it."""
    model, task, items = parts()
    smoothed = Classify(task.tokenizer, task.labels, smoothing=smoothing)
    by_hand = sum(float(task.loss(model, task.collate([item])).detach()) for item in items) / len(
        items
    )
    assert smoothed.evaluate(model, items).numbers["loss"] == pytest.approx(by_hand, rel=1e-6)


def test_the_average_is_swapped_in_and_out() -> None:
    model, _, _ = parts()
    average = Average(model, 0.9)
    own = {name: p.clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    average.update()
    with average.swapped_in():
        for name, p in model.named_parameters():
            # The decay warms up: n / (n + 10) at step n, 1 / 11 at the first.
            torch.testing.assert_close(p.detach(), own[name] + 10 / 11)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.detach(), own[name] + 1)


def test_smoothing_gives_no_mass_to_excluded_tokens() -> None:
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
