"""Background threads of a GPU run: prepare batches while the GPU computes, and load slow libraries
while the data are read."""

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

QUEUE_SIZE = 8  # batches


@contextmanager
def prefetched(batches: Iterator[Batch], *, captured: bool) -> Iterator[Iterator[Batch]]:
    """Yield an iterator over the same batches, prefetched if steps are captured as CUDA graphs.
    Without graphs, a second thread slows down kernel launches: steps of a small Transformer took 8
    % longer."""
    if not captured:
        yield batches
        return
    prefetcher = Prefetcher(batches, pinned)
    try:
        yield prefetcher
    finally:
        prefetcher.close()


def pinned(batch: Batch) -> Batch:
    """Copy a batch to pinned memory, for asynchronous copies to a GPU."""
    inputs = {name: tensor.pin_memory() for name, tensor in batch.inputs.items()}
    return replace(batch, inputs=inputs, targets=batch.targets.pin_memory())


class Prefetcher:
    """An iterator that prepares a few items ahead in a thread. If the thread raises an exception,
    `next` raises it in place of the item; `close` ends the thread."""

    def __init__(
        self, batches: Iterator[Batch], finish: Callable[[Batch], Batch], size: int = QUEUE_SIZE
    ) -> None:
        self._batches, self._finish = batches, finish
        self._made: queue.Queue[Batch | BaseException] = queue.Queue(size)
        self._closing = threading.Event()
        # A daemon thread, so that the process can exit without waiting for a batch.
        self._thread = threading.Thread(target=self._make, name="batches", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        try:
            for batch in self._batches:
                self._made.put(self._finish(batch))
                if self._closing.is_set():
                    return
            self._made.put(StopIteration())
        except BaseException as error:  # raised in __next__
            self._made.put(error)

    def __iter__(self) -> "Prefetcher":
        return self

    def __next__(self) -> Batch:
        made = self._made.get()
        if isinstance(made, BaseException):
            self._made.put(made)  # so that the next call raises it too
            raise made
        return made

    def close(self) -> None:
        self._closing.set()
        while self._thread.is_alive():
            while not self._made.empty():  # the thread may wait for space
                self._made.get_nowait()
            self._thread.join(0.01)


KERNELS = ("translucid.fast.short_attention", "translucid.fast.loss_kernel")
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile")


def begin(config: TrainingConfig, model: ModelConfig, device: torch.device) -> None:
    """Start loading the GPU's libraries in the background. model: those parts of the configuration
    that are known before the data are read."""
    if device.type != "cuda":
        return
    modules = list(KERNELS) if has_triton() else []
    if modules and automatic.likely(config, model):
        modules += COMPILER
    Thread(target=_load, args=(device, modules), name="early start", daemon=True).start()


def _load(device: torch.device, modules: list[str]) -> None:
    with suppress(Exception):  # the main thread will raise the same
        some = torch.ones(16, 16, device=device)
        some @ some  # initialises the device and cuBLAS
        for module in modules:
            import_module(module)
