"""The baseline that every run fits, runs of fitted models, and which of the two becomes best/."""

import json
import random
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.in_process import run
from tests.runs.test_resume import same_runs
from tests.tuning.small import TINY, classifier

import translucid as tl
from translucid.core.errors import ConfigError, InputError, Interrupted
from translucid.model import load
from translucid.models.linear import LinearRegression, ridge
from translucid.runs.cross_validation import cross_validate
from translucid.runs.recipe import baseline, recipe
from translucid.runs.recipe.baseline import seconds_allowed
from translucid.runs.recipe.named import named
from translucid.runs.recipe.recipe import MODELS, baseline_kind, of_run
from translucid.runs.run import resume_run, train_recipe
from translucid.runs.setup import set_up
from translucid.tasks.registry import TASKS
from translucid.tasks.score import Criterion, Score, not_better
from translucid.training.stop_request import StopRequest

Target = Callable[[float, float], float]
SHORT = ["training.device=cpu", "training.steps=12", "training.evaluate_every=4"]


def plane(a: float, b: float) -> float:
    return 2 * a - b


def parabola(a: float, b: float) -> float:
    return a * a + 0.1 * b


def write(folder: Path, target: Target, noise: float = 0.5) -> list[str]:
    """Files for training, validation and testing, as words of a command."""
    words = []
    for part, count in (("train", 160), ("valid", 80), ("test", 80)):
        rng = random.Random(part)
        rows = [(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(count)]
        lines = [f"{a:.5f},{b:.5f},{target(a, b) + noise * rng.gauss(0, 1):.5f}" for a, b in rows]
        (folder / f"{part}.csv").write_text("\n".join(["a,b,y", *lines, ""]), "utf-8")
        words += [f"--{part}", f"{part}.csv"]
    return words


def trained(folder: Path, out: str, *words: str) -> str:
    """Train in this folder; returns what is printed."""
    done = run("train", "regress", "--out", out, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def scores_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "test.json").read_text("utf-8")))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same_weights(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name]), name


def test_a_fitted_model_is_a_run(tmp_path: Path) -> None:
    """It is the solution of ridge regression, and is saved, tested, evaluated, used and resumed
    like any other."""
    files = write(tmp_path, plane)
    printed = trained(tmp_path, "x", *files, "model.kind=linear", "training.device=cpu")
    assert "fitted in " in printed
    assert "step " not in printed
    out = tmp_path / "x"
    rows = np.loadtxt(tmp_path / "train.csv", delimiter=",", skiprows=1)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scaled = torch.tensor((rows - mean) / deviation)
    weight, bias = ridge(scaled[:, :2], scaled[:, 2:])
    question = torch.tensor(([0.3, -1.2] - mean[:2]) / deviation[:2])
    expected = float(question @ weight[:, 0] + bias[0]) * deviation[2] + mean[2]
    answer = run("predict", "x", "-", cwd=tmp_path, stdin="0.3,-1.2\n")
    assert float(answer.stdout) == pytest.approx(expected, rel=1e-4)
    same_weights(out / "best", out / "last")
    assert scores_of(out)["baseline"]["name"] == "the training mean"
    scored = json.loads(run("evaluate", "x", "--json", cwd=tmp_path).stdout)
    assert scored["scores"] == scores_of(out)["test"]
    assert "Fitted with Translucid to 160 of 160 examples" in (out / "best/README.md").read_text()
    assert "fitted      to 160 examples" in run("info", "x", cwd=tmp_path).stdout
    kept = of_run(out)
    assert (kept.fitted, kept.training.seed) == (True, 0)
    text = (out / "recipe.toml").read_text("utf-8")
    assert text.split("[training]")[1].split("[decoding]")[0].count(" = ") == 2  # seed and device
    before = (out / "best/config.json").read_bytes()
    again = run("resume", "x", cwd=tmp_path)
    assert again.returncode == 0
    assert "x is complete" in again.stderr
    assert (out / "best/config.json").read_bytes() == before
    changed = run("resume", "x", "training.seed=4", "--allow-changes", cwd=tmp_path)
    assert changed.returncode == 2
    assert "fitted once" in changed.stderr
    (out / "test.json").unlink()  # as if it had been killed before the test
    assert run("resume", "x", cwd=tmp_path).returncode == 0
    assert scores_of(out)["test"] == scored["scores"]


