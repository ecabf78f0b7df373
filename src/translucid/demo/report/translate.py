"""Translation: attention maps beside the gold alignment, and one row of attention worked out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.demo.report import page, pictures
from translucid.model import Model
from translucid.toyland import Sentence
from translucid.trace import Trace

LAYER = "decoder.layers.{layer}.cross_attention."


@dataclass(frozen=True)
class AttentionMap:
    """What the decoder looked at while it wrote, and what it should have looked at."""

    source: list[str]
    target: list[str]
    weights: list[list[float]]  # (target, source), mean over the heads of the last layer
    gold: frozenset[tuple[int, int]]  # (source, target) word pairs


def attention_map(model: Model, sentence: Sentence) -> AttentionMap:
    """Cross-attention of the last layer for the gold translation of a toyland sentence."""
    trace, source, target = _look(model, sentence)
    pattern = trace[_last(trace) + "pattern"][0].mean(dim=0)  # (queries, keys)
    weights = pattern[: len(target), : len(source)].tolist()
    return AttentionMap(source, target, weights, frozenset(sentence.alignment))


def _look(model: Model, sentence: Sentence) -> tuple[Trace, list[str], list[str]]:
    keep = [LAYER.format(layer="*") + "*", "decoder.masks.*"]
    trace = model.trace(sentence.source, sentence.target, keep=keep)
    task: Any = model.task
    source = _pieces(task.source.tokens(sentence.source), sentence.english)
    return trace, source, _pieces(task.target.tokens(sentence.target), sentence.german)


def _pieces(tokens: list[str], words: Sequence[str]) -> list[str]:
    """What the axes show: the words where tokens are words, so that a rare one is not `<unk>`."""
    return list(words) if len(tokens) == len(words) else tokens


def _last(trace: Trace) -> str:
    return trace.names("*.cross_attention.pattern")[-1].removesuffix("pattern")


def hits(attention: AttentionMap) -> float:
    """How often the most attended source word is one that the gold alignment links."""
    linked = {t for _, t in attention.gold}
    rows = [
        (t, max(range(len(row)), key=row.__getitem__)) for t, row in enumerate(attention.weights)
    ]
    counted = [(s, t) in attention.gold for t, s in rows if t in linked]
    return sum(counted) / max(len(counted), 1)


@dataclass(frozen=True)
class WorkedRow:
    """One row of one head of the last layer, with its intermediate numbers."""

    head: int  # from 0
    writes: str  # the German word
    source: list[str]  # the English words, and the end
    scores: list[float]  # scaled
    exponentials: list[float]
    total: float
    weights: list[float]


def worked_row(model: Model, sentence: Sentence) -> WorkedRow:
    """The row that shares its attention most, of all heads and words: there is something to see."""
    trace, source, target = _look(model, sentence)
    scope = _last(trace)
    sharpest = trace[scope + "pattern"][0].amax(dim=-1).tolist()  # (heads, queries)
    words = [place for place, word in enumerate(target) if word.isalpha()]
    head, place = min(
        ((head, place) for head in range(len(sharpest)) for place in words),
        key=lambda at: sharpest[at[0]][at[1]],
    )
    names = ("scaled", "exponentials", "normaliser", "pattern")
    scores, exponentials, total, weights = (
        trace[scope + name][0, head, place].tolist() for name in names
    )
    return WorkedRow(
        head, target[place], [*source, "(end)"], scores, exponentials, total[0], weights
    )


def write(
    folder: Path,
    model: Model,
    sentences: Sequence[Sentence],
    score: Mapping[str, float],
    notes: Sequence[str],
) -> Path:
    """Write the report of a translation run."""
    curves = pictures.read_curves(folder, "exact_match")
    return page.write_page(
        folder,
        "English to German, learnt on this machine",
        "A small Transformer, trained from scratch on made-up sentences of toyland.",
        [
            page.score_table(score, notes),
            page.section("How it learnt"),
            page.figure(
                pictures.draw_curves(
                    curves, loss="training loss per word", metric="exact match, validation"
                )
            ),
            page.section(
                "What it looks at",
                "Rows: the German words, as they are written. Columns: the English words. Dark: "
                "looked at. Framed: the gold alignment.",
            ),
            *(page.figure(draw_map(attention_map(model, each))) for each in sentences),
            _worked(worked_row(model, sentences[0])),
        ],
    )


def draw_map(attention: AttentionMap) -> Any:
    frames = [(target, source) for source, target in attention.gold]
    return pictures.heat_map(attention.weights, attention.target, attention.source, frames)


def _worked(row: WorkedRow) -> str:
    lines = [
        (word, f"{score:.3f}", f"{e:.3f}", f"{e:.3f} / {row.total:.3f} = {weight:.3f}")
        for word, score, e, weight in zip(
            row.source, row.scores, row.exponentials, row.weights, strict=True
        )
    ]
    return page.section(
        "One row of attention, worked out",
        f"Head {row.head + 1} of the last layer, as it writes “{row.writes}”. A score is query "
        f"times key over √d_k; the largest is taken off before the exponential, and their sum is "
        f"{row.total:.3f}.",
    ) + page.table(lines, ("English word", "score", "exp", "weight"))
