"""Word vectors from characters, for words outside the vocabulary.

Characters are UTF-8 bytes: byte b has the id b + 1, and id 0 is padding after the end of a word.
So there is no alphabet to choose, and no character is unknown.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.embedding import InputPart, Tokens, out_of_range
from translucid.parts.expression import Expression, Terms, apply, constant, joined
from translucid.parts.switch import Switch, in_words

NUMBERS = 257  # number of character ids: padding and 256 bytes


class Characters(InputPart):
    """A convolution over the characters of a word, followed by max pooling over the word.

    m = max over the word of relu(W * E + b); the vector is V m + c, added to the word's embedding.
    There is no dropout inside: noise raises a maximum, so the maximum would be larger in training
    than in evaluation. Dropout is applied to the sum instead.
    dos Santos & Zadrozny 2014; Ma & Hovy 2016, https://arxiv.org/abs/1603.01354
    """

    needs = True

    def __init__(
        self, filters: int, d_model: int, *, d_character: int = 48, width: int = 3
    ) -> None:
        super().__init__()
        self.width = width
        self.table = nn.Embedding(NUMBERS, d_character, padding_idx=0)
        # A convolution as a linear layer over windows: on a CPU twice as fast as nn.Conv1d.
        self.filters = nn.Linear(d_character * width, filters)
        self.linear = nn.Linear(filters, d_model)

    def forward(self, characters: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """The vector of each word from its characters (batch, length, characters). A word without
        characters gives c."""
        x = trace("lookup", self._look_up(characters))  # (batch, length, characters, d_character)
        around = F.pad(x, (0, 0, self.width - 1, self.width - 1))
        windows = around.unfold(2, self.width, 1).flatten(-2)  # (batch, length, windows, inputs)
        slid = trace("convolved", self.filters(windows))  # (batch, length, windows, filters)
        # Windows after the end of the word give 0, the minimum of a relu, so that a word's vector
        # does not depend on the longer words in the batch.
        answers = trace("activated", torch.relu(slid) * self._inside(characters))
        loudest = trace("loudest", answers.amax(dim=2))  # (batch, length, filters)
        return trace("output", self.linear(loudest))  # (batch, length, d_model)

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        """Add to the embedding x of each word the vector of its characters."""
        assert features is not None, "checked by the encoder"
        return trace("sum", x + self(features, trace))

    def check(self, tokens: Tokens, features: Tensor | None) -> None:
        check_characters(tokens, features)

    def _look_up(self, characters: Tensor) -> Tensor:
        # The embedding of padding is 0, whatever weights were loaded.
        return self.table(characters) * (characters > 0)[..., None]

    def _inside(self, characters: Tensor) -> Tensor:
        """Whether each window contains a character of the word: (batch, length, windows, 1)."""
        around = F.pad(characters > 0, (self.width - 1, self.width - 1))
        return around.unfold(-1, self.width, 1).any(dim=-1)[..., None]

    def switches(self, path: str) -> Iterator[Switch]:
        yield Switch(path, in_words(path), "characters", {f"{path}.output": 0.0})

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, *more = index
        ids = at.run.tensor("characters")[row, place]
        match point:
            case "lookup":
                looked_up = at.row_of("table.weight", "characters", *index)
                padding = bool(ids[more[0]] == 0)
                return constant("characters", 0) * looked_up if padding else looked_up
            case "convolved":
                window, out = more
                return at.linear("filters", out, self._window_terms(at, row, place, window))
            case "activated":
                window, _ = more
                answer = apply("relu", at.number("convolved", *index))
                first = max(window - self.width + 1, 0)
                inside = bool((ids[first : window + 1] > 0).any())
                return answer if inside else (constant("w", 0) * answer)
            case "loudest":
                return at.run.largest(at.vector("activated", row, place, None, *more))
            case "output":
                loudest = at.vector("loudest", row, place, None)
                return at.linear("linear", more[0], loudest, "V", "c")
        return at.input(*index) + at.number("output", *index)

    def _window_terms(self, at: Scope, row: int, place: int, window: int) -> Terms:
        """The values of the character embeddings in a window, in the order of the filters' weights
        (by dimension)."""
        count, size = at.run.tensor(at.name("lookup")).shape[2:]
        characters = range(window - self.width + 1, window + 1)
        vectors = [
            at.vector("lookup", row, place, n, None)
            if 0 <= n < count
            else at.run.zeros("lookup", size)
            for n in characters
        ]
        by_dimension = [n * size + d for d in range(size) for n in range(self.width)]
        return joined(*vectors).pick(by_dimension)


def check_characters(tokens: Tokens, characters: Tensor | None) -> Tensor:
    """Check that characters are (batch, length, characters), with one word per id."""
    if characters is None:
        raise InputError(
            "characters: this model reads the characters of each word; pass characters=, a "
            "tensor (batch, length, characters): byte b of a word as b + 1, 0 after its end"
        )
    if not isinstance(characters, Tensor) or characters.dtype not in (torch.long, torch.int):
        kind = characters.dtype if isinstance(characters, Tensor) else type(characters).__name__
        raise InputError(f"characters: got {kind}; expected a tensor of whole numbers (torch.long)")
    shape = characters.shape
    if characters.dim() != 3 or shape[:2] != tokens.ids.shape or shape[2] == 0:
        raise InputError(
            f"characters has shape {tuple(shape)}, but ids has shape {tuple(tokens.ids.shape)}; "
            "pass a tensor (batch, length, characters) with room for at least one character"
        )
    if (wrong := out_of_range(characters, NUMBERS)) is not None:
        raise InputError(
            f"characters contains {wrong}, but character ids are 0 to {NUMBERS - 1}: pass byte b "
            "of a word as b + 1, and 0 after the end of the word"
        )
    return characters
