"""C85: greedy search, beam search, and the exact optimum."""

from collections.abc import Sequence

import torch
from torch import Tensor

from translucid.generate.beam_search import GenerationConfig
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.table_model import Tables
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    difference_of,
    median_of,
)

WORDS, LENGTH = 8, 10
BEAMS = (1, 2, 4, 8, 16)
TINY = 1e-9  # of a log-probability: rounding
MISSES = 0.05  # fraction of models


def _optimum(seed: int, quick: bool) -> Data:
    """Random models in which a word depends on the two before it: how often each beam finds the
    likeliest text of 10 words, a likelier one than greedy, or a less likely one."""
    generator = torch.Generator().manual_seed(seed)
    models = _random_models(60 if quick else 300, WORDS, generator)
    best = likeliest(models[..., :WORDS], LENGTH)
    scores = [_scores(models, beams) for beams in BEAMS]
    greedy = scores[0]
    return {
        "found": [_fraction(own > best - TINY) for own in scores],
        "above": [_fraction(own > greedy + TINY) for own in scores],
        "below": [_fraction(own < greedy - TINY) for own in scores],
    }


def _random_models(count: int, words: int, generator: torch.Generator) -> Tensor:
    """(models, words, words, words and an end that never comes)"""
    logits = torch.randn(count, words, words, words, generator=generator, dtype=torch.float64)
    never = torch.full((count, words, words, 1), -torch.inf, dtype=torch.float64)
    return torch.cat([logits.log_softmax(dim=-1), never], dim=-1)


def likeliest(log_probs: Tensor, length: int) -> Tensor:
    """The largest log-probability of a text of this length after word 0, by Viterbi's recursion
    over the last two words. (models,)"""
    count, words = log_probs.shape[:2]
    best = torch.full((count, words, words), -torch.inf, dtype=log_probs.dtype)
    best[:, 0, 0] = 0.0
    for _ in range(length):
        best = (best[..., None] + log_probs).amax(dim=1)
    return best.amax(dim=(1, 2))


def _scores(models: Tensor, beams: int) -> Tensor:
    hypotheses = Tables(models).find(
        0, LENGTH, GenerationConfig(beam_size=beams, alpha=0.0), eos=WORDS
    )
    return torch.tensor([text.log_probability for text in hypotheses], dtype=torch.float64)


def _fraction(hits: Tensor) -> float:
    return float(hits.double().mean())


def _judge_optimum(data: Sequence[Data]) -> Finding:
    wide = BEAMS.index(8)
    above = median_of(column(data, "above", wide))
    more = difference_of(column(data, "found", wide), column(data, "found", 0), "rank")
    optimum = ", ".join(f"{beams}: {median_of(column(data, 'found', at)).mean:.3g}"
                      for at, beams in enumerate(BEAMS))  # fmt: skip
    below = ", ".join(f"{beams}: {median_of(column(data, 'below', at)).mean:.2g}"
                      for at, beams in enumerate(BEAMS) if at)  # fmt: skip
    return decide(
        {
            "a beam of 8 beats greedy in over 5 % of models": clearly(
                above.against(MISSES), "above"),
            "and finds the optimum more often": clearly(more.against(0.0), "above"),
        },
        f"a beam of 8 finds a likelier text than greedy in {above} of the models; the optimum is "
        f"found, by beam, in {optimum}; a beam ends below greedy in {below}",
        {"above": above.mean, "more": more.mean},
    )  # fmt: skip


def _draw_optimum(data: Sequence[Data]) -> Lines:
    labels = {"found": "the likeliest of all", "above": "likelier than greedy",
            "below": "less likely than greedy"}  # fmt: skip
    return Lines(
        "What a beam finds", Axis("beams; 1 is greedy", tuple(map(str, BEAMS))),
        "fraction of models",
        {words: average(data, name).numpy() for name, words in labels.items()},
        note=f"random models of {WORDS} words, texts of {LENGTH}; the exact optimum by Viterbi",
    )  # fmt: skip


beam_optimum = Experiment(
    name="beam-optimum",
    title="Greedy against beams against the exact optimum",
    varies="the number of beams, over random models in which a word depends on the two before it",
    measures="how often the likeliest text is found, and how often a text is likelier or less "
    "likely than greedy's",
    claims={
        "C85": Rule(
            "Supported if a beam of 8 finds a likelier text than greedy in clearly over 5 % of the "
            "models, and the exact optimum clearly more often than greedy; refuted if one clearly "
            "fails.",
            _judge_optimum,
            label="simulation",
        )
    },
    run=_optimum,
    draw=_draw_optimum,
    seconds=0.2,
    references=("https://arxiv.org/abs/1409.3215", "https://arxiv.org/abs/2010.02650"),
)
