"""What all commands of `translucid work` do with what was typed, and with the solution."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand

from translucid.core.errors import InputError
from translucid.core.spelling import Missing, bare, quoted

_NUMBERS = re.compile(r"[-−+]?[\d.\[][-−+\d.,;/eE\[\]\s]*|[;,]")
_ALWAYS = ("--file", "--format", "--digits")  # of every exercise
NEAR = 0.75  # similarity of names, from 0 to 1, above which one is suggested for the other
_HOME = ("--x", "--positions")  # where numbers belong that stand alone


class WorkCommand(TyperCommand):
    """Takes options in any spelling and negative numbers; prints the solution that comes back."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = self._spelt(args)
        ctx.meta["typed"] = [*args]  # the parser empties its list
        return super().parse_args(ctx, self._sorted(ctx, args))

    def invoke(self, ctx: Any) -> None:
        try:
            solution = super().invoke(ctx)
        except Missing as error:
            raise InputError(error.as_options()) from None
        if solution.more:
            command = _again(
                ["translucid", "work", str(self.name), *ctx.meta["typed"]], solution.more
            )
            solution = replace(solution, next=command)
        _print(solution, ctx.params["format"])

    def _options(self, flags: bool = False) -> dict[str, Any]:
        """Every spelling of every option, and the option; without those that take no value."""
        named = [p for p in self.params if p.param_type_name == "option"]
        return {o: p for p in named for o in p.opts if flags or not getattr(p, "is_flag", False)}

    def _spelt(self, args: list[str]) -> list[str]:
        """--X as --x, --w_q as --wq: the one option of which it is another spelling."""
        known = self._options(flags=True)
        out: list[str] = []
        for i, word in enumerate(args):
            if word == "--":
                return out + args[i:]
            name, equals, value = word.partition("=")
            if name.startswith("--") and name not in known:
                same = {p.name: o for o, p in reversed(known.items()) if bare(o) == bare(name)}
                name = next(iter(same.values())) if len(same) == 1 else name
            out.append(name + equals + value)
        return out

    def _sorted(self, ctx: Any, args: list[str]) -> list[str]:
        """Options first, then `--` and what is none; numbers without quotes are refused, and before
        them an unknown option, whose value would look like such a number."""
        options, groups = self._options(), _Groups()
        known = {o for param in self.get_params(ctx) for o in param.opts}  # with --help
        words = iter(args)
        for word in words:
            name, equals, value = word.partition("=")
            if word == "--":
                groups.alone += words
            elif name in options:
                values = [value] if equals else [next(words, "")]
                groups.open(name, values, more=options[name].metavar == "NUMBERS")
            elif _NUMBERS.fullmatch(word):
                groups.last.append(word)
            elif re.match(r"-\D", word):
                if name not in known:
                    ctx.fail(self._unknown(name))
                groups.open(word, [], more=False)
            else:
                groups.alone.append(word)
        takes = any(p.param_type_name == "argument" for p in self.params)
        self._check_quotes(groups, takes)
        if not groups.alone or not takes:
            return args
        return [*groups.words(), "--", *groups.alone]

    def _unknown(self, name: str) -> str:
        """An option that does not exist: what is spelt nearly so, else all that there are."""
        options = self._options(flags=True)
        names = {bare(o): o for o in options}
        close = [o for other, o in names.items() if other.startswith(bare(name))]
        close = close or [names[n] for n in get_close_matches(bare(name), names, cutoff=NEAR)]
        if close:
            return f"No such option: {name}. Did you mean {' or '.join(close)}?"
        listed = ", ".join(o for o in names.values() if o not in _ALWAYS)
        return f"No such option: {name}. There are {listed}; --help says what they are."

    def _check_quotes(self, groups: "_Groups", takes: bool) -> None:
        named = {name for name, _ in groups.named}
        home = next((o for o in _HOME if o in self._options() and o not in named), None)
        stray = [word for word in groups.alone if _NUMBERS.fullmatch(word)]
        split = [name for name, values in groups.named if len(values) > 1]
        if len(groups.alone) > 1 and stray and takes:
            hint = "put the numbers in quotes, or use --x"
        elif stray and not takes and home is not None:
            hint = f"give the numbers with {home}, in quotes"
        elif split:
            hint, home = f"put the numbers of {split[0]} in quotes", None
        else:
            return
        alone = " ".join(groups.alone)
        fixed = ["translucid", "work", str(self.name)]
        fixed += ([] if takes or home is None else [home]) + ([alone] if alone else [])
        fixed += [" ".join(g) for name, values in groups.named for g in ([name], values) if g]
        takes_identity = "--identity" in self._options(flags=True)
        if home == "--x" and takes_identity and not {"--identity", "--wq"} & named:
            fixed.append("--identity")
        raise InputError(f"{hint}: {' '.join(quoted(word) for word in fixed)}")


class _Groups:
    """The words of a command: what stands alone, and what follows each option."""

    def __init__(self) -> None:
        self.alone: list[str] = []
        self.named: list[tuple[str, list[str]]] = []
        self.last = self.alone  # where one more number belongs

    def open(self, name: str, values: list[str], *, more: bool) -> None:
        self.named.append((name, values))
        self.last = values if more else self.alone

    def words(self) -> list[str]:
        return [word for name, values in self.named for word in (name, *values)]


def _again(typed: Sequence[str], options: str) -> str:
    """The command as it was typed, with the options that show more."""
    more = shlex.split(options)
    new = {word for word in more if word.startswith("--")}
    kept: list[str] = []
    words = iter(typed)
    for word in words:
        if word == "--":
            more += [word, *words]
        elif word in new:
            next(words, None)  # the value; a flag is not suggested to those who gave it
        elif word.partition("=")[0] not in new:
            kept.append(word)
    return " ".join(quoted(word) for word in [*kept, *more])


def _print(solution: Any, format: str) -> None:
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    if not terminal and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # matrices need more than a legacy code page has
    text = {
        "text": lambda: solution.text(width, color=color),
        "markdown": solution.markdown,
        "latex": solution.latex,
        "json": lambda: solution.json() + "\n",
    }[format]()
    sys.stdout.write(text)
