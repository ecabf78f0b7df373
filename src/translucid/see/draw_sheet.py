"""What all drawings share: their sizes, the title above, the note below, readable labels."""

from collections.abc import Sequence

from translucid.see.render.drawing import SIZE, Drawing, text_width

EDGE = 8.0  # around a drawing
TITLE = 14.5  # letters of a title
AXIS = 18.0  # room for the name of an axis
WIDEST = 883.0  # on a page as wide as a projector, letters of SIZE can be read from the last row
TURNED = 0.71  # of 45 degrees: how far a turned label reaches to each side


def sheet(title: str, width: float) -> tuple[Drawing, float]:
    """An empty sheet with its title, and where the next thing goes. A title makes it wider, up to
    a point; from there it takes another line."""
    width = max(width, min(text_width(title, TITLE), WIDEST - 2 * EDGE)) + 2 * EDGE
    drawing = Drawing(title, width)
    below = drawing.paragraph(EDGE, EDGE / 2, title, width - 2 * EDGE, TITLE)
    return drawing, below + EDGE / 2


def finish(drawing: Drawing, y: float, note: str) -> Drawing:
    """What was left out stands below, on as many lines as it takes."""
    width = drawing.width - 2 * EDGE
    drawing.height = drawing.paragraph(EDGE, y, note, width, SIZE, "ink3") + EDGE
    return drawing


def readable(labels: Sequence[str]) -> list[str]:
    """A full stop alone is hardly seen: it gets quotation marks."""
    return [f"‘{label}’" if len(label) == 1 and not label.isalnum() else label for label in labels]


def widest(labels: Sequence[str], size: float = SIZE) -> float:
    return max((text_width(label, size) for label in labels), default=0.0)
