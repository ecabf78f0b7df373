"""Compare a foreign model with a reference implementation, layer by layer, to find the first layer
that differs.

The reference for Hugging Face's layout is the package transformers; for files of llama.cpp and
llama2.c it is `plain_llama`, which shares no code with Translucid's networks.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.interop.families.plan import ForeignModel, Options
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle
from translucid.tasks.options import Resources
from translucid.tasks.registry import TASKS
from translucid.tasks.translate import Translate


@dataclass(frozen=True)
class _Sizes:
    layers: int
    heads: int
    kv_heads: int
    eps: float
    base: float  # base of the rotary positions
    halves: bool  # rotary positions pair i with i + d/2, not 2i with 2i + 1
    window: int | None


def plain_llama(source: ForeignModel, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    """Compute a Llama model independently of Translucid's networks. Returns the hidden states after
    the embedding and after each layer, the last one normalised, and the logits. ids: (length,)"""
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
    """Apply rotary positions: rotate pair i of a head at position p by the angle p / base^(2i / d).
    x: (length, heads, d)"""
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


def _of_llama2c(source: ForeignModel) -> tuple[_Sizes, Mapping[str, str]]:
    from translucid.interop.families.llama2c import NAMES

    facts = source.config
    layers, heads, kv = (facts.whole(name) for name in ("n_layers", "n_heads", "n_kv_heads"))
    return _Sizes(layers, heads, kv, 1e-5, 10000.0, False, None), NAMES.modules


def _of_gguf(source: ForeignModel) -> tuple[_Sizes, Mapping[str, str]]:
    from translucid.interop.families.llama_cpp import MODULES, round_off

    kind = source.config.text("general.architecture")
    own = Options(source.file.metadata, source.config.where, f"{kind}.")
    heads = own.whole("attention.head_count")
    d_head = own.whole("attention.key_length", own.whole("embedding_length") // heads)
    scaled = own.text("rope.scaling.type", "none") != "none"
    if scaled or own.whole("rope.dimension_count", d_head) != d_head:
        raise InputError(
            f"--verify {source.path}: the reference implementation does not support scaled or "
            "partial rotary positions; verify the model in Hugging Face's layout, or omit --verify"
        )
    sizes = _Sizes(
        own.whole("block_count"), heads, own.whole("attention.head_count_kv", heads),
        round_off(own.number("attention.layer_norm_rms_epsilon")),
        round_off(own.number("rope.freq_base", 10000.0)), kind != "llama",
        own.get("attention.sliding_window"),
    )  # fmt: skip
    return sizes, MODULES


TEXT = "The quick brown fox jumps over the lazy dog, and nobody knows why."
BOUND = 1e-4  # largest relative difference that rounding in float32 explains
# transformers' class for each task.
CLASSES = {
    "language": "AutoModelForCausalLM", "translate": "AutoModelForSeq2SeqLM",
    "fill": "AutoModelForMaskedLM", "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification", "embed": "AutoModel",
}  # fmt: skip
INPUTS = {"ids": "input_ids", "source": "input_ids", "target": "decoder_input_ids"}
MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}


@dataclass(frozen=True)
class LayerDifference:
    """How much Translucid's values differ from the reference at one layer."""

    name: str
    largest: float  # largest absolute difference
    scale: float  # largest value of the reference

    @property
    def relative(self) -> float:
        return self.largest / max(self.scale, 1e-30)

    def __str__(self) -> str:
        return f"{self.name:<28} {self.largest:.1e} of {self.scale:.3g}"


@dataclass(frozen=True)
class _Reference:
    """The values that the reference computes for a batch of one text."""

    states: Mapping[str, Any]  # by stack: after the embedding, and after each layer
    output: Tensor
    name: str  # name of the output


def differences(source: ForeignModel, held: Bundle) -> list[LayerDifference]:
    """Compare the hidden states after the embedding and after each layer, and the output."""
    config = held.network.config
    if source.kind not in ("huggingface", "gguf", "llama2c") or not isinstance(
        config, TransformerConfig
    ):
        raise InputError(
            f"--verify {source.path}: there is no reference implementation for this format, only "
            "for Hugging Face's layout, GGUF and llama2.c; omit --verify"
        )
    inputs = inputs_of(held, TEXT)
    with torch.inference_mode():
        if source.kind == "huggingface":
            reference = _transformers(source, held.task, config, inputs)
        else:
            states, logits = plain_llama(source, inputs["ids"][0])
            reference = _Reference({"decoder": [s[None] for s in states]}, logits[None], "logits")
        points = {side: _points(side, len(states), config)
                  for side, states in reference.states.items()}  # fmt: skip
        trace = Trace([point for named in points.values() for point in named.values()])
        output = held.network(**inputs, trace=trace)
    return list(_compared(trace, points, reference, output))


