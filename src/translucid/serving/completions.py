"""The text endpoints of the OpenAI API: completions, and what it shares with chat completions.

https://platform.openai.com/docs/api-reference/completions
"""

import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator

from translucid.core.config import Config
from translucid.generate.decoded import Candidate
from translucid.generate.sampling import SamplingConfig
from translucid.serving.bodies import MODEL, ApiError, Ids
from translucid.serving.inspecting import Inspected, inspected_jobs, traced
from translucid.serving.job import Finished, Job, Piece, Pieces, PromptRead, TokenChoice
from translucid.serving.served import Served

MOST_CHOICES = 128  # texts per request
MOST_PROMPTS = 256
MOST_STOPS = 16
IMPOSSIBLE = -9999.0  # the log-probability of a token that is impossible
Choice = dict[str, Any]
Prompts = Annotated[list[str], Field(max_length=MOST_PROMPTS, fail_fast=True)]
IdPrompts = Annotated[list[Ids], Field(max_length=MOST_PROMPTS, fail_fast=True)]
Stops = Annotated[list[str], Field(max_length=MOST_STOPS, fail_fast=True)]


class StreamOptions(Config):
    include_usage: bool = Field(False, description="Send the token counts at the end")
    continuous_usage_stats: bool = Field(
        False, description="With include_usage: send the counts so far with every piece"
    )


class Sampled(Inspected):
    """Fields that completions and chat completions share."""

    model: str | None = Field(None, description=MODEL)
    max_tokens: int | None = Field(None, ge=0, description="Maximum number of generated tokens")
    min_tokens: int = Field(0, ge=0, description="Minimum number of generated tokens")
    temperature: float | None = Field(None, ge=0, le=100, description="0: greedy [default: 1]")
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, description="0 or -1: all tokens")
    min_p: float | None = Field(None, ge=0, le=1)
    n: int = Field(1, ge=1, le=MOST_CHOICES, description="Number of texts per prompt")
    seed: int | None = Field(
        None, ge=-(2**63), lt=2**63, description="The same seed gives the same text"
    )
    stop: str | Stops | None = Field(None, description="The text ends before the first of these")
    stream: bool = Field(False, description="Send the text in pieces, as server-sent events")
    stream_options: StreamOptions | None = None
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, ge=0.01, le=100)
    logit_bias: dict[str, float] | None = Field(
        None, description="Added to the logits of these token ids"
    )
    ignore_eos: bool = Field(False, description="Generate up to the maximum length")
    user: str | None = Field(None, description="Ignored")

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, value: str | list[str] | None) -> str | list[str] | None:
        if "" in ([value] if isinstance(value, str) else value or []):
            raise ValueError("an empty text would end generation at once; omit it")
        return value

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def usage_so_far(self, prompt_tokens: int, made: int) -> dict[str, Any]:
        """The field `usage` of a piece of a stream."""
        if self.stream_options is None or not self.with_usage:
            return {}
        known = self.stream_options.continuous_usage_stats
        return {"usage": _counts(prompt_tokens, made) if known else None}

    def checked(self) -> Self:
        """Check fields that depend on each other."""
        if self.stream_options is not None and not self.stream:
            raise ApiError("stream_options needs stream = true; omit it", param="stream_options")
        if self.stream and self.inspects:
            raise ApiError(f"{self.inspects}: cannot be streamed; omit stream", param=self.inspects)
        return self

    def job(self, served: Served, prompt: str | list[int], most: int, **more: Any) -> Job:
        """The job of one prompt. most: the maximum number of tokens."""
        if self.min_tokens > most:
            raise ApiError(
                f"min_tokens = {self.min_tokens} is above the maximum of {most} tokens",
                param="min_tokens",
            )
        search: dict[str, Any] = {"max_length": max(most, 1), "min_length": self.min_tokens}
        if self.repetition_penalty is not None:
            search["repetition_penalty"] = self.repetition_penalty
        by: dict[str, Any] = {
            "top_k": self.top_k if self.top_k and self.top_k > 0 else None,
            "top_p": self.top_p, "min_p": self.min_p or None,
        }  # fmt: skip
        temperature = 1.0 if self.temperature is None else self.temperature
        return Job(
            prompt,
            generation=search,
            sampling=SamplingConfig(temperature=float(temperature), **by),
            seed=random.getrandbits(48) if self.seed is None else self.seed % 2**64,
            stop=tuple(self.stops),
            logit_bias=self.biases(),
            ignore_eos=self.ignore_eos,
            presence_penalty=float(self.presence_penalty),
            frequency_penalty=float(self.frequency_penalty),
            **more,
        )

    def biases(self) -> dict[int, float]:
        biases = {}
        for token, bias in (self.logit_bias or {}).items():
            if not (token.isascii() and token.isdigit() and len(token) < 10):
                raise ApiError(
                    f"logit_bias: {token[:50]!r} is not a token id; /tokenize returns ids",
                    param="logit_bias",
                )
            biases[int(token)] = float(bias)
        return biases


