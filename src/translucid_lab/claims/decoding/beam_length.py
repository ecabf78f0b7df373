"""C87: does a beam prefer the longer sentence?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from translucid.generate.beam_search import GenerationConfig, search
from translucid.generate.table_model import END, PAD, TableModel
from translucid.models.autoregressive import GenerationInputs
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.small_language_model import (
    MAX_LENGTH,
    STEPS,
    LanguageModel,
    language_model,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    by_case,
    clearly,
    column,
    difference_of,
    mean_of,
)

FINALLY = (0.2, 0.3, 0.4)  # P(finally); that of `fine` is 0.5
BEAMS = (1, 2, 4, 8)
SCORES = {"by probability": 0.0, "divided by length": 1.0}


def example(p: float) -> TableModel:
    """The worked example: a short sentence that begins likely, a long one that goes on likely."""
    sure = {END: 0.05}
    return TableModel({
        "I am": {"fine": 0.5, "finally": p, "here": round(0.5 - p, 9)},
        "I am fine": {END: 0.5, "thanks": 0.3, "today": 0.2},
        "I am finally": {"feeling": 0.95, **sure},
        "I am finally feeling": {"much": 0.95, **sure},
        "I am finally feeling much": {"better": 0.95, **sure},
        "I am finally feeling much better": {END: 0.95, "now": 0.05},
    })  # fmt: skip


def _lengths(seed: int, quick: bool) -> Data:
    """How many words a search writes: in the worked example, and from a trained author."""
    measured: dict[str, Any] = {
        "example": {
            score: [_words(example(p), GenerationConfig(beam_size=2, alpha=alpha)) for p in FINALLY]
            for score, alpha in SCORES.items()
        },
        "greedy": [_words(example(p), GenerationConfig(beam_size=1)) for p in FINALLY],
    }
    model = language_model(seed, STEPS[quick])
    for score, alpha in SCORES.items():
        measured[score] = [mean_length(model, beams, alpha) for beams in BEAMS]
    return measured


def _words(model: TableModel, config: GenerationConfig) -> int:
    """Of the sentence that a search finds behind `I am`."""
    state, prefix = model.start(GenerationInputs(1), capacity=MAX_LENGTH), model.encode("I am")
    model.step(prefix[:, :-1], state)
    state.expand(config.beam_size)
    least, most = torch.zeros(1, dtype=torch.long), torch.tensor([MAX_LENGTH])
    hypotheses = search(
        model.step, state, prefix, least, most, config, eos=model.ids[END], pad=model.ids[PAD]
    )
    return len(hypotheses[0][0].tokens)


def mean_length(model: LanguageModel, beams: int, alpha: float) -> float:
    return float(np.mean([len(text.tokens) for text in model.generate(beams=beams, alpha=alpha)]))


def _judge_lengths(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    greedy = data[0]["greedy"]
    for score in SCORES:
        longer = [length > short for length, short in
                  zip(data[0]["example"][score], greedy, strict=True)]  # fmt: skip
        for p, holds in zip(FINALLY, longer, strict=True):
            cases[f"example with {p}, {score}"] = holds
        more = difference_of(column(data, score, -1), column(data, score, 0))
        cases[f"trained model, {score}"] = clearly(more.against(0.0), "above")
        parts.append(f"{score} by {more} words")
    return by_case(
        cases, f"a beam of {BEAMS[-1]} of a trained model is longer than greedy, compared "
        f"{' and '.join(parts)} (greedy: {mean_of(column(data, SUM, 0))}); the worked example, "
        f"with P(finally) = {', '.join(map(str, FINALLY))}, gives {data[0]['example'][SUM]} words "
        f"by probability, {data[0]['example'][DIVIDED]} divided by length, greedy {greedy}",
        "the probabilities, and on whether texts are compared by probability or divided by length",
    )  # fmt: skip


SUM, DIVIDED = SCORES


def _draw_lengths(data: Sequence[Data]) -> Lines:
    return Lines(
        "Words that a search writes", Axis("beams; 1 is greedy", tuple(map(str, BEAMS))),
        "words, on average", {score: average(data, score).numpy() for score in SCORES},
        note=f"a small model of Toyland's English; at most {MAX_LENGTH} words",
    )  # fmt: skip


beam_length = Experiment(
    name="beam-length",
    title="How long a beam's sentences are",
    varies="the beams; texts compared by probability or divided by length; the probabilities of "
    "a worked example",
    measures="the words of the text that is found",
    claims={
        "C87": Rule(
            "Asked in the worked example with P(finally) = 0.2, 0.3 and 0.4 (2 beams) and of a "
            "trained model (8 beams), with texts compared by probability and divided by length: "
            "holds in a case if the beam's text is longer than greedy's (clearly, over seeds, for "
            "the trained model), fails if not (if clearly shorter). Supported if it holds in every "
            "case, refuted if in none, depends if in some.",
            _judge_lengths,
        )
    },
    run=_lengths,
    draw=_draw_lengths,
    seconds=6.0,
    references=("https://arxiv.org/abs/1808.10006", "https://arxiv.org/abs/1908.10090",
                "https://arxiv.org/abs/1609.08144"),
)  # fmt: skip
