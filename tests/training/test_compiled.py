"""A compiled model trains as the plain one; where it cannot be compiled, that is said."""

from pathlib import Path

import pytest
import torch
from tests.training.test_runs import small

from translucid.training.run import train_recipe
from translucid.training.sitting import Recording


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, from inside its compiler
def test_a_compiled_model_trains_as_the_plain_one(tmp_path: Path) -> None:
    plain, fast = (
        train_recipe(
            small("classify", "still", steps=2, compile=compiled),
            tmp_path / str(compiled),
            quiet=True,
        ).network.state_dict()
        for compiled in (False, True)
    )
    assert "going on without" not in (tmp_path / "True/log.txt").read_text()
    for name, weight in plain.items():
        torch.testing.assert_close(fast[name], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_record_changes_no_compiled_run(tmp_path: Path) -> None:
    chosen = small("classify", "still", steps=2, compile=True)
    plain = train_recipe(chosen, tmp_path / "plain", quiet=True).network.state_dict()
    seen = train_recipe(
        chosen, tmp_path / "seen", quiet=True, recording=Recording()
    ).network.state_dict()
    assert all(torch.equal(plain[name], seen[name]) for name in plain)
    assert "going on without" not in (tmp_path / "seen/log.txt").read_text()


def test_without_a_compiler_the_plain_model_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        def fail(**_: object) -> object:
            raise RuntimeError("no compiler here\nand a long story")

        return fail

    runs = []
    for compiled in (False, True):
        monkeypatch.setattr(torch, "compile", broken)
        chosen = small("classify", "still", steps=2, compile=compiled)
        runs.append(train_recipe(chosen, tmp_path / str(compiled), quiet=True).network.state_dict())
    log = (tmp_path / "True/log.txt").read_text()
    assert "torch.compile does not work here, going on without (no compiler here)" in log
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
