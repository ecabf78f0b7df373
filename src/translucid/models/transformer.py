"""The Transformer: encoder, decoder, encoder-decoder (Vaswani et al. 2017).

Shapes: x (batch, length, d_model). Every combination of positions, norm, placement and activation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models import initialise
from translucid.models.base import Decoder, Encoded, Encoder
from translucid.models.transformer_config import TransformerConfig as TransformerConfig
from translucid.parts import masks
from translucid.parts.attention import CrossAttention, Layout, SelfAttention
from translucid.parts.cache import DecoderState, EncoderOutput, KVCache, Slots, Timeline
from translucid.parts.embedding import Embedding
from translucid.parts.feedforward import make_feedforward
from translucid.parts.norms import EPSILON, NoNorm, RMSNorm, make_norm
from translucid.parts.positions import PositionOptions, make_positions
from translucid.parts.residual import Residual
from translucid.parts.tokens import InputPart, Tokens


class Layer(nn.Module):
    """Self-attention, perhaps cross-attention, feed-forward; each within its residual frame.

    With a parallel residual, attention and feed-forward both read x, and both are added to it
    (Wang & Komatsuzaki 2021, GPT-J; Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311).
    """

    def __init__(self, config: TransformerConfig, *, cross: bool) -> None:
        super().__init__()
        c = config
        self.parallel = c.parallel_residual
        qkv_bias, output_bias, feedforward_bias = (
            c.bias if bias is None else bias
            for bias in (c.qkv_bias, c.attention_output_bias, c.feedforward_bias)
        )
        self.self_attention = SelfAttention(
            c.d_model, c.heads, c.kv_heads, d_head=c.d_head, bias=qkv_bias,
            output_bias=output_bias, norms=_qk_norms(c), scaled=c.scaled, factor=c.score_factor,
            dropout=c.dropout,
        )  # fmt: skip
        self.self_attention_residual = _residual(c)
        self.cross_attention: CrossAttention | None = None
        if cross:
            self.cross_attention = CrossAttention(
                c.d_model, c.heads, c.kv_heads, d_head=c.d_head, bias=qkv_bias,
                output_bias=output_bias, scaled=c.scaled, dropout=c.dropout,
            )  # fmt: skip
            self.cross_attention_residual = _residual(c)
        self.feedforward = make_feedforward(
            c.d_model,
            c.d_ff or 4 * c.d_model,
            c.activation,
            bias=feedforward_bias,
            dropout=c.dropout,
        )
        self.feedforward_residual = _residual(c)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        mask: Tensor | None = None,
        *,
        encoder_output: tuple[Tensor, Tensor] | None = None,
        cross_layout: Layout = Layout(),  # noqa: B008 (frozen)
        cache: KVCache | None = None,
        slots: Slots | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        start = x
        frame, scope = self.self_attention_residual, trace.at("self_attention_residual")
        y = frame.enter(x, mask, scope)
        y = self.self_attention(y, layout, cache, slots, trace.at("self_attention"))
        x = frame.leave(x, y, mask, scope)

        if self.cross_attention is not None:
            frame, scope = self.cross_attention_residual, trace.at("cross_attention_residual")
            y = frame.enter(x, mask, scope)
            y = self.cross_attention(y, encoder_output, cross_layout, trace.at("cross_attention"))
            x = frame.leave(x, y, mask, scope)

        frame, scope = self.feedforward_residual, trace.at("feedforward_residual")
        y = frame.enter(start if self.parallel else x, mask, scope)
        y = self.feedforward(y, trace.at("feedforward"))
        return frame.leave(x, y, mask, scope)


def _residual(config: TransformerConfig) -> Residual:
    return Residual(norm_of(config), config.placement, config.dropout)


def norm_of(config: TransformerConfig) -> nn.Module:
    """A norm of the kind that the whole model has."""
    return make_norm(
        config.norm,
        config.d_model,
        eps=config.norm_eps,
        bias=config.norm_bias,
        count_padding=config.count_padding,
    )


def _qk_norms(config: TransformerConfig) -> tuple[RMSNorm, RMSNorm] | None:
    if not config.qk_norm:
        return None
    eps = config.norm_eps or EPSILON["rms"]
    return RMSNorm(config.head_size, eps), RMSNorm(config.head_size, eps)


class Stack(nn.Module):
    """Embedding, positions and layers: what encoder and decoder share."""

    def __init__(
        self,
        config: TransformerConfig,
        vocab: int,
        layers: int,
        *,
        cross: bool,
        causal: bool,
        parts: Mapping[str, InputPart] | None = None,
    ) -> None:
        super().__init__()
        self.causal, self.window = causal, config.window
        self.embedding = Embedding(vocab, config.d_model, scale=config.embedding_scale)
        for name, part in (parts or {}).items():
            self.add_module(name, part)
        self.positions = make_positions(
            config.positions,
            d_model=config.d_model,
            heads=config.heads,
            d_head=config.head_size,
            max_length=config.max_length,
            base=config.rotary_base,
            options=PositionOptions(
                config.rotary, config.rotary_fraction, config.sinusoid_layout,
                config.first_position, config.relative_buckets, config.relative_distance,
                both_ways=not causal,
            ),
        )  # fmt: skip
        self.embedding_norm = norm_of(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, cross=cross) for _ in range(layers))
        self.final_norm = norm_of(config) if config.has_final_norm else NoNorm()
        self.d_output = config.d_model
        initialise.transformer(self, layers)

    def blocks(self) -> list[Layer]:
        """The layers, with their type, which a ModuleList forgets."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def embed(
        self, ids: Tensor, positions: Tensor, trace: NoTrace, mask: Tensor | None = None
    ) -> Tensor:
        return self.place(self.embedding(ids, trace.at("embedding")), positions, trace, mask)

    def place(
        self, x: Tensor, positions: Tensor, trace: NoTrace, mask: Tensor | None = None
    ) -> Tensor:
        """The vectors of tokens, told where they stand."""
        x = self.positions.add(x, positions, trace.at("positions"))
        if self.embedding_norm is not None:
            x = self.embedding_norm(x, mask, trace.at("embedding_norm"))
        return self.dropout(x)

    def through(
        self,
        x: Tensor,
        layout: Layout,
        mask: Tensor | None,
        trace: NoTrace,
        *,
        encoder_output: EncoderOutput | None = None,
        caches: Sequence[KVCache] | None = None,
        slots: Slots | None = None,
    ) -> Tensor:
        """All layers, one after the other."""
        hidden = None
        if encoder_output is not None and encoder_output.mask is not None:
            read = encoder_output.mask
            hidden = masks.seen(read if mask is None else mask, read)[:, None]
        for i, layer in enumerate(self.layers):
            x = layer(
                x,
                layout,
                mask,
                encoder_output=None if encoder_output is None else encoder_output.projected[i],
                cross_layout=Layout(hidden),
                cache=None if caches is None else caches[i],
                slots=slots,
                trace=trace.at(f"layers.{i}"),
            )
        return self.final_norm(x, mask, trace.at("final_norm"))

    def layout(self, positions: Tensor, mask: Tensor | None, trace: NoTrace) -> Layout:
        """For a whole sequence at once."""
        slots = torch.arange(positions.shape[1], device=positions.device)
        seen = None if mask is None else masks.seen(mask, mask)
        return self._layout(positions, positions, slots, slots, seen, trace)

    def step_layout(self, timeline: Timeline, slots: Slots, trace: NoTrace) -> Layout:
        """For the newest tokens, which see the slots in use."""
        keys = torch.arange(slots.extent, device=slots.index.device)
        positions = timeline.positions[:, : slots.extent]
        newest = timeline.positions.index_select(1, slots.index)
        seen = None
        if not timeline.everything_seen or slots.index.shape[0] > 1:
            seen = timeline.seen[:, :, : slots.extent].repeat_interleave(
                slots.index.shape[0] // timeline.beams, dim=1
            )  # (sources, beams * queries, slots)
        layout = self._layout(newest, positions, slots.index, keys, seen, trace)
        return replace(layout, causal=False, blind=not timeline.full)

    def _layout(
        self,
        queries: Tensor,
        keys: Tensor,
        query_slots: Tensor,
        key_slots: Tensor,
        seen: Tensor | None,
        trace: NoTrace,
    ) -> Layout:
        """seen: (batch, queries or 1, keys)."""
        angles = self.positions.angles(queries, trace.at("positions"))
        bias = self.positions.bias(queries, keys, trace.at("positions"))
        scope = trace.at("masks")
        if seen is None and self.window is None and not scope.wants("causal"):
            return Layout(causal=self.causal, bias=bias, angles=angles)

        attention_mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=queries.device)
        if self.causal:
            attention_mask = scope("causal", masks.causal(query_slots, key_slots)[None, None])
        if self.window is not None:
            attention_mask = attention_mask & scope(
                "window", masks.window(queries, keys, self.window)
            )
        if seen is not None:
            attention_mask = attention_mask & scope("padding", seen[:, None])
        return Layout(attention_mask, bias=bias, angles=angles)


