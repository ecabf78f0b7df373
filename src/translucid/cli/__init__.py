"""The command line: `translucid COMMAND ...`.

The files in this folder import torch inside the commands, so that help, version, completion and
usage errors appear at once.

Exit codes: 0 success, 1 unexpected failure, 2 an error that the message explains, 130 interrupted
by Ctrl-C, 143 by SIGTERM.
"""

import atexit
import gc
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import typer
from typer.main import get_command

from translucid._version import __version__
from translucid.cli.shared.plugins import CommandsAndPlugins, Listed
from translucid.core.errors import CutText, TranslucidError, WrongTaskError
from translucid.core.extensions import ChangedCode
from translucid.core.extensions import explain as explain_error
from translucid.core.spelling import OtherName
from translucid.core.terminal import visible_output

atexit.register(gc.freeze)  # else the last garbage collection visits every object of torch


class Program(CommandsAndPlugins):
    """All commands. A test compares each line with the help of the command itself."""

    panels: ClassVar[dict[str, list[Listed]]] = {
        "Learn": [
            Listed("demo", "Train a small model, try it, and explain an answer."),
            Listed("learn", "Read the course, from one neuron to a translator."),
            Listed("practice", "Solve exercises; every answer is checked."),
            Listed("work", "Solve an exercise step by step, with your numbers.", "work:app"),
            Listed("lab", "Test textbook claims by experiment."),
        ],
        "Prepare": [
            Listed("new", "Write a recipe with all keys and their meaning.", "recipe:new", True),
            Listed("check", "Check your data before training.", takes_code=True),
            Listed("data", "Generate data files to train on.", "data:app"),
            Listed("tokenizer", "Train or inspect a tokenizer.", "tokenizer:app"),
            Listed("recipe", "List, show and check recipes.", "recipe:app"),
        ],
        "Train": [
            Listed("train", "Train a model from your files or from a recipe.", takes_code=True),
            Listed(
                "resume", "Continue a stopped run from its last checkpoint.", "train:resume", True
            ),
            Listed(
                "evaluate",
                "Score a model on a file, or a run on its test data.",
                "train:evaluate",
                True,
            ),
            Listed(
                "compare",
                "Score models on the same data and test the differences.",
                takes_code=True,
            ),
            Listed("reproduce", "Reproduce a published result with several seeds."),
        ],
        "Predict": [
            Listed(
                "translate",
                "Translate texts, or each line of a file or of standard input.",
                takes_code=True,
            ),
            Listed("classify", "Print the label of each text.", "predict:classify", True),
            Listed("tag", "Find the labelled spans of each line.", "predict:tag", True),
            Listed("generate", "Continue a text by sampling or beam search.", takes_code=True),
            Listed("fill", "Show the most probable tokens at each mask."),
            Listed("embed", "Embed each text as a vector, or find similar texts."),
            Listed(
                "predict", "Predict the output for each line or row, for any task.", takes_code=True
            ),
            Listed("score", "Print the log-probability of each text.", takes_code=True),
            Listed("serve", "Answer requests over HTTP.", takes_code=True),
        ],
        "Understand": [
            Listed("explain", "Explain an answer step by step.", takes_code=True),
            Listed("explore", "Open models in the studio, a local web page.", takes_code=True),
            Listed("ablate", "Measure the loss without each part of a model.", takes_code=True),
            Listed(
                "info", "Show a model's task, size, parts, vocabulary and scores.", takes_code=True
            ),
        ],
        "Other": [
            Listed("import", "Import another tool's model.", "import_model:import_model"),
            Listed("export", "Export a model to another tool.", takes_code=True),
            Listed("doctor", "Check the installation and the hardware."),
        ],
    }


app = typer.Typer(
    cls=Program,
    help="Sequence models you can see through.",
    epilog="Example: translucid demo",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # main() reports errors
    rich_markup_mode=None,
)


TOO_LARGE = (  # parts of torch's error messages
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
        typer.Option("--debug", help="Show tracebacks. Allowed anywhere."),
    ] = False,
) -> None:
    pass


