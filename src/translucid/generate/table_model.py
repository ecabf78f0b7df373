"""A language model defined by a table: for each prefix, the probabilities of the next word.

It is for worked examples and tests, and has the methods `start` and `step` of a trained model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models.autoregressive import GenerationInputs

END = "<eos>"
PAD = "<pad>"


@dataclass
class TableState:
    """The ids that each row has read so far."""

    rows: list[list[int]]
    beams: int = 1

    @property
    def length(self) -> int:
        return len(self.rows[0])

    def expand(self, beams: int) -> None:
        self.rows = [list(row) for row in self.rows for _ in range(beams)]
        self.beams = beams

    def follow(self, parents: Tensor) -> None:
        flat = [i * self.beams + int(p) for i, row in enumerate(parents) for p in row]
        self.rows = [list(self.rows[i]) for i in flat]

    def select(self, sources: Tensor) -> None:
        kept = [i * self.beams + j for i in sources.tolist() for j in range(self.beams)]
        self.rows = [self.rows[row] for row in kept]


class TableModel:
    """P(word | prefix), from a table such as {"I am": {"fine": 0.5, "here": 0.5}}.

    After a prefix that is not in the table, the sentence ends.
    """

    max_length = None
    device = torch.device("cpu")

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        self.table = table
        words = [PAD, END]
        for prefix, following in table.items():
            _check_row(prefix, following)
            words += [*prefix.split(), *following]
        self.words = list(dict.fromkeys(words))
        self.ids = {word: i for i, word in enumerate(self.words)}
        self.vocab = len(self.words)

    def encode(self, text: str) -> Tensor:
        """The ids of a prefix: (1, length)."""
        unknown = [word for word in text.split() if word not in self.ids]
        if unknown:
            raise InputError(
                f"the table has no word {unknown[0]!r}; its words are {', '.join(self.words[2:])}"
            )
        return torch.tensor([[self.ids[word] for word in text.split()]])

    def decode(self, ids: Tensor) -> str:
        return " ".join(self.words[i] for i in ids.tolist() if i != self.ids[PAD])

    def start(
        self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE
    ) -> TableState:
        """Start with empty rows. `capacity` has no effect."""
        return TableState([[] for _ in range(inputs.rows)])

    def step(
        self,
        tokens: Tensor,
        state: TableState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Log-probabilities (rows, queries, vocab) after the newest tokens, in float64."""
        if mask is not None:
            raise InputError("a table model cannot read padding; omit the mask")
        logits = torch.full((*tokens.shape, len(self.words)), -torch.inf, dtype=torch.float64)
        for row, (read, new) in enumerate(zip(state.rows, tokens.tolist(), strict=True)):
            for query, token in enumerate(new):
                read.append(token)
                prefix = " ".join(self.words[i] for i in read)
                for word, p in self.table.get(prefix, {END: 1.0}).items():
                    logits[row, query, self.ids[word]] = math.log(p) if p > 0 else -torch.inf
        return logits


def _check_row(prefix: str, following: Mapping[str, float]) -> None:
    for word, p in following.items():
        if len(word.split()) != 1:
            raise InputError(
                f"after {prefix!r}: {word!r} is not a single word; give each next word by itself"
            )
        if not 0 <= p <= 1:
            raise InputError(
                f"after {prefix!r}: the probability of {word!r} is {p}, not a number between 0 and "
                "1; correct the table"
            )
    total = sum(following.values())
    if not math.isclose(total, 1.0, abs_tol=1e-6):
        raise InputError(
            f"after {prefix!r}: the probabilities sum to {total:g}, but must sum to 1; correct the "
            "table"
        )
