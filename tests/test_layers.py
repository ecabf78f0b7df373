"""Imports point down the list of layers, and no files import each other in a circle.

Every import counts, also one inside a function, under TYPE_CHECKING or by `import_module`: it shows
what a file knows about.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "translucid"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE

# A file imports its own folder and the lines above its own; those on one line never each other.
LAYERS = [
    {"core"},
    {"parts"},
    {"models", "data"},
    {"fast"},
    {"generate"},
    {"tasks"},
    {"see"},
    {"training", "interop"},
    {"runs.recipe"},
    {"runs.fine_tuning"},
    {"runs.checks"},
    {"runs"},
    {"worked"},
    {"practice"},
    {"studio"},
    {"model"},
    {"serving"},
    {"cli"},
]
RANK = {name: rank for rank, line in enumerate(LAYERS) for name in line}
EXEMPT = {"__init__", "__main__", "_version"}  # the front door looks everywhere; anyone may ask it


def read_sources() -> dict[str, str]:
    """The text of every source file by its module name; a folder's __init__ keeps that ending."""
    texts = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        texts[".".join(parts)] = path.read_text("utf-8")
    return texts


def problems(sources: dict[str, str]) -> list[str]:
    """What is wrong with the imports of these files, one sentence each."""
    found: list[str] = []
    edges: dict[str, set[str]] = {name: set() for name in sources}
    for name in sorted(sources):
        own = room(name)
        if own not in RANK and own not in EXEMPT:
            found.append(f"{name}: the layer list does not know {own!r}")
            continue
        for target in imports(name, sources):
            edges[name].add(target)
            other = room(target)
            if own in EXEMPT or other in (own, "_version"):
                continue
            if other == "__init__":
                found.append(f"{name} imports the public surface; import the module itself")
            elif other not in RANK:
                found.append(f"{name} imports {target}: the layer list does not know {other!r}")
            elif RANK[other] == RANK[own]:
                found.append(f"{name} imports {target}: {own} and {other} stand on one line")
            elif RANK[other] > RANK[own]:
                found.append(f"{name} imports {target}: {other} stands below {own}")
    return found + [f"import circle: {' -> '.join(circle)}" for circle in circles(edges)]


def room(name: str) -> str:
    """`translucid.parts.norms` -> `parts`; `translucid.runs.recipe.toml` -> `runs.recipe`"""
    _, first, *deeper = name.split(".")
    inner = ".".join([first, *deeper[:1]])
    return inner if inner in RANK else first


def imports(name: str, sources: dict[str, str]) -> Iterator[str]:
    """The package's files that this file imports, anywhere in it."""
    for node in ast.walk(ast.parse(sources[name])):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(names=names):
                modules = list(from_imports(name, node, sources))
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called),
                          args=[ast.Constant(value=str(module)), *_]):  # fmt: skip
                modules = [module] if called in ("import_module", "__import__") else []
            case _:
                continue
        for module in modules:
            if module.split(".")[0] == PACKAGE:
                yield file_of(module, sources)


def from_imports(name: str, node: ast.ImportFrom, sources: dict[str, str]) -> Iterator[str]:
    base = node.module or ""
    if node.level:  # `from ..parts import x`, counted from this file's folder
        folder = name.split(".")[: -node.level]
        base = ".".join([*folder, base]) if base else ".".join(folder)
    for alias in node.names:  # `from package import module`, or a name in a module
        module = f"{base}.{alias.name}"
        yield module if module in sources or f"{module}.__init__" in sources else base


def file_of(module: str, sources: dict[str, str]) -> str:
    is_folder = module == PACKAGE or f"{module}.__init__" in sources
    return f"{module}.__init__" if is_folder else module


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Each circle that a walk along the imports runs into, from its first name back to it."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in done:
            for target in sorted(edges.get(name, ())):
                visit(target, [*path, name])
            done.add(name)

    for name in sorted(edges):
        visit(name, [])
    return found


