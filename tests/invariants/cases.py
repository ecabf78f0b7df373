"""The models that every invariant is asked of: tiny, random, float64, built once per process.

The grid is architecture × position × norm × placement. The number of key/value heads and the
activation go round in cycles whose lengths divide neither the grid's sides nor each other, so that
over the grid they meet every position, norm and placement.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest
import torch
from torch import Tensor

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
from translucid.trace import NO_TRACE, NoTrace

VOCAB, TARGET_VOCAB, OUTPUTS = 11, 9, 3
D_MODEL, MAX_LENGTH = 8, 24
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")
NORMS = ("layer", "rms", "batch", "none")
PLACEMENTS = ("pre", "post")
CELLS = ("rnn", "rnn_relu", "lstm", "gru")
PADDINGS = ("left", "right", "holes")


def transformer(shape: str, **options: Any) -> TransformerConfig:
    """A tiny Transformer of this shape."""
    head = {"head": "language"} if shape != "encoder" else {"head": "tag", "outputs": OUTPUTS}
    sizes = {"vocab": VOCAB, "d_model": D_MODEL, "heads": 4, "layers": 2, "d_ff": 12}
    return TransformerConfig(
        shape=shape, dropout=0.0, max_length=MAX_LENGTH, **{**head, **sizes, **options}
    )


def recurrent(shape: str, **options: Any) -> RecurrentConfig:
    """A tiny recurrent model of this shape."""
    head = {"head": "language"} if shape != "encoder" else {"head": "tag", "outputs": OUTPUTS}
    sizes = {"vocab": VOCAB, "d_model": D_MODEL, "hidden": D_MODEL, "layers": 2}
    return RecurrentConfig(shape=shape, dropout=0.0, **{**head, **sizes, **options})


def _transformers() -> Iterator[tuple[str, ModelConfig]]:
    kv_heads = cycle((None, 2, 1))
    activations = cycle(("relu", "gelu", "swiglu", "geglu", "silu", "tanh", "sigmoid"))
    pooling = cycle(("tag", "mean", "attention", "last", "first", "tag", "mean"))
    for shape, *rest in product(
        ("decoder", "encoder-decoder", "encoder"), POSITIONS, NORMS, PLACEMENTS
    ):
        positions, norm, placement = rest
        options: dict[str, Any] = {"positions": positions, "norm": norm, "placement": placement}
        options |= {"kv_heads": next(kv_heads), "activation": next(activations)}
        if shape == "encoder" and (pool := next(pooling)) != "tag":
            options |= {"head": "classify", "pooling": pool}
        yield f"transformer-{shape}-{positions}-{norm}-{placement}", transformer(shape, **options)


def _odd_transformers() -> Iterator[tuple[str, ModelConfig]]:
    """What the grid leaves out."""
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
    yield (
        "transformer-encoder-decoder-two-vocabularies",
        transformer("encoder-decoder", target_vocab=TARGET_VOCAB, decoder_layers=1),
    )


def _with_extras() -> Iterator[tuple[str, ModelConfig]]:
    yield "transformer-encoder-letters", transformer("encoder", letters=5)
    yield "lstm-encoder-letters", recurrent("encoder", bidirectional=True, letters=5)
    votes = {"head": "classify", "votes": 7}
    yield "transformer-encoder-votes", transformer("encoder", **votes)
    yield "lstm-encoder-votes", recurrent("encoder", bidirectional=True, **votes)


def _recurrent() -> Iterator[tuple[str, ModelConfig]]:
    pooling = cycle(("tag", "mean", "attention", "last", "first"))
    for cell in CELLS:
        yield f"{cell}-decoder", recurrent("decoder", cell=cell)
        for both, way in ((False, "forward"), (True, "both")):
            for attention in ("none", "additive", "dot"):
                yield (
                    f"{cell}-encoder-decoder-{way}-{attention}",
                    recurrent(
                        "encoder-decoder", cell=cell, bidirectional=both, attention=attention
                    ),
                )
            pool = next(pooling)
            head = {} if pool == "tag" else {"head": "classify", "pooling": pool}
            yield (
                f"{cell}-encoder-{way}",
                recurrent("encoder", cell=cell, bidirectional=both, **head),
            )
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
ALWAYS = {name for name, _ in (*_odd_transformers(), *_with_extras())}
ALWAYS |= {f"{cell}-decoder" for cell in CELLS}


def every(
    *shapes: str, where: Callable[[ModelConfig], bool] = lambda config: True, quick: float = 1.0
) -> Any:
    """Parametrise a test by `name` over all models of these shapes (all, if none is given).

    quick: the share that `make test` runs; the rest is marked slow. Each test draws its own share,
    and what stands outside the grid is always in it.
    """
    names = [
        name
        for name, config in CONFIGS.items()
        if (not shapes or config.shape in shapes) and where(config)
    ]

    def parametrise(test: Callable[..., None]) -> Callable[..., None]:
        dice = random.Random(test.__name__)
        cases = [
            name
            if quick == 1.0 or name in ALWAYS or dice.random() < quick
            else pytest.param(name, marks=pytest.mark.slow)
            for name in names
        ]
        return pytest.mark.parametrize("name", cases)(test)

    return parametrise


writers = every("decoder", "encoder-decoder")  # the models that step
some_writers = every("decoder", "encoder-decoder", quick=0.3)


@cache
def model_of(name: str) -> Network:
    """The model of this name, for looking only: nobody may change it."""
    return randomised(CONFIGS[name])


def randomised(config: ModelConfig, seed: int = 0) -> Network:
    """No weight at 0 or 1: a bias that is dropped and a gain that is skipped must show."""
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
    """What a model is given; the source is there for an encoder-decoder only."""

    ids: Tensor  # (rows, length)
    real: Tensor | None = None
    source: Tensor | None = None
    source_real: Tensor | None = None

    def take(self, rows: Tensor | slice | list[int]) -> "Text":
        parts = (self.ids, self.real, self.source, self.source_real)
        return Text(*(None if part is None else part[rows] for part in parts))

    def upto(self, length: int) -> "Text":
        real = None if self.real is None else self.real[:, :length]
        return replace(self, ids=self.ids[:, :length], real=real)


def random_ids(model: Network, rows: int, length: int, generator: torch.Generator) -> Tensor:
    vocab = getattr(model.config, "target_vocab", None) or model.config.vocab
    return torch.randint(vocab, (rows, length), generator=generator)


def random_text(model: Network, rows: int = 3, length: int = 6, seed: int = 1) -> Text:
    """Unpadded ids; a source, where the model reads one, is ragged: left, right and unpadded."""
    generator = torch.Generator().manual_seed(seed)
    ids = random_ids(model, rows, length, generator)
    if model.config.shape != "encoder-decoder":
        return Text(ids)
    source = torch.randint(model.config.vocab, (rows, 5), generator=generator)
    source_real = torch.ones(rows, 5, dtype=torch.bool)
    source_real[0, :2] = False
    source_real[1 % rows, 3:] = False
    return Text(ids, None, source, source_real)


def spread(ids: Tensor, length: int, side: str, seed: int = 2) -> tuple[Tensor, Tensor]:
    """The same tokens among padding: (ids, real) of this length. Padding holds any id, not 0."""
    generator = torch.Generator().manual_seed(seed)
    rows, kept = ids.shape
    places = torch.arange(kept).expand(rows, -1)
    if side == "left":
        places = places + length - kept
    elif side == "holes":  # any places, in order
        shuffled = torch.rand(rows, length, generator=generator).argsort(dim=1)
        places = shuffled[:, :kept].sort(dim=1).values
    padded = torch.randint(int(ids.max()) + 1, (rows, length), generator=generator)
    real = torch.zeros(rows, length, dtype=torch.bool).scatter(1, places, True)
    return padded.scatter(1, places, ids), real


def spelt(ids: Tensor) -> Tensor:
    """Letters for every word of the vocabulary: one to seven of them, as wide as they must be."""
    generator = torch.Generator().manual_seed(3)
    table = torch.randint(1, 257, (VOCAB, 7), generator=generator)
    table = table * (torch.arange(7) <= torch.arange(VOCAB)[:, None] % 7)
    letters = table[ids]  # (rows, length, 7)
    return letters[..., : max(int((letters > 0).sum(dim=-1).max()), 1)]


def whole(model: Network, text: Text, trace: NoTrace = NO_TRACE) -> Tensor:
    """All positions at once."""
    if getattr(model.config, "letters", 0):
        return model(text.ids, text.real, trace, letters=spelt(text.ids))
    if text.source is None:
        return model(text.ids, text.real, trace)
    return model(text.source, text.ids, text.source_real, text.real, trace)


def begin(model: Network, text: Text, capacity: int = 12, *, fixed: bool = False) -> DecoderState:
    """A fresh state, one row for each row of the text."""
    inputs = GenerationInputs(text.ids.shape[0], text.source, text.source_real)
    state = model.start(inputs, capacity=capacity)
    return with_fixed_timeline(state) if fixed else state


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    """Equal within rounding; NaN equals nothing."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
