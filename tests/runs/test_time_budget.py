"""Settings that fit a time limit: chosen, printed, and reproduced by the run's recipe."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run

from translucid.cli import main
from translucid.runs import forecast, time_limit
from translucid.runs.forecast import step_seconds
from translucid.runs.recipe import automatic_sizes, recipe
from translucid.runs.recipe.automatic_sizes import Amount
from translucid.runs.recipe.examples import load_examples, prepare
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.run import train_recipe
from translucid.runs.setup import set_up
from translucid.runs.time_limit import (
    ENOUGH_TOKENS,
    FASTER,
    FEW_EPOCHS,
    MANY_STEPS,
    SMALL_BATCH,
    SOME_EPOCHS,
    STEPS_PER_EPOCH,
    USED,
    Picks,
    fit,
)

Clock = Callable[[int, int], float]  # from d_model and batch_tokens to the seconds of a step


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Clock, float], list[int]]:
    """A machine on which steps take a given time; returns the values of d_model that were tried."""
    tried: list[int] = []

    def at(step: Clock, evaluation: float) -> list[int]:
        def seconds(network: Any, chosen: Recipe, *rest: Any, **limits: Any) -> float:
            tried.append(chosen.model["d_model"])
            return step(chosen.model["d_model"], chosen.training.batch_tokens)

        monkeypatch.setattr(time_limit, "step_seconds", seconds)
        monkeypatch.setattr(time_limit, "evaluation_seconds", lambda *rest: evaluation)
        return tried

    return at


def chosen(
    *overrides: str, minutes: float | None = 60, words: int = 10**7
) -> tuple[Picks, list[str], Recipe]:
    """The choice for this many words."""
    asked = recipe.parse(
        {"task": {"kind": "classify"}, "data": {"toyland": 60}},
        [
            *([f"training.minutes={minutes}"] if minutes else []),
            "tokenizer.kind=word",
            "training.device=cpu",
            *overrides,
        ],
    )
    examples = load_examples(asked, lambda line: None)
    known = prepare(asked, examples)
    items = known.task.training_items(examples.train, asked.data)
    amount = Amount(60, words, 100)
    picks, lines = fit(asked, amount, known, items, items, torch.device("cpu"))
    return picks, lines, automatic_sizes.with_picks(asked, picks)[0]


def test_with_enough_time_the_size_fits_the_data(clocked: Any) -> None:
    tried = clocked(lambda d_model, batch: 1e-6, 0.0)
    _, lines, filled = chosen()
    by_data = automatic_sizes.pick(filled, Amount(60, 10**7, 100), "cpu")
    assert tried == [64, 64, 64, 64, 128, 128, 256, 256, 512, 512, 512], (
        "the chosen size is measured again"
    )
    assert filled.model["d_model"] == by_data["model"]["d_model"] == 512
    for key in ("steps", "batch_tokens", "learning_rate"):
        assert getattr(filled.training, key) == by_data["training"][key]
    assert filled.model["dropout"] == by_data["model"]["dropout"] > 0
    assert len(lines) == 1
    assert lines[0].startswith("in 60 minutes here: d_model=512 layers=4, 0.001 ms a step, ")


@pytest.mark.slow
def test_the_largest_size_that_reads_enough_tokens_is_chosen(clocked: Any) -> None:
    """A step takes time in proportion to d_model² and to its tokens."""
    words, minutes = 10**7, 60.0
    size = automatic_sizes.SIZES[1]
    assert size.d_model == 256
    steps = 1.1 * ENOUGH_TOKENS * size.weights / SMALL_BATCH
    second = 60 * USED * minutes / steps  # of d_model=256 with the smallest batch
    tried = clocked(lambda d_model, batch: second * (d_model / 256) ** 2 * batch / SMALL_BATCH, 0.0)
    _, lines, filled = chosen(minutes=minutes, words=words)
    assert tried == [64, 64, 64, 64, 128, 128, 256, 256, 512, 512, 256]
    assert filled.model["d_model"] == 256
    fewer = filled.training.batch_tokens / SMALL_BATCH
    assert filled.training.steps == pytest.approx(steps / fewer, abs=1)
    assert filled.training.warmup == filled.training.steps // 20
    assert filled.training.steps * second * fewer <= 60 * USED * minutes
    assert re.fullmatch(r"in 60 minutes here: d_model=256 layers=3, .* a step, [\d,]+ of the "
                        r"[\d,]+ steps intended for this data", lines[0])  # fmt: skip
    assert re.fullmatch(r"  --minutes (\d+) would be enough for all of them", lines[1])
    larger = int(re.fullmatch(
        r"  --minutes (\d+) would be enough for the next size, d_model=512 layers=4", lines[2])[1])  # type: ignore[index]  # fmt: skip
    _, _, filled = chosen(minutes=larger, words=words)
    assert filled.model["d_model"] == 512, "the printed limit is enough"


@pytest.mark.parametrize("per_step", [0.0, 0.2, 1.0, 5.0, 50.0])
def test_the_batch_is_the_largest_with_many_steps(per_step: float, clocked: Any) -> None:
    full = automatic_sizes.size_for(Amount(60, 10**7, 100)).batch_tokens

    def clock(d_model: int, batch: int) -> float:
        return (d_model / 64) ** 9 * (per_step + batch / 1024)

    clocked(clock, 0.0)
    _, _, filled = chosen()
    halvings = [full >> halved for halved in range(10) if full >> halved >= SMALL_BATCH]
    many = [batch for batch in halvings if 60 * USED * 60 / clock(64, batch) >= MANY_STEPS]
    assert filled.model["d_model"] == 64
    assert filled.training.batch_tokens == max(many, default=SMALL_BATCH)
    assert filled.training.steps == int(60 * USED * 60 / clock(64, filled.training.batch_tokens))


def test_small_data_is_read_in_many_steps(clocked: Any) -> None:
    """Steps take almost as long with small batches as with large ones."""
    clocked(lambda d_model, batch: 2.0 + batch * 1e-9, 0.0)
    _, _, filled = chosen(words=10**5)
    epoch = 10**5 * automatic_sizes.PIECES_PER_WORD
    batch = filled.training.batch_tokens
    assert batch <= epoch / STEPS_PER_EPOCH < 2 * batch


def test_few_epochs_have_no_dropout_and_a_higher_learning_rate(clocked: Any) -> None:
    """10⁷ words are far more than the smallest network can read in a minute."""
    step = 0.05
    clocked(lambda d_model, batch: step * (d_model / 64) ** 9, 0.0)
    _, _, short = chosen(minutes=1)
    usual = automatic_sizes.SIZES[0]
    assert short.model["dropout"] == 0.0 < usual.dropout
    assert short.training.learning_rate == pytest.approx(FASTER * usual.learning_rate)
    _, _, kept = chosen("model.dropout=0.2", "training.learning_rate=0.1", minutes=1)
    assert (kept.model["dropout"], kept.training.learning_rate) == (0.2, 0.1), "the user's"
    for epochs in (FEW_EPOCHS + 1, SOME_EPOCHS + 1):
        tokens = int(60 * USED / step) * SMALL_BATCH
        words = int(tokens / epochs / automatic_sizes.PIECES_PER_WORD)
        _, _, longer = chosen(f"training.batch_tokens={SMALL_BATCH}", minutes=1, words=words)
        factor = FASTER if epochs <= SOME_EPOCHS else 1
        assert longer.model["dropout"] == usual.dropout
        assert longer.training.learning_rate == pytest.approx(factor * usual.learning_rate)
        assert longer.training.steps == int(60 * USED / step) < longer.training.most_steps


def test_smallest_size_on_a_slow_machine(clocked: Any) -> None:
    tried = clocked(lambda d_model, batch: 60.0, 0.0)
    _, _, filled = chosen(minutes=60)
    assert tried == [64] * 5, "one layer and two layers with two batches each, the first again"
    assert (filled.model["d_model"], filled.model["layers"]) == (64, 1)
    assert filled.training.steps == int(60 * USED)


@pytest.mark.parametrize("evaluation", [0.0, 1.0, 60.0, 1e5])
def test_evaluations_leave_time_for_steps(evaluation: float, clocked: Any) -> None:
    clocked(lambda d_model, batch: 1.0, evaluation)
    _, _, filled = chosen(minutes=60)
    training = filled.training
    evaluations = -(-training.steps // training.evaluate_every)
    budget = 60 * USED * 60
    if evaluation <= budget / 4:
        assert training.steps + evaluations * evaluation <= budget + evaluation
    else:
        assert evaluations == 1
    assert training.steps >= 0.7 * budget


def test_settings_of_the_user_are_kept(clocked: Any) -> None:
    tried = clocked(lambda d_model, batch: d_model / 128, 0.0)
    _, lines, filled = chosen("training.steps=3000", minutes=60, words=10**5)
    assert filled.training.steps == 3000
    assert filled.model["d_model"] == 128, "the largest of which all 3000 fit into 3240 s"
    assert tried == [64, 64, 128, 128]
    assert "3,000 of the 3,000 steps" in lines[0]


def test_steps_are_chosen_for_sizes_of_the_user(clocked: Any) -> None:
    tried = clocked(lambda d_model, batch: 1.0, 0.0)
    _, lines, filled = chosen("model.d_model=48", "model.heads=2", "training.batch_tokens=700")
    assert tried == [48, 48]
    assert filled.training.steps == int(60 * 60 * USED)
    assert filled.training.batch_tokens == 700
    assert "d_model=48" in lines[0]


def test_without_a_limit_a_run_is_planned_for_fifteen_minutes(clocked: Any) -> None:
    clocked(lambda d_model, batch: 1.0, 0.0)
    _, lines, filled = chosen(minutes=None)
    assert filled.training.minutes is None, "a plan, not a limit"
    assert filled.training.steps == int(USED * 15 * 60)
    assert lines[0].startswith("about 13 min 30 s here: ")
    assert "  --minutes 3 would choose a shorter run" in lines


@pytest.mark.parametrize(
    ("overrides", "is_open"),
    [([], True), (["model.d_model=64"], True), (["model.layers=1"], True),
     (["training.steps=9"], True), (["model.dropout=0.1"], True),
     (["model.d_model=64", "training.steps=9"], False)],
)  # fmt: skip
def test_settings_are_open_unless_size_and_steps_are_set(
    overrides: list[str], is_open: bool
) -> None:
    for limit in ([], ["training.minutes=3"]):
        asked = recipe.parse({"task": {"kind": "tag"}}, [*limit, *overrides])
        assert time_limit.is_open(asked) == is_open


def test_a_step_is_measured_by_taking_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first aside, at a learning rate of 0."""
    asked = recipe.parse(
        {"task": {"kind": "classify"}, "data": {"toyland": 60}, "tokenizer": {"kind": "word"},
         "model": {"d_model": 16, "heads": 2, "layers": 1}},
        ["training.batch_tokens=200", "training.device=cpu"],
    )  # fmt: skip
    setup = set_up(asked, lambda line: None)
    times = iter(range(0, 1000, 5))
    monkeypatch.setattr(forecast.time, "monotonic", lambda: float(next(times)))
    before = [p.clone() for p in setup.network.parameters()]
    seconds = step_seconds(setup.network, asked, setup.task, setup.items, torch.device("cpu"))
    assert seconds == 5.0
    assert all(torch.equal(a, b) for a, b in zip(before, setup.network.parameters(), strict=True))


