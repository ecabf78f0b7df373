"""What heads make of their freedom: coarse and fine features, and a sentence of three words. Both
claims are vague; the nearest questions that can be measured are asked here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.lab.deep import average, by_case
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.fit import fit
from translucid.lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
)
from translucid.lab.fitting import NOTHING, Batch, patterns, right, train
from translucid.models import TransformerConfig, build
from translucid.models.base import Network
from translucid.parts.attention import Layout, SelfAttention
from translucid.see.pictures import Axis, Bars, Heat

# ---- C55: coarse features for one head, fine ones for the other? ----

FEATURES, WORDS = 3, 4
LARGE, SMALL = 3.0, 0.3  # standard deviations of coarse and fine features
WIDTH = 2 * FEATURES + WORDS  # coarse, fine, and a one at the word's place
SPLIT = 0.5
BACK = {"same word": (1, 1), "different words": (1, 2)}  # words back: coarse, fine


def _coarse_fine(seed: int, quick: bool) -> Data:
    """Layers with two heads fetch the coarse and the fine features of earlier words: the share of
    layers whose heads split them, before and after training."""
    nets, steps = (2, 100) if quick else (8, 400)
    found: dict[str, Any] = {}
    for name, back in BACK.items():
        before, after, errors = [], [], []
        for number in range(nets):
            torch.manual_seed(1000 * seed + number)
            layer = SelfAttention(WIDTH, 2)
            before.append(split(layer))
            errors.append(_fetch(layer, back, 1000 * seed + number, steps))
            after.append(split(layer))
        found[name] = {
            "before": float(np.mean([each > SPLIT for each in before])),
            "after": float(np.mean([each > SPLIT for each in after])),
            "split": float(np.mean(after)),
            "error": float(np.mean(errors)),
        }
    return found


def split(layer: SelfAttention) -> float:
    """How differently two heads' values are made of coarse and fine features: 0 alike, 1 each of
    its own. The share of each head's weight that reads coarse features, one less the other."""
    value = layer.qkv.weight[2 * WIDTH :].detach().unflatten(0, (2, -1))  # (heads, d_head, inputs)
    energy = value.square().sum(dim=1)  # (heads, inputs)
    coarse, fine = energy[:, :FEATURES].sum(1), energy[:, FEATURES : 2 * FEATURES].sum(1)
    share = coarse / (coarse + fine)
    return float((share[0] - share[1]).abs())


def features(rows: int, chance: torch.Generator) -> Tensor:
    x = torch.zeros(rows, WORDS, WIDTH)
    x[..., :FEATURES] = LARGE * torch.randn(rows, WORDS, FEATURES, generator=chance)
    x[..., FEATURES : 2 * FEATURES] = SMALL * torch.randn(rows, WORDS, FEATURES, generator=chance)
    x[..., 2 * FEATURES :] = torch.eye(WORDS)
    return x


def _fetch(layer: SelfAttention, back: tuple[int, int], seed: int, steps: int) -> float:
    """Train; the squared error at the end, with both kinds of features in their own unit."""
    chance = torch.Generator().manual_seed(seed)
    unit = torch.tensor([LARGE] * FEATURES + [SMALL] * FEATURES)
    first = max(back)

    def loss() -> Tensor:
        x = features(32, chance)
        wanted = torch.cat(
            [
                x[:, first - back[0] : WORDS - back[0], :FEATURES],
                x[:, first - back[1] : WORDS - back[1], FEATURES : 2 * FEATURES],
            ],
            dim=-1,
        )
        error = (layer(x, Layout())[:, first:, : 2 * FEATURES] - wanted) / unit
        return error.square().mean()

    history = fit(layer, loss, steps=steps, learning_rate=2e-2)
    return float(np.mean([step.loss for step in history[-10:]]))


def _judge_coarse_fine(data: Sequence[Data]) -> Finding:
    cases, said = {}, []
    for name in BACK:
        before, after = (column(data, name, key) for key in ("before", "after"))
        more = difference_of(after, before)
        cases[f"features of {name}"] = clearly(more.against(0.1), "above")
        said.append(f"{name}: {mean_of(after)} of the trained layers, {mean_of(before)} before")
    return by_case(
        cases, f"layers whose two heads split coarse and fine features: {'; '.join(said)}",
        "whether the task fetches them from different words",
        {name: float(np.mean(column(data, name, "error"))) for name in BACK},
    )  # fmt: skip


def _draw_coarse_fine(data: Sequence[Data]) -> Bars:
    labels, values = [], []
    for name in BACK:
        for key in ("before", "after"):
            labels.append(f"{name}, {key} training")
            values.append(float(average(data, name, key)))
    return Bars(
        "Two heads that split coarse and fine features", "share of layers", tuple(labels),
        np.array(values), note="features fetched from the same word, or from different words",
    )  # fmt: skip


