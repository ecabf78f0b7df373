"""What tokens can do with one another: look things up, near and far; what an MLP alone cannot."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.lab.deep import average
from translucid.lab.engine.experiment import Experiment
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
from translucid.lab.fitting import Batch, patterns, right, train
from translucid.models import MLPConfig, RecurrentConfig, TransformerConfig, build
from translucid.models.base import Network
from translucid.parts.attention import SelfAttention
from translucid.parts.feedforward import FeedForward
from translucid.see.pictures import Axis, Bars, Lines
from translucid.trace import Edit, Trace

ATTENTION = "encoder.layers.0.self_attention"


def silent(net: Network, kind: type[nn.Module]) -> Network:
    """Without the parts of a kind: they add 0 for ever."""
    for part in (each for each in net.modules() if isinstance(each, kind)):
        for weight in part.parameters():
            weight.requires_grad_(False)
            weight.zero_()
    return net


# ---- C45: a soft dictionary ----

ENTRIES, NAMES, CONTENTS = 4, 6, 6  # entries of a dictionary; how many keys and values there are
ASKING = NAMES * CONTENTS  # from here on, words that ask for a key


def dictionaries(rows: int, chance: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Entries with different keys, their keys and their values: (rows, entries) each."""
    keys = torch.rand(rows, NAMES, generator=chance).argsort(dim=1)[:, :ENTRIES]
    values = torch.randint(CONTENTS, (rows, ENTRIES), generator=chance)
    return keys * CONTENTS + values, keys, values


def _question(rows: int, chance: torch.Generator) -> Batch:
    """A dictionary, then the key of its first entry; wanted is that entry's value. Nothing tells
    the net where an entry stands, so the first is any."""
    entries, keys, values = dictionaries(rows, chance)
    return torch.cat([entries, ASKING + keys[:, :1]], dim=1), values[:, 0]


def _dictionary_net(seed: int) -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="classify", pooling="last", outputs=CONTENTS, vocab=ASKING + NAMES,
        d_model=32, heads=1, layers=1, d_ff=32, dropout=0.0, positions="none",
    ))  # fmt: skip


def _dictionary(seed: int, quick: bool) -> Data:
    """One head, with no feed-forward block behind it that could mend what it hands over, learns to
    look up; then its queries, keys and values are changed."""
    net = silent(_dictionary_net(seed), FeedForward)
    steps = 160 if quick else 600
    train(net, lambda chance: _question(48, chance), seed, steps=steps, rate=1e-2)
    chance = torch.Generator().manual_seed(seed + 1_000_000)
    entries, keys, values = dictionaries(500, chance)
    x = torch.cat([entries, ASKING + keys[:, :1]], dim=1)
    other = torch.cat([entries, ASKING + keys[:, 1:2]], dim=1)  # it asks for the second entry
    trace = Trace(f"{ATTENTION}.query")
    with torch.no_grad():
        net(other, trace=trace)
    changes: dict[str, tuple[dict[str, Edit], Tensor]] = {
        "another query": ({f"{ATTENTION}.query": trace[f"{ATTENTION}.query"]}, values[:, 1]),
        "keys exchanged": ({f"{ATTENTION}.key": _exchange}, values[:, 1]),
        "values exchanged": ({f"{ATTENTION}.value": _exchange}, values[:, 1]),
        "keys and values exchanged": (
            {f"{ATTENTION}.key": _exchange, f"{ATTENTION}.value": _exchange}, values[:, 0],
        ),
    }  # fmt: skip
    (pattern,) = patterns(net, x)
    return {
        "accuracy": right(net, (x, values[:, 0])),
        "weight": float(pattern[:, 0, -1, 0].mean()),
        "weights": [float(each) for each in pattern[:, 0, -1].mean(dim=0)],
        "follows": {
            name: right(net, (x, wanted), Trace([], edit=edit))
            for name, (edit, wanted) in changes.items()
        },
    }


def _exchange(each: Tensor) -> Tensor:
    """The first and the second entry change places. (batch, heads, positions, d_head)"""
    order = [1, 0, *range(2, each.shape[2])]
    return each[:, :, order]


def _judge_dictionary(data: Sequence[Data]) -> Finding:
    accuracy, weight = (mean_of(column(data, name)) for name in ("accuracy", "weight"))
    follows = {name: mean_of(column(data, "follows", name)) for name in data[0]["follows"]}
    sides = {
        "nine of ten right": clearly(accuracy.against(0.9), "above"),
        "four fifths of the weight on the match": clearly(weight.against(0.8), "above"),
    }
    sides |= {f"{name}: most answers follow": clearly(each.against(0.5), "above")
              for name, each in follows.items()}  # fmt: skip
    said = ", ".join(f"{name} {each}" for name, each in follows.items())
    return decide(
        sides, f"right {accuracy} (chance {1 / CONTENTS:.2g}), weight on the matching key {weight};"
        f" answers as a dictionary would give them with {said}",
    )  # fmt: skip


