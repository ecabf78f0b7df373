"""The models that a server offers, by name, each with its engine."""

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from starlette.concurrency import run_in_threadpool

from translucid.core.errors import TranslucidError
from translucid.data.tokenizers.chat_template import ChatTemplate
from translucid.model import Model
from translucid.serving.bodies import ApiError, not_finite
from translucid.serving.engine import Engine
from translucid.serving.job import (
    Answered,
    Event,
    Failed,
    Finished,
    Job,
    Piece,
    PromptRead,
    QueueFull,
)  # fmt: skip
from translucid.serving.request import Request
from translucid.serving.ticket import Ticket
from translucid.serving.tracing import points_of

R = TypeVar("R")
SUBMITTING = 10.0  # seconds for tokenizing and checking a request
RETRY = 0.1  # seconds
SHORT = 1000  # characters or tokens
TEXT_FIELDS = ("prompt", "messages", "text", "input", "inputs", "q")
AT_ONCE = 64  # texts of one request that the engine has at the same time
REPORTED = 512 * 2**20  # bytes of log-probabilities that a model's unfinished answers may need
TOKEN_BYTES, CANDIDATE_BYTES, JSON_BYTES = 1000, 12, 40  # JSON_BYTES: of a candidate


@dataclass(frozen=True)
class Served:
    """One model of the server."""

    name: str
    model: Model
    engine: Engine
    languages: tuple[str, str] | None = None  # codes of source and target, if known
    template: ChatTemplate | None = None
    created: int = field(default_factory=lambda: int(time.time()))
    _reported: "Reported" = field(default_factory=lambda: Reported())
    _points: list[str] = field(default_factory=list)  # found by the first request that needs them
    _mailboxes: "WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox]" = field(
        default_factory=WeakKeyDictionary
    )

    @property
    def task(self) -> str:
        return str(self.model.task.name)

    def points(self, text: Any) -> list[str]:
        """The names of the model's trace points. text: any input of the model."""
        if not self._points:
            self.engine.check_sizes([text])
            self._points[:] = points_of(self.engine.model, text)
        return self._points

    async def in_thread(self, act: Callable[[], R]) -> R:
        """Compute something small beside the engine."""
        return await run_in_threadpool(act)

    async def events(
        self,
        jobs: Sequence[Job],
        prompt_tokens: dict[int, int] | None = None,
        *,
        at_once: bool = True,
    ) -> AsyncIterator[tuple[int, Event]]:
        """Submit jobs, and yield their events, each with the index of its job. Closing the iterator
        cancels what is left. prompt_tokens: receives the number of tokens of each prompt. at_once:
        yield each piece of a text when it comes; else, those of a job together, when it has ended.

        Jobs wait here, not in the engine, while others of the same request are computed. So only
        the first one can be refused because too many requests wait."""
        mailbox = self._mailbox()
        queue: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        tickets: dict[int, Ticket] = {}
        client, over = object(), False

        def submit(number: int) -> None:
            early: list[Event] = []

            def receive(event: Event) -> None:
                early.append(event)
                if at_once or isinstance(event, Finished | Failed):
                    for one in early:
                        mailbox.put(queue.put_nowait, (number, one))
                    early.clear()

            tickets[number] = ticket = self.engine.submit(jobs[number], receive, client)
            if prompt_tokens is not None and isinstance(ticket.work, Request):
                prompt_tokens[number] = ticket.work.prompt_tokens
            if over:  # the client left while the text was tokenized
                tickets[number].cancel()

        submitted = finished = 0
        need = self._reported.take(jobs, CANDIDATE_BYTES if at_once else JSON_BYTES)
        try:
            while finished < len(jobs):
                while submitted < len(jobs) and submitted - finished < AT_ONCE:
                    try:
                        self.engine.check_room()
                        if is_short(jobs[submitted]):
                            submit(submitted)
                        else:
                            await in_time(submit, submitted)
                    except QueueFull:
                        if not submitted:
                            raise
                        if submitted > finished:
                            break  # and try again when the next one has finished
                        await asyncio.sleep(RETRY)
                    else:
                        submitted += 1
                number, event = await queue.get()
                if isinstance(event, Failed):
                    raise event.error
                check_finite(event)
                if isinstance(event, Finished):
                    finished += 1
                    del tickets[number]
                yield number, event
        finally:
            over = True
            self._reported.bytes -= need
            for ticket in list(tickets.values()):
                ticket.cancel()

    async def results(self, kind: str, texts: Sequence[Any], **options: Any) -> Answered:
        """The answer of `Engine.run`."""
        mailbox = self._mailbox()
        done: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

        def receive(event: Event) -> None:
            mailbox.put(_set, done, event)

        tickets: list[Ticket] = []

        def submit() -> None:
            tickets.append(self.engine.run(kind, texts, receive, **options))
            if done.done():  # the client left meanwhile
                tickets[0].cancel()

        self.engine.check_room()
        try:
            await in_time(submit)
            event = await done
        finally:
            done.cancel()
            for ticket in tickets:
                ticket.cancel()
        if isinstance(event, Failed):
            raise event.error
        assert isinstance(event, Answered)
        return event

    def _mailbox(self) -> "Mailbox":
        loop = asyncio.get_running_loop()
        return self._mailboxes.setdefault(loop, Mailbox(loop))


