"""A walk: a run explained stage by stage, as data and as text for the terminal.

The text, the HTML page and the JSON are all generated from the stages.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any, Literal

from translucid.core.catalogue import describe
from translucid.see.render.drawing import printable
from translucid.see.render.plain_math import columns, pad
from translucid.tasks.outputs import Cell, OutputRow

# What the rows of a stage contain: token ids; input or output numbers; the first values of a vector
# and its length; attention weights; gates; one number for each token; probabilities, best first.
Kind = Literal["tokens", "values", "vectors", "links", "gates", "sizes", "choices"]


NOTHING = "(empty: it ends at once)"  # an answer without words

# Unicode categories of punctuation, and of symbols such as + and $.
SIGNS = ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk")

# What to call the entries along an axis.
AXES = {"length": "tokens", "queries": "tokens", "keys": "tokens", "heads": "heads",
        "vocab": "scores", "outputs": "scores"}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """One point of the trace, listed in the detailed view of a layer."""

    address: str
    shape: tuple[int, ...]
    meaning: str


@dataclass(frozen=True)
class Stage:
    """One step of the walk."""

    kind: Kind
    chapter: str
    title: str
    sentence: str  # explains the part to a newcomer
    address: str = ""  # the name in the trace; empty for the input
    shape: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    meaning: str = ""  # from the catalogue
    rows: tuple[OutputRow, ...] = ()
    worked: tuple[str, ...] = ()  # the sums with their numbers, in small networks
    happened: str = ""  # the most notable numbers, in words
    added: tuple[Cell, ...] = ()  # length of what is added to each token, relative to its vector
    layer: int | None = None
    heads: int = 0  # number of attention heads
    points: tuple[Seen, ...] = ()  # all points of the part, if one layer was chosen
    came: bool = False  # the marked answer is the next token of the text, not the model's choice


@dataclass(frozen=True)
class Walk:
    """All stages of a run, from the text to the answer."""

    task: str
    text: str
    answer: str  # the model's answer; for translation, the target that it read
    introduction: str
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()  # what was omitted
    warning: str = ""  # why the answer may be unreliable

    def as_text(self, width: int = 96, *, colour: bool = False) -> str:
        """The walk as text for a terminal of `width` columns."""
        return "\n".join(line.rstrip() for line in _Printer(width, colour).lines(self)) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The walk as plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return self.as_text()


def quoted(label: str) -> str:
    """Put a punctuation token, which is easily overlooked, in quotes."""
    signs = all(unicodedata.category(letter) in SIGNS for letter in label)
    return repr(label) if signs else label


def shortened(text: str, words: int = 15, characters: int = 120) -> str:
    """The first words of a long text."""
    first = " ".join(text.split()[:words])[:characters].rstrip()
    return text.strip() if first == " ".join(text.split()) else f"{first} …"


def sized(shape: Sequence[int], axes: Sequence[str]) -> str:
    """A shape in words: (1, 4, 7, 7) -> 4 heads × 7 tokens × 7 tokens"""
    named = [(size, axis) for size, axis in zip(shape, axes, strict=True) if axis != "batch"]
    counted = [(size, AXES.get(axis, "values")) for size, axis in named]
    return " × ".join(f"{size:,} {what if size != 1 else what[:-1]}" for size, what in counted)


BOLD, GREEN, DIM, PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[2m", "\x1b[0m"
ROWS, VECTORS = 24, 8  # maximum tokens to show in a stage: in general, and for vectors
LABEL = 20  # maximum characters of a token
BAR = 24  # blocks of the longest bar
BLOCKS = " ▏▎▍▌▋▊▉█"
STEPS = "▁▂▃▄▅▆▇█"
GAP = "   "
LEAST = 0.001  # smaller probabilities are not shown


class _Printer:
    def __init__(self, width: int, colour: bool) -> None:
        self.width, self.colour = width, colour
        self.explained: set[str] = set()  # sentences that are not repeated

    def lines(self, walk: Walk) -> Iterator[str]:
        answer = walk.answer or NOTHING
        yield from self._wrapped(f"“{walk.text.strip()}” → {answer}", "", BOLD)
        yield from self._wrapped(walk.warning and f"! {walk.warning}", "", BOLD)
        yield from self._wrapped(walk.introduction, "")
        for note in walk.notes:
            yield from self._wrapped(f"({note})", "")
        for legend in _legends(walk.stages):
            yield from self._wrapped(legend, "", DIM)
        chapter = ""
        for number, stage in enumerate(walk.stages, start=1):
            if stage.chapter != chapter:
                chapter = stage.chapter
                yield self._styled(f"── {chapter} ".ljust(self.width, "─"), GREEN)
            yield from self._stage(number, stage)

    def _stage(self, number: int, stage: Stage) -> Iterator[str]:
        yield from self._title(number, stage)
        again = stage.sentence in self.explained
        remarks = [_added(stage), stage.happened]
        if not stage.rows and not stage.added:  # as one paragraph
            yield from self._wrapped(" ".join([self._explanation(stage), *remarks]).strip(), GAP)
        else:
            yield from self._wrapped(self._explanation(stage), GAP)
            yield from self._rows(stage, again=again)
            for line in stage.worked:
                yield from self._wrapped(line, GAP)
            yield from self._wrapped("; ".join(filter(None, remarks)), GAP)
        yield from self._points(stage)

    def _explanation(self, stage: Stage) -> str:
        """The sentence and the meaning of a stage, unless they were printed before."""
        text = "" if stage.sentence in self.explained else stage.sentence
        if stage.meaning and stage.meaning not in self.explained:
            text += f" ({stage.meaning})"
        self.explained |= {stage.sentence, stage.meaning}
        return text.strip()

    def _points(self, stage: Stage) -> Iterator[str]:
        """List all points of a part, by their names relative to the layer."""
        if not stage.points:
            return
        layer = re.sub(r"(layers\.\d+\.).*", r"\1", stage.points[0].address)
        yield self._styled(f"{GAP}all points, under {layer}", DIM)
        names = [point.address.removeprefix(layer) for point in stage.points]
        shapes = [_shape(point) for point in stage.points]
        wide, deep = max(map(len, names)) + 2, max(map(len, shapes)) + 2
        before = len(GAP) + wide + deep
        indent = before if self.width - before >= 24 else 2 * len(GAP)  # else on separate lines
        for name, shape, point in zip(names, shapes, stage.points, strict=True):
            meaning = wrap(point.meaning, self.width - indent)
            line = f"{GAP}{name:<{wide}}{shape:<{deep}}"
            if indent == before and meaning:
                line += meaning.pop(0)
            for part in (line, *(" " * indent + more for more in meaning)):
                yield self._styled(_cut(part, self.width), DIM)

    def _title(self, number: int, stage: Stage) -> Iterator[str]:
        """The title, with the name of its trace point next to it or below."""
        left = f"{number:>2} {stage.title}"
        full = f"{stage.address}  {sized(stage.shape, stage.axes)}" if stage.address else ""
        room = self.width - len(left) - 2
        for where in (full, stage.address):
            if len(where) <= room:
                yield self._styled(left, BOLD) + self._styled(where.rjust(room + 2), DIM)
                return
        yield self._styled(left, BOLD)
        yield self._styled(_cut(f"{GAP}{stage.address}", self.width), DIM)

    def _rows(self, stage: Stage, *, again: bool) -> Iterator[str]:
        rows = stage.rows
        if again and stage.kind == "vectors":  # only the first stage shows their values
            lengths = [row.cells[-1].value for row in rows]
            several = f"vectors from {min(lengths):.2f} to {max(lengths):.2f} long"
            yield GAP + (several if len(rows) > 1 else f"a vector, {lengths[0]:.2f} long")
            return
        shown = rows[: VECTORS if stage.kind == "vectors" else ROWS]
        if stage.points and stage.kind == "links":  # ROWS would cut off later heads
            shown = rows
        match stage.kind:
            case "tokens":
                yield from self._flowing([_token(row) for row in shown])
            case "values":
                yield from self._flowing([_value(row) for row in shown])
            case "sizes":
                yield from self._flowing([_size(row) for row in shown])
            case "vectors":
                yield from self._packed(_vectors(shown))
            case "gates":
                yield from self._gates(shown)
            case "links":
                yield from self._links(shown)
            case "choices":
                yield from self._choices(shown, came=stage.came)
        if len(rows) > len(shown):
            yield from self._wrapped(
                f"… and {len(rows) - len(shown)} more; --json has them all", GAP
            )

    def _links(self, rows: Sequence[OutputRow]) -> Iterator[str]:
        for head in dict.fromkeys(row.head for row in rows):
            texts = [_link(row) for row in rows if row.head == head]
            yield from self._packed(texts, first="" if head is None else f"head {head}  ")

    def _gates(self, rows: Sequence[OutputRow]) -> Iterator[str]:
        """A line for each gate, with as many tokens side by side as fit."""
        wide = max(8, *(columns(_short(row.label)) + 2 for row in rows))
        across = max(1, (self.width - len(GAP) - 8) // wide)
        for start in range(0, len(rows), across):
            part = rows[start : start + across]
            yield GAP + " " * 8 + "".join(pad(_short(row.label), wide) for row in part)
            for place, gate in enumerate(part[0].cells):
                values = [row.cells[place].value for row in part]
                shown = "".join(pad(f"{_step(v)} {_number(v)}", wide) for v in values)
                yield f"{GAP}{gate.label:<8}{shown}"

    def _choices(self, rows: Sequence[OutputRow], *, came: bool) -> Iterator[str]:
        """Yield the most probable answers: for a single step, one line with a bar for each answer;
        for several steps, one line for each step."""
        if len(rows) == 1:
            wide = max(columns(_short(cell.label)) for cell in rows[0].cells)
            for cell in rows[0].cells:
                bar = self._styled(_bar(cell.value, BAR), GREEN)
                mark = ("  (came next)" if came else "  (chosen)") if cell.chosen else ""
                label = pad(_short(cell.label), wide)
                yield f"{GAP}{label} {bar} {_percent(cell.value):>6}{mark}{_wanted(cell)}"
            return
        taken = [next(cell for cell in row.cells if cell.chosen) for row in rows]
        before = max(columns(_short(row.label)) for row in rows)
        after = max(columns(_short(cell.label)) for cell in taken)
        for row, cell in zip(rows, taken, strict=True):
            step = f"{pad(_short(row.label), before)} → {pad(_short(cell.label), after)}"
            bar = _bar(cell.value, BAR // 2)
            sure = f"{_percent(cell.value):>6}{_wanted(cell)}"
            room = self.width - columns(f"{GAP}{step} {bar} {sure}{GAP}")
            others = self._styled(_cut(_others(row), room), DIM)
            yield f"{GAP}{step} {self._styled(bar, GREEN)} {sure}{GAP}{others}"

    def _packed(self, texts: Sequence[str], first: str = "") -> Iterator[str]:
        """Arrange texts in columns of equal width; `first` precedes the first line."""
        if not texts:
            return
        wide = max(map(columns, texts)) + 2
        across = max(1, (self.width - len(GAP) - len(first)) // wide)
        for start in range(0, len(texts), across):
            line = "".join(pad(text, wide) for text in texts[start : start + across])
            yield GAP + (first if start == 0 else " " * len(first)) + line

    def _flowing(self, texts: Sequence[str]) -> Iterator[str]:
        """Arrange texts in sequence; lines are broken only between texts."""
        line = ""
        for text in texts:
            if line and len(GAP) + columns(line) + 2 + columns(text) > self.width:
                yield GAP + line
                line = ""
            line += f"  {text}" if line else text
        if line:
            yield GAP + line

    def _wrapped(self, text: str, indent: str, style: str = "") -> Iterator[str]:
        for line in wrap(printable(text), self.width, initial_indent=indent,
                         subsequent_indent=indent):  # fmt: skip
            yield self._styled(line, style)

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}{PLAIN}" if self.colour and style and text else text


def _legends(stages: Sequence[Stage]) -> Iterator[str]:
    """Explanations of the notation in these stages."""
    linked = [stage for stage in stages if stage.kind == "links"]
    if linked:
        row = _clearest(linked[0])
        taken, head = row.cells[0], "" if row.head is None else f" in head {row.head}"
        heads = linked[0].heads
        over = f", on average over its {heads} heads" if heads > 1 and row.head is None else head
        link = f"{_short(row.label)} ← {_short(taken.label)} {_number(taken.value)}"
        yield (f"{link}  “{row.label}” attends {taken.value:.0%} to “{taken.label}”{over}.")
    if any(stage.added for stage in stages):
        yield (
            "adds ▂▅█  length of the vector that a part adds to each token; 0.50× is half the "
            "length of the token's own vector."
        )


def _clearest(stage: Stage) -> OutputRow:
    """The row that illustrates the notation best: the strongest link to a different token."""
    rows = [row for row in stage.rows if row.cells and row.cells[0].label != row.label]
    return max(rows or stage.rows, key=lambda row: row.cells[0].value)


def _shape(point: Seen) -> str:
    """The shape without the batch axis, which has size 1."""
    batch = int(describe(point.address).axes[:1] == ("batch",))
    return " × ".join(map(str, point.shape[batch:])) or "1"


def _token(row: OutputRow) -> str:
    remark = f" ({row.remark})" if row.remark else ""
    return f"{_short(row.label)} {row.cells[0].value:.0f}{remark}"


def _value(row: OutputRow) -> str:
    """Format the value of a row, such as x1 = 0.5."""
    first, *others = row.cells
    more = "".join(f" ({cell.label} {cell.value:.6g})" for cell in others)
    mark = "→" if "=" in row.label else "="  # age = 41 → 0.73
    return f"{row.label} {mark} {first.value:.6g}{more}"


def _size(row: OutputRow) -> str:
    return f"{_short(row.label)} {_number(row.cells[0].value)}"


def _vectors(rows: Sequence[OutputRow]) -> list[str]:
    """Format vectors with aligned numbers."""
    wide = max(columns(_short(row.label)) for row in rows)
    texts = []
    for row in rows:
        *first, length = row.cells
        numbers = " ".join(f"{_number(cell.value):>5}" for cell in first)
        texts.append(f"{pad(_short(row.label), wide)} {numbers} …  length {length.value:.2f}")
    return texts


def _added(stage: Stage) -> str:
    """Show what a stage adds: a block for each token, then the largest and the smallest."""
    cells = stage.added
    if not cells:
        return ""
    full = max(1.0, *(cell.value for cell in cells))
    blocks = "".join(_step(cell.value / full) for cell in cells[: 2 * ROWS])
    more = "…" if len(cells) > 2 * ROWS else ""
    most, least = max(cells, key=lambda c: c.value), min(cells, key=lambda c: c.value)
    ends = f"to {_short(most.label)} {_number(most.value)}×"
    if least is not most:
        ends = f"most {ends}, least to {_short(least.label)} {_number(least.value)}×"
    apart = stage.heads > 1 and stage.rows[0].head is not None
    return f"{'all heads together add' if apart else 'adds'} {blocks}{more} {ends}"


def _link(row: OutputRow) -> str:
    shown = [cell for place, cell in enumerate(row.cells) if place == 0 or cell.value >= 0.005]
    links = ", ".join(f"{_short(cell.label)} {_number(cell.value)}" for cell in shown)
    return f"{_short(row.label)} ← {links or 'nothing'}"


def _others(row: OutputRow) -> str:
    """List the other likely answers."""
    others = [c for c in row.cells if not c.chosen and (c.value >= LEAST or c.wanted)]
    listed = ", ".join(f"{_short(c.label)} {_percent(c.value)}{_wanted(c)}" for c in others)
    return f"{listed or 'all others below 0.1%'}{f' ({row.remark})' if row.remark else ''}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _wanted(cell: Cell) -> str:
    return " (wanted)" if cell.wanted else ""


def _bar(fraction: float, blocks: int) -> str:
    """Draw a fraction as a bar, to the nearest eighth of a block."""
    eighths = round(max(0.0, min(fraction, 1.0)) * blocks * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (BLOCKS[part] if part else "")).ljust(blocks)


def _step(fraction: float) -> str:
    """Draw a fraction as a single block; 1 or more is a full block."""
    return STEPS[min(7, max(0, int(fraction * 8)))]


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.3g}"


def _short(label: str) -> str:
    return _cut(quoted(printable(label)), LABEL)


def _cut(text: str, wide: int) -> str:
    if columns(text) <= wide:
        return text
    while text and columns(text) >= wide:
        text = text[:-1]
    return f"{text}…" if wide > 0 else ""