@pytest.mark.parametrize(
    "words", [["training.steps=9"], ["--minutes", "1"], ["training.learning_rate=0.1"]]
)
def test_keys_about_steps_are_refused_for_a_fitted_model(words: list[str], tmp_path: Path) -> None:
    files = write(tmp_path, plane)
    done = run("train", "regress", "--out", "x", *files, "model.kind=linear", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "model.kind = linear is fitted to all examples at once" in done.stderr
    assert "training.seed, training.device" in done.stderr
    assert not (tmp_path / "x").exists()


def test_a_fitted_model_is_not_watched(tmp_path: Path) -> None:
    files = write(tmp_path, plane)
    done = run("train", "regress", *files, "--studio", "model.kind=linear", cwd=tmp_path)
    assert done.returncode == 2
    assert "--studio shows training steps" in done.stderr


def test_a_stop_during_a_fit_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the model itself, and of a baseline."""
    write(tmp_path, plane)
    fit = LinearRegression.fit
    data = {part: [str(tmp_path / f"{part}.csv")] for part in ("train", "valid", "test")}
    for model in ({"kind": "linear"}, {"hidden": [4]}):
        request = StopRequest()

        def stopped(self: LinearRegression, batches: Any, request: StopRequest = request) -> None:
            request.ask(2)
            fit(self, batches)

        monkeypatch.setattr(LinearRegression, "fit", stopped)
        chosen = recipe.parse({"task": {"kind": "regress"}, "data": data, "model": model})
        with pytest.raises(Interrupted, match="nothing was changed"):
            train_recipe(chosen, tmp_path / "x", quiet=True, interrupted=request)
        assert not (tmp_path / "x").exists()


def test_a_run_is_compared_with_the_model_that_could_have_been_fitted(tmp_path: Path) -> None:
    """The baseline is what `model.kind=linear` gives; p is that of `compare`."""
    files = write(tmp_path, plane)
    printed = trained(tmp_path, "net", *files, *SHORT, "model.hidden=[4]")
    trained(tmp_path, "linear", *files, "model.kind=linear", "training.device=cpu")
    net, linear = tmp_path / "net", tmp_path / "linear"
    same_weights(net / "baseline", linear / "best")
    result, mean = scores_of(net), scores_of(linear)["baseline"]
    noted, other = result["baseline"], result["other_baselines"][0]
    assert noted["name"] == "linear model"
    assert noted["test"] == scores_of(linear)["test"]
    assert (noted["better"], noted["worse"][0]) == (False, "r_squared")
    assert (other["name"], other["test"]) == (mean["name"], mean["test"])
    (pair,) = [
        tl.compare([net / "baseline", net / "best"]).metrics["r_squared"]
    ]  # both on the test data of the run
    assert noted["p"] == pair[1].p
    values = [result["test"], noted["test"], other["test"]]
    model, own, trivial = (f"{numbers['r_squared']:.4g}" for numbers in values)
    line = f"test: r_squared {model}; baselines: linear model {own}, the training mean {trivial}"
    assert line in printed.splitlines()
    valid = [load(folder).facts["valid"]["r_squared"] for folder in (net, linear)]
    assert (
        f"valid: r_squared {valid[0]:.4g}; baselines: linear model {valid[1]:.4g}, the training "
    ) in printed
    sentence = (
        f"! test: r_squared {model} is worse than the linear baseline's {own} (p = 0.001). "
        "Use the baseline: translucid predict net/baseline"
    )
    assert (net / "log.txt").read_text("utf-8").splitlines()[-1] == sentence
    command = shlex.split(sentence.partition("translucid ")[2])
    answer = run(*command, "-", cwd=tmp_path, stdin="1,1\n")
    assert answer.stdout == run("predict", "linear", "-", cwd=tmp_path, stdin="1,1\n").stdout
    card = (net / "best/README.md").read_text("utf-8")
    assert card.count("**This model is not better than the baseline.**") >= 1
    assert "(linear model)" in card
    shown = json.loads(run("evaluate", "net", "--json", cwd=tmp_path).stdout)
    assert (shown["baseline"], shown["other_baselines"]) == (noted, [other])
    itself = json.loads(run("evaluate", "net/baseline", "--json", cwd=tmp_path).stdout)
    assert itself["scores"] == noted["test"]
    assert itself["baseline"]["name"] == "the training mean"


GOOD = ["training.device=cpu", "training.steps=60", "training.learning_rate=0.1"]


def test_a_baseline_that_is_beaten_is_kept_only_on_request(tmp_path: Path) -> None:
    files = write(tmp_path, parabola)
    for out, words in (("a", []), ("b", ["--keep-baseline"])):
        printed = trained(tmp_path, out, *files, *GOOD, *words, "model.hidden=[8]")
        assert "!" not in printed.split("training ended")[1]
        noted = scores_of(tmp_path / out)["baseline"]
        assert (noted["better"], noted["p"] < 0.05) == (True, True)
        assert (tmp_path / out / "baseline").exists() == bool(words)
    assert scores_of(tmp_path / "a") == scores_of(tmp_path / "b")
    done = run("train", "regress", *files, "--keep-baseline", "training.baseline=false",
               cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert "training.keep_baseline: this run fits no baseline" in done.stderr


def test_without_test_data_the_validation_data_decides(tmp_path: Path) -> None:
    files = write(tmp_path, plane)[:4]
    trained(tmp_path, "x", *files, *SHORT, "model.hidden=[4]")
    last = (tmp_path / "x/log.txt").read_text("utf-8").splitlines()[-1]
    assert last.startswith("! valid: r_squared ")
    assert last.endswith("Use the baseline: translucid predict x/baseline")
    assert (tmp_path / "x/baseline").is_dir()
    assert not (tmp_path / "x/test.json").exists()


def test_a_verdict_needs_significance() -> None:
    accuracy, loss = Criterion("accuracy"), Criterion("loss", higher_is_better=False)
    high, low = Score({"accuracy": 0.8, "loss": 2.0}), Score({"accuracy": 0.7, "loss": 1.0})
    assert not_better("test", accuracy, high, "x", low, 0.01) == ""
    assert not_better("test", loss, low, "x", high, 0.01) == ""
    assert not_better("test", accuracy, high, "x", low, None) == ""
    for p, criterion, one, other, words in (
        (0.2, accuracy, high, low, "accuracy 0.8 is not shown to be better than the x's 0.7"),
        (0.2, accuracy, low, high, "accuracy 0.7 is not shown to be better than the x's 0.8"),
        (0.01, accuracy, low, high, "accuracy 0.7 is worse than the x's 0.8 (p = 0.01)"),
        (0.01, loss, high, low, "loss 2 is worse than the x's 1 (p = 0.01)"),
        (None, accuracy, low, low, "accuracy 0.7 is not better than the x's 0.7"),
    ):
        assert not_better("test", criterion, one, "x", other, p).startswith(f"! test: {words}")


def test_the_baseline_does_not_change_the_training(tmp_path: Path) -> None:
    """A run with it and a run without it have the same metrics and weights."""
    files = write(tmp_path, plane)
    for out, words in (("with", []), ("without", ["training.baseline=false"])):
        trained(tmp_path, out, *files, *SHORT, "model.hidden=[4]", *words)
    one, other = tmp_path / "with", tmp_path / "without"
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    same_weights(one / "last", other / "last")
    assert not (other / "baseline").exists()
    assert scores_of(one)["test"] == scores_of(other)["test"]
    assert scores_of(one)["other_baselines"] == [scores_of(other)["baseline"]]


def test_the_baseline_does_not_draw_from_the_generators_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if its fit draws random numbers: set up, a run with it and one without are the same."""
    write(tmp_path, plane)
    fit, states = LinearRegression.fit, []

    def drawing(self: LinearRegression, batches: Any) -> None:
        torch.rand(3)
        np.random.rand(3)
        random.random()
        fit(self, batches)

    monkeypatch.setattr(LinearRegression, "fit", drawing)
    data = {part: [str(tmp_path / f"{part}.csv")] for part in ("train", "valid", "test")}
    for mode in (True, False):
        training = {"baseline": mode, "device": "cpu", "seed": 3}
        random.seed(1)
        np.random.seed(1)
        values = {"task": {"kind": "regress"}, "data": data, "training": training}
        setup = set_up(recipe.parse(values), lambda line: None)
        assert (setup.baseline is not None) == mode
        drawn = torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()
        states.append((drawn, [weight.tolist() for weight in setup.network.parameters()]))
    assert states[0] == states[1]


def test_a_better_baseline_becomes_the_best_model(tmp_path: Path) -> None:
    """Unless a key of the model is set; the network is then in network/."""
    files = write(tmp_path, plane)
    printed = trained(tmp_path, "free", *files, *SHORT)
    trained(tmp_path, "named", *files, *SHORT, "model.kind=mlp")
    free, kind = tmp_path / "free", tmp_path / "named"
    assert "free/best is the linear baseline, because in 5 folds of 240 rows, the " in printed
    assert "The network is in free/network; to train only a network, set model.kind=mlp" in printed
    assert "Use the baseline" not in printed
    assert not (free / "baseline").exists()
    assert not (kind / "network").exists()
    same_weights(free / "network", kind / "best")
    same_weights(free / "best", kind / "baseline")
    assert scores_of(free)["test"] == scores_of(kind)["baseline"]["test"]
    assert scores_of(free)["baseline"]["name"] == "the training mean"
    linear = load(free / "best").evaluate(str(tmp_path / "valid.csv"))
    assert (free / "valid.predictions.txt").read_text() == linear.predictions_text()
    same_network = (free / "network/valid.predictions.txt").read_text()
    assert same_network == (kind / "valid.predictions.txt").read_text()
    assert load(free / "network").facts["step"] == 12
    shown = json.loads(run("evaluate", "free", "--json", cwd=tmp_path).stdout)
    assert shown["scores"] == scores_of(free)["test"]
    again = run("resume", "free", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    same_weights(free / "network", kind / "best")


@pytest.mark.slow
def test_a_worse_baseline_leaves_the_network_as_the_best(tmp_path: Path) -> None:
    files = write(tmp_path, parabola)
    printed = trained(tmp_path, "x", *files, *GOOD)
    assert "is the linear baseline" not in printed
    assert not (tmp_path / "x/network").exists()
    assert not load(tmp_path / "x").network.fits


@pytest.mark.slow
def test_more_steps_continue_from_the_network(tmp_path: Path) -> None:
    """As in a run in which best/ was never replaced; then the better one is chosen again."""
    files = write(tmp_path, parabola)
    few = ["training.device=cpu", "training.steps=4", "training.learning_rate=0.05"]
    trained(tmp_path, "free", *files, *few)
    trained(tmp_path, "named", *files, *few, "model.kind=mlp")
    assert (tmp_path / "free/network").exists()
    for steps, wins in ((8, False), (100, True)):
        for out in ("free", "named"):
            more = run("resume", out, f"training.steps={steps}", "--allow-changes", cwd=tmp_path)
            assert more.returncode == 0, more.stderr
        free, kind = tmp_path / "free", tmp_path / "named"
        assert (free / "network").exists() != wins
        same_weights(free / ("best" if wins else "network"), kind / "best")
        assert load(free).network.fits != wins
        if wins:
            theirs = (kind / "valid.predictions.txt").read_text()
            assert (free / "valid.predictions.txt").read_text() == theirs
            assert scores_of(free) == scores_of(kind)


def test_a_choice_can_be_taken_back(tmp_path: Path) -> None:
    """Without the choice, best/ is the network again, although no further step improves it."""
    files = write(tmp_path, plane)
    trained(tmp_path, "x", *files, *SHORT)
    network = weights(tmp_path / "x/network")
    predicted = (tmp_path / "x/network/valid.predictions.txt").read_text()
    more = ["training.steps=13", "training.learning_rate=1e-12", "training.baseline=true"]
    done = run("resume", "x", *more, "--allow-changes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert weights(tmp_path / "x/best").keys() == network.keys()
    assert not (tmp_path / "x/network").exists()
    assert (tmp_path / "x/valid.predictions.txt").read_text() == predicted
    assert scores_of(tmp_path / "x")["baseline"]["name"] == "linear model"
    assert (tmp_path / "x/baseline").exists()


def test_a_run_that_is_stopped_and_resumed_ends_the_same(tmp_path: Path) -> None:
    """Also if its baseline is lost or damaged meanwhile: it is fitted again."""
    files = write(tmp_path, plane)
    data = {name.removeprefix("--"): [str(tmp_path / file)]
            for name, file in zip(files[::2], files[1::2], strict=True)}  # fmt: skip
    settings = {"steps": 6, "evaluate_every": 2, "log_every": 1, "device": "cpu"}
    for mode in ("choose", True):
        values = {
            "task": {"kind": "regress"}, "data": data, "training": settings | {"baseline": mode},
        }  # fmt: skip
        whole, pieces = tmp_path / f"whole-{mode}", tmp_path / f"pieces-{mode}"
        train_recipe(recipe.parse(values), whole, quiet=True)
        with pytest.raises(Interrupted):
            train_recipe(recipe.parse(values), pieces, quiet=True, interrupted=lambda: True)
        for damage in (0, 1, 2):
            if damage == 1:
                (pieces / "baseline/model.safetensors").write_bytes(b"damaged")
            with pytest.raises(Interrupted):
                resume_run(pieces, quiet=True, interrupted=lambda: True)
        resume_run(pieces, quiet=True)
        same_runs(whole, pieces)
        names = {path.name for path in whole.iterdir()}
        assert {path.name for path in pieces.iterdir()} == names
        assert ("network" in names, "baseline" in names) == ((True, False), (False, True))[
            mode is True
        ]
        assert scores_of(whole) == scores_of(pieces)
        for name in names & {"network", "baseline"}:
            same_weights(whole / name, pieces / name)


def test_a_large_data_set_is_fitted_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the baseline says so wherever it is shown."""
    monkeypatch.setattr(baseline, "MOST_EXAMPLES", 40)
    files = write(tmp_path, plane)
    printed = trained(tmp_path, "x", *files, *SHORT, "model.hidden=[4]")
    name = "linear model (40 of 160 examples)"
    assert printed.count(name) >= 3  # at the start, on valid and on test
    assert scores_of(tmp_path / "x")["baseline"]["name"] == name
    assert "to 40 of 160 examples" in (tmp_path / "x/baseline/README.md").read_text("utf-8")
    whole = trained(tmp_path, "y", *files, "model.kind=linear", "training.device=cpu")
    assert name not in whole
    ours, theirs = weights(tmp_path / "x/baseline"), weights(tmp_path / "y/best")
    assert not torch.equal(ours["output.linear.weight"], theirs["output.linear.weight"])


def test_a_slow_fit_uses_fewer_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as fit into the rest of the time, in proportion to the fit before."""
    assert [seconds_allowed(minutes) for minutes in (None, 1, 100)] == [60, 6, 60]
    monkeypatch.setattr(baseline, "TRIAL", 20)
    monkeypatch.setattr(baseline, "GROWTH", 3)
    fit, clock, sizes = baseline.fit, [0.0], list[int]()

    def slow(network: Any, task: Any, items: Any, seed: int) -> float:
        sizes.append(len(items))
        clock[0] += 0.3 * len(items)  # so 60 s are enough for 200 in all
        return fit(network, task, items, seed)

    monkeypatch.setattr(baseline, "fit", slow)
    monkeypatch.setattr(baseline.time, "thread_time", lambda: clock[0])
    files = write(tmp_path, plane)
    printed = trained(tmp_path, "x", *files, *SHORT, "model.hidden=[4]")
    assert sizes == [20, 60, 120]
    assert "baseline: fitting a linear model to 120 examples, about 36" in printed
    assert "linear model (120 of 160 examples)" in printed


def test_a_quick_fit_goes_from_the_trial_to_all_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "TRIAL", 20)
    monkeypatch.setattr(baseline, "GROWTH", 3)
    fit, clock, sizes = baseline.fit, [0.0], list[int]()

    def quick(network: Any, task: Any, items: Any, seed: int) -> float:
        sizes.append(len(items))
        clock[0] += 0.05 * len(items)  # all 160 take 8 of the 60 s
        return fit(network, task, items, seed)

    monkeypatch.setattr(baseline, "fit", quick)
    monkeypatch.setattr(baseline.time, "thread_time", lambda: clock[0])
    trained(tmp_path, "x", *write(tmp_path, plane), *SHORT, "model.hidden=[4]")
    assert sizes == [20, 160]


def test_a_baseline_that_cannot_be_fitted_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: LinearRegression, batches: Any) -> None:
        raise InputError("no solution")

    monkeypatch.setattr(LinearRegression, "fit", fails)
    printed = trained(tmp_path, "x", *write(tmp_path, plane), *SHORT)
    assert (
        "! the linear baseline could not be fitted; the run continues without it: no solution"
        in printed
    )
    assert scores_of(tmp_path / "x")["baseline"]["name"] == "the training mean"


def test_every_baseline_is_a_fitted_kind_of_its_task() -> None:
    for name in TASKS.names():
        kind = baseline_kind(name)
        if kind is None:
            continue
        assert kind in TASKS[name].models
        assert kind in MODELS
        chosen = recipe.parse({"task": {"kind": name}, "model": {"kind": kind}})
        assert chosen.fitted
        network = tl.build(chosen.model_config_for(sizes=TASKS[name].smallest_sizes()))
        assert network.fits


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ((), "choose"),
        (("model.kind=mlp",), True),
        (("model.hidden=[4]",), True),
        (("training.baseline=true",), True),
        (("training.baseline=false",), False),
    ],
)
def test_only_a_free_choice_of_model_is_automatic(words: tuple[str, ...], mode: object) -> None:
    assert named("regress", words).recipe.training.baseline == mode


