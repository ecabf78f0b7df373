"""Generate text from prefixes: read them, then search or sample token by token."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.cancellation import check_cancelled
from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.decode_graphs import ON_THE_GPU, DecodeGraphs
from translucid.fast.fixed_search import PlainRound, SearchSettings
from translucid.fast.stepper import stepper
from translucid.generate import constraints
from translucid.generate.beam import Beams, choose, settled, stack_histories
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
    prefix = as_rows(prefixes, model.device)
    rows, length = prefix.shape
    state = model.start(inputs or GenerationInputs(rows), length + steps, trace)
    if length > 1:
        past = prefix[:, :-1]
        mask = past >= 0
        read = getattr(model, "read", model.step)  # a model of other code may have no `read`
        read(past.clamp(min=0), state, None if bool(mask.all()) else mask, trace)
    return state, prefix


def as_rows(prefixes: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Convert prefixes to a tensor (rows, length), left-padded with -1."""
    if any(not prefix for prefix in prefixes):
        raise InputError("a prefix is empty; it must contain at least the start token")
    length = max(map(len, prefixes))
    rows = [[-1] * (length - len(prefix)) + list(prefix) for prefix in prefixes]
    return torch.tensor(rows, device=device)


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
    capturable = not extra and watch is None and has_captured_search(config)
    if graphs is not None and capturable and graphs.fits(model, trace):
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


def has_captured_search(config: GenerationConfig) -> bool:
    """Whether CUDA graphs can search with these settings, which then do not depend on earlier
    tokens."""
    return not (
        config.no_repeat_ngram or config.repetition_penalty != 1 or config.beam_groups > 1
        or config.constraints(0) or config.forced_end_ids or config.renormalise
        or config.early_stopping is not None
    )  # fmt: skip


class CapturedSearch:
    """A search by CUDA graphs, a few rounds at a time. It must have no constraint that depends on
    earlier tokens."""

    def __init__(
        self,
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
        few_shapes: bool = False,
    ) -> None:
        """few_shapes: pad the inputs to few shapes, since graphs are captured for each one."""
        self.config = config
        prefix, inputs = as_rows(prefixes, model.device), inputs or GenerationInputs(len(prefixes))
        room = (1, 1)
        if few_shapes:
            most = int(limits[1].max())
            prefix = _widened(prefix, -1, (model.max_length or math.inf) - most)
            if inputs.source is not None:
                mask = torch.ones_like(inputs.source) if inputs.mask is None else inputs.mask
                inputs = GenerationInputs.of(
                    _widened(inputs.source, pad, math.inf), _widened(mask.bool(), False, math.inf)
                )
            bits = (len(prefix) - 1).bit_length()
            room = (1 << (bits + bits % 2), 1 << (most - 1).bit_length())
        self.search = graphs.begin(
            model, prefix, inputs, *limits,
            SearchSettings(config.beam_size, config.n_best, config.alpha, eos, pad, never, ends),
            PlainRound(choose, _settled),
            room=room,
        )  # fmt: skip

    def advance(self) -> list[bool]:
        """Run a few rounds; return which sources are done."""
        return self.search.advance()

    def found(self) -> list[list[Hypothesis]]:
        """The best texts of each source so far, best first."""
        return harvest(Beams(*self.search.sequences()), self.config)


def _widened(part: Tensor, pad: int, most: float) -> Tensor:
    """Pad (rows, length) to a length that is a power of two, but at most `most`: a prefix (-1) on
    the left, a source on the right."""
    length = part.shape[1]
    more = int(max(min(1 << (length - 1).bit_length(), most) - length, 0))
    return F.pad(part, (more, 0) if pad == -1 else (0, more), value=pad)


def captured(*inputs: Any, **ids: Any) -> list[list[Hypothesis]]:
    """Do a whole `CapturedSearch`, with the same arguments."""
    with ON_THE_GPU:
        search = CapturedSearch(*inputs, **ids)
        while not all(search.advance()):
            pass
        return search.found()


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
    device: torch.device | None = None,
) -> tuple[Tensor, Tensor]:
    """The minimum and maximum number of tokens after each prefix, both (rows,). The limits of a row
    do not depend on the other rows of the batch. device: of the inputs and the result; default:
    that of the model."""
    sources = None if inputs is None else inputs.source_lengths
    device = model.device if device is None else device
    prefix_lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)
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
    last: list[bool]  # whether the text has its maximum length


