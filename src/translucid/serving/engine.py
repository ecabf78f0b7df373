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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from threading import Event as Flag
from typing import Any

import torch

from translucid.core.errors import InputError, TranslucidError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.decode import draw
from translucid.generate.decoded import Decoded, shown
from translucid.generate.sampler import SampledText
from translucid.model.model import Model
from translucid.models.autoregressive import GenerationInputs
from translucid.parts.activations import as_log_probs
from translucid.serving.job import (
    Answered,
    Event,
    Failed,
    Finished,
    Job,
    Piece,
    PromptRead,
    Reason,
    TokenChoice,
)
from translucid.serving.request import Request

OnEvent = Callable[[Event], None]
KINDS = ("classify", "tag", "predict", "embed", "score", "fill")


@dataclass(frozen=True)
class Limits:
    """How much an engine does at the same time."""

    rows: int = 64  # texts in the batch; a beam search has beam_size rows, n samples have n
    cache_tokens: int = 262_144  # tokens in the caches of all rows
    queue: int = 256  # requests that wait; more are refused
    prompt_chunk: int = 512  # tokens of prompts and sources that are read between two steps


class QueueFull(TranslucidError):
    """Too many requests are waiting. seconds: an estimate of when there is room again."""

    def __init__(self, waiting: int, seconds: float) -> None:
        self.waiting, self.seconds = waiting, seconds
        super().__init__(
            f"{waiting:,} requests are waiting already; try again in {seconds:.0f} seconds"
        )


class Ticket:
    """A request that was accepted."""

    def __init__(self, work: "Request | _Questions", on_event: OnEvent, deadline: float | None):
        self.work, self.on_event = work, on_event
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
            self._cancelled.set()
        if isinstance(event, Finished | Answered | Failed):
            self._done.set()


@dataclass(frozen=True)
class _Questions:
    """Texts to classify, tag, embed or score together."""

    kind: str
    texts: Sequence[Any]
    targets: Sequence[str] | None = None
    options: dict[str, Any] = field(default_factory=dict)


