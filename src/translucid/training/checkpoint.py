"""The state of a run on disk: what an exact resume needs, whole or not there.

    state/step-000500/
        tensors.safetensors    weights, moments, running means
        state.json             step, position in the data, best score, what the run was told
        manifest.json          a SHA-256 of each

The newest two stay: should one be damaged later, the run goes back to the other. No pickle.
"""

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from translucid.errors import InputError, TrainingError
from translucid.training.folders import fault, write_whole

TENSORS, NUMBERS = "tensors.safetensors", "state.json"
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    step: int
    tensors: dict[str, Tensor]
    numbers: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run. With `aside`, they are written while training goes on."""

    def __init__(self, run: Path, *, aside: bool = False) -> None:
        self._run, self._folder, self._aside = run, run / "state", aside
        self._writing: threading.Thread | None = None
        self._failed: OSError | None = None

    def save(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Write a checkpoint; those before the previous one go once it is there and whole."""
        self.wait()
        # A copy in any case: training goes on changing the originals.
        copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
        self._writing = threading.Thread(target=self._write, args=(step, copies, numbers))
        self._writing.start()
        if not self._aside:
            self.wait()

    def wait(self) -> None:
        """Until what is being written is there."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise TrainingError(self._explain(error)) from error

    def _write(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        def fill(folder: Path) -> None:
            save_file(tensors, str(folder / TENSORS))
            (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")

        try:
            place = self._folder / f"step-{step:08}"
            write_whole(place, fill)
            wrong = fault(place)
            if wrong is not None:
                raise OSError(f"what was written cannot be read back: {wrong}")
            for older in self.steps()[KEPT:]:
                shutil.rmtree(self._folder / f"step-{older:08}", ignore_errors=True)
        except OSError as error:
            self._failed = error
        except SafetensorError as error:  # its writer's way to report a full disk
            self._failed = OSError(str(error))

    def _explain(self, error: OSError) -> str:
        whole = [step for step in self.steps() if fault(self._folder / f"step-{step:08}") is None]
        rest = (
            f"the newest whole checkpoint is of step {whole[0]:,}; mend that, then go on with: "
            f"translucid resume {self._run}"
            if whole
            else "no earlier checkpoint is whole; mend that and begin again"
        )
        return f"the state could not be saved in {self._folder}: {error}; {rest}"

    def steps(self) -> list[int]:
        """Of the checkpoints that are there, newest first."""
        found = [p.name.removeprefix("step-") for p in self._folder.glob("step-*")]
        return sorted((int(number) for number in found if number.isdigit()), reverse=True)

    def newest(self, say: Callable[[str], None]) -> Checkpoint:
        """The newest whole checkpoint; what is wrong with a newer one is said."""
        for step in self.steps():
            place = self._folder / f"step-{step:08}"
            wrong = fault(place)
            if wrong is None:
                numbers = json.loads((place / NUMBERS).read_text("utf-8"))
                return Checkpoint(step, load_file(str(place / TENSORS)), numbers)
            say(f"{wrong}; falling back to the checkpoint before it")
        raise InputError(
            f"{self._run} holds no whole checkpoint, so there is nothing to go on from; "
            "train into a new folder"
        )
