"""A vector of a word from its characters, for words that no table knows.

Characters here are bytes of UTF-8: byte b of the word is number b + 1, and 0 stands where a word
has ended. So no alphabet is needed, and no character is unknown.
"""

from collections.abc import Collection
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.tokens import InputPart, Tokens

NUMBERS = 257  # of characters: padding, and the bytes


class Characters(InputPart):
    """Filters slide over the characters of a word, and of each the loudest answer counts.

    m = max over the word of relu(W * E + b); the vector is V m + c, added to the word's embedding.
    No dropout in here: what is loudest among noisy answers is louder than without the noise, so a
    model trained with it would hear too little afterwards. The model drops parts of the sum.
    dos Santos & Zadrozny 2014; Ma & Hovy 2016, https://arxiv.org/abs/1603.01354
    """

    needs = True

    def __init__(
        self, filters: int, d_model: int, *, d_character: int = 48, width: int = 3
    ) -> None:
        super().__init__()
        self.width = width
        self.table = nn.Embedding(NUMBERS, d_character, padding_idx=0)
        # A convolution written out: a window is its characters side by side. To train it so on a
        # CPU takes half the time that it takes with nn.Conv1d.
        self.filters = nn.Linear(d_character * width, filters)
        self.linear = nn.Linear(filters, d_model)

    def forward(self, characters: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """characters: (batch, length, characters). A word without characters gives c."""
        x = trace("lookup", self._look_up(characters))  # (batch, length, characters, d_character)
        around = F.pad(x, (0, 0, self.width - 1, self.width - 1))
        windows = around.unfold(2, self.width, 1).flatten(-2)  # (batch, length, windows, inputs)
        slid = trace("convolved", self.filters(windows))  # (batch, length, windows, filters)
        # What lies behind the word answers 0, the least that a relu gives: it is never the loudest,
        # so that a word's vector does not depend on the longer words beside it.
        answers = trace("activated", torch.relu(slid) * self._inside(characters))
        loudest = trace("loudest", answers.amax(dim=2))  # (batch, length, filters)
        return trace("output", self.linear(loudest))  # (batch, length, d_model)

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        """The embedding x of each word, with what its characters say."""
        assert features is not None, "the reader looked whether they were given"
        return trace("sum", x + self(features, trace))

    def check(self, tokens: Tokens, features: Tensor | None) -> None:
        """Characters come as (batch, length, characters), the words those of the ids."""
        if features is None:
            raise InputError(
                "characters: this model reads the characters of each word; give characters=, a "
                "tensor (batch, length, characters): byte b of a word as b + 1, 0 where it ended"
            )
        if not isinstance(features, Tensor) or features.dtype not in (torch.long, torch.int):
            kind = features.dtype if isinstance(features, Tensor) else type(features).__name__
            raise InputError(
                f"characters: {kind} was given; give a tensor of whole numbers (torch.long)"
            )
        if features.dim() != 3 or features.shape[:2] != tokens.ids.shape or features.shape[2] == 0:
            raise InputError(
                f"characters has shape {tuple(features.shape)}, but ids {tuple(tokens.ids.shape)}; "
                "give (batch, length, characters), at least one character wide"
            )
        if features.device.type == "cpu" and not torch.compiler.is_compiling() and features.numel():
            low, high = int(features.min()), int(features.max())
            if low < 0 or high >= NUMBERS:
                wrong = low if low < 0 else high
                raise InputError(
                    f"characters holds {wrong}, but a byte b is b + 1: 1 to {NUMBERS - 1}"
                )

    def _look_up(self, characters: Tensor) -> Tensor:
        # The row of padding is 0, whatever was loaded or drawn into it.
        return self.table(characters) * (characters > 0)[..., None]

    def _inside(self, characters: Tensor) -> Tensor:
        """Which windows hold a character of the word. (batch, length, windows, 1)"""
        around = F.pad(characters > 0, (self.width - 1, self.width - 1))
        return around.unfold(-1, self.width, 1).any(dim=-1)[..., None]


class WordDropout(InputPart):
    """While training, this fraction of the words is read as unknown: a model that has met no
    unknown word does not know what to do with one."""

    def __init__(
        self, probability: float, unknown: int = 3, special: Collection[int] = (0, 1, 2)
    ) -> None:
        """unknown, special: ids of the tokenizer, as those that are trained here have them; what
        is special is read as it is."""
        super().__init__()
        self.probability = probability
        self.kept: Tensor
        self.register_buffer("kept", torch.empty(0, dtype=torch.long), persistent=False)
        self.set_ids(unknown, special)

    def set_ids(self, unknown: int, special: Collection[int]) -> None:
        self.unknown = unknown
        self.kept = torch.tensor(sorted({unknown, *special}), device=self.kept.device)

    def read(self, tokens: Tokens) -> Tokens:
        return replace(tokens, ids=self(tokens.ids))

    def forward(self, ids: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return ids
        hidden = torch.rand(ids.shape, device=ids.device) < self.probability
        words = (ids[..., None] != self.kept).all(dim=-1)
        return ids.masked_fill(hidden & words, self.unknown)
