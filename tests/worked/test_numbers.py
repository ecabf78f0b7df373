"""How numbers may be given, and what is said of those that cannot be used."""

from pathlib import Path

import numpy
import pytest
import torch

from translucid.core.errors import InputError
from translucid.worked.solution.numbers import (
    Numbers,
    matrix,
    read_file,
    scalar,
    vector,
    whole,
    wholes,
)

SQUARE = torch.tensor([[1.0, -0.5], [0.0, 2.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    "given",
    [
        "1 -0.5; 0 2",
        "1,-0.5;0,2;",
        "1, −1/2; 0, 2e0",
        "1 -.5\n0 2",
        "[[1, -0.5], [0, 2]]",
        [[1, -0.5], [0, 2]],
        ((1, -0.5), (0, 2)),
        SQUARE,
        SQUARE.float(),
        SQUARE.numpy(),
        numpy.array([[1, -0.5], [0, 2]], dtype=numpy.float32),
    ],
)
def test_every_way_of_giving_a_matrix_is_the_same(given: Numbers) -> None:
    assert torch.equal(matrix(given, "x"), SQUARE)


def test_a_row_a_column_and_one_number() -> None:
    assert vector("1 2 3", "x").tolist() == vector("1; 2; 3", "x").tolist() == [1, 2, 3]
    assert vector([1, 2], "x").tolist() == [1, 2]
    assert scalar("0.5", "x").item() == scalar(0.5, "x").item() == 0.5
    assert scalar(torch.tensor(0.5), "x").shape == ()
    assert wholes("0 5", "p") == [0, 5]
    assert whole(" 3 ", "n") == whole(3, "n") == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1 0; 0", "x: row 2 has 1 number, but row 1 has 2; every row"),
        ([[1], [2, 3]], "x: row 2 has 2 numbers, but row 1 has 1"),
        ("1 x 2", "x: 'x' is not a number.* spaces or commas, rows .*;"),
        ("1 0; 0 y", "x, row 2: 'y' is not a number"),
        ("1/0", "x: '1/0' is not a number"),
        ([10**400], "x, number 1: .* is not a number"),
        ("1 nan", "x: nan is not a finite number"),
        ("1 -inf; 2 3", "x, row 1: -inf is not a finite number"),
        ([1.0, float("nan")], "x, number 2: nan is not a finite number"),
        ([[1, 2], [3, float("inf")]], "x, row 2, number 2: inf is not a finite number"),
        (torch.tensor([[1.0, float("nan")]]), "x, row 1, number 2: nan"),
        ("", 'x is empty.* "1 0; 0 1"'),
        (" ; ", "x is empty"),
        ("1;;2", "x: row 2 is empty; remove one"),
        ([], "x is empty"),
        ("1,5 2,5", "x: '1,5 2,5' .* 1.5 2.5,? or 1 5 2 5$"),
        ("-1,5, 2,5", "x: '-1,5, 2,5' .* -1.5 2.5,? or -1 5 2 5$"),
        ("−1,5 2", "x: '-1,5 2' .* -1.5 2,? or -1 5 2$"),
        ("1 2; 0,5 3,25", "x, row 2: '0,5 3,25' .* 0.5 3.25,? or 0 5 3 25$"),
        ([[]], "x is empty"),
        ([1, [2]], "x: row 1 is 1, not a row of numbers"),
        ([True], "x, number 1: True is not a number"),
        ([None], "x, number 1: None is not a number"),
        ([[[1.0]]], r"x, row 1, number 1: \[1.0\] is not a number"),
    ],
)
def test_numbers_that_cannot_be_used(given: Numbers, message: str) -> None:
    with pytest.raises(InputError, match="^" + message):
        matrix(given, "x")


@pytest.mark.parametrize(
    "text", ["1,5,2,5", "1, 5, 2, 5", "1 ,5 , 2 ,5", "1, 5,2, 5", "1 5 2 5,", "[1,5,2,5]"]
)
def test_a_list_with_commas_is_a_list(text: str) -> None:
    assert matrix(text, "x").tolist() == [[1, 5, 2, 5]]
    assert matrix("1,5;2,5", "x").tolist() == [[1, 5], [2, 5]]
    assert matrix("1,5,3 2,5,3", "x").tolist() == [[1, 5, 3, 2, 5, 3]]


def test_one_number_with_a_decimal_comma() -> None:
    with pytest.raises(InputError, match=r"^rate = 0,1.*0\.1"):
        scalar("0,1", "rate")
    with pytest.raises(InputError, match=r"^rate is 1 x 2.*one number"):
        scalar("0 1", "rate")


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(InputError, match=r"^b is 2 x 2.*one row"):
        vector(SQUARE, "b")
    with pytest.raises(InputError, match=r"^c is 2 x 2.*one number"):
        scalar(SQUARE, "c")
    for given in ("2.5", "two", "", True, 1.5):
        with pytest.raises(InputError, match=r"^heads = .*whole number"):
            whole(given, "heads")
    with pytest.raises(InputError, match=r"^heads = 0.*at least 1"):
        whole(0, "heads")
    with pytest.raises(InputError, match=r"^p: 1.5.*whole number of at least 0"):
        wholes("0 1.5", "p")


def test_a_file_is_read_by_its_ending(tmp_path: Path) -> None:
    kinds = {"x": "numbers", "causal": "flag", "shape": "word"}
    toml, json = tmp_path / "a.toml", tmp_path / "a.json"
    toml.write_text('x = [[1, 0]]\ncausal = true\nshape = "decoder"', "utf-8")
    json.write_text('{"x": [[1, 0]], "causal": true, "shape": "decoder"}', "utf-8")
    wanted = {"x": [[1, 0]], "causal": True, "shape": "decoder"}
    assert read_file(toml, kinds) == read_file(json, kinds) == wanted


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "x = 1\ny = = 2", "a.toml.* TOML.* line 2"),
        ("a.json", '{"x": 1,\n "y": }', "a.json, line 2.* JSON"),
        ("a.json", "[1, 2]", "must contain keys and values"),
        ("a.toml", "casual = true", "no such key 'casual'; did you mean causal?"),
        ("a.toml", "zzz = 1", "no such key 'zzz'; the keys are x, causal, shape"),
        ("a.toml", 'causal = "yes"', "causal = 'yes': must be true or false"),
        ("a.toml", "shape = 3", "shape = 3: must be a word in quotes"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        read_file(path, {"x": "numbers", "causal": "flag", "shape": "word"})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml does not exist"):
        read_file(tmp_path / "none.toml", {})
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_file(tmp_path / "b.toml", {})
    with pytest.raises(InputError, match="cannot be read"):
        read_file(tmp_path, {})
