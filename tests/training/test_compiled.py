"""A compiled model trains as the plain one; where it cannot be compiled, that is said."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs.test_runs import small
from torch import Tensor

from translucid.runs.run import train_recipe
from translucid.runs.session import Recording


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, from inside its compiler
def test_a_compiled_model_trains_as_the_plain_one_with_a_record_and_without(tmp_path: Path) -> None:
    def trained(name: str, recording: Recording | None = None, **options: Any) -> dict[str, Tensor]:
        chosen = small("classify", "still", steps=2, **options)
        held = train_recipe(chosen, tmp_path / name, quiet=True, recording=recording)
        assert "going on without" not in (tmp_path / name / "log.txt").read_text()
        return held.network.state_dict()

    plain, fast = trained("plain"), trained("fast", compile=True)
    seen = trained("seen", Recording(), compile=True)
    for name, weight in plain.items():
        torch.testing.assert_close(fast[name], weight, rtol=1e-3, atol=1e-4)
        assert torch.equal(fast[name], seen[name]), name


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
