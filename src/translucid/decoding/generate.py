"""From prompts to texts: read what is given, then search, or draw token by token."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from translucid.decoding import rules
from translucid.decoding.captured import CapturedSearch, Sources
from translucid.decoding.rules import Rule
from translucid.decoding.sampling import Sampling, pick
from translucid.decoding.search import Hypothesis, Round, Search, search
from translucid.errors import InputError
from translucid.fast.decode_step import lean_step
from translucid.parts.activations import as_log_probs


class TextWriter(Protocol):
    """A network that writes, or several that decide together."""

    @property
    def start(self) -> Callable[..., Any]: ...
    @property
    def step(self) -> Callable[..., Tensor]: ...
    @property
    def longest(self) -> int | None: ...
    @property
    def device(self) -> torch.device: ...


def begin(
    model: TextWriter, prefixes: Sequence[Sequence[int]], sources: Sources | None, *, steps: int
) -> tuple[Any, Tensor]:
    """A state that has read all prefixes but their last tokens, and the prefixes (rows, length),
    with -1 in front of the shorter ones."""
    prefix = as_rows(prefixes, model)
    rows, length = prefix.shape
    capacity = length + steps
    given = (rows,) if sources is None else (sources.ids, sources.real)
    state = model.start(*given, capacity=capacity)
    if length > 1:
        past = prefix[:, :-1]
        real = past >= 0
        model.step(past.clamp(min=0), state, None if bool(real.all()) else real)
    return state, prefix


def as_rows(prefixes: Sequence[Sequence[int]], model: TextWriter) -> Tensor:
    """Prefixes side by side (rows, length), with -1 in front of the shorter ones."""
    if any(not prefix for prefix in prefixes):
        raise InputError("a prefix is empty; give at least the token that starts a text")
    length = max(map(len, prefixes))
    rows = [[-1] * (length - len(prefix)) + list(prefix) for prefix in prefixes]
    return torch.tensor(rows, device=model.device)


@torch.inference_mode()
def find(
    model: TextWriter,
    prefixes: Sequence[Sequence[int]],
    sources: Sources | None,
    how: Search,
    *,
    eos: int,
    pad: int,
    extra: Sequence[Rule] = (),
    watch: Callable[[Round], None] | None = None,
) -> list[list[Hypothesis]]:
    """The best texts that go on from each prefix, best first."""
    least, most = limits(model, prefixes, sources, how)
    if watch is None and CapturedSearch.fits(model, how, extra):
        return captured(model, eos, pad)(as_rows(prefixes, model), sources, least, most, how)
    state, prefix = begin(model, prefixes, sources, steps=int(most.max()))
    state.expand(how.beams)
    return search(
        lean_step(model) or model,
        state,
        prefix,
        least,
        most,
        how,
        eos=eos,
        pad=pad,
        extra=extra,
        watch=watch,
    )


def limits(
    model: TextWriter, prefixes: Sequence[Sequence[int]], sources: Sources | None, how: Search
) -> tuple[Tensor, Tensor]:
    """The fewest and the most tokens (rows,) that may be written after each prefix. They are the
    same for a row alone and for a row in a batch."""
    given = torch.tensor([len(prefix) for prefix in prefixes], device=model.device)
    least, most = how.limits(given if sources is None else sources.lengths)
    if model.longest is not None:
        most = torch.minimum(most, (model.longest - given).clamp(min=1))
    return torch.minimum(least, most - 1), most


def captured(model: Any, eos: int, pad: int) -> CapturedSearch:
    """The captured search of a model; its graphs live as long as the model does."""
    known = _CAPTURED.setdefault(model, {})
    return known.setdefault((eos, pad), CapturedSearch(model, eos=eos, pad=pad))


_CAPTURED: WeakKeyDictionary[Any, dict[tuple[int, int], CapturedSearch]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Written:
    """One step of drawing: the newest token of every text that is still being written."""

    rows: list[int]
    tokens: list[int]
    gains: list[float]  # the model's own log-probabilities


@torch.inference_mode()
def draw(
    model: TextWriter,
    prefixes: Sequence[Sequence[int]],
    sources: Sources | None,
    how: Sampling,
    numbers: Tensor,
    *,
    eos: int,
    least: Sequence[int] | None = None,
    most: Sequence[int] | None = None,
    extra: Sequence[Rule] = (),
    stop: Callable[[int, int], bool] = lambda row, token: False,
) -> Iterator[Written]:
    """Texts token by token. numbers: (rows, tokens), the random numbers of each text, between 0
    and 1. A text ends with `eos`, which does not come before its `least` tokens, where
    `stop(row, token)` says so, with its `most` tokens, or with its numbers."""
    longest = [numbers.shape[1]] * len(prefixes) if most is None else most
    ends = [
        min(
            own, numbers.shape[1], *([] if model.longest is None else [model.longest - len(prefix)])
        )
        for own, prefix in zip(longest, prefixes, strict=True)
    ]
    steps = max(1, *ends)  # where there is no room, the model says so
    state, tokens = begin(model, prefixes, sources, steps=steps)
    stepper: Any = lean_step(model) or model
    rows = list(range(len(prefixes)))
    numbers = numbers.to(tokens.device)
    for step in range(steps):
        log_probs = as_log_probs(stepper.step(tokens[:, -1:], state)[:, -1])
        allowed = rules.apply(extra, log_probs, tokens)
        early = [] if least is None else [p for p, row in enumerate(rows) if step < least[row]]
        if early:
            allowed[early, eos] = -torch.inf
        chosen = pick(allowed, numbers[rows, step], how)
        chosen = chosen.masked_fill(allowed.amax(dim=-1) == -torch.inf, eos)  # no way on
        gains = log_probs.gather(1, chosen[:, None]).squeeze(1)
        written = Written(list(rows), chosen.tolist(), gains.tolist())
        yield written
        goes_on = [
            place
            for place, (row, token) in enumerate(zip(rows, written.tokens, strict=True))
            if token != eos and step + 1 < ends[row] and not stop(row, token)
        ]
        if not goes_on:
            return
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        if len(goes_on) < len(rows):
            stay = torch.tensor(goes_on, device=tokens.device)
            rows, tokens = [rows[place] for place in goes_on], tokens[stay]
            state.select(stay)
