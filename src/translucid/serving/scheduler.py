"""The scheduler: the work of an engine's thread, turn by turn.

In each turn, it answers all questions that wait, admits requests as long as the limits allow it,
reads a limited number of prompt tokens, and takes one step of all texts.
"""

import time
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from translucid.core.errors import TranslucidError
from translucid.fast.attention_kernels import without_plans
from translucid.model.model import Model
from translucid.models.base import evaluating
from translucid.serving.admission import Admission, Room
from translucid.serving.batch import Batch
from translucid.serving.fixed_batch import FixedBatch
from translucid.serving.job import Answered, Event, Failed, Finished, TooLate
from translucid.serving.limits import Limits
from translucid.serving.reading import Reading, ReadPrompts
from translucid.serving.request import Request
from translucid.serving.running import Running
from translucid.serving.search_batch import SearchBatch
from translucid.serving.ticket import Questions, Ticket, internal
from translucid.serving.tracing import RequestedTrace, edited_model, trace_of_text

PATIENCE = 3  # steps for which few requests wait for others before they join many
COUNTS = (
    "accepted", "refused", "finished", "failed", "cancelled", "deadline", "prompt_tokens",
    "generated_tokens", "steps", "step_rows", "read_seconds", "step_seconds", "answer_seconds",
)  # fmt: skip


