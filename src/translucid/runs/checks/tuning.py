"""The usual mistakes of a training that starts from a trained model."""

from collections.abc import Sequence
from typing import Any

from translucid.models import Network
from translucid.runs.fine_tuning.start import Start
from translucid.runs.fine_tuning.take_over import some
from translucid.runs.recipe.examples import Record
from translucid.runs.recipe.resources import Prepared
from translucid.tasks.findings import Finding, spread_out
from translucid.training.parameter_groups import rate_factors

TEXTS = 2000  # of the training data, that are looked at
UNKNOWN = 0.01  # a larger fraction of tokens that the kept vocabulary lacks is said
TOKENS_PER_WORD = 2.5  # more: the vocabulary is of another language or field
# Above this peak learning rate, what a model has learnt is mostly forgotten before it is used.
HIGHEST_RATE, HIGHEST_OF_ADAPTERS = 5e-4, 5e-3


def of_start(
    start: Start, known: Prepared, network: Network, train: Sequence[Record], taken: Sequence[str]
) -> list[Finding]:
    """taken: the weights that were taken over."""
    findings = [_vocabulary(start, known, train), _learning_rate(start, network, taken)]
    return findings if not known.labels else [_labels(start, known.labels), *findings]


def _labels(start: Start, labels: Sequence[str]) -> Finding:
    name, theirs = "labels of the source", start.source.bundle.labels
    if start.source.bundle.task != start.recipe.task.kind:
        return Finding(name, True, "the source has another task; the head begins anew")
    if tuple(labels) == tuple(theirs):
        return Finding(name, True, "the same, in the same order")
    if {*labels} == {*theirs}:
        return Finding(
            name, True, f"the same in another order ({some(theirs)}); rows of the head follow "
            "their names",
        )  # fmt: skip
    if len(labels) != len(theirs):
        return Finding(name, True, f"others ({some(theirs)}); the head begins anew")
    return Finding(
        name, False, f"as many, but others: {some(theirs)} there, {some(labels)} here; the head "
        "begins anew. If they mean the same, write them in the data as they are called there",
    )  # fmt: skip


def _vocabulary(start: Start, known: Prepared, train: Sequence[Record]) -> Finding:
    name, remedies, words = "vocabulary of the source", [], []
    for side, tokenizer in known.tokenizers.items():
        texts = [text for record in spread_out(train, TEXTS) for text in record.texts_of(side)]
        unknown = tokenizer.unknown_rate(texts)
        tokens = sum(map(len, tokenizer.encode_batch(texts)))
        per_word = tokens / max(sum(len(text.split()) for text in texts), 1)
        words.append(
            f"{side}: {unknown:.2%} of the training data unknown, {per_word:.2f} tokens a word"
        )
        wordy = tokenizer.unit == "subword" and per_word > TOKENS_PER_WORD
        if unknown > UNKNOWN or wordy:
            remedies.append(side)
    if not remedies or not start.kept:
        return Finding(name, True, "; ".join(words))
    bars = f"above {UNKNOWN:.0%}, or above {TOKENS_PER_WORD} tokens a word"
    return Finding(
        name, False, f"{'; '.join(words)}: {bars}; "
        'set tokenizer.vocabulary = "extend" or "replace", or start from a model of this language',
    )  # fmt: skip


def _learning_rate(start: Start, network: Network, taken: Sequence[str]) -> Finding:
    name, training = "learning rate for tuning", start.recipe.training
    adapters = bool(start.recipe.model.get("lora_rank"))
    bar = HIGHEST_OF_ADAPTERS if adapters else HIGHEST_RATE
    factors: dict[str, Any] = rate_factors(network, training)
    frozen = {n for n, p in network.named_parameters() if not p.requires_grad}
    moved = [n for n in factors if ".lora." in n or (n in {*taken} and n not in frozen)]
    if training.optimizer not in ("adamw", "adam") or not moved:
        return Finding(name, True, f"{training.learning_rate:g}; nothing to compare it with")
    highest = training.learning_rate * max(factors[n] for n in moved)
    of = "adapters" if adapters else "weights that were taken over"
    words = f"{highest:g} for {of}"
    if highest <= bar:
        return Finding(name, True, f"{words}, at most {bar:g}")
    return Finding(
        name, False, f"{words}: above {bar:g}, most of what the model knows is lost in the first "
        f"steps; set training.learning_rate = {bar / 10:g}, and for a fresh head "
        'training.learning_rates = {"head.*" = 10.0}',
    )  # fmt: skip
