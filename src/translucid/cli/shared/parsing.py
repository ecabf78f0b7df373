"""How the command line is parsed and its help printed, beyond what typer does by itself.

- `--train a.de a.en` means `--train a.de --train a.en`.
- A second value of any other repeatable option is an error that shows how to repeat the option;
  typer would read it as the command's next argument.
- Other spellings of an option (`--beam_size`) are accepted with a note. For another tool's option
  or a recipe key, the error shows what to type instead.
- For a command of another tool, the error shows the equivalent command.
- Help is plain text, the same on a terminal, in a pipe and in a log, with a section per panel.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from translucid.cli.shared.arguments import OVERRIDE, is_text
from translucid.core.errors import ConfigError
from translucid.core.spelling import our_name, quoted, unit_note

SEVERAL = {"--train", "--valid", "--test", "--data"}  # options that take several files
FILES = {"file", "files", "source", "target"}  # names of arguments that are files
KEYS = "overrides"  # the name of the argument with recipe settings
_OUTER = re.compile(r"^[{[](.*\.\.\.|\[.*)[]}]\.\.\.$")  # brackets that typer adds to "FILE..."
NEGATIVE = re.compile(r"-\.?\d")
LOWER_BOUND = re.compile(r"  \[x>=[\d.]+\]|; x>=[\d.]+(?=\])")  # which typer adds to help

# Commands of other tools, and the equivalent here.
OTHER_COMMANDS = {
    "fit": "train translate --train train.en train.de --out runs/x",
    "tune": "train classify --from runs/x --train mine.tsv --out runs/tuned",
    "finetune": "train classify --from runs/x --train mine.tsv --out runs/tuned",
    "average": "train translate --train train.en train.de training.average_best=true",
    "preprocess": "check translate --train train.en train.de",
    "vocab": "tokenizer train train.en train.de --out tok",
    "buildvocab": "tokenizer train train.en train.de --out tok",
    "eval": "evaluate runs/x test.en test.de",
    "test": "evaluate runs/x test.en test.de",
    "infer": "predict runs/x file.txt",
    "inference": "predict runs/x file.txt",
    "run": "predict runs/x file.txt",
    "decode": "translate runs/x file.txt",
    "quantize": "translate runs/x file.txt --precision int8",
    "download": "import hf:ORG/NAME runs/x",
    "convert": "export runs/x --to ctranslate2 --out exported/x",
    "help": "--help",
    "version": "--version",
}


class Call(NamedTuple):
    """A command with its options, as other processes can run it."""

    module: str
    function: str
    options: dict[str, Any]


CALL: ContextVar[Call] = ContextVar("CALL")  # what this process runs


class Commands(TyperGroup):
    """A group of commands, listed in help by panel. typer suggests similar names for a typo."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0].lower().replace("-", "").replace("_", "")
        if ctx.parent is None and name in OTHER_COMMANDS and args[0] not in self.commands:
            line = f"translucid {OTHER_COMMANDS[name]}"
            ctx.fail(f"No such command {args[0]!r}. The equivalent here: {line}")
        return super().resolve_command(ctx, args)

    def row(self, ctx: Any, name: str) -> Any:
        """A command with the help line and the panel that the list of commands shows."""
        return self.get_command(ctx, name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        width = max(map(len, names))
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            command = self.row(ctx, name)
            help_line = command.get_short_help_str(formatter.width - width - 4)
            rows = panels.setdefault(getattr(command, "rich_help_panel", None) or "Commands", [])
            rows.append((name.ljust(width), help_line))
        _write_panels(panels, formatter)


class Command(TyperCommand):
    """A command with options as the module docstring describes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)  # \b: do not wrap examples
        self.help = (self.help or "").replace("\n\nExample: ", "\n\n\b\nExample: ")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {option for param in self.params for option in param.opts + param.secondary_opts}
        known |= {*ctx.help_option_names}
        takes_keys = any(param.name == KEYS for param in self.params)
        end = args.index("--") if "--" in args else len(args)
        before = [_known_option(word, known, takes_keys=takes_keys) for word in args[:end]]
        words = [*before, *args[end:]]
        if not ctx.resilient_parsing:  # completion parses incomplete commands
            words = repeated_options(self.params, words, ctx.command_path)
            words = list(self._negative_numbers(words))
        return super().parse_args(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        assert self.callback is not None
        before = CALL.set(Call(self.callback.__module__, self.callback.__name__, ctx.params))
        try:
            return super().invoke(ctx)
        finally:
            CALL.reset(before)

    def _negative_numbers(self, words: Sequence[str]) -> Iterator[str]:
        """Put a space before a negative number that is not the value of an option: the parser would
        read "-1 2" as the option -1."""
        flags = {o for param in self.params if getattr(param, "is_flag", False) for o in param.opts}
        before = ""
        for word in words:
            value = before.startswith("-") and before not in flags and "=" not in before
            before = f" {word}" if NEGATIVE.match(word) and not value else word
            yield before

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [_OUTER.sub(r"\1", piece) for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            kind = "Arguments" if param.param_type_name == "argument" else "Other"
            if (row := param.get_help_record(ctx)) is not None:
                rows = panels.setdefault(getattr(param, "rich_help_panel", None) or kind, [])
                name = row[0].partition(" <")[0] if kind == "Arguments" else row[0]  # no type
                rows.append((name, LOWER_BOUND.sub("", row[1])))
        _write_panels(panels, formatter)


def _write_panels(panels: dict[str, list[tuple[str, str]]], formatter: Any) -> None:
    for name, rows in panels.items():
        with formatter.section(name):
            formatter.write_dl(rows)


def _known_option(word: str, known: Collection[str], *, takes_keys: bool) -> str:
    """Replace `_` by `-` in the name of an option if the parser knows it by that name. Raise an
    error for the name of another tool's option and, if `takes_keys`, for a recipe key; the error
    shows what to type instead. Other words are returned unchanged."""
    name, equals, value = word.partition("=")
    if not name.startswith("--") or name == "--" or name in known:
        return word
    spelling = name.replace("_", "-")
    if spelling in known:
        typer.echo(f"{name}: read as {spelling}", err=True)
        return f"{spelling}{equals}{value}"
    key = name.removeprefix("--").replace("-", "_")
    ours = our_name(key, [option.removeprefix("--").replace("-", "_") for option in known])
    if ours is not None:
        raise ConfigError(f"{name}: no such option; did you mean --{ours.replace('_', '-')}?")
    if takes_keys:
        _refuse_key(name, key, value)
    return word


def _refuse_key(name: str, key: str, value: str) -> None:
    """Refuse a recipe key that was typed as an option."""
    from translucid.runs.recipe.recipe import full_name

    if (full := full_name(key)) is not None:
        raise ConfigError(
            f"{name}: no such option; write recipe keys at the end of the command: "
            f"{full}={value or '...'}{unit_note(key, full.partition('.')[2])}"
        )


def repeated_options(params: Sequence[Any], words: Sequence[str], command: str) -> list[str]:
    """Insert an option's name before each of its further values.

    Only options of `SEVERAL` take several values; for others, the error shows the line with the
    option repeated. command: what was typed before these words, for the error.
    """
    typed = list(_further_values(params, words))
    line = [part for word, option in typed for part in ([option, word] if option else [word])]
    for word, option in typed:
        if option and option not in SEVERAL:
            takes_keys = any(param.name == KEYS for param in params)
            missing = ", and there is no such file" * (not (takes_keys or _exists(word)))
            raise ConfigError(
                f"{word}: {option} takes one value{missing}; for several, repeat it: "
                f"{command} {' '.join(map(quoted, line))}"
            )
    return line


def _further_values(
    params: Sequence[Any], words: Sequence[str]
) -> Iterator[tuple[str, str | None]]:
    """Yield each word, with the option of which it is the second or a later value. For all other
    words, yield None in place of the option.

    A word belongs to the option before it unless it is itself an option, an override of the
    recipe, or the command's first argument, if that has not been seen yet.
    """
    options = [param for param in params if isinstance(param, TyperOption)]
    repeatable = {name for option in options if option.multiple for name in option.opts}
    if not {param.name for param in params} & {*FILES, KEYS}:  # free text may follow any option
        repeatable &= SEVERAL
    with_value = {name for option in options if not option.is_flag for name in option.opts}
    option: str | None = None  # the option whose further values may follow
    value, value_next, first_seen = "", False, False
    for place, word in enumerate(words):
        if word == "--":
            yield from ((rest, None) for rest in words[place:])
            return
        if value_next:
            value, value_next = word, False
            yield word, None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            option = name if name in repeatable else None
            value_next = not equals and name in with_value
            yield word, None
        elif option and first_seen and _is_further(word, value, option):
            yield word, option
        else:
            option, first_seen = None, True
            yield word, None


def _is_further(word: str, value: str, option: str) -> bool:
    """Whether a word is a further value of the option rather than an argument of the command."""
    if OVERRIDE.match(word):
        return False
    if option in SEVERAL:
        return True
    if word == "-":
        return False
    if not _exists(word):
        return not is_text(word)
    return Path(word).suffix == Path(value).suffix != "" or (
        Path(word).is_dir() and Path(value).is_dir()
    )


def _exists(word: str) -> bool:
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False
