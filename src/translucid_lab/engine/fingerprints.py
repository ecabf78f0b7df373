"""Hashes of the rules that judge, and of the code that measures.

Rules are frozen before the measurement on which the verdicts are based: frozen.json contains the
hash of each rule, and the day it was frozen. The hash covers the text of the claim and of the rule,
its label, the number of seeds, the judging function with the lab's functions and constants that it
uses, and the version of the statistics. If a rule changes, its hash changes, and older verdicts are
marked as such. `python bench/lab_freeze.py` writes the file.

The measuring code has a hash too, which identifies stored numbers: they are measured again when a
function, class or constant that `run` uses changes. The hash does not depend on the file that
contains the code, its layout, comments or docstrings.
"""

import ast
import dis
import hashlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from types import CodeType
from typing import Any

from translucid import __version__
from translucid_lab.engine.experiment import Experiment, claims

FILE = "frozen.json"
# 1: bootstrap over 5 seeds, no correction. 2: Student's t, ranks and exact counts over 10 seeds,
# Holm's correction within a claim. Raise it when all rules change at once.
STATISTICS = 2
LAB, CLAIMS, ENGINE = "translucid_lab", "translucid_lab.claims.", "translucid_lab.engine."
FOLDER = Path(__file__).parents[1]  # folder of the lab
_IGNORED = ("ctx", "kind", "type_comment", "type_params")


# ---- rules ----


def fingerprint(experiment: Experiment, key: str) -> str:
    """The hash of an experiment's rule for a claim."""
    rule, claim = experiment.claims[key], claims().get(key)
    parts = [str(STATISTICS), claim.says if claim else experiment.title, rule.text, rule.label]
    parts += [str(experiment.seeds), *_code(rule.judge)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def frozen() -> dict[str, dict[str, str]]:
    """The hash of each frozen rule and the day it was frozen, by claim."""
    text = files("translucid_lab.engine").joinpath(FILE).read_text("utf-8")
    rules: dict[str, dict[str, str]] = json.loads(text)
    return rules


def name_of(experiment: Experiment, key: str) -> str:
    """The rule's key in frozen.json; a claim can have a second rule, for real data."""
    return f"{key}, {experiment.name}" if experiment.real else key


def frozen_since(experiment: Experiment, key: str) -> str:
    """The day the rule was frozen; empty if it is not frozen."""
    entry = frozen().get(name_of(experiment, key), {})
    return entry.get("since", "") if entry.get("hash") == fingerprint(experiment, key) else ""


def _code(function: Any) -> Iterator[str]:
    """The source code of a function and of what it uses from the claims, without whitespace."""
    waiting, seen = [function], set()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        yield "".join(inspect.getsource(here).split())
        for name in sorted(_names(here.__code__)):
            value = here.__globals__.get(name)
            if inspect.isfunction(value) and value.__module__.startswith(CLAIMS):
                waiting.append(value)
            elif _plain(value):
                yield f"{name} = {value!r}"


def _names(code: CodeType) -> set[str]:
    nested = [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*map(_names, nested))


def _plain(value: Any) -> bool:
    """Whether a value is a number or text, or a collection of those."""
    if isinstance(value, dict):
        return all(_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return isinstance(value, int | float | str | range)


# ---- code that measures ----


def digest(experiment: Experiment) -> str:
    """The hash of the measuring code and of the library's version."""
    pieces = sorted(set(_measuring_code(experiment)))
    return hashlib.sha256("\n".join([__version__, *pieces]).encode()).hexdigest()[:12]


def _measuring_code(experiment: Experiment) -> Iterator[str]:
    """The source code of all definitions in the lab's claims and in fit.py that `run` uses. For an
    experiment in a user's file, all definitions in that file are included."""
    path = source_of(experiment)
    start = _source(path.read_text("utf-8")) if outside(experiment) else None
    names = [*start.definitions] if start else [_function(experiment).__name__]
    waiting, seen = [(path, name) for name in names], set()
    while waiting:
        path, name = here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        source = _source(path.read_text("utf-8"))
        if name in source.definitions:
            code, uses = source.definitions[name]
            yield code
            waiting += [(path, used) for used in uses]
        elif name in source.imports:
            waiting += _imported(*source.imports[name])


def _imported(module: str, name: str) -> list[tuple[Path, str]]:
    """Files and names that define what a name imported from the lab stands for. There are several
    if the name is a module, and none for engine code, which does not affect what is measured."""
    if module.startswith(ENGINE) and module != f"{ENGINE}fit":
        return []
    place = FOLDER.joinpath(*module.split(".")[1:])
    if (place / f"{name}.py").is_file():
        path = place / f"{name}.py"
        return [(path, defined) for defined in _source(path.read_text("utf-8")).definitions]
    return [(place / "__init__.py" if place.is_dir() else place.with_suffix(".py"), name)]


@dataclass(frozen=True)
class TopLevel:
    """The top-level definitions and imports of a file."""

    definitions: dict[str, tuple[str, frozenset[str]]]  # by name: the code, and the names it uses
    imports: dict[str, tuple[str, str]]  # from the lab, by name: the module, and the name there


@cache
def _source(text: str) -> TopLevel:
    tree = ast.parse(text)
    imports = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == LAB
        for alias in node.names
    }
    documentation = tree.body[0] if ast.get_docstring(tree) else None
    definitions = {}
    for place, node in enumerate(tree.body):
        if not isinstance(node, ast.Import | ast.ImportFrom) and node is not documentation:
            definition = (
                _tree(node),
                frozenset(_globals(compile(ast.Module([node], []), "", "exec"))),
            )
            for name in _bound(node) or [f"statement {place}"]:
                definitions[name] = definition
    return TopLevel(definitions, imports)


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    return [target.id for target in targets if isinstance(target.ctx, ast.Store)]


def _globals(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            yield step.argval
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _globals(part)


def _tree(node: Any) -> str:
    """The syntax tree as text, without docstrings; the same in all versions of Python."""
    if isinstance(node, list):
        return f"[{', '.join(map(_tree, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: getattr(node, name, None) for name in node._fields if name not in _IGNORED}
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
        fields["body"] = node.body[1:]
    parts = (f"{name}={_tree(value)}" for name, value in fields.items() if value not in (None, []))
    return f"{type(node).__name__}({', '.join(parts)})"


def source_of(experiment: Experiment) -> Path:
    """The file that defines the measuring function."""
    return Path(inspect.getsourcefile(_function(experiment)) or "")


def line_of(experiment: Experiment) -> int:
    """The line at which the measuring function begins in the file that defines it."""
    return _function(experiment).__code__.co_firstlineno


def module_of(experiment: Experiment) -> str:
    """The module that defines the measuring function."""
    return str(_function(experiment).__module__)


def outside(experiment: Experiment) -> bool:
    """Whether the experiment is defined in a user's file, outside the package."""
    return not module_of(experiment).startswith(f"{LAB}.")


def _function(experiment: Experiment) -> Any:
    function: Any = experiment.run
    while isinstance(function, partial):
        function = function.func
    return function
