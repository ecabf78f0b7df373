"""The commands of the program, each imported when it is used.

Another package adds a command with an entry point that names a `typer.Typer`:

    [project.entry-points."translucid.commands"]
    mine = "my_package.cli:app"

`translucid lab` is such a command. Commands of Translucid itself take precedence.
"""

import sys
from collections import UserDict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from translucid.cli.shared.arguments import with_code
from translucid.cli.shared.parsing import Command, Commands
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


class Listed(NamedTuple):
    """A command of Translucid as `translucid --help` lists it."""

    name: str
    help: str  # the first line of its own help
    place: str = ""  # `file:function`, or `file:app` for a group of commands; default: its name
    takes_code: bool = False  # whether it has the option --code

    def load(self) -> typer.Typer:
        """A group that contains only this command."""
        file, _, attribute = (self.place or f"{self.name}:{self.name}").partition(":")
        made = getattr(import_module(f"translucid.cli.{file}"), attribute)
        outer = typer.Typer(rich_markup_mode=None, add_completion=False)
        if isinstance(made, typer.Typer):
            outer.add_typer(made, name=self.name)
        else:
            outer.command(self.name, cls=Command)(with_code(made) if self.takes_code else made)
            outer.callback()(lambda: None)  # otherwise typer would make no group of it
        return outer


class _OnUse(UserDict[str, Any]):
    """Commands by name. A listed command is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if isinstance(command, Listed):
            group: Any = get_command(command.load())
            command = self.data[name] = group.commands[name]
        return command


class CommandsAndPlugins(Commands):
    """The commands of the program, then those of plugins."""

    panels: ClassVar[Mapping[str, Sequence[Listed]]] = {}  # the commands by panel of `--help`

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        own = {one.name: one for panel in self.panels.values() for one in panel}
        shipped = {n: Plugin(name=n, help=one.help) for n, one in own.items() if n in SHIPPED}
        self.commands = _OnUse(own | shipped | dict(self.commands))
        self._rows = {
            one.name: TyperCommand(one.name, help=one.help, rich_help_panel=panel)
            for panel, some in self.panels.items()
            for one in some
        }

    def row(self, ctx: Any, name: str) -> Any:
        return self._rows.get(name) or super().row(ctx, name)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        return own or (Plugin(name=cmd_name) if cmd_name in _installed() else None)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*self.commands, *sorted(_installed())]))


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
