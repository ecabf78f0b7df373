"""Reading prompts and sources, before their texts are generated."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from translucid.data.batching import pad
from translucid.generate.decode import as_rows
from translucid.models.autoregressive import GenerationInputs
from translucid.parts.cache import DecoderState
from translucid.serving.request import Request
from translucid.serving.running import Running

WORTH = 16  # tokens; shorter prompts are not kept
REMEMBERED = 4096  # prompts that came once


class Reading:
    """Prompts that are read together, with their sources, in chunks of limited size."""

    def __init__(self, running: Sequence[Running], prompts: "ReadPrompts") -> None:
        """Encode the sources. running: requests that may take their steps together."""
        self.running, self.prompts = running, prompts
        requests = [one.request for one in running]
        self.model = model = requests[0].model
        self.prefix = as_rows([request.prefix for request in requests], model.device)
        self.done = 0  # columns of the prefixes that have been read
        steps = max(request.most for request in requests)
        self.state: Any
        known = prompts.get(running[0]) if len(running) == 1 else None
        if known is not None:
            self.state = known
            self.state.reserve(steps)
            self.done = self.prefix.shape[1] - 1
            return
        self.state = model.start(sources_of(requests), self.prefix.shape[1] + steps)

    @property
    def tokens(self) -> int:
        """The number of tokens that are not read yet, with padding."""
        return self.prefix.shape[0] * (self.prefix.shape[1] - 1 - self.done)

    def read(self, count: int) -> None:
        """Read the next columns, `count` tokens at most, but at least one column. A prompt with an
        edit is read at once, since the edit may reach all of its tokens."""
        edited = self.running[0].request.job.edit
        columns = self.prefix.shape[1] if edited else max(1, count // self.prefix.shape[0])
        end = min(self.done + columns, self.prefix.shape[1] - 1)
        chunk = self.prefix[:, self.done : end]
        mask = chunk >= 0
        logits = self.model.step(chunk.clamp(min=0), self.state, None if bool(mask.all()) else mask)
        for row, one in enumerate(self.running):
            if one.request.job.echo:
                first = self.prefix.shape[1] - len(one.request.prefix)
                one.hear(logits[row], self.done + 1 - first)
        self.done = end

    def finish(self) -> Any:
        """The state after all prompts but their last tokens, with one source for each row of each
        search or sample."""
        self.prompts.offer(self.running, self.state)
        rows = [row for row, one in enumerate(self.running) for _ in range(one.request.sources)]
        if len(rows) > len(self.running):
            self.state.select(torch.tensor(rows, device=self.prefix.device))
        self.state.expand(self.running[0].request.beams)
        return self.state


def sources_of(requests: Sequence[Request]) -> GenerationInputs:
    """The sources of several requests for one model, padded."""
    if requests[0].inputs is None:
        return GenerationInputs(len(requests))
    device = requests[0].model.device
    source, mask = pad([request.source for request in requests], requests[0].source_pad)
    full = bool(mask.all())
    return GenerationInputs.of(source.to(device), None if full else mask.to(device))


class ReadPrompts:
    """States after prompts that came at least twice, up to a number of bytes. The least recently
    used are dropped first."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes, self.reused = most_bytes, 0, 0
        self._states: OrderedDict[Hashable, DecoderState] = OrderedDict()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()  # prompts that came once

    def __contains__(self, one: Running) -> bool:
        return self._key(one) in self._states

    def get(self, one: Running) -> DecoderState | None:
        """A copy of the state after this prompt, if there is one."""
        key = self._key(one)
        if key not in self._states or one.request.job.echo or one.request.job.edit:
            return None
        self._states.move_to_end(key)
        self.reused += 1
        return self._states[key].copy()

    def offer(self, running: Sequence[Running], state: Any) -> None:
        """Keep the states after prompts that came before."""
        if not isinstance(state, DecoderState):
            return  # of an ensemble
        for row, one in enumerate(running):
            if one.request.job.edit:
                continue
            key = self._key(one)
            if key in self._states or len(one.request.prefix) + len(one.request.source) < WORTH:
                continue
            if key not in self._seen:
                self._seen[key] = None
                if len(self._seen) > REMEMBERED:
                    self._seen.popitem(last=False)
                continue
            twin = state.copy()
            twin.select(torch.tensor([row]))
            twin.compact()
            twin.reserve(0)
            self._states[key] = twin
            self.bytes += twin.bytes
            while self.bytes > self.most_bytes:
                _, dropped = self._states.popitem(last=False)
                self.bytes -= dropped.bytes

    def _key(self, one: Running) -> Hashable:
        return tuple(one.request.source), tuple(one.request.prefix)
