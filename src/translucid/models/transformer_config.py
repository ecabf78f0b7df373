"""Configuration of a Transformer."""

from typing import ClassVar, Literal

from pydantic import model_validator

from translucid.core.config import key
from translucid.models.sequence_config import Owners, SequenceConfig
from translucid.parts.activations import ActivationName
from translucid.parts.attention import check_heads
from translucid.parts.feedforward import GatedName
from translucid.parts.norms import NormName, Placement
from translucid.parts.positions import POSITIONS, PositionName, SinusoidLayout, check_rotary
from translucid.parts.rotary_scaling import (
    BY_PARTS,
    RotaryScaling,
    ScalingName,
    yarn_attention_factor,
)


class TransformerConfig(SequenceConfig):
    """Configuration of a Transformer."""

    only_for: ClassVar[Owners] = SequenceConfig.only_for | {"segments": (("encoder",), ())}
    kind: Literal["transformer"] = "transformer"
    embedding_scale: bool = key(True, "embedding scale: multiply embeddings by sqrt(d_model)")
    embedding_norm: bool = key(False, "normalise embeddings before the first layer")
    segments: int = key(0, "number of segment embeddings (encoder); 0: none", ge=0)
    heads: int = key(4, "attention heads", gt=0)
    kv_heads: int | None = key(
        None, "key/value heads (grouped-query attention); default: heads", gt=0
    )
    d_head: int | None = key(None, "head dimension; default: d_model / heads", gt=0)
    qk_norm: bool = key(False, "RMS norm of queries and keys in self-attention")
    layers: int = key(4, "number of layers; encoder-decoder: of the encoder", gt=0)
    decoder_layers: int | None = key(
        None, "number of decoder layers (encoder-decoder); default: layers", gt=0
    )
    d_ff: int | None = key(None, "feed-forward dimension; default: 4 d_model", gt=0)
    activation: Literal[ActivationName, GatedName] = key(
        "relu", "activation of the feed-forward layer"
    )
    norm: NormName = key("layer", "normalisation layer")
    norm_eps: float | None = key(
        None, "epsilon of the normalisation layers; default: 1e-6 for rms, else 1e-5", gt=0
    )
    norm_bias: bool = key(True, "bias (shift) of layer norm")
    placement: Placement = key(
        "pre", "pre-norm (before each sub-layer) or post-norm (after the residual sum)"
    )
    parallel_residual: bool = key(
        False, "attention and feed-forward in parallel, from the same input"
    )
    final_norm: bool | None = key(
        None, "norm after the last layer; default: true with pre-norm, else false"
    )
    positions: PositionName = key("sinusoidal", "position encoding")
    sinusoid_layout: SinusoidLayout = key(
        "interleaved",
        "sinusoidal positions: sines and cosines alternate (interleaved) or are two halves; "
        "fairseq: halves with fairseq's frequencies",
    )
    first_position: int = key(0, "number of the first position (sinusoidal, learned)", ge=0)
    relative_buckets: int = key(32, "relative positions: number of buckets", ge=4, multiple_of=2)
    relative_distance: int = key(128, "relative positions: maximum distance", gt=1)
    max_length: int = key(512, "learned positions: maximum length", gt=0)
    rotary_base: float = key(10000.0, "RoPE base (theta)", gt=1)
    rotary_scaling: float = key(1.0, "RoPE scaling factor, for longer texts", gt=0)
    rotary_method: ScalingName = key("linear", "RoPE scaling method")
    rotary_length: int | None = key(
        None, "RoPE scaling: original context length (not for linear)", gt=0
    )
    rotary_low: float = key(1.0, "RoPE scaling by parts: low frequency factor", gt=0)
    rotary_high: float | None = key(
        None,
        "RoPE scaling by parts: high frequency factor; default: 4 (llama3), 32 (yarn)",
        gt=0,
    )
    rotary_attention_factor: float | None = key(
        None,
        "RoPE attention factor; default: yarn's formula for yarn, else 1",
        gt=0,
    )
    rotary_fraction: float = key(
        1.0, "partial RoPE: fraction of rotated dimensions per head", gt=0, le=1
    )
    window: int | None = key(None, "sliding attention window in tokens; default: all tokens", gt=0)
    scaled: bool = key(True, "divide attention scores by sqrt(d_head)")
    bias: bool = key(True, "bias of linear layers; also the default of the next three keys")
    qkv_bias: bool | None = key(None, "bias of queries, keys and values; default: bias")
    attention_output_bias: bool | None = key(
        None, "bias of attention's output projection; default: bias"
    )
    feedforward_bias: bool | None = key(None, "bias of the feed-forward layers; default: bias")
    count_padding: bool = key(False, "count padding in batch norm's statistics")
    lora_rank: int = key(
        0,
        "LoRA: rank of the adapters; 0: none (needs training.start_from)",
        ge=0,
    )
    lora_alpha: float | None = key(
        None, "LoRA: adapters are scaled by alpha / rank; default: rank", gt=0
    )
    lora_dropout: float = key(0.0, "LoRA: dropout of the adapters' input", ge=0, lt=1)
    lora_where: tuple[str, ...] = key(
        ("*attention.*",), "LoRA: linear layers with adapters, by name pattern", strict=False
    )

    @property
    def context_length(self) -> int | None:
        return self.max_length if POSITIONS[self.positions].limited else None

    @model_validator(mode="after")
    def _sizes_divide(self) -> "TransformerConfig":
        check_heads(self.d_model, self.heads, self.kv_heads, self.d_head)
        if self.positions == "rotary":
            self._check_rotary()
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} is odd, but sinusoidal positions come in pairs; "
                f"try {self.d_model + 1}"
            )
        if self.sinusoid_layout == "fairseq" and self.d_model < 4:
            raise ValueError("sinusoid_layout fairseq needs d_model of 4 or more")
        if self.positions == "relative" and self.relative_buckets > self.relative_distance:
            raise ValueError(
                f"relative_buckets {self.relative_buckets} is more than relative_distance "
                f"{self.relative_distance}; make the distance larger"
            )
        sequential = self.placement != "pre" or self.shape == "encoder-decoder"
        if self.parallel_residual and sequential:
            raise ValueError(
                "parallel_residual = true needs placement pre and shape decoder or encoder, not "
                f"{self.placement} and {self.shape}; change them, or omit parallel_residual"
            )
        if not self.norm_bias and self.norm == "batch":
            raise ValueError(
                "norm_bias = false works only with norm layer, because norm batch always has a "
                "shift; use norm layer, or omit norm_bias"
            )
        return self

    def _check_rotary(self) -> None:
        if self.d_head is None and self.head_size % 2:
            raise ValueError(
                f"d_model / heads = {self.head_size} is odd, but rotary positions rotate pairs; "
                "make it even"
            )
        turned = check_rotary(self.head_size, self.rotary_fraction)
        if self.rotary_method != "linear" and self.rotary_length is None:
            raise ValueError(
                f"rotary_method {self.rotary_method} needs rotary_length, the context length that "
                "the model was trained with"
            )
        if self.rotary_method == "dynamic" and turned < 4:
            raise ValueError(
                f"rotary_method dynamic needs at least 4 rotated dimensions, not {turned}; make "
                "d_head or rotary_fraction larger"
            )
        rotary = self.rotary
        if self.rotary_method in BY_PARTS and rotary.low >= rotary.high:
            raise ValueError(f"rotary_low {rotary.low} must be less than rotary_high {rotary.high}")
        if self.score_factor != 1 and not (self.scaled and self.rotary_fraction == 1):
            raise ValueError(
                "rotary_attention_factor needs scaled = true and rotary_fraction = 1; set "
                "these, or rotary_attention_factor = 1.0"
            )

    @property
    def head_size(self) -> int:
        return self.d_head or self.d_model // self.heads

    @property
    def has_final_norm(self) -> bool:
        """Whether there is a norm after the last layer. By default there is one with pre-norm,
        where nothing else normalises the sum of the layers' outputs."""
        return self.placement == "pre" if self.final_norm is None else self.final_norm

    @property
    def rotary(self) -> RotaryScaling:
        return RotaryScaling(
            self.rotary_scaling, self.rotary_method, self.rotary_length or 0,
            self.rotary_low, self.rotary_high or BY_PARTS.get(self.rotary_method, 0.0),
        )  # fmt: skip

    @property
    def score_factor(self) -> float:
        """The factor by which attention scores are multiplied: the attention factor squared, since
        it scales both queries and keys."""
        if self.positions != "rotary":
            return 1.0
        factor = self.rotary_attention_factor
        if factor is None:
            yarn = self.rotary_method == "yarn"
            factor = yarn_attention_factor(self.rotary_scaling) if yarn else 1.0
        return factor**2
