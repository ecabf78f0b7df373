"""Every worked example has its test."""

import ast
import re
from pathlib import Path


def test_every_worked_example_is_recomputed():
    here = Path(__file__).parent
    names = [
        node.name
        for path in here.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and re.match(r"test_w\d", node.name)
    ]
    covered = {name.split("_")[1] for name in names}
    assert covered == {f"w{i:02}" for i in range(1, 43)}