def _draw_dictionary(data: Sequence[Data]) -> Bars:
    changes = tuple(data[0]["follows"])
    values = [float(average(data, "accuracy")), float(average(data, "weight"))]
    values += [float(average(data, "follows", name)) for name in changes]
    return Bars(
        "Attention as a dictionary", "share",
        ("right", "weight on the matching key", *(f"right with {name}" for name in changes)),
        np.array(values), note=f"{ENTRIES} entries, one layer, one head",
    )  # fmt: skip


dictionary = Experiment(
    name="dictionary",
    title="Attention as a dictionary: query, key, value",
    varies="the query of the asking word, the keys of two entries, their values, both",
    measures="answers that are right, the weight on the matching key, answers after each change",
    claims={
        "C45": Rule(
            "Supported if one attention layer clearly gets more than 0.9 of the look-ups right "
            "with more than 0.8 of the weight on the matching key, and more than half of the "
            "answers follow as in a dictionary when the query is replaced by that of another key, "
            "when two entries exchange keys, values, or both; refuted if one clearly fails.",
            _judge_dictionary,
        )
    },
    run=_dictionary,
    draw=_draw_dictionary,
    seconds=5.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/1606.03126"),
)

# ---- C56: tokens one by one, or with one another ----

KINDS, LENGTH = 8, 8


def _previous(rows: int, chance: torch.Generator) -> Batch:
    """Random words; wanted is the one before the last."""
    x = torch.randint(KINDS, (rows, LENGTH), generator=chance)
    return x, x[:, -2]


def _side_by_side(batch: Batch) -> Batch:
    """The same for an MLP that sees all words at once, as ones and zeros in a long row."""
    x, wanted = batch
    return F.one_hot(x, KINDS).flatten(1).float(), wanted


def _formed(form: Callable[[Batch], Batch], chance: torch.Generator) -> Batch:
    return form(_previous(32, chance))


def _reader(seed: int) -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="classify", pooling="last", outputs=KINDS, vocab=KINDS, d_model=16,
        heads=1, layers=1, d_ff=32, dropout=0.0,
    ))  # fmt: skip


def _alone(seed: int, quick: bool) -> Data:
    """The share of words before the last that are named, and how much an answer changes when that
    word is another one."""
    torch.manual_seed(seed)
    whole = build(MLPConfig(inputs=KINDS * LENGTH, hidden=(64,), outputs=KINDS))
    nets: dict[str, tuple[Network, Callable[[Batch], Batch]]] = {
        "each word alone": (silent(_reader(seed), SelfAttention), lambda batch: batch),
        "with attention": (_reader(seed), lambda batch: batch),
        "all words side by side": (whole, _side_by_side),
    }
    seen = _previous(500, torch.Generator().manual_seed(seed + 1_000_000))
    changed = seen[0].clone()
    changed[:, -2] = (changed[:, -2] + 1) % KINDS
    found: dict[str, Any] = {}
    for name, (net, form) in nets.items():
        draw = partial(_formed, form)
        train(net, draw, seed, steps=70 if quick else 400, rate=1e-2)
        with torch.no_grad():
            moved = net(form((changed, seen[1]))[0]) - net(form(seen)[0])
        found[name] = {"accuracy": right(net, form(seen)), "moved": float(moved.abs().max())}
    return found


def _judge_alone(data: Sequence[Data]) -> Finding:
    chance = 1 / KINDS
    alone, mixed = (
        mean_of(column(data, name, "accuracy")) for name in ("each word alone", "with attention")
    )
    moved = max(column(data, "each word alone", "moved"))
    return decide(
        {
            "alone it only guesses": clearly(alone.against(chance + 0.05), "below"),
            "no answer moves when another word changes": moved == 0.0,
            # A task that nobody learns says nothing.
            "attention learns it": clearly(mixed.against(0.9), "above") or None,
        },
        f"the word before, named: by a position-wise MLP {alone} (chance {chance:.3g}), with "
        f"attention {mixed}; an MLP over all words side by side is another thing: "
        f"{mean_of(column(data, 'all words side by side', 'accuracy'))}",
    )


def _draw_alone(data: Sequence[Data]) -> Bars:
    names = tuple(data[0])
    values = [float(average(data, name, "accuracy")) for name in names]
    return Bars(
        "Naming the word before", "share right", (*names, "chance"),
        np.array([*values, 1 / KINDS]), marked=(0,),
    )  # fmt: skip


