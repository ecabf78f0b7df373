"""The figures of the lab's page as a room sees them: letters of a size to be read from the last
row, none upon another, none cut off."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.studio.browser import Page, running  # noqa: F401  (a fixture)
from tests.studio.browser import own_page as page  # noqa: F401  (a fixture)
from tests.tiny.dealt import chosen

from translucid_lab.claims import experiments
from translucid_lab.engine.evidence import rows
from translucid_lab.engine.report import page as lab_page
from translucid_lab.engine.report_front import frame
from translucid_lab.engine.results import shipped

SIZES = {(1920, 1080): 18.0, (1280, 800): 13.0}  # of a screen: pixels that the least letter has
# Each figure: its size, and every text in it with the size of its letters and its four corners,
# in pixels of the screen; the corners are those of letters without descenders.
MEASURE = """() => [...document.querySelectorAll('figure svg')].map(svg => {
  const box = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].filter(each => each.textContent.trim());
  return {
    id: svg.closest('section').id, width: box.width, height: box.height,
    texts: texts.map(each => {
      const screen = each.getScreenCTM(), own = each.getBBox(), thin = own.height * 0.18;
      const sides = [own.x, own.x + own.width];
      const [top, bottom] = [own.y + thin, own.y + own.height - thin];
      const corners = [[sides[0], top], [sides[1], top], [sides[1], bottom], [sides[0], bottom]];
      const scale = Math.sqrt(Math.abs(screen.a * screen.d - screen.b * screen.c));
      return {
        says: each.textContent, letters: parseFloat(getComputedStyle(each).fontSize) * scale,
        corners: corners.map(([x, y]) => {
          const at = new DOMPoint(x, y).matrixTransform(screen);
          return [at.x - box.x, at.y - box.y];
        }),
      };
    }),
  };
})"""


@pytest.fixture(scope="module")
def drawn() -> str:
    """Anew, from the numbers that were measured: a drawing that was kept proves nothing."""
    return lab_page(rows(experiments(), shipped()))


@pytest.mark.slow
@pytest.mark.parametrize(("screen", "least"), chosen(SIZES.items(), *[*SIZES.items()][1:]))
def test_every_letter_of_every_figure_can_be_read(
    page: Page,  # noqa: F811
    drawn: str,
    screen: tuple[int, int],
    least: float,
) -> None:
    page.inner.set_viewport_size({"width": screen[0], "height": screen[1]})
    page.inner.set_content(drawn)
    figures = page.inner.evaluate(MEASURE)
    assert len(figures) == drawn.count("<figure") > 90
    wrong = [f"{each['id']}: {told}" for each in figures for told in _faults(each, screen, least)]
    assert wrong == []


@pytest.mark.slow
def test_the_theme_that_was_chosen_is_kept(page: Page, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "report.html"
    file.write_text(frame("The lab", "", {"supported": 1}), "utf-8")
    page.inner.emulate_media(color_scheme="dark")
    page.inner.goto(file.as_uri())
    scheme = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.inner.evaluate(scheme)
    switch = page.inner.locator("[data-theme-switch]")
    switch.click()
    light = page.inner.evaluate(scheme)
    assert light != dark  # the system's, then the chosen one
    page.inner.reload()
    assert page.inner.evaluate(scheme) == light
    switch.click()
    page.inner.emulate_media(color_scheme="light")
    page.inner.reload()
    assert page.inner.evaluate(scheme) == light  # who chose what the system has goes with it


def _faults(figure: Any, screen: tuple[int, int], least: float) -> Iterator[str]:
    if figure["width"] > screen[0] or figure["height"] > screen[1]:
        yield "larger than the screen"
    texts = figure["texts"]
    assert texts
    for text in texts:
        if text["letters"] < least:
            yield f"‘{text['says']}’ has letters of {text['letters']:.1f} pixels"
        corners = np.array(text["corners"])
        if (corners < -1).any() or (corners > [figure["width"] + 1, figure["height"] + 1]).any():
            yield f"‘{text['says']}’ is cut off"
    for one, two in combinations(texts, 2):
        if _meet(np.array(one["corners"]), np.array(two["corners"])):
            yield f"‘{one['says']}’ lies on ‘{two['says']}’"


def _meet(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether two rectangles that may lean share a point: no side of either keeps them apart."""
    if (one.max(0) < two.min(0)).any() or (two.max(0) < one.min(0)).any():
        return False
    for side in (one[1] - one[0], one[2] - one[1], two[1] - two[0], two[2] - two[1]):
        along = side / np.linalg.norm(side)
        left, right = one @ along, two @ along
        if left.max() < right.min() + 0.5 or right.max() < left.min() + 0.5:  # half a pixel
            return False
    return True


def test_rectangles_meet_where_they_share_a_point() -> None:
    square = np.array([[0.0, 0], [10, 0], [10, 10], [0, 10]])
    turned = np.array([[0.0, -1], [1, 0], [0, 1], [-1, 0]])
    assert _meet(square, square + 5)
    assert not _meet(square, square + np.array([11, 0]))
    assert not _meet(square, square + np.array([0, -11]))
    assert _meet(square, 3 * turned + 11)  # a corner of it lies within
    assert not _meet(square, 3 * turned + 12.5)  # though the boxes around both do meet
    assert _meet(square, turned + 5)  # one within the other
