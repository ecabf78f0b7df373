"""C79: the mask when a text is written."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.trace import NoTrace
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel
from translucid.see.pictures import Bars
from translucid_lab.claims.attention.causal_mask import (
    LENGTH,
    WORDS,
    rows_of,
    with_mask,
    without_mask,
)
from translucid_lab.claims.shared.markov_chain import Chain, small_decoder, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, by_case, column, median_of

WAYS = ("a buffer with slots to come", "the prefix read anew", "word by word, with a cache")
LEAKS, TIGHT = 0.01, 0.001  # of total variation, 0 to 1


def _writing(seed: int, quick: bool) -> Data:
    """A decoder that was trained with the mask says the next word in three ways, with the mask
    and without. changes: how far its probabilities are from those with the mask; leaks: how far
    they move, without the mask, when what stands behind the prefix is another text."""
    generator = torch.Generator().manual_seed(seed)
    chain = Chain.random(WORDS, 2, 2.0, generator)
    texts, test, others = (chain.draw(count, LENGTH + 1, generator) for count in (2000, 50, 50))
    net = small_decoder(WORDS, seed=seed)
    train(net, rows_of(texts, 64, generator), 50 if quick else 300, rate=1e-2)
    measured: dict[str, Any] = {"changes": [], "leaks": [], "masked leaks": []}
    for way in WAYS:
        changes, leaks, masked = [], [], []
        for end in range(2, LENGTH, 3):
            swapped = torch.cat([test[:, :end], others[:, end:]], dim=1)
            free, free_swapped = (_next(net, way, ids, end, without_mask)
                                  for ids in (test, swapped))  # fmt: skip
            right, right_swapped = (_next(net, way, ids, end, with_mask)
                                    for ids in (test, swapped))  # fmt: skip
            changes.append(_variation(free, right))
            leaks.append(_variation(free, free_swapped))
            masked.append(_variation(right, right_swapped))
        for name, values in (("changes", changes), ("leaks", leaks), ("masked leaks", masked)):
            measured[name].append(float(np.mean(values)))
    return measured


@torch.no_grad()
def _next(
    net: DecoderModel, way: str, ids: Tensor, end: int, trace: Callable[[], NoTrace]
) -> Tensor:
    """The probabilities of the word after the first `end`. (texts, words)"""
    if way == WAYS[0]:  # the slots behind are there, whatever they hold
        logits = net(ids, trace=trace())[:, end - 1]
    elif way == WAYS[1]:
        logits = net(ids[:, :end], trace=trace())[:, -1]
    else:
        state = net.start(GenerationInputs(len(ids)), capacity=end)
        for place in range(end):
            logits = net.step(ids[:, place : place + 1], state, trace=trace())[:, -1]
    return logits.softmax(dim=-1)


def _variation(p: Tensor, q: Tensor) -> float:
    """Half the sum of the differences: 0 the same, 1 nothing in common."""
    return float((p - q).abs().sum(dim=-1).mean() / 2)


def _judge_writing(data: Sequence[Data]) -> Finding:
    leaks = [median_of(column(data, "leaks", at)) for at in range(len(WAYS))]
    changes = [median_of(column(data, "changes", at)) for at in range(len(WAYS))]
    cases: dict[str, bool | None] = {
        way: True if leak.against(LEAKS) == "above" else
        False if leak.against(TIGHT) == "below" else None
        for way, leak in zip(WAYS, leaks, strict=True)
    }  # fmt: skip
    kept = max(max(run["masked leaks"]) for run in data)
    summary = "; ".join(
        f"{way}: {leak} of other slots, {change.mean:.3g} in all"
        for way, leak, change in zip(WAYS, leaks, changes, strict=True)
    )
    return by_case(
        cases, f"total variation of the next word's probabilities without the mask: {summary} "
        f"(with the mask at most {kept:.1g} of other slots)",
        "how a text is written: only a buffer has slots to hide; elsewhere no word to come exists",
    )  # fmt: skip


def _draw_writing(data: Sequence[Data]) -> Bars:
    changes, leaks = (average(data, name).tolist() for name in ("changes", "leaks"))
    labels = [f"{way}: {what}" for way in WAYS for what in ("all changes", "from slots to come")]
    values = [value for pair in zip(changes, leaks, strict=True) for value in pair]
    return Bars(
        "What dropping the mask changes when a text is written", "total variation of the next word",
        tuple(labels), np.array(values),
        note="read anew, earlier words see later ones, all of them written; a cache needs no mask",
    )  # fmt: skip


mask_in_writing = Experiment(
    name="mask-in-writing",
    title="The mask when a text is written",
    varies="the mask; how a text is written: in a buffer, by reading the prefix anew, with a cache",
    measures="how the next word's probabilities change without the mask, and how much of it comes "
    "from slots that are not written yet",
    claims={
        "C79": Rule(
            "Holds for a way of writing if without the mask the next word's probabilities clearly "
            "move by over 0.01 (total variation) when what stands behind the prefix is replaced; "
            "fails if clearly by less than 0.001: then something else keeps words to come away. "
            "Supported if it holds in all three ways, refuted if in none, depends if in some.",
            _judge_writing,
        )
    },
    run=_writing,
    draw=_draw_writing,
    seconds=6.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/1911.02150"),
)
