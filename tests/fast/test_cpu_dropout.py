"""Dropout drawn by numpy hides what it should; small tensors keep torch's."""

from pathlib import Path

import pytest
import torch
from tests.runs.test_resume import same_runs, stop_and_resume
from tests.runs.test_runs import small
from torch import nn

from translucid.fast import dropout
from translucid.fast.dropout import LARGE, LargeDropout, noise
from translucid.runs.run import train_recipe


@pytest.mark.parametrize("probability", [0.1, 0.5, 1 / 3])
def test_noise_is_0_or_keeps_the_mean(probability: float) -> None:
    torch.manual_seed(3)
    first, second = (noise(torch.Size((401, 999)), probability, torch.float32) for _ in range(2))
    kept = first > 0
    deviation = (probability * (1 - probability) / kept.numel()) ** 0.5
    assert float(kept.float().mean()) == pytest.approx(1 - probability, abs=5 * deviation)
    assert torch.equal(first, kept * first.max())
    assert float(first.max()) == pytest.approx(1 / (1 - probability), rel=1e-4)
    agreeing = float(((first > 0) == (second > 0)).float().mean())
    assert agreeing == pytest.approx(probability**2 + (1 - probability) ** 2, abs=5e-3)
    torch.manual_seed(3)
    assert torch.equal(noise(torch.Size((401, 999)), probability, torch.float32), first)


def test_only_large_tensors_use_numpy() -> None:
    part = nn.Dropout(0.2).train()
    fast = LargeDropout(nn.Sequential(part))
    large, few = torch.ones(2, LARGE, requires_grad=True), torch.ones(5, 7)
    outputs = []
    for used in (True, False):
        torch.manual_seed(0)
        if used:
            with fast.used():
                outputs.append((part(few), part(large)))
        else:
            outputs.append((part(few), large * noise(large.shape, 0.2, torch.float32)))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(outputs[0][1].sum(), large)
    assert torch.equal(gradient, outputs[0][1])
    torch.manual_seed(0)
    expected = nn.functional.dropout(large, 0.2)
    torch.manual_seed(0)
    assert torch.equal(part(large), expected), "outside it is torch's again"
    with fast.used():
        assert torch.equal(part.eval()(large), large)


@pytest.mark.slow
def test_a_resumed_run_draws_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = small("tag", "transformer", steps=4, evaluate_every=9)
    train_recipe(chosen, tmp_path / "torch", quiet=True)
    monkeypatch.setattr(dropout, "LARGE", 1)
    train_recipe(chosen, tmp_path / "straight", quiet=True)
    stop_and_resume(chosen, tmp_path / "stopped", [1, 2])
    same_runs(tmp_path / "straight", tmp_path / "stopped")
    logs = [
        (tmp_path / name / "metrics.jsonl").read_text("utf-8") for name in ("torch", "straight")
    ]
    assert logs[0] != logs[1], "it was not used"
