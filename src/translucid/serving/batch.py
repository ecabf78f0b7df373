"""The running batch: rows of many requests that take their steps together."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from translucid.fast.stepper import stepper
from translucid.generate.beam_search import BeamSearch
from translucid.generate.decode import Draw, Model, as_rows
from translucid.generate.pooled_search import PooledSearch
from translucid.serving.job import Reason
from translucid.serving.request import Request
from translucid.serving.running import Running

COMPACT_EVERY = 16  # steps


class Cohort:
    """Requests with equal settings, whose rows share one search."""

    def __init__(self, request: Request) -> None:
        self.search: BeamSearch | PooledSearch | Draw = _search(request)
        self.of: dict[int, tuple[Running, int]] = {}  # by number: the request and its sample

    def join(self, running: Sequence[Running]) -> list[int]:
        """Add requests; return the numbers of their rows in the search."""
        search, samples = (
            self.search,
            [(one, sample) for one in running for sample in range(one.request.sources)],
        )
        requests = [one.request for one, _ in samples]
        prefix = as_rows([one.prefix for one in requests], requests[0].model.device)
        least = prefix.new_tensor([request.least for request in requests])
        most = prefix.new_tensor([request.most for request in requests])
        if isinstance(search, Draw):
            uniforms = [row for one in running for row in one.request.numbers()]
            numbers = search.join(prefix, least, most, pad_sequence(uniforms, batch_first=True))
        else:
            numbers = search.join(prefix, least, most)
        self.of |= dict(zip(numbers, samples, strict=True))
        return numbers

    def round(self, logits: Tensor) -> Tensor | None:
        """Generate one token per row, and send the events. Returns the parents of the beams."""
        if not isinstance(self.search, Draw):
            after = self.search.round(logits)
            for number, texts in after.done:
                self.of.pop(number)[0].finish_search(texts)
            return after.parents
        written, over = self.search.round(logits), []
        for row, number in enumerate(written.rows):
            running, sample = self.of[number]
            token, log_prob = written.tokens[row], written.token_log_probs[row]
            log_probs = written.log_probs[row]
            if running.add(sample, token, log_prob, log_probs):
                over.append(number)
                del self.of[number]
        if over:
            self.search.leave(over)
        return None

    def end(self, running: Running, reason: Reason) -> None:
        """Remove a request, and send what was generated so far."""
        numbers = [number for number, (one, _) in self.of.items() if one is running]
        if isinstance(self.search, Draw):
            self.search.leave(numbers)
            for number in numbers:
                running.end(self.of[number][1], reason)
        else:
            for _, texts in self.search.leave(numbers).done:
                running.finish_search(texts, reason)
        for number in numbers:
            del self.of[number]


def _search(request: Request) -> BeamSearch | PooledSearch | Draw:
    tokenizer, config, extra = request.tokenizer, request.config, request.constraints
    eos, ends, start = tokenizer.eos_id, tokenizer.special.ends, len(request.prefix)
    if request.job.sampling is not None:
        return Draw(
            request.job.sampling, eos=eos, ends=ends, extra=[*extra, *config.constraints(start)],
            forced_end_ids=config.forced_end_ids,
        )  # fmt: skip
    # These two are among the request's constraints, which take the start of the text into account.
    config = config.with_options(no_repeat_ngram=0, repetition_penalty=1.0)
    if config.beam_size > 1 and config.early_stopping is not None:
        return PooledSearch(config, ends=(eos, *ends), start=start, extra=extra)
    return BeamSearch(
        config, eos=eos, pad=tokenizer.pad_id, start=start, ends=ends, extra=extra,
        watch=request.watch,
    )  # fmt: skip


class Batch:
    """All rows with the same number of beams. They share one state of the model, and one call of
    the model takes a step of all."""

    def __init__(self, model: Model, beams: int) -> None:
        self.beams, self.step, self.device = beams, stepper(model), model.device
        self.state: Any = None
        self.cohorts: dict[Hashable, Cohort] = {}
        self.sources: list[tuple[Cohort, int]] = []  # in the order of the state
        self.steps = 0

    @property
    def rows(self) -> int:
        return len(self.sources) * self.beams

    @property
    def running(self) -> list[Running]:
        """The requests in the batch."""
        requests = {
            id(one): one for cohort, number in self.sources for one, _ in [cohort.of[number]]
        }
        return list(requests.values())

    def join(self, state: Any, running: Sequence[Running]) -> None:
        """Add requests. state: has read their prefixes but the last tokens, with all beams."""
        if self.state is None:
            self.state = state
        else:
            self.state.compact()
            self.state.join(state)
        # A request whose settings are None needs a cohort of its own.
        keys: list[Hashable] = [one.request.settings() or one for one in running]
        joining: dict[Hashable, Iterator[int]] = {}
        for key in dict.fromkeys(keys):
            alike = [one for one, own in zip(running, keys, strict=True) if own == key]
            if key not in self.cohorts:
                self.cohorts[key] = Cohort(alike[0].request)
            joining[key] = iter(self.cohorts[key].join(alike))
        for one, key in zip(running, keys, strict=True):
            for _ in range(one.request.sources):
                self.sources.append((self.cohorts[key], next(joining[key])))

    def end(self, running: Running, reason: Reason) -> None:
        """Remove a request, and send what was generated so far."""
        for cohort in self.cohorts.values():
            if any(one is running for one, _ in cohort.of.values()):
                cohort.end(running, reason)
        self._remove()

    def round(self) -> int:
        """Take a step of all rows; return their number."""
        count, beams = len(self.sources), self.beams
        alone = len(self.cohorts) == 1
        places: dict[int, list[int]] = {id(cohort): [] for cohort in self.cohorts.values()}
        for place, (cohort, _) in enumerate(self.sources):
            places[id(cohort)].append(place)
        newest = [cohort.search.newest for cohort in self.cohorts.values()]
        order = torch.tensor([place for several in places.values() for place in several],
                             device=newest[0].device)  # fmt: skip
        tokens = newest[0]
        if not alone:
            tokens = torch.cat(newest).view(count, beams)
            tokens = torch.empty_like(tokens).index_copy_(0, order, tokens).view(-1, 1)
        logits = self.step(tokens, self.state)[:, -1]
        of_sources = logits.view(count, beams, -1)
        followed = torch.arange(beams, device=order.device).repeat(count, 1)
        for cohort in self.cohorts.values():
            rows = order.new_tensor(places[id(cohort)])
            own = logits if alone else of_sources[rows].flatten(0, 1)
            parents = cohort.round(own)
            if parents is not None:
                followed[rows] = parents
        if beams > 1:
            self.state.follow(followed)
        self._remove()
        self.steps += 1
        if self.state is not None and self.steps % COMPACT_EVERY == 0:
            self.state.compact()
        return count * beams

    def _remove(self) -> None:
        """Remove the sources that are done from the state."""
        stay = [place for place, (cohort, number) in enumerate(self.sources) if number in cohort.of]
        if len(stay) == len(self.sources):
            return
        self.sources = [self.sources[place] for place in stay]
        self.cohorts = {key: cohort for key, cohort in self.cohorts.items() if cohort.of}
        if stay:
            self.state.select(torch.tensor(stay, device=self.device))
        else:
            self.state = None
