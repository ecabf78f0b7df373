"""`translucid work ...`: worked solutions, from numbers on the command line or in a file.

An exercise is a function that returns a `Solution`. Its arguments become options, its docstring
their help. Both are parsed from the source without importing it, because torch takes seconds.
"""

import ast
import inspect
import os
import re
import shlex
import shutil
import sys
from collections import UserDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand
from typer.main import get_command

from translucid.cli.shared.parsing import Commands
from translucid.core.errors import InputError
from translucid.core.spelling import Missing, bare, quoted

_NUMBERS = re.compile(r"[-−+]?[\d.\[][-−+\d.,;/eE\[\]\s]*|[;,]")
NEAR = 0.75  # similarity, 0 to 1, above which a name is suggested
_EVERYWHERE = ("--file", "--format", "--blank", "--plain", "--digits")  # options of every exercise
_HOME = ("--x", "--positions")  # the option for numbers without one


class WorkCommand(TyperCommand):
    """Accepts options in any spelling and negative numbers; prints the solution."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = self._spelt(args)
        ctx.meta["typed"] = [*args]  # the parser consumes its list
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
        if ctx.params["plain"]:
            sys.stdout.write(solution.plain())
            return
        if ctx.params["blank"]:
            solution = solution.blank()
        _print(solution, ctx.params["format"])

    def _options(self, flags: bool = False) -> dict[str, Any]:
        """The options by each of their spellings. Without `flags`, options that take no value are
        left out."""
        named = [p for p in self.params if p.param_type_name == "option"]
        return {o: p for p in named for o in p.opts if flags or not getattr(p, "is_flag", False)}

    def _spelt(self, args: list[str]) -> list[str]:
        """Replace other spellings of an option by the spelling that the parser knows: --X by --x,
        --w_q by --wq."""
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
        """Put options first, then `--` and the rest; refuse unknown options, and numbers without
        quotes."""
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
        """The message for an unknown option. It lists similar options or, if there is none, all."""
        options = self._options(flags=True)
        names = {bare(o): o for o in options}
        close = [o for other, o in names.items() if other.startswith(bare(name))]
        close = close or [names[n] for n in get_close_matches(bare(name), names, cutoff=NEAR)]
        if close:
            return f"No such option: {name}. Did you mean {' or '.join(close)}?"
        listed = ", ".join(o for o in names.values() if o not in _EVERYWHERE)
        return f"No such option: {name}. Options: {listed}; see --help."

    def _check_quotes(self, groups: "_Groups", takes: bool) -> None:
        named = {name for name, _ in groups.named}
        home = next((o for o in _HOME if o in self._options() and o not in named), None)
        stray = [word for word in groups.alone if _NUMBERS.fullmatch(word)]
        split = [name for name, values in groups.named if len(values) > 1]
        if len(groups.alone) > 1 and stray and takes:
            hint = "put the numbers in quotes, or use --x"
        elif stray and not takes and home is not None:
            hint = f"pass the numbers with {home}, in quotes"
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
    """The words of a command: those without an option, and the values of each option."""

    def __init__(self) -> None:
        self.alone: list[str] = []
        self.named: list[tuple[str, list[str]]] = []
        self.last = self.alone  # to which one more number belongs

    def open(self, name: str, values: list[str], *, more: bool) -> None:
        self.named.append((name, values))
        self.last = values if more else self.alone

    def words(self) -> list[str]:
        return [word for name, values in self.named for word in (name, *values)]


def _again(typed: Sequence[str], options: str) -> str:
    """The command as the user typed it, with these options added; they show more."""
    more = shlex.split(options)
    new = {word for word in more if word.startswith("--")}
    kept: list[str] = []
    words = iter(typed)
    for word in words:
        if word == "--":
            more += [word, *words]
        elif word in new:
            next(words, None)  # its value
        elif word.partition("=")[0] not in new:
            kept.append(word)
    return " ".join(quoted(word) for word in [*kept, *more])


def _print(solution: Any, format: str) -> None:
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    if not terminal and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # for the brackets of matrices
    text = {
        "text": lambda: solution.text(width, color=color),
        "markdown": solution.markdown,
        "latex": solution.latex,
        "json": lambda: solution.json() + "\n",
    }[format]()
    sys.stdout.write(text)


_SOURCE = Path(__file__).parent.parent / "worked"
_METAVARS = {"Numbers": "NUMBERS", "Number": "NUMBER", "int | str": "N"}  # by annotation
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_WEIGHTS = {
    "W": "Input weights {}, one row for each unit.",
    "U": "Recurrent weights {}, one row for each unit.",
    "b": "Bias {}, one number for each unit [default: 0].",
}
_BUILT_IN = "Required inputs that you omit come from a built-in example."
_ALWAYS = {
    "file": Annotated[
        Path | None,
        typer.Option(help="TOML or JSON file with these options; - for standard input."),
    ],
    "format": Annotated[
        Literal["text", "markdown", "latex", "json"],
        typer.Option(help="Output format."),
    ],
    "blank": Annotated[
        bool,
        typer.Option("--blank", help="Print a worksheet: the steps without their results."),
    ],
    "plain": Annotated[
        bool,
        typer.Option("--plain", help="Print a short numpy program for these numbers."),
    ],
    "digits": Annotated[int | None, typer.Option(help="Number of decimals, 1 to 12.")],
}


@dataclass(frozen=True)
class Exercise:
    """A function that returns a `Solution`, parsed from its source."""

    name: str  # as typed: the function's name, or a file
    file: Path
    function: ast.FunctionDef

    @property
    def solve(self) -> Callable[..., Any]:
        """Import the file, and return the function."""
        from translucid import worked
        from translucid.core import extensions

        if self.file.parent == _SOURCE:
            return getattr(worked, self.function.name)
        path = str(extensions.load(self.file))
        module = next(m for m in [*sys.modules.values()] if getattr(m, "__file__", "") == path)
        return getattr(module, self.function.name)


def exercise_files() -> dict[str, Path]:
    """The built-in exercises in the order of `worked.EXERCISES`."""
    tree = ast.parse((_SOURCE / "__init__.py").read_text("utf-8"))
    files: dict[str, Path] = {}
    listed: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            file = _SOURCE / f"{node.module.rpartition('.')[2]}.py"
            files |= {alias.name: file for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXERCISES":
            assert isinstance(node.value, ast.Tuple)
            listed = [ast.unparse(function) for function in node.value.elts]
    return {name.replace("_", "-"): files[name] for name in listed}


def find_exercise(name: str) -> Exercise:
    """A built-in exercise by name, or the one in a user's Python file."""
    if not name.endswith(".py"):
        file = exercise_files()[name]
        own = name.replace("-", "_")
        return Exercise(name, file, next(f for f in _solving(file) if f.name == own))
    file = Path(name).resolve()
    if not file.is_file():
        raise InputError(f"{name}: no such file; pass the Python file with your exercise")
    functions = _solving(file)
    if len(functions) != 1:
        there = f"has {', '.join(f.name for f in functions)}" if functions else "has no exercise"
        raise InputError(
            f"{name}: {there}; write exactly one public function that is annotated to return a "
            "solution: def my_exercise(x: Numbers | None = None) -> Solution"
        )
    return Exercise(name, file, functions[0])