coarse_fine = Experiment(
    name="coarse-and-fine",
    title="Do two heads split coarse and fine features?",
    varies="whether coarse and fine features are to be fetched from the same word",
    measures="the share of layers whose heads' values read different features, before and after "
    "training",
    claims={
        "C55": Rule(
            "The claim is vague; asked is whether training makes two heads split features of large "
            "and of small variance (coarse shares of their value weights more than 0.5 apart) "
            "clearly in 0.1 more of the layers than before training. Supported if so both when the "
            "features come from the same word and from different words, refuted if clearly in "
            "neither, depends if in one.",
            _judge_coarse_fine,
        )
    },
    run=_coarse_fine,
    draw=_draw_coarse_fine,
    seconds=20.0,
)

# ---- C59: "I am Tom" ----

# Each subject with its form of "to be" and the names it may have.
MEN, WOMEN = ("Tom", "Max"), ("Anna", "Julia")
SUBJECTS = {"I": ("am", MEN + WOMEN), "you": ("are", MEN + WOMEN), "he": ("is", MEN),
            "she": ("is", WOMEN)}  # fmt: skip
SENTENCES = tuple((subject, verb, name) for subject, (verb, names) in SUBJECTS.items()
                  for name in names)  # fmt: skip
VOCABULARY = ("?", *sorted({word for sentence in SENTENCES for word in sentence}))
LINKS = {"I → am": (0, 1), "name → I": (2, 0)}
ASKED = tuple(sentence for sentence in SENTENCES if sentence[0] == "I")


def numbers(sentences: Sequence[Sequence[str]]) -> Tensor:
    return torch.tensor([[VOCABULARY.index(word) for word in each] for each in sentences])


def _hidden(rows: int, chance: torch.Generator) -> Batch:
    """Sentences in which one word is hidden; wanted is that word."""
    whole = numbers(SENTENCES)[torch.randint(len(SENTENCES), (rows,), generator=chance)]
    hide = torch.randint(3, (rows, 1), generator=chance) == torch.arange(3)
    return whole.masked_fill(hide, 0), whole.masked_fill(~hide, NOTHING)


def _three_net(seed: int) -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="tag", outputs=len(VOCABULARY), vocab=len(VOCABULARY), d_model=16,
        heads=1, layers=1, d_ff=32, dropout=0.0,
    ))  # fmt: skip


def _three_words(seed: int, quick: bool) -> Data:
    """Several small nets learn to fill in a hidden word; which links are strongest when they read
    "I am Tom"?"""
    nets, steps = (3, 50) if quick else (10, 300)
    maps, accuracy = [], []
    fresh = _hidden(200, torch.Generator().manual_seed(seed + 1_000_000))
    for number in range(nets):
        net = train(_three_net(1000 * seed + number), lambda chance: _hidden(32, chance),
                  1000 * seed + number, steps=steps, rate=1e-2)  # fmt: skip
        accuracy.append(right(net, fresh))
        maps.append(patterns(net, numbers(ASKED))[0][:, 0].mean(dim=0))
    return {
        "accuracy": float(np.mean(accuracy)),
        "links": {name: float(np.mean([strongest(each, *link) for each in maps]))
                  for name, link in LINKS.items()},
        "map": torch.stack(maps).mean(dim=0).tolist(),
    }  # fmt: skip


def strongest(pattern: Tensor, word: int, other: int) -> bool:
    """Of the other words, does a word look at this one most?"""
    row = pattern[word].clone()
    row[word] = -1.0
    return int(row.argmax()) == other


def _judge_three_words(data: Sequence[Data]) -> Finding:
    found = {name: mean_of(column(data, "links", name)) for name in LINKS}
    said = ", ".join(f"{name} in {each}" for name, each in found.items())
    return decide(
        {f"{name} in most nets": clearly(each.against(0.5), "above")
         for name, each in found.items()},
        f"strongest link to another word: {said} of the nets (guessing: 0.5); hidden words filled "
        f"in: {mean_of(column(data, 'accuracy'))}",
    )  # fmt: skip


def _draw_three_words(data: Sequence[Data]) -> Heat:
    values = average(data, "map").numpy()
    return Heat(
        "Who looks at whom in “I am Tom”", values, Axis("looks from", ("I", "am", "name")),
        Axis("to", ("I", "am", "name")), "unit", frames=tuple(LINKS.values()),
        texts=tuple(tuple(f"{value:.2f}" for value in row) for row in values),
        note="mean of all nets; frames: the links of the claim",
    )  # fmt: skip


three_words = Experiment(
    name="three-words",
    title="Who looks at whom in a sentence of three words",
    varies="the first weights of small nets that learn to fill in a hidden word",
    measures="the share of nets in which a link is the strongest to another word",
    claims={
        "C59": Rule(
            "The claim illustrates; asked is whether training leads to it. Supported if in clearly "
            "more than half of the nets “I” looks more at “am” than at the name, and in more than "
            "half the name looks more at “I” than at “am”; refuted if one of them clearly in less "
            "than half.",
            _judge_three_words,
        )
    },
    run=_three_words,
    draw=_draw_three_words,
    seconds=15.0,
    references=("https://arxiv.org/abs/1902.10186",),
)
