"""Small language models on Toyland, recurrent or Transformer, trained for a short time: one target
for a text or one at every word (C14), the amount of text (C25), the size of a word's vector (C89).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.models import (
    DecoderModel,
    ModelConfig,
    NGramConfig,
    NGramModel,
    RecurrentConfig,
    TransformerConfig,
    build,
)
from translucid.parts import CellName
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding, Verdict, fit, random_rows
from translucid_lab.claims.toyland_text import Sentences, sentences
from translucid_lab.engine.intervals import clearly, difference_of, mean_of
from translucid_lab.engine.verdict import all_hold, column, decide

BATCH, RATE = 32, 3e-3


def recurrent(vocab: int, *, wide: int = 32, cell: CellName = "gru") -> ModelConfig:
    return RecurrentConfig(
        shape="decoder", head="language", vocab=vocab, d_model=wide, hidden=32, cell=cell,
        dropout=0.0, tied=False,
    )  # fmt: skip


def transformer(vocab: int, *, wide: int = 32) -> ModelConfig:
    return TransformerConfig(
        shape="decoder", head="language", vocab=vocab, d_model=wide, heads=2, layers=1,
        dropout=0.0, tied=False,
    )  # fmt: skip


def made(config: ModelConfig, seed: int) -> DecoderModel:
    torch.manual_seed(seed)
    net = build(config)
    assert isinstance(net, DecoderModel)
    return net


def train(net: DecoderModel, texts: Sentences, steps: int, seed: int, *, one: bool = False) -> None:
    """Train a model; with `one`, only one random word of each text is a target."""
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        ids = random_rows(texts.train, BATCH, generator)
        wanted = ids[:, 1:]
        return _loss(net, ids, _only_one(wanted, generator) if one else wanted)

    fit(net, loss, steps=steps, learning_rate=RATE, clip_norm=1.0)
    net.eval()


def _only_one(wanted: Tensor, generator: torch.Generator) -> Tensor:
    lengths = (wanted != 0).sum(1)
    places = (torch.rand(len(wanted), generator=generator) * lengths).long()
    return torch.zeros_like(wanted).scatter(1, places[:, None], wanted.gather(1, places[:, None]))


def _loss(net: DecoderModel, ids: Tensor, wanted: Tensor) -> Tensor:
    logits = net(ids[:, :-1], ids[:, :-1] != 0)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)


@torch.no_grad()
def new_loss(net: DecoderModel, texts: Sentences) -> float:
    """Loss on new sentences, in nats per word."""
    return float(_loss(net, texts.new, texts.new[:, 1:]))


WIDTHS = (4, 16, 64, 256)


def _widths(seed: int, quick: bool) -> Data:
    """Loss on new text for each embedding size, and for word frequencies alone."""
    texts = sentences(seed, 300 if quick else 2000)
    losses = []
    for wide in WIDTHS:
        net = made(recurrent(texts.vocab, wide=wide), seed)
        train(net, texts, 60 if quick else 400, seed)
        losses.append(new_loss(net, texts))
    return {"loss": losses, "counts": texts.counted}


def _judge_widths(data: Sequence[Data]) -> Finding:
    learnt = [difference_of(column(data, "counts"), column(data, "loss", at))
              for at in range(len(WIDTHS))]  # fmt: skip
    worst = min(learnt, key=lambda interval: interval.mean)
    spread = mean_of([max(run["loss"]) - min(run["loss"]) for run in data], "log")
    summary = ", ".join(f"{wide}: {mean_of(column(data, 'loss', at))}"
                     for at, wide in enumerate(WIDTHS))  # fmt: skip
    return decide(
        {
            "every size learns more than word counts say": clearly(worst.against(0.0), "above"),
            "sizes differ by more than 0.1": clearly(spread.against(0.1), "above"),
        },
        f"nats for each new word, by the size of a vector: {summary}",
    )


def _draw_widths(data: Sequence[Data]) -> Lines:
    shown = {
        "GRU": np.mean([run["loss"] for run in data], axis=0),
        "word counts alone": np.full(len(WIDTHS), np.mean(column(data, "counts"))),
    }
    return Lines("Loss on new text, by the size of a word's vector",
                 Axis("numbers for each word", tuple(map(str, WIDTHS))), "nats for each word",
                 shown)  # fmt: skip


vector_sizes = Experiment.described("vector-sizes", _widths, _draw_widths, {"C89": _judge_widths})


SIZES = (60, 250, 1000, 4000)
FAMILIES = ("LSTM", "Transformer")
COUNTING = "n-grams"  # the family without a network
ORDER = 3


def _amounts(seed: int, quick: bool) -> Data:
    """Loss of each family on new text, by number of training sentences; for networks, the best step
    is chosen on a different part of the new text."""
    steps, rounds = (30, 2) if quick else (120, 6)
    parts = range(seed * rounds, (seed + 1) * rounds)
    return by_amount([sentences(seed, size) for size in (SIZES[:2] if quick else SIZES)],
                     seed, steps, parts)  # fmt: skip


def by_amount(
    amounts: Sequence[Sentences], seed: int, steps: int, part_seeds: Sequence[int]
) -> dict[str, Any]:
    """Loss of each family, for several amounts of text."""
    measured: dict[str, Any] = {"sizes": [len(texts.train) for texts in amounts]}
    for family in FAMILIES:
        measured[family] = [best_loss(texts, family, seed, steps, part_seeds) for texts in amounts]
    measured[COUNTING] = [counting_loss(texts) for texts in amounts]
    return measured


@torch.no_grad()
def counting_loss(texts: Sentences) -> float:
    """Loss of interpolated n-grams on the half of the new text that networks are measured on."""
    net = NGramModel(NGramConfig(shape="decoder", head="language", vocab=texts.vocab, order=ORDER))
    ids, wanted = texts.train[:, :-1], texts.train[:, 1:]
    net.fit([({"ids": ids, "mask": wanted != 0}, wanted)])
    half = texts.new.split(len(texts.new) // 2)[1]
    logits = net(half[:, :-1], half[:, :-1] != 0)
    return float(F.cross_entropy(logits.flatten(0, 1), half[:, 1:].flatten(), ignore_index=0))


def best_loss(
    texts: Sentences, family: str, seed: int, steps: int, part_seeds: Sequence[int]
) -> float:
    """Train in parts of `steps` steps, and find the part after which the loss on one half of the
    new text is smallest. Return the loss on the other half at that point. A small text is soon
    memorised, so the last part is rarely the best."""
    config = recurrent(texts.vocab, cell="lstm") if family == "LSTM" else transformer(texts.vocab)
    net = made(config, seed)
    halves = [replace(texts, new=half) for half in texts.new.split(len(texts.new) // 2)[:2]]
    losses = []
    for part_seed in part_seeds:
        train(net, texts, steps, part_seed)
        losses.append([new_loss(net, half) for half in halves])
    return min(losses)[1]


def _judge_amounts(data: Sequence[Data]) -> Finding:
    sizes = data[0]["sizes"]
    others = (COUNTING, "Transformer")
    gaps = {other: [difference_of(column(data, other, at), column(data, "LSTM", at))
                    for at in range(len(sizes))] for other in others}  # fmt: skip
    # Where the other family's loss is higher, the LSTM is better.
    better = {other: [clearly(gap.against(0.0), "above") for gap in gaps[other]]
              for other in others}  # fmt: skip
    best = [all_hold(both) for both in zip(*better.values(), strict=True)]
    smallest, largest = better[COUNTING][0], better["Transformer"][-1]
    return decide(
        {
            "the LSTM is the best at some amount":
                True if True in best else None if None in best else False,
            "n-grams are better with the least text": None if smallest is None else not smallest,
            "the Transformer is better with the most": None if largest is None else not largest,
        },
        f"by sentences trained on ({', '.join(map(str, sizes))}), loss above that of the LSTM: "
        + "; ".join(f"{other} {', '.join(map(str, gaps[other]))}" for other in others),
    )  # fmt: skip


def _draw_amounts(data: Sequence[Data]) -> Lines:
    sizes = tuple(map(str, data[0]["sizes"]))
    series = {name: np.mean([run[name] for run in data], axis=0) for name in (*FAMILIES, COUNTING)}
    return Lines("Loss on new text, by how much text there is", Axis("sentences", sizes),
                 "nats for each word", series)  # fmt: skip


amount_of_text = Experiment.described(
    "amount-of-text", _amounts, _draw_amounts, {"C25": _judge_amounts}
)


def _targets(seed: int, quick: bool) -> Data:
    """Train with one target per text and with a target at every word, for equally many steps on
    equal batches, and measure the loss on new text. Also measure how much an output changes if the
    text continues."""
    texts = sentences(seed, 300 if quick else 2000)
    measured: dict[str, float] = {}
    for name, one in (("every word", False), ("one word", True)):
        net = made(recurrent(texts.vocab), seed)
        train(net, texts, 60 if quick else 500, seed, one=one)
        measured[name] = new_loss(net, texts)
    cut = texts.new[:, :3]
    with torch.no_grad():
        alone, among = net(cut), net(texts.new[:, :6])[:, :3]
    return measured | {"prefix": float((alone - among).abs().max())}


def _judge_targets(data: Sequence[Data]) -> Finding:
    loss = difference_of(column(data, "one word"), column(data, "every word"))
    worst = max(column(data, "prefix"))
    summary = (
        f"after equal steps, texts with one target leave {loss} nats more for each new word than "
        f"texts with a target at every word; an answer changes by at most {worst:.0e} if the text "
        "goes on"
    )
    predicts = worst < 1e-4
    trains = clearly(loss.against(0.1), "below")
    verdict: Verdict = "undecided"
    if not predicts:
        verdict = "refuted"
    elif trains is not None:
        verdict = "supported" if trains else "depends"
    if verdict == "depends":
        summary += "; it depends on whether one predicts (many words, one answer) or trains (an "
        summary += "answer at every word)"
    return Finding(verdict, summary)


def _draw_targets(data: Sequence[Data]) -> Bars:
    labels = ("every word", "one word")
    values = np.array([np.mean(column(data, name)) for name in labels])
    return Bars("The same batches, with one target or many", "nats for each new word", labels,
                values, note="after equal steps: smaller is better")  # fmt: skip


one_target = Experiment.described("one-target", _targets, _draw_targets, {"C14": _judge_targets})