# Reading the signatures of all commands takes 20 ms; a process may run several commands.
parser = cache(get_command)


def program() -> NoReturn:
    """Run the command line, then end the process without tearing down torch, which would take a
    quarter of a second. Threads and other exit handlers still run."""
    code: object = None

    def leave() -> None:
        if isinstance(code, int):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    atexit.register(leave)
    let_threads_sleep()
    try:
        main(began=time.monotonic() - process_age())
    except SystemExit as end:
        code = end.code
        raise


# How OpenMP's threads wait for each other, by its own name and by those of its implementations.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def let_threads_sleep() -> None:
    """If other programs are running, let the threads of OpenMP sleep while they wait, unless the
    user has chosen how they wait. By default they keep a core busy, which slows torch ten times if
    others need the core; on an idle machine, it makes training faster by a tenth or more. torch
    reads this when it is imported."""
    if not any(name in os.environ for name in WAITING) and others_run():
        os.environ["OMP_WAIT_POLICY"] = "passive"


def others_run() -> bool:
    """Whether other programs are using a quarter of the cores now; false where the system does not
    report it."""
    with suppress(OSError, ValueError, IndexError):
        running, _, _ = Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")
        return int(running) - 1 >= max(1, (os.cpu_count() or 1) // 4)
    return False


def process_age() -> float:
    """Seconds since this process started; where the system does not tell, its processor time."""
    with suppress(OSError, ValueError, IndexError, AttributeError):
        fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 0.0)
    return time.process_time()


def main(arguments: Sequence[str] | None = None, began: float | None = None) -> NoReturn:
    """Run the command line and exit; an error is one line unless `--debug` is given.

    began: when the command started, by `time.monotonic`; default: now."""
    with visible_output():
        _run(arguments, time.monotonic() if began is None else began)


def _run(arguments: Sequence[str] | None, began: float) -> NoReturn:
    debug, arguments = _take_debug(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            with _plain_warnings():
                parser(app)(args=arguments, prog_name="translucid", obj=began)
        finally:
            sys.stdout.flush()  # so that a closed pipe raises here
    except BrokenPipeError:
        # `translucid ... | head` is not an error; discard what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except TranslucidError as error:
        if os.environ.get("RANK", "0") == "0":  # with torchrun, only the first process prints
            if isinstance(error, WrongTaskError):
                from translucid.cli.shared.messages import other_command

                _report(other_command(error, arguments, parser(app)), debug)
            else:
                _report(error, debug)
        sys.exit(2)
    except Exception as error:
        kind, first_line = type(error).__name__, str(error).partition("\n")[0][:200]
        explained = explain_error(error)  # if it comes from the user's own code
        if explained is None and _too_large(error):
            explained = f"too large for this machine ({kind}: {first_line}); use smaller numbers"
        if explained is not None:
            _report(explained, debug)
            sys.exit(2)
        _report(f"unexpected {kind}: {error} (run again with --debug for the traceback)", debug)
        sys.exit(1)
    sys.exit(0)


def _too_large(error: Exception) -> bool:
    """Whether an error means that a tensor would not fit into memory."""
    return isinstance(error, OverflowError | MemoryError) or (
        isinstance(error, RuntimeError | TypeError)
        and any(words in str(error) for words in TOO_LARGE)
    )


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print Translucid's warnings as one line, without file and line number."""
    before = warnings.showwarning
    truncated: list[int] = []  # how many texts, for each chunk of a file

    def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if isinstance(message, CutText):
            truncated.append(message.count)
            if len(truncated) > 1:
                return  # the total follows at the end
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
                print(f"warning: {sum(truncated):,} texts were truncated in total", file=sys.stderr)


def _take_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Remove --debug, which is allowed anywhere, from the arguments."""
    before = list(arguments)
    after: list[str] = []
    if "--" in before:  # only text follows
        cut = before.index("--")
        before, after = before[:cut], before[cut:]
    return "--debug" in before, [word for word in before if word != "--debug"] + after


def _report(message: object, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    else:
        print(f"error: {message}", file=sys.stderr)
