"""Chat completions of the OpenAI API, for models whose folder has a chat template.

https://platform.openai.com/docs/api-reference/chat
"""

import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from translucid.core.config import Config
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.serving.bodies import ApiError
from translucid.serving.completions import (
    Choice,
    Sampled,
    TextSoFar,
    number,
    pieces,
    reason,
    sse,
    usage,
)  # fmt: skip
from translucid.serving.inspecting import inspected_jobs, traced
from translucid.serving.job import Finished, Job, Piece, TokenChoice
from translucid.serving.served import Served


class TextPart(Config):
    type: Literal["text"]
    text: str


class Message(Config):
    role: str
    content: str | Annotated[list[TextPart], Field(fail_fast=True)] | None = None
    name: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The message as chat templates read it."""
        parts = self.content if isinstance(self.content, list) else None
        text = self.content if parts is None else "".join(part.text for part in parts)
        named = {} if self.name is None else {"name": self.name}
        return {"role": self.role, "content": text or ""} | named


class ChatBody(Sampled):
    messages: list[Message] = Field(min_length=1, max_length=1000, fail_fast=True)
    max_completion_tokens: int | None = Field(None, ge=1, description="The same as max_tokens")
    logprobs: bool = Field(False, description="Return the log-probability of each token")
    top_logprobs: int | None = Field(None, ge=0, le=100, description="Alternatives per token")

    def checked(self) -> Self:
        super().checked()
        if self.top_logprobs is not None and not self.logprobs:
            raise ApiError("top_logprobs needs logprobs = true", param="top_logprobs")
        both = self.max_tokens, self.max_completion_tokens
        if None not in both and both[0] != both[1]:
            raise ApiError(
                f"max_tokens = {both[0]} and max_completion_tokens = {both[1]}: send only one",
                param="max_completion_tokens",
            )
        return self

    def chat_job(self, served: Served, most_tokens: int) -> Job:
        self.checked()
        template = served.template
        if template is None:
            raise ApiError(
                f"model {served.name!r} has no chat template; use /v1/completions", param="model"
            )
        asked = self.max_completion_tokens or self.max_tokens
        if asked is not None and asked > most_tokens:
            raise ApiError(
                f"max_tokens = {asked:,} is above this server's limit of {most_tokens:,}",
                param="max_tokens",
            )
        messages = [message.as_dict() for message in self.messages]
        prompt = template.encode(messages, served.model.output_tokenizer)
        most = asked or min(most_tokens, _room(served, len(prompt)))
        return self.job(
            served, prompt, most, n=self.n, top_logprobs=self.top_logprobs or 0,
            pieces=pieces(self, bool(self.logprobs)),
        )  # fmt: skip


def _room(served: Served, read: int) -> int:
    most = served.model.text_generator.model.max_length
    return 1 << 30 if most is None else max(1, most - read)


def chat_logprobs(tokenizer: Tokenizer, tokens: Sequence[TokenChoice], top: int) -> Choice:
    """The log-probabilities in the shape of the chat API."""

    def entry(token: int, piece: str, log_prob: float | None) -> Choice:
        spelled = tokenizer.bytes_of(token)
        values = None if spelled is None else [*spelled]
        return {"token": piece, "logprob": number(log_prob), "bytes": values}

    content = [
        entry(one.token, one.piece, one.log_prob)
        | {"top_logprobs": [entry(*other) for other in one.top[:top]]}
        for one in tokens
    ]
    return {"content": content, "refusal": None}


async def complete(served: Served, body: ChatBody, most_tokens: int) -> Choice:
    """The answer to a request without `stream`."""
    (job,) = await inspected_jobs(served, body, [body.chat_job(served, most_tokens)])
    texts = [TextSoFar() for _ in range(job.n)]
    result: Finished | None = None
    async for _, event in served.events([job], at_once=False):
        if isinstance(event, Piece):
            texts[event.sample].add(event)
        elif isinstance(event, Finished):
            result = event
    assert result is not None
    tokenizer = served.model.output_tokenizer
    choices = [
        {
            "index": number,
            "message": {"role": "assistant", "content": text.text, "refusal": None},
            "logprobs": chat_logprobs(tokenizer, text.tokens, body.top_logprobs or 0)
            if body.logprobs
            else None,
            "finish_reason": reason(why),
        }
        for number, (text, why) in enumerate(zip(texts, result.reasons, strict=True))
    ]  # fmt: skip
    answer = _shell(served, "chat.completion") | {"choices": choices, "usage": usage([result])}
    return answer | traced(result)


async def stream(served: Served, body: ChatBody, most_tokens: int) -> AsyncIterator[bytes]:
    """The answer to a request with `stream`, as server-sent events."""
    job = body.chat_job(served, most_tokens)
    shell, tokenizer = _shell(served, "chat.completion.chunk"), served.model.output_tokenizer
    results: list[Finished] = []

    prompt_tokens: dict[int, int] = {}
    made = [0] * job.n

    def chunk(index: int, delta: Choice, logprobs: Any, why: str | None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": why}
        usage = body.usage_so_far(prompt_tokens.get(0, 0), made[index])
        return sse(shell | {"choices": [choice]} | usage)

    begun = False
    async for _, event in served.events([job], prompt_tokens):
        if not begun:
            begun = True
            for index in range(job.n):
                yield chunk(index, {"role": "assistant", "content": ""}, None, None)
        if isinstance(event, Piece):
            made[event.sample] += len(event.tokens)
            logprobs = None
            if body.logprobs and event.tokens:
                logprobs = chat_logprobs(tokenizer, event.tokens, body.top_logprobs or 0)
            if event.text or logprobs is not None:
                yield chunk(event.sample, {"content": event.text}, logprobs, None)
        elif isinstance(event, Finished):
            results.append(event)
            for index, why in enumerate(event.reasons):
                yield chunk(index, {}, None, reason(why))
    if body.with_usage:
        yield sse(shell | {"choices": [], "usage": usage(results)})
    yield b"data: [DONE]\n\n"


def _shell(served: Served, kind: str) -> Choice:
    return {
        "id": f"chatcmpl-{random.getrandbits(96):024x}", "object": kind,
        "created": int(time.time()), "model": served.name,
    }  # fmt: skip
