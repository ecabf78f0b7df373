"""Label smoothing, a question beyond the books: calibration, and the length of beam outputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.generate import GenerationConfig
from translucid.see import Axis, Lines
from translucid.tasks import IGNORE, cross_entropy
from translucid_lab import Data, Experiment, Finding, Interval
from translucid_lab.claims.beam_search_errors import Tables
from translucid_lab.claims.decoded_texts import SCORES, STEPS, LanguageModel, language_model
from translucid_lab.engine.intervals import clearly, difference_of, mean_of
from translucid_lab.engine.verdict import average, by_case, column

SMOOTHING = (0.0, 0.1)
# Number of sentences, and training steps as a multiple of the usual: few are memorised.
SETTINGS = {"few sentences": (40, 2), "many sentences": (900, 1)}
BINS = 10


# ---- calibration ----


def _honesty(seed: int, quick: bool) -> Data:
    """Calibration error and loss on new sentences, for language models trained on few and on many
    sentences, with and without smoothing."""
    measured: dict[str, Any] = {}
    for setting, (sentences, times) in SETTINGS.items():
        values: dict[str, list[Any]] = {"error": [], "loss": [], "sure": [], "right": []}
        for smoothing in SMOOTHING:
            made = language_model(
                seed, STEPS[quick] * times, smoothing=smoothing, sentences=sentences
            )
            for name, value in _on_unseen(made).items():
                values[name].append(value)
        measured[setting] = values
    return measured


@torch.no_grad()
def _on_unseen(made: LanguageModel) -> dict[str, float]:
    read, targets = made.unseen[:, :-1], made.unseen[:, 1:]
    there = targets != 0
    logits = made.net(read)
    top, likeliest = logits.softmax(dim=-1)[there].max(dim=-1)
    right = likeliest == targets[there]
    loss = cross_entropy(logits, targets.masked_fill(~there, IGNORE)) / there.sum()
    return {
        "error": calibration_error(top, right),
        "loss": float(loss),
        "sure": float(top.mean()),
        "right": float(right.float().mean()),
    }


def calibration_error(sure: Tensor, right: Tensor) -> float:
    """Expected calibration error over ten bins of confidence.
    Guo et al. 2017, https://arxiv.org/abs/1706.04599"""
    bins = (sure * BINS).long().clamp(max=BINS - 1)
    gaps = torch.zeros(BINS, dtype=torch.float64)
    gaps.index_add_(0, bins, sure.double() - right.double())
    return float(gaps.abs().sum() / len(sure))


def _judge_honesty(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for setting in SETTINGS:
        without, smoothed = (column(data, setting, "error", at) for at in (0, 1))
        less = difference_of(smoothed, without)
        cases[setting] = clearly(less.against(0.0), "below")
        loss = difference_of(column(data, setting, "loss", 1), column(data, setting, "loss", 0))
        parts.append(f"{setting} {mean_of(without)} without and {mean_of(smoothed)} with it (the "
                    f"loss changes by {loss})")  # fmt: skip
    return by_case(
        cases, f"calibration error on new sentences: {'; '.join(parts)}",
        "whether the model is too sure of itself without it",
    )  # fmt: skip


def _draw_honesty(data: Sequence[Data]) -> Lines:
    series = {}
    for setting in SETTINGS:
        for name, label in (("sure", "how sure"), ("right", "how often right")):
            series[f"{setting}: {label}"] = average(data, setting, name).numpy()
    return Lines(
        "Label smoothing: how sure, and how often right",
        Axis("label smoothing", tuple(f"{smoothing:g}" for smoothing in SMOOTHING)),
        "of the likeliest word, on new sentences", series,
        note="honest where one is as sure as one is right; few sentences are learned by heart",
    )  # fmt: skip


label_smoothing = Experiment.described(
    "label-smoothing", _honesty, _draw_honesty, {"label-smoothing": _judge_honesty}
)


# ---- length ----


WORDS, MOST = 8, 20  # and an end
SHARPNESS = 3.0  # of the logits: most next words are rather sure
BEAMS = (1, 2, 4, 8)
NO_CHANGE = 0.1  # words


def _shorter(seed: int, quick: bool) -> Data:
    """Lengths of search results in random models, and in the models that minimise the smoothed
    loss, whose probabilities are mixed with a uniform distribution."""
    generator = torch.Generator().manual_seed(seed)
    count = 60 if quick else 300
    logits = torch.randn(count, WORDS, WORDS, WORDS + 1, generator=generator, dtype=torch.float64)
    truth = (SHARPNESS * logits).softmax(dim=-1)
    return {
        f"{smoothing:g}": {
            score: [_mean_length(smoothed(truth, smoothing), beams, alpha) for beams in BEAMS]
            for score, alpha in SCORES.items()
        }
        for smoothing in SMOOTHING
    }


def smoothed(p: Tensor, smoothing: float) -> Tensor:
    """The distribution that minimises the smoothed cross-entropy if p is the truth."""
    return (1 - smoothing) * p + smoothing / p.shape[-1]


def _mean_length(p: Tensor, beams: int, alpha: float) -> float:
    hypotheses = Tables(p.log()).find(
        0, MOST, GenerationConfig(beam_size=beams, alpha=alpha), eos=WORDS
    )
    return float(np.mean([len(text.tokens) for text in hypotheses]))


def _judge_shorter(data: Sequence[Data]) -> Finding:
    without, with_it = (f"{smoothing:g}" for smoothing in SMOOTHING)
    less = {
        score: difference_of(column(data, with_it, score, -1), column(data, without, score, -1))
        for score in SCORES
    }
    plain = next(iter(SCORES))
    shown = {
        smoothing: mean_of(column(data, smoothing, plain, -1)) for smoothing in (without, with_it)
    }
    greedy = difference_of(column(data, with_it, plain, 0), column(data, without, plain, 0))
    return by_case(
        {f"compared {score}": _is_shorter(value)
         for score, value in less.items()},
        f"compared by probability, a beam of {BEAMS[-1]} writes {shown[without]} words without "
        f"smoothing and {shown[with_it]} with it; compared divided by length, smoothing changes "
        f"it by {less['divided by length']} words; greedy's texts change by {greedy}",
        "how texts are compared",
        {score: interval.mean for score, interval in less.items()},
    )  # fmt: skip


def _is_shorter(change: Interval) -> bool | None:
    if change.against(0.0) == "below":
        return True
    return False if change.against(-NO_CHANGE) == "above" else None


def _draw_shorter(data: Sequence[Data]) -> Lines:
    return Lines(
        "Words that a search writes, with and without label smoothing",
        Axis("beams; 1 is greedy", tuple(map(str, BEAMS))), "words, on average",
        {f"smoothing {smoothing:g}, {score}": average(data, f"{smoothing:g}", score).numpy()
         for smoothing in SMOOTHING for score in SCORES},
        note=f"random models, and what smoothed labels would teach; at most {MOST} words",
    )  # fmt: skip


smoothing_length = Experiment.described(
    "label-smoothing-length", _shorter, _draw_shorter, {"label-smoothing-length": _judge_shorter}
)
