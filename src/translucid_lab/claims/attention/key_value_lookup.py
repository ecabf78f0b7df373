"""C45: attention as a soft dictionary of queries, keys and values."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.core.trace import Edit, Trace
from translucid.models import TransformerConfig, build
from translucid.models.base import Network
from translucid.parts.feedforward import FeedForward
from translucid.see.pictures import Bars
from translucid_lab.claims.shared.attention_tasks import (
    ATTENTION,
    Batch,
    patterns,
    right,
    silent,
    train,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    has_learned,
    median_of,
)

ENTRIES, NAMES, CONTENTS = 4, 6, 6  # entries of a dictionary; how many keys and values there are
ASKING = NAMES * CONTENTS  # from here on, words that ask for a key


def dictionaries(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Entries with different keys, their keys and their values: (rows, entries) each."""
    keys = torch.rand(rows, NAMES, generator=generator).argsort(dim=1)[:, :ENTRIES]
    values = torch.randint(CONTENTS, (rows, ENTRIES), generator=generator)
    return keys * CONTENTS + values, keys, values


def _question(rows: int, generator: torch.Generator) -> Batch:
    """A dictionary, then the key of its first entry; wanted is that entry's value. Nothing tells
    the net where an entry stands, so the first is any."""
    entries, keys, values = dictionaries(rows, generator)
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
    train(net, lambda generator: _question(48, generator), seed, steps=steps, rate=1e-2)
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    entries, keys, values = dictionaries(500, generator)
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
        "weights": [float(weight) for weight in pattern[:, 0, -1].mean(dim=0)],
        "follows": {
            name: right(net, (x, wanted), Trace([], edit=edit))
            for name, (edit, wanted) in changes.items()
        },
    }


def _exchange(tensor: Tensor) -> Tensor:
    """The first and the second entry change places. (batch, heads, positions, d_head)"""
    order = [1, 0, *range(2, tensor.shape[2])]
    return tensor[:, :, order]


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


dictionary = Experiment(
    name="dictionary",
    title="Attention as a dictionary: query, key, value",
    varies="the query of the asking word, the keys of two entries, their values, both",
    measures="answers that are right, the weight on the matching key, answers after each change",
    claims={
        "C45": Rule(
            "Once one attention layer gets more than 0.9 of the look-ups right in eight of ten "
            "seeds (else not tested): supported if clearly more than 0.8 of the weight is on the "
            "matching key, and clearly more than half of the "
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
