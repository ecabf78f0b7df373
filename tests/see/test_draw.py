"""How pictures are laid out: what tables side by side share, and that nothing is small or cut off.

A drawing is compared with what it is written as, by SVG and by matplotlib: colours and places.
"""

import io
import re
import sys
from pathlib import Path
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest

from translucid.core.errors import InputError
from translucid.see.picture_layout import WIDEST
from translucid.see.pictures import Axis, Bars, Grid, Heat, Lines, Picture, picture_file
from translucid.see.render.drawing import SIZE, Box, Cells, Line, TextMark, svg, text_width
from translucid.see.render.palette import THEMES

WORDS = ("a", "few", "words", "to", "be", "read", "from", "a", "row")
WORD = Axis("word", WORDS)
HEADS = Axis("head", ("1", "2"))
MAP = Heat("map", np.eye(len(WORDS)), WORD, WORD, "unit")
TABLE = Heat("table", np.ones((2, 2)), HEADS, HEADS, "unit", texts=(("0.10", "0.20"),) * 2)
LINES = Lines("L", Axis("x", tuple(map(str, range(200)))), "y",
              {"one": np.arange(200.0), "two": np.ones(200)}, note="n")  # fmt: skip
BARS = Bars("B", "x", WORDS, np.arange(len(WORDS), dtype=float), note="n")
SIGNED = Heat("S", np.array([[-2.0, 0.0, 0.5], [1.0, np.nan, 2.0]]), HEADS,
              Axis("c", ("x", "y", "z")))  # fmt: skip
PICTURES = [
    Grid("G", (MAP, MAP, TABLE), 3, note="a note"),
    Heat("H", np.ones((12, 12)), Axis("r", ("r",) * 12), Axis("c", ("c",) * 12), note="n"),
    Heat("long columns", np.ones((2, 2)), HEADS, Axis("c", ("short", "an uncommonly long label"))),
    LINES,
    Lines("A title " * 30, Axis("x", ("1", "2")), "y", {"one": np.ones(2)}),
    Lines("log", WORD, "a long name of what is measured " * 4,
          {f"line {n}": 10.0 ** -np.arange(n, n + 9) for n in range(12)}, logarithmic=True),
    Lines("turned", Axis("", ("8 heads: 128 dimensions", "b", "c")), "y", {"one": np.ones(3)}),
    BARS,
    Bars("signs", "x", ("one", "two"), np.array([-3.0, 0.25])),
    SIGNED,
]  # fmt: skip


def texts(picture: Picture, **wanted: object) -> list[str]:
    marks = [mark for mark in picture.drawing().marks if isinstance(mark, TextMark)]
    return [mark.text for mark in marks if all(getattr(mark, k) == v for k, v in wanted.items())]


def test_neighbouring_tables_share_their_token_labels() -> None:
    def rows(*heats: Heat, columns: int) -> list[str]:
        return texts(Grid("G", heats, columns), anchor="end")

    def labels(*heats: Heat, columns: int) -> list[str]:
        marks = [
            mark for mark in Grid("G", heats, columns).drawing().marks if isinstance(mark, TextMark)
        ]
        return [mark.text for mark in marks if mark.turn == 45]

    assert rows(MAP, MAP, columns=2) == list(WORDS)  # its rows are those to its left
    assert rows(MAP, MAP, columns=1) == list(WORDS) * 2
    assert rows(MAP, MAP, TABLE, TABLE, columns=2) == [*WORDS, "1", "2"]
    assert labels(MAP, MAP, columns=2) == list(WORDS) * 2
    assert labels(MAP, MAP, columns=1) == list(WORDS)  # its columns are those above


def test_a_small_table_takes_little_room_beside_a_large_one() -> None:
    large, small, _ = [
        m for m in Grid("G", (MAP, TABLE), 2).drawing().marks if isinstance(m, Cells)
    ]
    assert 2 * small.width < len(WORDS) * large.width / 2
    assert small.width >= text_width("0.10")  # but its cells have room for what is written in them


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.title[:8])
def test_text_is_readable_and_inside_the_sheet(picture: Picture) -> None:
    drawing = picture.drawing()
    assert drawing.width <= WIDEST + 1e-6
    for mark in drawing.marks:
        if isinstance(mark, TextMark) and mark.text:
            assert mark.size >= SIZE
            before = {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor] * text_width(mark.text)
            ends = (-before, text_width(mark.text) - before)
            turn = np.radians(mark.turn)
            x = [mark.x + end * np.cos(turn) for end in ends]
            y = [mark.y - end * np.sin(turn) for end in ends]
            assert min(x) >= -1, mark
            assert max(x) <= drawing.width + 1, mark
            assert min(y) >= 0, mark
            assert max(y) <= drawing.height, mark


