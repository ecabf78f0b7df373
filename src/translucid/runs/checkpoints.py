"""The state of a run on disk: what an exact resume needs, whole or not there.

    state/step-00000500/
        tensors.safetensors    weights, moments, running means; of sharded runs shard-*.safetensors
        state.json             step, position in the data, best score, what the run was told
        manifest.json          a SHA-256 of each

The newest two stay: should one be damaged later, the run goes back to the other. No pickle.
"""

import json
import shlex
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from translucid.core.atomic_files import aside, fault, remove, saving, write_whole
from translucid.core.config import Config
from translucid.core.errors import ConfigError, InputError, SaveError
from translucid.core.untrusted_files import read_object
from translucid.training.distributed import ALONE, Processes, shard

TENSORS, NUMBERS = "tensors.safetensors", "state.json"
KEPT = 2
Count = Annotated[int, Field(ge=0, lt=1 << 53)]  # as JSON keeps exactly


class _StateSection(Config):
    """Of state.json: what must be there, and of which kind. What else is there has its reader."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=True)


class _Fingerprint(_StateSection):
    recipe: dict[str, Any]
    files: dict[str, str]
    tokenizers: dict[str, str]
    circumstances: dict[str, Any]
    folder: str


class _State(_StateSection):
    step: Count
    batches: Count
    skipped: Count
    seconds: float
    finished: bool
    unscored: bool = False
    best: float | None
    waited: Count
    target_sum: Count
    average_steps: Count | None


class _Numbers(_StateSection):
    state: _State
    place: dict[str, Count]
    kept: dict[str, float]
    kept_losses: dict[str, float] = Field(default_factory=dict)  # not in older ones
    metrics: Count
    fingerprint: _Fingerprint


@dataclass(frozen=True)
class Checkpoint:
    """One that is whole."""

    step: int
    folder: Path
    numbers: dict[str, Any]

    def check(self) -> None:
        """Refuse what a run does not write, before anything is made of it."""
        try:
            _Numbers(**self.numbers)
        except ConfigError as error:
            raise InputError(
                f"{self.folder / NUMBERS} is not what a run writes: {error}; copy the run again, "
                "whole"
            ) from None
        place, batches = self.numbers["place"], self.numbers["state"]["batches"]
        if place.get("batches") != batches or place.get("index", 0) > batches:
            raise InputError(
                f"{self.folder / NUMBERS} stands after {place.get('batches')} batches in the data "
                f"and after {batches} in training; copy the run again, whole"
            )

    @torch.no_grad()
    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Write what was saved into the tensors of that name, whole or shared out."""
        if not (self.folder / TENSORS).exists():
            from torch.distributed.checkpoint.api import CheckpointException
            from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
            from torch.distributed.checkpoint.state_dict_loader import load

            reader = HuggingFaceStorageReader(str(self.folder))
            alone = not torch.distributed.is_initialized()
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "torch.distributed is disabled")  # so it is
                    load(dict(tensors), storage_reader=reader, no_dist=alone)
            except CheckpointException as error:  # no Exception: it would end in a traceback
                raise ValueError(_first(error.failures)) from error
            return
        saved = _load_tensors(self.folder / TENSORS)
        for name, tensor in tensors.items():
            tensor.copy_(shard(saved[name], tensor))


class Checkpoints:
    """The checkpoints of one run. With `aside`, they are written while training goes on."""

    def __init__(self, run: Path, *, aside: bool = False, processes: Processes = ALONE) -> None:
        self._run, self._folder, self._aside = run, run / "state", aside
        self._processes = processes
        self._writing: threading.Thread | None = None
        self._failed: Exception | None = None

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
            raise error

    def _write(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        def fill(folder: Path) -> None:
            save_file(tensors, str(folder / TENSORS))
            _write_numbers(folder, numbers)

        try:
            write_whole(self._place(step), fill)
            self._check(step)
        except Exception as error:  # whatever it is, `wait` raises it where it is heard
            self._failed = error

    def _write_shards(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Every process writes its shard into a folder that the main one puts in place."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        def write_shard(folder: Path) -> None:
            self._processes.wait()  # until the main one has made the folder
            writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
            try:
                save(dict(tensors), storage_writer=writer)
            except CheckpointException as error:  # in all of them, if one could not write
                raise OSError(_first(error.failures)) from error

        def fill(folder: Path) -> None:
            write_shard(folder)
            _write_numbers(folder, numbers)

        place = self._place(step)
        if self._processes.main:
            write_whole(place, fill)
            self._check(step)
        else:
            with saving(place):
                write_shard(aside(place))
        self._processes.wait()

    def _check(self, step: int) -> None:
        wrong = fault(self._place(step))
        if wrong is not None:
            raise SaveError(f"what was written cannot be read back: {wrong}")
        # Newer ones are there if the run went back behind them: they are damaged, and do not count.
        for older in [saved for saved in self.steps() if saved <= step][KEPT:]:
            remove(self._place(older))

    def _place(self, step: int) -> Path:
        return self._folder / f"step-{step:08}"

    def resume_advice(self) -> str:
        """After something could not be saved: what is there, and what to type."""
        command = f"{self._processes.command} resume {shlex.quote(str(self._run))}"
        for step in self.steps():
            if fault(self._place(step)) is None:
                return (
                    f"the newest whole checkpoint is of step {step:,}; "
                    f"mend that, then go on with: {command}"
                )
        if self.steps():
            return "no checkpoint is whole; mend that, then train into a new folder"
        if (self._run / "recipe.toml").exists():
            return f"no checkpoint was saved yet; mend that, then begin again with: {command}"
        return "nothing was saved yet; mend that, then train again"

    def steps(self) -> list[int]:
        """Of the checkpoints that are there, newest first."""
        names = [p.name.removeprefix("step-") for p in self._folder.glob("step-*")]
        return sorted((int(digits) for digits in names if digits.isdigit()), reverse=True)

    def newest(self, say: Callable[[str], None]) -> Checkpoint:
        """The newest whole checkpoint; what is wrong with a newer one is said."""
        for step in self.steps():
            place = self._place(step)
            wrong = fault(place)
            if wrong is None:
                return Checkpoint(step, place, read_object(place / NUMBERS))
            say(f"{wrong}; falling back to the checkpoint before it")
        raise InputError(
            f"{self._run} holds no whole checkpoint, so there is nothing to go on from; "
            "train into a new folder"
        )


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(str(path))
    except SafetensorError as error:
        raise InputError(f"{path} cannot be read: {error}; copy the run again, whole") from None


def _first(failures: Mapping[int, tuple[BaseException, Any]]) -> str:
    """What went wrong in the first of the processes that failed."""
    return str(next(iter(failures.values()))[0])


def _write_numbers(folder: Path, numbers: dict[str, Any]) -> None:
    (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
