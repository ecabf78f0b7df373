"""The models for which every invariant is tested: tiny, random, float64, built once per process.

`CONFIGS` contains rows in which every value of an option occurs with every value of every other
option (`pairwise.py`), and some models by hand: with windows, two vocabularies or characters.
`GRID` is the full product that the rows represent: architecture × position × norm × placement, with
the number of key/value heads and the activation taken in turn; it runs with `-m thorough`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest
import torch
from tests.invariants.pairwise import Row, covering
from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.fixed_state import with_fixed_timeline
from translucid.models import (
    GenerationInputs,
    ModelConfig,
    Network,
    RecurrentConfig,
    TransformerConfig,
    build,
)
from translucid.parts.cache import DecoderState

VOCAB, TARGET_VOCAB, OUTPUTS = 11, 9, 3
D_MODEL, MAX_LENGTH = 8, 24
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
NORMS = ("layer", "rms", "batch", "none")
PLACEMENTS = ("pre", "post")
ACTIVATIONS = ("relu", "gelu", "swiglu", "geglu", "silu", "tanh")
POOLING = ("tag", "mean", "attention", "last", "first")  # "tag" is a tagger, without pooling
SHAPES = ("decoder", "encoder-decoder", "encoder")
CELLS = ("rnn", "rnn_relu", "lstm", "gru")
PADDINGS = ("left", "right", "holes")


def transformer(shape: str, **options: Any) -> TransformerConfig:
    """A tiny Transformer of this shape."""
    head = {"head": "language"} if shape != "encoder" else {"head": "tag", "outputs": OUTPUTS}
    sizes = {"vocab": VOCAB, "d_model": D_MODEL, "heads": 4, "layers": 2, "d_ff": 12}
    sizes |= {"relative_buckets": 8, "relative_distance": 10, "max_length": MAX_LENGTH}
    return TransformerConfig(shape=shape, dropout=0.0, **{**head, **sizes, **options})


def recurrent(shape: str, **options: Any) -> RecurrentConfig:
    """A tiny recurrent model of this shape."""
    head = {"head": "language"} if shape != "encoder" else {"head": "tag", "outputs": OUTPUTS}
    sizes = {"vocab": VOCAB, "d_model": D_MODEL, "hidden": D_MODEL, "layers": 2}
    return RecurrentConfig(shape=shape, dropout=0.0, **{**head, **sizes, **options})


TRANSFORMERS = {
    "shape": SHAPES,
    "positions": POSITIONS,
    "norm": NORMS,
    "placement": PLACEMENTS,
    "kv_heads": ("4", "2", "1"),
    "activation": ACTIVATIONS,
    "pooling": POOLING,
    "biases": ("biased", "unbiased", "qkv-biased", "unshifted"),
    "d_head": ("2", "4"),
    "qk_norm": ("", "qk-norm"),
    "embedding_scale": ("", "unscaled-embedding"),
    "norm_eps": ("", "0.01"),
    "final_norm": ("", "other-end"),
    "embedding_norm": ("", "embedding-norm"),
    "parallel_residual": ("", "parallel"),
    "first_position": ("0", "2"),
    "head_bias": ("", "head-bias"),
}
# Rotary methods and activations that represent all others of their kind in the pairs.
ROTARY: dict[str, dict[str, Any]] = {
    "llama3": {
        "rotary_method": "llama3",
        "rotary_scaling": 3.0,
        "rotary_length": 12,
        "qk_norm": True,
    },
    "yarn": {"rotary_method": "yarn", "rotary_scaling": 3.0, "rotary_length": 40},
    "partial": {"rotary_fraction": 0.5},
    "dynamic": {"rotary_method": "dynamic", "rotary_scaling": 3.0, "rotary_length": 3},
}
LATER = ("geglu_tanh", "sigmoid", "gelu_tanh", "quick_gelu", "relu_squared")
BIASES: dict[str, dict[str, Any]] = {
    "biased": {},
    "unbiased": {"bias": False},
    "qkv-biased": {"bias": False, "qkv_bias": True},
    "unshifted": {"norm_bias": False, "attention_output_bias": False},
}
# Pooling follows all layers, so it has to be paired only with the order of norm and sub-layer.
APART = [
    frozenset(("pooling", name)) for name in TRANSFORMERS if name not in ("shape", "placement")
]
RECURRENT = {
    "cell": CELLS,
    "shape": SHAPES,
    "way": ("forward", "both"),
    "attention": ("none", "additive", "dot"),
    "pooling": POOLING,
}
RECURRENT_APART = [frozenset(("cell", "pooling"))]
# Options that only models of these shapes have.
ONLY = {
    "pooling": ("encoder",),
    "head_bias": ("decoder", "encoder-decoder"),
    "attention": ("encoder-decoder",),
    "way": ("encoder-decoder", "encoder"),
}


def fits(row: Row) -> bool:
    """Whether a row has an option only with the shapes that support it, and no two options that
    exclude each other."""
    parallel = bool(row.get("parallel_residual"))
    if parallel and (row.get("placement") == "post" or row.get("shape") == "encoder-decoder"):
        return False
    if row.get("norm") == "batch" and row.get("biases") == "unshifted":
        return False
    shapes = {row["shape"]} if "shape" in row else set(SHAPES)
    return bool(shapes.intersection(*(ONLY[name] for name in row if name in ONLY)))


def _head(pooling: str) -> dict[str, Any]:
    return {} if pooling == "tag" else {"head": "classify", "pooling": pooling}


def _transformers() -> Iterator[tuple[str, ModelConfig]]:
    for row in covering(TRANSFORMERS, fits, APART):
        name = "-".join(("transformer", *filter(None, row.values())))
        options: dict[str, Any] = {**row, "kv_heads": int(row["kv_heads"])}
        head = _head(options.pop("pooling", "tag"))
        options |= {"d_head": int(row["d_head"]), "norm_eps": float(row["norm_eps"] or 0) or None}
        options |= {"qk_norm": bool(row["qk_norm"]), "embedding_scale": not row["embedding_scale"]}
        options["final_norm"] = (row["placement"] == "post") if row["final_norm"] else None
        options["head_bias"] = bool(options.get("head_bias"))
        options["logit_scale"] = 0.5 if options["head_bias"] else 1.0
        options["embedding_norm"] = bool(row["embedding_norm"])
        options["parallel_residual"] = bool(row["parallel_residual"])
        options["first_position"] = int(row["first_position"])
        options |= BIASES[options.pop("biases")] | head
        yield name, transformer(**options)


def _recurrent() -> Iterator[tuple[str, ModelConfig]]:
    for row in covering(RECURRENT, fits, RECURRENT_APART):
        options: dict[str, Any] = dict(row)
        if "way" in options:
            options["bidirectional"] = options.pop("way") == "both"
        head = _head(options.pop("pooling", "tag"))
        yield "-".join(row.values()), recurrent(**options, **head)


def _grid() -> Iterator[tuple[str, ModelConfig]]:
    """The full product: three times as many Transformers as the rows have, and twice as many
    recurrent translation models."""
    kv_heads, activations, pooling = cycle((4, 2, 1)), cycle(ACTIVATIONS), cycle(POOLING)
    for shape, *rest in product(SHAPES, POSITIONS, NORMS, PLACEMENTS):
        positions, norm, placement = rest
        options: dict[str, Any] = {"positions": positions, "norm": norm, "placement": placement}
        options |= {"kv_heads": next(kv_heads), "activation": next(activations)}
        if shape == "encoder":
            options |= _head(next(pooling))
        yield f"transformer-{shape}-{positions}-{norm}-{placement}", transformer(shape, **options)
    for cell, way in product(CELLS, ("forward", "both")):
        options = {"cell": cell, "bidirectional": way == "both"}
        for attention in ("none", "additive", "dot"):
            name = f"{cell}-encoder-decoder-{way}-{attention}"
            yield name, recurrent("encoder-decoder", attention=attention, **options)
        yield f"{cell}-encoder-{way}", recurrent("encoder", **options, **_head(next(pooling)))


def _odd_transformers() -> Iterator[tuple[str, ModelConfig]]:
    """Transformers that the grid does not contain."""
    for shape, positions in product(("decoder", "encoder-decoder", "encoder"), ("alibi", "rotary")):
        yield (
            f"transformer-{shape}-{positions}-window",
            transformer(shape, positions=positions, window=3),
        )
    yield "transformer-decoder-plain", transformer("decoder", bias=False, scaled=False, tied=False)
    yield (
        "transformer-decoder-rotary-scaled",
        transformer("decoder", positions="rotary", rotary_base=50.0, rotary_scaling=2.0),
    )
    for number, (method, more) in enumerate(ROTARY.items()):
        shape, activation = SHAPES[number % 3], LATER[number]
        options = {"positions": "rotary", "activation": activation, "d_head": 4, **more}
        yield f"transformer-{shape}-{method}-{activation}", transformer(shape, **options)
    for shape, layout in zip(SHAPES, ("halves", "fairseq", "halves"), strict=True):
        more = {"segments": 2} if shape == "encoder" else {}
        name = f"transformer-{shape}-{layout}"
        yield name, transformer(shape, sinusoid_layout=layout, embedding_norm=True, **more)
    yield (
        "transformer-encoder-decoder-two-vocabularies",
        transformer("encoder-decoder", target_vocab=TARGET_VOCAB, decoder_layers=1),
    )


def _with_extras() -> Iterator[tuple[str, ModelConfig]]:
    yield "transformer-encoder-characters", transformer("encoder", characters=5)
    yield "lstm-encoder-characters", recurrent("encoder", bidirectional=True, characters=5)
    for head in ("none", "fill", "embed"):
        yield f"transformer-encoder-{head}", transformer("encoder", head=head, outputs=None)
    labels = {"head": "classify", "pooling": "first", "head_dense": "tanh"}
    yield "transformer-encoder-dense", transformer("encoder", **labels)
    for cell, bridge, both in (
        ("lstm", "copy", True), ("gru", "copy", False), ("rnn", "last", True),
        ("lstm", "zero", False),
    ):  # fmt: skip
        options = {"cell": cell, "bridge": bridge, "bidirectional": both}
        options["input_feeding"] = cell != "gru"
        options["encoder_hidden"] = D_MODEL // 2 if both else None
        yield f"{cell}-encoder-decoder-{bridge}", recurrent("encoder-decoder", **options)
    adapters = {"lora_rank": 2, "lora_alpha": 3.0, "lora_where": ("*",)}
    yield "transformer-encoder-decoder-lora", transformer("encoder-decoder", **adapters)
    features = {"head": "classify", "ngram_features": 7}
    yield "transformer-encoder-ngrams", transformer("encoder", **features)
    yield "lstm-encoder-ngrams", recurrent("encoder", bidirectional=True, **features)
    yield (
        "lstm-encoder-decoder-two-vocabularies",
        recurrent("encoder-decoder", target_vocab=TARGET_VOCAB, hidden=6, tied=False),
    )
    yield (
        "lstm-encoder-last",
        recurrent("encoder", bidirectional=True, head="classify", pooling="last"),
    )


CONFIGS: dict[str, ModelConfig] = dict(
    (*_transformers(), *_odd_transformers(), *_with_extras(), *_recurrent())
)
GRID = {name: config for name, config in _grid() if name not in CONFIGS}


def every(
    *shapes: str,
    where: Callable[[ModelConfig], bool] = lambda config: True,
    **dealt: Sequence[object],
) -> pytest.MarkDecorator:
    """Parametrise a test by `name` over all models of these shapes (all shapes, if none is given).

    Further options of a test are `dealt` out: each model gets one of their combinations, in turn,
    and a second one in CI. With `-m thorough`, all models and the whole grid get all of them.
    """
    combinations = list(product(*dealt.values()))

    def fitting(configs: Mapping[str, ModelConfig]) -> list[str]:
        return [n for n, c in configs.items() if (not shapes or c.shape in shapes) and where(c)]

    cases = []
    for number, (name, values) in enumerate(product(fitting(CONFIGS | GRID), combinations)):
        model, which = divmod(number, len(combinations))
        turn = (which - model) % len(combinations)
        if name in CONFIGS and turn in (0, len(combinations) // 2):
            marks = (pytest.mark.slow,) if turn else ()
        else:
            marks = (pytest.mark.thorough,)
        cases.append(pytest.param(name, *values, marks=marks))
    return pytest.mark.parametrize(("name", *dealt), cases)


writers = every("decoder", "encoder-decoder")  # the models that generate step by step


def config_of(name: str) -> ModelConfig:
    return CONFIGS[name] if name in CONFIGS else GRID[name]


@cache
def model_of(name: str) -> Network:
    """The model of this name. Tests share it and must not change it."""
    return randomised(config_of(name))


def randomised(config: ModelConfig, seed: int = 0) -> Network:
    """Build a network without weights at 0 or 1, so that a dropped bias or a skipped gain changes
    its output."""
    generator = torch.Generator().manual_seed(seed)

    def noise(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float64)

    model = build(config).double().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            weight.copy_(noise(weight) * (0.4 if "embedding" in key else 0.25))
            if key.endswith(".gain"):
                weight.add_(1.0)
        for key, buffer in model.named_buffers():
            if key.endswith("running_mean"):
                buffer.copy_(noise(buffer) * 0.3)
            elif key.endswith("running_variance"):
                buffer.copy_(noise(buffer).abs() + 0.5)
    return model


@dataclass(frozen=True)
class Text:
    """The input of a model; `source` is set for encoder-decoders only."""

    ids: Tensor  # (rows, length)
    mask: Tensor | None = None
    source: Tensor | None = None
    source_mask: Tensor | None = None

    def take(self, rows: Tensor | slice | list[int]) -> "Text":
        parts = (self.ids, self.mask, self.source, self.source_mask)
        return Text(*(None if part is None else part[rows] for part in parts))

    def upto(self, length: int) -> "Text":
        mask = None if self.mask is None else self.mask[:, :length]
        return replace(self, ids=self.ids[:, :length], mask=mask)


def random_ids(model: Network, rows: int, length: int, generator: torch.Generator) -> Tensor:
    vocab = getattr(model.config, "target_vocab", None) or model.config.vocab
    return torch.randint(vocab, (rows, length), generator=generator)


def random_text(model: Network, rows: int = 3, length: int = 6, seed: int = 1) -> Text:
    """Unpadded ids; for encoder-decoders also a ragged source: one row padded on the left, one on
    the right, one unpadded."""
    generator = torch.Generator().manual_seed(seed)
    ids = random_ids(model, rows, length, generator)
    if model.config.shape != "encoder-decoder":
        return Text(ids)
    source = torch.randint(model.config.vocab, (rows, 5), generator=generator)
    source_mask = torch.ones(rows, 5, dtype=torch.bool)
    source_mask[0, :2] = False
    source_mask[1 % rows, 3:] = False
    return Text(ids, None, source, source_mask)


def spread(ids: Tensor, length: int, side: str, seed: int = 2) -> tuple[Tensor, Tensor]:
    """The same tokens among padding: ids and mask of this length. Ids at padding are random, not
    0."""
    generator = torch.Generator().manual_seed(seed)
    rows, kept = ids.shape
    places = torch.arange(kept).expand(rows, -1)
    if side == "left":
        places = places + length - kept
    elif side == "holes":  # at random places, in order
        shuffled = torch.rand(rows, length, generator=generator).argsort(dim=1)
        places = shuffled[:, :kept].sort(dim=1).values
    padded = torch.randint(int(ids.max()) + 1, (rows, length), generator=generator)
    mask = torch.zeros(rows, length, dtype=torch.bool).scatter(1, places, True)
    return padded.scatter(1, places, ids), mask


def spelt(ids: Tensor) -> Tensor:
    """Character ids for every word of the vocabulary: one to seven per word, padded to the
    longest."""
    generator = torch.Generator().manual_seed(3)
    table = torch.randint(1, 257, (VOCAB, 7), generator=generator)
    table = table * (torch.arange(7) <= torch.arange(VOCAB)[:, None] % 7)
    characters = table[ids]  # (rows, length, 7)
    return characters[..., : max(int((characters > 0).sum(dim=-1).max()), 1)]


def whole(model: Network, text: Text, trace: NoTrace = NO_TRACE) -> Tensor:
    """The outputs at all positions, in one pass."""
    if getattr(model.config, "characters", 0):
        return model(text.ids, text.mask, trace, characters=spelt(text.ids))
    if text.source is None:
        return model(text.ids, text.mask, trace)
    return model(text.source, text.ids, text.source_mask, text.mask, trace)


def begin(model: Network, text: Text, capacity: int = 12, *, fixed: bool = False) -> DecoderState:
    """A new decoder state with one row for each row of the text."""
    inputs = GenerationInputs(text.ids.shape[0], text.source, text.source_mask)
    state = model.start(inputs, capacity=capacity)
    return with_fixed_timeline(state) if fixed else state


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    """Assert that two tensors are equal up to rounding; NaN equals only NaN."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
