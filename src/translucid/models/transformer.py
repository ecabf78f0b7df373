"""The Transformer: encoder, decoder, encoder-decoder (Vaswani et al. 2017).

Shapes: x (batch, length, d_model).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, Edit, NoTrace
from translucid.models import initialise
from translucid.models.base import Decoder, Encoded, Encoder
from translucid.models.transformer_config import TransformerConfig as TransformerConfig
from translucid.parts import masks
from translucid.parts.attention import CrossAttention, Layout, MultiHead, SelfAttention
from translucid.parts.cache import DecoderState, EncoderOutput, KVCache, Slots, Timeline
from translucid.parts.computation import Index, Scope
from translucid.parts.embedding import Embedding, InputPart, Tokens
from translucid.parts.expression import Expression
from translucid.parts.feedforward import make_feedforward
from translucid.parts.norms import EPSILON, NoNorm, Norm, Residual, RMSNorm, make_norm
from translucid.parts.positions import POSITIONS, PositionSetup
from translucid.parts.switch import Kind, Switch, in_words, switches_of

# The sub-layers of a layer in order, and their readable names.
SUBLAYERS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feedforward": "feed-forward",
}


class Layer(nn.Module):
    """Self-attention, optional cross-attention and a feed-forward network, each with a residual
    connection.

    With a parallel residual, attention and feed-forward both read x, and both are added to it (Wang
    & Komatsuzaki 2021, GPT-J; Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311).
    """

    decode_slots = ("layer",)

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
        d_ff = c.d_ff or 4 * c.d_model
        self.feedforward = make_feedforward(
            c.d_model, d_ff, c.activation, bias=feedforward_bias, dropout=c.dropout
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

    def frames(self) -> dict[str, Residual]:
        """The residual connection of each sub-layer, by the name of the sub-layer."""
        frames = {name: getattr(self, f"{name}_residual", None) for name in SUBLAYERS}
        return {name: frame for name, frame in frames.items() if isinstance(frame, Residual)}

    @property
    def output_point(self) -> str:
        return f"feedforward_residual.{self.feedforward_residual.output_point}"

    def feeds(self, part: str, at: Scope) -> str | None:
        frames, (name, *rest) = self.frames(), part.split(".")
        sublayer = name.removesuffix("_residual")
        frame, own = frames[sublayer], f"{sublayer}_residual"
        is_norm = rest[:1] == ["norm"]
        if name == sublayer and frame.placement == "pre":
            return at.name(f"{own}.norm.output")
        if is_norm and frame.placement == "post":
            return at.name(f"{own}.sum")
        if name == sublayer or is_norm:
            return at.name(f"{'self_attention_residual' if self.parallel else own}.skip")
        place = list(frames).index(sublayer)
        if place == 0:
            return None  # the input of the layer
        earlier = list(frames)[place - 1]
        return at.name(f"{earlier}_residual.{frames[earlier].output_point}")

    def switches(self, path: str, *, biased: bool = False) -> Iterator[Switch]:
        """All switches of the layer. biased: whether positions are added to the scores of
        self-attention."""
        place, number = in_words(path), int(path.rpartition(".")[2])
        frames = self.frames()
        branches: dict[str, Edit] = {f"{path}.{name}_residual.branch": 0.0 for name in frames}
        yield Switch(path, place, "layers", branches, layer=number)
        for name, frame in frames.items():
            scope, block = f"{path}.{name}", SUBLAYERS[name]
            norm = f"{scope}_residual.norm"
            if isinstance(frame.norm, Norm) and (edit := frame.norm.off(norm)):
                where = "before" if frame.placement == "pre" else "after"
                yield Switch(norm, f"{place}, norm {where} {block}", "norms", edit, layer=number)
            kind: Kind = "feedforward" if name == "feedforward" else "attention"
            off: dict[str, Edit] = {f"{scope}_residual.branch": 0.0}
            yield Switch(scope, f"{place}, {block}", kind, off, layer=number)
            sublayer = self.get_submodule(name)
            yield from switches_of(sublayer, scope)
            if isinstance(sublayer, MultiHead):
                last = "biased" if biased and name == "self_attention" else "scaled"
                yield Switch(
                    f"{scope}.pattern", f"{place}, {block} attends uniformly", "patterns",
                    {f"{scope}.{last}": 0.0}, layer=number,
                )  # fmt: skip
                which = f"{block} " if self.cross_attention is not None else ""
                stack = in_words(path.rpartition(".layers.")[0])
                for head in range(sublayer.heads):
                    yield Switch(
                        f"{scope}.head.{head}", f"{place}, {which}head {head}", "heads",
                        {f"{scope}.mixed": partial(_without_head, head)},
                        part=f"{stack} {block}", layer=number, head=head,
                    )  # fmt: skip


def _without_head(head: int, mixed: Tensor) -> Tensor:
    """Set the output of one head to 0. mixed: (batch, heads, queries, d_head)."""
    mixed = mixed.clone()
    mixed[:, head] = 0
    return mixed


def _residual(config: TransformerConfig) -> Residual:
    return Residual(norm_of(config), config.placement, config.dropout)


def norm_of(config: TransformerConfig) -> Norm:
    """Build a norm of the kind that the configuration selects."""
    c = config
    return make_norm(
        c.norm, c.d_model, eps=c.norm_eps, bias=c.norm_bias, count_padding=c.count_padding
    )


def _qk_norms(config: TransformerConfig) -> tuple[RMSNorm, RMSNorm] | None:
    if not config.qk_norm:
        return None
    eps = config.norm_eps or EPSILON["rms"]
    return RMSNorm(config.head_size, eps), RMSNorm(config.head_size, eps)


NORMS = {"embedding_norm": "norm of the embedding", "final_norm": "last norm"}


class Stack(nn.Module):
    """The embedding, positions and layers of an encoder or decoder."""

    output_point = "final_norm.output"

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
        self.positions = POSITIONS[config.positions].make(
            PositionSetup(
                d_model=config.d_model, heads=config.heads, d_head=config.head_size,
                max_length=config.max_length, base=config.rotary_base, rotary=config.rotary,
                fraction=config.rotary_fraction, layout=config.sinusoid_layout,
                first=config.first_position, buckets=config.relative_buckets,
                distance=config.relative_distance, both_ways=not causal,
            )
        )  # fmt: skip
        self.embedding_norm = norm_of(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, cross=cross) for _ in range(layers))
        self.final_norm = norm_of(config) if config.has_final_norm else NoNorm()
        self.d_output = config.d_model
        initialise.transformer(self, layers)

    def blocks(self) -> list[Layer]:
        """The layers as a list, with their type, which a ModuleList does not give."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def embed(
        self, ids: Tensor, positions: Tensor, trace: NoTrace, mask: Tensor | None = None
    ) -> Tensor:
        return self.place(self.embedding(ids, trace.at("embedding")), positions, trace, mask)

    def place(
        self, x: Tensor, positions: Tensor, trace: NoTrace, mask: Tensor | None = None
    ) -> Tensor:
        """Add positions to token vectors; then apply the norm of the embeddings, if there is one,
        and dropout."""
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
        """Apply all layers and the final norm."""
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
        """The layout for attention within a whole sequence."""
        slots = torch.arange(positions.shape[1], device=positions.device)
        seen = None if mask is None else masks.seen(mask, mask)
        return self._layout(positions, positions, slots, slots, seen, trace)

    def step_layout(self, timeline: Timeline, slots: Slots, trace: NoTrace) -> Layout:
        """The layout for new tokens, which attend to the slots in use."""
        keys = torch.arange(slots.extent, device=slots.index.device)
        positions = timeline.positions[:, : slots.extent]
        newest = timeline.positions.index_select(1, slots.index)
        queries, seen = slots.index.shape[0], None
        if timeline.everything_seen and 1 < queries == slots.extent:
            # A whole prompt: the kernel applies the causal mask, which has queries² elements.
            return self._layout(newest, positions, slots.index, keys, None, trace)
        if not timeline.everything_seen or queries > 1:
            seen = timeline.seen[:, :, : slots.extent].repeat_interleave(
                queries // timeline.beams, dim=1
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
        """Combine masks and positions into a layout. queries, keys: positions; query_slots,
        key_slots: slots; seen: padding mask (batch, queries or 1, keys)."""
        angles = self.positions.angles(queries, trace.at("positions"))
        bias = self.positions.bias(queries, keys, trace.at("positions"))
        scope = trace.at("masks")
        if seen is None and self.window is None and not scope.wants("causal"):
            return Layout(causal=self.causal, bias=bias, angles=angles)

        attention_mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=queries.device)
        if self.causal:
            attention_mask = scope("causal", masks.causal(query_slots, key_slots)[None, None])
        if self.window is not None:
            window = masks.window(queries, keys, self.window)
            attention_mask = attention_mask & scope("window", window)
        if seen is not None:
            attention_mask = attention_mask & scope("padding", seen[:, None])
        return Layout(attention_mask, bias=bias, angles=angles)

    def embedded(self, at: Scope, before: str = "") -> str:
        """The full name of the trace point that holds the token vectors; defined by `Encoder` and
        `Decoder`."""
        raise NotImplementedError

    def feeds(self, part: str, at: Scope) -> str | None:
        match part.split("."):
            case ["layers", number, *_]:
                return self._into_layer(int(number), at)
            case ["final_norm"]:
                return self._into_layer(len(self.layers), at)
            case ["embedding_norm"]:
                return self._placed(at)
            case ["positions"]:
                return self.embedded(at)
        return self.embedded(at, before=part)

    def _into_layer(self, number: int, at: Scope) -> str:
        """The full name of the trace point that the layer with this number reads. If `number`
        is the number of layers, it is the point that holds the output of the last layer."""
        if number:
            return at.part(f"layers.{number - 1}").output_name
        normed = self.embedding_norm is not None
        return at.name("embedding_norm.output") if normed else self._placed(at)

    def _placed(self, at: Scope) -> str:
        """The full name of the trace point that holds the token vectors after positions were
        added."""
        return at.name("positions.output") if at.has("positions.output") else self.embedded(at)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        return masks.terms(at, point, index, self.window)

    def switches(self, path: str) -> Iterator[Switch]:
        place = in_words(path)
        yield from self.positions.switches(f"{path}.positions")
        if self.causal:
            scope = f"{path}.masks.causal"
            name = f"{place} causal mask (later tokens are visible)"
            yield Switch(scope, name, "masks", {scope: torch.ones_like})
        if self.window is not None:
            scope = f"{path}.masks.window"
            name = f"{place} window (distant words are visible)"
            yield Switch(scope, name, "masks", {scope: torch.ones_like})
        if self.blocks()[0].self_attention.scaled:
            name = f"{place} scale = 1 (scores are not divided by sqrt(d_head))"
            edit: dict[str, Edit] = {f"{path}.layers.*_attention.scale": 1.0}
            yield Switch(f"{path}.scale", name, "scale", edit)
        for name, part in self.named_children():
            scope = f"{path}.{name}"
            if isinstance(part, Norm):
                if off := part.off(scope):
                    yield Switch(scope, f"{place}, {NORMS[name]}", "norms", off)
            elif name == "layers":
                for number, layer in enumerate(self.blocks()):
                    biased = self.positions.point == "bias"
                    yield from layer.switches(f"{scope}.{number}", biased=biased)
            elif name != "positions":
                yield from switches_of(part, scope)


class TransformerEncoder(Encoder, Stack):
    """A Transformer encoder: every token attends to every token of its text."""

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
    """A Transformer decoder: every token attends to itself, to earlier tokens and to the encoder's
    output, if any."""

    decode_slots = ("decoder",)

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
        if encoder_output is not None:  # contiguous, since every step reads it head by head
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
        assert timeline is not None, "the state was created by a different kind of model"
        slots = timeline.advance(tokens, mask)
        state.length += tokens.shape[1]
        # The beams of a source become additional queries, which share its encoder output and cache.
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
