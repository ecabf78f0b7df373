"""C52, C75 on a pretrained LLaMA: heads and layers switched off, and its norms."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid import Trace
from translucid.core import Edit
from translucid.parts import RMSNorm, Switch
from translucid.see import Axis, Lines, choose, switches, together
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.real_weights import stories, story_sentences
from translucid_lab.claims.toyland_text import padded
from translucid_lab.engine.intervals import clearly, median_of
from translucid_lab.engine.verdict import average, by_case, column, decide, has_learned

SENTENCES = 120  # per seed: half to choose heads, half to measure
ALLOWED = 0.05  # nats a token that removable heads may cost
SPARE = 0.2  # of the heads
HARM = 0.005  # nats a token gained by removing a harmful head


def _parts(seed: int, quick: bool) -> Data:
    """Measure the loss in nats per token of the whole model, of the model without each layer, and
    with more and more heads removed. The least important heads are removed first; they are chosen
    on one half of the sentences and measured on the other. Also describe the learned scales of the
    norms."""
    net, _ = stories()
    rows = [row[0].tolist() for row in story_sentences(seed, 16 if quick else SENTENCES)]
    chosen_on, measured_on = padded(rows[::2], -1), padded(rows[1::2], -1)
    heads = choose(switches(net), ["heads"])
    missed = [loss(chosen_on, head.edit) for head in (heads[:4] if quick else heads)]
    order = [heads[at] for at in np.argsort(missed, kind="stable")]
    layers = choose(switches(net), ["layers"])
    scales = [part.gain for part in net.modules() if isinstance(part, RMSNorm)]
    return {
        "whole": loss(measured_on),
        "frequency": _frequency(measured_on),
        "layers": [loss(measured_on, layer.edit) for layer in layers],
        "removed": _removed(measured_on, order),
        "norms": len(scales),
        "features": net.config.d_model,
        "learned": sum(scale.numel() for scale in scales),
        "shifts": sum(name.endswith((".bias", ".shift")) for name in net.state_dict()),
        "spread": float(torch.cat([scale.detach() for scale in scales]).std()),
    }


@torch.no_grad()
def loss(ids: Tensor, edit: Mapping[str, Edit] | None = None) -> float:
    """Loss on sentences, padded with -1, with an edit of the model."""
    net, _ = stories()
    mask = ids >= 0
    logits = net(ids.clamp(min=0)[:, :-1], mask[:, :-1], trace=Trace([], edit=edit or {}))
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=-1).item()


def _frequency(ids: Tensor) -> float:
    """The loss of token frequencies alone."""
    counts = torch.bincount(ids[:, 1:][ids[:, 1:] >= 0]).double()
    p = counts[counts > 0] / counts.sum()
    return float(-(p * p.log()).sum())


def _removed(ids: Tensor, order: Sequence[Switch]) -> list[float]:
    """The loss with 0, 1, 2, ... heads removed, least important first."""
    return [loss(ids, together(order[:count])) for count in range(len(order) + 1)]


def removable(curve: Sequence[float]) -> int:
    """How many heads can go before more than `ALLOWED` is lost."""
    over = [value > curve[0] + ALLOWED for value in curve]
    return (over.index(True) if True in over else len(over)) - 1


def _judge_heads(data: Sequence[Data]) -> Finding:
    count = len(data[0]["removed"]) - 1
    spare = median_of([removable(run["removed"]) / count for run in data])
    gain = median_of([run["removed"][0] - run["removed"][1] for run in data])
    return by_case(
        {
            "heads duplicate one another": clearly(spare.against(SPARE), "above"),
            "a head hurts": clearly(gain.against(HARM), "above"),
        },
        f"of {count} heads, {spare} can go before {ALLOWED} nats a token are lost; without the "
        f"head that is missed least, the loss falls by {gain}",
        "what is meant: that heads can be spared, or that they do harm",
        {"spare": spare.mean, "gain": gain.mean},
        learned=_learned(data),
    )


def _learned(data: Sequence[Data]) -> dict[str, bool]:
    known = [run["frequency"] - run["whole"] for run in data]
    return {"a model that knows more than the frequency of tokens": has_learned(known, 0.5)}


def _judge_norms(data: Sequence[Data]) -> Finding:
    first = data[0]
    spread = min(column(data, "spread"))
    return decide(
        {
            "one learned number for each feature of each norm": first["learned"]
            == first["norms"] * first["features"]
            > 0,
            "no shift": first["shifts"] == 0,
            "training has moved the scales": spread > 0.05,
        },
        f"the LLaMA has {first['norms']} RMS norms of {first['features']} features, with "
        f"{first['learned']} learned scales and {first['shifts']} shifts; the scales, which begin "
        f"at 1, have a standard deviation of {spread:.2g}",
    )


def _draw_parts(data: Sequence[Data]) -> Lines:
    removed = average(data, "removed").numpy()
    return Lines(
        "A LLaMA of stories with heads removed, those missed least first",
        Axis("heads removed", tuple(map(str, range(len(removed))))), "loss, nats a token",
        {"with heads removed": removed, "frequency of tokens alone":
         np.full(len(removed), float(average(data, "frequency")))},
        note="chosen on other sentences than it is measured on",
    )  # fmt: skip


parts = Experiment.described(
    "real-parts",
    _parts,
    _draw_parts,
    {"C52": _judge_heads, "C75": _judge_norms},
)
