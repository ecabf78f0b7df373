"""Generate text from prefixes: read them, then search or sample token by token."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.core.cancellation import check_cancelled
from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.decode_graphs import DecodeGraphs
from translucid.fast.fixed_search import PlainRound, SearchSettings
from translucid.fast.stepper import stepper
from translucid.generate import constraints
from translucid.generate.beam import Beams, choose, settled
from translucid.generate.beam_search import GenerationConfig, Hypothesis, Round, harvest, search
from translucid.generate.constraints import Constraint
from translucid.generate.sampling import SamplingConfig, pick
from translucid.models.autoregressive import AutoregressiveModel, GenerationInputs
from translucid.parts.activations import as_log_probs

Model = AutoregressiveModel[Any]


def begin(
    model: Model,
    prefixes: Sequence[Sequence[int]],
    inputs: GenerationInputs | None,
    *,
    steps: int,
    trace: NoTrace = NO_TRACE,
) -> tuple[Any, Tensor]:
    """Let the model read the prefixes except their last tokens. Return the state after them, and
    the prefixes as a tensor (rows, length), left-padded with -1."""
    prefix = as_rows(prefixes, model)
    rows, length = prefix.shape
    state = model.start(inputs or GenerationInputs(rows), length + steps, trace)
    if length > 1:
        past = prefix[:, :-1]
        mask = past >= 0
        model.step(past.clamp(min=0), state, None if bool(mask.all()) else mask, trace)
    return state, prefix


def as_rows(prefixes: Sequence[Sequence[int]], model: Model) -> Tensor:
    """Convert prefixes to a tensor (rows, length), left-padded with -1."""
    if any(not prefix for prefix in prefixes):
        raise InputError("a prefix is empty; it must contain at least the start token")
    length = max(map(len, prefixes))
    rows = [[-1] * (length - len(prefix)) + list(prefix) for prefix in prefixes]
    return torch.tensor(rows, device=model.device)


@torch.inference_mode()
def find(
    model: Model,
    prefixes: Sequence[Sequence[int]],
    inputs: GenerationInputs | None,
    config: GenerationConfig,
    *,
    eos: int,
    pad: int,
    never: Sequence[int] = (),
    ends: Sequence[int] = (),
    extra: Sequence[Constraint] = (),
    watch: Callable[[Round], None] | None = None,
    trace: NoTrace = NO_TRACE,
    graphs: DecodeGraphs | None = None,
) -> list[list[Hypothesis]]:
    """Return the best continuations of each prefix, best first.

    inputs: the sources of an encoder-decoder. never: forbidden tokens, such as unused rows of the
    vocabulary. ends: further end tokens besides `eos`. trace: passed to the model in every step.
    graphs: CUDA graphs to reuse in later searches.
    """
    least, most = limits(model, prefixes, inputs, config)
    looks_back = (
        extra or config.no_repeat_ngram or config.repetition_penalty != 1 or config.beam_groups > 1
        or config.constraints(0) or config.forced_end_ids or config.renormalise
        or config.early_stopping is not None
    )  # fmt: skip
    if graphs is not None and watch is None and not looks_back and graphs.fits(model, trace):
        return captured(
            graphs, model, prefixes, inputs, (least, most), config,
            eos=eos, pad=pad, never=tuple(never), ends=tuple(ends),
        )  # fmt: skip
    if never:
        extra = [constraints.forbid(never), *extra]
    state, prefix = begin(model, prefixes, inputs, steps=int(most.max()), trace=trace)
    state.expand(config.beam_size)
    pooled = config.beam_size > 1 and config.early_stopping is not None
    if pooled and watch is not None:
        raise InputError(
            "showing the search tree needs Translucid's own beam search; set early_stopping = None"
        )
    if pooled:
        from translucid.generate.pooled_search import pooled_search  # seldom needed

        return pooled_search(
            stepper(model, trace), state, prefix, least, most, config,
            ends=(eos, *ends), extra=extra,
        )  # fmt: skip
    return search(
        stepper(model, trace), state, prefix, least, most, config,
        eos=eos, pad=pad, ends=ends, extra=extra, watch=watch,
    )  # fmt: skip


def captured(
    graphs: DecodeGraphs,
    model: Any,
    prefixes: Sequence[Sequence[int]],
    inputs: GenerationInputs | None,
    limits: tuple[Tensor, Tensor],
    config: GenerationConfig,
    *,
    eos: int,
    pad: int,
    never: tuple[int, ...] = (),
    ends: tuple[int, ...] = (),
) -> list[list[Hypothesis]]:
    """Search with CUDA graphs. The search must have no constraint that depends on earlier
    tokens."""
    tensors = graphs.search(
        model,
        as_rows(prefixes, model),
        inputs or GenerationInputs(len(prefixes)),
        *limits,
        SearchSettings(config.beam_size, config.n_best, config.alpha, eos, pad, never, ends),
        PlainRound(choose, _settled),
    )
    return harvest(Beams(*tensors), config, 0)


def _settled(
    scores: Tensor, lengths: Tensor, finished: Tensor, most: Tensor, *, n_best: int, alpha: float
) -> Tensor:
    none = scores[..., None][..., :0]  # the tokens are not used
    return settled(Beams(none, none, scores, lengths, finished), most, best=n_best, alpha=alpha)


def limits(
    model: Model,
    prefixes: Sequence[Sequence[int]],
    inputs: GenerationInputs | None,
    config: GenerationConfig,
) -> tuple[Tensor, Tensor]:
    """The minimum and maximum number of tokens after each prefix, both (rows,). The limits of a row
    do not depend on the other rows of the batch."""
    prefix_lengths = torch.tensor([len(prefix) for prefix in prefixes], device=model.device)
    sources = None if inputs is None else inputs.source_lengths
    least, most = config.limits(prefix_lengths if sources is None else sources)
    if config.max_length is None and config.max_total_length is not None:
        most = config.max_total_length - prefix_lengths
        if int(most.min()) < 1:
            raise InputError(
                f"the prompt has {int(prefix_lengths.max()):,} tokens, but max_length = "
                f"{config.max_total_length:,} in the model's generation_config.json includes the "
                "prompt; pass max_length, which counts only new tokens"
            )
    least = torch.maximum(least, config.min_total_length - prefix_lengths)
    if model.max_length is not None:
        most = torch.minimum(most, (model.max_length - prefix_lengths).clamp(min=1))
    return torch.minimum(least, most - config.room_for_end), most


@dataclass(frozen=True)
class Written:
    """One step of sampling: the newest token of every unfinished text."""

    rows: list[int]
    tokens: list[int]
    token_log_probs: list[float]  # the model's own log-probabilities
    log_probs: Tensor  # the model's own, of all tokens: (rows, vocab)


@torch.inference_mode()
def draw(
    model: Model,
    prefixes: Sequence[Sequence[int]],
    inputs: GenerationInputs | None,
    sampling: SamplingConfig,
    numbers: Tensor,
    *,
    eos: int,
    least: Sequence[int] | None = None,
    most: Sequence[int] | None = None,
    never: Sequence[int] = (),
    ends: Sequence[int] = (),
    extra: Sequence[Constraint] = (),
    forced_end_ids: Sequence[int] = (),
    stop: Callable[[int, int], bool] = lambda row, token: False,
    trace: NoTrace = NO_TRACE,
) -> Iterator[Written]:
    """Sample texts token by token.

    numbers: random numbers between 0 and 1, (rows, tokens).
    A text ends with `eos` or one of `ends`, after at least `least` tokens, or when `stop(row,
    token)` is true. It also ends when it has `most` tokens, or when there is no random number left;
    then its last token is one of `forced_end_ids`, if given.
    trace: passed to the model in every step.
    """
    max_lengths = [numbers.shape[1]] * len(prefixes) if most is None else most
    room = model.max_length
    most_steps = [
        min(own, numbers.shape[1], *([] if room is None else [room - len(prefix)]))
        for own, prefix in zip(max_lengths, prefixes, strict=True)
    ]
    steps = max(1, *most_steps)  # the model raises an error if there is no room
    if never:
        extra = [constraints.forbid(never), *extra]
    state, tokens = begin(model, prefixes, inputs, steps=steps, trace=trace)
    take_step = stepper(model, trace)
    rows = list(range(len(prefixes)))
    numbers = numbers.to(tokens.device)
    for step in range(steps):
        check_cancelled()
        logits = take_step(tokens[:, -1:], state)[:, -1]
        log_probs = as_log_probs(logits)
        if ends:
            log_probs, logits = (
                constraints.one_end(t, eos, ends) for t in (log_probs, logits.to(log_probs))
            )
        allowed = constraints.apply(extra, log_probs, tokens, logits)
        early = [] if least is None else [p for p, row in enumerate(rows) if step < least[row]]
        if early:
            allowed[early, eos] = -torch.inf
        if forced_end_ids:
            last = torch.tensor(
                [step + 1 == most_steps[row] for row in rows], device=allowed.device
            )
            allowed = constraints.force_end(allowed, forced_end_ids, last)
        chosen = pick(allowed, numbers[rows, step], sampling)
        # If no token is allowed, the text ends.
        chosen = chosen.masked_fill(allowed.amax(dim=-1) == -torch.inf, eos)
        token_log_probs = log_probs.gather(1, chosen[:, None]).squeeze(1)
        written = Written(list(rows), chosen.tolist(), token_log_probs.tolist(), log_probs)
        yield written
        goes_on = [
            place
            for place, (row, token) in enumerate(zip(rows, written.tokens, strict=True))
            if token != eos and step + 1 < most_steps[row] and not stop(row, token)
        ]
        if not goes_on:
            return
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        if len(goes_on) < len(rows):
            stay = torch.tensor(goes_on, device=tokens.device)
            rows, tokens = [rows[place] for place in goes_on], tokens[stay]
            state.select(stay)
