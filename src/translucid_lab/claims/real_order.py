"""C33, C72, C78, C81, C82 on pretrained models: effects of order, batch and single tokens.

The models are an encoder-decoder that transliterates names and a LLaMA of stories, in float64, so
that equal results differ by rounding only.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid import NO_TRACE, Trace
from translucid.core import Edit, NoTrace
from translucid.generate import GenerationConfig
from translucid.parts import Tokens
from translucid.see import Axis, Grid, Heat, choose, switches, together
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.causal_masking import PLACES, who_sees_whom
from translucid_lab.claims.position_tasks import OTHER, SAME
from translucid_lab.claims.real_weights import (
    arabic_names,
    latin_names,
    names,
    stories,
    story_sentences,
)
from translucid_lab.claims.toyland_text import padded
from translucid_lab.engine.intervals import clearly, mean_of, median_of
from translucid_lab.engine.verdict import average, by_case, column, decide

TEXTS = 40
FAR = 0.01  # of the change that a character's own change makes

Outputs = Callable[[Tensor, Tensor | None, NoTrace], Tensor]  # ids, mask -> (texts, length, width)


def _reached(seed: int, quick: bool) -> Data:
    stacks = {"decoder": _decoder(), "encoder": _encoder()}
    texts = {"decoder": story_sentences(seed, 8 if quick else TEXTS),
             "encoder": arabic_names(seed, 8 if quick else TEXTS)}  # fmt: skip
    measured: dict[str, Any] = {"shuffled": {}, "company": {}}
    for stack, outputs in stacks.items():
        net = stories()[0] if stack == "decoder" else names()[0]
        off = [switch for switch in choose(switches(net), ["positions"])
               if switch.key.startswith(stack)]  # fmt: skip
        measured["shuffled"][stack] = _shuffled(outputs, texts[stack], together(off), seed)
        measured["company"][stack] = _company(outputs, texts[stack])
        measured[stack] = _changes(outputs, texts[stack], len(_vocabulary(stack)))
    measured["far"] = _far(stacks["encoder"], texts["encoder"])
    return {**measured, **_picked(texts["encoder"])}


def _decoder() -> Outputs:
    net = deepcopy(stories()[0]).double()
    return lambda ids, mask, trace: net(ids, mask, trace=trace)


def _encoder() -> Outputs:
    net = deepcopy(names()[0].encoder).double()
    return lambda ids, mask, trace: net(Tokens(ids, mask), trace.at("encoder")).outputs


def _vocabulary(stack: str) -> range:
    """Token ids that can be used as replacements."""
    return range(stories()[0].config.vocab) if stack == "decoder" else range(3, 40)


@torch.no_grad()
def _shuffled(
    outputs: Outputs, texts: Sequence[Tensor], off: Mapping[str, Edit], seed: int
) -> float:
    """Largest relative change of an output when the tokens after the first are shuffled, with
    positions switched off."""
    generator = torch.Generator().manual_seed(seed)
    worst = 0.0
    for ids in texts:
        order = torch.cat([torch.zeros(1, dtype=torch.long),
                           1 + torch.randperm(ids.shape[1] - 1, generator=generator)])  # fmt: skip
        before = outputs(ids, None, Trace([], edit=off))
        after = outputs(ids[:, order], None, Trace([], edit=off))
        worst = max(worst, float((before[:, order] - after).abs().max() / before.abs().max()))
    return worst


@torch.no_grad()
def _company(outputs: Outputs, texts: Sequence[Tensor]) -> float:
    """Largest relative change of a text's outputs if it is read in a padded batch with the other
    texts instead of alone."""
    ids = padded([text[0].tolist() for text in texts], -1)
    together_ = outputs(ids.clamp(min=0), ids >= 0, NO_TRACE)
    worst = 0.0
    for row, text in zip(together_, texts, strict=True):
        alone = outputs(text, None, NO_TRACE)[0]
        worst = max(worst, float((row[: len(alone)] - alone).abs().max() / alone.abs().max()))
    return worst


@torch.no_grad()
def _changes(outputs: Outputs, texts: Sequence[Tensor], vocab: int) -> list[list[float]]:
    """Change of each output by each changed token, as in the toy experiment: [position of the
    output][position of the changed token]."""
    changes = torch.zeros(PLACES, PLACES, dtype=torch.float64)
    for text in texts:
        length = min(text.shape[1], PLACES)
        ids = text[:, :length]
        before = outputs(ids, None, NO_TRACE)[0]
        for place in range(length):
            other = ids.clone()
            other[0, place] = 3 + (int(ids[0, place]) - 3 + 1) % (vocab - 3)
            after = outputs(other, None, NO_TRACE)[0]
            changes[:length, place] += (after - before).norm(dim=-1)
    rows: list[list[float]] = (changes / changes.max()).tolist()
    return rows


@torch.no_grad()
def _far(outputs: Outputs, texts: Sequence[Tensor]) -> dict[str, float]:
    """Two ratios: how much the output at the first character changes if the last character is
    replaced, divided by the change if the first character itself is replaced; and the same with
    first and last exchanged. Both are geometric means over the texts."""
    logs: dict[str, list[float]] = {"from the right": [], "from the left": []}
    for ids in texts:
        first, last = 0, ids.shape[1] - 1
        before = outputs(ids, None, NO_TRACE)[0]
        moved = {}
        for place in (first, last):
            other = ids.clone()
            other[0, place] = 3 + (int(ids[0, place]) - 3 + 1) % 37
            moved[place] = (outputs(other, None, NO_TRACE)[0] - before).norm(dim=-1)
        logs["from the right"].append(float((moved[last][first] / moved[first][first]).log()))
        logs["from the left"].append(float((moved[first][last] / moved[last][last]).log()))
    return {side: float(np.exp(np.mean(values))) for side, values in logs.items()}


def _picked(texts: Sequence[Tensor]) -> dict[str, float]:
    """Correlation of the attended source position with the target position, and the fraction of
    names that stay the same with uniform cross-attention."""
    net, _, target = names()
    config = GenerationConfig(beam_size=1, max_length=40)
    written = latin_names(texts, config)
    blind = together(switch for switch in choose(switches(net), ["patterns"])
                     if ".cross_attention" in switch.key)  # fmt: skip
    other = latin_names(texts, config, blind)
    along = []
    for source, text in zip(texts, written, strict=True):
        trace = Trace("*.cross_attention.pattern")
        with torch.no_grad():
            net(source, torch.tensor([[*target.start_ids, *text.tokens]]), trace=trace)
        patterns = [trace[name] for name in trace.names("*.cross_attention.pattern")]
        looks = torch.stack(patterns).mean(dim=(0, 1, 2))[: len(text.tokens)]  # (written, source)
        centre = looks @ torch.arange(looks.shape[1]).float()
        pair = torch.stack([centre, torch.arange(len(centre)).float()])
        along.append(float(torch.corrcoef(pair)[0, 1]))
    same = [a.tokens == b.tokens for a, b in zip(written, other, strict=True)]
    return {"along": float(np.mean(along)), "same": float(np.mean(same))}


# ---- rules ----


def _judge_shuffled(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for stack, mask in (("encoder", "no mask"), ("decoder", "causal mask")):
        change = column(data, "shuffled", stack)
        cases[mask] = True if max(change) < SAME else False if min(change) > OTHER else None
        parts.append(f"{mask}: at least {min(change):.1e}, at most {max(change):.1e}")
    return by_case(cases, "with its positions switched off, shuffling a text changes a trained "
                   f"model's outputs by, in the largest of them, {'; '.join(parts)}",
                   "the mask")  # fmt: skip


def _judge_company(data: Sequence[Data]) -> Finding:
    worst = {stack: max(column(data, "company", stack)) for stack in ("encoder", "decoder")}
    return decide(
        {f"the {stack} gives a text the same outputs in any company":
         True if value < SAME else False if value > OTHER else None
         for stack, value in worst.items()},
        f"read in a padded batch instead of alone, a text's outputs change by at most "
        f"{worst['encoder']:.1e} of the largest under layer norm and {worst['decoder']:.1e} under "
        "RMS norm",
    )  # fmt: skip


def _judge_far(data: Sequence[Data]) -> Finding:
    sides = {side: mean_of(column(data, "far", side), "log")
             for side in ("from the left", "from the right")}  # fmt: skip
    return decide(
        {f"something comes {side}": clearly(value.against(FAR), "above")
         for side, value in sides.items()},
        "at a name's other end, changing a character changes an encoder's output by "
        + " and ".join(f"{value} {side}" for side, value in sides.items())
        + " times what changing the character there does",
        {side: value.mean for side, value in sides.items()},
    )  # fmt: skip


def _judge_picked(data: Sequence[Data]) -> Finding:
    along, same = (median_of(column(data, name)) for name in ("along", "same"))
    return decide(
        {
            "where it looks goes along with what is written": clearly(along.against(0.5), "above"),
            "without the choice, names come out differently": clearly(same.against(0.5), "below"),
        },
        "character by character, the place that cross-attention looks at (mean of all heads) and "
        f"the place that is written have a correlation of {along}; where all cross-attention "
        f"looks everywhere alike, {same} of the names are written as before",
        {"along": along.mean, "same": same.mean},
    )


def _draw_reached(data: Sequence[Data]) -> Grid:
    labels = tuple(str(place + 1) for place in range(PLACES))
    titles = {"decoder": "a LLaMA of stories", "encoder": "an encoder of names"}
    heats = tuple(
        Heat(title, average(data, stack).numpy(), Axis("output at", labels),
             Axis("token changed at", labels), scale="positive")
        for stack, title in titles.items()
    )  # fmt: skip
    return Grid("Which outputs of trained models change with which token", heats, 2)


reached = Experiment.described(
    "real-order",
    _reached,
    _draw_reached,
    {
        "C33": _judge_shuffled,
        "C72": _judge_company,
        "C78": who_sees_whom.claims["C78"].judge,
        "C81": _judge_picked,
        "C82": _judge_far,
    },
)
