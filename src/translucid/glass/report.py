"""The report of a translation run: one HTML file with curves, attention maps, one row worked out.

Everything drawn is read from the run's journal and from traces of the trained model.
"""

import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.data.toyland import Sentence
from translucid.trace import Trace
from translucid.training.model import Model

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
    folder: Path, model: Model, sentences: Sequence[Sentence], score: dict[str, float], notes: str
) -> Path:
    """Write report.html into a run folder."""
    maps = [attention_map(model, sentence) for sentence in sentences]
    parts = [
        _score_table(score, notes),
        f"<h2>How it learnt</h2>{_figure(_curves(folder))}",
        "<h2>What it looks at</h2><p>Rows: the German words, as they are written. Columns: the "
        "English words. Dark: looked at. Framed: the gold alignment.</p>",
        *(_figure(_heat_map(each)) for each in maps),
        _worked(worked_row(model, sentences[0])),
    ]
    path = folder / "report.html"
    path.write_text(_PAGE.format(body="\n".join(parts)), "utf-8")
    return path


def _score_table(score: dict[str, float], notes: str) -> str:
    rows = "".join(f"<tr><td>{html.escape(k)}</td><td>{v:.4g}</td></tr>" for k, v in score.items())
    return (
        f"<h2>On unseen sentences</h2><table>{rows}</table><p class=note>{html.escape(notes)}</p>"
    )


def _worked(row: WorkedRow) -> str:
    lines = "".join(
        f"<tr><td>{html.escape(word)}</td><td>{score:.3f}</td><td>{e:.3f}</td>"
        f"<td>{e:.3f} / {row.total:.3f} = {weight:.3f}</td></tr>"
        for word, score, e, weight in zip(
            row.source, row.scores, row.exponentials, row.weights, strict=True
        )
    )
    return (
        f"<h2>One row of attention, worked out</h2><p>Head {row.head + 1} of the last layer, as it "
        f"writes “{html.escape(row.writes)}”. A score is query times key over √d_k; the largest is "
        f"taken off before the exponential, and their sum is {row.total:.3f}.</p><table><tr>"
        f"<th>English word</th><th>score</th><th>exp</th><th>weight</th></tr>{lines}</table>"
    )


def _curves(folder: Path) -> Any:
    from matplotlib.figure import Figure

    lines = [
        json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    ]
    steps = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    valid = [(line["step"], line["valid"]["exact_match"]) for line in lines if "valid" in line]
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    loss, match = figure.subplots(1, 2)
    loss.plot(*zip(*steps, strict=True), color="#0072b2")
    loss.set(xlabel="step", ylabel="training loss per word", yscale="log")
    match.plot(*zip(*valid, strict=True), color="#d55e00", marker="o")
    match.set(xlabel="step", ylabel="exact match, validation", ylim=(0, 1.02))
    return figure


def _heat_map(attention: AttentionMap) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    width, height = len(attention.source), len(attention.target)
    figure = Figure(figsize=(1.6 + 0.42 * width, 1.3 + 0.32 * height), layout="constrained")
    axes = figure.subplots()
    axes.imshow(attention.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(width), attention.source, rotation=45, ha="left")
    axes.xaxis.tick_top()
    axes.set_yticks(range(height), attention.target)
    for source, target in attention.gold:
        frame = (source - 0.5, target - 0.5)
        axes.add_patch(Rectangle(frame, 1, 1, fill=False, edgecolor="#d55e00", linewidth=1.6))
    return figure


def _figure(figure: Any) -> str:
    """As SVG inside the page, so that the file stands alone."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Translucid demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  color: #1d2430; background: #fff; }}
h1, h2 {{ font-weight: 600; }} h2 {{ margin-top: 2.2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
td, th {{ padding: .2rem 1rem .2rem 0; text-align: left; border-bottom: 1px solid #e3e7ee; }}
figure {{ margin: 1rem 0; overflow-x: auto; }} svg {{ max-width: 100%; height: auto; }}
.note {{ color: #5a6473; font-size: .85rem; overflow-wrap: anywhere; }}
</style></head><body>
<h1>English to German, learnt on this machine</h1>
<p>A small Transformer, trained from scratch on made-up sentences of toyland. Nothing on this page
was fetched from elsewhere, and every number was read off the model.</p>
{body}
</body></html>
"""
