"""Every remedy that a message names exists: keys of recipes, options, commands.

All texts of the package are read, but for docstrings: what looks like `section.key`, `--option` or
`translucid command` must be one.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.parsed import facts
from typer.main import get_command

import translucid
from translucid.cli import app
from translucid.cli.shared import plugins
from translucid.model import Model
from translucid.runs.recipe.recipe import MODELS, SECTIONS

SOURCE = Path(translucid.__file__).parent.parent
# Pages, whose style sheets have names of their own.
LEFT_OUT = (
    "translucid/see/render",
    "translucid/core/progress.py",
    "translucid/studio/page_bundle.py",
    "translucid/worked/solution",
)
FILES = [
    path
    for package in ("translucid", "translucid_lab")
    for path in sorted((SOURCE / package).rglob("*.py"))
    if not str(path.relative_to(SOURCE)).startswith(LEFT_OUT)
]

KEY = re.compile(r"(?<![\w./])(task|data|tokenizer|model|training|decoding)\.([a-z]\w*)(?![\w(])")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)")
COMMAND = re.compile(r"translucid ([a-z]+)(?: ([a-z]+(?:-[a-z]+)*)\b)?")

# What reads like a key, but is the name of a file, of metadata in one, or of something in Python.
NOT_KEYS = {
    "model.safetensors", "model.bin", "model.gguf", "model.embed_tokens", "model.shared",
    "model.encoder", "model.js", "data.pkl", "tokenizer.json",
    "tokenizer.model", "tokenizer.bin", "tokenizer.ggml",
    "data.batching", "data.readers", "data.records",  # modules
}  # fmt: skip
# That every command has, or another program.
OTHER_OPTIONS = {"help", "nproc-per-node", "directory"}
PROSE = {"may"}  # words after the product's name


@cache
def keys() -> frozenset[str]:
    named = {f"{name}.{key}" for name, config in SECTIONS.items() for key in config.model_fields}
    named |= {f"model.{key}" for config in MODELS.values() for key in config.model_fields}
    return frozenset(named | {"model.kind"})


@cache
def commands() -> dict[tuple[str, ...], frozenset[str]]:
    """The options of each command, by its words; the lab is loaded like any plugin."""
    return dict([*_commands(get_command(app), ()), *_commands(plugins.load("lab"), ("lab",))])


@cache
def options() -> frozenset[str]:
    return frozenset().union(*commands().values())


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[Any, frozenset[str]]]:
    yield words, frozenset(o for param in command.params for o in param.opts + param.secondary_opts)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*words, name))


def missing(text: str) -> Iterator[str]:
    """What a text names and nobody can type."""
    for match in KEY.finditer(text):
        name = match[0]
        if name not in keys() and name not in NOT_KEYS and not _of_model(*match.groups()):
            yield name
    for match in OPTION.finditer(text):
        if match[0] not in options() and match[1] not in OTHER_OPTIONS:
            yield match[0]
    for match in COMMAND.finditer(text):
        first, second = match.groups()
        if first in PROSE:
            continue
        groups = {words[0] for words in commands() if len(words) == 2}
        if (first,) not in commands() or (
            first in groups and second and (first, second) not in commands()
        ):
            yield match[0]


def _of_model(section: str, name: str) -> bool:
    """`model.translate` is a method of the Python object."""
    return section == "model" and hasattr(Model, name)


def test_what_a_text_names_exists() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in FILES
        for line, text in facts(path).texts
        for name in missing(text)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("say data.delimitre = ';'", "data.delimitre"),
        ("give one with --fiel FILE", "--fiel"),
        ("next: translucid trian {}", "translucid trian"),
        ("see `translucid recipe lost`", "translucid recipe lost"),
        ("set training.lr=1", "training.lr"),
    ],
)
def test_a_remedy_that_does_not_exist_is_found(text: str, name: str) -> None:
    assert list(missing(text)) == [name]
