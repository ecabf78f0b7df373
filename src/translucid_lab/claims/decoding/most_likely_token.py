"""C84: a linear layer, a softmax, the most likely word."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from translucid.core.trace import Trace
from translucid.generate.beam_search import Hypothesis
from translucid.generate.decode import draw
from translucid.generate.sampling import SamplingConfig
from translucid.parts.embedding import LanguageHead
from translucid.see.pictures import Bars
from translucid_lab.claims.shared.small_language_model import (
    MAX_LENGTH,
    PROMPT,
    STEPS,
    TEXTS,
    LanguageModel,
    language_model,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, column, decide, mean_of

ROUNDING = 1e-4


def _mechanism(seed: int, quick: bool) -> Data:
    """Texts of greedy search, read again step by step: what the logits are made of, what their
    softmax sums to, and whether the word that was taken is the most likely one. Beside them texts
    that were sampled: how many pairs of words are new, how likely a word is."""
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
    """The largest errors over the steps of one text, and the fraction of words taken that are the
    likeliest."""
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
    """Of all pairs of neighbours, the fraction of different ones."""
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


most_likely_word = Experiment(
    name="most-likely-word",
    title="From logits to a word",
    varies="how the next word is chosen: the likeliest, or sampled",
    measures="what logits are made of, what probabilities sum to, which word is taken, how varied "
    "the texts are",
    claims={
        "C84": Rule(
            "Asked of the mechanism. Supported if, at every step of greedy's texts, the logits "
            "are a linear map of the last hidden vector (within 1e-4), their softmax has one "
            "number for every word, none negative, with sum 1 (within 1e-5), and the word taken "
            "is the likeliest; refuted if one fails. That other ways to choose exist is reported, "
            "and decides nothing.",
            _judge_mechanism,
            label="identity",
        )
    },
    run=_mechanism,
    draw=_draw_mechanism,
    seconds=6.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/1904.09751"),
)
