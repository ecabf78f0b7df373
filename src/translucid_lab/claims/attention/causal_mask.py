"""C77: does a decoder without a mask read the future?"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.models.base import DecoderModel
from translucid.see.pictures import Axis, Lines
from translucid.tasks.loss import cross_entropy
from translucid_lab.claims.shared.markov_chain import Chain, small_decoder, train
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import Step, random_rows
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    mean_of,
    median_of,
    ratio_of,
)


def without_mask() -> Trace:
    """A run in which every word sees every word."""
    return Trace((), edit={"*.self_attention.mask": 1.0})


def with_mask() -> NoTrace:
    return NO_TRACE


WORDS, LENGTH = 8, 12
ARMS: dict[str, Callable[[], NoTrace]] = {"mask": with_mask, "no mask": without_mask}
LOOKS = 4  # times that a net in training is measured
FAR_WORSE = 1.5  # times the entropy
SAME = 0.001  # nats


def _leak(seed: int, quick: bool) -> Data:
    """A language model of a Markov chain, with and without the mask: the loss on texts that it
    reads whole, as in training, and on prefixes, which is all that there is when one writes."""
    steps = 96 if quick else 300
    generator = torch.Generator().manual_seed(seed)
    chain = Chain.random(WORDS, 1, 1.5, generator)
    texts, test = (chain.draw(count, LENGTH + 1, generator) for count in (2000, 200))
    looks = [steps * (at + 1) // LOOKS for at in range(LOOKS)]
    measured: dict[str, Any] = {"steps": looks, "truth": chain.truth(test), "rate": chain.entropy()}
    for arm, trace in ARMS.items():
        net = small_decoder(WORDS, seed=seed, layers=1)
        whole: list[float] = []
        prefix: list[float] = []

        def look(step: Step) -> bool:
            if step.done in looks:
                whole.append(_loss_whole(net, test, trace))  # noqa: B023 (called in this round)
                prefix.append(_loss_by_prefix(net, test, trace))  # noqa: B023
            return False

        train(net, rows_of(texts, 64, generator), steps, rate=1e-2, trace=trace, until=look)
        measured[arm] = {"whole": whole, "prefix": prefix}
    return measured


def rows_of(
    texts: Tensor, size: int, generator: torch.Generator
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Batches of texts: all words but the last, and all but the first."""

    def batch() -> tuple[Tensor, Tensor]:
        rows = random_rows(texts, size, generator)
        return rows[:, :-1], rows[:, 1:]

    return batch


@torch.no_grad()
def _loss_whole(net: DecoderModel, texts: Tensor, trace: Callable[[], NoTrace]) -> float:
    targets = texts[:, 1:]
    return float(cross_entropy(net(texts[:, :-1], trace=trace()), targets) / targets.numel())


@torch.no_grad()
def _loss_by_prefix(net: DecoderModel, texts: Tensor, trace: Callable[[], NoTrace]) -> float:
    """Every prefix alone; its last output must say the next word."""
    total = 0.0
    for end in range(1, texts.shape[1]):
        last = net(texts[:, :end], trace=trace())[:, -1:]
        total += float(cross_entropy(last, texts[:, end : end + 1]))
    return total / texts[:, 1:].numel()


def _judge_leak(data: Sequence[Data]) -> Finding:
    truth = column(data, "truth")
    last = {
        (arm, seen): ratio_of(column(data, arm, seen, -1), truth)
        for arm in ARMS
        for seen in ("whole", "prefix")
    }
    apart = median_of([
        abs(a - b) for a, b in zip(column(data, "mask", "whole", -1),
                                   column(data, "mask", "prefix", -1), strict=True)
    ])  # fmt: skip
    return decide(
        {
            "without the mask the loss falls below the truth": clearly(
                last["no mask", "whole"].against(1.0), "below"),
            "and is far worse on prefixes": clearly(
                last["no mask", "prefix"].against(FAR_WORSE), "above"),
            "with the mask it is the same on both": clearly(apart.against(SAME), "below"),
            "and not below the truth": clearly(last["mask", "whole"].against(0.98), "above"),
        },
        f"loss in times of the text's own entropy ({mean_of(truth).mean:.3g} nats): with the mask "
        f"{last['mask', 'whole']} on whole texts, {last['mask', 'prefix']} on prefixes; without it "
        f"{last['no mask', 'whole']} and {last['no mask', 'prefix']}",
        {f"{arm}, {seen}": ratio.mean for (arm, seen), ratio in last.items()},
    )  # fmt: skip


def _draw_leak(data: Sequence[Data]) -> Lines:
    labels = {"whole": "the whole text is there", "prefix": "only the words before"}
    series = {
        f"{arm}: {words}": average(data, arm, seen).numpy()
        for arm in ARMS
        for seen, words in labels.items()
    }
    truth = float(np.mean(column(data, "truth")))
    series["entropy of the text"] = np.full(LOOKS, truth)
    return Lines(
        "Without the mask a decoder reads the answer",
        Axis("steps of training", tuple(map(str, data[0]["steps"]))), "loss, nats a word", series,
        note="the two lines with the mask are one; below the entropy nobody can honestly be",
    )  # fmt: skip


causal_mask = Experiment(
    name="causal-mask",
    title="Loss with the causal mask and without",
    varies="the mask; what is read: the whole text, as in training, or only the words before",
    measures="the loss of the next word, against the known entropy of the text",
    claims={
        "C77": Rule(
            "Supported if without the mask the loss on whole texts is clearly below the text's own "
            "entropy, which no reader of the past can reach, and on prefixes clearly over 1.5 "
            "times the entropy; and with the mask both agree within 0.001 nats and are not below "
            "0.98 of the entropy. Refuted if one of these clearly fails.",
            _judge_leak,
        )
    },
    run=_leak,
    draw=_draw_leak,
    seconds=9.0,
    references=("https://arxiv.org/abs/1706.03762",),
)
