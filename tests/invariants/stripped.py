"""A copy of the package without tracing: every `trace("name", value)` is replaced by `value`."""

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import translucid

TWIN = "translucid_stripped"
SOURCE = Path(translucid.__file__).parent


class Strip(ast.NodeTransformer):
    """Remove the trace calls, and let the copy import itself."""

    def __init__(self) -> None:
        self.dropped = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in ("trace", "scope"):
            return node
        name, value = node.args
        assert isinstance(name, ast.Constant), ast.unparse(node)
        self.dropped += 1
        return value

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        module = (node.module or "").split(".")
        if module[0] == "translucid":
            node.module = ".".join([TWIN, *module[1:]])
        return node


def make_twin(folder: Path) -> tuple[ModuleType, int]:
    """Write the copy; return its package `models`, and the number of removed trace calls."""
    strip = Strip()
    rooms = ("*.py", "core/*.py", "parts/*.py", "models/*.py")
    for path in (path for room in rooms for path in SOURCE.glob(room)):
        twin = folder / TWIN / path.relative_to(SOURCE)
        twin.parent.mkdir(parents=True, exist_ok=True)
        twin.write_text(ast.unparse(strip.visit(ast.parse(path.read_text("utf-8")))), "utf-8")
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"{TWIN}.models"), strip.dropped
    finally:
        sys.path.remove(str(folder))
