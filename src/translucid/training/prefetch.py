"""Work for a GPU run done in background threads: batches prepared while the GPU computes, and slow
libraries loaded while the data are read."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from threading import Thread

import torch

from translucid.core.device import has_triton
from translucid.models import ModelConfig
from translucid.tasks.batch import Batch
from translucid.training import automatic
from translucid.training.config import TrainingConfig

QUEUE_SIZE = 8  # batches at most that wait to be taken


@contextmanager
def prefetched(batches: Iterator[Batch], *, captured: bool) -> Iterator[Iterator[Batch]]:
    """The same batches in the same order, for captured steps, during which Python has time. Where
    it launches every kernel itself, a second thread only takes its turns away: steps of a small
    Transformer took 8 % longer. Those get their batches as they are."""
    if not captured:
        yield batches
        return
    prefetcher = Prefetcher(batches, pinned)
    try:
        yield prefetcher
    finally:
        prefetcher.close()


def pinned(batch: Batch) -> Batch:
    """In memory that a GPU can read while the CPU goes on."""
    inputs = {name: tensor.pin_memory() for name, tensor in batch.inputs.items()}
    return replace(batch, inputs=inputs, targets=batch.targets.pin_memory())


class Prefetcher:
    """An iterator that is a few items ahead. What the thread meets is raised where its item would
    have been taken; `close` ends the thread."""

    def __init__(
        self, batches: Iterator[Batch], finish: Callable[[Batch], Batch], size: int = QUEUE_SIZE
    ) -> None:
        self._batches, self._finish = batches, finish
        self._made: queue.Queue[Batch | BaseException] = queue.Queue(size)
        self._closing = threading.Event()
        # A daemon: a process that is told to leave at once does not wait for a batch.
        self._thread = threading.Thread(target=self._make, name="batches", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        try:
            for batch in self._batches:
                self._made.put(self._finish(batch))
                if self._closing.is_set():
                    return
            self._made.put(StopIteration())
        except BaseException as error:  # also what is no Exception: nobody else would hear of it
            self._made.put(error)

    def __iter__(self) -> "Prefetcher":
        return self

    def __next__(self) -> Batch:
        made = self._made.get()
        if isinstance(made, BaseException):
            self._made.put(made)  # whoever asks again hears the same
            raise made
        return made

    def close(self) -> None:
        self._closing.set()
        while self._thread.is_alive():
            while not self._made.empty():  # it may wait for room
                self._made.get_nowait()
            self._thread.join(0.01)


KERNELS = ("translucid.fast.short_attention", "translucid.fast.loss_kernel")
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile")


def begin(config: TrainingConfig, model: ModelConfig, device: torch.device) -> None:
    """model: as far as it is known before the data are."""
    if device.type != "cuda":
        return
    modules = list(KERNELS) if has_triton() else []
    if modules and automatic.likely(config, model):
        modules += COMPILER
    Thread(target=_load, args=(device, modules), name="early start", daemon=True).start()


def _load(device: torch.device, modules: list[str]) -> None:
    with suppress(Exception):  # whoever needs it meets the same, and tells of it
        some = torch.ones(16, 16, device=device)
        some @ some  # the device, and its library of matrix multiplications
        for module in modules:
            import_module(module)
