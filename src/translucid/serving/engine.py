"""The engine: one thread that answers the requests of many clients with one model.

    engine = Engine(model)
    ticket = engine.submit(Job("Once upon a time", sampling=SamplingConfig()), print)
    ticket.cancel()
    engine.close()

`submit` may be called from any thread. It tokenizes and checks the job in the calling thread, so
invalid jobs raise InputError there. Events are delivered in order, by calls of `on_event` in the
engine's thread: the function must return quickly, and hand the event to another thread or event
loop (`loop.call_soon_threadsafe(queue.put_nowait, event)`). If it raises an exception, the request
is cancelled.
"""

import time
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from threading import Condition, Thread
from threading import Event as Flag
from typing import Any

import torch

from translucid.core.errors import InputError
from translucid.core.trace import Edit, Trace
from translucid.model.model import Model
from translucid.serving.job import EngineClosed, Event, Failed, Finished, Job, QueueFull
from translucid.serving.limits import Limits
from translucid.serving.request import Request
from translucid.serving.scheduler import Scheduler
from translucid.serving.ticket import OnEvent, Questions, Ticket

KINDS = ("classify", "tag", "predict", "embed", "score", "fill")


class Engine:
    """Answers requests with one model, many at the same time.

    The answers equal those of the library, whatever else is computed at the same time."""

    def __init__(
        self, model: Model, limits: Limits | None = None, *, threads: int | None = None
    ) -> None:
        """model: a model in evaluation mode, such as from `tl.load` or `model.optimized()`.
        threads: of torch on a CPU; default: as many as the calling thread has."""
        self.model, self.limits = model, limits or Limits()
        self.threads = threads or torch.get_num_threads()
        self._waiting: deque[Ticket] = deque()
        self._changed = Condition()
        self._closing = False
        self._scheduler = Scheduler(model, self.limits)
        self._thread = Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job, on_event: OnEvent, client: Hashable = None) -> Ticket:
        """Accept a job of text generation. Its events are PromptRead (with `echo`), Piece (with
        `sampling`), and last Finished or Failed. client: equal for jobs of the same client, so that
        others do not wait for all of them.

        Raises InputError if the model cannot do it, and QueueFull if too many requests wait."""
        request = Request(job, self.model.text_generator)
        limits = self.limits
        if request.rows > limits.rows:
            raise InputError(
                f"the request needs {request.rows} rows, but this engine has {limits.rows}; use a "
                "smaller n or beam_size"
            )
        if (tokens := request.rows * request.length) > limits.cache_tokens:
            raise InputError(
                f"the request needs {tokens:,} tokens in the cache, but this engine has "
                f"{limits.cache_tokens:,}; use a smaller max_length, n or beam_size"
            )
        return self._accept(Ticket(request, on_event, job.deadline, client))

    def run(
        self,
        kind: str,
        texts: Sequence[Any],
        on_event: OnEvent,
        *,
        targets: Sequence[str] | None = None,
        deadline: float | None = None,
        trace: Sequence[str] = (),
        edit: Mapping[str, Edit] | None = None,
        **options: Any,
    ) -> Ticket:
        """Accept texts to `classify`, `tag`, `predict`, `embed`, `score` or `fill`. Its only event
        is Answered, with one result for each text, or Failed.

        Requests that wait are answered together. targets: for `score`, the translations. options:
        those of the model's method, such as k for `fill`. trace, edit: as in `model.trace`; a trace
        is of one text. Texts with an edit are answered one by one.
        """
        if kind not in KINDS:
            raise InputError(f"kind = {kind!r}: must be one of {', '.join(KINDS)}")
        if trace and len(texts) != 1:
            raise InputError(f"trace: covers one text, but got {len(texts)}; make a call for each")
        Trace(trace, edit=edit)  # raises an error if they are wrong
        self.check_sizes([*texts, *(targets or ())])
        questions = Questions(kind, list(texts), targets, options, trace, edit or {})
        return self._accept(Ticket(questions, on_event, deadline))

    def answer(self, job: Job) -> Finished:
        """Submit a job and wait for its result."""
        events: list[Event] = []
        done = Flag()

        def receive(event: Event) -> None:
            events.append(event)
            if isinstance(event, Finished | Failed):
                done.set()

        self.submit(job, receive)
        done.wait()
        if isinstance(events[-1], Failed):
            raise events[-1].error
        assert isinstance(events[-1], Finished)
        return events[-1]

    def stats(self) -> dict[str, float]:
        """Counts since the start, and what the engine is doing now: waiting and running requests,
        rows in the batch, and tokens for which caches are reserved."""
        with self._changed:
            return self._scheduler.stats() | {"waiting": len(self._waiting)}

    def close(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Accept no more requests, finish those that were accepted, and end the thread. Returns
        whether it ended within `timeout` seconds. drain: if false, cancel what was accepted."""
        with self._changed:
            self._closing = True
            if not drain:
                for ticket in [*self._waiting, *self._scheduler.tickets]:
                    ticket.cancel()
            self._changed.notify_all()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def full(self) -> bool:
        """Whether the queue has reached its limit, so that new requests are refused."""
        return len(self._waiting) >= self.limits.queue

    def check_room(self) -> None:
        """Raise QueueFull or EngineClosed if a request would be refused now. `submit` and `run` do
        so too, but after they have tokenized the texts, which takes longer."""
        with self._changed:
            if self._closing:
                raise EngineClosed("the engine is closing and accepts no more requests")
            if self.full:
                self._scheduler.counts["refused"] += 1
                raise QueueFull(len(self._waiting), self._seconds_per_request())

    def check_sizes(self, texts: Sequence[Any]) -> None:
        """Raise InputError for texts that would take very long: unlike those to generate, they are
        read as a whole, and the time grows with the square of their length."""
        most, total = self.limits.text_tokens, self.limits.cache_tokens
        strings = [text for text in texts if isinstance(text, str)]
        sizes = [len(text.encode()) for text in strings]  # a token has at least one byte
        if max(sizes, default=0) > most or sum(sizes) > total:
            tokenizers = self.model.tokenizers.values()
            sizes = [
                max((len(one.encode(text)) for one in tokenizers), default=0) for text in strings
            ]
        if max(sizes, default=0) > most:
            raise InputError(
                f"a text has {max(sizes):,} tokens, above the limit of {most:,}; send shorter texts"
            )
        if sum(sizes) > total:
            raise InputError(
                f"the texts have {sum(sizes):,} tokens, above the limit of {total:,}; send fewer"
            )

    def _accept(self, ticket: Ticket) -> Ticket:
        ticket.on_end = self._scheduler.ended
        with self._changed:
            self.check_room()
            self._scheduler.counts["accepted"] += 1
            self._waiting.append(ticket)
            self._changed.notify_all()
        return ticket

    def _seconds_per_request(self) -> float:
        """The mean time between the ends of recent requests, but at least a second."""
        ends = [*self._scheduler.ends]
        if len(ends) < 2:
            return 1.0
        return max(1.0, (time.monotonic() - ends[0]) / len(ends))

    def _work(self) -> None:
        """The engine's thread."""
        scheduler = self._scheduler
        torch.set_num_threads(self.threads)
        with scheduler.ready():
            while True:
                taken: list[Ticket] | None = None
                try:
                    with self._changed:
                        if not (self._waiting or scheduler.busy):
                            self._changed.wait_for(lambda: self._waiting or self._closing)
                            if not self._waiting:
                                return
                        taken = scheduler.take(self._waiting)
                    scheduler.turn(taken)
                except Exception as error:  # the thread must go on
                    if taken is None:  # a waiting request may be at fault, and would be again
                        with self._changed:
                            taken = [*self._waiting]
                            self._waiting.clear()
                    scheduler.fail(taken, error)