def test_numbers_are_thinned_to_fit_but_words_are_all_written() -> None:
    halves = tuple(f"{number / 2:g}" for number in range(-30, 31))
    shown = texts(Lines("L", Axis("", halves), "y", {"y": np.ones(61)}), anchor="middle")
    assert shown == [*halves[:: len(halves) // (len(shown) - 1)]]
    assert 10 < len(shown) < 32
    some = ("1", "10", "100", "1000")
    assert texts(Lines("L", Axis("", some), "y", {"y": np.ones(4)}), anchor="middle") == list(some)
    every = Lines("L", Axis("", WORDS * 4), "y", {"y": np.ones(36)})
    assert texts(every, turn=45) == list(WORDS) * 4


def test_a_line_goes_through_its_numbers_and_breaks_where_there_is_none() -> None:
    values = np.array([0.0, 1.0, np.nan, 4.0, 2.0])
    drawing = Lines("L", Axis("", tuple("abcde")), "y", {"one": values}).drawing()
    lines = [mark for mark in drawing.marks if isinstance(mark, Line)]
    ticks = {m.text: m.y - 0.35 * SIZE for m in drawing.marks
             if isinstance(m, TextMark) and m.anchor == "end"}  # fmt: skip
    first, second = [line.points for line in lines if line.colour == "series0"]
    (low, here), (high, there) = [(float(label), at) for label, at in ticks.items()][:2]

    def value(y: float) -> float:
        return low + (high - low) * (y - here) / (there - here)

    assert [value(y) for _, y in (*first, *second)] == pytest.approx([0, 1, 4, 2])
    assert there < here  # upwards
    assert np.diff([x for x, _ in (*first, *second)]).tolist() == pytest.approx(
        np.array([1, 2, 1]) * (first[1][0] - first[0][0])
    )


def test_a_logarithmic_axis_has_its_decades_at_even_distances() -> None:
    picture = Lines("L", Axis("", ("1", "2", "3")), "y", {"one": np.array([1e-3, 0.2, 30.0])},
                    logarithmic=True)  # fmt: skip
    marks = [m for m in picture.drawing().marks if isinstance(m, TextMark) and m.anchor == "end"]
    assert [m.text for m in marks] == ["0.001", "0.01", "0.1", "1", "10"]
    assert np.diff([m.y for m in marks]) == pytest.approx(np.full(4, marks[1].y - marks[0].y))


@pytest.mark.parametrize("ratio", [1.0, 1.8, 3.5, 9.0, 40.0, 1e3])
def test_a_logarithmic_axis_has_at_least_two_ticks(ratio: float) -> None:
    for low in np.geomspace(0.01, 0.1, 50):
        picture = Lines("L", Axis("", ("1", "2")), "y", {"one": np.array([low, low * ratio])},
                        logarithmic=True)  # fmt: skip
        marks = [m for m in picture.drawing().marks
                 if isinstance(m, TextMark) and m.anchor == "end"]  # fmt: skip
        assert 2 <= len(marks) <= 10, low


def test_bars_are_as_long_as_their_numbers() -> None:
    boxes = [m for m in Bars("B", "x", ("a", "b"), np.array([-3.0, 1.5])).drawing().marks
             if isinstance(m, Box)]  # fmt: skip
    assert boxes[0].width == pytest.approx(2 * boxes[1].width)
    assert boxes[0].x + boxes[0].width == pytest.approx(boxes[1].x)  # one ends where 0 is
    assert [box.fill for box in boxes] == ["neg", "pos"]


def test_names_of_lines_are_above_the_chart() -> None:
    series = {f"line {n}": np.array([n % 2, 1 - n % 2, n % 2]) * 1.0 for n in range(8)}
    drawing = Lines("L", Axis("x", ("1", "2", "3")), "y", series).drawing()
    names = [m for m in drawing.marks if isinstance(m, TextMark) and m.text in series]
    assert [m.text for m in names] == list(series)
    highest = min(y for m in drawing.marks if isinstance(m, Line) and len(m.points) > 2
                  for _, y in m.points)  # fmt: skip
    assert max(m.y for m in names) < highest


@pytest.mark.parametrize("title", ["What a linear probe reads out of a row", "A long title " * 20])
def test_long_titles_are_wrapped_completely(title: str) -> None:
    rows = Axis("", ("a label that takes half of the room",) * 2)
    drawing = Heat(title, np.ones((2, 2)), rows, HEADS).drawing()
    marks = [mark for mark in drawing.marks if isinstance(mark, TextMark) and mark.size > SIZE]
    assert " ".join(mark.text for mark in marks).split() == title.split()
    (cells,) = [mark for mark in drawing.marks if isinstance(mark, Cells)]
    assert max(mark.y for mark in marks) < cells.y


def test_colours_go_from_the_lowest_to_the_highest_number() -> None:
    assert SIGNED.limits == (-2, 2)
    names = [[SIGNED.colour(value) for value in line] for line in SIGNED.values]
    assert names == [["s0", "s16", "s20"], ["s24", "", "s32"]]
    light = THEMES["light"]
    assert [light[name] for name in ("s0", "s16", "s32")] == ["#5e2cba", "#f0f4f2", "#964702"]
    assert [light[f"u{step}"] for step in (0, 32)] == ["#f0f4f2", "#004e42"]


def painted(text: str) -> list[list[str]]:
    """The colours of the cells of the first table in an SVG, read back from its paths."""
    table: dict[tuple[int, int], str] = {}
    group = next(g for g in fromstring(text) if g.tag.endswith("}g"))
    for path in group[0]:
        for x, y, long in re.findall(r"M(\d+) (\d+)h(\d+)", path.get("d") or ""):
            for column in range(int(x), int(x) + int(long)):
                assert (int(y), column) not in table
                table[int(y), column] = path.get("stroke") or ""
    rows, columns = (max(place[side] for place in table) + 1 for side in (0, 1))
    return [[table.get((row, column), "") for column in range(columns)] for row in range(rows)]


def test_the_file_has_the_colours_of_the_numbers() -> None:
    generator = np.random.default_rng(0)
    for scale in ("unit", "positive", "signed"):
        values = generator.normal(size=(7, 5)) if scale == "signed" else generator.random((7, 5))
        values[2, 3] = np.nan
        heat = Heat("T", values, Axis("", tuple("abcdefg")), Axis("", tuple("vwxyz")), scale)
        light = THEMES["light"] | {"": ""}
        wanted = [[light[heat.colour(value)] for value in line] for line in values]
        assert painted(heat.svg()) == wanted
        assert f'fill="{light["ink"]}"' in heat.svg()


def test_cells_without_a_number_are_hatched() -> None:
    group = next(g for g in fromstring(SIGNED.svg()) if g.tag.endswith("}g"))
    assert group[1].get("d") == "M1 1.5l1-1"  # column 1 of row 1, from below to above
    assert group[1].get("stroke") == THEMES["light"]["line"]
    whole = next(g for g in fromstring(MAP.svg()) if g.tag.endswith("}g"))
    assert len(whole) == 1


@pytest.mark.slow
def test_matplotlib_paints_the_same_cells_in_the_same_places() -> None:
    from matplotlib.image import imread

    drawing = SIGNED.drawing()
    (cells,) = [mark for mark in drawing.marks if isinstance(mark, Cells)]
    pixels = np.asarray(imread(io.BytesIO(SIGNED.png(dpi=96)), format="png"))
    assert pixels.shape[:2] == (int(drawing.height), int(drawing.width))
    for row, line in enumerate(cells.colours):
        for column, name in enumerate(line):
            x = int(cells.x + column * cells.width) + 3  # in the corner: no letters
            y = int(cells.y + row * cells.height) + 3
            found = "#" + "".join(f"{round(255 * part):02x}" for part in pixels[y, x, :3])
            assert found == (THEMES["light"][name] if name else "#ffffff")
            if not name:
                middle = pixels[round(cells.y + (row + 0.5) * cells.height) - 1 :][:3]
                middle = middle[:, round(cells.x + (column + 0.5) * cells.width)]
                assert middle.min() < 0.99  # hatched


@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_without_matplotlib_only_svg_is_written(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    assert SIGNED.save(tmp_path / "picture.svg").read_text("utf-8") == SIGNED.svg()
    for write in (SIGNED.save, picture_file):
        with pytest.raises(InputError, match=r"matplotlib.*\.svg.*\[figures\]"):
            write(tmp_path / f"picture.{ending}")
    with pytest.raises(InputError, match=r"\[figures\]"):
        SIGNED.png()


def test_on_a_page_every_colour_has_a_name_that_the_palette_knows() -> None:
    for picture in PICTURES:
        themed = svg(picture.drawing(), themed=True)
        assert not re.search(r"#[0-9a-f]{6}", themed)
        assert set(re.findall(r"var\(--([\w-]+)\)", themed)) <= set(THEMES["dark"])
        assert picture.figure() == f"<figure>{themed}</figure>"


def test_texts_are_escaped_and_unprintable_characters_are_visible() -> None:
    hostile = '<script>"&\x00\x1b'
    axis = Axis("", (hostile,))
    for picture in (
        Bars(hostile, hostile, (hostile,), np.ones(1), hostile),
        Heat(hostile, np.ones((1, 1)), axis, axis),
    ):
        text = "".join(fromstring(picture.svg()).itertext())
        assert '<script>"&␣␣' in text
        assert "<script" not in picture.figure()
