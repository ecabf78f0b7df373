"""Run all layers of a decoding step in one call of `fast.cpu_kernels`, without Python between the
layers. The plain counterpart is the loop over branches in `fast.decode_step`."""

import ctypes
from ctypes import c_long, c_void_p
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from translucid.fast import cpu_kernels
from translucid.fast.cpu_kernels import CompiledRows, attention_job, norm_job
from translucid.fast.packed_linear import of_rows
from translucid.models.transformer import Layer, TransformerDecoder
from translucid.parts.cache import DecoderState, KVCache
from translucid.parts.feedforward import FeedForward
from translucid.parts.norms import LayerNorm, RMSNorm

LINEAR, NORM, ATTEND_NEWEST, ATTEND_SOURCE = range(4)  # kinds of operations, as in the C


class LayerOperation(ctypes.Structure):
    _fields_ = (("kind", c_long), ("what", c_void_p), ("x", c_void_p), ("y", c_void_p))


class LayersAtOnce:
    """Runs all layers of a decoder that `fits`."""

    def __init__(self, decoder: TransformerDecoder, scales: list[tuple[float, float]]) -> None:
        self.decoder, self.scales = decoder, scales  # by layer: self- and cross-attention
        self.pre = decoder.blocks()[0].self_attention_residual.placement == "pre"
        self.of: list[Any] = []  # the inputs that the operations were prepared for
        self.held: list[Any] = []  # objects whose addresses the operations contain
        self.run = cpu_kernels.function("run_layers")

    @staticmethod
    def fits(decoder: TransformerDecoder) -> bool:
        """Whether the layers are packed (`PackedLinear` or int8), use ReLU, and have neither rotary
        positions nor norms of queries and keys."""
        layers = decoder.blocks()
        return (
            cpu_kernels.available()
            and not layers[0].parallel
            and decoder.positions.point != "angles"
            and all(map(_fits, layers))
        )

    def __call__(self, x: Tensor, state: DecoderState, seen: Tensor | None, start: int) -> Tensor:
        """The output for the newest tokens x (rows, d_model). The next call overwrites it."""
        of = [x.shape[0], seen, state.encoder_output, *_tensors(state)]
        if len(of) != len(self.of) or not all(map(is_, of[1:], self.of[1:])) or of[0] != self.of[0]:
            self._prepare(state, seen, x.shape)
            self.of = of
        self.x.copy_(x)
        rows, threads = x.shape[0], torch.get_num_threads()
        if not self.run(self.operations, len(self.operations), rows, start, threads):
            raise MemoryError(f"not enough memory for a step of {rows} rows")
        return self.h

    def _prepare(self, state: DecoderState, seen: Tensor | None, shape: torch.Size) -> None:
        """Prepare the operations for these tensors. The output of each operation is the input of
        the next one."""
        self.held, listed = [], []
        self.x = torch.empty(shape)
        self.h = torch.empty(shape) if self.pre else self.x

        def add(kind: int, what: ctypes.Structure, x: Tensor | None, y: Tensor | None) -> None:
            self.held += [what, x, y]
            addresses = (0 if part is None else part.data_ptr() for part in (x, y))
            listed.append(LayerOperation(kind, ctypes.addressof(what), *addresses))

        def multiply(layer: nn.Module, x: Tensor, *, relu: bool = False) -> Tensor:
            rows = of_rows(layer)
            assert isinstance(rows, CompiledRows)
            rows = rows.with_relu() if relu else rows
            self.held.append(rows)
            y = torch.empty(shape[0], rows.outputs)
            add(LINEAR, rows.layer, x, y)
            return y

        def normalise(branch: Tensor | None, norm: nn.Module) -> None:
            self.held.append(branch)
            add(NORM, norm_job(self.x, branch, self.h, norm, keep_sum=self.pre), None, None)

        def attend(kind: int, q: Tensor, keys: Tensor, values: Tensor, **options: Any) -> Tensor:
            mixed = torch.empty(q.shape)
            job, own = attention_job(q, keys, values, mixed, beams=state.beams, **options)
            self.held += [q, mixed, own, options]
            add(kind, job, None, None)
            return mixed

        layers = self.decoder.blocks()
        norms = [norm for layer in layers for norm in _norms(layer)]
        if self.pre:
            normalise(None, norms[0])
            norms = [*norms[1:], self.decoder.final_norm]
        following = iter(norms)
        for number, layer in enumerate(layers):
            of_self, of_cross = self.scales[number]
            cache, own, cross = state.layers[number], layer.self_attention, layer.cross_attention
            assert isinstance(cache, KVCache)
            widths = [n * own.d_head for n in (own.heads, own.kv_heads, own.kv_heads)]
            q, k, v = multiply(own.qkv, self.h).split(widths, 1)
            mixed = attend(
                ATTEND_NEWEST, q, cache.keys, cache.values, scale=of_self, seen=seen, new=(k, v, 0)
            )
            normalise(multiply(own.output, mixed), next(following))
            if cross is not None:
                assert state.encoder_output is not None
                mask, q = state.encoder_output.mask, multiply(cross.query, self.h)
                shown = None if mask is None else cpu_kernels.visible_source(mask, q)
                keys, values = state.encoder_output.projected[number]
                mixed = attend(ATTEND_SOURCE, q, keys, values, scale=of_cross, seen=shown, new=None)
                normalise(multiply(cross.output, mixed), next(following))
            alone = layer.feedforward
            assert isinstance(alone, FeedForward)
            wide = multiply(alone.expand, self.h, relu=True)
            normalise(multiply(alone.output, wide), next(following))
        if not self.pre and isinstance(self.decoder.final_norm, LayerNorm | RMSNorm):
            normalise(None, self.decoder.final_norm)
        self.operations = (LayerOperation * len(listed))(*listed)


def _fits(layer: Layer) -> bool:
    own, cross, alone = layer.self_attention, layer.cross_attention, layer.feedforward
    if not isinstance(alone, FeedForward) or alone.activation is not torch.relu:
        return False
    linears = [own.qkv, own.output, alone.expand, alone.output]
    if cross is not None:
        linears += [cross.query, cross.output]
    return (
        own.query_norm is None
        and own.key_norm is None
        and all(isinstance(of_rows(part), CompiledRows) for part in linears)
    )


def _norms(layer: Layer) -> list[nn.Module]:
    residuals = [layer.self_attention_residual]
    if layer.cross_attention is not None:
        residuals.append(layer.cross_attention_residual)
    return [residual.norm for residual in (*residuals, layer.feedforward_residual)]


def _tensors(state: DecoderState) -> list[Tensor]:
    caches = [cache for cache in state.layers if isinstance(cache, KVCache)]
    return [tensor for cache in caches for tensor in (cache.keys, cache.values)]
