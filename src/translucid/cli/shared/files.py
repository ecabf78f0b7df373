"""Options that take one file or several: `--train a.de a.en` is `--train a.de --train a.en`.

The parser behind typer gives an option a fixed number of words, so further words are given the
option's name before it looks.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from typer.core import TyperOption

from translucid.cli.shared.old_options import CommandOfToday
from translucid.cli.shared.recipe_arguments import OVERRIDE

SEVERAL = ("--train", "--valid", "--test", "--data")


class CommandWithFiles(CommandOfToday):
    """A command whose file options may be followed by several files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [param for param in self.params if isinstance(param, TyperOption)]
        several = {o for option in options if option.multiple for o in option.opts} & set(SEVERAL)
        taking = {o for option in options if not option.is_flag for o in option.opts}
        return super().parse_args(ctx, list(spread(args, several, taking)))


def spread(
    words: Sequence[str], several: Collection[str], taking: Collection[str]
) -> Iterator[str]:
    """Repeat the name of an option before every further file that follows it.

    A word belongs to the option before it unless it is an option, an override of the recipe, or
    the command's first argument, which may still be missing. `taking`: options with a value.
    """
    option: str | None = None  # the one whose files may go on
    value_next = False
    first_seen = False
    for place, word in enumerate(words):
        if word == "--":
            yield from words[place:]
            return
        if value_next:
            yield word
            value_next = False
        elif word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            option = name if name in several else None
            value_next = "=" not in word and word in taking
            yield word
        elif option and first_seen and not OVERRIDE.match(word):
            yield from (option, word)
        else:
            option, first_seen = None, True
            yield word
