"""The causal mask: whether a decoder without it reads the future (C77), which positions attend to
which (C78), and whether generation needs it (C79).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid import NO_TRACE, Trace
from translucid.core import NoTrace
from translucid.models import DecoderModel, GenerationInputs, TransformerConfig, build
from translucid.see import Axis, Bars, Grid, Heat, Lines
from translucid.tasks import cross_entropy
from translucid_lab import Data, Experiment, Finding, FitStep, random_rows
from translucid_lab.claims.markov_chain import Chain, small_decoder, train
from translucid_lab.engine.intervals import clearly, mean_of, median_of, ratio_of
from translucid_lab.engine.verdict import average, by_case, column, decide


def without_mask() -> Trace:
    """A trace that disables the causal mask."""
    return Trace((), edit={"*.self_attention.mask": 1.0})


def with_mask() -> NoTrace:
    return NO_TRACE


WORDS, LENGTH = 8, 12
ARMS: dict[str, Callable[[], NoTrace]] = {"mask": with_mask, "no mask": without_mask}
LOOKS = 4  # evaluations during training
FAR_WORSE = 1.5  # times the entropy
SAME = 0.001  # nats


def _leak(seed: int, quick: bool) -> Data:
    """Train a language model of a Markov chain with and without the mask: the loss on whole texts,
    as in training, and on prefixes, as in generation."""
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

        def look(step: FitStep) -> bool:
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
    """A function that draws a random batch of inputs and next-word targets from the texts."""

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
    """Loss of the next word after every prefix, each read by itself."""
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


causal_mask = Experiment.described("causal-mask", _leak, _draw_leak, {"C77": _judge_leak})


WAYS = ("a buffer with slots to come", "the prefix read anew", "word by word, with a cache")
LEAKS, TIGHT = 0.01, 0.001  # of total variation, 0 to 1


def _writing(seed: int, quick: bool) -> Data:
    """Train a decoder with the mask, and compute its next-word probabilities in three ways, each
    with and without the mask. "changes" is the distance between the probabilities with and without
    the mask. "leaks" (without the mask) and "masked leaks" (with the mask) are the distances
    between the probabilities before and after the words that follow the prefix are replaced."""
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
    """The probabilities of the word that follows the first `end` words: (texts, words)."""
    if way == WAYS[0]:  # the slots after the prefix are filled
        logits = net(ids, trace=trace())[:, end - 1]
    elif way == WAYS[1]:
        logits = net(ids[:, :end], trace=trace())[:, -1]
    else:
        state = net.start(GenerationInputs(len(ids)), capacity=end)
        for place in range(end):
            logits = net.step(ids[:, place : place + 1], state, trace=trace())[:, -1]
    return logits.softmax(dim=-1)


def _variation(p: Tensor, q: Tensor) -> float:
    """Total variation distance: 0 if equal, 1 if disjoint."""
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


mask_in_writing = Experiment.described(
    "mask-in-writing", _writing, _draw_writing, {"C79": _judge_writing}
)


PLACES = 8
SEEN = 1e-9  # of the largest change: what is less is rounding
STACKS = ("decoder", "encoder")


def _influence(seed: int, quick: bool) -> Data:
    """Change of each output when one word is replaced, as a fraction of the largest change:
    [position of the output][position of the word]."""
    return {stack: _changes(stack, seed, 4 if quick else 32) for stack in STACKS}


def _changes(stack: str, seed: int, texts: int) -> list[list[float]]:
    torch.manual_seed(seed)
    net = build(
        TransformerConfig(shape="decoder" if stack == "decoder" else "encoder", head="tag",
                          outputs=8, vocab=WORDS, d_model=16, heads=2, layers=2, dropout=0.0)
    ).double().eval()  # fmt: skip
    ids = torch.randint(WORDS, (texts, PLACES), generator=torch.Generator().manual_seed(seed))
    changes = torch.zeros(PLACES, PLACES, dtype=torch.float64)
    with torch.no_grad():
        before = net(ids)
        for place in range(PLACES):
            other = ids.clone()
            other[:, place] = (ids[:, place] + 1) % WORDS
            changes[:, place] = (net(other) - before).norm(dim=-1).mean(dim=0)
    rows: list[list[float]] = (changes / changes.max()).tolist()
    return rows


def _sees(data: Sequence[Data], stack: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which word reaches which output, in any of the runs: (outputs, words)."""
    return np.max([run[stack] for run in data], axis=0) > SEEN


def _judge_influence(data: Sequence[Data]) -> Finding:
    sees = _sees(data, "decoder")
    past, own, future = (
        bool(part[where].any())
        for part, where in (
            (sees, np.tril(np.ones_like(sees), -1)),
            (sees, np.eye(PLACES, dtype=bool)),
            (sees, np.triu(np.ones_like(sees), 1)),
        )
    )
    if not past or not np.isfinite([run["decoder"] for run in data]).all():
        return Finding("undecided", "no output depends on an earlier word, so that a mask has "
                       "nothing to hide")  # fmt: skip
    cases: dict[str, bool | None] = {
        "counted from the word that is predicted": not future,
        "counted from the word that is read": not future and not own,
    }
    other = "every" if _sees(data, "encoder").all() else "not every"
    return by_case(
        cases, f"an output of the decoder changes with earlier words: yes, with the word in its "
        f"own place: {'yes' if own else 'no'}, with later ones: {'yes' if future else 'no'}; in "
        f"the encoder {other} word reaches every output, its own included",
        "where one counts from: the mask leaves the diagonal, and the target is one place ahead",
    )  # fmt: skip


def _draw_influence(data: Sequence[Data]) -> Grid:
    labels = tuple(str(place + 1) for place in range(PLACES))
    titles = {"decoder": "masked: decoder", "encoder": "not masked: encoder"}
    heats = tuple(
        Heat(titles[stack], average(data, stack).numpy(), Axis("output at", labels),
             Axis("word changed at", labels), scale="positive")
        for stack in STACKS
    )  # fmt: skip
    return Grid("Which outputs change with which word", heats, 2)


who_sees_whom = Experiment.described(
    "who-sees-whom", _influence, _draw_influence, {"C78": _judge_influence}
)