class Draw:
    """Sampling of several texts, step by step. Texts may join and leave between two steps.

    Numbers identify the texts: join() returns them, in the order of the rows.
    """

    tokens: Tensor  # (rows, length), left-padded with -1
    uniforms: Tensor  # the random numbers of each text, (rows, tokens)
    least: Tensor  # minimum length of each text
    most: Tensor
    taken: Tensor  # how many tokens each text has

    def __init__(
        self,
        sampling: SamplingConfig,
        *,
        eos: int,
        ends: Sequence[int] = (),
        extra: Sequence[Constraint] = (),
        forced_end_ids: Sequence[int] = (),
    ) -> None:
        self.sampling, self.eos, self.ends, self.extra = sampling, eos, ends, extra
        self.forced_end_ids = forced_end_ids
        self.numbers: list[int] = []  # of the texts in the batch
        self._joined = self._early = 0

    def join(self, prefix: Tensor, least: Tensor, most: Tensor, uniforms: Tensor) -> list[int]:
        """Add texts. prefix: (rows, length), left-padded with -1. least, most: minimum and maximum
        lengths (rows,). uniforms: random numbers between 0 and 1, (rows, tokens)."""
        tokens, taken, uniforms = prefix, torch.zeros_like(least), uniforms.to(prefix.device)
        if self.numbers:
            tokens = stack_histories(self.tokens, tokens, -1)
            least, most = torch.cat([self.least, least]), torch.cat([self.most, most])
            taken = torch.cat([self.taken, taken])
            width = max(uniforms.shape[1], self.uniforms.shape[1])
            both = (F.pad(part, (0, width - part.shape[1])) for part in (self.uniforms, uniforms))
            uniforms = torch.cat(list(both))
        self.tokens, self.least, self.most, self.taken = tokens, least, most, taken
        self.uniforms = uniforms
        self._early = int((least - taken).max())
        new = list(range(self._joined, self._joined + len(prefix)))
        self._joined += len(prefix)
        self.numbers += new
        return new

    @property
    def newest(self) -> Tensor:
        """The newest tokens, which the model reads next: (rows, 1)."""
        return self.tokens[:, -1:]

    def round(self, logits: Tensor) -> Written:
        """Extend every text by one token. logits: (rows, vocab), of the model."""
        log_probs = as_log_probs(logits)
        if self.ends:
            log_probs, logits = (
                constraints.one_end(t, self.eos, self.ends)
                for t in (log_probs, logits.to(log_probs))
            )
        allowed = constraints.apply(self.extra, log_probs, self.tokens, logits)
        if self._early > 0:  # some texts are too short to end
            allowed = allowed.clone()
            allowed[:, self.eos].masked_fill_(self.taken < self.least, -torch.inf)
        last = self.taken + 1 >= self.most
        if self.forced_end_ids:
            allowed = constraints.force_end(allowed, self.forced_end_ids, last)
        number = self.uniforms.gather(1, self.taken[:, None])[:, 0]
        chosen = pick(allowed, number, self.sampling)
        # If no token is allowed, the text ends.
        chosen = chosen.masked_fill(allowed.amax(dim=-1) == -torch.inf, self.eos)
        token_log_probs = log_probs.gather(1, chosen[:, None]).squeeze(1)
        self.tokens = torch.cat([self.tokens, chosen[:, None]], dim=1)
        self.taken, self._early = self.taken + 1, self._early - 1
        return Written(
            list(self.numbers), chosen.tolist(), token_log_probs.tolist(), log_probs, last.tolist()
        )

    def leave(self, numbers: Collection[int]) -> Tensor:
        """Remove texts. Return the rows of the others, in their new order."""
        places = [place for place, number in enumerate(self.numbers) if number not in numbers]
        stay = torch.tensor(places, dtype=torch.long, device=self.tokens.device)
        self.numbers = [self.numbers[place] for place in places]
        self.tokens, self.uniforms = self.tokens[stay], self.uniforms[stay]
        self.least, self.most, self.taken = self.least[stay], self.most[stay], self.taken[stay]
        return stay


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
    limits = torch.tensor([numbers.shape[1]] * len(prefixes) if most is None else most)
    limits = limits.clamp(max=numbers.shape[1])
    if model.max_length is not None:
        room = model.max_length - torch.tensor([len(prefix) for prefix in prefixes])
        limits = torch.minimum(limits, room)
    steps = max(1, int(limits.max()))  # the model raises an error if there is no room
    if never:
        extra = [constraints.forbid(never), *extra]
    state, tokens = begin(model, prefixes, inputs, steps=steps, trace=trace)
    take_step = stepper(model, trace)
    texts = Draw(sampling, eos=eos, ends=ends, extra=extra, forced_end_ids=forced_end_ids)
    earliest = torch.tensor([0] * len(prefixes) if least is None else least)
    texts.join(tokens, earliest.to(tokens.device), limits.to(tokens.device), numbers)
    while texts.numbers:
        check_cancelled()
        written = texts.round(take_step(texts.newest, state)[:, -1])
        yield written
        over = {
            row
            for row, token, last in zip(written.rows, written.tokens, written.last, strict=True)
            if token == eos or last or stop(row, token)
        }
        if over:
            state.select(texts.leave(over))
