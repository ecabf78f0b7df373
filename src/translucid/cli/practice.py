"""`translucid practice`: exercises with checked answers, and sheets for teachers."""

import json
import os
import secrets
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.core.errors import InputError

if TYPE_CHECKING:
    from translucid.practice.exercise import Exercise
    from translucid.practice.topic import Part

_HELP = "hint, steps (answer step by step), solution, skip or quit"
_in_sheet = partial(typer.Option, rich_help_panel="Sheets")


def practice(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC...]", help="Topics [default: list all topics]."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Seed of the first exercise [default: random]."),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Answer step by step.")] = False,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBERS",
            help="Check this answer and exit; with --steps, repeat for each step.",
        ),
    ] = None,
    as_json: o.Json = False,
    sheet: Annotated[
        int | None, _in_sheet(metavar="N", min=1, help="Write a sheet with N exercises.")
    ] = None,
    out: Annotated[
        Path | None, _in_sheet(metavar="FOLDER", help="Output folder [default: sheet].")
    ] = None,
    students: Annotated[
        Path | None,
        _in_sheet(
            metavar="FILE", help="File of names, one per line; each student gets their own numbers."
        ),
    ] = None,
    export: Annotated[
        list[str] | None,
        _in_sheet(
            metavar="FORMAT", help="Also write a quiz: moodle, qti, gift or otter; may be repeated."
        ),
    ] = None,
) -> None:
    """Solve exercises; every answer is checked.

    Wrong answers are compared with common mistakes, to show which step to look at. Without a topic,
    lists the topics.

    Example: translucid practice attention --seed 7

    Example: translucid practice softmax attention --sheet 10 --out sheet --export moodle
    """
    from translucid.practice.topics import TOPICS, find_topic

    names = [find_topic(name).name for name in topics or ()]
    if sheet is not None:
        _write_sheet(names or [*TOPICS], sheet, seed, out, students, export or ())
        return
    for option, value in (("--out", out), ("--students", students), ("--export", export)):
        if value is not None:
            raise InputError(f"{option} needs --sheet N, the number of exercises")
    if not names:
        _list(as_json)
    elif answer:
        _check(names, 0 if seed is None else seed, answer, steps, as_json)
    elif as_json:
        typer.echo(_as_json(_exercise(names[0], 0 if seed is None else seed).as_dict()))
    else:
        Session(names, secrets.randbelow(10_000) if seed is None else seed, steps).run()


def _exercise(topic: str, seed: int) -> "Exercise":
    from translucid.practice.exercise import draw

    return draw(topic, seed)


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _list(as_json: bool) -> None:
    from translucid.practice.topics import TOPICS

    if as_json:
        typer.echo(_as_json({name: topic.title for name, topic in TOPICS.items()}))
        return
    width = max(len(name) for name in TOPICS)
    for name, topic in TOPICS.items():
        typer.echo(f"{name:{width}}  {topic.title}")
    typer.echo("\nnext: translucid practice softmax")


def _check(names: list[str], seed: int, answers: list[str], steps: bool, as_json: bool) -> None:
    """Check answers from the command line; exit code 3 if any is wrong."""
    from translucid.practice.checking import check_answer, check_steps

    if len(names) > 1:
        raise InputError(f"--answer needs one topic, not {len(names)}")
    exercise = _exercise(names[0], seed)
    if not steps and len(answers) > 1:
        raise InputError(f"got {len(answers)} answers; add --steps to answer every step")
    verdicts = check_steps(exercise, answers) if steps else [check_answer(exercise, answers[0])]
    if as_json:
        results = [verdict.as_dict() for verdict in verdicts]
        typer.echo(_as_json(results if steps else results[0]))
    else:
        for number, verdict in enumerate(verdicts, 1):
            typer.echo((f"Step {number}: " if steps else "") + _plain(verdict.message))
    if not all(verdict.right for verdict in verdicts):
        raise typer.Exit(3)


def _plain(text: str) -> str:
    """Text with its formulas as Unicode."""
    from translucid.see.render.plain_math import inline

    return inline(text)


def _write_sheet(
    names: list[str],
    count: int,
    seed: int | None,
    out: Path | None,
    students: Path | None,
    formats: Sequence[str],
) -> None:
    from translucid.practice.sheets import read_names, write_sheets

    people = read_names(students) if students is not None else []
    start = secrets.randbelow(10_000) if seed is None else seed
    for line in write_sheets(names, count, start, out or Path("sheet"), people, formats):
        typer.echo(line)


