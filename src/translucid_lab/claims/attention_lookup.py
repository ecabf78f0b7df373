"""Attention as a soft dictionary of queries, keys and values (C45), which looks up near and far
entries alike (C57).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid import Trace
from translucid.core import Edit
from translucid.models import Network, RecurrentConfig, TransformerConfig, build
from translucid.parts import FeedForward
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.attention_tasks import (
    ATTENTION,
    Batch,
    patterns,
    right,
    silent,
    swap_first_two,
    train,
)
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import average, column, decide, has_learned

ENTRIES, NAMES, CONTENTS = 4, 6, 6  # entries of a dictionary; how many keys and values there are
ASKING = NAMES * CONTENTS  # an id from here on asks for the value of a key


def dictionaries(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Random dictionaries: the entries as token ids, the entries' keys (all different in a
    dictionary) and their values. Each tensor is (rows, entries)."""
    keys = torch.rand(rows, NAMES, generator=generator).argsort(dim=1)[:, :ENTRIES]
    values = torch.randint(CONTENTS, (rows, ENTRIES), generator=generator)
    return keys * CONTENTS + values, keys, values


def _question(rows: int, generator: torch.Generator) -> Batch:
    """A dictionary and the key of its first entry; the target is that entry's value. The network
    has no positions, so it does not matter which entry is first."""
    entries, keys, values = dictionaries(rows, generator)
    return torch.cat([entries, ASKING + keys[:, :1]], dim=1), values[:, 0]


def _dictionary_net(seed: int) -> Network:
    torch.manual_seed(seed)
    return build(TransformerConfig(
        shape="encoder", head="classify", pooling="last", outputs=CONTENTS, vocab=ASKING + NAMES,
        d_model=32, heads=1, layers=1, d_ff=32, dropout=0.0, positions="none",
    ))  # fmt: skip


def _dictionary(seed: int, quick: bool) -> Data:
    """Train one head without a feed-forward block to look up entries; then change its queries, keys
    and values."""
    net = silent(_dictionary_net(seed), FeedForward)
    steps = 160 if quick else 600
    train(net, lambda generator: _question(48, generator), seed, steps=steps, rate=1e-2)
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    entries, keys, values = dictionaries(500, generator)
    x = torch.cat([entries, ASKING + keys[:, :1]], dim=1)
    other = torch.cat([entries, ASKING + keys[:, 1:2]], dim=1)  # asks for the second entry
    trace = Trace(f"{ATTENTION}.query")
    with torch.no_grad():
        net(other, trace=trace)
    changes: dict[str, tuple[dict[str, Edit], Tensor]] = {
        "another query": ({f"{ATTENTION}.query": trace[f"{ATTENTION}.query"]}, values[:, 1]),
        "keys exchanged": ({f"{ATTENTION}.key": swap_first_two}, values[:, 1]),
        "values exchanged": ({f"{ATTENTION}.value": swap_first_two}, values[:, 1]),
        "keys and values exchanged": (
            {f"{ATTENTION}.{part}": swap_first_two for part in ("key", "value")}, values[:, 0],
        ),
    }  # fmt: skip
    (pattern,) = patterns(net, x)
    return {
        "accuracy": right(net, (x, values[:, 0])),
        "weight": float(pattern[:, 0, -1, 0].mean()),
        "weights": [float(weight) for weight in pattern[:, 0, -1].mean(dim=0)],
        "follows": {
            name: right(net, (x, wanted), Trace([], edit=edit))
            for name, (edit, wanted) in changes.items()
        },
    }


def _judge_dictionary(data: Sequence[Data]) -> Finding:
    accuracy, weight = (median_of(column(data, name)) for name in ("accuracy", "weight"))
    follows = {name: median_of(column(data, "follows", name)) for name in data[0]["follows"]}
    sides = {
        "four fifths of the weight on the match": clearly(weight.against(0.8), "above"),
    }
    sides |= {f"{name}: most answers follow": clearly(interval.against(0.5), "above")
              for name, interval in follows.items()}  # fmt: skip
    summary = ", ".join(f"{name} {value}" for name, value in follows.items())
    return decide(
        sides, f"right {accuracy} (chance {1 / CONTENTS:.2g}), weight on the matching key {weight};"
        f" answers as a dictionary would give them with {summary}",
        learned={"nets that look up": has_learned(column(data, "accuracy"), 0.9)},
    )  # fmt: skip


def _draw_dictionary(data: Sequence[Data]) -> Bars:
    changes = tuple(data[0]["follows"])
    values = [float(average(data, "accuracy")), float(average(data, "weight"))]
    values += [float(average(data, "follows", name)) for name in changes]
    return Bars(
        "Attention as a dictionary", "fraction",
        ("right", "weight on the matching key", *(f"right with {name}" for name in changes)),
        np.array(values), note=f"{ENTRIES} entries, one layer, one head",
    )  # fmt: skip


dictionary = Experiment.described(
    "dictionary", _dictionary, _draw_dictionary, {"C45": _judge_dictionary}
)


DISTANCES = (5, 20, 50, 100)
FILLERS = 4
NETS = ("attention", "LSTM", "RNN")


def far_question(distance: int, rows: int, generator: torch.Generator) -> Batch:
    """Texts of two entries, filler words, and the key of one of these entries, which is the
    question. distance: the number of positions from the first entry to the question."""
    entries, keys, values = (part[:, :2] for part in dictionaries(rows, generator))
    filler = torch.randint(FILLERS, (rows, distance - 2), generator=generator) + ASKING + NAMES
    which = torch.randint(2, (rows, 1), generator=generator)
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
    """Accuracy of look-ups by distance, for networks of about equal size trained on all
    distances."""
    distances = (5, 40) if quick else DISTANCES
    measured: dict[str, Any] = {"distances": list(distances)}
    for name in NETS:
        net = train(_far_net(name, seed), partial(_any_distance, distances), seed,
                    steps=60 if quick else 500, rate=1e-2)  # fmt: skip
        fresh = torch.Generator().manual_seed(seed + 1_000_000)
        measured[name] = [right(net, far_question(distance, 300, fresh)) for distance in distances]
    return measured


def _any_distance(distances: Sequence[int], generator: torch.Generator) -> Batch:
    which = int(torch.randint(len(distances), (1,), generator=generator))
    return far_question(distances[which], 32, generator)


def _judge_far(data: Sequence[Data]) -> Finding:
    far = median_of(column(data, "attention", -1))
    lost = difference_of(column(data, "attention", 0), column(data, "attention", -1), "rank")
    others = ", ".join(
        f"{name} {median_of(column(data, name, 0))} and {median_of(column(data, name, -1))}"
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
        learned={"look-ups near by": has_learned(column(data, "attention", 0), 0.9)},
    )


def _draw_far(data: Sequence[Data]) -> Lines:
    distances = data[0]["distances"]
    return Lines(
        "Looking up an entry so many words back", Axis("words back", tuple(map(str, distances))),
        "accuracy", {name: average(data, name).numpy() for name in NETS}
        | {"guessing": np.full(len(distances), 1 / CONTENTS)},
    )  # fmt: skip


far = Experiment.described("look-up-distance", _far, _draw_far, {"C57": _judge_far})
