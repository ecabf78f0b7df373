"""The definitions of the package that some functions use: modules, names and methods."""

import ast
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[3]  # the folder that contains the package


@dataclass(frozen=True)
class Place:
    """A definition of a module, such as translucid.worked.board: Board."""

    module: str
    name: str


@dataclass
class Module:
    """A module's definitions and imports by name."""

    name: str
    tree: ast.Module
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # (module, name or "")


@cache
def file_of(name: str) -> Path | None:
    path = SOURCE / name.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def read(name: str) -> Module:
    file = file_of(name)
    assert file is not None, name
    module = Module(name, ast.parse(file.read_text("utf-8")))
    for node in module.tree.body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                module.definitions[node.name] = [node]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in names_in(target):
                        module.definitions.setdefault(name, []).append(node)
            case ast.Import():
                for alias in node.names:
                    known = alias.asname or alias.name.partition(".")[0]
                    module.imports[known] = (alias.name if alias.asname else known, "")
            case ast.ImportFrom() if node.module is not None:
                for alias in node.names:
                    module.imports[alias.asname or alias.name] = (node.module, alias.name)
    return module


def names_in(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id


class Program:
    """All definitions that some definitions need, as one JavaScript module.

    natives: names of Python that JavaScript defines, by module and name; `module:*` means every
    name of the module. A definition that is not found is an error.
    """

    def __init__(self, roots: Iterable[Place], natives: Mapping[str, str], extra: Collection[str]):
        self.natives = natives
        self.used: dict[Place, None] = {}
        self.attributes = set(extra)  # names after a dot: a class keeps only such methods
        self.classes: list[tuple[Place, ast.ClassDef]] = []
        self._queue = list(roots)
        self.count = 0  # of names made up
        self._seen_methods: set[tuple[Place, str]] = set()
        self._names: dict[str, list[str]] = {}  # the modules with a definition of each name
        self._reach()

    def written(self, place: Place) -> str:
        """The name of a definition in JavaScript, such as matrix$."""
        modules = self._names.setdefault(place.name, [])
        if place.module not in modules:
            modules.append(place.module)
        return f"{place.name}${modules.index(place.module) or ''}"

    # ---- which definitions are needed ----

    def resolve(self, module: Module, name: str) -> Place | str | None:
        """Where a global name is defined: a place, the JavaScript for it, or None (a builtin)."""
        if (native := self._native(module.name, name)) is not None:
            return native
        if name in module.definitions:
            return Place(module.name, name)
        if name not in module.imports:
            return None
        source, original = module.imports[name]
        if not original:
            return self._module(source)
        if (native := self._native(source, original)) is not None:
            return native
        if file_of(f"{source}.{original}") is not None:
            return f"module:{source}.{original}"
        if file_of(source) is not None:
            return self.resolve(read(source), original)
        return f"$p.unknown({json.dumps(source)}).{original}"

    def _native(self, module: str, name: str) -> str | None:
        if f"{module}:{name}" in self.natives:
            return self.natives[f"{module}:{name}"]
        if f"{module}:*" in self.natives:
            return f"{self.natives[f'{module}:*']}.{name}"
        return None

    def _module(self, name: str) -> str:
        native = self.natives.get(f"{name}:*")
        if native is None and file_of(name) is None:
            return f"$p.unknown({json.dumps(name)})"
        return native or f"module:{name}"

    def modules(self) -> list[Module]:
        """The modules with these definitions, each after those that it imports."""
        order: list[Module] = []
        visited: set[str] = set()

        def visit(name: str) -> None:
            if name in visited or file_of(name) is None:
                return
            visited.add(name)
            for source, original in read(name).imports.values():
                visit(f"{source}.{original}")
                visit(source)
            order.append(read(name))

        mine = {place.module for place in self.used}
        for name in sorted(mine):
            visit(name)
        return [module for module in order if module.name in mine]

    def _reach(self) -> None:
        while True:
            while self._queue:
                place = self._queue.pop()
                if place in self.used:
                    continue
                self.used[place] = None
                module = read(place.module)
                for node in module.definitions[place.name]:
                    if isinstance(node, ast.ClassDef):
                        self.classes.append((place, node))
                        for part in [*node.bases, *_class_values(node)]:
                            self._read(module, part)
                    else:
                        self._read(module, node)
            for place, node in self.classes:
                for method in methods(node):
                    if (place, method.name) not in self._seen_methods and self.keeps(method):
                        self._seen_methods.add((place, method.name))
                        self._read(read(place.module), method)
            if not self._queue:
                return

    def keeps(self, method: ast.FunctionDef) -> bool:
        name = method.name
        return name in self.attributes or (name.startswith("__") and name != "__repr__")

    def _read(self, module: Module, node: ast.AST) -> None:
        for inner in _without_annotations(node):
            if isinstance(inner, ast.Attribute):
                self.attributes.add(inner.attr)
                dotted = self.dotted(module, inner)
                if isinstance(dotted, Place):
                    self._queue.append(dotted)
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                meaning = self.resolve(module, inner.id)
                if isinstance(meaning, Place):
                    self._queue.append(meaning)

    def dotted(self, module: Module, node: ast.Attribute) -> Place | str | None:
        """The meaning of `module.name`."""
        if not isinstance(node.value, ast.Name) or node.value.id not in module.imports:
            return None
        meaning = self.resolve(module, node.value.id)
        if not isinstance(meaning, str) or not meaning.startswith("module:"):
            return None
        source = meaning.removeprefix("module:")
        native = self._native(source, node.attr)
        return native if native is not None else self.resolve(read(source), node.attr)


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            yield item


def _class_values(node: ast.ClassDef) -> Iterator[ast.AST]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign | ast.Assign) and item.value is not None:
            yield item.value


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotations and no assertions."""
    if isinstance(node, ast.Assert):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "decorator_list"):
            if name == "decorator_list":
                for item in value:
                    yield from _without_annotations(item)
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _without_annotations(item)