class _Quit(Exception):
    """The user wants to stop."""


class Session:
    """Poses exercises on the terminal, or on standard input, until the user quits."""

    def __init__(self, names: list[str], seed: int, steps: bool) -> None:
        self.names, self.seed, self.steps = names, seed, steps
        self.asked = self.solved = self.first = 0
        self.terminal = sys.stdin.isatty()
        self.width = min(shutil.get_terminal_size((80, 24)).columns, 100)
        styled = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.color = styled and os.environ.get("TERM") != "dumb"
        if not sys.stdout.isatty() and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(encoding="utf-8")  # for the brackets of matrices

    def run(self) -> None:
        try:
            for number, exercise in enumerate(self._exercises()):
                self._ask(exercise, first=not number)
        except (EOFError, KeyboardInterrupt, _Quit):
            pass
        if self.terminal:
            self.say("")
        if self.asked:
            exercises = "exercise" if self.asked == 1 else "exercises"
            self.say(
                f"You solved {self.solved} of {self.asked} {exercises}, {self.first} on the first "
                "attempt."
            )
        else:
            self.say("No exercise was answered.")
        self.say(f"Repeat them with: translucid practice {' '.join(self.names)} --seed {self.seed}")

    def _exercises(self) -> Iterator["Exercise"]:
        number = 0
        while True:
            yield _exercise(self.names[number % len(self.names)], self.seed + number)
            number += 1

    def say(self, text: str) -> None:
        for line in _plain(text).split("\n"):
            print(textwrap.fill(line, self.width, break_long_words=False))

    def _read(self) -> str:
        if self.terminal:
            return input("> ").strip()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()

    def _ask(self, exercise: "Exercise", first: bool) -> None:
        """Pose one exercise until it is solved or skipped."""
        if not first:
            print()
        text = exercise.question("task" if self.steps else "typed").text(
            self.width, color=self.color
        )
        print(text.rstrip())
        if first:
            self.say(f"\nType your answer, or {_HELP}.")
        mistakes, by_steps = 0, self.steps
        queue = [*exercise.parts] if by_steps else [exercise.last]
        counted = False
        while queue:
            if by_steps:
                part = queue[0]
                number = exercise.topic.index(part.name) + 1
                self.say(f"\nStep {number}: {part.ask}: {exercise.entry(part)}.")
            outcome, wrong = self._attempts(exercise, queue[0], by_steps)
            if not counted and (outcome != "skip" or wrong):
                self.asked += 1
                counted = True
            mistakes += wrong
            if outcome == "steps":
                by_steps, queue = True, [*exercise.parts]
            elif outcome == "right":
                queue.pop(0)
            elif outcome == "solution" and by_steps and len(queue) > 1:
                mistakes += 1
                queue.pop(0)
            else:
                return
        self.solved += 1
        self.first += not mistakes

    def _attempts(self, exercise: "Exercise", part: "Part", by_steps: bool) -> tuple[str, int]:
        """Read answers until one is right, or a command ends the attempts; also the number of
        mistakes and hints."""
        from translucid.practice.checking import check_answer, right_answer

        wrong = hints = 0
        while True:
            line = self._read()
            if line == "quit":
                raise _Quit
            if line in ("skip", "steps"):
                return line, wrong + hints
            if line == "hint":
                self.say(self._hint(exercise, part, hints, by_steps))
                hints += 1
            elif line == "solution":
                if by_steps:
                    self.say(f"{part.ask} is {right_answer(exercise, part)}.")
                else:
                    print(exercise.solution.text(self.width, color=self.color).rstrip())
                return line, wrong + hints + 1
            elif not line or line in ("help", "?"):
                self.say(f"Type {exercise.entry(part)}; or {_HELP}.")
            else:
                try:
                    verdict = check_answer(exercise, line, part.name)
                except InputError as error:
                    self.say(f"{error}. You can also type {_HELP}.")
                    continue
                self.say(verdict.message)
                if verdict.right:
                    return "right", wrong + hints
                wrong += 1

    def _hint(self, exercise: "Exercise", part: "Part", shown: int, by_steps: bool) -> str:
        """The next hint: one step of the way, with its formula."""
        parts = exercise.parts
        number = parts.index(part) if by_steps else min(shown, len(parts) - 1)
        formula = exercise.formula(parts[number])
        equation = f": ${formula}$" if formula and formula not in parts[number].ask else ""
        return f"Step {number + 1} of {len(parts)}: {parts[number].ask}{equation}"
