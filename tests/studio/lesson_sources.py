"""The sentences of the shipped lessons, read from their source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from translucid.studio.lessons import OPENING, STATIONS, TOURS

FILES = {
    key: Path(lesson.stops[0].show.__code__.co_filename)
    for key, lesson in (TOURS | STATIONS | OPENING).items()
}


@dataclass(frozen=True)
class Sentence:
    function: str
    text: str  # without the values in its braces
    conditional: bool  # in a branch of its function, or in a check


def sentences(key: str) -> Iterator[Sentence]:
    """Every text of a lesson that contains a space, without titles and docstrings."""
    for function in ast.walk(ast.parse(FILES[key].read_text("utf-8"))):
        if isinstance(function, ast.FunctionDef):
            checks = [argument.arg for argument in function.args.args] == ["run", "page"]
            texts = [keyword.value for decorator in function.decorator_list
                     for keyword in getattr(decorator, "keywords", [])]  # fmt: skip
            for node in [*texts, *function.body]:
                yield from _inside(node, function.name, checks)


def _inside(node: ast.AST, function: str, conditional: bool) -> Iterator[Sentence]:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="lacks"):
            return
        case ast.Constant(value=str(text)):
            parts = [text]
        case ast.JoinedStr(values=values):
            parts = [str(part.value) for part in values if isinstance(part, ast.Constant)]
        case _:
            inner = conditional or isinstance(node, ast.If | ast.IfExp)
            for child in ast.iter_child_nodes(node):
                yield from _inside(child, function, inner)
            return
    if " " in "".join(parts).strip():
        yield Sentence(function, "".join(parts), conditional)
