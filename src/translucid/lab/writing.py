"""How a language model's probabilities become text: what is chosen, and how long it gets."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from translucid.decoding.generate import draw
from translucid.decoding.sampling import Sampling
from translucid.decoding.search import Hypothesis, Search, search
from translucid.decoding.table import END, PAD, TableModel
from translucid.lab.author import LONGEST, PROMPT, TEXTS, Author, author
from translucid.lab.deep import average, by_case
from translucid.lab.experiment import Experiment
from translucid.lab.verdict import (
    Data,
    Finding,
    Rule,
    column,
    decide,
    difference_of,
    mean_of,
)
from translucid.models.autoregressive import GenerationInputs
from translucid.parts.embedding import LanguageHead
from translucid.see.pictures import Axis, Bars, Lines
from translucid.trace import Trace

# ---- C84: a linear layer, a softmax, the most likely word ----

STEPS = {True: 60, False: 300}  # of the author's training, quick or not
ROUNDING = 1e-4


def _mechanism(seed: int, quick: bool) -> Data:
    """Texts of greedy search, read again step by step: what the logits are made of, what their
    softmax sums to, and whether the word that was taken is the most likely one. Beside them texts
    that were drawn by chance: how many pairs of words are new, how likely a word is."""
    writer = author(seed, STEPS[quick])
    chance = torch.Generator().manual_seed(seed)
    greedy = writer.write(beams=1, alpha=0.0)
    checks = [_checked(writer, prompt, text)
              for prompt, text in zip(writer.prompts, greedy, strict=True)]  # fmt: skip
    chosen = [(text.tokens, text.gains) for text in greedy]
    drawn = _drawn(writer, chance)
    real = [([word for word in row if word][PROMPT:], [0.0])
            for row in writer.unseen[:TEXTS].tolist()]  # fmt: skip
    found: dict[str, Any] = {
        name: max(check[name] for check in checks) for name in ("linear", "sum", "negative")
    }
    found["taken"] = min(check["taken"] for check in checks)
    for name, texts in (("greedy", chosen), ("drawn", drawn), ("toyland", real)):
        gains = np.concatenate([each for _, each in texts])
        found[name] = {"new pairs": _new_pairs([words for words, _ in texts]),
                       "log p": float(gains.mean())}  # fmt: skip
    return found


@torch.no_grad()
def _checked(writer: Author, prompt: list[int], text: Hypothesis) -> dict[str, float]:
    """The largest errors over the steps of one text, and the share of words taken that are the
    likeliest."""
    words = [*text.tokens, writer.end] if text.finished else text.tokens
    ids = torch.tensor([[*prompt, *words[:-1]]])
    trace = Trace(["decoder.final_norm.*", "head.logits"])
    writer.net(ids, trace=trace)
    head = writer.net.head
    assert isinstance(head, LanguageHead)
    logits = trace["head.logits"][0, len(prompt) - 1 :]  # (steps, vocab)
    hidden = trace[trace.names("decoder.final_norm.*")[-1]][0, len(prompt) - 1 :]
    by_hand = hidden.double() @ head.linear.weight.double().T
    p = logits.softmax(dim=-1)
    if p.shape[1] != writer.net.vocab:
        raise AssertionError(f"{p.shape[1]} probabilities for {writer.net.vocab} words")
    taken = p.gather(1, torch.tensor(words)[:, None]).squeeze(1)
    return {
        "linear": float((logits - by_hand).abs().max()),
        "sum": float((p.double().sum(dim=-1) - 1).abs().max()),
        "negative": float((-p).clamp(min=0).max()),
        "taken": float((taken >= p.amax(dim=-1) - ROUNDING).float().mean()),
    }


def _drawn(writer: Author, chance: torch.Generator) -> list[tuple[list[int], list[float]]]:
    numbers = torch.rand(len(writer.prompts), LONGEST, generator=chance)
    texts: list[tuple[list[int], list[float]]] = [([], []) for _ in writer.prompts]
    for step in draw(writer.net, writer.prompts, None, Sampling(), numbers, eos=writer.end):
        for row, word, gain in zip(step.rows, step.tokens, step.gains, strict=True):
            texts[row][0].append(word)
            texts[row][1].append(gain)
    return texts


def _new_pairs(texts: Sequence[Sequence[int]]) -> float:
    """Of all pairs of neighbours, the share of different ones."""
    pairs = [pair for words in texts for pair in pairwise(words)]
    return len(set(pairs)) / max(len(pairs), 1)


def _judge_mechanism(data: Sequence[Data]) -> Finding:
    worst = {name: max(column(data, name)) for name in ("linear", "sum", "negative")}
    taken = min(column(data, "taken"))
    greedy, drawn, real = (mean_of(column(data, name, "new pairs"))
                           for name in ("greedy", "drawn", "toyland"))  # fmt: skip
    likely, by_chance = (mean_of(column(data, name, "log p")) for name in ("greedy", "drawn"))
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
        f"{greedy} are different; drawn by chance {by_chance} and {drawn}; in the text {real}",
    )


def _small(value: float, bar: float) -> bool | None:
    return None if np.isnan(value) else value < bar


def _draw_mechanism(data: Sequence[Data]) -> Bars:
    said = {"greedy": "the likeliest word, always", "drawn": "drawn by its probability",
            "toyland": "sentences of the text"}  # fmt: skip
    values = [float(np.mean(column(data, name, "new pairs"))) for name in said]
    return Bars("How varied the texts are", "share of word pairs that are different",
                tuple(said.values()), np.array(values),
                note=f"{TEXTS} texts, each from {PROMPT} words of a sentence")  # fmt: skip


most_likely_word = Experiment(
    name="most-likely-word",
    title="From logits to a word",
    varies="how the next word is chosen: the likeliest, or by chance",
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
        )
    },
    run=_mechanism,
    draw=_draw_mechanism,
    seconds=6.0,
    references=("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/1904.09751"),
)

# ---- C87: does a beam prefer the longer sentence? ----

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
    found: dict[str, Any] = {
        "example": {
            score: [_words(example(p), Search(beams=2, alpha=alpha)) for p in FINALLY]
            for score, alpha in SCORES.items()
        },
        "greedy": [_words(example(p), Search(beams=1)) for p in FINALLY],
    }
    writer = author(seed, STEPS[quick])
    for score, alpha in SCORES.items():
        found[score] = [mean_length(writer, beams, alpha) for beams in BEAMS]
    return found


def _words(model: TableModel, how: Search) -> int:
    """Of the sentence that a search finds behind `I am`."""
    state, prefix = model.start(GenerationInputs(1), capacity=LONGEST), model.encode("I am")
    model.step(prefix[:, :-1], state)
    state.expand(how.beams)
    least, most = torch.zeros(1, dtype=torch.long), torch.tensor([LONGEST])
    found = search(
        model.step, state, prefix, least, most, how, eos=model.ids[END], pad=model.ids[PAD]
    )
    return len(found[0][0].tokens)


def mean_length(writer: Author, beams: int, alpha: float) -> float:
    return float(np.mean([len(text.tokens) for text in writer.write(beams=beams, alpha=alpha)]))


def _judge_lengths(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    told = []
    greedy = data[0]["greedy"]
    for score in SCORES:
        longer = [found > short for found, short in
                  zip(data[0]["example"][score], greedy, strict=True)]  # fmt: skip
        for p, holds in zip(FINALLY, longer, strict=True):
            cases[f"example with {p}, {score}"] = holds
        more = difference_of(column(data, score, -1), column(data, score, 0))
        cases[f"trained model, {score}"] = (
            True if more.low > 0 else False if more.high < 0 else None
        )
        told.append(f"{score} by {more} words")
    return by_case(
        cases, f"a beam of {BEAMS[-1]} of a trained model is longer than greedy, compared "
        f"{' and '.join(told)} (greedy: {mean_of(column(data, SUM, 0))}); the worked example, "
        f"with P(finally) = {', '.join(map(str, FINALLY))}, gives {data[0]['example'][SUM]} words "
        f"by probability, {data[0]['example'][DIVIDED]} divided by length, greedy {greedy}",
        "the probabilities, and on whether texts are compared by probability or divided by length",
    )  # fmt: skip


SUM, DIVIDED = SCORES


def _draw_lengths(data: Sequence[Data]) -> Lines:
    return Lines(
        "Words that a search writes", Axis("beams; 1 is greedy", tuple(map(str, BEAMS))),
        "words, on average", {score: average(data, score).numpy() for score in SCORES},
        note=f"a small model of Toyland's English; at most {LONGEST} words",
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
