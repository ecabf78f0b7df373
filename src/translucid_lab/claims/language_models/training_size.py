"""C25: LSTM and Transformer by the amount of text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.language_models.next_word import (
    made,
    new_loss,
    recurrent,
    train,
    transformer,
)
from translucid_lab.claims.shared.toyland_text import sentences
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, Verdict, column, difference_of

SIZES = (60, 250, 1000, 4000)
FAMILIES = ("LSTM", "Transformer")


def _amounts(seed: int, quick: bool) -> Data:
    """The loss on new text of each at its best, by how many sentences it trains on; when that is,
    other new text says."""
    measured: dict[str, Any] = {"sizes": list(SIZES[:2] if quick else SIZES)}
    for family in FAMILIES:
        losses = []
        for size in measured["sizes"]:
            texts = sentences(seed, size)
            middle = len(texts.new) // 2
            halves = [replace(texts, new=part) for part in texts.new.split(middle)[:2]]
            lstm = family == "LSTM"
            config = recurrent(texts.vocab, cell="lstm") if lstm else transformer(texts.vocab)
            net = made(config, seed)
            rounds = 2 if quick else 6
            best = []
            for part in range(rounds):  # looked at in between: little text is soon learnt by heart
                train(net, texts, 30 if quick else 120, seed * rounds + part)
                best.append([new_loss(net, half) for half in halves])
            losses.append(min(best)[1])  # chosen on one half of the new text, read off the other
        measured[family] = losses
    return measured


def _judge_amounts(data: Sequence[Data]) -> Finding:
    places = range(len(data[0]["sizes"]))
    gaps = [difference_of(column(data, "LSTM", at), column(data, "Transformer", at))
            for at in places]  # fmt: skip
    sides = [gap.against(0.0) for gap in gaps]
    summary = ", ".join(f"{size}: {gap}" for size, gap in zip(data[0]["sizes"], gaps, strict=True))
    why = f"loss of the LSTM less that of the Transformer, by sentences trained on: {summary}"
    cross = "above" in sides and "below" in sides
    verdict: Verdict = (
        "supported" if cross else "refuted" if len(set(sides)) == 1 and "across" not in sides
        else "undecided"
    )  # fmt: skip
    return Finding(verdict, why)


def _draw_amounts(data: Sequence[Data]) -> Lines:
    sizes = tuple(map(str, data[0]["sizes"]))
    series = {name: np.mean([run[name] for run in data], axis=0) for name in FAMILIES}
    return Lines("Loss on new text, by how much text there is", Axis("sentences", sizes),
                 "nats for each word", series)  # fmt: skip


amount_of_text = Experiment(
    name="amount-of-text",
    title="LSTM and Transformer by the amount of text",
    varies="the number of training sentences; an LSTM and a Transformer of about one size",
    measures="the loss on new text, at the step that is best for other new text",
    claims={
        "C25": Rule(
            "'Medium-sized' is not said in numbers; the nearest question is whether it depends on "
            "the amount of text which family is better. Supported if the LSTM is clearly better "
            "at one amount and the Transformer at another; refuted if one of them is clearly "
            "better at every amount.",
            _judge_amounts,
        )
    },
    run=_amounts,
    draw=_draw_amounts,
    seconds=40.0,
    references=("https://arxiv.org/abs/1712.00409", "https://arxiv.org/abs/2001.08361"),
)
