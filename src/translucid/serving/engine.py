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

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from threading import Event as Flag
from typing import Any

import torch

from translucid.core.errors import InputError, TranslucidError
from translucid.fast.attention_kernels import without_plans
from translucid.model.model import Model
from translucid.models.base import evaluating
from translucid.serving.batch import Batch
from translucid.serving.job import Answered, Event, Failed, Finished, Job
from translucid.serving.reading import Reading, ReadPrompts
from translucid.serving.request import Request
from translucid.serving.running import Running

OnEvent = Callable[[Event], None]
KINDS = ("classify", "tag", "predict", "embed", "score", "fill")
PATIENCE = 3  # steps for which few requests wait for others before they join many
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """How much an engine does at the same time."""

    rows: int = 64  # texts in the batch; a beam search has beam_size rows, n samples have n
    cache_tokens: int = 262_144  # tokens in the caches of all rows
    queue: int = 256  # requests that wait; more are refused
    prompt_chunk: int = 512  # tokens of prompts and sources that are read between two steps
    prompt_bytes: int = 256 * 2**20  # states after prompts that came before, for reuse


class QueueFull(TranslucidError):
    """Too many requests are waiting. seconds: an estimate of when there is room again."""

    def __init__(self, waiting: int, seconds: float) -> None:
        self.waiting, self.seconds = waiting, seconds
        super().__init__(
            f"{waiting:,} requests are waiting already; try again in {seconds:.0f} seconds"
        )


class EngineClosed(TranslucidError):
    """The engine is closing, so it accepts no more requests."""


class TooLate(TranslucidError):
    """The deadline of a request was over before it was answered."""


class Ticket:
    """A request that was accepted."""

    def __init__(
        self, work: "Request | _Questions", on_event: OnEvent, deadline: float | None
    ) -> None:
        self.work, self.on_event = work, on_event
        self.on_end: Callable[[Event], None] = lambda event: None  # of the engine
        self.submitted = time.monotonic()
        self.deadline = None if deadline is None else self.submitted + deadline
        self._cancelled, self._done = Flag(), Flag()

    def cancel(self) -> None:
        """End the request. Its rows are free after at most two steps; the last event contains what
        was generated so far, with the reason "cancelled"."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def late(self) -> bool:
        """Whether the deadline is over."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def done(self) -> bool:
        """Whether the last event was delivered."""
        return self._done.is_set()

    def send(self, event: Event) -> None:
        """Deliver an event. For the engine."""
        try:
            self.on_event(event)
        except Exception:  # the client's code; it must not stop the others
            log.exception("on_event raised an exception; the request is cancelled")
            self._cancelled.set()
        if isinstance(event, Finished | Answered | Failed):
            self._done.set()
            self.on_end(event)


@dataclass(frozen=True)
class _Questions:
    """Texts to classify, tag, embed or score together."""

    kind: str
    texts: Sequence[Any]
    targets: Sequence[str] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def alike(self) -> str:
        """Equal for questions that can be answered together."""
        return repr((self.kind, self.targets is None, sorted(self.options.items())))


COUNTS = (
    "accepted", "refused", "finished", "failed", "cancelled", "deadline", "prompt_tokens",
    "generated_tokens", "steps", "step_rows", "read_seconds", "step_seconds", "answer_seconds",
)  # fmt: skip