class Reported:
    """The memory that unfinished answers may need for the log-probabilities of their tokens. A
    stream needs it too if its client reads slowly."""

    def __init__(self) -> None:
        self.bytes = 0

    def take(self, jobs: Sequence[Job], candidate: int) -> int:
        """Reserve the bytes that the answers to these jobs may need; return them. candidate: bytes
        of each of the most probable tokens that are reported."""
        need = sum(
            (TOKEN_BYTES + candidate * job.top_logprobs)
            * (job.n * job.generation["max_length"] + job.echo * _tokens(job.prompt))
            for job in jobs
            if job.pieces == "token" and job.sampling is not None
        )
        if need > REPORTED:
            raise ApiError(
                f"logprobs: the log-probabilities may need {need / 1e6:,.1f} MB, above the limit "
                f"of {REPORTED / 1e6:,.0f} MB; send fewer prompts, or use a smaller n, max_tokens "
                "or logprobs", param="logprobs",
            )  # fmt: skip
        if self.bytes + need > REPORTED:
            raise ApiError(
                f"the log-probabilities of other requests need {self.bytes / 1e6:,.0f} MB, and "
                f"these {need / 1e6:,.0f}, above the limit of {REPORTED / 1e6:,.0f} MB; try again "
                "later", 429, "logprobs", "queue_full", 1.0,
            )  # fmt: skip
        self.bytes += need
        return need


def _tokens(prompt: str | Sequence[int]) -> int:
    """The number of tokens of a prompt, before it is tokenized: most have four characters."""
    return len(prompt) // 4 if isinstance(prompt, str) else len(prompt)


def check_finite(event: Event) -> None:
    """Raise an ApiError if the model's output has overflowed: its text would have no meaning."""
    match event:
        case Piece() | PromptRead():
            log_probs = [one.log_prob for one in event.tokens if one.log_prob is not None]
        case Finished():
            log_probs = [one.log_probability for one in event.decoded.texts]
        case _:
            return
    if any(map(math.isnan, log_probs)):
        raise not_finite("a log-probability", math.nan)


class Mailbox:
    """Brings events from an engine's thread to the event loop. The loop is woken once for all
    events that come before it runs: each time costs the engine a turn of its thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False

    def put(self, act: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the event loop, in the order of the calls. For any thread."""
        self._waiting.append((act, arguments))
        if not self._woken and (loop := self._loop()) is not None:
            self._woken = True
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False  # first, so that what is put from now on wakes the loop again
        while self._waiting:
            act, arguments = self._waiting.popleft()
            act(*arguments)


def _set(done: "asyncio.Future[Event]", event: Event) -> None:
    if not done.done():  # cancelled
        done.set_result(event)


def is_short(job: Job) -> bool:
    """Whether reading and checking a job takes less time than waking another thread for it."""
    return len(job.prompt) <= SHORT and not (job.edit or job.forbid or job.force or job.stop)


async def in_time(submit: Callable[..., None], *arguments: Any) -> None:
    """Tokenize a request and submit it, in another thread."""
    began = False

    def run() -> None:
        nonlocal began
        began = True
        submit(*arguments)

    try:
        await asyncio.wait_for(run_in_threadpool(run), SUBMITTING)
    except TimeoutError:
        if not began:
            raise ApiError(
                "too many requests are being read; try again later", 429, retry_after=1
            ) from None
        raise ApiError(
            f"reading the text took more than {SUBMITTING:.0f} seconds; send a shorter text, or "
            "try again later",
            408,
        ) from None


class Models(Mapping[str, Served]):
    """The models by name."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._served = {one.name: one for one in served}

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Any:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def find(self, name: str | None, tasks: Collection[str], param: str = "model") -> Served:
        """The model with this name, for one of these tasks. Without a name, the only one that
        fits."""
        fitting = [one for one in self.values() if one.task in tasks]
        if name is not None:
            if name not in self:
                raise ApiError(
                    f"model {name[:200]!r} does not exist; the models are {_names(self)}",
                    404, param, "model_not_found",
                )  # fmt: skip
            one = self[name]
            if one not in fitting:
                raise ApiError(
                    f"model {name!r} is for task {one.task}, but this request needs "
                    f"{' or '.join(sorted(tasks))}" + f"; use {_names(fitting)}" * bool(fitting),
                    400, param, "wrong_task",
                )  # fmt: skip
            return one
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise ApiError(
                f"this server has no model for {' or '.join(sorted(tasks))}; its models are "
                f"{_names(self.values())}", 404, param, "model_not_found",
            )  # fmt: skip
        raise ApiError(f"several models fit; set {param} to one of {_names(fitting)}", 400, param)

    @property
    def most_requests(self) -> int:
        """Requests that the engines can hold: in their batches, and waiting."""
        limits = [one.engine.limits for one in self.values()]
        return sum(one.rows + one.queue for one in limits)

    def statistics(self) -> dict[str, dict[str, float]]:
        return {name: one.engine.stats() for name, one in self.items()}

    def close(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Close all engines; returns whether all ended in time."""
        until = None if timeout is None else time.monotonic() + timeout
        ended = True
        for one in self.values():
            left = None if until is None else max(0.0, until - time.monotonic())
            ended &= one.engine.close(drain=drain, timeout=left)
        return ended


def _names(models: Any) -> str:
    names = [one if isinstance(one, str) else f"{one.name} ({one.task})" for one in models]
    return ", ".join(names)


def field_of(error: TranslucidError, fields: Collection[str]) -> str | None:
    """The field of a request that an error message is about: messages begin with its name, or are
    about limits (`use a smaller n`), or about the text."""
    message = str(error)
    begin = message.replace("=", ":").partition(":")[0].strip()
    known = [*re.findall(r"\w+", message.partition("use a smaller ")[2]), *TEXT_FIELDS]
    return begin if begin in fields else next((one for one in known if one in fields), None)
