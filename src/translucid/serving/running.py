"""A request while it is read and generated: collects its tokens, and sends its events."""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import Hypothesis
from translucid.generate.decoded import Candidate, Decoded, shown
from translucid.generate.sampler import SampledText
from translucid.parts.activations import as_log_probs
from translucid.serving.job import Failed, Finished, Piece, PromptRead, Reason, TokenChoice
from translucid.serving.request import Request
from translucid.serving.ticket import Ticket, internal
from translucid.serving.tracing import RequestedTrace, trace_of_output
from translucid.tasks.generator import NOTHING, TREE_NOTE


class Running:
    """One request of text generation that has been admitted."""

    def __init__(self, ticket: Ticket, request: Request, trace_values: int) -> None:
        """trace_values: the maximum number of values in the trace of a request."""
        self.ticket, self.request, self.tokenizer = ticket, request, request.tokenizer
        self.trace_values = trace_values
        self.eos = self.tokenizer.eos_id
        job = request.job
        self.heard: list[TokenChoice] = []  # the prompt's tokens, with `echo`
        if job.echo and not request.special:  # nothing predicts the first token
            first = request.prefix[0]
            self.heard.append(TokenChoice(first, shown(self.tokenizer, first), None))
        self.texts: list[SampledText] = []
        if job.sampling is not None:
            count = range(job.n)
            self.texts = [SampledText(self.tokenizer, request.prefix, job.stop) for _ in count]
            for text in self.texts:
                text.stream.begin()
                text.stream.lazy = job.pieces == "text" and not job.stop
        self.reasons: dict[int, Reason] = {}  # of the texts that have ended
        self.tree = request.tree()

    @property
    def ending(self) -> Reason | None:
        """Why the request must end now, if it must."""
        if self.ticket.cancelled:
            return "cancelled"
        return "deadline" if self.ticket.late else None

    def hear(self, logits: Tensor, start: int) -> None:
        """Store the log-probabilities of prompt tokens. logits: (tokens, vocab); the first row
        predicts the prompt's token `start`."""
        request, ids = self.request, self.request.prefix
        log_probs = as_log_probs(logits)
        for place in range(max(start, request.special, 1), start + len(logits)):
            at = log_probs[place - start]
            self.heard.append(self._choice(ids[place], float(at[ids[place]]), at))

    def prompt_is_read(self) -> None:
        if self.request.job.echo:
            self.ticket.send(PromptRead(self.heard))

    def add(self, sample: int, token: int, log_prob: float, log_probs: Tensor) -> bool:
        """Append a token to a sample. log_probs: of all tokens, for `top_logprobs`. Returns whether
        the sample has ended."""
        piece = self.texts[sample].add(token, log_prob)
        choice = self._choice(token, log_prob, log_probs)
        return self._grown(sample, piece, [choice])

    def extend(self, sample: int, tokens: Sequence[int], log_probs: Sequence[float]) -> bool:
        """Append tokens to a sample, up to its end. Returns whether it has ended."""
        text, job = self.texts[sample], self.request.job
        if job.pieces == "token" or job.stop:
            for token, log_prob in zip(tokens, log_probs, strict=True):
                piece = text.add(token, log_prob)
                if self._grown(sample, piece, [self._choice(token, log_prob, None)]):
                    return True
            return False
        count = min(len(tokens), self.request.most - len(text.token_log_probs))
        if (eos := self.eos) in tokens[:count]:
            count = tokens.index(eos) + 1
        piece = text.extend(tokens[:count], log_probs[:count])
        choices: list[TokenChoice] = []
        if job.pieces == "tokens":
            pairs = zip(tokens[:count], log_probs[:count], strict=True)
            choices = [self._choice(token, log_prob, None) for token, log_prob in pairs]
        return self._grown(sample, piece, choices)

    def _grown(self, sample: int, piece: str, choices: Sequence[TokenChoice]) -> bool:
        """Send what was appended to a sample. Returns whether the sample has ended."""
        text = self.texts[sample]
        if self.request.job.pieces != "text":
            self.ticket.send(Piece(sample, piece, choices))
        if not text.finished and len(text.token_log_probs) < self.request.most:
            return False
        self.end(sample, "stop" if text.finished else "length")
        return True

    def end(self, sample: int, reason: Reason) -> None:
        """End a sample; send the rest of its text. After the last one, send the result."""
        self.reasons[sample] = reason
        rest = self.texts[sample].stream.end()
        if self.request.job.pieces == "text":
            rest = self.texts[sample].stream.written
        if rest:
            self.ticket.send(Piece(sample, rest, []))
        if len(self.reasons) == len(self.texts):
            alpha = self.request.config.alpha
            candidates = [text.candidate(alpha) for text in self.texts]
            reasons = [self.reasons[number] for number in range(len(self.texts))]
            self._finish(Decoded(self.source, candidates), reasons)

    def finish_search(self, hypotheses: Sequence[Hypothesis], reason: Reason | None = None) -> None:
        """Send the result of a beam search. reason: why it ended early."""
        request = self.request
        decoded = request.generator.decoded(self.source, request.item, hypotheses, self.tree)
        if request.tree_changes_search:
            decoded = replace(decoded, note=TREE_NOTE)
        reasons = [reason or ("stop" if one.finished else "length") for one in decoded.texts]
        self._finish(decoded, reasons)

    def nothing(self) -> None:
        """Send the result of a request that needs no steps."""
        texts: list[Candidate] = []
        if self.request.empty:
            texts = [NOTHING] * self.request.sources
        self._finish(Decoded(self.source, texts), ["stop"] * len(texts))

    def stopped(self, reason: Reason) -> None:
        """Send the result of a request that has no texts yet."""
        self._finish(Decoded(self.source, []), [reason])

    @property
    def source(self) -> str:
        """The prompt or source as text."""
        prompt = self.request.job.prompt
        return prompt if isinstance(prompt, str) else self.tokenizer.decode(prompt)

    def _finish(self, decoded: Decoded, reasons: Sequence[Reason]) -> None:
        count = sum(len(text.token_log_probs) for text in decoded.texts)
        trace = None
        if self.request.job.trace and not {*reasons} & {"cancelled", "deadline"}:
            try:
                trace = self._trace(decoded)
            except Exception as error:  # must not end the other requests of the batch
                self.ticket.send(Failed(internal(error)))
                return
        self.ticket.send(Finished(decoded, reasons, self.request.prompt_tokens, count, trace))

    def _trace(self, decoded: Decoded) -> RequestedTrace:
        request, job = self.request, self.request.job
        if not decoded.texts and not job.only_prompt:
            raise InputError("trace: the constraints allow no output, so there is nothing to trace")
        text = decoded.texts[0] if decoded.texts else NOTHING
        trace = RequestedTrace(job.trace, job.edit, self.trace_values)
        return trace_of_output(request.generator, request.item, text, trace)

    def _choice(self, token: int, log_prob: float, log_probs: Tensor | None) -> TokenChoice:
        top: Sequence[tuple[int, str, float]] = ()
        if log_probs is not None and (count := self.request.job.top_logprobs):
            top = TopTokens(self.tokenizer, log_probs, count)
        return TokenChoice(token, shown(self.tokenizer, token), log_prob, top)


class TopTokens(Sequence[tuple[int, str, float]]):
    """The most probable tokens at a position: id, text and log-probability. Stored as numbers,
    which need a tenth of the memory: clients may ask for many and read them slowly."""

    __slots__ = ("_ids", "_log_probs", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, log_probs: Tensor, count: int) -> None:
        """log_probs: (vocab,)"""
        best, ids = log_probs.topk(min(count, len(log_probs)))
        possible = int((best > -torch.inf).sum())
        self._tokenizer = tokenizer
        self._ids = array("i", ids[:possible].tolist())
        self._log_probs = array("f", best[:possible].tolist())

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        token = self._ids[place]
        return token, shown(self._tokenizer, token), self._log_probs[place]
