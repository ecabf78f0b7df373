"""Sample a batch of texts, and stream each of them piece by piece."""

from collections.abc import Iterator, Sequence

import torch

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import Model, draw, limits
from translucid.generate.decoded import Candidate, pieces_of
from translucid.generate.sampling import SamplingConfig, uniforms
from translucid.generate.word_constraints import WordConstraints
from translucid.models.autoregressive import GenerationInputs


class TextStream:
    """One text while it is generated. The pieces that `begin`, `add` and `end` return, joined, are
    the text.

    The end of the text so far is held back while it is an incomplete character or may begin a stop
    string. The text ends before the first stop string after the prefix.

    lazy: the whole text is the last piece, and tokens become text only then; without stop strings.
    """

    def __init__(self, tokenizer: Tokenizer, prefix: Sequence[int], stop: Sequence[str]) -> None:
        self.tokenizer, self.stop = tokenizer, stop
        self.ids = list(prefix)
        self.spelling = tokenizer.spelling(prefix)
        self.text = tokenizer.text_of(self.spelling)
        self.stopped = self.lazy = False
        self._prefix_length = len(self.text)
        self._sent = 0

    def begin(self) -> str:
        """Start; return the text of the prefix."""
        self._sent = self._prefix_length
        return self.text

    def add(self, *tokens: int) -> str:
        """Append tokens, several only without stop strings; return the new piece of text that later
        tokens cannot change."""
        self.ids += tokens
        if self.lazy:
            return ""
        self.spelling += self.tokenizer.spelling(tokens)
        self.text = self.tokenizer.text_of(self.spelling)
        written = self.written
        places = [place for stop in self.stop if (place := written.find(stop)) >= 0]
        if places:
            self.stopped = True
            self.text = self.text[: self._prefix_length + min(places)]
            return self._send(len(self.text))
        sure = written.removesuffix("\ufffd")
        return self._send(self._prefix_length + len(sure) - self._held(sure))

    def end(self) -> str:
        """Return the rest of the text. Call this after the last token."""
        if self.lazy:
            self.text = self.tokenizer.decode(self.ids)
        return self._send(len(self.text))

    @property
    def written(self) -> str:
        """The text so far without the prefix."""
        return self.text[self._prefix_length :]

    def _send(self, upto: int) -> str:
        new = self.text[self._sent : upto]
        self._sent = max(self._sent, upto)
        return new

    def _held(self, written: str) -> int:
        """The number of characters at the end of `written` that may be the beginning of a stop
        string."""
        sizes = (
            size
            for stop in self.stop
            for size in range(min(len(stop) - 1, len(written)), 0, -1)
            if written.endswith(stop[:size])
        )
        return max(sizes, default=0)


class SampledText:
    """One text while it is sampled, with the log-probabilities of its tokens."""

    def __init__(self, tokenizer: Tokenizer, prefix: Sequence[int], stop: Sequence[str]) -> None:
        self.stream = TextStream(tokenizer, prefix, stop)
        self.start = len(prefix)
        self.token_log_probs: list[float] = []
        self.ended = False  # by an end token

    @property
    def finished(self) -> bool:
        """Whether it has an end; else it is unfinished or was truncated."""
        return self.ended or self.stream.stopped

    def add(self, token: int, log_prob: float) -> str:
        """Append a token; return the new piece of text that later tokens cannot change."""
        self.token_log_probs.append(log_prob)
        if token == self.stream.tokenizer.eos_id:
            self.ended = True
            return ""
        return self.stream.add(token)

    def extend(self, tokens: Sequence[int], log_probs: Sequence[float]) -> str:
        """Append tokens, of which only the last may be the end token; without stop strings. Returns
        the new piece of text."""
        self.token_log_probs += log_probs
        self.ended = tokens[-1] == self.stream.tokenizer.eos_id
        return self.stream.add(*(tokens[:-1] if self.ended else tokens))

    def candidate(self, alpha: float) -> Candidate:
        """The text so far as a result."""
        stream, token_log_probs = self.stream, self.token_log_probs
        tokens = stream.ids[self.start :]
        total = sum(token_log_probs)
        return Candidate(
            text=stream.text,
            pieces=pieces_of(stream.tokenizer, tokens, ended=self.ended),
            score=total / max(len(token_log_probs), 1) ** alpha,
            log_probability=total,
            token_log_probs=token_log_probs,
            finished=self.finished,
            tokens=tokens,
        )


class SampledTexts:
    """The texts of one batch while they are sampled."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        prefixes: list[list[int]],
        stop: Sequence[str],
        trace: NoTrace = NO_TRACE,
        *,
        never: Sequence[int] = (),
        ends: Sequence[int] = (),
        special: int = 1,
    ) -> None:
        """never: tokens that are not sampled. special: the number of special tokens before each
        text."""
        self.model, self.tokenizer, self.prefixes = model, tokenizer, prefixes
        self.trace, self.never, self.ends, self.special = trace, never, ends, special
        self.texts = [SampledText(tokenizer, prefix, stop) for prefix in prefixes]

    def steps(
        self,
        sources: GenerationInputs | None,
        by: SamplingConfig,
        config: GenerationConfig,
        word_constraints: WordConstraints,
        seed: int,
        samples: Sequence[int],
    ) -> Iterator[list[str]]:
        """Sample token by token; yields the new piece of each text after each step."""
        tokenizer, model = self.tokenizer, self.model
        least, most = limits(model, self.prefixes, sources, config)
        count = int(most.max())
        numbers = torch.stack(
            [
                uniforms(seed, [*_source_of(sources, row), *prefix], sample, count)
                for row, (prefix, sample) in enumerate(zip(self.prefixes, samples, strict=True))
            ]
        )
        start = max(map(len, self.prefixes))
        extra = [
            constraint
            for _, constraint in word_constraints.token_constraints(
                tokenizer, config, start, special=self.special
            )
        ]
        extra += config.constraints(start)
        for step in draw(
            model, self.prefixes, sources, by, numbers, eos=tokenizer.eos_id,
            least=least.tolist(), most=most.tolist(), never=self.never, ends=self.ends, extra=extra,
            forced_end_ids=config.forced_end_ids,
            stop=lambda row, token: self.texts[row].finished, trace=self.trace,
        ):  # fmt: skip
            pieces = [""] * len(self.prefixes)
            for row, token, log_prob in zip(
                step.rows, step.tokens, step.token_log_probs, strict=True
            ):
                pieces[row] = self.texts[row].add(token, log_prob)
            yield pieces


def _source_of(sources: GenerationInputs | None, row: int) -> list[int]:
    if sources is None or sources.source is None:
        return []
    ids = sources.source[row]
    return (ids if sources.mask is None else ids[sources.mask[row]]).tolist()
