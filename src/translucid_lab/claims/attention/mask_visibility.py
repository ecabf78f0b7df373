"""C78: which outputs change when a word is changed: who sees whom through the mask."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from translucid.models import TransformerConfig, build
from translucid.see.pictures import Axis, Grid, Heat
from translucid_lab.claims.attention.causal_mask import WORDS
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, by_case

PLACES = 8
SEEN = 1e-9  # of the largest change: what is less is rounding
STACKS = ("decoder", "encoder")


def _influence(seed: int, quick: bool) -> Data:
    """How much the output at each place changes when the word at another is changed:
    [place of the output][place of the word], as a fraction of the largest change."""
    return {stack: _changes(stack, seed, 4 if quick else 32) for stack in STACKS}


def _changes(stack: str, seed: int, texts: int) -> list[list[float]]:
    torch.manual_seed(seed)
    net = build(
        TransformerConfig(shape="decoder" if stack == "decoder" else "encoder", head="tag",
                          outputs=8, vocab=WORDS, d_model=16, heads=2, layers=2, dropout=0.0)
    ).double().eval()  # fmt: skip
    ids = torch.randint(WORDS, (texts, PLACES), generator=torch.Generator().manual_seed(seed))
    changes = torch.zeros(PLACES, PLACES, dtype=torch.float64)
    with torch.no_grad():
        before = net(ids)
        for place in range(PLACES):
            other = ids.clone()
            other[:, place] = (ids[:, place] + 1) % WORDS
            changes[:, place] = (net(other) - before).norm(dim=-1).mean(dim=0)
    rows: list[list[float]] = (changes / changes.max()).tolist()
    return rows


def _sees(data: Sequence[Data], stack: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which word reaches which output, in any of the runs: (outputs, words)."""
    return np.max([run[stack] for run in data], axis=0) > SEEN


def _judge_influence(data: Sequence[Data]) -> Finding:
    sees = _sees(data, "decoder")
    past, own, future = (
        bool(part[where].any())
        for part, where in (
            (sees, np.tril(np.ones_like(sees), -1)),
            (sees, np.eye(PLACES, dtype=bool)),
            (sees, np.triu(np.ones_like(sees), 1)),
        )
    )
    if not past or not np.isfinite([run["decoder"] for run in data]).all():
        return Finding("undecided", "no output depends on an earlier word, so that a mask has "
                       "nothing to hide")  # fmt: skip
    cases: dict[str, bool | None] = {
        "counted from the word that is predicted": not future,
        "counted from the word that is read": not future and not own,
    }
    other = "every" if _sees(data, "encoder").all() else "not every"
    return by_case(
        cases, f"an output of the decoder changes with earlier words: yes, with the word in its "
        f"own place: {'yes' if own else 'no'}, with later ones: {'yes' if future else 'no'}; in "
        f"the encoder {other} word reaches every output, its own included",
        "where one counts from: the mask leaves the diagonal, and the target is one place ahead",
    )  # fmt: skip


def _draw_influence(data: Sequence[Data]) -> Grid:
    labels = tuple(str(place + 1) for place in range(PLACES))
    titles = {"decoder": "masked: decoder", "encoder": "not masked: encoder"}
    heats = tuple(
        Heat(titles[stack], average(data, stack).numpy(), Axis("output at", labels),
             Axis("word changed at", labels), scale="positive")
        for stack in STACKS
    )  # fmt: skip
    return Grid("Which outputs change with which word", heats, 2)


who_sees_whom = Experiment(
    name="who-sees-whom",
    title="Which outputs change when a word is changed",
    varies="the place of the word that is changed; a masked and an unmasked Transformer",
    measures="how much the output at every place changes",
    claims={
        "C78": Rule(
            "Two readings of `previous`: before the word that is predicted, which holds if no "
            "output changes with a word in a later place; before the word that is read, which "
            "holds if none changes with the word in its own place either. Supported if both hold, "
            "refuted if neither, depends if one; undecided if earlier words change nothing. A "
            "change counts above 1e-9 of the largest one.",
            _judge_influence,
            label="identity",
        )
    },
    run=_influence,
    draw=_draw_influence,
    seconds=0.1,
    references=("https://arxiv.org/abs/1706.03762",),
)
