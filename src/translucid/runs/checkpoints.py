"""Checkpoints: the state of a run on disk, for an exact resume; written atomically.

    state/step-00000500/
        tensors.safetensors    weights, moments, running means; shard-*.safetensors if sharded
        state.json             step, position in the data, best score, fingerprint of the run
        manifest.json          a SHA-256 of each

The newest two are kept: if one is damaged, the run resumes from the other. No pickle.
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
Count = Annotated[int, Field(ge=0, lt=1 << 53)]  # exact in JSON


class _StateSection(Config):
    """The required values of state.json; others are checked where they are read."""

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
    kept_losses: dict[str, float] = Field(default_factory=dict)  # missing in older ones
    metrics: Count
    fingerprint: _Fingerprint


@dataclass(frozen=True)
class Checkpoint:
    """An intact checkpoint."""

    step: int
    folder: Path
    numbers: dict[str, Any]

    def check(self) -> None:
        """Raise an error if state.json contains invalid values."""
        try:
            _Numbers(**self.numbers)
        except ConfigError as error:
            raise InputError(
                f"{self.folder / NUMBERS} is damaged or was not written by a run: {error}; copy "
                "the whole run again"
            ) from None
        place, batches = self.numbers["place"], self.numbers["state"]["batches"]
        if place.get("batches") != batches or place.get("index", 0) > batches:
            raise InputError(
                f"{self.folder / NUMBERS} is damaged: according to it, {place.get('batches')} "
                f"batches were read, but {batches} were used for training; copy the whole run again"
            )

    @torch.no_grad()
    def fill(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the saved values into these tensors, which may be sharded."""
        if not (self.folder / TENSORS).exists():
            from torch.distributed.checkpoint.api import CheckpointException
            from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
            from torch.distributed.checkpoint.state_dict_loader import load

            reader = HuggingFaceStorageReader(str(self.folder))
            alone = not torch.distributed.is_initialized()
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "torch.distributed is disabled")  # expected
                    load(dict(tensors), storage_reader=reader, no_dist=alone)
            except CheckpointException as error:  # not a subclass of Exception
                raise ValueError(_first(error.failures)) from error
            return
        path = self.folder / TENSORS
        try:
            saved = load_file(str(path))
        except SafetensorError as error:
            raise InputError(f"{path} cannot be read: {error}; copy the whole run again") from None
        for name, tensor in tensors.items():
            tensor.copy_(shard(saved[name], tensor))


class Checkpoints:
    """The checkpoints of one run. With `aside`, they are written in the background."""

    def __init__(self, run: Path, *, aside: bool = False, processes: Processes = ALONE) -> None:
        self._run, self._folder, self._aside = run, run / "state", aside
        self._processes = processes
        self._writing: threading.Thread | None = None
        self._failed: Exception | None = None

    def save(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Write a checkpoint; once it is intact, remove all but the newest two."""
        self.wait()
        if self._processes.sharded:
            self._write_shards(step, tensors, numbers)
        elif self._processes.main:
            # Copy, because training continues to change the originals.
            copies = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
            self._writing = threading.Thread(target=self._write, args=(step, copies, numbers))
            self._writing.start()
        if not self._aside:
            self.wait()

    def wait(self) -> None:
        """Wait for a save in the background, and raise its error."""
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
        except Exception as error:  # raised by `wait`
            self._failed = error

    def _write_shards(self, step: int, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Write one shard per process; the main process then renames the folder."""
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        def write_shard(folder: Path) -> None:
            self._processes.wait()  # until the main one has created the folder
            writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
            try:
                save(dict(tensors), storage_writer=writer)
            except CheckpointException as error:  # raised in all processes if one fails
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
            raise SaveError(f"the checkpoint cannot be read back: {wrong}")
        # Newer checkpoints are damaged ones that the run skipped; ignore them.
        for older in [saved for saved in self.steps() if saved <= step][KEPT:]:
            remove(self._place(older))

    def _place(self, step: int) -> Path:
        return self._folder / f"step-{step:08}"

    def resume_advice(self) -> str:
        """Advice after a failed save: which checkpoint is left, and how to resume."""
        command = f"{self._processes.command} resume {shlex.quote(str(self._run))}"
        for step in self.steps():
            if fault(self._place(step)) is None:
                return (
                    f"the newest intact checkpoint is from step {step:,}; "
                    f"fix the cause, then resume with: {command}"
                )
        if self.steps():
            return "no checkpoint is intact; fix the cause, then train into a new folder"
        if (self._run / "recipe.toml").exists():
            return f"no checkpoint was saved yet; fix the cause, then start over with: {command}"
        return "nothing was saved yet; fix the cause, then train again"

    def steps(self) -> list[int]:
        """The steps of all checkpoints, newest first."""
        names = [p.name.removeprefix("step-") for p in self._folder.glob("step-*")]
        return sorted((int(digits) for digits in names if digits.isdigit()), reverse=True)

    def newest(self, say: Callable[[str], None]) -> Checkpoint:
        """Find the newest intact checkpoint, and report newer ones that are damaged."""
        for step in self.steps():
            place = self._place(step)
            wrong = fault(place)
            if wrong is None:
                return Checkpoint(step, place, read_object(place / NUMBERS))
            say(f"{wrong}; falling back to the checkpoint before it")
        raise InputError(
            f"{self._run} contains no intact checkpoint to resume from; train into a new folder"
        )


def _first(failures: Mapping[int, tuple[BaseException, Any]]) -> str:
    """The error from the first process that failed."""
    return str(next(iter(failures.values()))[0])


def _write_numbers(folder: Path, numbers: dict[str, Any]) -> None:
    (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
