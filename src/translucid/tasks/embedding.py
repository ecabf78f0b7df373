"""Outputs that are one vector: the embedding of a text."""

from torch import Tensor

from translucid.core.errors import InputError
from translucid.tasks.example import Example
from translucid.tasks.outputs import Answer, Cell, Ending, Row, Values, floats

SHOWN = 16  # dimensions that are pictured


class Embedding(Values):
    """The dimensions of one vector: numbers that mean something together only."""

    @property
    def lacking(self) -> str:
        return "an embedding has no right value; look at saliency, or at model.similarity"

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        """By default the dimension that is largest."""
        if of is None:
            of = int(outputs.abs().argmax())
        number = str(of).removeprefix("dimension ")
        if not number.isdigit() or int(number) >= len(outputs):
            raise InputError(
                f"of = {of!r}: give a dimension of the embedding, 0 to {len(outputs) - 1}"
            )
        return Answer(None, int(number), f"dimension {number}")

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        """Those that are largest, in order."""
        largest = outputs.abs().topk(min(SHOWN, len(outputs))).indices.sort().values
        return [Answer(None, choice, f"dimension {choice}") for choice in largest.tolist()]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        length = float(outputs.float().norm())
        largest = outputs.abs().topk(min(top, len(outputs))).indices.tolist()
        rows = tuple(
            Row(f"dimension {place}", (Cell("", value, chosen=True),))
            for place, value in zip(largest, floats(outputs[largest]), strict=True)
        )
        sentence = (
            f"The text is now one vector of {len(outputs):,} dimensions. They mean nothing by "
            "themselves: what counts is the angle to the vector of another text. Here are the "
            "largest."
        )
        last = Ending("values", "the embedding of the text", sentence, rows)
        return [last], f"a vector of {len(outputs):,} dimensions, length {length:.3g}"
