"""Chapters as marimo notebooks: no name is defined twice, and the outputs are those of the text."""

import ast
import contextlib
import doctest
import io
import re
from collections import Counter
from typing import Any

import pytest

from translucid.practice.chapters import Chapter, _cells, chapters
from translucid.practice.marimo import OWN, _renamed, defined

QUICK = (0, 1, 3)  # chapters that take less than a second


def cells(chapter: Chapter) -> list[tuple[str, str]]:
    return [(kind, "".join(cell["source"])) for kind, cell in _cells(chapter.text)]


@pytest.mark.parametrize("chapter", chapters(), ids=lambda one: one.name)
def test_no_name_is_defined_in_two_cells(chapter: Chapter) -> None:
    code = [source for kind, source in _renamed(cells(chapter)) if kind == "code"]
    counts = Counter([*OWN, *(name for source in code for name in defined(source))])
    assert [name for name, count in counts.items() if count > 1] == []
    ast.parse(chapter.marimo())


@pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(one, marks=[] if one.number in QUICK else [pytest.mark.thorough])
        for one in chapters()
    ],
    ids=lambda one: one.name,
)
def test_renamed_cells_have_the_outputs_of_the_text(
    chapter: Chapter, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = [cell["outputs"] for kind, cell in _cells(chapter.text) if kind == "code"]
    code = [source for kind, source in _renamed(cells(chapter)) if kind == "code"]
    names: dict[str, Any] = {}
    check = doctest.OutputChecker().check_output
    for source, outputs in zip(code, wanted, strict=True):
        if source.startswith("print(run("):
            continue
        printed = _executed(source, names)
        expected = "".join("".join(o.get("text") or o["data"]["text/plain"]) for o in outputs)
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert check(expected.rstrip() + "\n", printed.rstrip() + "\n", flags), source


def _executed(source: str, names: dict[str, Any]) -> str:
    """What a cell prints, with the value of its last expression."""
    tree = ast.parse(source)
    out = io.StringIO()
    last = tree.body[-1]
    with contextlib.redirect_stdout(out):
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(repr(value))
        else:
            exec(compile(tree, "cell", "exec"), names)
    return re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)


def test_parameters_of_functions_keep_their_names() -> None:
    code = ["x = 1", "x = x + 1\ny = [x for x in (x, 3)]\nf = lambda x: x\nx", "[x, y, f(5)]"]
    names: dict[str, Any] = {}
    renamed = [source for _, source in _renamed(("code", source) for source in code)]
    assert [_executed(source, names) for source in renamed] == ["", "2\n", "[2, [2, 3], 5]\n"]
    assert names["x"] == 1