def _solving(file: Path) -> list[ast.FunctionDef]:
    """The public functions of a file that return a solution."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        from translucid.core import extensions

        extensions.load(file)  # reports the error with its line
        raise
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and node.returns is not None
        and _annotation(node.returns) == "Solution"
    ]


def _annotation(node: ast.expr) -> str:
    """The annotation without modules and `| None`: tl.worked.Numbers | None -> Numbers"""
    return re.sub(r"[A-Za-z_][\w.]*\.(?=\w)", "", ast.unparse(node)).removesuffix(" | None")


@dataclass(frozen=True)
class Argument:
    """One argument of an exercise."""

    name: str
    annotation: str  # without `| None`
    choices: tuple[str, ...] = ()
    help: str = ""
    weight: bool = False  # of a recurrent cell, passed in `weights`

    @property
    def kind(self) -> str:
        """The type of the argument's value in a TOML or JSON file."""
        if self.annotation == "bool":
            return "flag"
        return "word" if self.choices or self.annotation == "str" else "numbers"

    def option(self) -> Any:
        """The command-line option of this argument, in the form that typer expects."""
        if self.name in _ALWAYS:
            return _ALWAYS[self.name]
        name = f"--{self.name}" if self.weight else f"--{self.name.replace('_', '-')}"
        if self.kind == "flag":
            return Annotated[bool, typer.Option(name, help=self.help)]
        metavar = "NAME" if self.choices else _METAVARS.get(self.annotation)
        complete = self._complete if self.choices else None
        option = typer.Option(name, metavar=metavar, help=self.help, autocompletion=complete)
        return Annotated[str | None, option]

    def _complete(self, incomplete: str) -> list[str]:
        return [choice for choice in self.choices if choice.startswith(incomplete)]


