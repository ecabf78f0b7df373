"""What a run records for the studio: true numbers, and nothing else of the run changes."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runs.test_resume import RUNS, after, same_runs
from tests.runs.test_runs import small

from translucid.core.errors import InputError, Interrupted, TrainingError
from translucid.model import Model, load
from translucid.runs import recorder
from translucid.runs.recorder import about, goes_on, lines, probe, table_of
from translucid.runs.run import resume_run, train_recipe
from translucid.runs.session import Recording
from translucid.runs.setup import set_up
from translucid.see.gradients import layers_of
from translucid.training import loop

TEXT = "The dog sleeps."
LATER = ("tag rnn, written aside", "classify, three members, average")
CASES = [
    pytest.param(
        case,
        marks=pytest.mark.slow if case in LATER else pytest.mark.thorough,
    )
    for case in RUNS
]
FAMILIES = [
    ("translate", "transformer"), ("translate", "lstm"), ("language", "transformer"),
    ("language", "rnn"), ("classify", "lstm"), ("classify", "ensemble"), ("tag", "spelling"),
    ("tag", "transformer"), ("regress", "mlp"),
]  # fmt: skip


def recorded(run: Path, name: str = "steps.jsonl") -> list[dict[str, Any]]:
    return lines(run / "studio" / name)


@pytest.mark.parametrize("case", CASES)
def test_recording_changes_nothing_and_survives_a_resume(case: str, tmp_path: Path) -> None:
    """Weights, moments, averages and metrics are those of the run without a record, to the bit;
    a record that was broken off is that of a whole run."""
    task, family, training = RUNS[case]
    settings = {"steps": 9, "batch_tokens": 700, "log_every": 1, "evaluate_every": 4}
    chosen = small(task, family, **(settings | training))
    plain, whole, parts = (tmp_path / name for name in ("plain", "whole", "parts"))
    train_recipe(chosen, plain, quiet=True)
    train_recipe(chosen, whole, quiet=True, recording=Recording())
    same_runs(plain, whole)
    with pytest.raises(Interrupted):
        train_recipe(chosen, parts, quiet=True, interrupted=after(5), recording=Recording())
    assert recorded(parts)[-1] == {"end": "interrupted", "step": 5}
    for name in ("steps.jsonl", "probes.jsonl"):  # as if it had been killed later
        with (parts / "studio" / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": 6, "loss": 0.0}) + '\n{"step": 7, "lo')
    resume_run(parts, quiet=True, recording=Recording())
    same_runs(plain, parts)
    for name in ("steps.jsonl", "probes.jsonl"):
        assert recorded(parts, name) == recorded(whole, name), name
    last = lines(plain / "metrics.jsonl")[-1]["step"]
    assert [each["step"] for each in recorded(whole)] == [*range(1, last + 1), last]
    assert recorded(whole)[-1] == {"end": "finished", "step": last}


@pytest.mark.slow
def test_norms_are_those_of_the_gradients_of_the_batch(tmp_path: Path) -> None:
    """By hand: the first batch once more, through autograd, layer by layer."""
    chosen = small("translate", "still", steps=1, clip_norm=0.01, seed=3)
    train_recipe(chosen, tmp_path / "run", quiet=True, recording=Recording())
    (told, _) = recorded(tmp_path / "run")
    setting = set_up(chosen, lambda _: None)
    from translucid.runs.batches import Stream

    batch = next(Stream(setting.task, setting.items, setting.recipe))
    setting.network.train()
    loss = setting.task.loss(setting.network, batch) / batch.count
    weights = dict(setting.network.named_parameters())
    found = dict(
        zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True)
    )  # fmt: skip
    layers = layers_of(setting.network, weights)
    assert about(tmp_path / "run")["layers"] == list(layers)
    assert len(layers) > 4
    by_hand = [
        float(torch.cat([found[name].flatten() for name in own]).double().norm())
        for own in layers.values()
    ]
    assert told["grad"] == pytest.approx(by_hand, rel=1e-5)
    assert told["loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert math.hypot(*told["grad"]) == pytest.approx(told["norm"], rel=1e-5)
    assert told["norm"] > 0.01  # not as it is after clipping
    (line, _) = recorded(tmp_path / "run", "../metrics.jsonl")
    assert {key: told[key] for key in ("norm", "learning_rate")} == {
        key: line[key] for key in ("norm", "learning_rate")
    }


@pytest.mark.parametrize(
    ("task", "family"),
    [
        pytest.param(*pair, marks=pytest.mark.slow if number % 3 else ())
        for number, pair in enumerate(FAMILIES)
    ],
)
def test_a_probe_is_the_trace_of_the_model_that_was_kept(
    task: str, family: str, tmp_path: Path
) -> None:
    text = "0.25" if task == "regress" else TEXT
    chosen = small(task, family, ema=0.9 if family == "lstm" else None)
    train_recipe(chosen, tmp_path / "run", quiet=True, recording=Recording(text))
    model = load(tmp_path / "run" / "last")
    told = recorded(tmp_path / "run", "probes.jsonl")
    assert [each["step"] for each in told] == [0, 1, 2, 3]
    assert {each["text"] for each in told} == {text}
    last = told[-1]
    whole = model.trace(text)[last["at"]][0]
    wanted = whole.mean(0) if "pattern" in last["at"] and whole.dim() == 3 else whole
    wanted = wanted.reshape(-1, wanted.shape[-1])
    table = torch.tensor(table_of(last))
    across = last["at"].endswith((".pattern", ".activation"))
    torch.testing.assert_close(table, wanted if across else wanted.T, rtol=1e-5, atol=1e-6)
    match task:
        case "translate":
            assert last["answer"] == model.translate([text])[0]
        case "language":
            assert text + last["answer"] == model.generate(text, max_length=12, temperature=0)
        case "classify":
            best = max(last["answer"], key=last["answer"].__getitem__)
            said = model.classify([text])[0]
            assert (best, last["answer"][best]) == (said.label, pytest.approx(said.probability))
        case "tag":
            assert [word for word, _ in last["answer"]] == text.split()
        case "regress":
            assert last["answer"] == pytest.approx(model.predict([[0.25]])[0])
    first = told[0]
    assert first["answer"] != last["answer"] or first["values"] != last["values"]


@pytest.mark.slow
def test_by_default_the_first_validation_example_is_followed(tmp_path: Path) -> None:
    chosen = small("translate", "transformer")
    train_recipe(chosen, tmp_path / "run", quiet=True, recording=Recording())
    setting = set_up(chosen, lambda _: None)
    text = about(tmp_path / "run")["probe"]
    assert setting.task.source.encode(text) == list(setting.valid[0].source)[:-1]


@pytest.mark.slow
def test_new_probe_starts_over_and_the_same_one_continues(tmp_path: Path) -> None:
    chosen, run = small("classify", "gru", steps=6), tmp_path / "run"
    with pytest.raises(Interrupted):
        train_recipe(chosen, run, quiet=True, interrupted=after(2), recording=Recording(TEXT))
    with pytest.raises(Interrupted):
        resume_run(run, quiet=True, interrupted=after(1), recording=Recording())
    assert {each["text"] for each in recorded(run, "probes.jsonl")} == {TEXT}
    assert [each["step"] for each in recorded(run, "probes.jsonl")] == [0, 1, 2, 3]
    resume_run(run, quiet=True, recording=Recording("A cat."))
    assert {each["text"] for each in recorded(run, "probes.jsonl")} == {"A cat."}
    assert [each["step"] for each in recorded(run)][:6] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_a_resume_without_a_record_leaves_a_gap_and_nothing_false(tmp_path: Path) -> None:
    chosen, run = small("classify", "gru", steps=6, save_every=2), tmp_path / "run"
    with pytest.raises(Interrupted):
        train_recipe(chosen, run, quiet=True, interrupted=after(3), recording=Recording())
    assert recorded(run)[-1]["end"] == "interrupted"
    resume_run(run, quiet=True)
    assert [each["step"] for each in recorded(run)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("task", "text", "said"),
    [("regress", "a b", "--probe"), ("translate", " ", "--probe: the text is empty")],
)
def test_invalid_probe_is_refused_at_once(task: str, text: str, said: str, tmp_path: Path) -> None:
    family = "mlp" if task == "regress" else "transformer"
    with pytest.raises(InputError, match=said):
        train_recipe(small(task, family), tmp_path / "run", quiet=True, recording=Recording(text))
    assert not (tmp_path / "run").exists()


def test_invalid_probe_is_refused_before_a_resume(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_recipe(small("regress", "mlp"), tmp_path / "run", quiet=True, interrupted=after(1))
    with pytest.raises(InputError, match="--probe"):
        resume_run(tmp_path / "run", quiet=True, recording=Recording("a b"))
    assert [each["step"] for each in lines(tmp_path / "run/metrics.jsonl")] == [1]
    resume_run(tmp_path / "run", quiet=True, recording=Recording("0.5"))
    assert [each["step"] for each in recorded(tmp_path / "run")] == [2, 3, 3]


def test_lock_shows_whether_a_run_is_recorded(tmp_path: Path) -> None:
    seen: list[bool | None] = []

    def look() -> bool:
        seen.append(goes_on(tmp_path / "run"))
        return False

    assert goes_on(tmp_path / "run") is False
    chosen = small("regress", "mlp")
    train_recipe(chosen, tmp_path / "run", quiet=True, interrupted=look, recording=Recording())
    assert seen == [True, True, True]
    assert goes_on(tmp_path / "run") is False


def test_nan_gradient_is_recorded(tmp_path: Path, monkeypatch: Any) -> None:
    real = loop.gradient_sizes

    def broken(parameters: Any) -> Any:
        if len(recorded(tmp_path / "run")) == 2:
            parameters[0].grad.fill_(float("nan"))
        return real(parameters)

    monkeypatch.setattr(loop, "gradient_sizes", broken)
    chosen = small("regress", "mlp", steps=5, save_every=1)
    with pytest.raises(TrainingError):
        train_recipe(chosen, tmp_path / "run", quiet=True, recording=Recording())
    *_, last = recorded(tmp_path / "run")
    assert last["end"] == "failed"
    assert "the gradient norm is nan" in last["why"]


def test_few_steps_and_few_probes_of_a_long_run(tmp_path: Path) -> None:
    setting = set_up(small("regress", "mlp"), lambda _: None)
    record = recorder.Recorder(tmp_path, setting.network, 100_000, lambda network: network)  # type: ignore[arg-type]
    assert sum(map(record.watches, range(1, 100_001))) == 2000
    looks = [step for step in range(100_001) if record.looks(step, False)]
    assert looks[:6] == [0, 1, 2, 4, 8, 16]
    assert len(looks) < 60
    assert record.looks(77_777, True)


def test_a_table_is_read_as_it_was_written() -> None:
    chosen = small("tag", "rnn")
    setting = set_up(chosen, lambda _: None)
    from translucid.tasks.model_folder import Bundle

    held = Bundle(setting.network.eval(), "tag", setting.tokenizers, setting.labels)
    told = json.loads(json.dumps(probe(held, TEXT)))
    assert told["at"].endswith(".hidden")
    assert table_of(told).shape == (len(told["rows"]), len(told["columns"]))
    assert np.allclose(table_of(told), Model(held).trace(TEXT)[told["at"]][0].T, atol=1e-6)
    assert replace(held, facts={}) is not held