def first_wrong(compared: list[LayerDifference]) -> LayerDifference | None:
    """The first difference that is larger than rounding explains; None if there is none."""
    return next((d for d in compared if not d.relative < BOUND), None)


def inputs_of(held: Bundle, text: str) -> dict[str, Tensor]:
    """The inputs of a model for a text, truncated to the context length. For a translation model,
    the text is also the target."""
    config = held.network.config
    assert isinstance(config, SequenceConfig)
    resources = Resources(held.tokenizers, held.labels, statistics=held.statistics)
    task = TASKS[held.task].make(resources)
    example = task.example(text, text if held.task == Translate.name else None)
    return {name: ids[:, : config.context_length] for name, ids in example.batch.inputs.items()}


def _points(side: str, count: int, config: TransformerConfig) -> dict[str, str]:
    """Trace points of a stack's hidden states. The keys are the names that are printed for them.
    count: the number of hidden states."""
    at, after = f"{side}.layers", "sum" if config.placement == "pre" else "norm.output"
    points = {"embedding": f"{at}.0.self_attention_residual.skip"}
    for layer in range(count - 2):
        points[f"after layer {layer}"] = f"{at}.{layer}.feedforward_residual.{after}"
    points[f"after layer {count - 2}, the last"] = f"{side}.final_norm.output"
    return points


def _compared(
    trace: Trace, points: Mapping[str, Mapping[str, str]], reference: _Reference, output: Tensor
) -> Iterator[LayerDifference]:
    for side, named in points.items():
        start = f"{side}, " if len(points) > 1 else ""
        for (name, point), theirs in zip(named.items(), reference.states[side], strict=True):
            yield _difference(start + name, trace[point], theirs)
    yield _difference(reference.name, output, reference.output)


def _difference(name: str, ours: Tensor, theirs: Tensor) -> LayerDifference:
    return LayerDifference(name, float((ours - theirs).abs().max()), float(theirs.abs().max()))


def _transformers(
    source: ForeignModel, task: str, config: TransformerConfig, inputs: Mapping[str, Tensor]
) -> _Reference:
    model = _opened(source.path, task)
    theirs = {INPUTS[name]: ids for name, ids in inputs.items()}
    theirs |= {MASKS[name]: torch.ones_like(ids) for name, ids in theirs.items()}
    cached = {"use_cache": False} if config.shape != "encoder" else {}
    outputs = model(**theirs, **cached, output_hidden_states=True)
    if config.shape == "encoder-decoder":
        states = {"encoder": outputs.encoder_hidden_states,
                  "decoder": outputs.decoder_hidden_states}  # fmt: skip
    else:
        states = {config.shape: outputs.hidden_states}
    if task == "embed":
        return _Reference(states, pooled(outputs.last_hidden_state, config), "embedding")
    return _Reference(states, outputs.logits, "logits")


def pooled(states: Tensor, config: TransformerConfig) -> Tensor:
    """Pool hidden states, (1, length, d_model), to one vector as sentence-transformers does."""
    places = {"first": states[:, 0], "last": states[:, -1]}
    vector = states.mean(dim=1) if config.pooling == "mean" else places[config.pooling]
    return F.normalize(vector, dim=-1) if config.normalise else vector


def _opened(path: Path, task: str) -> Any:
    """Open a model with transformers, without network access and without running code from the
    model's folder."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import transformers
    except ImportError:
        raise InputError(
            "--verify needs the package transformers; install it with: pip install transformers, "
            "or omit --verify"
        ) from None
    options: dict[str, Any] = {
        "local_files_only": True, "trust_remote_code": False, "dtype": torch.float32,
    }  # fmt: skip
    try:
        model: Any = getattr(transformers, CLASSES[task]).from_pretrained(path, **options)
    except Exception as error:  # any error of the other library
        raise InputError(
            f"--verify: transformers cannot open {path} ({str(error)[:300]}); omit --verify"
        ) from error
    return model.eval()