alone = Experiment(
    name="word-alone",
    title="A position-wise MLP, attention, and an MLP over all words",
    varies="who may see the other words: nobody, attention, an MLP that reads all words at once",
    measures="how often the word before is named; how far an answer moves if that word changes",
    claims={
        "C56": Rule(
            "Supported if a Transformer without attention clearly stays below chance + 0.05 at "
            "naming the word before, and its answers do not move at all when that word changes; "
            "refuted if either clearly fails; open unless the same net with attention gets more "
            "than 0.9 right.",
            _judge_alone,
        )
    },
    run=_alone,
    draw=_draw_alone,
    seconds=4.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/2105.01601"),
)

# ---- C57: near and far ----

DISTANCES = (5, 20, 50, 100)
FILLERS = 4
NETS = ("attention", "LSTM", "RNN")


def far_question(distance: int, rows: int, chance: torch.Generator) -> Batch:
    """Two entries, filler words, and the key of one of the entries, so many words after it."""
    entries, keys, values = (each[:, :2] for each in dictionaries(rows, chance))
    filler = torch.randint(FILLERS, (rows, distance - 2), generator=chance) + ASKING + NAMES
    which = torch.randint(2, (rows, 1), generator=chance)
    asked = ASKING + keys.gather(1, which)
    return torch.cat([entries, filler, asked], dim=1), values.gather(1, which)[:, 0]


def _far_net(name: str, seed: int) -> Network:
    torch.manual_seed(seed)
    shared: dict[str, Any] = {
        "shape": "encoder", "head": "classify", "pooling": "last", "outputs": CONTENTS,
        "vocab": ASKING + NAMES + FILLERS, "d_model": 32, "dropout": 0.0,
    }  # fmt: skip
    if name == "attention":
        return build(TransformerConfig(**shared, heads=1, layers=1, d_ff=64))
    return build(RecurrentConfig(**shared, cell="lstm" if name == "LSTM" else "rnn",
                                 hidden=32 if name == "LSTM" else 64))  # fmt: skip


def _far(seed: int, quick: bool) -> Data:
    """The share of look-ups right, by distance, for nets of about equal size that train on all
    distances."""
    distances = (5, 40) if quick else DISTANCES
    found: dict[str, Any] = {"distances": list(distances)}
    for name in NETS:
        net = train(_far_net(name, seed), lambda chance: _any_distance(distances, chance), seed,
                  steps=60 if quick else 500, rate=1e-2)  # fmt: skip
        fresh = torch.Generator().manual_seed(seed + 1_000_000)
        found[name] = [right(net, far_question(each, 300, fresh)) for each in distances]
    return found


def _any_distance(distances: Sequence[int], chance: torch.Generator) -> Batch:
    which = int(torch.randint(len(distances), (1,), generator=chance))
    return far_question(distances[which], 32, chance)


def _judge_far(data: Sequence[Data]) -> Finding:
    far = mean_of(column(data, "attention", -1))
    lost = difference_of(column(data, "attention", 0), column(data, "attention", -1))
    others = ", ".join(
        f"{name} {mean_of(column(data, name, 0))} and {mean_of(column(data, name, -1))}"
        for name in NETS[1:]
    )
    near, most = data[0]["distances"][0], data[0]["distances"][-1]
    return decide(
        {
            f"right at distance {most}": clearly(far.against(0.9), "above"),
            "flat in distance": clearly(lost.against(0.05), "below"),
        },
        f"attention: {far} right {most} words away, {lost} less than {near} words away; for "
        f"comparison, near and far: {others}",
    )


def _draw_far(data: Sequence[Data]) -> Lines:
    distances = data[0]["distances"]
    return Lines(
        "Looking up an entry so many words back", Axis("words back", tuple(map(str, distances))),
        "share right", {name: average(data, name).numpy() for name in NETS}
        | {"guessing": np.full(len(distances), 1 / CONTENTS)},
    )  # fmt: skip


far = Experiment(
    name="look-up-distance",
    title="Looking up an entry near and far: attention, LSTM, RNN",
    varies="how many words lie between an entry and the question; the kind of net",
    measures="the share of look-ups that are right",
    claims={
        "C57": Rule(
            "Supported if attention clearly gets more than 0.9 right at the largest distance, and "
            "clearly loses less than 0.05 from the smallest to the largest; refuted if either "
            "clearly fails. The LSTM and the RNN stand beside it and do not decide.",
            _judge_far,
        )
    },
    run=_far,
    draw=_draw_far,
    seconds=25.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/2307.03172"),
)
