"""Options by names that they do not have: of before, of other tools, or keys of a recipe. Another
spelling of a name, or another name of the same, is taken and said; any other is refused with the
name it has here."""

from collections.abc import Collection
from typing import Any

import typer
from typer.core import TyperCommand

from translucid.cli.shared.repeated_options import refuse_several
from translucid.core.errors import ConfigError
from translucid.core.renamed import GENERATION, OPTIONS, as_here, counted, is_now


class CommandOfToday(TyperCommand):
    """A command that knows what its options are called elsewhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {option for param in self.params for option in param.opts + param.secondary_opts}
        known |= {*ctx.help_option_names}
        takes_keys = any(param.name == "overrides" for param in self.params)
        end = args.index("--") if "--" in args else len(args)
        before = [_today(word, known, takes_keys=takes_keys) for word in args[:end]]
        words = [*before, *args[end:]]
        if not ctx.resilient_parsing:  # completion looks at half a command
            refuse_several(self.params, words, ctx.command_path)
        return super().parse_args(ctx, words)


def _today(word: str, known: Collection[str], *, takes_keys: bool) -> str:
    """The word, or what it must have meant."""
    name, equals, value = word.partition("=")
    if not name.startswith("--") or name == "--" or name in known:
        return word
    spelt = name.replace("_", "-")
    spelt = _SAME.get(spelt, spelt)
    if spelt in known:
        typer.echo(f"{name}: taken as {spelt}", err=True)
        return f"{spelt}{equals}{value}"
    if (new := _OLD.get(spelt)) in known:
        raise ConfigError(is_now(name, str(new)))
    key = name.removeprefix("--").replace("-", "_")
    here = as_here(key, [option.removeprefix("--").replace("-", "_") for option in known])
    if here is not None:
        raise ConfigError(f"{name}: no such option; did you mean {_option(here)}?")
    if takes_keys:
        _refuse_key(name, key, value)
    return word


def _refuse_key(name: str, key: str, value: str) -> None:
    """A key of the recipe that was typed as an option."""
    from translucid.runs.recipe.recipe import full_name

    if (full := full_name(key)) is not None:
        raise ConfigError(
            f"{name}: no such option; a key of the recipe is written at the end of the command: "
            f"{full}={value or '...'}{counted(key, full.partition('.')[2])}"
        )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


_SAME = {_option(old): _option(new) for old, new in GENERATION.items() if new == "beam_size"}
_OLD = {_option(old): _option(new) for old, new in (GENERATION | OPTIONS).items()}
