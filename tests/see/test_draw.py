"""How pictures are laid out: what tables side by side share, and what stands beside lines."""

from typing import Any

import numpy as np
import pytest

from translucid.see.draw import LEAST, WIDEST, draw
from translucid.see.picture_data import Axis
from translucid.see.pictures import Bars, Grid, Heat, Lines, Picture

WORDS = ("a", "few", "words", "to", "be", "read", "from", "a", "row")
WORD = Axis("word", WORDS)
HEADS = Axis("head", ("1", "2"))
MAP = Heat("map", np.eye(len(WORDS)), WORD, WORD, "unit")
TABLE = Heat("table", np.ones((2, 2)), HEADS, HEADS, "unit", texts=(("0.10", "0.20"),) * 2)


def labels(axes: Any) -> tuple[list[str], list[str]]:
    """Of the rows and of the columns."""
    return ([each.get_text() for each in axes.get_yticklabels()],
            [each.get_text() for each in axes.get_xticklabels()])  # fmt: skip


def words(picture: Picture) -> list[Any]:
    """Everything that is written in a picture."""
    from matplotlib.text import Text

    drawn = draw(picture)
    drawn.draw_without_rendering()
    return [each for each in drawn.findobj(Text) if each.get_text().strip() and each.get_visible()]


def test_a_table_with_the_words_of_its_neighbour_has_them_once():
    one, two, three, four = draw(Grid("G", (MAP, MAP, TABLE, TABLE), 2)).axes[:4]
    assert labels(one) == (list(WORDS), list(WORDS))
    assert labels(two) == ([], list(WORDS))  # its rows are those to its left
    assert labels(three) == (["1", "2"], ["1", "2"])
    assert labels(four) == ([], ["1", "2"])
    below = draw(Grid("G", (MAP, MAP), 1)).axes[:2]
    assert [labels(each) for each in below] == [(list(WORDS), list(WORDS)), (list(WORDS), [])]


def test_a_small_table_takes_little_room_beside_a_large_one():
    drawn = draw(Grid("G", (MAP, TABLE), 2))
    drawn.draw_without_rendering()
    large, small = (axes.get_position().width * drawn.get_figwidth() for axes in drawn.axes[:2])
    assert small < large / 2
    assert small / 2 > large / len(WORDS)  # but its cells have room for what is written in them


@pytest.mark.parametrize(
    "picture",
    [
        Grid("G", (MAP, MAP, TABLE), 3, note="a note"),
        Heat("H", np.ones((12, 12)), Axis("r", ("r",) * 12), Axis("c", ("c",) * 12), note="n"),
        Lines("L", Axis("x", tuple(map(str, range(200)))), "y",
              {"one": np.arange(200.0), "two": np.ones(200)}, note="n"),
        Lines("A title " * 30, Axis("x", ("1", "2")), "y", {"one": np.ones(2)}),
        Bars("B", "x", WORDS, np.arange(len(WORDS), dtype=float), note="n"),
    ],
)  # fmt: skip
def test_letters_are_never_small_beside_the_width(picture: Picture):
    assert draw(picture).get_figwidth() <= WIDEST
    assert min(each.get_fontsize() for each in words(picture)) >= LEAST


def test_of_many_numbers_as_many_are_written_as_fit_and_of_words_all():
    halves = tuple(f"{number / 2:g}" for number in range(-30, 31))
    shown = labels(draw(Lines("L", Axis("x", halves), "y", {"y": np.ones(61)})).axes[0])[1]
    assert shown == [*halves[:: len(halves) // (len(shown) - 1)]]
    assert 10 < len(shown) < 32
    some = Axis("x", tuple(map(str, (1, 10, 100, 1000))))
    assert labels(draw(Lines("L", some, "y", {"y": np.ones(4)})).axes[0])[1] == list(some.labels)
    every = Axis("x", WORDS * 4)
    assert labels(draw(Lines("L", every, "y", {"y": np.ones(36)})).axes[0])[1] == list(WORDS) * 4


def test_names_of_lines_stand_beside_them_where_no_place_is_free():
    def legend(series: dict[str, np.ndarray]) -> tuple[Any, Any]:
        drawn = draw(Lines("L", Axis("x", ("1", "2", "3")), "y", series))
        drawn.draw_without_rendering()
        (axes,) = drawn.axes
        return axes.get_legend().get_window_extent(), axes.get_window_extent()

    names, lines = legend({"low": np.zeros(3), "high": np.array([0, 0.1, 1])})
    assert lines.x0 <= names.x0 < names.x1 <= lines.x1
    zigzag = {f"line {n}": np.array([n % 2, 1 - n % 2, n % 2]) * 1.0 for n in range(8)}
    names, lines = legend(zigzag | {f"flat {n}": np.full(3, n / 8) for n in range(8)})
    assert names.x0 >= lines.x1


@pytest.mark.parametrize("said", ["What a linear probe reads out of a row", "A long title " * 20])
def test_all_of_a_title_is_seen_on_as_many_lines_as_it_takes(said: str):
    rows = Axis("", ("a label that takes half of the room",) * 2)
    drawn = draw(Heat(said, np.ones((2, 2)), rows, HEADS))
    drawn.draw_without_rendering()
    assert drawn.get_suptitle().split() == said.split()
    box = drawn._suptitle.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= drawn.bbox.x1
    assert box.y0 > drawn.axes[0].get_window_extent().y1
