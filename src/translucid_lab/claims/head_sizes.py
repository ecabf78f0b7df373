"""What a split into heads costs (C53), and heads that share keys and values (grouped-query
attention, a question beyond the books).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid import Trace
from translucid.core import ConfigError
from translucid.models import DecoderModel, GenerationInputs, TransformerConfig, build
from translucid.parts import KVCache, Layout, SelfAttention
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.toyland_text import next_words
from translucid_lab.engine.intervals import clearly, difference_of
from translucid_lab.engine.verdict import average, by_case, column, decide

D_MODEL, WORDS = 768, 16


def _sizes(seed: int, quick: bool) -> Data:
    """Measure a self-attention layer with each allowed number of heads from 1 to 12: the width of a
    head, the number of weights, and the number of multiplications."""
    torch.manual_seed(seed)
    x = torch.randn(1, WORDS, D_MODEL)
    measured: dict[str, Any] = {"heads": [], "width": [], "weights": [], "multiplications": []}
    for heads in range(1, 13):
        try:
            layer = SelfAttention(D_MODEL, heads, bias=False)
        except ConfigError:  # does not divide 768
            continue
        measured["heads"].append(heads)
        measured["width"].append(layer.d_head)
        measured["weights"].append(layer.qkv.weight.numel())
        measured["multiplications"].append(_multiplications(layer, x))
    return measured


def _multiplications(layer: SelfAttention, x: Tensor) -> int:
    """Scalar multiplications in all matmuls of a layer, from the traced shapes."""
    trace = Trace(["*query", "*scores", "*pattern"])
    with torch.no_grad():
        layer(x, Layout(), trace=trace.at("attention"))
    projections = sum(
        x[..., 0].numel() * linear.weight.numel() for linear in (layer.qkv, layer.output)
    )
    pairs = trace["attention.scores"].numel() + trace["attention.pattern"].numel()
    return projections + pairs * trace["attention.query"].shape[-1]


def _judge_sizes(data: Sequence[Data]) -> Finding:
    (measured,) = data[:1]
    widths = {
        heads * width for heads, width in zip(measured["heads"], measured["width"], strict=True)
    }
    return decide(
        {
            "head width is d_model / heads": widths == {D_MODEL},
            "equal weights for every number of heads": len(set(measured["weights"])) == 1,
            "equal multiplications": len(set(measured["multiplications"])) == 1,
        },
        f"with {', '.join(map(str, measured['heads']))} heads of a width of {D_MODEL}: weights of "
        f"queries, keys and values {sorted(set(measured['weights']))}, multiplications for {WORDS} "
        f"words {sorted(set(measured['multiplications']))}",
    )


def _draw_sizes(data: Sequence[Data]) -> Bars:
    (measured,) = data[:1]
    labels = tuple(f"{heads} × {width}" for heads, width in
                   zip(measured["heads"], measured["width"], strict=True))  # fmt: skip
    return Bars(
        f"Weights of queries, keys and values at width {D_MODEL}", "weights, in millions", labels,
        np.array(measured["weights"]) / 1e6, note="heads × width of a head",
    )  # fmt: skip


sizes = Experiment.described("head-width", _sizes, _draw_sizes, {"C53": _judge_sizes})


HEADS, SHARED = 8, (8, 4, 2, 1)  # heads of queries; of keys and values
HELD_OUT = 150  # of toyland's sentences
WORTH = 0.05  # nats a word


def _grouped(seed: int, quick: bool) -> Data:
    """Held-out loss and cache size of language models with fewer and fewer key-value heads."""
    text = next_words(seed)
    seen, fresh = replace(text, ids=text.ids[:-HELD_OUT]), text.ids[-HELD_OUT:]
    measured: dict[str, Any] = {"loss": [], "numbers": []}
    for shared in SHARED:
        torch.manual_seed(seed)
        net = build(TransformerConfig(
            shape="decoder", head="language", vocab=text.vocab, d_model=32, heads=HEADS,
            kv_heads=shared, layers=2, d_ff=64, dropout=0.0, positions="rotary",
        ))  # fmt: skip
        assert isinstance(net, DecoderModel)
        text.generator.manual_seed(seed)  # every net reads the same sentences in the same order
        fit(net, partial(seen.loss, net), steps=12 if quick else 300, learning_rate=5e-3)
        measured["loss"].append(_held_out(net.eval(), fresh))
        measured["numbers"].append(remembered(net))
    return measured


@torch.no_grad()
def _held_out(net: DecoderModel, ids: Tensor) -> float:
    logits = net(ids[:, :-1], ids[:, :-1] != 0)
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0).item()


def remembered(net: DecoderModel) -> int:
    """The number of values in the key-value cache per word."""
    words = 16
    state = net.start(GenerationInputs(1), capacity=words)
    caches = [layer for layer in state.layers if isinstance(layer, KVCache)]
    return sum(cache.keys.numel() + cache.values.numel() for cache in caches) // words


def _judge_grouped(data: Sequence[Data]) -> Finding:
    whole = column(data, "loss", 0)
    cases: dict[str, bool | None] = {}
    parts = []
    for place, shared in enumerate(SHARED[1:], start=1):
        more = difference_of(column(data, "loss", place), whole)
        cases[f"{shared} of {HEADS}"] = clearly(more.against(WORTH), "below")
        fraction = data[0]["numbers"][place] / data[0]["numbers"][0]
        parts.append(f"{more} with {shared} heads of keys and values, which need {fraction:.3g} of "
                     "the cache")  # fmt: skip
    return by_case(cases, f"added to the loss of {float(np.mean(whole)):.3g} nats a word: "
                   f"{', '.join(parts)}", "how few heads of keys and values are left")  # fmt: skip


def _draw_grouped(data: Sequence[Data]) -> Lines:
    numbers = data[0]["numbers"]
    labels = tuple(f"{shared} heads: {count}" for shared, count in
                   zip(SHARED, numbers, strict=True))  # fmt: skip
    return Lines(
        "A smaller cache by sharing keys and values",
        Axis("heads of keys and values: numbers kept for each word", labels),
        "loss, nats a word", {"loss": average(data, "loss").numpy()},
        note=f"{HEADS} heads of queries; sentences of toyland held out",
    )  # fmt: skip


grouped = Experiment.described(
    "grouped-heads", _grouped, _draw_grouped, {"grouped-heads": _judge_grouped}
)