def test_cross_validation_lists_both_baselines(tmp_path: Path) -> None:
    write(tmp_path, plane)
    values = {
        "task": {"kind": "regress"}, "data": {"train": [str(tmp_path / "train.csv")]},
        "training": {"steps": 3, "device": "cpu"},
    }  # fmt: skip
    results = {}
    for mode in (True, "choose"):
        values["training"] = values["training"] | {"baseline": mode}  # type: ignore[operator]
        results[mode] = cross_validate(recipe.parse(values), tmp_path / f"cv-{mode}", 2, quiet=True)
    linear = recipe.parse(values | {"model": {"kind": "linear"}, "training": {"device": "cpu"}})
    alone = cross_validate(linear, tmp_path / "cv-linear", 2, quiet=True)
    for result in results.values():
        assert result.baselines == [alone.valid, alone.baselines[0]]
    assert results["choose"].valid == alone.valid
    lines = "\n".join(results[True].lines())
    assert lines.count("  baseline r_squared ") == lines.count("  trivial  r_squared ") == 1
    summary = json.loads((tmp_path / "cv-True/folds.json").read_text("utf-8"))
    assert summary["baseline"] == alone.valid
    again = cross_validate(linear, tmp_path / "cv-linear", 2, quiet=True)
    assert again == alone, "finished folds are not repeated"


