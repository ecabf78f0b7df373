"""Searches on a GPU: CUDA graphs run the rounds of several requests at a time.

Requests that come meanwhile wait for the next search. A text is sent when it is done, not when the
others are. The plain counterpart is `serving.batch`.
"""

from collections.abc import Hashable, Sequence

import torch

from translucid.generate.decode import CapturedSearch
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.serving.job import Reason
from translucid.serving.reading import sources_of
from translucid.serving.request import Request
from translucid.serving.running import Running
from translucid.tasks.generator import Generator
from translucid.tasks.next_tokens import search_ids


class SearchBatch:
    """It has the methods of `Batch` that the scheduler uses."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.waiting: dict[Running, Hashable] = {}  # with their settings
        self.current: dict[int, Running] = {}  # by place in the search; without those that are done
        self.search: CapturedSearch | None = None

    @staticmethod
    def fits(generator: Generator) -> bool:
        """Whether texts of this model can be found so; then those of every request that is
        `searchable` can."""
        return generator.graphs.fits(generator.model)

    @property
    def sources(self) -> list[Running]:
        """The requests that wait or are being answered."""
        return [*self.current.values(), *self.waiting]

    running = sources

    @property
    def rows(self) -> int:
        return sum(one.request.rows for one in self.current.values())

    def read(self, running: Sequence[Running]) -> bool:
        """Add requests to the next search."""
        self.waiting |= {one: _kind(one.request) for one in running}
        return True

    def round(self) -> int:
        """Run a few rounds, and send the texts that are done; return the number of rows."""
        if self.search is None:
            self._begin()
        assert self.search is not None
        count, done = self.rows, self.search.advance()
        if any(done[place] for place in self.current):
            found = self.search.found()
            for place, one in [*self.current.items()]:
                if done[place]:
                    del self.current[place]
                    one.finish_search(found[place])
        self._forget_if_over()
        return count

    def end(self, running: Running, reason: Reason) -> None:
        """Remove a request, and send what was generated so far."""
        if running in self.waiting:
            del self.waiting[running]
            running.stopped(reason)
        for place, one in [*self.current.items()]:
            if one is running and self.search is not None:
                del self.current[place]
                one.finish_search(self.search.found()[place], reason)
        self._forget_if_over()

    def forget(self, running: Sequence[Running]) -> None:
        """Remove requests that have failed."""
        self.waiting = {one: kind for one, kind in self.waiting.items() if one not in running}
        self.current = {place: one for place, one in self.current.items() if one not in running}
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if not self.current:
            self.search = None

    def _begin(self) -> None:
        """Begin a search for those that wait and have the settings of the first."""
        first = next(iter(self.waiting.values()))
        chosen = [one for one, kind in self.waiting.items() if kind == first]
        for one in chosen:
            del self.waiting[one]
        self.current = dict(enumerate(chosen))
        requests, model = [one.request for one in chosen], self.generator.network
        least, most = (
            torch.tensor(part, device=model.device)
            for part in zip(*((one.least, one.most) for one in requests), strict=True)
        )
        assert isinstance(model, DecoderModel | EncoderDecoderModel)
        self.generator.graphs.look_at(model)
        self.search = CapturedSearch(
            self.generator.graphs, model, [one.prefix for one in requests], sources_of(requests),
            (least, most), requests[0].config, few_shapes=True,
            **search_ids(self.generator.tokenizer, model),
        )  # fmt: skip


def _kind(request: Request) -> Hashable:
    """Equal for requests that one search can answer."""
    config = request.config.with_options(max_length=None, min_length=0)  # each has its own limits
    limited = request.model.max_length is not None
    return config, len(request.prefix) if limited else 0
