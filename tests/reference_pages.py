"""Reference pages that are generated from the code: commands, recipe keys, models, trace points,
Python API.

Run `python -m tests.reference_pages` to write them.
"""

import inspect
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer.main
from pydantic.fields import FieldInfo

import translucid as tl
from translucid.cli import app
from translucid.core.catalogue import CATALOGUE, formula
from translucid.core.registry import choices
from translucid.models import (
    LexiconConfig,
    LinearConfig,
    MLPConfig,
    NGramConfig,
    PerceptronConfig,
    RecurrentConfig,
    TransformerConfig,
)
from translucid.runs.recipe.recipe import SECTIONS

REFERENCE = Path(__file__).parent.parent / "docs/reference"
MARK = "<!-- generated -->\n"  # this file writes everything after it on a page
# Packages whose names users import; those of the worked solutions are the exercises.
PACKAGES = ("core", "data", "generate", "models", "parts", "see", "tasks", "training", "worked")
MODELS = (
    TransformerConfig,
    RecurrentConfig,
    LinearConfig,
    NGramConfig,
    LexiconConfig,
    MLPConfig,
    PerceptronConfig,
)


def generated(page: Path, text: str) -> str:
    """The page with a new generated part."""
    return text.partition(MARK)[0] + MARK + WRITERS[page]()


def trace_table() -> str:
    lines = ["", "| Point | Symbol | Axes | Meaning | Formula |", "| --- | --- | --- | --- | --- |"]
    for key, point in CATALOGUE.items():
        right = f"${formula(key)}$" if point.formula else ""
        for words, template in point.forms.items():
            if template != point.formula:
                right += f"; {words.replace(' ', ', ')}: ${formula(key, words=words.split())}$"
        right, axes = right.replace("|", r"\vert "), ", ".join(point.axes)
        lines.append(f"| `{key}` | ${point.symbol}$ | {axes} | {point.meaning} | {right} |")
    return "\n".join(lines) + "\n"


def key_tables(configs: dict[str, Any], *, kind: bool) -> str:
    lines: list[str] = []
    for title, config in configs.items():
        lines += ["", f"### {title}", "", "| Key | Allowed | Default | Meaning |"]
        lines += ["| --- | --- | --- | --- |"]
        for key, field in config.model_fields.items():
            if key != "kind" or kind:
                default = "required" if field.is_required() else f"`{field.default!r}`"
                cells = (f"`{key}`", allowed(field), default, str(field.description))
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def allowed(field: FieldInfo) -> str:
    """A type in words: the choices of a Literal or a registry, or the name of the type."""
    if names := choices(field.metadata):
        return ", ".join(f"`{name!r}`" for name in names)
    annotation = field.annotation
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else [annotation]
    words = []
    for part in parts:
        if get_origin(part) is Literal:
            words += [f"`{choice!r}`" for choice in get_args(part)]
        elif get_origin(part) is tuple and get_origin(get_args(part)[0]) is Literal:
            names = [repr(choice) for choice in get_args(get_args(part)[0])]
            words.append(f"list of `{'`, `'.join(names)}`")
        elif get_origin(part) is tuple:
            several = "texts" if get_args(part)[0] is str else "numbers"
            words.append(
                f"list of {several}, such as `{['a', 'b'] if several == 'texts' else [64]}`"
            )
        elif get_origin(part) is dict:
            words.append("table of numbers, such as `{'head.*': 10.0}`")
        elif part is not type(None):
            kinds = {int: "whole number", float: "number", bool: "`True`, `False`", str: "text"}
            words.append(kinds[part])
    return ", ".join(words)


def commands() -> str:
    """Every command with its help, arguments and options."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for word, part in command.commands.items():
                yield from below(f"{name} {word}", part)
        else:
            yield name, command

    lines: list[str] = []
    for name, command in below("translucid", typer.main.get_command(app)):
        summary, *details = inspect.cleandoc(command.help or "").split("\n\n")
        lines += ["", f"## {name}", "", " ".join(summary.split())]
        for paragraph in details:
            lines += ["", " ".join(paragraph.replace("\b", "").split())]
        if command.epilog:
            word, _, example = " ".join(command.epilog.split()).partition(" ")
            lines += ["", f"{word} `{example}`"]
        shown = [param for param in command.params if not getattr(param, "hidden", False)]
        if shown:
            lines += ["", "| Argument or option | Meaning |", "| --- | --- |"]
        for param in shown:
            flags = [*param.opts, *param.secondary_opts]
            if param.param_type_name == "argument":
                flags = [(param.metavar or param.name).strip("{}").upper()]
            meaning = " ".join((getattr(param, "help", None) or "").split()).replace("|", "\\|")
            lines.append(f"| {', '.join(f'`{flag}`' for flag in flags)} | {meaning} |")
    return "\n".join(lines) + "\n"


def api() -> str:
    """Every public name of the package with its signature and the first paragraph of its
    docstring."""
    lines: list[str] = []
    for name in tl.__all__:
        value = getattr(tl, name)
        if inspect.ismodule(value) or name.startswith("__") or not callable(value):
            continue
        lines += ["", f"## tl.{name}", *described(name, value)]
        for member, part in inspect.getmembers(value) if inspect.isclass(value) else ():
            function = inspect.isfunction(part) or inspect.ismethod(part)
            if not member.startswith("_") and (function or isinstance(part, property)):
                lines += ["", f"### {name}.{member}", *described(member, part)]
    return "\n".join(lines) + "\n"


def packages() -> str:
    """A link to the page of each package."""
    lines = ["", "| Package | Content |", "| --- | --- |"]
    for name in PACKAGES:
        content = first_line(import_module(f"translucid.{name}"))
        lines.append(f"| [translucid.{name}]({name}.md) | {content} |")
    return "\n".join(lines) + "\n"


def package(name: str) -> str:
    """The public names of a package, with the first paragraph of their docstrings."""
    module = import_module(f"translucid.{name}")
    lines = ["", first_line(module), "", "| Name | Meaning |", "| --- | --- |"]
    for each in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, each)
        if each.startswith("_") or inspect.ismodule(value):
            continue
        ours = getattr(value, "__module__", type(value).__module__).startswith("translucid")
        lines.append(f"| `{each}` | {first_line(value) if ours else ''} |")
    return "\n".join(lines) + "\n"


def first_line(value: Any) -> str:
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def described(name: str, value: Any) -> list[str]:
    lines = ["", text] if (text := first_line(value)) else []
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return lines
    return ["", f"`{name}({', '.join(arguments(value))})`", *lines]


def arguments(function: Any) -> Iterator[str]:
    """Names and defaults, without annotations, which Python versions write differently."""
    keyword_only = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        keyword_only |= parameter.kind is parameter.VAR_POSITIONAL
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        default = "=..." if callable(parameter.default) and default else default
        yield f"{stars.get(parameter.kind, '')}{parameter.name}{default}"


WRITERS = {
    REFERENCE / "api.md": api,
    REFERENCE / "commands.md": commands,
    REFERENCE / "packages/README.md": packages,
    **{REFERENCE / f"packages/{name}.md": partial(package, name) for name in PACKAGES},
    REFERENCE / "models.md": lambda: key_tables({m.__name__: m for m in MODELS}, kind=False),
    REFERENCE / "recipe.md": lambda: key_tables(SECTIONS, kind=True),
    REFERENCE / "trace.md": trace_table,
}
GENERATED = list(WRITERS)

if __name__ == "__main__":
    for path in GENERATED:
        path.write_text(generated(path, path.read_text("utf-8")), "utf-8")
