"""Columns of a table as features: kinds, notations, missing values, what is refused."""

import json
import math
import statistics
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pytest

from translucid.core.errors import ConfigError, InputError
from translucid.data.column_kinds import Choices, learn
from translucid.data.features import Columns


def learned(cells: Sequence[object], name: str = "a", **choices: Any) -> Columns:
    """A table of this column, and a second one so that a column is left."""
    rows = [(cell, number % 2 + 0.5) for number, cell in enumerate(cells)]
    places = [f"t.csv:{line}" for line in range(2, len(rows) + 2)]
    return learn((name, "other"), rows, places, Choices(**choices))


def kind_of(cells: Sequence[object], name: str = "a", **choices: Any) -> str:
    return str(learned(cells, name, **choices).columns[0].kind)


MANY = range(30)
KINDS: dict[str, tuple[Sequence[object], str]] = {
    "numbers": ([1.5 * n for n in MANY], "number"),
    "numbers as text": ([f"{n}.5" for n in MANY], "number"),
    "missing numbers": (["", "n/a", *map(str, range(100, 130, 2))], "number"),
    "repeated whole numbers": ([str(n % 7) for n in MANY], "number"),
    "long codes": ([str(10**17 + n) for n in (1, 5, 9)] * 10, "category"),
    "postcodes": (["01067", "53111", "20095"] * 10, "category"),
    "words": (["Bonn", "Ulm", "Kiel"] * 10, "category"),
    "yes and no": (["Yes", "no"] * 15, "yes/no"),
    "booleans": ([True, False] * 15, "yes/no"),
    "days": ([f"2024-01-{n + 1:02}" for n in MANY], "date"),
    "German days": ([f"{n + 1:02}.01.2024" for n in MANY], "date"),
    "Python dates": ([date(2024, 1, n + 1) for n in MANY], "date"),
    "row numbers": ([str(n) for n in MANY], "ignore"),
    "keys": ([f"user-{n}" for n in MANY], "ignore"),
    "constant": (["x"] * 30, "ignore"),
    "constant or missing": (["7", ""] * 15, "ignore"),
    "nothing": ([None] * 30, "ignore"),
}


@pytest.mark.parametrize("case", KINDS)
def test_kinds_of_columns_are_found(case: str) -> None:
    cells, kind = KINDS[case]
    assert kind_of(cells) == kind


def test_a_column_named_as_an_identifier_is_ignored() -> None:
    numbers = [str(n * n + 1000) for n in MANY]
    assert kind_of(numbers, "amount") == "number"
    assert kind_of(numbers, "customer_id") == "ignore"
    assert kind_of(numbers, "customer_id", kinds={"customer_id": "number"}) == "number"
    assert kind_of(numbers, "customer_id", named=True) == "number"  # in data.input_columns


def test_years_and_the_only_column_are_not_row_numbers() -> None:
    years = [str(1990 + n) for n in MANY]
    assert kind_of(years, "year") == "number"
    counted = [str(n) for n in MANY]
    assert [kind_of(counted, name) for name in ("day", "Weeks", "lag_hours")] == ["number"] * 3
    assert [kind_of(counted, name) for name in ("place", "cut", "")] == ["ignore"] * 3
    places = [f"t.csv:{line}" for line in MANY]
    (column,) = learn(("x",), [(str(n),) for n in MANY], places, Choices()).columns
    assert column.kind == "number"


def test_the_scale_of_columns_of_numbers_gives_their_features() -> None:
    """`Columns.scale` is used where a graph or a plane needs the raw numbers."""
    columns = learned(["1", "2", "4"])
    assert columns.scale is not None
    row = [3.0, 0.5]
    scaled = [(x - mean) / side for x, (mean, side) in zip(row, columns.scale, strict=True)]
    assert columns.encode(row, "here") == scaled
    assert learned(["1", "", "4"]).scale is None
    assert learned(["x", "y", "x"]).scale is None
    again = Columns.numbers(columns.ids, *map(list, zip(*columns.scale, strict=True)))
    assert again.encode(["3", "0.5"], "here") == scaled
    assert again.remarks(["1e6", "0.5"]) == [], "its range is not known"
    assert Columns.numbers(("a", "b")).encode(["3", 0.5], "here") == [3.0, 0.5]


