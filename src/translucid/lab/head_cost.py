"""What heads cost: in weights and multiplications, and in what a decoder has to remember."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.errors import ConfigError
from translucid.lab.deep import average, by_case
from translucid.lab.experiment import Experiment
from translucid.lab.toytext import next_words
from translucid.lab.verdict import Data, Finding, Rule, clearly, column, decide, difference_of
from translucid.models import TransformerConfig, build
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel
from translucid.parts.attention import Layout, SelfAttention
from translucid.parts.cache import KVCache
from translucid.see.pictures import Axis, Bars, Lines
from translucid.trace import Trace

# ---- C53: what a split into heads costs ----

D_MODEL, WORDS = 768, 16


def _sizes(seed: int, quick: bool) -> Data:
    """A layer of self-attention with each number of heads from 1 to 12 that is allowed."""
    torch.manual_seed(seed)
    x = torch.randn(1, WORDS, D_MODEL)
    found: dict[str, Any] = {"heads": [], "width": [], "weights": [], "multiplications": []}
    for heads in range(1, 13):
        try:
            layer = SelfAttention(D_MODEL, heads, bias=False)
        except ConfigError:  # 768 is no multiple of it
            continue
        found["heads"].append(heads)
        found["width"].append(layer.d_head)
        found["weights"].append(layer.qkv.weight.numel())
        found["multiplications"].append(_multiplications(layer, x))
    return found


def _multiplications(layer: SelfAttention, x: Tensor) -> int:
    """Of all products of matrices in a layer, by the shapes that come up when it runs."""
    trace = Trace(["*query", "*scores", "*pattern"])
    with torch.no_grad():
        layer(x, Layout(), trace=trace.at("attention"))
    projections = sum(x[..., 0].numel() * each.weight.numel() for each in (layer.qkv, layer.output))
    pairs = trace["attention.scores"].numel() + trace["attention.pattern"].numel()
    return projections + pairs * trace["attention.query"].shape[-1]


def _judge_sizes(data: Sequence[Data]) -> Finding:
    (found,) = data[:1]
    products = {heads * width for heads, width in zip(found["heads"], found["width"], strict=True)}
    return decide(
        {
            "head width is d_model / heads": products == {D_MODEL},
            "equal weights for every number of heads": len(set(found["weights"])) == 1,
            "equal multiplications": len(set(found["multiplications"])) == 1,
        },
        f"with {', '.join(map(str, found['heads']))} heads of a width of {D_MODEL}: weights of "
        f"queries, keys and values {sorted(set(found['weights']))}, multiplications for {WORDS} "
        f"words {sorted(set(found['multiplications']))}",
    )


def _draw_sizes(data: Sequence[Data]) -> Bars:
    (found,) = data[:1]
    labels = tuple(f"{heads} × {width}" for heads, width in
                   zip(found["heads"], found["width"], strict=True))  # fmt: skip
    return Bars(
        f"Weights of queries, keys and values at width {D_MODEL}", "weights, in millions", labels,
        np.array(found["weights"]) / 1e6, note="heads × width of a head",
    )  # fmt: skip


sizes = Experiment(
    name="head-width",
    title="Splitting a width into heads",
    varies="the number of heads from 1 to 12 at d_model 768",
    measures="the weights of queries, keys and values, and the multiplications of a layer",
    claims={
        "C53": Rule(
            "Supported if heads × head width is d_model, and weights and multiplications are the "
            "same for every allowed number of heads; refuted if not.",
            _judge_sizes,
        )
    },
    run=_sizes,
    draw=_draw_sizes,
    seconds=0.2,
    seeds=1,
    references=("https://arxiv.org/abs/1706.03762",),
)

# ---- beyond the books: heads that share their keys and values ----

HEADS, SHARED = 8, (8, 4, 2, 1)  # heads of queries; of keys and values
HELD_OUT = 150  # of toyland's sentences
WORTH = 0.05  # nats a word


def _grouped(seed: int, quick: bool) -> Data:
    """Language models on toyland with fewer and fewer heads of keys and values: the loss on
    sentences that were held out, and what a decoder remembers of each word."""
    text = next_words(seed)
    seen, fresh = replace(text, ids=text.ids[:-HELD_OUT]), text.ids[-HELD_OUT:]
    found: dict[str, Any] = {"loss": [], "numbers": []}
    for shared in SHARED:
        torch.manual_seed(seed)
        net = build(TransformerConfig(
            shape="decoder", head="language", vocab=text.vocab, d_model=32, heads=HEADS,
            kv_heads=shared, layers=2, d_ff=64, dropout=0.0, positions="rotary",
        ))  # fmt: skip
        assert isinstance(net, DecoderModel)
        text.chance.manual_seed(seed)  # every net reads the same sentences in the same order
        optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, fused=True)
        for _ in range(12 if quick else 300):
            seen.step(net, optimizer)
        found["loss"].append(_held_out(net.eval(), fresh))
        found["numbers"].append(remembered(net))
    return found


@torch.no_grad()
def _held_out(net: DecoderModel, ids: Tensor) -> float:
    logits = net(ids[:, :-1], ids[:, :-1] != 0)
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0).item()


def remembered(net: DecoderModel) -> int:
    """How many numbers the cache holds for each word."""
    words = 16
    state = net.start(GenerationInputs(1), capacity=words)
    caches = [each for each in state.layers if isinstance(each, KVCache)]
    return sum(each.keys.numel() + each.values.numel() for each in caches) // words


def _judge_grouped(data: Sequence[Data]) -> Finding:
    whole = column(data, "loss", 0)
    cases: dict[str, bool | None] = {}
    said = []
    for place, shared in enumerate(SHARED[1:], start=1):
        more = difference_of(column(data, "loss", place), whole)
        cases[f"{shared} of {HEADS}"] = clearly(more.against(WORTH), "below")
        share = data[0]["numbers"][place] / data[0]["numbers"][0]
        said.append(f"{more} with {shared} heads of keys and values, which need {share:.3g} of the "
                    "cache")  # fmt: skip
    return by_case(cases, f"added to the loss of {float(np.mean(whole)):.3g} nats a word: "
                   f"{', '.join(said)}", "how few heads of keys and values are left")  # fmt: skip


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


grouped = Experiment(
    name="grouped-heads",
    title="Heads that share keys and values shrink the cache at hardly any loss.",
    varies="the heads of keys and values that eight heads of queries share",
    measures="the loss on held-out sentences of toyland; what the cache holds for each word",
    claims={
        "grouped-heads": Rule(
            "Holds for 4, 2 and 1 of 8 heads of keys and values if the loss on held-out sentences "
            "is clearly less than 0.05 nats a word above that of 8; fails if clearly more. "
            "Supported if it holds for all, refuted if for none, depends if for some.",
            _judge_grouped,
        )
    },
    run=_grouped,
    draw=_draw_grouped,
    seconds=30.0,
    references=("https://arxiv.org/abs/2305.13245", "https://arxiv.org/abs/1911.02150"),
)