def test_the_limit_counts_from_the_start_of_the_command(tmp_path: Path) -> None:
    """A command that started 20 s ago has 40 s left of a minute."""
    rows = [f"{n},{n % 7}" for n in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *rows, ""]), "utf-8")
    words = ["train", "regress", "--train", str(tmp_path / "t.csv"), "--minutes", "1",
             "--out", str(tmp_path / "run"), "training.steps=3", "training.device=cpu",
             "training.baseline=false", "--quiet"]  # fmt: skip
    for number, ago in enumerate((0.0, 20.0)):
        words[7] = str(tmp_path / f"run{number}")
        with pytest.raises(SystemExit) as ended:
            main(words, began=time.monotonic() - ago)
        assert ended.value.code == 0
        timing = (tmp_path / f"run{number}" / "timing.jsonl").read_text("utf-8").splitlines()
        seconds = json.loads(timing[-1])["seconds"]
        assert (seconds >= 20) == (ago == 20), seconds


def test_the_age_of_a_process_includes_what_it_did_before() -> None:
    code = (
        "import time; until = time.process_time() + 0.3\n"
        "while time.process_time() < until: pass\n"
        "from translucid.cli import process_age; print(process_age())"
    )
    began = time.monotonic()
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.3 <= float(told.stdout) <= time.monotonic() - began + 0.1


@pytest.mark.slow
def test_timed_run_equals_the_run_of_its_recipe(tmp_path: Path) -> None:
    """Measuring leaves nothing behind: the recipe it wrote trains the same model to the bit."""
    words = ["train", "classify", "--toyland", "60", "--minutes", "9", "--out", "run",
             "tokenizer.kind=word", "training.batch_tokens=300", "training.device=cpu",
             "training.steps=3", "training.log_every=1"]  # fmt: skip
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "in 9 minutes here: d_model=128 layers=2, " in done.stderr
    assert "model.d_model=128 " in done.stderr
    resolved = recipe.read(tmp_path / "run/recipe.toml")
    assert resolved.training.minutes == 9
    train_recipe(resolved, tmp_path / "again", quiet=True)
    for name in ("metrics.jsonl", "last/model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
