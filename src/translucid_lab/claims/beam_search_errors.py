"""Search in models whose probabilities are a table: greedy search, beam search and the exact
optimum (C85), early choices that leave no way to finish (C86).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.generate import GenerationConfig, Hypothesis, search
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding
from translucid_lab.engine.intervals import clearly, difference_of, fraction_of, median_of
from translucid_lab.engine.verdict import average, by_case, column, decide


@dataclass
class LastWords:
    """Decoder state: for every row, the last words and the index of the model (`source`) that it
    uses."""

    words: Tensor  # (rows, order)
    source: Tensor  # (rows,)
    beams: int = 1
    length: int = 0  # words read

    def expand(self, beams: int) -> None:
        self.beams = beams
        self.words, self.source = (
            part.repeat_interleave(beams, dim=0) for part in (self.words, self.source)
        )

    def follow(self, parents: Tensor) -> None:
        first = torch.arange(len(parents))[:, None] * self.beams
        self.words = self.words[(first + parents).flatten()]

    def select(self, sources: Tensor) -> None:
        rows = (sources[:, None] * self.beams + torch.arange(self.beams)).flatten()
        self.words, self.source = self.words[rows], self.source[rows]


class Tables:
    """Many small language models, one for each source: log-probabilities after the last one or two
    words, (sources, words, vocab) or (sources, words, words, vocab). The class has the interface
    that a search requires of a model."""

    def __init__(self, log_probs: Tensor) -> None:
        self.log_probs = log_probs
        self.order = log_probs.dim() - 2

    def step(self, tokens: Tensor, state: LastWords) -> Tensor:
        known = tokens.clamp(max=self.log_probs.shape[1] - 1)  # an unused row may hold an end
        state.words = torch.cat([state.words, known], dim=1)[:, -self.order :]
        state.length += 1
        return self.log_probs[(state.source, *state.words.T)][:, None]

    def find(
        self, start: int, most: int, config: GenerationConfig, *, eos: int
    ) -> list[Hypothesis]:
        """The best text of at most `most` words after the word `start`, for each source."""
        sources = len(self.log_probs)
        prefix = torch.full((sources, 1), start)
        state = LastWords(torch.full((sources, self.order), start), torch.arange(sources))
        state.expand(config.beam_size)
        least, max_length = torch.zeros(sources, dtype=torch.long), torch.full((sources,), most)
        hypotheses = search(self.step, state, prefix, least, max_length, config, eos=eos, pad=start)
        return [texts[0] for texts in hypotheses]


WORDS, LENGTH = 8, 10
BEAMS = (1, 2, 4, 8, 16)
TINY = 1e-9  # differences of log-probabilities up to this are rounding
MISSES = 0.05  # fraction of models


def _optimum(seed: int, quick: bool) -> Data:
    """Search in random second-order models. Measure how often each beam size finds the likeliest
    text of 10 words, and how often the text that it finds is likelier, or less likely, than that of
    greedy search."""
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
    """Random models whose end token has probability 0: (models, words, words, words + 1)"""
    logits = torch.randn(count, words, words, words, generator=generator, dtype=torch.float64)
    never = torch.full((count, words, words, 1), -torch.inf, dtype=torch.float64)
    return torch.cat([logits.log_softmax(dim=-1), never], dim=-1)


def likeliest(log_probs: Tensor, length: int) -> Tensor:
    """The largest log-probability of a text of this length after word 0, for each model: (models,).
    It is computed by Viterbi's recursion over the last two words."""
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


beam_optimum = Experiment.described(
    "beam-optimum", _optimum, _draw_optimum, {"C85": _judge_optimum}
)


OPENING, CLOSING = "([", ")]"
SIGNS = "()[]"
BRACKETS = len(SIGNS)
END, START = BRACKETS, BRACKETS + 1
PAIRS = 4  # in a sentence, at most
ROOM = 2 * PAIRS + 1  # tokens of a text, including the end
UNSEEN = 1e-3  # probability, under a softmax, of what was never seen
RARE = 0.01
KINDS = {
    "no possible way, where some probabilities are 0": "hard, impossible",
    "no possible way, under a softmax": "soft, impossible",
    "no grammatical way, under a softmax": "soft, ungrammatical",
}


def _dead_ends(seed: int, quick: bool) -> Data:
    """Count the greedy texts that reach a prefix which cannot be completed. The models are of first
    order and approximate random distributions over well-formed brackets."""
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
    """All well-formed texts of up to `pairs` pairs of two kinds of brackets."""
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
    """Random models of brackets: the probabilities of the next sign after each sign, (models,
    signs, signs). Each model gives all sentences random weights that depend on their length, depth,
    kinds and neighbours. The weighted counts of pairs of signs in the sentences yield the
    probabilities."""
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
    counts[:, END, END] = 1.0  # nothing follows an end
    return counts / counts.sum(dim=-1, keepdim=True)


def _depth(text: str) -> int:
    return max(sum(1 if sign in OPENING else -1 for sign in text[:end])
               for end in range(len(text) + 1))  # fmt: skip


def _prefixes(text: Hypothesis) -> Iterator[tuple[list[int], int]]:
    """The prefixes of a text, each with the number of tokens left, including the end."""
    for end in range(1, len(text.tokens) + 1):
        if end < ROOM:
            yield text.tokens[:end], ROOM - end


def _ways(models: Tensor) -> Tensor:
    """Whether the end can be reached with positive probability within the remaining tokens:
    (models, remaining tokens, last sign)."""
    positive = models > 0
    reach = [torch.zeros_like(positive[..., END])]
    for _ in range(ROOM):
        onwards = (positive[..., :BRACKETS] & reach[-1][:, None, :BRACKETS]).any(dim=-1)
        reach.append(positive[..., END] | onwards)
    return torch.stack(reach, dim=1)


def finishable(prefix: Sequence[int], left: int) -> bool:
    """Whether a prefix can become well-formed within `left` tokens, including the end."""
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


dead_ends = Experiment.described(
    "dead-ends", _dead_ends, _draw_dead_ends, {"C86": _judge_dead_ends}
)