def test_the_source_keeps_to_the_layers() -> None:
    sources = read_sources()
    assert f"{PACKAGE}.core.errors" in sources  # the right folder was read
    assert problems(sources) == []


GOOD = {
    "__init__": "from translucid.models import build",
    "__main__": "from translucid.cli import main",
    "_version": "",
    "core.errors": "import json",
    "core.catalogue": "from translucid.core.errors import TraceError",
    "core.trace": "import translucid.core.catalogue, translucid.core.errors",
    "parts.__init__": "",
    "parts.cache": "from translucid.core.trace import NO_TRACE",
    "parts.attention": "from translucid.parts.cache import KVCache\nfrom . import cache",
    "models.__init__": "from translucid.models.base import Model\nfrom .base import Model",
    "models.base": "from ..parts import attention\nfrom translucid._version import __version__",
    "data.readers": "",
    "runs.session": "from translucid.runs.recipe.toml import read",
    "runs.recipe.toml": "",
    "cli.__init__": "def main():\n    from translucid.models import build",
}
BAD = {
    "upwards": ("parts.cache", "import translucid.models.base", "models stands below parts"),
    "from the package": ("parts.cache", "from translucid.models import base", "models stands"),
    "a folder by name": ("parts.cache", "from translucid import models", "models stands below"),
    "relative": ("parts.cache", "from ..models import base", "models stands below parts"),
    "relative to a folder": ("parts.__init__", "from ..models import base", "models stands below"),
    "in a function": ("core.errors", "def f():\n    import translucid.parts", "parts stands below"),
    "in a method": (
        "core.errors",
        "class A:\n  def f(self):\n    try:\n      import translucid.parts\n    finally: pass",
        "parts stands below core",
    ),
    "for types only": (
        "core.errors",
        "import typing\nif typing.TYPE_CHECKING:\n    from translucid.parts import cache",
        "parts stands below core",
    ),
    "a room within a room": (
        "runs.recipe.toml",
        "import translucid.runs.session",
        "runs stands below runs.recipe",
    ),
    "a sibling": ("data.readers", "import translucid.models", "data and models stand on one line"),
    "the public surface": ("data.readers", "import translucid", "imports the public surface"),
    "a public name": ("data.readers", "from translucid import build", "imports the public surface"),
    "an unknown target": ("data.readers", "import translucid.utils", "does not know 'utils'"),
    "an unknown file": ("utils", "", "does not know 'utils'"),
    "a circle of two": (
        "parts.cache",
        "import translucid.parts.attention",
        "translucid.parts.attention -> translucid.parts.cache -> translucid.parts.attention",
    ),
    "a circle with a folder": (
        "models.base",
        "from translucid.models import Model",
        "translucid.models.__init__ -> translucid.models.base -> translucid.models.__init__",
    ),
    "a late circle": (
        "parts.cache",
        "def f():\n    from translucid.parts.attention import attend",
        "import circle",
    ),
    "a circle for types only": (
        "parts.cache",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import attention",
        "import circle",
    ),
    "a circle by name": (
        "parts.cache",
        "import importlib\ndef f():\n    importlib.import_module('translucid.parts.attention')",
        "import circle",
    ),
    "upwards by name": (
        "parts.cache",
        "from importlib import import_module\nimport_module('translucid.models')",
        "models stands below parts",
    ),
    "a circle in a class": (
        "parts.cache",
        "class A:\n    import translucid.parts.attention",
        "import circle",
    ),
}


def named(files: dict[str, str]) -> dict[str, str]:
    return {f"{PACKAGE}.{name}": text for name, text in files.items()}


def test_good_imports_pass() -> None:
    assert problems(named(GOOD)) == []


@pytest.mark.parametrize("case", BAD)
def test_planted_imports_are_reported(case: str) -> None:
    file, text, message = BAD[case]
    found = problems(named(GOOD | {file: text}))
    assert found
    assert message in found[0]  # an upward import often closes a circle too: named second
