"""Commands of other packages, loaded when they are used.

A package adds a command with an entry point that names a `typer.Typer`:

    [project.entry-points."translucid.commands"]
    mine = "my_package.cli:app"

`translucid lab` is such a command. Commands of Translucid itself take precedence.
"""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from translucid.cli.shared.parsing import Commands
from translucid.core.errors import ConfigError

GROUP = "translucid.commands"
# Plugins of this distribution, for `PYTHONPATH=src`, where no package metadata is installed.
SHIPPED = {"lab": "translucid_lab.cli:app"}


class Plugin(TyperGroup):
    """Placeholder for the command of a plugin, which loads when it is used."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        return load(str(self.name)).make_context(info_name, args, *more, **extra)

    def get_short_help_str(self, limit: int = 45) -> str:
        if self.help:
            return super().get_short_help_str(limit)
        try:
            return str(load(str(self.name)).get_short_help_str(limit))
        except Exception as error:  # the help of the program must not fail with it
            return f"cannot be loaded: {type(error).__name__}: {error}"


class CommandsAndPlugins(Commands):
    """The commands of the program, then those of plugins."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        return own or (Plugin(name=cmd_name) if cmd_name in _installed() else None)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*super().list_commands(ctx), *sorted(_installed())]))


def shipped(name: str, help_line: str) -> typer.Typer:
    """A plugin of this distribution, listed in help without loading it."""
    return typer.Typer(name=name, cls=Plugin, help=help_line, rich_markup_mode=None)


@cache
def load(name: str) -> Any:
    """Import a plugin and return its command."""
    module, _, attribute = (SHIPPED | _installed())[name].partition(":")
    app = getattr(import_module(module), attribute)
    if not isinstance(app, typer.Typer):
        raise ConfigError(
            f"translucid {name}: the entry point names a {type(app).__name__}; let it name a "
            "typer.Typer"
        )
    outer = typer.Typer(rich_markup_mode=None, add_completion=False)
    outer.add_typer(app, name=name, cls=Commands)
    group: Any = get_command(outer)
    return group.commands[name]


@cache
def _installed() -> dict[str, str]:
    """The entry points of installed packages, `module:attribute` by the name of the command.

    Parsed here, since importlib.metadata would take a tenth of the time of `translucid -h`.
    """
    places: dict[str, str] = {}
    for folder in sys.path:
        for file in Path(folder).glob("*.dist-info/entry_points.txt"):
            try:
                text = file.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                print(f"warning: {file}: commands not loaded: {error}", file=sys.stderr)
                continue
            for line in f"\n{text}".partition(f"\n[{GROUP}]\n")[2].splitlines():
                name, equals, place = line.partition("=")
                if line.startswith("["):
                    break
                if equals:
                    places.setdefault(name.strip(), place.partition("[")[0].strip())
    return places
