"""The command line: `translucid VERB ...`.

Every file in this folder keeps its top light: a command imports torch inside its body, so that
help, version, completion and usage errors answer at once.

Exit codes: 0 done, 1 unexpected failure, 2 a mistake the message explains, 130 interrupted by
Ctrl-C, 143 by SIGTERM.
"""

import atexit
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from translucid._version import __version__
from translucid.cli import (
    ablate,
    check,
    compare,
    data,
    demo,
    doctor,
    embed,
    explain,
    explore,
    export,
    fill,
    generate,
    import_model,
    info,
    predict,
    recipe,
    reproduce,
    score,
    tokenizer,
    train,
    translate,
    work,
)
from translucid.cli.shared.arguments import with_code
from translucid.cli.shared.messages import other_command
from translucid.cli.shared.parsing import Command, Commands
from translucid.cli.shared.plugins import CommandsAndPlugins, shipped
from translucid.core.errors import CutText, TranslucidError, WrongTaskError
from translucid.core.extensions import ChangedCode
from translucid.core.extensions import explain as explain_error
from translucid.core.spelling import OtherName
from translucid.core.terminal import visible_output

atexit.register(gc.freeze)  # else the end of a command looks through all that torch has made

app = typer.Typer(
    cls=CommandsAndPlugins,
    help="Sequence models you can see through.",
    epilog="Example: translucid doctor",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # main() reports errors
    rich_markup_mode=None,  # plain text: the same on a terminal, in a pipe and in a log
)


TOO_LARGE = (  # of torch's messages
    "can't allocate memory", "Storage size calculation overflowed", "out of memory",
    "Overflow when unpacking long", "numel: integer multiplication overflow",
)  # fmt: skip


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
app.add_typer(
    shipped("Claims of textbooks as experiments: run them, and see what they say."), name="lab"
)
app.add_typer(data.app, name="data", cls=Commands)
app.add_typer(tokenizer.app, name="tokenizer", cls=Commands)
app.add_typer(recipe.app, name="recipe", cls=Commands)
app.command(cls=Command)(with_code(recipe.new))
app.command(cls=Command)(with_code(check.check))
app.command(cls=Command)(with_code(train.train))
app.command(cls=Command)(with_code(train.resume))
app.command(cls=Command)(reproduce.reproduce)
app.command(cls=Command)(with_code(train.evaluate))
app.command(cls=Command)(with_code(compare.compare))
app.command(cls=Command)(with_code(ablate.ablate))
app.command("import", cls=Command)(import_model.import_model)
app.command(cls=Command)(with_code(export.export))
app.command(cls=Command)(with_code(info.info))
app.command(cls=Command)(with_code(translate.translate))
app.command(cls=Command)(with_code(score.score))
app.command(cls=Command)(with_code(predict.classify))
app.command(cls=Command)(with_code(predict.tag))
app.command(cls=Command)(with_code(generate.generate))
app.command(cls=Command)(fill.fill)
app.command(cls=Command)(embed.embed)
app.command(cls=Command)(with_code(predict.predict))
app.command(cls=Command)(with_code(explain.explain))
app.command(cls=Command)(with_code(explore.explore))
app.command("doctor")(doctor.command)


# A process may run many commands, and to read the signatures of all takes 20 ms.
parser = cache(get_command)


def program() -> NoReturn:
    """`translucid`, which its process ends with: to take apart what torch has made, object by
    object, takes a quarter of a second. Threads and whatever wants to be called at the end come
    before."""
    code: object = None

    def leave() -> None:
        if isinstance(code, int):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    atexit.register(leave)
    try:
        main()
    except SystemExit as end:
        code = end.code
        raise


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; an error is one line unless `--debug` is given."""
    with visible_output():
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> NoReturn:
    debug, arguments = _take_debug(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            with _plain_warnings():
                parser(app)(args=arguments, prog_name="translucid")
        finally:
            sys.stdout.flush()  # a reader that has left is met here, not after our last line
    except BrokenPipeError:
        # `translucid ... | head` is no error. What is still buffered goes nowhere, silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except TranslucidError as error:
        if train.speaks():
            if isinstance(error, WrongTaskError):
                _report(other_command(error, arguments, parser(app)), debug)
            else:
                _report(str(error), debug)
        sys.exit(2)
    except Exception as error:
        theirs = explain_error(error)
        if theirs is not None:  # a mistake in a file of the user's
            _report(theirs, debug)
            sys.exit(2)
        if _too_large(error):
            _report(
                f"too large for this machine ({type(error).__name__}: {_first_line(error)}); make "
                "the numbers that were given smaller",
                debug,
            )
            sys.exit(2)
        hint = "run again with --debug for the traceback"
        _report(f"unexpected {type(error).__name__}: {error} ({hint})", debug)
        sys.exit(1)
    sys.exit(0)


def _too_large(error: Exception) -> bool:
    """Whether a number was asked for that no tensor or memory can hold."""
    return isinstance(error, OverflowError | MemoryError) or (
        isinstance(error, RuntimeError | TypeError)
        and any(words in str(error) for words in TOO_LARGE)
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Our own warnings are a line for people, without the place in the code."""
    before = warnings.showwarning
    truncated: list[int] = []  # texts of each warning; a file is read in chunks

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if isinstance(message, CutText):
            truncated.append(message.count)
            if len(truncated) > 1:
                return  # the sum follows at the end
        if issubclass(category, ChangedCode | CutText | OtherName):
            print(f"warning: {message}", file=sys.stderr)
        else:
            before(message, category, *place)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]  # whose last arguments are optional
        warnings.filterwarnings("always", category=CutText)
        try:
            yield
        finally:
            if len(truncated) > 1:
                print(f"warning: {sum(truncated):,} texts were truncated in all", file=sys.stderr)


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
