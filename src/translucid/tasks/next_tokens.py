"""Next-token outputs of language and translation models."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.decoded import END
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.choices import Choices, least_sure, ranked
from translucid.tasks.example import Example
from translucid.tasks.outputs import Answer, Caption, Cell, Ending, OutputRow, place_of
from translucid.tasks.words import readable

SOFTMAX = (
    "Every token of the vocabulary gets a score, and the softmax turns the scores into "
    "probabilities that sum to 1."
)
CUT = "the model would have continued"


class NextTokens(Choices):
    """Outputs that are the next token of the text at each position."""

    kind = "next_tokens"
    at_positions = True
    caption = Caption(
        "next token", "tokens", "The likeliest next tokens at each position",
        "token read → token that follows",
    )  # fmt: skip
    tokenizer: Tokenizer

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @property
    def meaning(self) -> Any:
        return self.tokenizer.fingerprint

    def name(self, number: int, before: int | None = None) -> str:
        context = [] if before is None else [before]
        return readable(self.tokenizer, [*context, number])[-1]

    def plain(self, outputs: Tensor) -> Any:
        return self.tokenizer.pieces(outputs.argmax(-1).tolist())

    @property
    def lacking(self) -> str:
        return "pass a text of at least one word"

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        words = example.words.follows
        before_end = max(len(words) - 1 - (words[-1] == END), 0)
        place = before_end if of is None else place_of(of, words, "the tokens to write are")
        choice, word = int(example.batch.targets[0, place]), words[place]
        if choice == IGNORE:
            choice = int(outputs[place].argmax())
            word = readable(self.tokenizer, [choice])[0]
        return Answer(place, choice, word)

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        return [self.answer(example, outputs, place) for place in range(len(outputs))]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        rows = self._steps(example, outputs, top)
        endings = []
        if len(rows) > 1:
            sentence = (
                f"{SOFTMAX} The token that follows in the text is marked, with the probability "
                "that the model gave it."
            )
            endings.append(
                Ending("choices", "guessing each next token", sentence, rows[:-1],
                       least_sure(rows[:-1]), came=True)
            )  # fmt: skip
        sentence = "The likeliest tokens after the text."
        endings.append(Ending("choices", "how the text may continue", sentence, rows[-1:]))
        return endings, rows[-1].cells[0].label

    def _steps(self, example: Example, logits: Tensor, top: int) -> tuple[OutputRow, ...]:
        """The most probable tokens at each step, plus the actual token. logits: (steps, vocab)"""
        probabilities = logits.float().softmax(dim=-1)
        written: Sequence[int] = example.batch.targets[0].tolist()
        rows = []
        for step, (before, after) in enumerate(zip(example.target_ids, written, strict=True)):
            cells = []
            for place, (token, value, rank) in enumerate(ranked(probabilities[step], top, after)):
                label = self.name(token, before) if place < top else example.words.follows[step]
                cells.append(Cell(label, value, chosen=token == after, rank=rank))
            rows.append(OutputRow(readable(self.tokenizer, [before])[0], tuple(cells)))
        return tuple(rows)


class TargetTokens(NextTokens):
    """Outputs that are the next token of a translation at each position, up to its end."""

    kind = "target_tokens"

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        rows = self._steps(example, outputs, top)
        happened, goes_on = least_sure(rows), self._goes_on(example, outputs[-1])
        if goes_on:  # the model did not choose this end; do not report it as least sure
            happened = "; ".join(filter(None, [least_sure(rows[:-1]), goes_on]))
            rows = (*rows[:-1], replace(rows[-1], remark=CUT))
        sentence = f"{SOFTMAX} Tokens are predicted one at a time, each from those before it."
        note = "by itself the model would have continued after the translation's last token"
        last = Ending(
            "choices", "the next token, step by step", sentence, rows, happened, came=True,
            note=note if goes_on else "",
        )  # fmt: skip
        written = example.batch.targets[0].tolist()
        return [last], self.tokenizer.decode(written[:-1])

    def _goes_on(self, example: Example, logits: Tensor) -> str:
        """Describe the token that the model would generate after a translation; empty if that is
        the end token. It is another token if the translation was truncated or passed in, or if a
        search preferred to end the translation. logits: (vocab,)"""
        tokenizer = self.tokenizer
        probabilities = logits.float().softmax(dim=-1)
        written = probabilities.clone()
        written[list(tokenizer.never_targets)] = 0  # tokens that are never generated
        written[len(tokenizer) :] = 0
        best = int(written.argmax())
        if best == tokenizer.eos_id:
            return ""
        label = self.name(best, example.target_ids[-1])
        end = float(probabilities[tokenizer.eos_id])
        return (
            f"the translation ends here (probability of the end: {end:.1%}); by itself the model "
            f"would have continued with {label!r} ({float(probabilities[best]):.1%})"
        )


def prefixes_and_sources(batch: Batch) -> tuple[list[list[int]], GenerationInputs | None]:
    """The prefixes of a batch without their padding, and the sources (None for language models)."""
    inputs = batch.inputs
    if "source" in inputs:
        ids, mask = inputs["target"], inputs["target_mask"]
        sources = GenerationInputs.of(inputs["source"], inputs["source_mask"])
    else:
        ids, sources = inputs["ids"], None
        mask = inputs.get("mask", torch.ones_like(ids, dtype=torch.bool))
    return [row[kept].tolist() for row, kept in zip(ids, mask, strict=True)], sources


def never_generated(tokenizer: Tokenizer, model: nn.Module) -> tuple[int, ...]:
    """Tokens that this model must not generate."""
    assert isinstance(model, AutoregressiveNetwork)
    return tokenizer.never_generated(model.vocab)


def search_ids(tokenizer: Tokenizer, model: nn.Module) -> dict[str, Any]:
    """The arguments of `generate.find` that depend on the vocabulary."""
    return {
        "eos": tokenizer.eos_id,
        "pad": tokenizer.pad_id,
        "never": never_generated(tokenizer, model),
        "ends": tokenizer.special.ends,
    }