class Engine:
    """Answers requests with one model, many at the same time.

    The answers equal those of the library, whatever else is computed at the same time."""

    def __init__(self, model: Model, limits: Limits | None = None) -> None:
        """model: a model in evaluation mode, such as from `tl.load` or `model.optimized()`."""
        self.model, self.limits = model, limits or Limits()
        self._waiting: deque[Ticket] = deque()
        self._changed = Condition()
        self._closing = False
        self._counts = {"accepted": 0, "refused": 0, "finished": 0, "failed": 0, "cancelled": 0}
        self._tokens = {"prompt_tokens": 0, "generated_tokens": 0}
        self._busy = 0.0
        self._thread = Thread(target=self._work, name="translucid engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job, on_event: OnEvent) -> Ticket:
        """Accept a job of text generation. Its events are PromptRead (with `echo`), Piece (with
        `sampling`), and last Finished or Failed.

        Raises InputError if the model cannot do it, and QueueFull if too many requests wait."""
        return self._accept(Ticket(Request(job, self.model.text_generator), on_event, job.deadline))

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
        """Counts since the start (accepted, refused, finished, failed, cancelled, prompt_tokens,
        generated_tokens, busy_seconds), and the current state (waiting, rows)."""
        with self._changed:
            return {
                **self._counts, **self._tokens, "busy_seconds": self._busy,
                "waiting": len(self._waiting), "rows": 0,
            }  # fmt: skip

    def close(self, *, drain: bool = True, timeout: float | None = None) -> bool:
        """Accept no more requests, finish those that were accepted, and end the thread. Returns
        whether it ended within `timeout` seconds. drain: if false, cancel what was accepted."""
        with self._changed:
            self._closing = True
            if not drain:
                for ticket in self._waiting:
                    ticket.cancel()
            self._changed.notify_all()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _accept(self, ticket: Ticket) -> Ticket:
        with self._changed:
            if self._closing:
                raise QueueFull(len(self._waiting), 5.0)
            if len(self._waiting) >= self.limits.queue:
                self._counts["refused"] += 1
                mean = self._busy / max(self._counts["finished"], 1)
                raise QueueFull(len(self._waiting), max(1.0, mean))
            self._counts["accepted"] += 1
            self._waiting.append(ticket)
            self._changed.notify_all()
        return ticket

    # ---- the engine's thread ----

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                ticket = self._waiting.popleft()
            started = time.monotonic()
            try:
                if isinstance(ticket.work, Request):
                    _generate(ticket, ticket.work)
                else:
                    ticket.send(Answered(_answers(self.model, ticket.work)))
                self._counts["cancelled" if ticket.cancelled else "finished"] += 1
            except TranslucidError as error:
                ticket.send(Failed(error))
                self._counts["failed"] += 1
            self._busy += time.monotonic() - started


def _generate(ticket: Ticket, request: Request) -> None:
    """Answer a job of text generation, alone."""
    job, generator, tokenizer = request.job, request.generator, request.tokenizer
    read = len(request.prefix) + len(request.source)
    prompt = job.prompt if isinstance(job.prompt, str) else tokenizer.decode(request.prefix)
    if job.echo:
        ticket.send(PromptRead(_prompt_read(request)))
    if job.only_prompt or request.empty:
        ticket.send(Finished(Decoded(prompt, []), [], read, 0))
        return
    if job.sampling is None:
        (decoded,) = generator.decode(
            [prompt], prefix=job.prefix, forbid=job.forbid, force=job.force, tree=job.tree,
            **dict(job.generation), **({"n_best": job.n} if job.n > 1 else {}),
        )  # fmt: skip
        reasons: list[Reason] = ["stop" if one.finished else "length" for one in decoded.texts]
        count = sum(len(one.token_log_probs) for one in decoded.texts)
        ticket.send(Finished(decoded, reasons, read, count))
        return
    texts = [SampledText(tokenizer, request.prefix, job.stop) for _ in range(job.n)]
    for text in texts:
        text.stream.begin()
    inputs = request.inputs
    if inputs is not None and inputs.source is not None:
        inputs = GenerationInputs.of(inputs.source.expand(job.n, -1))
    ended: Reason | None = None
    for step in draw(
        generator.model, [request.prefix] * job.n, inputs, job.sampling,
        request.numbers(), eos=tokenizer.eos_id, least=[request.least] * job.n,
        most=[request.most] * job.n, ends=tokenizer.special.ends, extra=request.constraints,
        forced_end_ids=request.config.forced_end_ids,
        stop=lambda row, token: texts[row].finished,
    ):  # fmt: skip
        for place, (row, token) in enumerate(zip(step.rows, step.tokens, strict=True)):
            log_prob = step.token_log_probs[place]
            piece = texts[row].add(token, log_prob)
            top = top_tokens(tokenizer, step.log_probs[place], job.top_logprobs)
            choice = TokenChoice(token, shown(tokenizer, token), log_prob, top)
            ticket.send(Piece(row, piece, choice))
        if ticket.cancelled or ticket.late:
            ended = "cancelled" if ticket.cancelled else "deadline"
            break
    for number, text in enumerate(texts):
        if rest := text.stream.end():
            ticket.send(Piece(number, rest, None))
    candidates = [text.candidate(request.config.alpha) for text in texts]
    reasons = ["stop" if text.finished else ended or "length" for text in texts]
    count = sum(len(text.token_log_probs) for text in texts)
    ticket.send(Finished(Decoded(prompt, candidates), reasons, read, count))


@torch.inference_mode()
def _prompt_read(request: Request) -> list[TokenChoice]:
    """The tokens of a prompt with their log-probabilities."""
    tokenizer, ids = request.tokenizer, request.prefix
    start = request.special
    log_probs = as_log_probs(request.generator.network(torch.tensor([ids]))[0])
    choices = []
    for place in range(start, len(ids)):
        if place == 0:
            choices.append(TokenChoice(ids[0], shown(tokenizer, ids[0]), None))
            continue
        before = log_probs[place - 1]
        top = top_tokens(tokenizer, before, request.job.top_logprobs)
        log_prob = float(before[ids[place]])
        choices.append(TokenChoice(ids[place], shown(tokenizer, ids[place]), log_prob, top))
    return choices


def top_tokens(
    tokenizer: Tokenizer, log_probs: torch.Tensor, count: int
) -> list[tuple[int, str, float]]:
    """The most probable tokens: id, text and log-probability. log_probs: (vocab,)"""
    if not count:
        return []
    best, ids = log_probs.topk(min(count, len(log_probs)))
    return [
        (token, shown(tokenizer, token), value)
        for token, value in zip(ids.tolist(), best.tolist(), strict=True)
        if value > -torch.inf
    ]


def _answers(model: Model, questions: _Questions) -> Sequence[Any]:
    """The answers to all texts, in their order."""
    texts, options = questions.texts, questions.options
    if questions.kind == "fill":
        return [model.fill(text, **options) for text in texts]
    if questions.kind == "score":
        return list(model.scores(texts, questions.targets, **options))
    return list(getattr(model, questions.kind)(texts, **options))
