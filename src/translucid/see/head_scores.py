"""How often attention heads find known links between words: subjects, antecedents, alignments."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError, UnknownPointError
from translucid.models.base import Network
from translucid.see.reading import Reading, read
from translucid.tasks.base import Task
from translucid.tasks.example import TokenInput
from translucid.tasks.words import ACROSS

WORD = re.compile(r"\w+|[^\w\s]")  # a run of letters and digits, or one punctuation mark
WordLinks = Sequence[tuple[int, int]]  # pairs of word indices, counted from 0
Text = str | Sequence[str]  # a text, or its words


@dataclass(frozen=True)
class HeadScores:
    """For each head, the fraction of links for which attention is largest at the gold position."""

    links: int
    heads: Mapping[str, Sequence[float]]  # by trace point, such as encoder.layers.0.self_attention
    # The fraction for a head that always attends to the previous token; for cross-attention, to the
    # source token at the position of the predicted token.
    previous: float
    across: bool  # cross-attention
    offset: int  # the most frequent distance from query to key, in tokens
    at_offset: float  # the fraction of links that a head with this fixed distance finds

    @property
    def best(self) -> tuple[str, int, float]:
        """The best head: its trace point, its number and its fraction."""
        every = ((name, head, fraction) for name, fractions in self.heads.items()
                 for head, fraction in enumerate(fractions))  # fmt: skip
        return max(every, key=lambda one: one[2])

    def __str__(self) -> str:
        rows = [
            (f"{name}, head {head}", fraction)
            for name, fractions in self.heads.items()
            for head, fraction in enumerate(fractions)
        ]
        baseline = "same position" if self.across else "previous token"
        rows.append((f"always the {baseline}", self.previous))
        rows.append((f"always offset {self.offset:+d}", self.at_offset))
        width = max(len(name) for name, _ in rows)
        lines = [f"{'attends most to the gold position':{width}}  of {self.links:,} links"]
        return "\n".join([*lines, *(f"{name:{width}}  {fraction:.3f}" for name, fraction in rows)])


def head_scores(
    network: Network,
    task: Task[Any, Any],
    texts: Sequence[Text],
    links: Sequence[WordLinks],
    targets: Sequence[Text] | None = None,
) -> HeadScores:
    """Score every attention head against gold links.

    Without targets, self-attention is scored: a link (word, gold) is found if the word's last token
    attends most to a token of the gold word. With targets, cross-attention is scored: a link
    (source word, target word) is found if the decoder step that predicts the target word's first
    token attends most to a token of the source word.
    """
    sides = [texts, links, *([] if targets is None else [targets])]
    if len({len(side) for side in sides}) > 1:
        raise InputError(
            f"got {len(texts):,} texts, {len(links):,} lists of links"
            + ("" if targets is None else f" and {len(targets):,} targets")
            + "; pass one of each per text"
        )
    total, previous, distances = 0, 0, Counter[int]()
    hit_counts: dict[str, list[int]] = {}
    for number, pairs in enumerate(links):
        if not pairs:
            continue
        target = None if targets is None else targets[number]
        reading = _read(network, task, texts[number], target)
        rows = list(_tokens(reading, texts[number], target, pairs, f"text {number + 1}"))
        total += len(rows)
        for query, gold in rows:
            back = query - (targets is None)  # across texts: the same position
            previous += back in gold
            distances.update({key - query for key in gold})
        for name, pattern in _patterns(reading, across=targets is not None).items():
            hits = hit_counts.setdefault(name, [0] * len(pattern))
            for head, maxima in enumerate(pattern.argmax(dim=-1).tolist()):
                hits[head] += sum(maxima[query] in gold for query, gold in rows)
    if not total:
        raise InputError("there are no links; pass at least one pair of words")
    offset, most = min(distances.items(), key=lambda one: (-one[1], abs(one[0]), one[0]))
    fractions = {name: [hit / total for hit in hits] for name, hits in hit_counts.items()}
    return HeadScores(total, fractions, previous / total, targets is not None, offset, most / total)


def cross_attention(
    network: Network, task: Task[Any, Any], source: Text, target: Text
) -> tuple[Reading, list[Tensor]]:
    """Run a translation model on a pair; also returns the patterns of cross-attention by layer,
    (heads, queries, keys)."""
    reading = _read(network, task, source, target)
    return reading, [*_patterns(reading, across=True).values()]


def _read(network: Network, task: Task[Any, Any], text: Text, target: Text | None) -> Reading:
    target_text = None if target is None else _joined(target)
    if target_text is None and task.shape == "encoder-decoder":
        target_text = ""  # the encoder's self-attention does not depend on the target
    try:
        return read(network, task, _joined(text), target_text, keep="*.pattern")
    except UnknownPointError:
        raise InputError("this model has no attention heads to score") from None


def _patterns(reading: Reading, *, across: bool) -> dict[str, Tensor]:
    """The attention patterns of all layers, (heads, queries, keys), by the name of their part."""
    translates = reading.task.shape == "encoder-decoder"
    patterns = {}
    for name in reading.names():
        part = name.rpartition(".")[0]
        scopes = part.split(".")
        if describe(name).axes[-2:] != ("queries", "keys") or (scopes[-1] in ACROSS) != across:
            continue
        if across or not translates or "encoder" in scopes:
            value = reading[name][0]
            patterns[part] = value if value.dim() == 3 else value[None]
    if not patterns:
        kind = "cross-attention" if across else "self-attention"
        raise InputError(f"this model has no heads of {kind} to score")
    return patterns


def _tokens(
    reading: Reading, text: Text, target: Text | None, pairs: WordLinks, where: str
) -> Iterator[tuple[int, set[int]]]:
    """For each link, the position of the query and those of the gold word."""
    example = reading.example
    side = example.source or example.target
    assert side is not None
    keys = word_tokens(reading, side, text)
    if target is None:
        for word, gold in pairs:
            yield max(_of(keys, word, where)), _of(keys, gold, where)
        return
    assert example.target is not None
    steps = word_tokens(reading, example.target, target)
    for source, predicted in pairs:
        first = min(_of(steps, predicted, f"{where}, target"))
        yield first - 1, _of(keys, source, where)  # the step that reads the token before


def _of(tokens: Sequence[set[int]], word: int, where: str) -> set[int]:
    if not 0 <= word < len(tokens):
        raise InputError(f"{where}: has words 0 to {len(tokens) - 1}, but a link names word {word}")
    if not tokens[word]:
        raise InputError(f"{where}: the tokenizer drops word {word}, which a link names")
    return tokens[word]


def _joined(text: Text) -> str:
    return text if isinstance(text, str) else " ".join(text)


def word_tokens(reading: Reading, side: TokenInput, text: Text) -> list[set[int]]:
    """The positions of the tokens of each word in an input of the network."""
    joined = _joined(text)
    if isinstance(text, str):
        spans = [match.span() for match in WORD.finditer(text)]
    else:
        ends = [len(" ".join(text[: number + 1])) for number in range(len(text))]
        spans = [(end - len(word), end) for end, word in zip(ends, text, strict=True)]
    ids = reading.example.batch.inputs[side.name][0].tolist()
    own = side.tokenizer.encode(joined)
    # The first token of the text, after special tokens.
    begin = next(at for at in range(len(ids) + 1) if ids[at : at + len(own)] == own)
    places = [
        (begin + number, *span)
        for number, span in enumerate(side.tokenizer.offsets(joined))
        if begin + number < len(ids)
    ]
    return [
        {place for place, first, last in places if first < end and last > start}
        for start, end in spans
    ]
