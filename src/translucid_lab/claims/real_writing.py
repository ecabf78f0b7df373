"""C83, C87 on pretrained models: do texts end by themselves, and are those of a beam longer?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from translucid.generate import GenerationConfig, Hypothesis, find
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.decoded_texts import SCORES
from translucid_lab.claims.real_weights import (
    LEAST,
    arabic_names,
    latin_names,
    stories,
    story_sentences,
)
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import by_case, column

BEAMS = 8
CHARACTERS, TOKENS = 40, 480  # limits for a name and a story
NAMES_READ, STORIES = 40, 12
MODELS = ("names", "stories")


def _written(seed: int, quick: bool) -> Data:
    """Lengths of greedy and beam outputs, and the fraction of greedy ones that end."""
    measured: dict[str, Any] = {model: {} for model in MODELS}
    for model in MODELS:
        greedy = _texts(model, seed, 1, 0.0, quick)
        measured[model]["ends"] = float(np.mean([text.finished for text in greedy]))
        measured[model]["greedy"] = _length(greedy)
        for score, alpha in SCORES.items():
            measured[model][score] = _length(_texts(model, seed, BEAMS, alpha, quick))
    return measured


def _texts(model: str, seed: int, beams: int, alpha: float, quick: bool) -> list[Hypothesis]:
    max_length = CHARACTERS if model == "names" else 40 if quick else TOKENS
    config = GenerationConfig(beam_size=beams, alpha=alpha, max_length=max_length)
    if model == "names":
        return latin_names(arabic_names(seed, 4 if quick else NAMES_READ), config)
    net, tokenizer = stories()
    begun = story_sentences(seed, 4 if quick else STORIES)
    starts = [ids[0, :LEAST].tolist() for ids in begun]
    several = find(net, starts, None, config, eos=tokenizer.eos_id, pad=tokenizer.pad_id)
    return [texts[0] for texts in several]


def _length(texts: Sequence[Hypothesis]) -> float:
    return float(np.mean([len(text.tokens) for text in texts]))


def _judge_ends(data: Sequence[Data]) -> Finding:
    ends = {model: median_of(column(data, model, "ends")) for model in MODELS}
    return by_case(
        {model: clearly(fraction.against(0.95), "above") for model, fraction in ends.items()},
        "fed with its own predictions, greedy search ends by itself in "
        + " and ".join(f"{fraction} of the {model}" for model, fraction in ends.items())
        + f" (within {CHARACTERS} characters, {TOKENS} tokens)",
        "what is written", {model: fraction.mean for model, fraction in ends.items()},
    )  # fmt: skip


def _judge_longer(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for model in MODELS:
        for score in SCORES:
            more = difference_of(column(data, model, score), column(data, model, "greedy"))
            cases[f"{model}, {score}"] = clearly(more.against(0.0), "above")
            parts.append(f"{model}, {score}: {more}")
    return by_case(
        cases, f"tokens by which texts of a beam of {BEAMS} are longer than greedy's: "
        + "; ".join(parts),
        "what is written, and on whether texts are compared by probability or divided by length",
    )  # fmt: skip


def _draw_written(data: Sequence[Data]) -> Bars:
    rows = {f"stories, {name}": np.mean(column(data, "stories", name))
            for name in ("greedy", *SCORES)}  # fmt: skip
    return Bars("Tokens that a LLaMA of stories writes", "tokens, on average", tuple(rows),
                np.array([*rows.values()]),
                note=f"a beam of {BEAMS}; at most {TOKENS} tokens")  # fmt: skip


written = Experiment.described(
    "real-writing", _written, _draw_written, {"C83": _judge_ends, "C87": _judge_longer}
)
