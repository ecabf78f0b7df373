"""The running batch of sampled texts on a GPU: CUDA graphs take its steps.

A round is a few steps. While the GPU takes them, the CPU handles the tokens of the round before. So
a text that ended is noticed one round later. The plain counterpart is `serving.batch`.

A round of 64 rows takes about 3 milliseconds, in which one process also does the server's work. So
tokens are only collected until there is something to send.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from translucid.core.device import on_device
from translucid.fast.fixed_rows import FixedRows, power_of_two
from translucid.generate.row_draw import KINDS, Kind, RowDraw
from translucid.generate.sampling import SamplingConfig
from translucid.models.base import DecoderModel
from translucid.serving.job import Reason
from translucid.serving.request import Request
from translucid.serving.running import Running
from translucid.tasks.next_tokens import never_generated

LEAST_SLOTS = 256
STEPS = 4  # of a round
SHORT = 128  # tokens; graphs read prompts up to this length
PAUSE = 0.02  # seconds between two pieces of a streamed text


@dataclass(eq=False)
class Owner:
    """The text that has a row."""

    running: Running
    sample: int
    left: int  # tokens that it may still get
    kind: Kind  # how its tokens are drawn
    ended: bool = False
    # Collected, but not sent yet.
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    received: int = 0  # tokens
    due: float = 0.0  # when they are sent, unless the text ends before

    def __post_init__(self) -> None:
        job = self.running.request.job
        self.pause = PAUSE if job.pieces == "tokens" and not job.stop else 0.0
        if job.pieces == "text" and not job.stop:
            self.due = math.inf

    def receive(self, tokens: list[int], log_probs: list[float], now: float, *, end: bool) -> None:
        """Collect the tokens of a round, and send what is due. end: whether they contain an end
        token."""
        self.tokens += tokens
        self.log_probs += log_probs
        self.received += len(tokens)
        if end or now >= self.due or self.received >= self.running.request.most:
            self.send(now)

    def send(self, now: float) -> None:
        """Append what was collected to the text."""
        self.due = now + self.pause
        self.ended = self.running.extend(self.sample, self.tokens, self.log_probs)
        self.tokens, self.log_probs = [], []


@dataclass(frozen=True)
class Written:
    """The tokens and log-probabilities of a round, on their way to the CPU."""

    owners: dict[int, Owner]
    values: Tensor  # (steps, 2, rows)
    arrived: "torch.cuda.Event | None" = None


class FixedBatch:
    """Rows for texts that are sampled. It has the methods of `Batch` that the scheduler uses."""

    def __init__(self, request: Request, rows: int) -> None:
        """request: one of those that will join. rows: the number of rows."""
        generator, tokenizer = request.generator, request.tokenizer
        self.model = generator.network
        assert isinstance(self.model, DecoderModel)
        self.most_rows = rows
        self.fixed = FixedRows(self.model, rows, self._slots(1))
        self.draw = RowDraw(
            self.fixed.newest, generator.network.vocab, STEPS, eos=tokenizer.eos_id,
            ends=tokenizer.special.ends, never=never_generated(tokenizer, generator.network),
        )  # fmt: skip
        self.draw.reserve(self.fixed.slots)
        self.owners: dict[int, Owner] = {}  # by row; without those that have had all their steps
        self.written: Written | None = None  # by the newest round

    @staticmethod
    def fits(model: object) -> bool:
        """Whether texts of this model can have such rows; then those of every request that is
        `simple` can."""
        return FixedRows.fits(model)

    @property
    def sources(self) -> list[Owner]:
        """The texts in the batch."""
        before = () if self.written is None else self.written.owners.values()
        return [one for one in {*self.owners.values(), *before} if not one.ended]

    @property
    def rows(self) -> int:
        return len(self.sources)

    @property
    def running(self) -> list[Running]:
        """The requests in the batch."""
        return list({id(one.running): one.running for one in self.sources}.values())

    def read(self, running: Sequence[Running]) -> bool:
        """Read prompts and add their requests, if one graph can do it all."""
        requests = [one.request for one in running]
        most = max(len(request.prefix) for request in requests)
        if most > SHORT or any(request.job.echo for request in requests):
            return False
        for one in running:
            one.prompt_is_read()
        rows = self._take(running)
        prefixes = [one.request.prefix for one in running for _ in range(one.request.sources)]
        self.fixed.read(rows, prefixes)
        return True

    def join(self, state: Any, running: Sequence[Running]) -> None:
        """Add requests. state: has read their prefixes but the last tokens."""
        rows = self._take(running)
        newest = [one.request.prefix[-1] for one in running for _ in range(one.request.sources)]
        at, last = (on_device(torch.tensor(part), self.model.device) for part in (rows, newest))
        self.fixed.join(at, state, last)

    def round(self) -> int:
        """Take a few steps of all rows, and handle the tokens of the round before; return the
        number of rows."""
        before, count = self.written, len(self.owners)
        self.written = self._steps() if self.owners else None
        if before is not None:
            self._handle(before)
        return count

    def end(self, running: Running, reason: Reason) -> None:
        """Remove a request, and send what was generated so far."""
        for owner in self.sources:
            if owner.running is running:
                if owner.tokens:
                    owner.send(0.0)
                if not owner.ended:
                    owner.ended = True
                    running.end(owner.sample, reason)
        self._remove()

    def forget(self, running: Sequence[Running]) -> None:
        """Remove requests that have failed."""
        for owner in self.sources:
            owner.ended |= owner.running in running
        self._remove()

    def _take(self, running: Sequence[Running]) -> list[int]:
        """Give rows to the texts of requests."""
        settings = [_sampling(one) for one in running for _ in range(one.request.sources)]
        owners = [
            Owner(one, sample, one.request.most, RowDraw.kind([_sampling(one)]))
            for one in running for sample in range(one.request.sources)
        ]  # fmt: skip
        free = (row for row in range(self.most_rows) if row not in self.owners)
        rows = [next(free) for _ in owners]
        requests = [one.running.request for one in owners]
        self.fixed.grow(self._slots(max(request.length for request in requests)))
        self.draw.reserve(self.fixed.slots)
        uniforms = None
        if any(by.temperature for by in settings):
            numbers = [row for one in running for row in one.request.numbers()]
            uniforms = pad_sequence(numbers, batch_first=True)
        self.draw.join(
            rows,
            settings,
            [one.most if one.job.ignore_eos else one.least for one in requests],
            uniforms,
        )
        self.owners |= dict(zip(rows, owners, strict=True))
        return rows

    def _slots(self, tokens: int) -> int:
        """The number of slots for texts of this length. The last round of a text may take steps
        after its end; they stay in the last slot."""
        slots = power_of_two(tokens, LEAST_SLOTS)
        return min(slots, self.model.max_length or slots)

    def _steps(self) -> Written:
        rows = min(power_of_two(max(self.owners) + 1), self.most_rows)
        kinds = {one.kind for one in self.owners.values()}
        kind = next(one for one in KINDS if one in kinds)
        steps = 1 if all(one.left == 1 for one in self.owners.values()) else STEPS
        self.fixed.steps(
            rows, steps, kind, lambda logits, step: self.draw.round(logits, step, kind),
            [self.draw.taken],
        )  # fmt: skip
        owners = dict(self.owners)
        for row, one in owners.items():
            one.left -= steps
            if one.left <= 0:
                del self.owners[row]
        written = self.draw.written[:steps]
        if self.model.device.type != "cuda":
            return Written(owners, written.clone())
        arrived = torch.cuda.Event()
        values = torch.empty(written.shape, dtype=written.dtype, pin_memory=True)
        values.copy_(written, non_blocking=True)
        arrived.record()
        return Written(owners, values, arrived)

    def _handle(self, written: Written) -> None:
        """Append the tokens of a round to their texts, and send the events."""
        if written.arrived is not None:
            written.arrived.synchronize()
        # With NumPy: other threads run Python during each of torch's operations.
        tokens, log_probs = written.values.numpy().transpose(1, 2, 0)
        ends = (tokens == self.draw.eos).any(axis=1).tolist()
        tokens, log_probs = tokens.astype(int).tolist(), log_probs.tolist()
        now = time.monotonic()
        for row, owner in written.owners.items():
            if not owner.ended:
                owner.receive(tokens[row], log_probs[row], now, end=ends[row])
        self._remove()

    def _remove(self) -> None:
        """Free the rows of texts that have ended."""
        self.owners = {row: one for row, one in self.owners.items() if not one.ended}


def _sampling(running: Running) -> SamplingConfig:
    sampling = running.request.job.sampling
    assert sampling is not None
    return sampling
