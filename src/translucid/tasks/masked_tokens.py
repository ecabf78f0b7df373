"""Outputs that are a token at each position: what a masked language model says of every place, of
which only those that are masked are a guess."""

from typing import Any

from torch import Tensor

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import IGNORE
from translucid.tasks.choices import Choices, least_sure
from translucid.tasks.example import Example
from translucid.tasks.outputs import Answer, Caption, Cell, Ending, Row, floats, place_of
from translucid.tasks.words import in_a_text

SOFTMAX = (
    "At each mask every token of the vocabulary gets a score, and the softmax turns the scores "
    "into probabilities that sum to 1."
)
UNMASKED = "Nothing is masked: what the model would read at each place, the token itself in view."


class MaskedTokens(Choices):
    """The token that stands at each position, or is hidden there."""

    kind = "masked_tokens"
    at_positions = True
    caption = Caption(
        "token", "tokens", "The likeliest tokens at each position", "token",
        "where nothing is masked, the model sees the token itself",
    )  # fmt: skip

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer  # not `tokenizer`: the model writes no text

    @property
    def mask(self) -> str:
        """How a hidden token is written."""
        return self._tokenizer.mask_token

    @property
    def meaning(self) -> Any:
        return self._tokenizer.fingerprint

    def name(self, number: int, before: int | None = None) -> str:
        if number >= len(self._tokenizer):
            return f"<unused{number}>"
        return in_a_text(self._tokenizer, number)

    def plain(self, outputs: Tensor) -> Any:
        return [self.name(number) for number in outputs.argmax(-1).tolist()]

    @property
    def lacking(self) -> str:
        return f"write {self.mask} in the text, and give the token that stands there as target"

    def _places(self, example: Example) -> list[int]:
        """The masks; without any, all."""
        ids = example.batch.inputs["ids"][0].tolist()
        masks = [place for place, i in enumerate(ids) if i == self._tokenizer.mask_id]
        return masks or list(range(len(ids)))

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        words = example.words.source
        place = self._places(example)[-1] if of is None else place_of(of, words, "there are")
        target = int(example.batch.targets[0, place])
        choice = int(outputs[place].argmax()) if target == IGNORE else target
        return Answer(place, choice, f"{self.name(choice)} at {words[place]}")

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        return [self.answer(example, outputs, place) for place in self._places(example)]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        places, words = self._places(example), example.words.source
        ids = example.batch.inputs["ids"][0].tolist()
        masked = ids[places[0]] == self._tokenizer.mask_id
        targets = example.batch.targets[0].tolist()
        rows = tuple(
            Row(words[place], self._cells(outputs[place], targets[place], top)) for place in places
        )
        last = Ending(
            "choices", "the hidden tokens" if masked else "a token at each place",
            SOFTMAX if masked else UNMASKED, rows, least_sure(rows, "at") if masked else "",
        )  # fmt: skip
        return [last], " ".join(row.cells[0].label for row in rows)

    def _cells(self, logits: Tensor, target: int, top: int) -> tuple[Cell, ...]:
        probabilities = logits.float().softmax(dim=-1)  # (vocab,)
        best = probabilities.topk(min(top, len(probabilities)))
        tokens, values = best.indices.tolist(), floats(best.values)
        cells = [
            Cell(self.name(token), value, chosen=rank == 1, wanted=token == target, rank=rank)
            for rank, (token, value) in enumerate(zip(tokens, values, strict=True), start=1)
        ]
        if target not in (*tokens, IGNORE):
            value = float(probabilities[target])
            rank = 1 + int((probabilities > probabilities[target]).sum())
            cells.append(Cell(self.name(target), value, wanted=True, rank=rank))
        return tuple(cells)
