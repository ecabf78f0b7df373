"""Generated and scored texts, with their log-probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from translucid.data.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from translucid.generate.tree import Tree

END = "</s>"


@dataclass(frozen=True)
class Candidate:
    """A generated text."""

    text: str  # including the prefix or the prompt
    pieces: list[str]  # the generated tokens, including the end if there is one
    score: float  # used for ranking: log-probability / length^alpha
    log_probability: float  # the sum of the token log-probabilities
    token_log_probs: list[float]  # the log-probability of each piece
    finished: bool  # it has an end; otherwise it was truncated
    tokens: list[int] = field(repr=False)  # without the end


@dataclass(frozen=True)
class Decoded:
    """The generated texts for one source or prompt, best first."""

    source: str
    texts: list[Candidate]
    tree: "Tree | None" = field(default=None, repr=False)
    note: str = ""  # a remark on the search

    def as_dict(self, tokenizer: Tokenizer | None = None) -> dict[str, Any]:
        """The texts and their scores as a dictionary for JSON."""
        texts = [
            {key: value for key, value in vars(text).items() if key != "tokens"}
            for text in self.texts
        ]
        result: dict[str, Any] = {"source": self.source, "texts": texts}
        if self.note:
            result["note"] = self.note
        if self.tree is not None and tokenizer is not None:
            result["tree"] = self.tree.as_dict(lambda token: shown(tokenizer, token))
        return result


@dataclass(frozen=True)
class Scored:
    """The log-probabilities of a given text."""

    pieces: list[str]  # including the end
    token_log_probs: list[float]  # the log-probability of each
    log_probability: float


def shown(tokenizer: Tokenizer, token: int) -> str:
    return END if token == tokenizer.eos_id else tokenizer.pieces([token])[0]


def pieces_of(tokenizer: Tokenizer, tokens: Sequence[int], *, ended: bool) -> list[str]:
    """The text of each token, followed by that of the end token if the text has ended."""
    return [*tokenizer.pieces(tokens), *([END] if ended else [])]
