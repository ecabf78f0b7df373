"""Exercises as an assignment for otter-grader: a notebook, and a test for each question.

The tests contain no answers: they check the student's answer with `practice.check`, so a failed
test shows which step went wrong.
"""

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from translucid.practice.exercise import Exercise
from translucid.practice.quizzes import put

_SETUP = 'import otter\n\ngrader = otter.Notebook("assignment.ipynb")'


def otter(title: str, exercises: Sequence[Exercise]) -> bytes:
    """An assignment as a zip file: `assignment.ipynb`, and `tests/q1.py` and so on."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        put(package, "assignment.ipynb", _notebook(title, exercises).encode())
        for number, exercise in enumerate(exercises, 1):
            put(package, f"tests/q{number}.py", _test(number, exercise).encode())
    return packed.getvalue()


def _notebook(title: str, exercises: Sequence[Exercise]) -> str:
    contents = [("markdown", f"# {title}"), ("code", _SETUP)]
    for number, exercise in enumerate(exercises, 1):
        question = exercise.question("typed")
        text = replace(question, title=f"{number}. {question.title}").markdown()
        contents += [
            ("markdown", text.strip()),
            ("code", f'answer_{number} = "..."  # the numbers, in quotation marks'),
            ("code", f'grader.check("q{number}")'),
        ]
    contents.append(("code", "grader.check_all()"))
    cells = [_cell(kind, source, i) for i, (kind, source) in enumerate(contents)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, source: str, number: int) -> dict[str, Any]:
    code: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    lines = source.splitlines(keepends=True)
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines, **code}


def _test(number: int, exercise: Exercise) -> str:
    """One test in the format of OK, which otter-grader reads."""
    topic, seed = exercise.topic.name, exercise.seed
    code = (
        ">>> from translucid import practice\n"
        f'>>> print(practice.check("{topic}", {seed}, answer_{number}).message)\n'
        "Right."
    )
    case = {"code": code, "hidden": False, "locked": False}
    suite = {"cases": [case], "scored": True, "setup": "", "teardown": "", "type": "doctest"}
    test = {"name": f"q{number}", "points": 1, "suites": [suite]}
    return f"OK_FORMAT = True\n\ntest = {test!r}\n"
