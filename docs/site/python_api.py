"""The Python API from its docstrings: signatures with types, and the description of each argument.

In the repository, api.md and the pages in packages/ list every public name with the first paragraph
of its docstring (tests/reference_pages.py writes them). On the site, the full docstrings replace
these lists.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from torch import nn

import translucid

MARK = "<!-- generated -->\n"
CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
TORCH_FORWARD = inspect.getdoc(nn.Module.forward)  # inherited by a forward without a docstring


def add_names(app: Sphinx, docname: str, source: list[str]) -> None:
    above, mark, names = source[0].partition(MARK)
    if mark and docname == "docs/reference/api":
        source[0] = above + "\n".join(entries(translucid, translucid.__all__, "## tl."))
    elif mark and docname.startswith("docs/reference/packages/") and "| Name |" in names:
        module = import_module(f"translucid.{docname.rpartition('/')[2]}")
        content, _, table = names.partition("| Name |")
        listed = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
        source[0] = above + content + "\n".join(entries(module, listed, "## "))


def entries(module: ModuleType, names: list[str], heading: str) -> Iterator[str]:
    for name in names:
        value = getattr(module, name)
        if isinstance(value, ModuleType) or name.startswith("__"):
            continue
        yield f"\n{heading}{name}\n"
        if module is not translucid and name in translucid.__all__:
            yield f"The same as [tl.{name}](../api.md)."
            continue
        kind = "function" if inspect.isroutine(value) else "data"
        kind = "class" if inspect.isclass(value) else kind
        yield f"```{{eval-rst}}\n.. auto{kind}:: {module.__name__}.{name}"
        if kind == "class":
            yield "   :members:"
        if kind == "class" and module is translucid and not issubclass(value, Exception):
            yield "   :inherited-members: tuple"
        yield "```"


def plain_text(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Read a docstring as plain text with `code`; "argument: description." starts a list item."""
    if what == "data" and not type(value).__module__.startswith("translucid"):
        lines.clear()  # of a dict's or a Literal's own class
    if "\n".join(lines).strip() == TORCH_FORWARD:
        lines.clear()
    names = arguments(value)
    described = (
        re.compile(rf"(?:^|(?<=[.;] )|(?<=\n))((?:(?:{names})(?:, )?)+): ") if names else None
    )
    text = "\n\n".join(
        paragraph(each, described) for each in "\n".join(lines).strip().split("\n\n")
    )
    lines[:] = [*text.splitlines(), ""]


def arguments(value: Any) -> str:
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return ""
    return "|".join(re.escape(name) for name in parameters if name not in ("self", "cls"))


def paragraph(text: str, described: re.Pattern[str] | None) -> str:
    if not text or text.startswith(">>>"):
        return text
    if all(line.startswith("    ") for line in text.splitlines()):
        return "::\n\n" + text
    parts = described.split(text) if described else [text]
    first, *rest = (escaped(" ".join(part.split())) for part in parts)
    items = [f"* **{names}**: {words}" for names, words in zip(rest[::2], rest[1::2], strict=True)]
    return "\n".join([first, "", *items])


def escaped(text: str) -> str:
    parts = CODE.split(text)
    return "".join(
        part if at % 2 else re.sub(r"([\\*_|])", r"\\\1", part) for at, part in enumerate(parts)
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add_names)
    app.connect("autodoc-process-docstring", plain_text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
