"""Embedding and position tables: nearest neighbours of a word, similarity of positions, and pairs
of texts that fine-tuning moved closer together or further apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from translucid.core.errors import InputError, nearest
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models.base import (
    Decoder,
    DecoderModel,
    Encoder,
    EncoderDecoderModel,
    EncoderModel,
    Network,
)
from translucid.models.ensemble import Ensemble
from translucid.models.transformer import Stack
from translucid.parts.positions import NoPositions
from translucid.see.pictures import Axis, Bars, Heat
from translucid.see.predictions import check_count
from translucid.see.trace_pictures import MOST, numbers
from translucid.tasks.contrastive import cosines
from translucid.tasks.words import readable

Side = Literal["source", "target"]
MAX_POSITIONS = 512  # maximum number of positions in a picture
SHOWN = 5  # how many pairs to print in each direction


def position_table(network: Network, length: int = 64, *, side: Side = "source") -> Heat:
    """Draw the position encoding: the vector added at each position (sinusoidal, learned), the
    cosine of each angle (rotary), or each head's bias by distance (alibi, relative)."""
    stack, places, note = _places(network, length, side)
    match stack.positions.point:
        case "encoding":
            table = _added(stack, places)
            shown, chosen = _thin(table, group=2)
            title, most, what = "The vector added at each position", None, "dimension"
        case "angles":
            table = _angles(stack, places).cos()
            shown, chosen = _thin(table, group=1)
            title, most = "Cosine of the angle by which each position rotates each pair", 1.0
            what = "pair of dimensions"
        case "bias":
            bias = _bias(stack, places)
            rows = Axis("head", tuple(map(str, range(len(bias)))))
            far = Axis("distance", _numbered(places))
            adds = "subtracts from" if bool((bias <= 0).all() and bias.any()) else "adds to"
            return Heat(f"What each head {adds} a score by distance", numbers(bias), rows, far)
        case None:
            raise _unplaced(stack.positions)
    if len(chosen) < table.shape[1]:
        noun = "pairs" if most else "dimensions"
        left_out = f"{len(chosen)} of {table.shape[1]} {noun} are shown, evenly chosen"
        note = "; ".join(part for part in (note, left_out) if part)
    columns = Axis(what, tuple(map(str, chosen)))
    return Heat(
        title, numbers(shown), Axis("position", _numbered(places)), columns, most=most, note=note
    )


def position_gram(network: Network, length: int = 64, *, side: Side = "source") -> Heat:
    """Draw the similarity of every pair of positions: the dot product of their vectors or, for
    rotary positions, the mean cosine of the differences between their angles."""
    stack, places, note = _places(network, length, side)
    match stack.positions.point:
        case "encoding":
            vectors = _added(stack, places)
            title, alike = "Dot product of the vectors of two positions", vectors @ vectors.T
        case "angles":
            angles = _angles(stack, places)
            between = angles[:, None] - angles[None]
            title, alike = (
                "Mean cosine of the rotations between two positions",
                between.cos().mean(-1),
            )
        case "bias":
            name = getattr(network.config, "positions")  # noqa: B009 (a Transformer's)
            raise InputError(
                f"{name} has no position vectors to compare; position_table shows the bias of each "
                "head by distance"
            )
        case None:
            raise _unplaced(stack.positions)
    side_of = Axis("position", _numbered(places))
    return Heat(title, numbers(alike), side_of, side_of, note=note)


def neighbours(
    network: Network, tokenizer: Tokenizer, word: str, k: int = 8, *, side: Side = "source"
) -> Bars:
    """The words whose embeddings have the highest cosine similarity with this word's."""
    check_count(k)
    table = _reader(network, side).embedding.table.weight.detach()  # (vocab, d_model)
    tokenizer.check_rows(len(table), "the model's table")
    table = table[: len(tokenizer)]  # without spare rows
    number, note = _number_of(tokenizer, word)
    within = next(i for i in range(len(tokenizer)) if i not in tokenizer.special_ids)
    wide = table if table.dtype is torch.float64 else table.float()
    cosines = normalize(wide, dim=-1) @ normalize(wide[number], dim=-1)
    cosines[number] = -torch.inf
    best = cosines.topk(min(k, len(table) - 1))
    return Bars(
        f"The words nearest to {word.strip()!r}",
        "cosine of the angle between the two vectors",
        tuple(readable(tokenizer, [within, other])[1] for other in best.indices.tolist()),
        numbers(best.values),
        note=f"{len(best.values)} of {len(table) - 1:,} other words{note}",
    )


def _number_of(tokenizer: Tokenizer, word: str) -> tuple[int, str]:
    """The id of the single token for a word within a text, and a note if the word is a different
    token at the beginning of a text."""
    within, ids = tokenizer.encode(f" {word}"), tokenizer.encode(word)
    whole = [row[0] for row in (within, ids) if len(row) == 1 and row[0] != tokenizer.unk_id]
    if whole:
        twice = whole[-1] != whole[0]
        return whole[0], "; at the beginning of a text it is a different token" if twice else ""
    if len(ids) > 1:
        pieces = ", ".join(readable(tokenizer, ids))
        raise InputError(f"{word!r} is {len(ids)} tokens ({pieces}); choose one of them")
    if not ids:
        raise InputError(f"{word!r} contains no token; expected a word")
    text = [i for i in range(len(tokenizer)) if i not in tokenizer.special_ids]
    close = nearest(word, readable(tokenizer, text))
    hint = f"the nearest known words are {', '.join(close)}" if close else "try a different word"
    raise InputError(f"{word!r} is not in the model's vocabulary; {hint}")


