"""HTML summaries of a trace and of a model for notebooks, without the values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from translucid.core.catalogue import describe
from translucid.models.base import Network
from translucid.models.summary import rows as parts_of
from translucid.parts.computation import formulas
from translucid.see.render.frame import escape, folded, piece, table
from translucid.see.render.mathml import mathml
from translucid.see.text_trace import TextTrace

WORDS = 48  # number of tokens to show
PICTURE = 24  # tokens along each side of the picture; labels make up most of the HTML
HEADS = 4  # with more heads than this, show their mean: drawing labels takes most of the time
PICTURED = ("*.cross_attention.pattern", "*.alignment.pattern", "*.pattern", "*_gate")
LENGTH = 128  # text length in tokens for which FLOPs are counted
_NUMBER = re.compile(r"\.\d+(?=\.)")  # a layer's number
_PART = re.compile(r"\w+(?:\.\*)*")


def reading_html(reading: TextTrace) -> str:
    """Summarize a trace: its tokens, one picture, and its points grouped by part."""
    right = formulas(reading.network, reading.met)
    points = _points({name: reading[name] for name in reading}, right)
    size = sum(point.bytes for point in points)
    return piece(
        f"<p><b>Reading</b> of {len(reading):,} points, {_bytes(size)}</p>",
        *_words(reading),
        *_picture(reading),
        *_tree(points),
    )


def model_html(title: str, network: Network, rows: Sequence[tuple[str, str]] = ()) -> str:
    """Summarize a model: the facts in `rows`, and its parameters by part."""
    parts = parts_of(network, LENGTH)
    total, flops = network.parameters_count, sum(part.copies * part.flops for part in parts)
    reads = f"token of {LENGTH}" if getattr(network.config, "vocab", None) else "example"
    facts = [*rows, ("parameters", f"{total:,}"), (f"FLOPs per {reads}", f"{flops:,}")]
    most = max(part.parameters for part in parts)
    lines = [
        (
            f"<code>{escape(part.part)}</code>",
            escape(part.shape),
            f"{part.copies:,}",
            f"{part.parameters:,}",
            f"{part.parameters / total:.1%}",
            f'<span class="bar" style="width: {6 * part.parameters / most:.2f}em"></span>',
        )
        for part in parts
        if part.parameters
    ]
    header = ("part", "shape", "copies", "parameters", "fraction", "")
    return piece(
        f"<p><b>{escape(title)}</b></p>",
        table((), [(escape(name), escape(value)) for name, value in facts]),
        folded("parameters by part", table(header, lines, numbers=(2, 3, 4))),
    )


# ---- words and picture ----


def _words(reading: TextTrace) -> list[str]:
    words = reading.words
    sides = {"read": words.source, "written": words.target, "given": words.features}
    if not words.source:
        sides = {"read": words.target, "given": words.features}
    return [f"<p>{side}: {_chips(shown)}</p>" for side, shown in sides.items() if shown]


def _chips(words: Sequence[str]) -> str:
    shown = "".join(f'<span class="word">{escape(word)}</span>' for word in words[:WORDS])
    more = len(words) - WORDS
    return shown + (f' <span class="pale">and {more:,} more</span>' if more > 0 else "")


def _picture(reading: TextTrace) -> list[str]:
    """Draw the attention pattern or a gate of the first layer in the trace."""
    for wanted in PICTURED:
        names = [name for name in reading.names(wanted) if reading[name].dim() > 2]
        if names:
            length = max(len(reading.words.source), len(reading.words.target), 1)
            many = "heads" in describe(names[0]).axes and reading[names[0]].shape[1] > HEADS
            drawn = reading.figure(
                names[0], head="mean" if many else None, tokens=(0, min(PICTURE, length))
            )
            return [folded(f"<code>{escape(names[0])}</code>", drawn.figure(), opened=True)]
    return []


# ---- points by part ----


@dataclass
class _Point:
    """A trace point of one part, or of the same part in several layers."""

    scope: tuple[str, ...]  # such as decoder, layers.*, self_attention
    name: str  # the last word of the full name
    full: str  # the name in the first layer
    formula: str  # as this model computes it
    shapes: list[str] = field(default_factory=list)
    bytes: int = 0
    numbers: list[list[int]] = field(default_factory=list)  # numbers of its layers


def _points(values: Mapping[str, Tensor], right: Mapping[str, str]) -> list[_Point]:
    """List the points of a trace; the same point of several layers becomes one entry. right: the
    formula of each point."""
    points: dict[str, _Point] = {}
    for name, value in values.items():
        key = _NUMBER.sub(".*", name)
        *scope, own = _PART.findall(key)
        point = points.setdefault(key, _Point(tuple(scope), own, name, right[name]))
        shape = " × ".join(map(str, value.shape)) or "one number"
        if shape not in point.shapes:
            point.shapes.append(shape)
        point.bytes += value.numel() * value.element_size()
        point.numbers.append([int(number[1:]) for number in _NUMBER.findall(name)])
    return list(points.values())


def _tree(points: Sequence[_Point], depth: int = 0) -> list[str]:
    """HTML of a part: a table of its points, then its sub-parts, collapsed."""
    own = [point for point in points if len(point.scope) == depth]
    out = [_table(own)] if own else []
    inner: dict[str, list[_Point]] = {}
    for point in points:
        if len(point.scope) > depth:
            inner.setdefault(point.scope[depth], []).append(point)
    for word, group in inner.items():
        label = word.replace(".*", f" {_counted(group, depth)}") if "*" in word else word
        inside = "".join(_tree(group, depth + 1))
        size = _bytes(sum(point.bytes for point in group))
        counted = f'<span class="pale">{_count(group)}, {size}</span>'
        out.append(folded(f"{escape(label)} {counted}", inside))
    return out


def _counted(points: Sequence[_Point], depth: int) -> str:
    """The layer numbers as text: "0", "0 to 5" or "0, 2, 5"."""
    place = sum("*" in word for word in points[0].scope[:depth])
    numbers = sorted({numbers[place] for point in points for numbers in point.numbers})
    if len(numbers) > 2 and numbers == [*range(numbers[0], numbers[-1] + 1)]:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _count(points: Sequence[_Point]) -> str:
    count = sum(len(point.numbers) for point in points)
    return f"{count:,} point{'' if count == 1 else 's'}"


def _table(points: Sequence[_Point]) -> str:
    rows = [
        (
            _code(point),
            _formula(point),
            escape(describe(point.full).meaning),
            escape(", ".join(describe(point.full).axes)),
            " or ".join(point.shapes),
            _bytes(point.bytes),
        )
        for point in points
    ]
    return table(("point", "formula", "meaning", "axes", "shape", "size"), rows, numbers=(4, 5))


def _code(point: _Point) -> str:
    """The name of a point, with its search pattern for the trace as a tooltip."""
    pattern = ".".join((*point.scope, point.name))
    return f'<code title="{escape(pattern)}">{escape(point.name)}</code>'


def _formula(point: _Point) -> str:
    symbol, right = describe(point.full).symbol, point.formula
    return mathml(f"{symbol} = {right}" if right else symbol)


def _bytes(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    return f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