def read_arguments(function: ast.FunctionDef) -> tuple[str, list[Argument]]:
    """The docstring of an exercise without its arguments, and the arguments."""
    nodes = [*function.args.args, *function.args.kwonlyargs]
    text, helps = _read_docstring(ast.get_docstring(function) or "", {node.arg for node in nodes})
    arguments: list[Argument] = []
    for node in nodes:
        if node.arg == "weights":
            weights = [w for w in helps if w.partition("_")[0] in _WEIGHTS]
            arguments += [
                Argument(w, "Numbers", (), _WEIGHTS[w[0]].format(helps[w]), weight=True)
                for w in weights
            ]
            continue
        assert node.annotation is not None
        choices = _choices(node.annotation)
        listed = (
            f"{', '.join(choices[:-1])} or {choices[-1]} [default: {choices[0]}]."
            if choices
            else ""
        )
        annotation = _annotation(node.annotation)
        arguments.append(Argument(node.arg, annotation, choices, helps.get(node.arg, listed)))
    return text, arguments


def _choices(annotation: ast.expr) -> tuple[str, ...]:
    """The values of a Literal; the first is the default."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            return tuple(ast.literal_eval(node.slice))
    return ()


def _read_docstring(docstring: str, names: set[str]) -> tuple[str, dict[str, str]]:
    """Split off the paragraph with a line for each argument: `x: One row.`"""
    paragraphs = docstring.split("\n\n")
    helps: dict[str, str] = {}
    for paragraph in paragraphs:
        if paragraph.partition(":")[0] in names:
            paragraphs.remove(paragraph)
            for line in re.split(r"\n(?! )", paragraph):
                listed, _, help = line.partition(": ")
                helps |= dict.fromkeys(listed.split(", "), re.sub(r"\s+", " ", help))
    return "\n\n".join(paragraphs), helps


def build_command(name: str) -> Any:
    """The command of an exercise, with an option for each argument."""
    exercise = find_exercise(name)
    text, arguments = read_arguments(exercise.function)
    if exercise.file.parent == _SOURCE:
        text = text.replace("\n\nExample: ", f"\n\n{_BUILT_IN}\n\nExample: ", 1)
    options = {a.name: a.option() for a in arguments if "Mapping" not in a.annotation}
    digits = {"digits": options.pop("digits")} if "digits" in options else {}
    options |= {"file": _ALWAYS["file"], "format": _ALWAYS["format"]}
    options |= {"blank": _ALWAYS["blank"], "plain": _ALWAYS["plain"], **digits}
    texts = [a for a in arguments if a.name == "text"]
    numbers = texts or [a for a in arguments if a.annotation == "Numbers"]
    if len(numbers) == 1:  # no name needed
        alone = typer.Argument(metavar='"TEXT"' if texts else '"NUMBERS"', help=numbers[0].help)
        options = {"alone": Annotated[str | None, alone], **options}
    run = _runner(exercise, arguments, numbers[0].name if numbers else "")
    run.__doc__, run.__annotations__ = text, options
    defaults: dict[str, Any] = {a.name: False for a in arguments if a.kind == "flag"}
    defaults |= {"format": "text", "blank": False, "plain": False}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
        [
            inspect.Parameter(n, _BY_NAME, default=defaults.get(n), annotation=option)
            for n, option in options.items()
        ]
    )
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    one.command(name, cls=WorkCommand)(run)
    return get_command(one)


def _runner(exercise: Exercise, arguments: list[Argument], alone: str) -> Callable[..., Any]:
    def run(*, file: Path | None, format: str, blank: bool, plain: bool, **typed: Any) -> Any:
        from translucid.worked.solution.numbers import read_file

        if (row := typed.pop("alone", None)) is not None:
            if typed[alone] is not None:
                raise typer.BadParameter("given twice", param_hint=f"--{alone}")
            typed[alone] = row
        kinds = {argument.name: argument.kind for argument in arguments}
        values = read_file(file, kinds) if file is not None else {}
        values |= {k: v for k, v in typed.items() if v is not None and v is not False}
        if weights := [argument.name for argument in arguments if argument.weight]:
            values["weights"] = {key: values.pop(key) for key in weights if key in values}
        return exercise.solve(**values)

    return run


class _Commands(UserDict[str, Any]):
    """Commands by name or file, built on demand."""

    def __getitem__(self, name: str) -> Any:
        if not name.endswith(".py"):
            super().__getitem__(name)  # KeyError if unknown
        return build_command(name)


class _Group(Commands):
    def __init__(self, **settings: Any) -> None:
        commands = _Commands(dict.fromkeys(exercise_files()))
        super().__init__(**{**settings, "commands": commands})


app = typer.Typer(
    name="work",
    cls=_Group,
    help="Solve an exercise step by step, with your numbers.\n\n"
    "COMMAND is an exercise below, or a Python file with your own exercise.",
    epilog='Example: translucid work attention --x "1 0; 0 1; 1 1" --identity',
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.callback()(lambda: None)  # a group, although typer sees no commands
