"""The running batch of sampled texts on a GPU: CUDA graphs take its steps.

While the GPU takes a step, the CPU handles the tokens of the step before. So a text that ended is
noticed one step later, and its row takes one step for nothing. The plain counterpart is
`serving.batch`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from translucid.fast.fixed_rows import FixedRows
from translucid.generate.row_draw import RowDraw
from translucid.models.base import DecoderModel
from translucid.serving.job import Reason
from translucid.serving.request import Request
from translucid.serving.running import Running
from translucid.tasks.next_tokens import never_generated

LEAST_SLOTS = 256


class Owner(NamedTuple):
    """Which text has a row."""

    running: Running
    sample: int


class Written(NamedTuple):
    """The tokens of a step, on their way to the CPU."""

    owners: dict[int, Owner]
    tokens: Tensor
    log_probs: Tensor
    arrived: "torch.cuda.Event | None"


class FixedBatch:
    """Rows for texts that are sampled. It has the methods of `Batch` that the scheduler uses."""

    def __init__(self, request: Request, rows: int) -> None:
        """request: one of those that will join. rows: the number of rows."""
        generator, tokenizer = request.generator, request.tokenizer
        self.model = generator.network
        assert isinstance(self.model, DecoderModel)
        self.rows_held = rows
        self.fixed = FixedRows(self.model, rows, LEAST_SLOTS)
        self.draw = RowDraw(
            self.fixed.newest, generator.network.vocab, eos=tokenizer.eos_id,
            ends=tokenizer.special.ends, never=never_generated(tokenizer, generator.network),
        )  # fmt: skip
        self.draw.reserve(LEAST_SLOTS)
        self.owners: dict[int, Owner] = {}  # by row
        self.written: Written | None = None  # by the newest step

    @staticmethod
    def fits(model: object) -> bool:
        """Whether texts of this model can have such rows; then those of every request that is
        `simple` can."""
        return FixedRows.fits(model)

    @property
    def sources(self) -> list[Owner]:
        """The texts in the batch."""
        return list(self.owners.values())

    @property
    def rows(self) -> int:
        return len(self.owners)

    @property
    def running(self) -> list[Running]:
        """The requests in the batch."""
        return list({id(one.running): one.running for one in self.owners.values()}.values())

    def join(self, state: Any, running: Sequence[Running]) -> None:
        """Add requests. state: has read their prefixes but the last tokens."""
        owners = [Owner(one, sample) for one in running for sample in range(one.request.sources)]
        free = (row for row in range(self.rows_held) if row not in self.owners)
        rows = [next(free) for _ in owners]
        requests = [one.running.request for one in owners]
        self._reserve(max(request.length for request in requests))
        at = torch.tensor(rows, device=self.model.device)
        newest = torch.tensor([request.prefix[-1] for request in requests], device=at.device)
        self.fixed.join(at, state, newest)
        uniforms = [row for one in running for row in one.request.numbers()]
        self.draw.join(
            at,
            [sampling for one in requests if (sampling := one.job.sampling) is not None],
            [one.most if one.job.ignore_eos else one.least for one in requests],
            torch.nn.utils.rnn.pad_sequence(uniforms, batch_first=True),
        )
        self.owners |= dict(zip(rows, owners, strict=True))

    def round(self) -> int:
        """Take a step of all rows, and handle the tokens of the step before; return the number of
        rows."""
        count, before = len(self.owners), self.written
        self.written = self._step()
        if before is not None:
            self._handle(before)
        if not self.owners:
            self.written = None
        return count

    def end(self, running: Running, reason: Reason) -> None:
        """Remove a request, and send what was generated so far."""
        for row, (one, sample) in [*self.owners.items()]:
            if one is running:
                del self.owners[row]
                running.end(sample, reason)

    def _reserve(self, tokens: int) -> None:
        slots = LEAST_SLOTS
        while slots < tokens:
            slots *= 2
        if self.model.max_length is not None:
            slots = min(slots, self.model.max_length)
        self.fixed.grow(slots)
        self.draw.reserve(self.fixed.slots)

    def _step(self) -> Written:
        rows = 1
        while rows <= max(self.owners):
            rows *= 2
        rows = min(rows, self.rows_held)
        several = {one.running.request.job.sampling: None for one in self.owners.values()}
        kind = RowDraw.kind([by for by in several if by is not None])
        self.fixed.step(rows, kind, lambda logits: self.draw.round(logits, kind), [self.draw.taken])
        tokens, log_probs = self.fixed.newest[:rows, 0], self.draw.log_probs[:rows]
        if self.model.device.type != "cuda":
            return Written(dict(self.owners), tokens.clone(), log_probs.clone(), None)
        arrived = torch.cuda.Event()
        copies = [
            torch.empty(part.shape, dtype=part.dtype, pin_memory=True).copy_(
                part, non_blocking=True
            )
            for part in (tokens, log_probs)
        ]
        arrived.record()
        return Written(dict(self.owners), copies[0], copies[1], arrived)

    def _handle(self, written: Written) -> None:
        """Append the tokens of a step to their texts, and send the events."""
        if written.arrived is not None:
            written.arrived.synchronize()
        tokens, log_probs = written.tokens.tolist(), written.log_probs.tolist()
        for row, owner in written.owners.items():
            if self.owners.get(row) is not owner:
                continue  # the text has ended since
            running, sample = owner
            last = len(running.texts[sample].token_log_probs) + 1 >= running.request.most
            if running.add(sample, tokens[row], log_probs[row], None, last=last):
                del self.owners[row]
