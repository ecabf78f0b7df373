"""Llama, Qwen2 and Qwen3 written out: formula after formula on the tensors of a file as they stand
there, with none of our parts. What `--verify` compares with where no library reads the file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.interop.families.llama import GGUF_MODULES, LLAMA2C, round_off
from translucid.interop.families.options import Options
from translucid.interop.source import Source

Read = Callable[..., Tensor]


@dataclass(frozen=True)
class _Sizes:
    layers: int
    heads: int
    kv_heads: int
    eps: float
    base: float  # of the rotary positions
    halves: bool  # of a head turn, not its pairs
    window: int | None


def plain_llama(source: Source, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    """The vectors after the embedding and after each layer, the last of them normalised, and the
    logits. ids: (length,)"""
    sizes, modules = (_of_gguf if source.kind == "gguf" else _of_llama2c)(source)
    tensors = source.file.tensors

    def read(role: str, layer: int = 0, kind: str = "weight") -> Tensor:
        return tensors[f"{modules[role].format(layer)}.{kind}"].read().float()

    def has(role: str, kind: str = "weight") -> bool:
        return role in modules and f"{modules[role].format(0)}.{kind}" in tensors

    def linear(role: str, layer: int, x: Tensor) -> Tensor:
        y = x @ read(role, layer).T
        return y + read(role, layer, "bias") if has(role, "bias") else y

    def norm(gain: Tensor, x: Tensor) -> Tensor:
        return gain * x / (x.square().mean(-1, keepdim=True) + sizes.eps).sqrt()

    factors = tensors["rope_freqs.weight"].read() if "rope_freqs.weight" in tensors else None
    length = len(ids)
    far = torch.arange(length)[:, None] - torch.arange(length)  # (queries, keys)
    hidden = (far < 0) if sizes.window is None else (far < 0) | (far >= sizes.window)
    x = read("embedding")[ids]  # (length, d_model)
    states = [x]
    for layer in range(sizes.layers):
        y = norm(read("attention_norm", layer), x)
        query = linear("query", layer, y).view(length, sizes.heads, -1)
        key, value = (
            linear(role, layer, y).view(length, sizes.kv_heads, -1) for role in ("key", "value")
        )
        if has("query_norm"):
            query = norm(read("query_norm", layer), query)
            key = norm(read("key_norm", layer), key)
        query, key = (_turned(t, sizes, factors) for t in (query, key))
        shared = sizes.heads // sizes.kv_heads
        key, value = (t.repeat_interleave(shared, dim=1) for t in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query, key) / query.shape[-1] ** 0.5
        pattern = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        mixed = torch.einsum("hqk,khd->qhd", pattern, value).reshape(length, -1)
        x = x + linear("output", layer, mixed)
        y = norm(read("feedforward_norm", layer), x)
        gate = torch.nn.functional.silu(linear("gate", layer, y))
        x = x + linear("down", layer, gate * linear("up", layer, y))
        states.append(x)
    states[-1] = norm(read("final_norm"), x)
    table = tensors.get("output.weight")
    return states, states[-1] @ (read("embedding") if table is None else table.read().float()).T


def _turned(x: Tensor, sizes: _Sizes, factors: Tensor | None) -> Tensor:
    """Position p turns pair i of a head by p / base^(2i / d). x: (length, heads, d)"""
    length, _, d_head = x.shape
    rates = sizes.base ** (-torch.arange(0, d_head, 2).double() / d_head)
    rates = rates if factors is None else rates / factors.double()
    angles = (torch.arange(length)[:, None] * rates)[:, None]  # (length, 1, pairs)
    cos, sin = angles.cos().float(), angles.sin().float()
    if sizes.halves:
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1)
    one, two = x[..., 0::2], x[..., 1::2]
    return torch.stack([one * cos - two * sin, one * sin + two * cos], dim=-1).flatten(-2)


def _of_llama2c(source: Source) -> tuple[_Sizes, Mapping[str, str]]:
    facts = source.config
    layers, heads, kv = (facts.whole(name) for name in ("n_layers", "n_heads", "n_kv_heads"))
    return _Sizes(layers, heads, kv, 1e-5, 10000.0, False, None), LLAMA2C.modules


def _of_gguf(source: Source) -> tuple[_Sizes, Mapping[str, str]]:
    kind = source.config.text("general.architecture")
    own = Options(source.file.metadata, source.config.where, f"{kind}.")
    heads = own.whole("attention.head_count")
    d_head = own.whole("attention.key_length", own.whole("embedding_length") // heads)
    scaled = own.text("rope.scaling.type", "none") != "none"
    if scaled or own.whole("rope.dimension_count", d_head) != d_head:
        raise InputError(
            f"--verify {source.path}: scaled rotary positions, or of a part of a head, are not "
            "written out here a second time; verify the model in Hugging Face's layout, or leave "
            "--verify out"
        )
    sizes = _Sizes(
        own.whole("block_count"), heads, own.whole("attention.head_count_kv", heads),
        round_off(own.number("attention.layer_norm_rms_epsilon")),
        round_off(own.number("rope.freq_base", 10000.0)), kind != "llama",
        own.get("attention.sliding_window"),
    )  # fmt: skip
    return sizes, GGUF_MODULES
