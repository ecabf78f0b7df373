"""Read saved pictures with other programs than the page that drew them: as XML, as an image in
Chromium, and with librsvg, which drawing programs and desktop viewers use.
"""

import ctypes
import ctypes.util
import io
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import Image, ImageChops, ImageStat

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
# The elements that a picture may contain: every reader of SVG 1.1 supports them.
PLAIN = {"svg", "title", "defs", "clipPath", "linearGradient", "stop", "g", "rect", "path", "line",
         "circle", "text", "tspan", "image"}  # fmt: skip
WORKERS = ["style", "class", "href"]
BLOCK = 40  # pixels
# Every visible text in the saved part of the page, in order; for input fields, their value.
SEEN = """() => {
  const found = [];
  const clipped = (el, box) => {
    for (let each = el; each; each = each.parentElement) {
      const style = getComputedStyle(each), own = each.getBoundingClientRect();
      if (style.clipPath.startsWith('inset')) return true;
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
      if (box.right <= own.left || box.left >= own.right) return true;
      if (box.bottom <= own.top || box.top >= own.bottom) return true;
    }
    return false;
  };
  const walk = node => {
    if (node.nodeType === Node.ELEMENT_NODE) {
      if (node.tagName === 'SELECT') { found.push(node.selectedOptions[0].label); return; }
      if (node.tagName === 'INPUT') { if (node.type === 'text') found.push(node.value); return; }
      const item = node.tagName === 'LI' && getComputedStyle(node).listStyleType === 'decimal';
      if (item && !clipped(node, node.getBoundingClientRect()))
        found.push(`${[...node.parentElement.children].indexOf(node) + 1}.`);
      const before = getComputedStyle(node, '::before').content;
      if (before.length > 2 && before.startsWith('"')) found.push(before.slice(1, -1));
      for (const kid of node.childNodes) walk(kid);
      return;
    }
    if (node.nodeType !== Node.TEXT_NODE || !node.data.trim()) return;
    const el = node.parentElement, range = new Range();
    if (!el.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return;
    range.selectNodeContents(node);
    const box = (el instanceof SVGElement ? el : range).getBoundingClientRect();
    if (box.width && !clipped(el, box)) found.push(node.data);
  };
  for (const id of ['stage', 'lesson', 'readout']) walk(document.getElementById(id));
  return found;
}"""


def words(texts: list[str]) -> Counter[str]:
    return Counter(word for text in texts for word in text.split())


class Picture:
    """A saved SVG file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = ElementTree.parse(path).getroot()
        self.size = int(self.root.get("width", "0")), int(self.root.get("height", "0"))

    def check_plain(self) -> None:
        """Check that it contains only plain shapes, texts and images: no scripts, no styles, no
        references to other files."""
        names = set()
        for each in self.root.iter():
            assert each.tag.startswith(SVG), each.tag
            assert each.tag.removeprefix(SVG) in PLAIN, each.tag
            for name, value in each.attrib.items():
                if name == LINK:
                    assert value.startswith("data:image/png;base64,")
                elif name == "id":
                    names.add(value)
                else:
                    assert name not in WORKERS, name
                    assert not name.startswith("on")
                    assert "var(" not in value
                    assert "color-mix" not in value
                    assert "okl" not in value
        for each in self.root.iter():
            for value in each.attrib.values():
                assert "url(" not in value or value.removeprefix("url(#").rstrip(")") in names

    def texts(self, *, caption: bool = False) -> list[str]:
        """The texts of the view, each piece separately; outlines around letters do not count.
        caption: only those of the caption."""
        below = self.root.findall(f"{SVG}text")
        if caption:
            return ["".join(each.itertext()) for each in below]
        return [
            piece
            for text in self.root.iter(f"{SVG}text")
            if text not in below and text.get("aria-hidden") is None
            for piece in text.itertext()
        ]

    def figures(self) -> list[list[str]]:
        """For each image, the numbers written on it."""
        found: list[list[str]] = []
        for group in self.root.iter():
            on: list[str] | None = None
            for each in group:
                if each.tag == f"{SVG}image":
                    found.append(on := [])
                elif each.tag == f"{SVG}text" and on is not None:
                    on.append("".join(each.itertext()))
                else:
                    on = None
        return found

    def in_chromium(self, browser: Any) -> Image.Image:
        context = browser.new_context(
            viewport=dict(zip(("width", "height"), self.size, strict=True))
        )
        try:
            page = context.new_page()
            page.goto(self.path.as_uri())
            return Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        finally:
            context.close()

    def in_librsvg(self) -> Image.Image | None:
        """The picture as drawn by librsvg; None if it is not installed."""
        names = [ctypes.util.find_library(name) for name in ("rsvg-2", "cairo")]
        if None in names:
            return None
        rsvg, cairo = (ctypes.CDLL(name) for name in names)
        pointer = ctypes.c_void_p
        for function in (rsvg.rsvg_handle_new_from_file, cairo.cairo_create,
                         cairo.cairo_image_surface_create):  # fmt: skip
            function.restype = pointer
        error, drawn = pointer(), self.path.with_suffix(".rsvg.png")
        handle = pointer(
            rsvg.rsvg_handle_new_from_file(str(self.path).encode(), ctypes.byref(error))
        )
        assert handle, "librsvg cannot read it"
        surface = pointer(cairo.cairo_image_surface_create(0, *self.size))
        room = (ctypes.c_double * 4)(0, 0, *self.size)
        pen = pointer(cairo.cairo_create(surface))
        assert rsvg.rsvg_handle_render_document(handle, pen, room, ctypes.byref(error))
        cairo.cairo_surface_write_to_png(surface, str(drawn).encode())
        return Image.open(drawn).convert("RGB")


def apart(live: Image.Image, drawn: Image.Image) -> tuple[float, float]:
    """The difference of two pictures on a scale from 0 to 255: the mean, and the largest of any
    block."""
    between = ImageChops.difference(live, drawn.crop((0, 0, *live.size))).convert("L")
    small = between.resize(
        (live.width // BLOCK, live.height // BLOCK), Image.Resampling.BOX
    )  # mean difference in each block
    return ImageStat.Stat(between).mean[0], float(small.getextrema()[1])  # type: ignore[arg-type]
