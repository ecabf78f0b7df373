"""What is loaded when: nothing of torch's compiler where nobody compiles."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from translucid.models import TransformerConfig
from translucid.training import prefetch
from translucid.training.config import TrainingConfig

CODE = """
import sys
from translucid.cli import main
sys.argv = ["translucid", "train", "translate", "--toyland", "60", "--out", sys.argv[1],
            "--quiet", "training.steps=2", "model.d_model=16", "training.device=cpu"]
try:
    main()
finally:
    print(*sorted({"torch._dynamo", "sympy", "triton"} & set(sys.modules)), "end")
"""


@pytest.mark.slow
def test_training_does_not_import_torchs_compiler(tmp_path: Path) -> None:
    """It takes two seconds, and torch's own optimizers would."""
    command = [sys.executable, "-c", CODE, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.stdout.splitlines()[-1] == "end", done.stdout + done.stderr
    assert (tmp_path / "run/test.json").exists(), done.stderr


def test_no_libraries_are_loaded_early_on_a_cpu() -> None:
    model = TransformerConfig(shape="decoder", head="language", vocab=8, d_model=8, layers=1)
    before = threading.active_count()
    prefetch.begin(TrainingConfig(compile=True), model, torch.device("cpu"))
    assert threading.active_count() == before


def test_errors_of_early_loading_are_ignored() -> None:
    sys.modules.pop("wave", None)
    prefetch._load(torch.device("cpu"), ["wave", "no_such_module_of_ours", "wave"])
    assert "wave" in sys.modules
