"""C86: can an early pick leave no way to finish?"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.see.pictures import Bars
from translucid_lab.claims.shared.table_model import Tables
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, by_case, clearly, fraction_of

OPENING, CLOSING = "([", ")]"
SIGNS = "()[]"
BRACKETS = len(SIGNS)
END, START = BRACKETS, BRACKETS + 1
PAIRS = 4  # in a sentence, at most
ROOM = 2 * PAIRS + 1  # tokens, the end counted
UNSEEN = 1e-3  # probability, under a softmax, of what was never seen
RARE = 0.01
KINDS = {
    "no possible way, where some probabilities are 0": "hard, impossible",
    "no possible way, under a softmax": "soft, impossible",
    "no grammatical way, under a softmax": "soft, ungrammatical",
}


def _dead_ends(seed: int, quick: bool) -> Data:
    """Random distributions over well-formed brackets, and models of them that know the last sign
    only: how many of greedy's texts come to a place from which nothing can be finished."""
    generator = torch.Generator().manual_seed(seed)
    count = 80 if quick else 400
    hard = _bracket_models(count, generator)
    soft = (1 - UNSEEN * (END + 1)) * hard[..., : END + 1] + UNSEEN
    soft = torch.cat([soft, torch.zeros_like(hard[..., END + 1 :])], dim=-1)
    measured: dict[str, Any] = {"tries": count}
    for name, models in (("hard", hard), ("soft", soft)):
        texts = Tables(models.log()).find(
            START, ROOM, GenerationConfig(beam_size=1, alpha=0.0), eos=END
        )
        ways = _ways(models)
        prefixes = [list(_prefixes(text)) for text in texts]
        measured[f"{name}, impossible"] = sum(
            any(not ways[row, left, prefix[-1]] for prefix, left in own)
            for row, own in enumerate(prefixes)
        )
        measured[f"{name}, ungrammatical"] = sum(
            any(not finishable(prefix, left) for prefix, left in own) for own in prefixes
        )
    return measured  # fmt: skip


def sentences(pairs: int = PAIRS) -> list[str]:
    """All well-formed texts of one to so many pairs of two kinds of brackets."""
    by_pairs: list[list[str]] = [[""]]
    for count in range(1, pairs + 1):
        by_pairs.append([
            opening + inner + closing + rest
            for inside in range(count)
            for inner in by_pairs[inside]
            for rest in by_pairs[count - 1 - inside]
            for opening, closing in zip(OPENING, CLOSING, strict=True)
        ])  # fmt: skip
    return [text for texts in by_pairs[1:] for text in texts]


def _bracket_models(count: int, generator: torch.Generator) -> Tensor:
    """P(next sign | last sign), counted over all sentences, which each model weighs in its own way:
    by length, depth, kind of bracket, and neighbours. (models, signs, signs)"""
    texts = sentences()
    features = torch.tensor([
        [len(text) / 2, _depth(text), text.count("["), text.count("()") + text.count("[]")]
        for text in texts
    ], dtype=torch.float64)  # fmt: skip
    taste = torch.randn(count, features.shape[1], generator=generator, dtype=torch.float64)
    weights = (taste @ features.T).softmax(dim=-1)  # (models, texts)
    follows = torch.zeros(len(texts), START + 1, START + 1, dtype=torch.float64)
    for row, text in enumerate(texts):
        signs = [START, *(SIGNS.index(sign) for sign in text), END]
        for last, following in pairwise(signs):
            follows[row, last, following] += 1
    counts = (weights @ follows.flatten(1)).unflatten(1, (START + 1, START + 1))
    counts[:, END, END] = 1.0  # behind an end nothing comes
    return counts / counts.sum(dim=-1, keepdim=True)


def _depth(text: str) -> int:
    return max(sum(1 if sign in OPENING else -1 for sign in text[:end])
               for end in range(len(text) + 1))  # fmt: skip


def _prefixes(text: Hypothesis) -> Iterator[tuple[list[int], int]]:
    """Greedy's beginnings, and how many tokens may still come, the end counted."""
    for end in range(1, len(text.tokens) + 1):
        if end < ROOM:
            yield text.tokens[:end], ROOM - end


def _ways(models: Tensor) -> Tensor:
    """Is there a way to an end, of positive probability, with so many tokens left?
    (models, left, last sign)"""
    positive = models > 0
    reach = [torch.zeros_like(positive[..., END])]
    for _ in range(ROOM):
        onwards = (positive[..., :BRACKETS] & reach[-1][:, None, :BRACKETS]).any(dim=-1)
        reach.append(positive[..., END] | onwards)
    return torch.stack(reach, dim=1)


def finishable(prefix: Sequence[int], left: int) -> bool:
    """Can a beginning still become a well-formed text with so many tokens, the end counted?"""
    is_open: list[int] = []
    for sign in prefix:
        if SIGNS[sign] in OPENING:
            is_open.append(sign)
        elif not is_open or is_open.pop() != sign - 1:
            return False
    return len(is_open) + 1 <= left


def _judge_dead_ends(data: Sequence[Data]) -> Finding:
    tries = sum(run["tries"] for run in data)
    fractions = {label: fraction_of(sum(run[name] for run in data), tries)
                 for label, name in KINDS.items()}  # fmt: skip
    return by_case(
        {label: clearly(fraction.against(RARE), "above") for label, fraction in fractions.items()},
        f"of greedy's texts over {tries} random models of brackets, so many come to a dead end: "
        + "; ".join(f"{label} {fraction}" for label, fraction in fractions.items()),
        "what `no way` means: a softmax leaves everything possible, but not everything grammatical",
        {label: fraction.mean for label, fraction in fractions.items()},
    )


def _draw_dead_ends(data: Sequence[Data]) -> Bars:
    tries = sum(run["tries"] for run in data)
    values = np.array([sum(run[name] for run in data) / tries for name in KINDS.values()])
    return Bars(
        "Greedy's dead ends", "fraction of models", tuple(KINDS), values,
        note=f"brackets must close within {ROOM - 1} signs; the models know the last sign",
    )  # fmt: skip


dead_ends = Experiment(
    name="dead-ends",
    title="Can an early pick leave no way to finish?",
    varies="models of well-formed brackets, with zero probabilities and with a softmax",
    measures="how many of greedy's texts reach a place from which no end, or no grammatical end, "
    "can be reached in the room that is left",
    claims={
        "C86": Rule(
            "Three readings: no possible way where some probabilities are 0; no possible way under "
            "a softmax; no grammatical way under a softmax. Each holds if it happens in clearly "
            "over 1 % of random models, and fails if clearly in less. "
            "Supported if all hold, refuted if none, depends if some.",
            _judge_dead_ends,
            label="simulation",
        )
    },
    run=_dead_ends,
    draw=_draw_dead_ends,
    seconds=0.2,
)