class Engine:
    """Answers requests with one model, many at the same time.

    The answers equal those of the library, whatever else is computed at the same time."""

    def __init__(self, model: Model, limits: Limits | None = None) -> None:
        """model: a model in evaluation mode, such as from `tl.load` or `model.optimized()`."""
        self.model, self.limits = model, limits or Limits()
        self._waiting: deque[Ticket] = deque()
        self._changed = Condition()
        self._closing = False
        # Of the engine's thread:
        self._admitted: deque[Running] = deque()  # prompts to be read next
        self._active: list[Running] = []  # all that were admitted and have not ended
        self._reading: Reading | None = None
        self._waited = 0  # steps for which admitted requests have waited for others
        self._batches: dict[int, Batch] = {}  # by number of beams
        self._prompts = ReadPrompts(self.limits.prompt_bytes)
        self._ends: deque[float] = deque(maxlen=64)  # when the last requests ended
        self._counts = dict.fromkeys(COUNTS, 0.0)
        self._thread = Thread(target=self._work, name="translucid engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job, on_event: OnEvent) -> Ticket:
        """Accept a job of text generation. Its events are PromptRead (with `echo`), Piece (with
        `sampling`), and last Finished or Failed.

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
        return self._accept(Ticket(request, on_event, job.deadline))

    def run(
        self,
        kind: str,
        texts: Sequence[Any],
        on_event: OnEvent,
        *,
        targets: Sequence[str] | None = None,
        deadline: float | None = None,
        **options: Any,
    ) -> Ticket:
        """Accept texts to `classify`, `tag`, `predict`, `embed`, `score` or `fill`. Its only event
        is Answered, with one result for each text, or Failed.

        Requests that wait are answered together. targets: for `score`, the translations. options:
        those of the model's method, such as k for `fill`.
        """
        if kind not in KINDS:
            raise InputError(f"kind = {kind!r}: must be one of {', '.join(KINDS)}")
        questions = _Questions(kind, list(texts), targets, options)
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
        active = [one.request for one in [*self._active] if not one.ticket.done]
        used = Room(self.limits, active)
        return {
            **self._counts,
            "reused_prompts": self._prompts.reused,
            "waiting": len(self._waiting),
            "running": len(active),
            "rows": used.rows,
            "cache_tokens": used.cache_tokens,
        }

    def close(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Accept no more requests, finish those that were accepted, and end the thread. Returns
        whether it ended within `timeout` seconds. drain: if false, cancel what was accepted."""
        with self._changed:
            self._closing = True
            if not drain:
                for ticket in [*self._waiting, *(one.ticket for one in [*self._active])]:
                    ticket.cancel()
            self._changed.notify_all()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _accept(self, ticket: Ticket) -> Ticket:
        ticket.on_end = self._ended
        with self._changed:
            if self._closing:
                raise EngineClosed("the engine is closing and accepts no more requests")
            if len(self._waiting) >= self.limits.queue:
                self._counts["refused"] += 1
                raise QueueFull(len(self._waiting), self._seconds_per_request())
            self._counts["accepted"] += 1
            self._waiting.append(ticket)
            self._changed.notify_all()
        return ticket

    def _seconds_per_request(self) -> float:
        """The mean time between the ends of recent requests, but at least a second."""
        ends = [*self._ends]
        if len(ends) < 2:
            return 1.0
        return max(1.0, (time.monotonic() - ends[0]) / len(ends))

    # ---- the engine's thread ----

    def _work(self) -> None:
        networks = self.model.text_generator.networks if self._generates else []
        with ExitStack() as held, torch.inference_mode():
            for network in networks:
                held.enter_context(evaluating(network))
                held.enter_context(without_plans(network.device))
            while self._turn():
                pass

    @property
    def _generates(self) -> bool:
        return self.model.task.name in ("translate", "language")

    def _turn(self) -> bool:
        """Admit requests, read prompts, and take a step of all texts. Returns False at the end."""
        with self._changed:
            if not self._active and not self._waiting:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return False
            taken = self._take()
        with self._timed("answer_seconds"):
            self._answer_all([ticket for ticket in taken if isinstance(ticket.work, _Questions)])
        self._admit([ticket for ticket in taken if isinstance(ticket.work, Request)])
        self._end_early()
        with self._timed("read_seconds"):
            self._read()
        with self._timed("step_seconds"):
            for batch in [*self._batches.values()]:
                with self._failing(batch.running) as failed:
                    self._counts["steps"] += 1
                    self._counts["step_rows"] += batch.round()
                if failed or not batch.sources:
                    del self._batches[batch.beams]
        self._active = [one for one in self._active if not one.ticket.done]
        return True

    def _take(self) -> list[Ticket]:
        """Remove requests from the queue: those that were cancelled, all questions, and as many
        others as the limits allow, in the order in which they came."""
        room = Room(self.limits, [one.request for one in self._active])
        taken: list[Ticket] = []
        left: deque[Ticket] = deque()
        for ticket in self._waiting:
            work = ticket.work
            if (
                isinstance(work, _Questions)
                or ticket.cancelled
                or ticket.late
                or (not left and room.take(work))
            ):
                taken.append(ticket)
            else:
                left.append(ticket)
        self._waiting = left
        return taken

    def _admit(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            assert isinstance(ticket.work, Request)
            running = Running(ticket, ticket.work)
            if running.ending is not None:
                running.stopped(running.ending)
            elif ticket.work.empty:
                running.nothing()
            else:
                self._active.append(running)
                self._admitted.append(running)

    def _end_early(self) -> None:
        """End the requests that were cancelled or whose deadline is over."""
        ending = [(one, reason) for one in self._active if (reason := one.ending) is not None]
        if not ending:
            return
        for batch in [*self._batches.values()]:
            for one, reason in ending:
                batch.end(one, reason)
            if not batch.sources:
                del self._batches[batch.beams]
        for one, reason in ending:
            if one in self._admitted:
                self._admitted.remove(one)
                one.stopped(reason)
        if self._reading is not None and all(one.ending for one in self._reading.running):
            for one in self._reading.running:
                one.stopped(one.ending or "cancelled")
            self._reading = None

    def _read(self) -> None:
        """Read prompts and sources, up to the limit for one turn."""
        if self._reading is None and self._admitted and self._worth_waiting():
            return
        left = self.limits.prompt_chunk
        while left > 0 and (self._reading is not None or self._admitted):
            group = self._next_group() if self._reading is None else self._reading.running
            with self._failing(group) as failed:
                if self._reading is None:
                    self._reading = Reading(self.model.text_generator.model, group, self._prompts)
                    left -= sum(len(one.request.source) for one in group)
                if self._reading.tokens:
                    before = self._reading.tokens
                    self._reading.read(max(left, 1))
                    left -= before - self._reading.tokens
                if not self._reading.tokens:
                    self._start(self._reading)
            if failed:
                self._reading = None

    def _worth_waiting(self) -> bool:
        """Whether requests wait for others: joining the batch copies its caches, so few do not join
        many at once, but after at most `PATIENCE` steps."""
        waiting = sum(one.request.rows for one in self._admitted)
        running = sum(batch.rows for batch in self._batches.values())
        if waiting * 8 >= running or self._waited >= PATIENCE:
            self._waited = 0
            return False
        self._waited += 1
        return True

    def _start(self, reading: Reading) -> None:
        """Let requests whose prompts have been read join the batch."""
        self._reading = None
        state = reading.finish()
        running = reading.running
        for one in running:
            one.prompt_is_read()
        if any(one.request.job.only_prompt for one in running):
            stay = [
                place
                for place, one in enumerate(
                    one for one in running for _ in range(one.request.sources)
                )
                if not one.request.job.only_prompt
            ]
            for one in running:
                if one.request.job.only_prompt:
                    one.nothing()
            running = [one for one in running if not one.request.job.only_prompt]
            if not running:
                return
            state.select(torch.tensor(stay))
        beams = running[0].request.beams
        if beams not in self._batches:
            self._batches[beams] = Batch(self.model.text_generator.model, beams)
        self._batches[beams].join(state, running)

    def _next_group(self) -> list[Running]:
        """Requests whose prompts are read together: with as many beams, and in total not more
        tokens than may be read in one turn, unless the first one alone has more."""
        first = self._admitted.popleft()
        group, longest = [first], first.request.read_tokens
        limited = self.model.text_generator.model.max_length is not None
        while self._admitted and first not in self._prompts:
            one = self._admitted[0]
            longest = max(longest, one.request.read_tokens)
            if (
                one.request.beams != first.request.beams
                or (limited and len(one.request.prefix) != len(first.request.prefix))
                or longest * (len(group) + 1) > self.limits.prompt_chunk
                or one in self._prompts
            ):
                break
            group.append(self._admitted.popleft())
        return group

    def _answer_all(self, tickets: Sequence[Ticket]) -> None:
        """Answer questions; those of the same kind together."""
        together: dict[str, list[Ticket]] = {}
        for ticket in tickets:
            assert isinstance(ticket.work, _Questions)
            together.setdefault(ticket.work.alike, []).append(ticket)
        for several in together.values():
            try:
                results = _answers(self.model, [ticket.work for ticket in several])
            except Exception:  # find out which one is to blame
                results = [None] * len(several)
            for ticket, answers in zip(several, results, strict=True):
                self._answer(ticket, answers)

    def _answer(self, ticket: Ticket, answers: Sequence[Any] | None) -> None:
        try:
            if ticket.late:
                raise TooLate("the deadline of the request is over")
            if answers is None:
                (answers,) = _answers(self.model, [ticket.work])
            event: Event = Answered(answers)
        except TranslucidError as error:
            event = Failed(error)
        except Exception as error:
            event = Failed(_internal(error))
        ticket.send(event)

    @contextmanager
    def _failing(self, running: Sequence[Running]) -> Iterator[list[TranslucidError]]:
        """If an exception is raised, it fails these requests, and the engine continues. Yields a
        list that then contains the error."""
        failed: list[TranslucidError] = []
        try:
            yield failed
        except TranslucidError as error:
            failed.append(error)
        except Exception as error:
            failed.append(_internal(error))
        for error in failed:
            for one in running:
                if not one.ticket.done:
                    one.ticket.send(Failed(error))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._counts[name] += time.monotonic() - started

    def _ended(self, event: Event) -> None:
        """Count the end of a request."""
        self._ends.append(time.monotonic())
        counts = self._counts
        if isinstance(event, Failed):
            counts["failed"] += 1
            return
        counts["finished"] += 1
        if isinstance(event, Finished):
            counts["prompt_tokens"] += event.prompt_tokens
            counts["generated_tokens"] += event.generated_tokens
            for name in {*event.reasons} & {"cancelled", "deadline"}:
                counts[name] += 1


class Room:
    """Rows and cache tokens of the requests that are admitted. All texts with as many beams share a
    cache that is as long as the longest needs."""

    def __init__(self, limits: Limits, admitted: Sequence[Request]) -> None:
        self.limits = limits
        self.sources: dict[int, int] = {}  # by number of beams
        self.longest: dict[int, int] = {}
        for request in admitted:
            self._add(request, self.sources, self.longest)

    def take(self, request: Request) -> bool:
        """Admit a request, if the limits allow it."""
        sources, longest = dict(self.sources), dict(self.longest)
        self._add(request, sources, longest)
        before = self.sources, self.longest
        self.sources, self.longest = sources, longest
        if self.rows <= self.limits.rows and self.cache_tokens <= self.limits.cache_tokens:
            return True
        self.sources, self.longest = before
        return False

    @property
    def rows(self) -> int:
        return sum(beams * count for beams, count in self.sources.items())

    @property
    def cache_tokens(self) -> int:
        return sum(beams * count * self.longest[beams] for beams, count in self.sources.items())

    def _add(self, request: Request, sources: dict[int, int], longest: dict[int, int]) -> None:
        beams = request.beams
        sources[beams] = sources.get(beams, 0) + request.sources
        longest[beams] = max(longest.get(beams, 0), request.length)


def _internal(error: Exception) -> TranslucidError:
    log.exception("a request failed")
    return TranslucidError(f"internal error: {type(error).__name__}: {error}")


def _answers(model: Model, several: Sequence[_Questions]) -> list[Sequence[Any]]:
    """The answers to the texts of several requests of the same kind, computed together."""
    kind, options = several[0].kind, several[0].options
    texts = [text for questions in several for text in questions.texts]
    if kind == "fill":
        results = [model.fill(text, **options) for text in texts]
    elif kind == "score":
        targets = [target for questions in several for target in questions.targets or ()]
        results = model.scores(texts, targets if several[0].targets is not None else None)
    else:
        results = [*getattr(model, kind)(texts, **options)]
    found = iter(results)
    return [[next(found) for _ in questions.texts] for questions in several]
