"""A chapter as a marimo notebook: a Python file whose cells run again when what they read changes.

In marimo, only one cell may define a name. A name that a later cell defines again is therefore
numbered: `x` becomes `x_2` in that cell and in those after it.
"""

import ast
import symtable
from collections.abc import Iterable, Iterator
from typing import Any

_HEAD = '''\
import marimo

app = marimo.App()


@app.cell
def _():
    import shlex
    import subprocess
    import sys

    import marimo as mo

    def run(command):
        """The output of a command; `translucid` is the one of this Python."""
        words = shlex.split(command)
        if words[0] == "translucid":
            words[:1] = [sys.executable, "-m", "translucid"]
        return subprocess.run(words, capture_output=True, text=True).stdout

    return mo, run
'''
OWN = ("mo", "run", "shlex", "subprocess", "sys")  # names that the first cell defines
_END = '\n\nif __name__ == "__main__":\n    app.run()\n'


def marimo(cells: Iterable[tuple[str, str]]) -> str:
    """The text of a notebook. cells: type (markdown or code) and source of each."""
    return _HEAD + "".join(map(_function, _renamed(cells))) + _END


def _function(cell: tuple[str, str]) -> str:
    kind, source = cell
    if kind == "markdown":
        text = source.replace("\\", "\\\\").replace('"""', r"\"\"\"")
        return f'\n\n@app.cell\ndef _(mo):\n    mo.md("""{text}""")\n    return\n'
    body = "".join(f"    {line}\n" if line else "\n" for line in source.split("\n"))
    return f"\n\n@app.cell\ndef _():\n{body}    return\n"


def _renamed(cells: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The cells with numbers after names that are defined again."""
    current: dict[str, str] = {}  # the name in marimo
    counts = dict.fromkeys(OWN, 1)
    for kind, source in cells:
        if kind == "markdown":
            yield kind, source
            continue
        if source.startswith("!"):
            yield kind, f"print(run({source[1:]!r}))"
            continue
        before = dict(current)
        for name in defined(source):
            counts[name] = counts.get(name, 0) + 1
            current[name] = name if counts[name] == 1 else f"{name}_{counts[name]}"
        tree = ast.parse(source)
        again = [name for name in defined(source) if counts[name] > 1]
        read = [name for name in again if name in before and _read_first(tree, name)]
        new = {name: own for name, own in current.items() if name != own}
        if not new.keys() & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
            yield kind, source
            continue
        copies = "".join(f"{current[name]} = {before[name]}\n" for name in read)
        yield kind, copies + ast.unparse(_Rename(new).visit(tree))


def defined(source: str) -> list[str]:
    """The names that a cell defines for others; those that begin with _ are its own."""
    symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    return [
        one.get_name()
        for one in symbols
        if (one.is_assigned() or one.is_imported()) and not one.get_name().startswith("_")
    ]


def _read_first(tree: ast.Module, name: str) -> bool:
    """Whether the cell may read a name before it assigns it."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return False
        uses = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == name]
        if isinstance(statement, ast.AugAssign) and uses:
            return True
        if any(isinstance(use.ctx, ast.Load) for use in uses):
            return True
        if uses:
            return False
    return False


class _Rename(ast.NodeTransformer):
    """Renames the names of a cell."""

    def __init__(self, new: dict[str, str]) -> None:
        self.new = new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.new.get(node.id, node.id)
        return node

    def _visit_function(self, node: Any) -> Any:
        """Rename in a function, but not what its parameters hide."""
        if isinstance(node, ast.FunctionDef):
            node.name = self.new.get(node.name, node.name)
        hidden = {argument.arg for argument in _arguments(node.args)}
        before, self.new = self.new, {k: v for k, v in self.new.items() if k not in hidden}
        self.generic_visit(node)
        self.new = before
        return node

    visit_FunctionDef = visit_Lambda = _visit_function


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
