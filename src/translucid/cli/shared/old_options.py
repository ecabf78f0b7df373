"""Options by the names that they had once: refused with the name of today."""

from typing import Any

from typer.core import TyperCommand

from translucid.errors import ConfigError
from translucid.renamed import GENERATION, OPTIONS, is_now


class CommandOfToday(TyperCommand):
    """A command of which options were renamed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {option for param in self.params for option in param.opts}
        before = args[: args.index("--")] if "--" in args else args
        for word in before:
            name = word.partition("=")[0]
            new = _OLD.get(name)
            if name not in known and new in known:
                raise ConfigError(is_now(name, new))
        return super().parse_args(ctx, args)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


_OLD = {_option(old): _option(new) for old, new in (GENERATION | OPTIONS).items()}
