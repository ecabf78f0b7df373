"""`translucid work ...`: worked solutions, from numbers on the command line or in a file.

The options are the arguments of the functions in `worked`, with the help that their docstrings
give. They are read from the source: to import it would import torch, and help answers at once.
"""

import ast
import inspect
import re
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.main import get_command

from translucid.cli.shared.parsing import Commands
from translucid.cli.work_command import WorkCommand

# In the order in which help lists them, each with its file in `worked`.
EXERCISES = {
    "perceptron": "perceptron", "softmax": "softmax", "attention": "attention",
    "multihead": "multihead", "positions": "positions", "mlp": "mlp", "rnn": "recurrent",
    "lstm": "recurrent", "gru": "recurrent", "beam": "beam", "params": "params",
}  # fmt: skip

_SOURCE = Path(__file__).parent.parent / "worked"
_METAVARS = {"Numbers": "NUMBERS", "Number": "NUMBER", "int | str": "N"}  # by annotation
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_WEIGHTS = {
    "W": "from the input, one row for each unit",
    "U": "from the state before, one row for each unit",
    "b": "one number for each unit (0)",
}
_ALWAYS = {
    "file": Annotated[
        Path | None,
        typer.Option(
            help="TOML or JSON with the same names, - for standard input; the command line wins."
        ),
    ],
    "format": Annotated[
        Literal["text", "markdown", "latex", "json"],
        typer.Option(help="How to write the solution."),
    ],
    "digits": Annotated[int | None, typer.Option(help="Decimals to show, 1 to 12.")],
}


@dataclass(frozen=True)
class Argument:
    """One argument of a worked function."""

    name: str
    annotation: str  # as it is written, without `| None`
    choices: tuple[str, ...] = ()
    help: str = ""
    weight: bool = False  # of a recurrent cell: it is handed over in `weights`

    @property
    def kind(self) -> str:
        """What it may be in a file."""
        if self.annotation == "bool":
            return "flag"
        return "word" if self.choices or self.annotation == "str" else "numbers"

    def option(self) -> Any:
        """For typer."""
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


def read_arguments(name: str) -> tuple[str, list[Argument]]:
    """What the docstring of an exercise says of all of it, and its arguments."""
    tree = ast.parse((_SOURCE / f"{EXERCISES[name]}.py").read_text("utf-8"))
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    nodes = [*function.args.args, *function.args.kwonlyargs]
    text, helps = _read_docstring(ast.get_docstring(function) or "", {node.arg for node in nodes})
    arguments: list[Argument] = []
    for node in nodes:
        if node.arg == "weights":
            weights = [w for w in helps if w.partition("_")[0] in _WEIGHTS]
            arguments += [
                Argument(w, "Numbers", (), f"{w} {helps[w]}: {_WEIGHTS[w[0]]}.", weight=True)
                for w in weights
            ]
            continue
        assert node.annotation is not None
        choices = _choices(node.annotation)
        listed = f"{', '.join(choices[:-1])} or {choices[-1]} ({choices[0]})." if choices else ""
        annotation = ast.unparse(node.annotation).removesuffix(" | None")
        arguments.append(Argument(node.arg, annotation, choices, helps.get(node.arg, listed)))
    return text, arguments


def _choices(annotation: ast.expr) -> tuple[str, ...]:
    """The words of a Literal; the first is taken unless another is given."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            return tuple(ast.literal_eval(node.slice))
    return ()


def _read_docstring(docstring: str, names: set[str]) -> tuple[str, dict[str, str]]:
    """The text, and apart from it the paragraph with a line for each argument: `x: One row.`"""
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
    text, arguments = read_arguments(name)
    options = {a.name: a.option() for a in arguments if "Mapping" not in a.annotation}
    digits = {"digits": options.pop("digits")} if "digits" in options else {}
    options |= {"file": _ALWAYS["file"], "format": _ALWAYS["format"], **digits}
    numbers = [a for a in arguments if a.annotation == "Numbers"]
    if len(numbers) == 1:  # they need no name
        alone = typer.Argument(metavar='"NUMBERS"', help=numbers[0].help)
        options = {"alone": Annotated[str | None, alone], **options}
    run = _runner(name, arguments, numbers[0].name if numbers else "")
    run.__doc__, run.__annotations__ = text, options
    defaults = {a.name: False for a in arguments if a.kind == "flag"} | {"format": "text"}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer reads
        [
            inspect.Parameter(n, _BY_NAME, default=defaults.get(n), annotation=option)
            for n, option in options.items()
        ]
    )
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    one.command(name, cls=WorkCommand)(run)
    return get_command(one)


def _runner(name: str, arguments: list[Argument], alone: str) -> Callable[..., Any]:
    def run(*, file: Path | None, format: str, **typed: Any) -> Any:
        from translucid import worked
        from translucid.worked.solution.numbers import read_file

        if (row := typed.pop("alone", None)) is not None:
            if typed[alone] is not None:
                raise typer.BadParameter("the row is given twice", param_hint=f"--{alone}")
            typed[alone] = row
        kinds = {argument.name: argument.kind for argument in arguments}
        values = read_file(file, kinds) if file is not None else {}
        values |= {k: v for k, v in typed.items() if v is not None and v is not False}
        if weights := [argument.name for argument in arguments if argument.weight]:
            values["weights"] = {key: values.pop(key) for key in weights if key in values}
        return getattr(worked, name)(**values)

    return run


class _Commands(UserDict[str, Any]):
    """By name; each is built when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        super().__getitem__(name)  # an unknown one is a KeyError
        return build_command(name)


class _Group(Commands):
    def __init__(self, **settings: Any) -> None:
        commands = _Commands(dict.fromkeys(EXERCISES))
        super().__init__(**{**settings, "commands": commands})


app = typer.Typer(
    cls=_Group,
    help="Solve an exercise step by step, with your numbers.",
    epilog='Example: translucid work attention --x "1 0; 0 1; 1 1" --identity',
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.callback()(lambda: None)  # a group, although typer sees no command