def _reader(network: Network, side: Side) -> Encoder | Decoder:
    """The encoder or decoder that reads the text of a side."""
    if side not in ("source", "target"):
        raise InputError(f"side = {side!r}: expected source or target")
    if isinstance(network, EncoderDecoderModel):
        return network.encoder if side == "source" else network.decoder
    if isinstance(network, Ensemble):
        raise InputError("every member of an ensemble has its own tables; pass one of .networks()")
    if not isinstance(network, EncoderModel | DecoderModel):
        raise InputError("this network reads numbers, so it has no embedding or position table")
    if side == "target":
        raise InputError("side = 'target': this model reads only one text; omit side")
    return network.encoder if isinstance(network, EncoderModel) else network.decoder


def _places(network: Network, length: int, side: Side) -> tuple[Stack, Tensor, str]:
    """The stack, the positions (1, length) on its device, and a note if some are left out."""
    stack = _reader(network, side)
    if not isinstance(stack, Stack):
        raise InputError("a recurrent network reads tokens one at a time; it has no position table")
    if not 1 <= length <= MAX_POSITIONS:
        raise InputError(f"length = {length}: must be between 1 and {MAX_POSITIONS}")
    note, limit = "", getattr(network.config, "context_length", None)
    if limit is not None and length > limit:
        length = limit
        note = f"the model has only {length} learned positions"
    return stack, torch.arange(length, device=stack.embedding.table.weight.device)[None], note


def _added(stack: Stack, places: Tensor) -> Tensor:
    """The vectors added to the embeddings at these positions. (length, d_model)"""
    like = stack.embedding.table.weight
    return stack.positions.add(like.new_zeros(*places.shape, stack.d_output), places)[0].detach()


def _angles(stack: Stack, places: Tensor) -> Tensor:
    """The angles by which pairs of dimensions are rotated. (length, pairs)"""
    angles = stack.positions.angles(places)
    assert angles is not None, "position schemes with the point `angles` compute angles"
    return angles[0]


def _bias(stack: Stack, places: Tensor) -> Tensor:
    """The bias of the scores by the distance between query and key. (heads, distances)"""
    bias = stack.positions.bias(places[:, -1:], places.flip(1))
    assert bias is not None, "position schemes with the point `bias` compute a bias"
    return bias[0, :, 0]


def _thin(table: Tensor, *, group: int) -> tuple[Tensor, list[int]]:
    """Select evenly spaced columns, few enough to read; groups of `group` columns stay together."""
    width = table.shape[1]
    step = -(-width // MOST)
    chosen = [
        column + more
        for column in range(0, width, group * step)
        for more in range(group)
        if column + more < width
    ]
    return table[:, chosen], chosen


def _numbered(places: Tensor) -> tuple[str, ...]:
    return tuple(map(str, range(places.shape[1])))


def _unplaced(positions: NoPositions) -> InputError:
    if type(positions) is not NoPositions:
        return InputError(
            f"there is no picture for {type(positions).__name__}, your own position scheme; its "
            "trace points show what it computes"
        )
    return InputError("this model has positions = none, so there is no table to show")


@dataclass(frozen=True)
class PairChange:
    """The cosine similarity of two texts, before and after fine-tuning."""

    one: str
    other: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before

    def line(self) -> str:
        cosines = f"{self.before:7.4f} -> {self.after:7.4f}  {self.change:+.4f}"
        return f"{cosines}  {self.one} | {self.other}"


@dataclass(frozen=True)
class EmbeddingChange:
    """All pairs of texts, sorted from moved closest together to moved furthest apart."""

    pairs: tuple[PairChange, ...]

    def nearer(self, k: int = SHOWN) -> tuple[PairChange, ...]:
        """The k pairs that moved together the most."""
        return tuple(pair for pair in self.pairs[:k] if pair.change > 0)

    def apart(self, k: int = SHOWN) -> tuple[PairChange, ...]:
        """The k pairs that moved apart the most."""
        return tuple(pair for pair in self.pairs[: -k - 1 : -1] if pair.change < 0)

    def __str__(self) -> str:
        return self.text()

    def text(self, k: int = SHOWN) -> str:
        """The k pairs that moved most in each direction, as text."""
        parts = {"moved nearer": self.nearer(k), "moved apart": self.apart(k)}
        blocks = [[title, *(f"  {pair.line()}" for pair in pairs)]
                  for title, pairs in parts.items() if pairs]  # fmt: skip
        return "\n".join(line for block in blocks for line in block) or "no pair has moved"


def embedding_change(texts: Sequence[str], before: Tensor, after: Tensor) -> EmbeddingChange:
    """Compare the cosine similarity of all pairs of texts between two models.

    before, after: vectors of the texts, (texts, dimensions), which may differ in dimensions.
    """
    was, now = cosines(before, before).tolist(), cosines(after, after).tolist()
    pairs = [
        PairChange(texts[i], texts[j], was[i][j], now[i][j])
        for i, j in combinations(range(len(texts)), 2)
    ]
    return EmbeddingChange(tuple(sorted(pairs, key=lambda pair: -pair.change)))
