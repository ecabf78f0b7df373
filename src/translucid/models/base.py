"""Three shapes of sequence model, the same for recurrent networks and Transformers.

    shape            call                   decoding
    encoder          model(ids, mask)       none
    decoder          model(ids, mask)       start(inputs, capacity), step(tokens, state)
    encoder-decoder  model(source, target)  start(inputs, capacity), step(tokens, state)

An encoder may have further inputs, which are passed by name: model(ids, mask, characters=...).

Shapes: ids (batch, length); `mask` is the token mask, True at real tokens, None without padding.
Each family (recurrent, Transformer) supplies an Encoder and a Decoder. The module `autoregressive`
describes decoding.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Generic

import torch
from torch import Tensor, nn

from translucid.core.config import Config
from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models import inputs
from translucid.models.autoregressive import GenerationInputs, S
from translucid.models.heads import Encoded as Encoded
from translucid.models.heads import Head, make_head
from translucid.models.inputs import check_generation
from translucid.models.sequence_config import SequenceConfig, TextConfig
from translucid.parts.cache import DecoderState, EncoderOutput
from translucid.parts.computation import Scope
from translucid.parts.embedding import Embedding, InputPart, LanguageHead, Tokens
from translucid.parts.ngrams import NGramFeatures


class Encoder(nn.Module):
    """Reads a whole sequence: `encoder(tokens, trace)` returns Encoded."""

    packs = False  # whether a row can hold several texts (sequence packing)
    d_output: int
    embedding: Embedding

    def input_parts(self) -> dict[str, InputPart]:
        """The parts that contribute to token vectors in addition to the embedding, by name."""
        parts = self.named_children()
        return {name: part for name, part in parts if isinstance(part, InputPart)}

    def check(self, tokens: Tokens) -> None:
        """Raise an error if an input that an input part needs is missing or wrong, or if an input
        is passed that no part needs."""
        parts = self.input_parts()
        needing = [name for name, part in parts.items() if part.needs]
        for name in tokens.more:
            if name not in needing:
                reads = " and ".join(("ids", *needing))
                raise InputError(
                    f"got {name}, but this model reads only {reads}; omit {name}, or build a model "
                    f"that reads {name}"
                )
        for name, part in parts.items():
            part.check(tokens, tokens.more.get(name))

    def look_up(self, tokens: Tokens, trace: NoTrace) -> Tensor:
        """The vector of each token (batch, length, d_model): its embedding, changed by the input
        parts."""
        parts = self.input_parts()
        for part in parts.values():
            tokens = part.read(tokens)
        x: Tensor = self.embedding(tokens.ids, trace.at("embedding"))
        for name, part in parts.items():
            x = part.add(x, tokens.more.get(name), trace.at(name))
        return x

    def embedded(self, at: Scope, before: str = "") -> str:
        """The full name of the trace point that holds the token vectors after all input parts or,
        if `before` is the name of an input part, after the parts that precede it."""
        parts = self.input_parts()
        names = list(parts)[: list(parts).index(before)] if before else list(parts)
        added = [name for name in names if parts[name].adds()]
        return at.name(f"{added[-1]}.sum") if added else at.part("embedding").output_name


class Decoder(nn.Module):
    """Reads a sequence from left to right, optionally with the output of an encoder.

    `decoder(ids, mask, encoder_output, trace)` reads a whole sequence and returns Encoded; `start`
    and `step` read it step by step.
    """

    d_output: int
    embedding: Embedding

    def project(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> EncoderOutput:
        """Project the encoder's output once, for use at every step."""
        raise NotImplementedError

    def start(
        self, rows: int, capacity: int, encoder_output: EncoderOutput | None = None
    ) -> DecoderState:
        """Create a state for `rows` rows of up to `capacity` tokens each."""
        raise NotImplementedError

    def step(
        self,
        tokens: Tensor,
        state: DecoderState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Return outputs (rows, queries, d_output) for new tokens (rows, queries), and update the
        state."""
        raise NotImplementedError

    def embedded(self, at: Scope, before: str = "") -> str:
        """The full name of the trace point that holds the token vectors. A decoder has no input
        parts."""
        return at.part("embedding").output_name


class Network(nn.Module):
    """A model of any family, built from `config`."""

    config: Config
    fits: ClassVar[bool] = False  # whether it is trained by `fit` instead of gradient steps

    def fit(self, batches: Sequence[tuple[Mapping[str, Tensor], Tensor]]) -> None:
        """Learn from all examples at once. batches: for each batch, the inputs by name, and the
        targets."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise an error if loaded weights are invalid in a way that their shapes do not show."""

    def summary(self, length: int = 128) -> str:
        """A table of the model's parts as text: shape, number and fraction of parameters, and FLOPs
        per token at this length."""
        from translucid.models.summary import table  # on demand: only this method needs it

        return table(self, length)

    @property
    def parameters_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    @property
    def output_point(self) -> str:
        """The trace point that holds the network's output."""
        raise InputError(
            f"{type(self).__name__} does not define output_point; add this property: the name of "
            "the trace point that holds its outputs"
        )


class EncoderModel(Network):
    """Labels a text or each of its tokens, or computes their vectors."""

    config: SequenceConfig

    def __init__(
        self,
        config: SequenceConfig,
        encoder: Encoder,
        head: Head,
        ngrams: NGramFeatures | None = None,
    ) -> None:
        """ngrams: n-gram features whose scores are added to the head's."""
        super().__init__()
        self.config, self.encoder, self.head, self.ngrams = config, encoder, head, ngrams

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
        **more: Tensor | None,
    ) -> Tensor:
        """Compute the head's outputs. more: inputs of further input parts. If the config has
        `characters`, this input is needed: (batch, length, characters), each byte of a word + 1,
        and 0 after the end of the word."""
        inputs.check_trace(trace)
        inputs.check_ids(ids, mask, self.config.vocab)
        known = {name: value for name, value in more.items() if value is not None}
        tokens = Tokens(ids, mask, known)
        self.encoder.check(tokens)
        logits = self.head(self.encoder(tokens, trace.at("encoder")), trace.at("head"))
        return logits if self.ngrams is None else self.ngrams(logits, ids, mask, trace.at("ngrams"))

    @property
    def output_point(self) -> str:
        return f"head.{self.head.output_point}" if self.ngrams is None else "ngrams.sum"

    def feeds(self, part: str, at: Scope) -> str | None:
        if part == "ngrams":
            return at.part("head").output_name
        return at.part("encoder").output_name if part == "head" else None


