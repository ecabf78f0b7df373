"""The exercises of `translucid work` as JavaScript, for the page docs/work.md.

The page runs the functions of `translucid.worked`, which `javascript.py` translates. Its text
differs from Python's only where printed numbers are rounding errors themselves, or where two beams
have equal scores, because exponential functions in browsers and in torch round differently.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import translucid as tl
from translucid.cli.work import exercise_files, find_exercise, read_arguments
from translucid.core.errors import TranslucidError
from translucid.studio.javascript.definitions import Place, Program, read
from translucid.studio.javascript.translation import NATIVE, translated
from translucid.studio.page_bundle import graph
from translucid.worked.solution import numbers

ROOT = Path(__file__).parents[2]
FOLDER = "docs/site/static/work/"
# Names of the package that the exercises use and static/js/python/ has.
OWN = {
    "translucid.models.base:Network": "$t.nn.Module",
    "translucid.data.tokenizers.tokenizer:Tokenizer": "$t.Tokenizer",
    "translucid.core.config:*": "$t.config",
    "translucid.core.cancellation:check_cancelled": "$p.nothing",
    "translucid.see.render.frame:escape": "$p.escapeHtml",
    "translucid.see.render.frame:piece": "$p.lines",
    "translucid.see.render.mathml:_in_alphabet": "$p.inAlphabet",
    "translucid.worked.plain:*": "$p.programs",  # they are printed, not run
}
# Counting parameters builds whole models, and numpy's random numbers are not reproduced.
LEFT_OUT = {"params", "variance"}


def exercises() -> dict[str, Place]:
    """The exercises of the page, by the name of their function."""
    imports = read("translucid.worked").imports
    known = (name.replace("-", "_") for name in exercise_files())
    return {name: Place(*imports[name]) for name in known if name not in LEFT_OUT}


@cache
def details(name: str) -> dict[str, Any]:
    """The description of an exercise, its arguments, and its example."""
    text, arguments = read_arguments(find_exercise(name.replace("_", "-")).function)
    title, *about = [p for p in text.split("\n\n") if not p.startswith("Example: ")]
    listed = [
        {"name": a.name, "kind": a.kind, "choices": a.choices, "help": a.help, "weight": a.weight,
         "option": f"--{a.name}" if a.weight else f"--{a.name.replace('_', '-')}"}
        for a in arguments
        if "Mapping" not in a.annotation
    ]  # fmt: skip
    return {
        "title": title.removesuffix("."),
        "about": " ".join(" ".join(about).split()),
        "arguments": listed,
        "example": example(name, listed),
    }


def example(name: str, arguments: list[dict[str, Any]]) -> dict[str, str]:
    """The texts that the exercise parses if nothing is given, by argument."""
    parsed: dict[str, str] = {}
    parse, solve = numbers._rows, getattr(tl.worked, name)

    def watched(given: Any, argument: str) -> list[list[float]]:
        if isinstance(given, str):
            parsed[argument] = given
        return parse(given, argument)

    with patch.object(numbers, "_rows", watched):
        solution = solve()
    weights = {a["name"] for a in arguments if a["weight"]}
    found = {a["name"]: parsed[a["name"]] for a in arguments if a["name"] in parsed}
    while found:
        given: dict[str, Any] = {key: found[key] for key in found if key not in weights}
        if weights:
            given["weights"] = {key: found[key] for key in found if key in weights}
        try:
            if solve(**given).steps == solution.steps:
                break
        except TranslucidError:
            pass
        found.popitem()  # was parsed for another reason
    return found


def script(entry: str) -> str:
    """The exercises and a module that uses them as one script."""
    places = exercises()
    extra = {
        "again": Place("translucid.cli.work", "_again"),
        "Missing": Place("translucid.core.spelling", "Missing"),
        "quoted": Place("translucid.core.spelling", "quoted"),
        "TranslucidError": Place("translucid.core.errors", "TranslucidError"),
    }
    called = ["text", "html", "as_options", "forward"]  # methods that JavaScript calls
    program = Program([*places.values(), *extra.values()], NATIVE | OWN, called)
    text = translated(program)
    listed = ", ".join(f"{name}: {program.written(place)}" for name, place in places.items())
    others = ", ".join(f"{name}: {program.written(place)}" for name, place in extra.items())
    known = json.dumps({name: details(name) for name in places}, ensure_ascii=False)
    return (
        f"const EXERCISES = ($p, $t) => {{\n{text}\n"
        f"return {{ details: {known}, exercises: {{ {listed} }}, {others} }};\n}};\n"
        f"{graph(FOLDER + entry, folder=ROOT)}const work = graph(globalThis)('{FOLDER}{entry}');\n"
    )
