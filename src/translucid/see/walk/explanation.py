"""A walk through a model for people who program: to print, to show in a notebook, to keep."""

from dataclasses import dataclass
from typing import Any

from translucid.see.reading import Reading
from translucid.see.render.frame import piece
from translucid.see.walk.data import Walk, as_json
from translucid.see.walk.figures import figures
from translucid.see.walk.page import as_page, body
from translucid.see.walk.text import as_text
from translucid.see.walk.walk import walk


@dataclass(frozen=True, repr=False)
class Explanation:
    """What `translucid explain` shows: `print` it, or end a notebook's cell with it."""

    reading: Reading
    walk: Walk

    def __str__(self) -> str:
        return as_text(self.walk)

    __repr__ = __str__  # at the prompt, too

    def html(self) -> str:
        """A page that stands alone, with pictures."""
        return as_page(self.walk, figures(self.reading, self.walk))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return as_json(self.walk)

    def _repr_html_(self) -> str:
        return piece(body(self.walk, figures(self.reading, self.walk)))


def explanation(reading: Reading, layer: int | None, head: int | None, top: int) -> Explanation:
    return Explanation(reading, walk(reading, layer=layer, head=head, top=top))
