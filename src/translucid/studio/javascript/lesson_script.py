"""The lessons as JavaScript, for pages that run models without a server."""

import ast
from functools import cache

from translucid.studio import plane
from translucid.studio.javascript.definitions import Place, Program, read
from translucid.studio.javascript.translation import NATIVE, translated
from translucid.studio.page_bundle import graph

ENTRY = "python/lessons.js"
LESSONS = "translucid.studio.lessons"
ANSWERS = "translucid.studio.lesson_answers"
# What lessons need of the studio and python/lessons.js has.
HELPERS = {
    "translucid.core.catalogue:describe": "$l.describe",
    "translucid.see.embeddings:neighbours": "$l.neighbours",
    "translucid.see.gradients:gradients": "$l.gradients",
    "translucid.studio.answers:steps": "$l.steps",
    "translucid.studio.plane:answer": "$l.plane",
    "translucid.studio.plane:STEPS": str(plane.STEPS),
    "translucid.studio.plane:SEED": str(plane.SEED),
}


@cache
def script() -> str:
    """A script that defines `lessons` as the exports of python/lessons.js."""
    roots = {
        **{name: Place(ANSWERS, name) for name in ("on_run", "check", "lesson")},
        "InputError": Place("translucid.core.errors", "InputError"),
    }
    program = Program([*roots.values(), *_stops()], NATIVE | HELPERS, ())
    text = translated(program)
    listed = ", ".join(f"{name}: {program.written(place)}" for name, place in roots.items())
    return (
        f"const LESSONS = ($p, $t, $l) => {{\n{text}\nreturn {{ {listed} }};\n}};\n"
        f"{graph(ENTRY)}const lessons = graph(globalThis)('{ENTRY}');\n"
    )


def _stops() -> list[Place]:
    """The functions that a decorator adds to a lesson."""
    modules = [read(f"{LESSONS}.{name}") for at, name in read(LESSONS).imports.values()
               if at == LESSONS]  # fmt: skip
    return [
        Place(module.name, name)
        for module in modules
        for name, (node, *_) in module.definitions.items()
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]