WRITTEN = {
    "3,5|12,25|7": (3.5, 12.25, 7.0),
    "1.234,5|2.000|3,25": (1234.5, 2000.0, 3.25),
    "1,234.5|2,000|3.25": (1234.5, 2000.0, 3.25),
    "1.234|2.000|3.5": (1.234, 2.0, 3.5),
    "12 %|7.5%|-3 %": (12.0, 7.5, -3.0),
    "€ 5|€ 1,200.50|€ 7": (5.0, 1200.5, 7.0),
    "5 €|1.200,50 €|7 €": (5.0, 1200.5, 7.0),
    "1 234,5|2 000|3,25": (1234.5, 2000.0, 3.25),
    "1e3|2.5|-4": (1000.0, 2.5, -4.0),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_numbers_are_read_in_the_notation_of_their_column(written: str) -> None:
    cells, values = written.split("|"), WRITTEN[written]
    columns = learned(cells)
    mean, deviation = statistics.fmean(values), statistics.pstdev(values)
    for cell, value in zip(cells, values, strict=True):
        assert columns.encode([cell, 0.5], "here")[0] == pytest.approx((value - mean) / deviation)
        # A number from Python or JSON has no notation.
        assert columns.encode([value, 0.5], "here")[0] == pytest.approx((value - mean) / deviation)
    assert columns.names[0] == "a"


def test_dates_become_days_and_cycles() -> None:
    cells = ["2024-03-31", "2024-01-01", "2023-07-02"]
    columns = learned(cells)
    ordinals = [date.fromisoformat(cell).toordinal() for cell in cells]
    day, *waves = columns.encode([datetime(2024, 1, 1), 0.5], "here")[:5]
    spread = statistics.pstdev(ordinals)
    assert day == pytest.approx((ordinals[1] - statistics.fmean(ordinals)) / spread)
    assert waves == pytest.approx([0, 1, 0, 1])  # the first month; a Monday
    april = columns.encode(["2024-04-07", 0.5], "here")[1:5]
    month, weekday = 3 / 12 * 2 * math.pi, 6 / 7 * 2 * math.pi
    assert april == pytest.approx(
        [math.sin(month), math.cos(month), math.sin(weekday), math.cos(weekday)]
    )


def test_missing_values_are_the_mean_and_have_their_own_feature() -> None:
    columns = learned(["1", "", "3", "5"])
    assert columns.names == ("a", "a is missing", "other")
    assert columns.encode(["", 0.5], "here")[:2] == [0.0, 1.0]
    assert columns.encode(["3", 0.5], "here")[:2] == [0.0, 0.0]
    plain = learned(["1", "", "3", "5"], standardise=False)
    assert plain.encode(["", 0.5], "here")[:2] == [3.0, 1.0]
    words = learned(["x", None, "y", "x"])
    assert words.names[:3] == ("a=x", "a=y", "a is missing")
    assert words.encode([None, 0.5], "here")[:3] == [0.0, 0.0, 1.0]


def test_rare_and_unknown_categories_share_a_feature_and_are_remarked() -> None:
    columns = learned(["x"] * 12 + ["y"] * 12 + ["rare"])
    assert columns.names[:3] == ("a=x", "a=y", "a=(other)")
    for word in ("rare", "new"):
        assert columns.encode([word, 0.5], "here")[:3] == [0.0, 0.0, 1.0]
    assert columns.remarks(["x", 0.5]) == []
    assert "'new'" in columns.remarks(["new", 0.5])[0]
    without = learned(["x", "y"] * 12)
    assert without.encode(["new", 0.5], "here")[:2] == [0.0, 0.0]


def test_values_outside_the_training_range_are_remarked() -> None:
    columns = learned([str(n / 3) for n in range(1, 30)])
    assert columns.remarks(["3", 0.5]) == []
    (above,), (missing,) = columns.remarks(["99", 0.5]), columns.remarks(["", 0.5])
    assert "99" in above
    assert "above" in above
    assert "missing" in missing


REFUSED: dict[str, tuple[Sequence[object], dict[str, Any], str]] = {
    "a word among numbers": ([*map(str, range(20, 40)), "abc"], {}, r"t\.csv:22: a is 'abc'"),
    "a comma of either kind": (["1,234", "5,678"], {}, r"t\.csv: a has '1,234'.*data\.decimal"),
    "points and commas": (["1.5", "2,5"], {}, "decimal points and decimal commas"),
    "different units": (["5 €", "5 $"], {}, "different units"),
    "with and without a unit": (["12 %", "0.5"], {}, "different units"),
    "day or month first": (["03/04/2024", "05/06/2024"], {}, "date-dmy or date-mdy"),
    "a word among dates": ([f"2024-01-{n:02}" for n in range(1, 30)] + ["x"], {}, "31: a is 'x'"),
    "a list": ([[1], "x"], {}, r"t\.csv:2: a contains a list"),
    "a column that is not there": (["x", "y"], {"kinds": {"b": "number"}}, "no input column 'b'"),
    "another decimal mark": (["1.5", "2.5"], {"decimal": ","}, "no number with data.decimal"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(case: str) -> None:
    cells, choices, message = REFUSED[case]
    with pytest.raises((InputError, ConfigError), match=message):
        learned(cells, **choices)


def test_settings_decide_what_the_cells_leave_open() -> None:
    columns = learned(["1,234", "5,678"], decimal=",")
    assert columns.columns[0].most == pytest.approx(5.678)
    assert learned(["1,234", "5,678"], decimal=".").columns[0].most == 5678
    day_first = learned(["03/04/2024", "05/06/2024"], kinds={"a": "date-dmy"})
    month_first = learned(["03/04/2024", "05/06/2024"], kinds={"a": "date-mdy"})
    assert day_first.columns[0].least != month_first.columns[0].least


def test_a_word_where_a_number_was_learned_is_an_error_with_its_place() -> None:
    columns = learned([str(n) for n in range(0, 60, 2)], kinds={"a": "number"})
    with pytest.raises(InputError, match=r"new\.csv:7: a is 'abc', but a number is needed"):
        columns.encode(["abc", 0.5], "new.csv:7")
    with pytest.raises(InputError, match="too different"):
        columns.encode(["1e300", 0.5], "new.csv:7")
    with pytest.raises(InputError, match=r"3 cells, but this model reads 2: a, other"):
        columns.encode(["1", "2", "3"], "new.csv:7")


def test_columns_survive_json_and_damage_is_refused_by_name() -> None:
    columns = learned(["x", "y", None, "x"])
    stored = json.loads(json.dumps(columns.as_json()))
    again = Columns.read(stored)
    assert again.names == columns.names
    row = ["y", 1.25]
    assert again.encode(row, "here") == columns.encode(row, "here")
    for damage in ({"kind": "nothing"}, {"missing": -1}, {"categories": [], "kind": "category"}):
        with pytest.raises(InputError, match=r"statistics\.columns is damaged"):
            Columns.read([stored[0] | damage, stored[1]])
    with pytest.raises(InputError, match="deviation"):
        Columns.read([stored[0], stored[1] | {"deviation": 0.0}])
    with pytest.raises(InputError, match="damaged"):
        Columns.read("columns")


def test_a_row_as_text_is_read_as_the_row() -> None:
    columns = learned(["1,5", "2,5", "7", ""])
    for row in (["2,5", 0.5], ["", 1.5], [7, 0.5]):
        line = columns.line(row, columns.ids)
        assert columns.remarks(columns.parse(columns.example(), "here")) == []
        assert columns.encode(columns.parse(line, "here"), "here") == columns.encode(row, "here")
