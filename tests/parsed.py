"""Facts about source files that tests check, parsed once per process.

The syntax trees are not kept: they have a million nodes, which Python's garbage collector would
visit again and again.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Facts(NamedTuple):
    names: list[tuple[int, str]]  # line and name of everything that the file defines
    strings: list[str]  # all strings, including docstrings
    texts: list[tuple[int, str]]  # lines and strings without docstrings; f-string values become {}


@cache
def facts(path: Path) -> Facts:
    names: list[tuple[int, str]] = []
    strings: list[str] = []
    texts: list[tuple[int, str]] = []
    passed_over: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):  # parents before their children
        match node:
            case ast.Constant(value=value):
                if isinstance(value, str):
                    strings.append(value)
                if id(node) not in passed_over:
                    texts.append((node.lineno, str(value)))
            case ast.JoinedStr(values=parts):
                passed_over.update(map(id, parts))
                filled = (p.value if isinstance(p, ast.Constant) else "{}" for p in parts)
                texts.append((node.lineno, "".join(map(str, filled))))
            case ast.Module() | ast.ClassDef() | ast.FunctionDef():
                if node.body and isinstance(node.body[0], ast.Expr):
                    passed_over.add(id(node.body[0].value))
        names.extend(_bound(node))
    return Facts(names, strings, texts)


def _bound(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield node.lineno, name
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield node.lineno, name
        case ast.ClassDef(name=name) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield node.lineno, name
        case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
            yield node.lineno, name
