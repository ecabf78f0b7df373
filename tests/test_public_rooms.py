"""The public names of the rooms, and that the lab does with them: it imports nothing deeper."""

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parent.parent / "src"
ROOMS = ("core", "data", "generate", "model", "parts", "see", "tasks", "training")
LAB = [*(SOURCE / "translucid_lab").rglob("*.py"), SOURCE / "translucid_lab/engine/template.txt"]


def problems(text: str) -> Iterator[str]:
    """Imports of what is not public: names of `translucid` and of its rooms are."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            deep = [alias.name for alias in node.names if alias.name.startswith("translucid.")]
            yield from (f"import {name}: import names from its room" for name in deep)
        if (
            not isinstance(node, ast.ImportFrom)
            or (node.module or "").split(".")[0] != "translucid"
        ):
            continue
        if str(node.module).count(".") > 1:
            yield f"from {node.module}: deeper than a room"
            continue
        room = import_module(str(node.module))
        for alias in node.names:
            value = getattr(room, alias.name, None)
            public = alias.name in getattr(room, "__all__", [alias.name])
            if value is None or (isinstance(value, ModuleType) and not public) or not public:
                yield f"from {node.module} import {alias.name}: no public name"


def test_the_lab_imports_only_public_names() -> None:
    assert len(LAB) > 60
    found = {path.name: list(problems(path.read_text("utf-8"))) for path in LAB}
    assert {name: several for name, several in found.items() if several} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "from translucid.parts.norms import RMSNorm",
        "import translucid.core.errors",
        "from translucid.parts import norms",
        "from translucid import core",
        "from translucid.tasks import Bundle",
        "def f():\n    from translucid.see.pictures import Lines",
    ],
)
def test_planted_imports_are_reported(planted: str) -> None:
    assert len(list(problems(planted))) == 1


def test_the_package_does_not_know_the_lab() -> None:
    """But for the one line that attaches it to the command line."""
    knows = [
        path.name
        for path in (SOURCE / "translucid").rglob("*.py")
        if "translucid_lab" in path.read_text("utf-8")
    ]
    assert knows == ["plugins.py"]


@pytest.mark.parametrize(
    "name", ["translucid", *(f"translucid.{room}" for room in ROOMS), "translucid_lab"]
)
def test_exports_are_what_type_checkers_see_and_no_submodule_hides_them(name: str) -> None:
    package = import_module(name)
    (checked,) = [
        node.body
        for node in ast.parse(Path(str(package.__file__)).read_text("utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = {
        alias.asname: (node.module, alias.name)
        for node in checked
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen, key=str) == package.__all__
    for outer, (module, inner) in seen.items():
        assert getattr(package, str(outer)) is getattr(import_module(str(module)), inner)
    for both in {each.name for each in pkgutil.iter_modules(package.__path__)} & {*package.__all__}:
        assert getattr(package, both).__name__ == f"{name}.{both}"
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing
