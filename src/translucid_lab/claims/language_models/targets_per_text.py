"""C14: one target for a text, or one at every word."""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.see.pictures import Bars
from translucid_lab.claims.language_models.next_word import made, new_loss, recurrent, train
from translucid_lab.claims.shared.toyland_text import sentences
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    Verdict,
    clearly,
    column,
    difference_of,
)


def _targets(seed: int, quick: bool) -> Data:
    """The loss on new text after equal steps over equal batches, so at equal cost; and how far the
    answer at a word changes if the text goes on."""
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


one_target = Experiment(
    name="one-target",
    title="A target at every word of a text, or at one word",
    varies="whether the loss counts every next word of a text, or one",
    measures="the loss on new text after equal steps; whether later words change an answer",
    claims={
        "C14": Rule(
            "Predicting is many-to-one if no answer changes by more than 1e-4 when the text goes "
            "on; refuted if one does. If so: supported if training on one target for each text "
            "costs clearly less than 0.1 nats after equal steps, depends (on training or "
            "predicting) if it clearly costs more.",
            _judge_targets,
        )
    },
    run=_targets,
    draw=_draw_targets,
    seconds=10.0,
    references=("https://arxiv.org/abs/1308.0850",),
)
