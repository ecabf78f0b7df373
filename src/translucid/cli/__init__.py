"""The command line: `translucid VERB ...`.

Every file in this folder keeps its top light: a command imports torch inside its body, so that
help, version, completion and usage errors answer at once.

Exit codes: 0 done, 1 unexpected failure, 2 a mistake the message explains, 130 interrupted.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from translucid._version import __version__
from translucid.cli import (
    ablate,
    check,
    data,
    demo,
    doctor,
    explain,
    explore,
    generate,
    info,
    lab,
    recipe,
    reproduce,
    score,
    tokenizer,
    train,
    translate,
    use,
    work,
)
from translucid.cli.files import CommandWithFiles
from translucid.errors import TranslucidError

app = typer.Typer(
    help="Sequence models you can see through.",
    epilog="Example: translucid doctor",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # main() reports errors
    rich_markup_mode=None,  # plain text: the same on a terminal, in a pipe and in a log
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"translucid {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool,  # read by main(); declared here so that help and completion know it
        typer.Option("--debug", help="Show the traceback of an error. May stand anywhere."),
    ] = False,
) -> None:
    pass


# The commands, in the order in which help lists them.
app.command()(demo.demo)
app.add_typer(work.app, name="work")
app.add_typer(lab.app, name="lab")
app.add_typer(data.app, name="data")
app.add_typer(tokenizer.app, name="tokenizer")
app.add_typer(recipe.app, name="recipe")
app.command()(recipe.new)
app.command(cls=CommandWithFiles)(check.check)
app.command(cls=CommandWithFiles)(train.train)
app.command()(train.resume)
app.command()(reproduce.reproduce)
app.command(cls=CommandWithFiles)(train.evaluate)
app.command(cls=CommandWithFiles)(ablate.ablate)
app.command()(info.info)
app.command()(translate.translate)
app.command()(score.score)
app.command()(use.classify)
app.command()(use.tag)
app.command()(generate.generate)
app.command()(use.predict)
app.command()(explain.explain)
app.command()(explore.explore)
app.command("doctor")(doctor.command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; an error is one line unless `--debug` is given."""
    debug, arguments = _take_debug(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            get_command(app)(args=arguments, prog_name="translucid")
        finally:
            sys.stdout.flush()  # a reader that has left is met here, not after our last line
    except BrokenPipeError:
        # `translucid ... | head` is no error. What is still buffered goes nowhere, silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except TranslucidError as error:
        if train.speaks():
            _report(str(error), debug)
        sys.exit(2)
    except Exception as error:
        hint = "run again with --debug for the traceback"
        _report(f"unexpected {type(error).__name__}: {error} ({hint})", debug)
        sys.exit(1)
    sys.exit(0)


def _take_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """People add --debug at the end of the line that failed, so it may stand anywhere."""
    before = list(arguments)
    after: list[str] = []
    if "--" in before:  # what follows is text, not options
        cut = before.index("--")
        before, after = before[:cut], before[cut:]
    return "--debug" in before, [word for word in before if word != "--debug"] + after


def _report(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    else:
        print(f"error: {message}", file=sys.stderr)
