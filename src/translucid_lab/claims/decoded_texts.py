"""Texts that a small language model of Toyland's English writes: the most likely word (C84), and
whether a beam prefers longer sentences (C87).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid import Trace
from translucid.generate import (
    END,
    PAD,
    GenerationConfig,
    Hypothesis,
    SamplingConfig,
    TableModel,
    draw,
    find,
    search,
)
from translucid.models import DecoderModel, GenerationInputs
from translucid.parts import LanguageHead
from translucid.see import Axis, Bars, Lines
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding, random_rows
from translucid_lab.claims.markov_chain import small_decoder, train
from translucid_lab.claims.toyland_text import next_words
from translucid_lab.engine.intervals import clearly, difference_of, mean_of
from translucid_lab.engine.verdict import average, by_case, column, decide, illustrates

MAX_LENGTH, PROMPT, TEXTS = 20, 2, 40  # words generated at most, words of a prompt, texts
HELD_OUT = 100  # sentences


@dataclass(frozen=True)
class LanguageModel:
    """A trained model with held-out sentences."""

    net: DecoderModel
    end: int  # the last token of sentences, a full stop
    unseen: Tensor  # (sentences, longest), 0 after the end

    @property
    def prompts(self) -> list[list[int]]:
        """The first words of held-out sentences."""
        prompts_: list[list[int]] = self.unseen[:TEXTS, :PROMPT].tolist()
        return prompts_

    def generate(self, *, beams: int, alpha: float) -> list[Hypothesis]:
        """The best text after each prompt."""
        config = GenerationConfig(beam_size=beams, alpha=alpha, max_length=MAX_LENGTH)
        hypotheses = find(self.net, self.prompts, None, config, eos=self.end, pad=0)
        return [texts[0] for texts in hypotheses]


@lru_cache(maxsize=4)  # shared by several experiments
def language_model(
    seed: int, steps: int, *, smoothing: float = 0.0, sentences: int = 900
) -> LanguageModel:
    text = next_words(seed)
    last = text.ids.gather(1, (text.ids != 0).sum(dim=1, keepdim=True) - 1)
    known, unseen = text.ids[:sentences], text.ids[-HELD_OUT:]
    net = small_decoder(text.vocab, seed=seed, layers=1)

    def batch() -> tuple[Tensor, Tensor]:
        rows = random_rows(known, 32, text.generator)
        targets = rows[:, 1:]
        return rows[:, :-1], targets.masked_fill(targets == 0, IGNORE)

    train(net, batch, steps, rate=1e-2, smoothing=smoothing)
    return LanguageModel(net.eval(), int(last.mode(dim=0).values), unseen)


STEPS = {True: 60, False: 300}  # of training, quick or not


ROUNDING = 1e-4


def _mechanism(seed: int, quick: bool) -> Data:
    """Check each step of greedy texts: logits against a linear map, the sum of the softmax, and
    whether the likeliest word was chosen. Compare the diversity and likelihood of sampled texts."""
    model = language_model(seed, STEPS[quick])
    generator = torch.Generator().manual_seed(seed)
    greedy = model.generate(beams=1, alpha=0.0)
    checks = [_checked(model, prompt, text)
              for prompt, text in zip(model.prompts, greedy, strict=True)]  # fmt: skip
    chosen = [(text.tokens, text.token_log_probs) for text in greedy]
    drawn = _drawn(model, generator)
    real = [([word for word in row if word][PROMPT:], [0.0])
            for row in model.unseen[:TEXTS].tolist()]  # fmt: skip
    measured: dict[str, Any] = {
        name: max(check[name] for check in checks) for name in ("linear", "sum", "negative")
    }
    measured["taken"] = min(check["taken"] for check in checks)
    for name, texts in (("greedy", chosen), ("drawn", drawn), ("toyland", real)):
        token_log_probs = np.concatenate([value for _, value in texts])
        measured[name] = {"new pairs": _new_pairs([words for words, _ in texts]),
                       "log p": float(token_log_probs.mean())}  # fmt: skip
    return measured


@torch.no_grad()
def _checked(model: LanguageModel, prompt: list[int], text: Hypothesis) -> dict[str, float]:
    """The largest errors over the steps of one text, and how often the likeliest word was
    chosen."""
    words = [*text.tokens, model.end] if text.finished else text.tokens
    ids = torch.tensor([[*prompt, *words[:-1]]])
    trace = Trace(["decoder.final_norm.*", "head.logits"])
    model.net(ids, trace=trace)
    head = model.net.head
    assert isinstance(head, LanguageHead)
    logits = trace["head.logits"][0, len(prompt) - 1 :]  # (steps, vocab)
    hidden = trace[trace.names("decoder.final_norm.*")[-1]][0, len(prompt) - 1 :]
    by_hand = hidden.double() @ head.linear.weight.double().T
    p = logits.softmax(dim=-1)
    if p.shape[1] != model.net.vocab:
        raise AssertionError(f"{p.shape[1]} probabilities for {model.net.vocab} words")
    taken = p.gather(1, torch.tensor(words)[:, None]).squeeze(1)
    return {
        "linear": float((logits - by_hand).abs().max()),
        "sum": float((p.double().sum(dim=-1) - 1).abs().max()),
        "negative": float((-p).clamp(min=0).max()),
        "taken": float((taken >= p.amax(dim=-1) - ROUNDING).float().mean()),
    }


def _drawn(model: LanguageModel, generator: torch.Generator) -> list[tuple[list[int], list[float]]]:
    numbers = torch.rand(len(model.prompts), MAX_LENGTH, generator=generator)
    texts: list[tuple[list[int], list[float]]] = [([], []) for _ in model.prompts]
    for step in draw(model.net, model.prompts, None, SamplingConfig(), numbers, eos=model.end):
        for row, word, log_prob in zip(step.rows, step.tokens, step.token_log_probs, strict=True):
            texts[row][0].append(word)
            texts[row][1].append(log_prob)
    return texts


def _new_pairs(texts: Sequence[Sequence[int]]) -> float:
    """The fraction of distinct bigrams."""
    pairs = [pair for words in texts for pair in pairwise(words)]
    return len(set(pairs)) / max(len(pairs), 1)


def _judge_mechanism(data: Sequence[Data]) -> Finding:
    worst = {name: max(column(data, name)) for name in ("linear", "sum", "negative")}
    taken = min(column(data, "taken"))
    greedy, drawn, real = (mean_of(column(data, name, "new pairs"))
                           for name in ("greedy", "drawn", "toyland"))  # fmt: skip
    likely, sampled = (mean_of(column(data, name, "log p")) for name in ("greedy", "drawn"))
    return decide(
        {
            "logits are a linear map": _small(worst["linear"], ROUNDING),
            "their softmax sums to 1": _small(worst["sum"], 1e-5),
            "and is nowhere negative": _small(worst["negative"], 1e-12),
            "the likeliest word is taken": None if np.isnan(taken) else taken == 1.0,
        },
        f"at every step the logits are W h within {worst['linear']:.1g} and the probabilities sum "
        f"to 1 within {worst['sum']:.1g}; greedy takes the likeliest word in {taken:.0%} of the "
        f"steps. It is one way among others: its words have log p {likely}, of pairs of words "
        f"{greedy} are different; sampled {sampled} and {drawn}; in the text {real}",
    )


def _small(value: float, bar: float) -> bool | None:
    return None if np.isnan(value) else value < bar


def _draw_mechanism(data: Sequence[Data]) -> Bars:
    labels = {"greedy": "the likeliest word, always", "drawn": "drawn by its probability",
            "toyland": "sentences of the text"}  # fmt: skip
    values = [float(np.mean(column(data, name, "new pairs"))) for name in labels]
    return Bars("How varied the texts are", "fraction of word pairs that are different",
                tuple(labels.values()), np.array(values),
                note=f"{TEXTS} texts, each from {PROMPT} words of a sentence")  # fmt: skip


most_likely_word = Experiment.described(
    "most-likely-word", _mechanism, _draw_mechanism, {"C84": _judge_mechanism}
)


FINALLY = (0.2, 0.3, 0.4)  # P(finally); that of `fine` is 0.5
BEAMS = (1, 2, 4, 8)
SCORES = {"by probability": 0.0, "divided by length": 1.0}


def example(p: float) -> TableModel:
    """The worked example: a short sentence with a likely start, a long one with a likely rest."""
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
    """Measure the lengths of search results in the worked example and for a trained model."""
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
    """The number of words of the best continuation of `I am`."""
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
    finding = by_case(
        cases, f"a beam of {BEAMS[-1]} of a trained model is longer than greedy, compared "
        f"{' and '.join(parts)} (greedy: {mean_of(column(data, SUM, 0))}); the worked example, "
        f"with P(finally) = {', '.join(map(str, FINALLY))}, gives {data[0]['example'][SUM]} words "
        f"by probability, {data[0]['example'][DIVIDED]} divided by length, greedy {greedy}",
        "the probabilities, and on whether texts are compared by probability or divided by length",
    )  # fmt: skip
    fixed = {case: side for case, side in cases.items() if case.startswith("example")}
    return illustrates(finding) if set(fixed.values()) == {True, False} else finding


SUM, DIVIDED = SCORES


def _draw_lengths(data: Sequence[Data]) -> Lines:
    return Lines(
        "Words that a search writes", Axis("beams; 1 is greedy", tuple(map(str, BEAMS))),
        "words, on average", {score: average(data, score).numpy() for score in SCORES},
        note=f"a small model of Toyland's English; at most {MAX_LENGTH} words",
    )  # fmt: skip


beam_length = Experiment.described("beam-length", _lengths, _draw_lengths, {"C87": _judge_lengths})
