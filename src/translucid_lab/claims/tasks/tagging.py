"""C16: a tag for each word.

Shapes: ids (texts, longest), 0 where a text has ended.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from translucid.data.toyland import Toyland
from translucid.models import RecurrentConfig, build
from translucid.see.pictures import Bars
from translucid.tasks.batch import IGNORE
from translucid.tasks.metrics import span_f1
from translucid_lab.claims.shared.toyland_text import numbered, padded
from translucid_lab.claims.tasks.training import token_loss, train_on_rows
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    column,
    decide,
    difference_of,
    median_of,
)

TAGGERS = ("both directions", "from left to right")


def _tags(seed: int, quick: bool) -> Data:
    """F1 of the spans of names on new sentences; some names are told apart only by what follows."""
    train, test, steps = (400, 150, 80) if quick else (4000, 500, 600)
    world = Toyland(seed=seed)
    texts = [value for split, count in (("train", train), ("test", test))
             for value in world.sentences(split, count)]  # fmt: skip
    ids, words = numbered([text.english for text in texts])
    names = sorted({tag for text in texts for tag in text.entities})
    tags = padded([[names.index(tag) for tag in text.entities] for text in texts], IGNORE)
    measured: dict[str, float] = {"aligned": float(((tags != IGNORE) == (ids != 0)).all())}
    for tagger in TAGGERS:
        torch.manual_seed(seed)
        net = build(RecurrentConfig(
            shape="encoder", head="tag", outputs=len(names), vocab=words, d_model=32,
            hidden=32, cell="gru", bidirectional=tagger == TAGGERS[0], dropout=0.0,
        ))  # fmt: skip

        def loss(rows: Tensor, net: nn.Module = net) -> Tensor:
            return token_loss(net(ids[rows], ids[rows] != 0), tags[rows])

        train_on_rows(net, loss, train, steps, seed)
        with torch.no_grad():
            best = net(ids[train:], ids[train:] != 0).argmax(-1)
        guessed = [[names[tag] for tag in row[: len(text.entities)]]
                   for row, text in zip(best.tolist(), texts[train:], strict=True)]  # fmt: skip
        measured[tagger] = span_f1(guessed, [list(text.entities) for text in texts[train:]])
    return measured


def _judge_tags(data: Sequence[Data]) -> Finding:
    both, left = (median_of(column(data, tagger)) for tagger in TAGGERS)
    gap = difference_of(column(data, TAGGERS[0]), column(data, TAGGERS[1]), "rank")
    enough = (
        True if both.against(0.9) == "above" else False if both.against(0.8) == "below" else None
    )
    return decide(
        {
            "there are as many tags as words": min(column(data, "aligned")) == 1.0,
            "a tag for each word finds the names (F1 above 0.9)": enough,
        },
        f"F1 of names {both} when both sides of a word are read, {left} from left to right: "
        f"what a reader of the left side alone cannot see costs {gap}",
    )


def _draw_tags(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, tagger)) for tagger in TAGGERS])
    return Bars("A tag for each word, by what the tagger reads", "F1 of names", TAGGERS, values,
                note="some names are told apart only by the words after them")  # fmt: skip


tag_each_word = Experiment(
    name="tag-each-word",
    title="Names by one tag for each word, reading one side or both",
    varies="whether the tagger reads from left to right, or in both directions",
    measures="F1 of the spans of names on new sentences",
    claims={
        "C16": Rule(
            "Supported if every sentence has as many tags as words and a tagger that reads both "
            "sides clearly reaches an F1 above 0.9; refuted if it is clearly below 0.8.",
            _judge_tags,
        )
    },
    run=_tags,
    draw=_draw_tags,
    seconds=40.0,
    references=("https://arxiv.org/abs/1508.01991", "https://aclanthology.org/N16-1030"),
)
