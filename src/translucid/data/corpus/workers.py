"""Run the jobs that build a token store, in this process or in several."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

from translucid.core.errors import TranslucidError
from translucid.data.corpus.encode import (
    TOKENIZER,
    EncodingSettings,
    Job,
    Shard,
    WordCache,
    encode_job,
)
from translucid.data.tokenizers.tokenizer import Tokenizer

Report = Callable[[int], None]  # called with the number of bytes processed so far
_LOOK = 0.2  # seconds between two progress reports


def encode_jobs(
    jobs: Iterator[Job],
    settings: EncodingSettings,
    tokenizer: Tokenizer,
    processes: int,
    report: Report,
) -> list[Shard]:
    """Run all jobs, and return the shards in the order of the jobs."""
    if processes > 1:
        return _encode_in_processes(jobs, settings, tokenizer, processes, report)
    done = 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        report(done)

    words = WordCache(tokenizer)
    return [encode_job(job, n, settings, words, moved) for n, job in enumerate(jobs)]


def _encode_in_processes(
    jobs: Iterator[Job],
    settings: EncodingSettings,
    tokenizer: Tokenizer,
    processes: int,
    report: Report,
) -> list[Shard]:
    # Processes are spawned, since a fork copies locks that other threads hold.
    context = multiprocessing.get_context("spawn")
    done, stop = context.Value("q", 0), context.Event()
    pool = ProcessPoolExecutor(
        processes, context, _start_worker, (settings, tokenizer.fingerprint, done, stop)
    )
    running: list[Future[Shard]] = []
    shards: list[Shard] = []
    try:
        for number, job in enumerate(jobs):
            running.append(_hand_over(pool, job, number))
            report(done.value)
        for future in running:  # in order, so that the first error in a file is reported
            while not wait([future], timeout=_LOOK).done:
                report(done.value)
            shards.append(future.result())
            report(done.value)
    except BrokenProcessPool:
        raise TranslucidError(
            "a process that encodes text died, perhaps because it was killed or out of memory; use "
            "fewer processes. If a Python script builds the store, it must do so inside "
            "`if __name__ == '__main__':`"
        ) from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
    return shards


def _hand_over(pool: ProcessPoolExecutor, job: Job, number: int) -> "Future[Shard]":
    """Submit a job to a pool of processes. A pool in which a process has died may raise different
    errors; all of them are converted to BrokenProcessPool."""
    try:
        return pool.submit(_work, job, number)
    except (OSError, ValueError) as error:
        raise BrokenProcessPool from error


class _Stopped(Exception):
    """Raised in a worker process when the build was stopped."""


class _Worker:
    """The state of a worker process, kept between jobs."""

    settings: EncodingSettings
    words: WordCache
    bytes_done: "Synchronized[int]"
    stop: Event


def _start_worker(
    settings: EncodingSettings, fingerprint: str, bytes_done: "Synchronized[int]", stop: Event
) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread for each process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and sets `stop`
    threading.Thread(target=_follow_parent, daemon=True).start()
    _Worker.settings, _Worker.bytes_done, _Worker.stop = settings, bytes_done, stop
    tokenizer = Tokenizer.load(
        settings.folder / TOKENIZER, expect=fingerprint, max_bytes=settings.max_bytes
    )
    _Worker.words = WordCache(tokenizer)


def _follow_parent() -> None:
    """Exit when the parent process ends. Otherwise, if the parent were killed, its workers would
    wait for jobs forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(job: Job, number: int) -> Shard:
    """Run `encode_job` in a process that `_start_worker` has prepared."""

    def moved(count: int) -> None:
        if _Worker.stop.is_set():
            raise _Stopped
        with _Worker.bytes_done.get_lock():
            _Worker.bytes_done.value += count

    return encode_job(job, number, _Worker.settings, _Worker.words, moved)
