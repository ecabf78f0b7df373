"""Pictures that can be looked at and saved: the data of `picture_data`, and how it is drawn."""

import json
from dataclasses import dataclass
from pathlib import Path

from translucid.core.errors import InputError
from translucid.see import picture_data as data
from translucid.see.draw import draw
from translucid.see.render.svg import svg

ENDINGS = (".svg", ".png", ".pdf")


class Picture(data.Picture):
    """Something to look at, to save, or to take the numbers from."""

    def svg(self) -> str:
        return self._written("svg").decode("utf-8")

    def png(self, *, dpi: int = 160) -> bytes:
        return self._written("png", dpi)

    def save(self, path: str | Path) -> Path:
        """Write it to a file that ends in .svg, .png or .pdf."""
        path = Path(path)
        if path.suffix not in ENDINGS:
            raise InputError(f"{path}: a picture ends in {', '.join(ENDINGS)}")
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; make it first")
        path.write_bytes(self._written(path.suffix[1:]))
        return path

    def json(self) -> str:
        """The numbers behind the drawing."""
        return json.dumps(data.as_json(self), ensure_ascii=False, allow_nan=False)

    def _written(self, ending: str, dpi: int = 160) -> bytes:
        drawing = draw(self)
        if ending == "svg":
            return svg(drawing).encode("utf-8")
        from translucid.see.render.matplotlib_file import written  # it takes a while to load

        return written(drawing, ending, dpi)

    def figure(self, style: str = "") -> str:
        """As a part of a page of ours, whose colours it follows."""
        return f"<figure>{svg(draw(self), themed=True, style=style)}</figure>"

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r})"


class Heat(Picture, data.Heat):
    """A table of numbers as colours."""


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Picture, data.Grid):
    """Several tables side by side, read like text."""

    heats: tuple[Heat, ...]


class Lines(Picture, data.Lines):
    """Numbers over words, steps or layers."""


class Bars(Picture, data.Bars):
    """One number for each label."""