class TransformerEncoder(Encoder, Stack):
    """Every token sees every token of its text."""

    packs = True

    def __init__(self, config: TransformerConfig, parts: Mapping[str, InputPart]) -> None:
        Stack.__init__(
            self, config, config.vocab, config.layers, cross=False, causal=False, parts=parts
        )

    def forward(self, tokens: Tokens, trace: NoTrace = NO_TRACE) -> Encoded:
        mask = tokens.mask
        positions = masks.token_positions(tokens.ids, mask)
        x = self.place(self.look_up(tokens, trace), positions, trace, mask)
        return Encoded(self.through(x, self.layout(positions, mask, trace), mask, trace), mask)


class TransformerDecoder(Decoder, Stack):
    """Every token sees itself and the tokens before it, and the encoder's output, if any."""

    def __init__(self, config: TransformerConfig) -> None:
        cross = config.shape == "encoder-decoder"
        vocab = config.target_vocab or config.vocab
        Stack.__init__(
            self, config, vocab, config.decoder_layers or config.layers, cross=cross, causal=True
        )

    def project(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> EncoderOutput:
        attentions = [layer.cross_attention for layer in self.blocks()]
        return EncoderOutput([a.project(encoded.outputs) for a in attentions if a], encoded.mask)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        encoder_output: EncoderOutput | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Encoded:
        positions = masks.token_positions(ids, mask)
        x = self.embed(ids, positions, trace, mask)
        layout = self.layout(positions, mask, trace)
        return Encoded(self.through(x, layout, mask, trace, encoder_output=encoder_output), mask)

    def start(
        self, rows: int, capacity: int, encoder_output: EncoderOutput | None = None
    ) -> DecoderState:
        self.positions.check(capacity - 1)
        if encoder_output is not None:  # every step reads it: head by head, in a run
            heads = [
                (keys.contiguous(), values.contiguous())
                for keys, values in encoder_output.projected
            ]
            encoder_output = replace(encoder_output, projected=heads)
        like = self.embedding.table.weight
        attentions = [layer.self_attention for layer in self.blocks()]
        caches = [KVCache(rows, a.kv_heads, capacity, a.d_head, like) for a in attentions]
        return DecoderState(
            caches, timeline=Timeline(rows, capacity, like.device), encoder_output=encoder_output
        )

    def step(
        self,
        tokens: Tensor,
        state: DecoderState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        timeline = state.timeline
        assert timeline is not None, "the state was started by another kind of model"
        slots = timeline.advance(tokens, mask)
        state.length += tokens.shape[1]
        # The beams of a source are more queries of it: they share its encoder output and its cache.
        folded = (tokens.shape[0] // state.beams, state.beams * tokens.shape[1])
        mask = None if mask is None else mask.view(folded)
        positions = timeline.positions.index_select(1, slots.index)
        x = self.embed(tokens.reshape(folded), positions, trace, mask)
        layout = self.step_layout(timeline, slots, trace)
        caches = [cache for cache in state.layers if isinstance(cache, KVCache)]
        outputs = self.through(
            x, layout, mask, trace, encoder_output=state.encoder_output, caches=caches, slots=slots
        )
        return outputs.view(*tokens.shape, -1)  # (rows, queries, d_model)
