"""The state of a run on disk: what an exact resume needs, whole or not there.

    state/step-00000500/
        tensors.safetensors    weights, moments, running means; of sharded runs shard-*.safetensors
        state.json             step, position in the data, best score, what the run was told
        manifest.json          a SHA-256 of each

The newest two stay: should one be damaged later, the run goes back to the other. No pickle.
"""

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from translucid.errors import InputError, TrainingError
from translucid.training.folders import aside, fault, put_in_place, write_whole
from translucid.training.processes import ALONE, Processes

TENSORS, NUMBERS = "tensors.safetensors", "state.json"
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """One that is whole."""

    step: int
    folder: Path
    numbers: dict[str, Any]

    @torch.no_grad()
    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Write what was saved into the tensors of that name, whole or shared out."""
        if not (self.folder / TENSORS).exists():
            from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
            from torch.distributed.checkpoint.state_dict_loader import load

            reader = HuggingFaceStorageReader(str(self.folder))
            alone = not torch.distributed.is_initialized()
            load(dict(tensors), storage_reader=reader, no_dist=alone)
            return
        found = load_file(str(self.folder / TENSORS))
        for name, tensor in tensors.items():
            saved = found[name]
            if isinstance(tensor, DTensor):
                saved = distribute_tensor(saved, tensor.device_mesh, tensor.placements)
            tensor.copy_(saved)


class Checkpoints:
    """The checkpoints of one run. With `aside`, they are written while training goes on."""

    def __init__(self, run: Path, *, aside: bool = False, processes: Processes = ALONE) -> None:
        self._run, self._folder, self._aside = run, run / "state", aside
        self._processes = processes
        self._writing: threading.Thread | None = None
        self._failed: OSError | None = None

    def save(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Write a checkpoint; those before the previous one go once it is there and whole."""
        self.wait()
        if self._processes.sharded:
            self._write_shards(step, tensors, numbers)
        elif self._processes.main:
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
            _write_numbers(folder, numbers)

        try:
            write_whole(self._place(step), fill)
            self._check(step)
        except OSError as error:
            self._failed = error
        except SafetensorError as error:  # its writer's way to report a full disk
            self._failed = OSError(str(error))

    def _write_shards(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Every process writes its share into a folder that the main one puts in place."""
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        place = self._place(step)
        if self._processes.main:
            shutil.rmtree(aside(place), ignore_errors=True)
            aside(place).mkdir(parents=True)
        self._processes.wait()
        writer = HuggingFaceStorageWriter(str(aside(place)), save_distributed=True)
        save(dict(tensors), storage_writer=writer)
        self._processes.wait()
        if self._processes.main:
            try:
                _write_numbers(aside(place), numbers)
                put_in_place(place)
                self._check(step)
            except OSError as error:
                self._failed = error
        self._processes.wait()

    def _check(self, step: int) -> None:
        wrong = fault(self._place(step))
        if wrong is not None:
            raise OSError(f"what was written cannot be read back: {wrong}")
        for older in self.steps()[KEPT:]:
            shutil.rmtree(self._place(older), ignore_errors=True)

    def _place(self, step: int) -> Path:
        return self._folder / f"step-{step:08}"

    def _explain(self, error: OSError) -> str:
        whole = [step for step in self.steps() if fault(self._place(step)) is None]
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
            place = self._place(step)
            wrong = fault(place)
            if wrong is None:
                return Checkpoint(step, place, json.loads((place / NUMBERS).read_text("utf-8")))
            say(f"{wrong}; falling back to the checkpoint before it")
        raise InputError(
            f"{self._run} holds no whole checkpoint, so there is nothing to go on from; "
            "train into a new folder"
        )


def _write_numbers(folder: Path, numbers: dict[str, Any]) -> None:
    (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