class AutoregressiveNetwork(Network, Generic[S]):
    """An `AutoregressiveModel` with weights: one network or an ensemble."""

    config: TextConfig
    vocab: int  # vocabulary size of the generated text

    @property
    def max_length(self) -> int | None:
        return self.config.context_length

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def start(self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE) -> S:
        raise NotImplementedError

    def step(
        self, tokens: Tensor, state: S, mask: Tensor | None = None, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        raise NotImplementedError

    def read(
        self, tokens: Tensor, state: S, mask: Tensor | None = None, trace: NoTrace = NO_TRACE
    ) -> None:
        """`step` for tokens after which the next token is known, so that no logits are needed."""
        self.step(tokens, state, mask, trace)


def make_language_head(config: SequenceConfig, decoder: Decoder, vocab: int) -> LanguageHead:
    """Build the head that computes logits from a decoder's outputs."""
    tied = decoder.embedding if config.tied else None
    return LanguageHead(
        decoder.d_output, vocab, bias=config.head_bias, scale=config.logit_scale, tied=tied
    )


class DecoderNetwork(AutoregressiveNetwork[DecoderState]):
    """A network with one decoder and its head."""

    config: SequenceConfig
    decoder: Decoder
    head: nn.Module

    def step(
        self,
        tokens: Tensor,
        state: DecoderState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Return logits (rows, queries, vocab) for new tokens: one per row, or a whole prompt."""
        return self.head(self._outputs(tokens, state, mask, trace), trace.at("head"))

    def read(
        self,
        tokens: Tensor,
        state: DecoderState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> None:
        if trace is NO_TRACE:  # the logits of a prompt need more memory than anything else
            self._outputs(tokens, state, mask, trace)
        else:
            self.step(tokens, state, mask, trace)

    def _outputs(
        self, tokens: Tensor, state: DecoderState, mask: Tensor | None, trace: NoTrace
    ) -> Tensor:
        inputs.check_trace(trace)
        inputs.check_ids(tokens, mask, self.vocab, "tokens")
        if not isinstance(self.head, LanguageHead):
            raise InputError(
                f"a model with head {self.config.head} cannot generate text; call model(ids)"
            )
        return self.decoder.step(tokens, state, mask, trace.at("decoder"))

    @property
    def output_point(self) -> str:
        return f"head.{self.head.output_point}"

    def feeds(self, part: str, at: Scope) -> str | None:
        return at.part("decoder").output_name if part == "head" else None


class DecoderModel(DecoderNetwork):
    """Reads a text from left to right. The head makes it a language model, a causal classifier or a
    causal tagger."""

    def __init__(self, config: SequenceConfig, decoder: Decoder) -> None:
        super().__init__()
        self.config, self.decoder, self.vocab = config, decoder, config.vocab
        self.head = (
            make_language_head(config, decoder, config.vocab)
            if config.head == "language"
            else make_head(
                config.head, decoder.d_output, config.outputs, config.pooling, config.head_dense
            )
        )

    def forward(self, ids: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        inputs.check_trace(trace)
        inputs.check_ids(ids, mask, self.config.vocab)
        encoded = self.decoder(ids, mask, trace=trace.at("decoder"))
        read = encoded.outputs if isinstance(self.head, LanguageHead) else encoded
        return self.head(read, trace.at("head"))

    def start(
        self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE
    ) -> DecoderState:
        """Create a state for texts of up to `capacity` tokens; pass it to `step`."""
        check_generation(inputs, with_source=False)
        return self.decoder.start(inputs.rows, capacity)


class EncoderDecoderModel(DecoderNetwork):
    """Reads one text and generates another."""

    def __init__(self, config: SequenceConfig, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.config, self.encoder, self.decoder = config, encoder, decoder
        if config.target_vocab is None:
            decoder.embedding = encoder.embedding
        self.vocab = config.target_vocab or config.vocab
        self.head = make_language_head(config, decoder, self.vocab)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Logits (batch, target length, vocab). Each position sees the target up to and including
        its own token.

        With a Transformer, a row may hold several pairs. Then both masks are torch.long: they hold
        the number of each token's pair, starting at 1, and 0 at padding.
        """
        packed = self.encoder.packs and inputs.are_packed(source_mask, target_mask)
        inputs.check_ids(target, target_mask, self.vocab, "target", packed=packed)
        encoder_output = self._read(source, source_mask, trace, packed=packed)
        encoded = self.decoder(target, target_mask, encoder_output, trace.at("decoder"))
        return self.head(encoded.outputs, trace.at("head"))

    def start(
        self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE
    ) -> DecoderState:
        """Read the sources; `step` can then add up to `capacity` target tokens to the state."""
        check_generation(inputs, with_source=True)
        assert inputs.source is not None
        encoder_output = self._read(inputs.source, inputs.mask, trace)
        return self.decoder.start(inputs.rows, capacity, encoder_output)

    def _read(
        self, source: Tensor, mask: Tensor | None, trace: NoTrace, *, packed: bool = False
    ) -> EncoderOutput:
        inputs.check_trace(trace)
        inputs.check_ids(source, mask, self.config.vocab, "source", packed=packed)
        encoded = self.encoder(Tokens(source, mask), trace.at("encoder"))
        return self.decoder.project(encoded, trace.at("decoder"))


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Set evaluation mode within the block, then restore the mode of every module. A network
    already in evaluation mode is not changed, so that threads can share it."""
    training = [module for module in network.modules() if module.training]
    if training:
        network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
