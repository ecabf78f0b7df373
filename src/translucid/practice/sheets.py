"""Sheets of exercises for a class: Markdown, LaTeX and PDF, with and without solutions, and quizzes
for learning platforms.
"""

import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from translucid.core.atomic_files import write_text
from translucid.core.errors import InputError
from translucid.practice.checking import right_answer
from translucid.practice.exercise import Exercise, draw
from translucid.practice.otter import otter
from translucid.practice.quizzes import Write, gift, moodle, qti
from translucid.worked.solution.document import latex_body, latex_page
from translucid.worked.solution.numbers import read_text

_LATEX = ("pdflatex", "xelatex", "lualatex", "tectonic")  # programs that make a PDF
FORMATS: dict[str, tuple[str, Write]] = {  # the file of each format, and what writes it
    "moodle": ("moodle.xml", moodle), "gift": ("questions.gift", gift), "qti": ("qti.zip", qti),
    "otter": ("otter.zip", otter),
}  # fmt: skip
_ROOM = "\n\\vspace{4cm}\n"  # to write the answer


@dataclass(frozen=True)
class Sheet:
    """Exercises on one sheet, for a whole class or for one student."""

    exercises: tuple[Exercise, ...]
    student: str = ""

    @property
    def title(self) -> str:
        return f"Exercises for {self.student}" if self.student else "Exercises"

    def markdown(self, solutions: bool = False) -> str:
        """The sheet as Markdown."""
        out = [f"# {self._heading(solutions)}\n"]
        for number, exercise in enumerate(self.exercises, 1):
            question = exercise.question("written")
            text = replace(question, title=f"{number}. {question.title}").markdown()
            if solutions:
                text += "\n" + replace(exercise.solution, title="Solution", given=()).markdown()
                text += f"\n{_answer(exercise, '`', '`')}\n"
            out.append(re.sub(r"^#", "##", text, flags=re.MULTILINE))
        return "\n".join(out)

    def latex(self, solutions: bool = False) -> str:
        """The sheet as a LaTeX document."""
        out: list[str] = []
        for number, exercise in enumerate(self.exercises, 1):
            out.append(f"\\section*{{{number}. {exercise.topic.title}}}")
            out.append(latex_body(exercise.question("written")))
            if solutions:
                out += ["\\subsection*{Solution}", latex_body(replace(exercise.solution, given=()))]
                out.append(_answer(exercise, r"\texttt{", "}").replace("--", "-{}-"))
            else:
                out.append(_ROOM)
        return latex_page(self._heading(solutions), "\n\n".join(out) + "\n")

    def _heading(self, solutions: bool) -> str:
        return f"{self.title}, with solutions" if solutions else self.title


def _answer(exercise: Exercise, start: str, end: str) -> str:
    command = f"translucid practice {exercise.topic.name} --seed {exercise.seed}"
    answer = right_answer(exercise, exercise.last)
    return f"Answer: {start}{answer}{end}. Check your own: {start}{command}{end}."


def make_sheet(topics: Sequence[str], count: int, seed: int, student: str = "") -> Sheet:
    """Make a sheet with `count` exercises that alternate between the topics. A student's name
    changes the numbers."""
    first = zlib.crc32(f"{seed}/{student}".encode()) % 1_000_000 if student else seed
    return Sheet(tuple(draw(topics[i % len(topics)], first + i) for i in range(count)), student)


def read_names(file: Path) -> list[str]:
    """The students' names from a file, one per line; empty lines are skipped."""
    lines = read_text(file, "one name per line").removeprefix("\ufeff").splitlines()
    names = [" ".join(line.split()) for line in lines if line.strip()]
    if not names:
        raise InputError(f"file {file} contains no names; write one per line")
    files: dict[str, str] = {}
    for name in names:
        other = files.setdefault(_suffix(name), name)
        if other != name or names.count(name) > 1:
            raise InputError(
                f"file {file}: {other!r} and {name!r} need different file names; for example, "
                "add a number to one of them"
            )
    return names


def _suffix(student: str) -> str:
    """The suffix of a student's file names: `-Ana-Lopez`."""
    return f"-{re.sub(r'[^0-9A-Za-z_]+', '-', student).strip('-')}" if student else ""


def write_sheets(
    topics: Sequence[str],
    count: int,
    seed: int,
    folder: Path,
    students: Sequence[str] = (),
    formats: Sequence[str] = (),
) -> Iterator[str]:
    """Write sheets with and without solutions, and the requested quizzes, to a new folder. Yields
    messages for the user."""
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"export = {name}: expected one of {', '.join(FORMATS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} already exists; choose another folder with --out")
    sheets = [make_sheet(topics, count, seed, student) for student in students or ("",)]
    folder.mkdir(parents=True, exist_ok=True)
    program = next((path for path in map(shutil.which, _LATEX) if path), None)
    for sheet in sheets:
        end = _suffix(sheet.student)
        for name, solutions in (("exercises", False), ("solutions", True)):
            write_text(folder / f"{name}{end}.md", sheet.markdown(solutions))
            write_text(folder / f"{name}{end}.tex", sheet.latex(solutions))
            if program is not None and not _make_pdf(program, folder / f"{name}{end}.tex"):
                yield f"{name}{end}.tex: {Path(program).name} could not make a PDF"
        for wanted in dict.fromkeys(formats):
            file_name, write = FORMATS[wanted]
            stem, dot, suffix = file_name.partition(".")
            path = folder / f"{stem}{end}{dot}{suffix}"
            path.write_bytes(write(sheet.title, sheet.exercises))
    yield f"{folder}: {len(list(folder.iterdir()))} files, seed {seed}"
    if program is None:
        yield f"no PDF, because LaTeX is not installed; looked for {', '.join(_LATEX)}"


def _make_pdf(program: str, source: Path) -> bool:
    """Run LaTeX in a temporary folder; keep only the PDF."""
    options = ["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(source, Path(scratch) / "sheet.tex")
        words = [program, *(options if "tectonic" not in program else []), "sheet.tex"]
        try:
            done = subprocess.run(
                words, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return False
        made = Path(scratch) / "sheet.pdf"
        if done.returncode or not made.exists():
            return False
        shutil.copy(made, source.with_suffix(".pdf"))
    return True