def test_a_fine_tuned_model_is_compared_with_its_start(tmp_path: Path) -> None:
    """On the test data, with the score that the start model has by itself."""
    rows = [f"a {word} film {n},{'up' if n % 3 else 'down'}" for n in range(12) for word in "xyz"]
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.csv").write_text("\n".join(["text,label", *rows, ""]), "utf-8")
    files = {part: str(tmp_path / f"{part}.csv") for part in ("train", "valid", "test")}
    source, out = classifier(), tmp_path / "tuned"
    settings = TINY | {"learning_rate": 1e-12, "start_from": str(source)}
    tl.train("classify", out, **files, **settings)
    name = f"start model {source}"
    result = scores_of(out)
    assert result["baseline"]["name"] == name
    assert result["baseline"]["test"] == tl.load(source).evaluate(files["test"]).numbers
    assert result["baseline"]["p"] == 1.0
    log = (out / "log.txt").read_text("utf-8")
    assert f"baselines: {name} " in log
    assert "is not shown to be better than the start model's " in log
    assert f"Use the start model: translucid classify {shlex.quote(str(source))}" in log
    (out / "test.json").unlink()
    resume_run(out, quiet=True)
    assert scores_of(out) == result, "the start model is not needed any more"


def test_a_new_head_has_no_start_to_beat(tmp_path: Path) -> None:
    rows = [f"a {word} film {n},{'one' if n % 2 else 'two'}" for n in range(6) for word in "xyz"]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows, ""]), "utf-8")
    file = str(tmp_path / "a.csv")
    tl.train(
        "classify", tmp_path / "x", train=file, test=file, start_from=str(classifier()), **TINY
    )
    assert "start model, test" not in (tmp_path / "x/log.txt").read_text("utf-8")


def test_a_wrong_use_of_the_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"training.baseline = 'maybe'"):
        recipe.parse({"task": {"kind": "regress"}, "training": {"baseline": "maybe"}})
