"""A request to generate text, the events that answer it, and the errors of an engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from translucid.core.errors import TranslucidError
from translucid.core.trace import Edit
from translucid.generate.decoded import Decoded
from translucid.generate.sampling import SamplingConfig
from translucid.serving.tracing import RequestedTrace

Reason = Literal["stop", "length", "cancelled", "deadline"]
Pieces = Literal["token", "tokens", "text"]  # one token, one or more tokens, or the whole text


@dataclass(frozen=True)
class Job:
    """A request to continue a prompt or to translate a text.

    With `sampling`, `n` texts are sampled, and their tokens are reported while they are generated;
    temperature 0 is greedy search. Without it, the job is a beam search, which returns its `n` best
    texts at the end. The result equals that of the library with the same settings and seed:
    `model.generate` and `Generator.sample` with sampling, else `model.decode`. With `trace`
    or `edit`, it equals that of `model.decode(..., trace=Trace(trace, edit=edit))`.
    """

    prompt: str | Sequence[int]  # for a translation model, the source text
    prefix: str = ""  # the beginning of the translation
    generation: Mapping[str, Any] = field(default_factory=dict)  # keys of GenerationConfig
    sampling: SamplingConfig | None = None
    seed: int = 0
    n: int = 1
    stop: Sequence[str] = ()  # sampling: a text ends before the first of these
    forbid: Sequence[str] = ()  # words that must not be generated
    force: Mapping[int, str | int] = field(default_factory=dict)  # words at token positions
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # added to the logits of tokens
    presence_penalty: float = 0.0  # subtracted from the logits of tokens generated before
    frequency_penalty: float = 0.0  # the same, for each time that they were generated
    ignore_eos: bool = False  # generate up to the maximum length
    top_logprobs: int = 0  # sampling: report this many of the most probable tokens at each position
    echo: bool = False  # language models: report the log-probabilities of the prompt
    only_prompt: bool = False  # with echo: generate nothing
    pieces: Pieces = "token"  # sampling: what a Piece contains
    tree: bool = False  # beam search: keep the search tree
    deadline: float | None = None  # seconds after submission, when generation ends
    trace: Sequence[str] = ()  # keep these trace points of a forward pass over prompt and output
    edit: Mapping[str, Edit] = field(default_factory=dict)  # changes in every step, as in a Trace


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token with its log-probability, which is the model's own: before temperature, penalties and
    `logit_bias`."""

    token: int
    piece: str  # the token as text; the end token is "</s>"
    log_prob: float | None  # None: the first token of a prompt, which nothing predicts
    top: Sequence[
        tuple[int, str, float]
    ] = ()  # the most probable tokens: id, text, log-probability


@dataclass(frozen=True)
class PromptRead:
    """The prompt's tokens, without special tokens before it. Sent once, if the job has `echo`."""

    tokens: Sequence[TokenChoice]


@dataclass(frozen=True, slots=True)
class Piece:
    """A new piece of a sampled text. Joined, the pieces of a sample are its text without the
    prompt."""

    sample: int
    text: str  # may be empty, while it is an incomplete character or may begin a stop text
    tokens: Sequence[TokenChoice]  # empty: only the rest of the text, after the last token


@dataclass(frozen=True)
class Finished:
    """The result. Always the last event of a job that did not fail."""

    decoded: Decoded  # the samples in order, or the best texts of a search, best first
    reasons: Sequence[Reason]  # why each text ended
    prompt_tokens: int  # tokens of the prompt or source, with special tokens
    generated_tokens: int  # tokens of all texts, with end tokens
    trace: RequestedTrace | None = None


@dataclass(frozen=True)
class Answered:
    """The answers of `Engine.run`, in the order of the texts. The last event."""

    results: Sequence[Any]
    trace: RequestedTrace | None = None


@dataclass(frozen=True)
class Failed:
    """The last event of a request that cannot be answered, usually because of an InputError."""

    error: TranslucidError


Event = PromptRead | Piece | Finished | Answered | Failed


class QueueFull(TranslucidError):
    """Too many requests are waiting. seconds: an estimate of when there is room again."""

    def __init__(self, waiting: int, seconds: float) -> None:
        self.waiting, self.seconds = waiting, seconds
        super().__init__(
            f"{waiting:,} requests are waiting already; try again in {seconds:.0f} seconds"
        )


class EngineClosed(TranslucidError):
    """The engine is closing, so it accepts no more requests."""


class TooLate(TranslucidError):
    """The deadline of a request was over before it was answered."""