class CompletionBody(Sampled):
    prompt: str | Prompts | Ids | IdPrompts = Field(
        description="A text, several texts, or their token ids; for a translation model, the source"
    )
    best_of: int | None = Field(
        None, ge=1, le=MOST_CHOICES, description="Generate this many texts, and return the best n"
    )
    echo: bool = Field(False, description="Return the prompt before the text")
    logprobs: int | None = Field(
        None, ge=0, le=100, description="Log-probabilities, with this many alternatives per token"
    )
    suffix: None = Field(None, description="Not supported")

    @property
    def prompts(self) -> list[str | list[int]]:
        """One or more prompts."""
        prompt: Any = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if not prompt:
            raise ApiError("prompt is an empty list; send one prompt or more", param="prompt")
        if all(isinstance(one, int) for one in prompt):
            return [prompt]
        return prompt

    def checked(self) -> Self:
        super().checked()
        if self.best_of is not None and self.best_of < self.n:
            raise ApiError(
                f"best_of = {self.best_of} is below n = {self.n}; raise it", param="best_of"
            )
        if self.stream and self.drawn > self.n:
            raise ApiError("best_of cannot be streamed; omit it, or stream", param="best_of")
        return self

    @property
    def drawn(self) -> int:
        return self.n if self.best_of is None else self.best_of

    def jobs(self, served: Served, most_tokens: int) -> list[Job]:
        self.checked()
        if self.echo and served.task == "translate":
            raise ApiError("echo: a translation model does not predict its prompt", param="echo")
        most = 16 if self.max_tokens is None else self.max_tokens
        if most > most_tokens:
            raise ApiError(
                f"max_tokens = {most:,} is above this server's limit of {most_tokens:,}",
                param="max_tokens",
            )
        if most == 0 and not self.echo:
            raise ApiError(
                "max_tokens = 0 generates nothing; set echo = true to score the prompt",
                param="max_tokens",
            )
        scored = self.echo and self.logprobs is not None
        return [
            self.job(
                served, prompt, most, n=self.drawn, echo=scored, only_prompt=most == 0,
                top_logprobs=self.logprobs or 0, pieces=pieces(self, self.logprobs is not None),
            )
            for prompt in self.prompts
        ]  # fmt: skip


@dataclass
class TextSoFar:
    """One text while it is generated."""

    text: str = ""
    tokens: list[TokenChoice] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        self.tokens += piece.tokens
        self.offsets += [len(self.text)] * len(piece.tokens)
        self.text += piece.text


def legacy_logprobs(tokens: Sequence[TokenChoice], offsets: Sequence[int], top: int) -> Choice:
    """The log-probabilities in the shape of the completions API. The chosen token is always among
    the alternatives. Those with the same text as another one are called token_id:ID."""
    alternatives: list[dict[str, float | None] | None] = []
    for one in tokens:
        if one.log_prob is None:
            alternatives.append(None)
            continue
        shown = {one.piece: number(one.log_prob)}
        for token, piece, log_prob in one.top[:top]:
            if token != one.token:
                shown[f"token_id:{token}" if piece in shown else piece] = number(log_prob)
        alternatives.append(shown)
    return {
        "tokens": [one.piece for one in tokens],
        "token_logprobs": [number(one.log_prob) for one in tokens],
        "top_logprobs": alternatives if top else None,
        "text_offset": list(offsets),
    }


def number(log_prob: float | None) -> float | None:
    """A log-probability as JSON, which has no infinite numbers: OpenAI's API writes -9999."""
    return None if log_prob is None else max(log_prob, IMPOSSIBLE)


def _mean(text: Candidate) -> float:
    """The mean log-probability of the tokens, by which `best_of` chooses."""
    return text.log_probability / max(len(text.token_log_probs), 1)


def usage(results: Sequence[Finished]) -> dict[str, int]:
    return _counts(
        sum(one.prompt_tokens for one in results), sum(one.generated_tokens for one in results)
    )


def _counts(prompt: int, made: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made
    }  # fmt: skip