class Scheduler:
    """Everything that an engine's thread holds. Its methods are for this thread, except `stats`."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.counts = dict.fromkeys(COUNTS, 0.0)
        self.ends: deque[float] = deque(maxlen=64)  # when the last requests ended
        self._admitted: deque[Running] = deque()  # prompts to be read next
        self._admission, self._turns = Admission(limits), 0
        self._active: list[Running] = []  # all that were admitted and have not ended
        self._reading: Reading | None = None
        self._waited = 0  # steps for which admitted requests have waited for others
        self._batches: dict[Hashable, Batch | FixedBatch | SearchBatch] = {}  # by `_together`
        generates = model.task.name in ("translate", "language")
        self._searches = generates and SearchBatch.fits(model.text_generator)
        self._search: SearchBatch | None = None
        self._fixes = generates and FixedBatch.fits(model.text_generator.model)
        self._fixed: FixedBatch | None = None  # kept, with its graphs
        on_gpu = generates and model.text_generator.model.device.type == "cuda"
        self._chunk = limits.prompt_chunk or (8192 if on_gpu else 512)
        self._prompts = ReadPrompts(limits.prompt_bytes)

    @property
    def tickets(self) -> list[Ticket]:
        """The requests of text generation that were admitted and have not ended."""
        return [one.ticket for one in [*self._active] if not one.ticket.done]

    def stats(self) -> dict[str, float]:
        """The counts, and what is running now."""
        active = [one.request for one in [*self._active] if not one.ticket.done]
        used = Room(self.limits, active).used
        return {
            **self.counts,
            "reused_prompts": self._prompts.reused,
            "running": len(active),
            "rows": used.rows,
            "cache_tokens": used.cache_tokens,
        }

    @property
    def busy(self) -> bool:
        """Whether there is more to do for the requests that were taken."""
        return bool(self._active)

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Prepare the thread for turns."""
        generates = self.model.task.name in ("translate", "language")
        networks = self.model.text_generator.networks if generates else []
        with ExitStack() as held, torch.inference_mode():
            for network in networks:
                held.enter_context(evaluating(network))
                held.enter_context(without_plans(network.device))
            yield

    def turn(self, taken: Sequence[Ticket]) -> None:
        """Answer questions, admit requests, read prompts, and take a step of all texts."""
        self._turns += 1
        with self._timed("answer_seconds"):
            self._answer_all(taken)
        self._admit(taken)
        self._end_early()
        with self._timed("read_seconds"):
            self._read()
        with self._timed("step_seconds"):
            for key, batch in [*self._batches.items()]:
                with self._failing(batch.running) as failed:
                    self.counts["steps"] += 1
                    self.counts["step_rows"] += batch.round()
                if failed or not batch.sources:
                    del self._batches[key]
        self._active = [one for one in self._active if not one.ticket.done]

    def fail(self, taken: Sequence[Ticket], error: Exception) -> None:
        """Fail all requests that were taken, and forget them."""
        problem = internal(error)
        for ticket in {*taken, *self.tickets}:
            if not ticket.done:
                ticket.send(Failed(problem))
        for batch in (self._fixed, self._search):  # which later requests use, too
            if batch is not None:
                batch.forget(self._active)
        self._admitted.clear()
        self._active, self._reading = [], None
        self._batches.clear()

    def take(self, waiting: deque[Ticket]) -> list[Ticket]:
        """Remove requests from the queue: those that were cancelled, all questions, and as many
        others as the limits allow."""
        if not waiting:
            return []
        taken: list[Ticket] = []
        left: list[Ticket] = []
        for ticket in waiting:
            at_once = isinstance(ticket.work, Questions) or ticket.cancelled or ticket.late
            (taken if at_once else left).append(ticket)
        if left:
            active = [one.ticket for one in self._active]
            taken += self._admission.choose(left, active, self._turns)
        if taken:
            gone = {*taken}
            waiting.clear()
            waiting.extend(ticket for ticket in left if ticket not in gone)
        return taken

    def _admit(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            if not isinstance(ticket.work, Request):
                continue
            running = Running(ticket, ticket.work, self.limits.trace_values)
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
        for key, batch in [*self._batches.items()]:
            for one, reason in ending:
                batch.end(one, reason)
            if not batch.sources:
                del self._batches[key]
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
        left = self._chunk
        while left > 0 and (self._reading is not None or self._admitted):
            group = self._next_group() if self._reading is None else self._reading.running
            with self._failing(group) as failed:
                if self._reading is None and self._read_by_graph(group):
                    left -= sum(len(one.request.prefix) for one in group)
                    continue
                if self._reading is None:
                    self._reading = Reading(group, self._prompts)
                    left -= sum(len(one.request.source) for one in group)
                if self._reading.tokens:
                    before = self._reading.tokens
                    self._reading.read(max(left, 1))
                    left -= before - self._reading.tokens
                if not self._reading.tokens:
                    self._start(self._reading)
            if failed:
                self._reading = None

    def _read_by_graph(self, group: Sequence[Running]) -> bool:
        """Whether graphs read these prompts, so that their requests have joined the batch."""
        if self._kind(group[0].request) is Batch:  # so that none is made
            return False
        batch = self._batch(group[0].request)
        assert not isinstance(batch, Batch)
        if not batch.read(group):
            return False
        self._batches[self._together(group[0])] = batch
        return True

    def _worth_waiting(self) -> bool:
        """Whether requests wait for others: joining an ordinary batch copies its caches, and on a
        GPU, reading one prompt takes as long as reading several. So few do not join many at once,
        but after at most `PATIENCE` steps."""
        if self._kind(self._admitted[0].request) is SearchBatch:
            return False
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
        request, key = running[0].request, self._together(running[0])
        if key not in self._batches:
            self._batches[key] = self._batch(request)
        batch = self._batches[key]
        assert not isinstance(batch, SearchBatch)
        batch.join(state, running)

    def _together(self, one: Running) -> Hashable:
        """Equal for requests whose rows take their steps together."""
        kind = self._kind(one.request)
        return None if kind is SearchBatch else one.request.together, kind

    def _kind(self, request: Request) -> type[Batch | FixedBatch | SearchBatch]:
        """The kind of batch that answers a request."""
        if self._searches and request.searchable:
            return SearchBatch
        return FixedBatch if self._fixes and request.simple else Batch

    def _batch(self, request: Request) -> Batch | FixedBatch | SearchBatch:
        kind = self._kind(request)
        if kind is SearchBatch:
            if self._search is None:
                self._search = SearchBatch(request.generator)
            return self._search
        if kind is FixedBatch:
            if self._fixed is None:
                self._fixed = FixedBatch(request, self.limits.rows)
            return self._fixed
        return Batch(request.model, request.beams)

    def _next_group(self) -> list[Running]:
        """Requests whose prompts are read together: with as many beams and without edits, and in
        total not more tokens than may be read in one turn, unless the first alone has more."""
        first = self._admitted.popleft()
        group, most = [first], first.request.read_tokens
        limited = self.model.text_generator.model.max_length is not None
        while self._admitted and first not in self._prompts:
            one = self._admitted[0]
            most = max(most, one.request.read_tokens)
            if (
                self._together(one) != self._together(first)
                or (limited and len(one.request.prefix) != len(first.request.prefix))
                or most * (len(group) + 1) > self._chunk
                or one in self._prompts
            ):
                break
            group.append(self._admitted.popleft())
        return group

    def _answer_all(self, tickets: Sequence[Ticket]) -> None:
        """Answer questions; those of the same kind together."""
        together: dict[Hashable, list[tuple[Ticket, Questions]]] = {}
        for ticket in tickets:
            if isinstance(ticket.work, Questions):
                together.setdefault(ticket.work.alike, []).append((ticket, ticket.work))
        for several in together.values():
            results: Sequence[Sequence[Any] | None]
            try:
                results = _answers(self.model, [questions for _, questions in several])
            except Exception:  # find out which one is to blame
                results = [None] * len(several)
            for (ticket, questions), answers in zip(several, results, strict=True):
                self._answer(ticket, questions, answers)

    def _answer(self, ticket: Ticket, questions: Questions, answers: Sequence[Any] | None) -> None:
        try:
            if ticket.late:
                raise TooLate("the deadline of the request is over")
            if answers is None:
                (answers,) = _answers(self.model, [questions])
            event: Event = Answered(answers, self._trace(questions))
        except Exception as error:
            event = Failed(internal(error))
        ticket.send(event)

    def _trace(self, questions: Questions) -> RequestedTrace | None:
        if not questions.trace:
            return None
        trace = RequestedTrace(questions.trace, questions.edit, self.limits.trace_values)
        target = None if questions.targets is None else questions.targets[0]
        return trace_of_text(self.model, questions.texts[0], target, trace)

    @contextmanager
    def _failing(self, running: Sequence[Running]) -> Iterator[list[TranslucidError]]:
        """If an exception is raised, it fails these requests, and the engine continues. Yields a
        list that then contains the error."""
        failed: list[TranslucidError] = []
        try:
            yield failed
        except Exception as error:
            failed.append(internal(error))
        for problem in failed:
            for batch in (self._fixed, self._search):
                if batch is not None:
                    batch.forget(running)
            for one in running:
                if not one.ticket.done:
                    one.ticket.send(Failed(problem))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.counts[name] += time.monotonic() - started

    def ended(self, event: Event) -> None:
        """Count the end of a request."""
        self.ends.append(time.monotonic())
        counts = self.counts
        if isinstance(event, Failed):
            counts["failed"] += 1
            return
        counts["finished"] += 1
        if isinstance(event, Finished):
            counts["prompt_tokens"] += event.prompt_tokens
            counts["generated_tokens"] += event.generated_tokens
            for name in {*event.reasons} & {"cancelled", "deadline"}:
                counts[name] += 1


def _answers(model: Model, several: Sequence[Questions]) -> list[Sequence[Any]]:
    """The answers to the texts of several requests of the same kind, computed together. Those with
    an edit are computed one by one, since the edit would reach padding."""
    edit = several[0].edit
    if edit and len(several[0].texts) > 1:
        (questions,) = several
        return [[answer for one in questions.one_by_one() for answer in _answers(model, [one])[0]]]
    model = edited_model(model, edit) if edit else model
    kind, options = several[0].kind, several[0].options
    texts = [text for questions in several for text in questions.texts]
    results: list[Any]
    if kind == "fill":
        results = [model.fill(text, **options) for text in texts]
    elif kind == "score":
        targets = [target for questions in several for target in questions.targets or ()]
        results = model.scores(texts, targets if several[0].targets is not None else None)
    else:
        results = [*getattr(model, kind)(texts, **options)]
    answers = iter(results)
    return [[next(answers) for _ in questions.texts] for questions in several]
