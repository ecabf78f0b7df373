"""Batches made ahead: the same ones, errors in their place, and nothing left behind."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.runs.test_resume import same_runs, stop_and_resume
from tests.runs.test_runs import small

from translucid.core.errors import InputError
from translucid.runs import session
from translucid.runs.run import train_recipe
from translucid.tasks.batch import Batch
from translucid.training import prefetch as ahead_module
from translucid.training.prefetch import Prefetcher, prefetched


def numbered(count: int) -> Iterator[Batch]:
    for i in range(count):
        yield Batch({}, torch.tensor([i]), 1)


def as_it_is(batch: Batch) -> Batch:
    return batch


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "batches"]


def test_the_same_batches_come_in_the_same_order() -> None:
    ahead = Prefetcher(numbered(50), as_it_is, size=3)
    assert [int(batch.targets) for batch in ahead] == list(range(50))
    ahead.close()
    assert not threads()


def test_plain_steps_get_their_batches_as_they_are() -> None:
    batches = numbered(3)
    with prefetched(batches, captured=False) as given:
        assert given is batches
    assert not threads()


def test_captured_steps_get_theirs_from_a_thread_that_ends_with_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ahead_module, "pinned", as_it_is)  # only a GPU's driver can pin
    with prefetched(numbered(10**9), captured=True) as given:
        assert [int(next(given).targets) for _ in range(20)] == list(range(20))
        assert threads() == ["batches"]
    assert not threads()


def test_an_error_is_raised_where_its_batch_would_have_come() -> None:
    def broken() -> Iterator[Batch]:
        yield from numbered(2)
        raise InputError("line 3 cannot be read")

    ahead = Prefetcher(broken(), as_it_is)
    assert [int(next(ahead).targets) for _ in range(2)] == [0, 1]
    for _ in range(2):
        with pytest.raises(InputError, match="line 3 cannot be read"):
            next(ahead)
    ahead.close()


def test_an_error_while_finishing_a_batch_is_raised() -> None:
    def no_room(batch: Batch) -> Batch:
        raise MemoryError("nothing left to pin")

    ahead = Prefetcher(numbered(2), no_room)
    with pytest.raises(MemoryError, match="nothing left to pin"):
        next(ahead)
    ahead.close()


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_closing_ends_a_thread_that_waits_for_room(taken: int) -> None:
    ahead = Prefetcher(numbered(10**9), as_it_is, size=2)
    for _ in range(taken):
        next(ahead)
    while not ahead._made.full():
        time.sleep(0.001)
    ahead.close()
    assert not threads()


def test_ctrl_c_interrupts_the_wait_for_a_batch() -> None:
    come = threading.Event()

    def slow() -> Iterator[Batch]:
        come.wait()
        yield from numbered(1)

    ahead = Prefetcher(slow(), as_it_is)
    # A shell that starts the tests in the background lets them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            next(ahead)
    finally:
        signal.signal(signal.SIGINT, before)
    come.set()
    ahead.close()
    assert not threads()


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_run_does_not_depend_on_how_far_ahead_its_batches_are(
    accumulate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle and at the ends of epochs: what is saved counts the batches that were
    taken, not those that were made."""

    @contextmanager
    def far_ahead(batches: Iterator[Batch], *, captured: bool) -> Iterator[Iterator[Batch]]:
        ahead = Prefetcher(batches, as_it_is, size=40)
        while not ahead._made.full():
            time.sleep(0.001)
        try:
            yield ahead
        finally:
            ahead.close()

    settings = {"steps": 11, "batch_tokens": 700, "evaluate_every": 4, "accumulate": accumulate}
    chosen = small("classify", "transformer", **settings)
    train_recipe(chosen, tmp_path / "plain", quiet=True)
    monkeypatch.setattr(session, "prefetched", far_ahead)
    stop_and_resume(chosen, tmp_path / "ahead", [2, 3, 1, 1])
    same_runs(tmp_path / "plain", tmp_path / "ahead")
    assert not threads()