async def complete(served: Served, body: CompletionBody, most_tokens: int) -> Choice:
    """The answer to a request without `stream`."""
    jobs = await inspected_jobs(served, body, body.jobs(served, most_tokens))
    texts = [[TextSoFar() for _ in range(job.n)] for job in jobs]
    finished: dict[int, Finished] = {}
    read: dict[int, Sequence[TokenChoice]] = {}
    async for number, event in served.events(jobs, at_once=False):
        match event:
            case PromptRead():
                read[number] = event.tokens
            case Piece():
                texts[number][event.sample].add(event)
            case Finished():
                finished[number] = event
    choices: list[Choice] = []
    for number, job in enumerate(jobs):
        prompt = echoed(served, job) if body.echo else ""
        made = texts[number]
        order = list(range(len(made)))
        if body.drawn > body.n:
            means = [-_mean(one) for one in finished[number].decoded.texts]
            order = sorted(order, key=means.__getitem__)[: body.n]
        for i in order[:1] if job.only_prompt else order:
            reasons = finished[number].reasons
            tokens, offsets = _with_prompt(served, read.get(number, ()), prompt, made[i])
            choices.append({
                "index": len(choices),
                "text": prompt + made[i].text,
                "logprobs": None if body.logprobs is None
                else legacy_logprobs(tokens, offsets, body.logprobs),
                "finish_reason": "length" if job.only_prompt else reason(reasons[i]),
            })  # fmt: skip
    counts = usage([finished[number] for number in range(len(jobs))])
    return _shell(served) | {"choices": choices, "usage": counts} | traced(*finished.values())


async def stream(served: Served, body: CompletionBody, most_tokens: int) -> AsyncIterator[bytes]:
    """The answer to a request with `stream`, as server-sent events."""
    jobs = body.jobs(served, most_tokens)
    shell = _shell(served)
    finished: list[Finished] = []
    prompts = [echoed(served, job) if body.echo else "" for job in jobs for _ in range(body.n)]
    sizes, made = list(map(len, prompts)), [0] * len(prompts)  # characters and tokens so far
    prompt_tokens: dict[int, int] = {}

    def chunk(index: int, text: str, logprobs: Any, why: str | None) -> bytes:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": why}
        read = prompt_tokens.get(index // body.n, 0)
        usage = body.usage_so_far(read, made[index])
        return sse(shell | {"choices": [choice]} | usage)

    begun = False
    async for number, event in served.events(jobs, prompt_tokens):
        if not begun and body.echo:
            for index, prompt in enumerate(prompts):
                yield chunk(index, prompt, None, None)
        begun = True
        match event:
            case PromptRead() if body.logprobs is not None:
                tokens, offsets = _with_prompt(served, event.tokens, "", TextSoFar())
                for sample in range(body.n):
                    read = legacy_logprobs(tokens, offsets, body.logprobs)
                    yield chunk(number * body.n + sample, "", read, None)
            case Piece():
                index = number * body.n + event.sample
                lp: Choice | None = None
                if body.logprobs is not None and event.tokens:
                    offsets = [sizes[index]] * len(event.tokens)
                    lp = legacy_logprobs(event.tokens, offsets, body.logprobs)
                sizes[index] += len(event.text)
                made[index] += len(event.tokens)
                if event.text or lp is not None:
                    yield chunk(index, event.text, lp, None)
            case Finished():
                finished.append(event)
                whys = (
                    ["length"] * body.n if jobs[number].only_prompt else map(reason, event.reasons)
                )
                for sample, why in enumerate(whys):
                    yield chunk(number * body.n + sample, "", None, why)
    if body.with_usage:
        yield sse(shell | {"choices": [], "usage": usage(finished)})
    yield b"data: [DONE]\n\n"


def pieces(body: Sampled, logprobs: bool) -> Pieces:
    """What the pieces of a text must contain."""
    if logprobs:
        return "token"
    return "tokens" if body.stream else "text"


def reason(why: str) -> str:
    """The reason why a text ended, as a word of the API."""
    if why == "deadline":
        raise ApiError("the text was not finished before the server's deadline", 504)
    return why if why in ("stop", "length") else "stop"


def echoed(served: Served, job: Job) -> str:
    """The prompt as text, without special tokens."""
    return (
        job.prompt
        if isinstance(job.prompt, str)
        else served.model.output_tokenizer.decode(job.prompt)
    )


def sse(content: Any) -> bytes:
    return b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n"


def _with_prompt(
    served: Served, read: Sequence[TokenChoice], prompt: str, made: TextSoFar
) -> tuple[list[TokenChoice], list[int]]:
    """The tokens of prompt and text, with their offsets."""
    tokenizer = served.model.output_tokenizer
    ids = [one.token for one in read]
    # Special tokens that the client sent before the text; the text does not contain them.
    before = len(list(takewhile(tokenizer.special_ids.__contains__, ids)))
    text = prompt or tokenizer.decode(ids)
    if tokenizer.encode(text) == ids[before:]:
        offsets = [first for first, _ in tokenizer.offsets(text)]
    else:  # ids that no text has
        offsets = [0, *accumulate(len(one.piece) for one in read[before:])][: len(read) - before]
    offsets = [*[0] * before, *offsets]
    shift = len(prompt)
    return [*read, *made.tokens], [*offsets, *(shift + offset for offset in made.offsets)]


def _shell(served: Served) -> Choice:
    return {
        "id": f"cmpl-{random.getrandbits(96):024x}", "object": "text_completion",
        "created": int(time.time()), "model": served.name,
    }  # fmt: skip


FinishReason = Literal["stop", "length"]
