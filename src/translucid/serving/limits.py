"""Limits of an engine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much an engine does at the same time."""

    rows: int = 64  # texts in the batch; a beam search has beam_size rows, n samples have n
    cache_tokens: int = 262_144  # tokens in the caches of all rows
    queue: int = 256  # requests that wait; more are refused
    text_tokens: int = 16_384  # tokens of one text to classify, tag, embed, fill or score
    # Tokens of prompts and sources that are read between two steps; default: 512, on a GPU 8192.
    prompt_chunk: int | None = None
    prompt_bytes: int = 256 * 2**20  # states after prompts that came before, for reuse
    trace_values: int = 1_000_000  # values in the trace of one request
