"""Sheets and quizzes: reading them again gives the same questions, answers and tolerances."""

import doctest
import io
import json
import re
import shutil
import subprocess
import zipfile
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from translucid.core.errors import InputError
from translucid.practice.checking import right_answer, written
from translucid.practice.exercise import Exercise, draw
from translucid.practice.otter import otter
from translucid.practice.quizzes import Field, fields, gift, moodle, qti
from translucid.practice.sheets import make_sheet, read_names, write_sheets
from translucid.practice.topics import TOPICS

QTI = "{http://www.imsglobal.org/xsd/imsqti_v2p1}"
EMBEDDED = re.compile(r"\{1:NUMERICAL:((?:\\.|[^}\\])*)\}")  # as in Moodle's question type


@cache
def exercises() -> list[Exercise]:
    """One exercise of each topic."""
    return [draw(topic, 3) for topic in TOPICS]


def flat(exercise: Exercise) -> list[Field]:
    return [field for row in fields(exercise) for field in row]


def answers(exercise: Exercise) -> np.ndarray:
    return exercise.right[exercise.last.name].ravel()


def read_moodle(content: bytes) -> list[dict[str, Any]]:
    """The questions of a quiz: the right numbers, tolerances and wrong numbers of each field."""
    found = []
    for question in ET.fromstring(content).iter("question"):
        if question.get("type") == "category":
            continue
        text = question.findtext("questiontext/text") or ""
        if question.get("type") == "numerical":
            given = [
                (a.get("fraction"), a.findtext("text"), a.findtext("tolerance"))
                for a in question.iter("answer")
            ]
            options = [[(f != "0", float(str(v)), float(str(t))) for f, v, t in given]]
        else:
            options = [_options(body) for body in EMBEDDED.findall(text)]
        found.append({"name": question.findtext("name/text"), "text": text, "fields": options})
    return found


def _options(body: str) -> list[tuple[bool, float, float]]:
    out = []
    for option in re.split(r"(?<!\\)~", body):
        numbers = re.split(r"(?<!\\)#", option)[0]
        right = numbers.startswith("=")
        value, tolerance = numbers.removeprefix("=").removeprefix("%0%").split(":")
        out.append((right, float(value), float(tolerance)))
    return out


def read_qti(content: bytes) -> list[tuple[str, list[float], list[float]]]:
    """Of each item in the manifest's order: its title, right numbers and tolerances."""
    found = []
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        manifest = ET.fromstring(package.read("imsmanifest.xml"))
        files = [e.get("href") for e in manifest.iter() if e.tag.endswith("}resource")]
        assert set(files) == set(package.namelist()) - {"imsmanifest.xml"}
        for name in files[1:]:
            item = ET.fromstring(package.read(str(name)))
            declared = item.findall(f"{QTI}responseDeclaration")
            ids = [d.get("identifier") for d in declared]
            inputs = [i.get("responseIdentifier") for i in item.iter(f"{QTI}textEntryInteraction")]
            assert ids == inputs
            right = [float(str(d.findtext(f"{QTI}correctResponse/{QTI}value"))) for d in declared]
            slack = [float(str(e.get("tolerance"))) for e in item.iter(f"{QTI}equal")]
            found.append((str(item.get("title")), right, slack))
    return found


def test_moodle_xml_contains_every_answer_with_its_tolerance() -> None:
    questions = read_moodle(moodle("Week 1", exercises()))
    assert len(questions) == len(exercises())
    for question, exercise in zip(questions, exercises(), strict=True):
        assert exercise.topic.name in str(question["name"])
        right = [[o for o in options if o[0]] for options in question["fields"]]
        np.testing.assert_allclose([o[0][1] for o in right], answers(exercise), atol=1e-9)
        assert {o[0][2] for o in right} == {exercise.tolerance}
        for options, row in zip(question["fields"], flat(exercise), strict=True):
            assert [o[1] for o in options if not o[0]] == pytest.approx([v for v, _ in row.wrong])


def test_wrong_numbers_of_a_quiz_overlap_with_no_other() -> None:
    for exercise in exercises():
        for field in flat(exercise):
            values = sorted([field.right, *(value for value, _ in field.wrong)])
            assert all(b - a > 2 * field.tolerance for a, b in pairwise(values))


def test_a_qti_package_contains_every_answer_with_its_tolerance() -> None:
    items = read_qti(qti("Week 1", exercises()))
    for (title, right, slack), exercise in zip(items, exercises(), strict=True):
        assert exercise.topic.name in title
        np.testing.assert_allclose(right, answers(exercise), atol=1e-9)
        assert set(slack) == {exercise.tolerance}
    assert qti("Week 1", exercises()) == qti("Week 1", exercises())


class Balanced(HTMLParser):
    """Checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_question_texts_are_balanced_html() -> None:
    for question in read_moodle(moodle("Week 1", exercises())):
        parser = Balanced()
        parser.feed(question["text"])
        assert parser.open == []
        assert question["text"].count(r"\[") == question["text"].count(r"\]")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pyslet", "ignore::SyntaxWarning")
def test_pyslet_reads_the_qti_items(tmp_path: Path) -> None:
    document = pytest.importorskip(
        "pyslet.qtiv2.xml", reason="pyslet, a QTI 2.1 parser, is missing"
    )
    uri = pytest.importorskip("pyslet.rfc2396")
    with zipfile.ZipFile(io.BytesIO(qti("Week 1", exercises()))) as package:
        package.extractall(tmp_path)
    for number, exercise in enumerate(exercises(), 1):
        path = uri.URI.from_path(str(tmp_path / f"item{number:02}.xml"))
        read = document.QTIDocument(base_uri=str(path))
        read.read()
        assert type(read.root).__name__ == "AssessmentItem"
        assert len(read.root.declarations) == len(answers(exercise)) + 1


def test_gift_pegjs_reads_the_questions(tmp_path: Path) -> None:
    node = shutil.which("node")
    if (
        node is None
        or subprocess.run(
            [node, "-e", "require('gift-pegjs')"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("node with gift-pegjs, a GIFT parser, is missing; set NODE_PATH")
    file = tmp_path / "questions.gift"
    file.write_bytes(gift("Week 1", exercises()))
    script = (
        "console.log(JSON.stringify(require('gift-pegjs').parse("
        "require('fs').readFileSync(process.argv[1], 'utf8'))))"
    )
    done = subprocess.run([node, "-e", script, str(file)], capture_output=True, check=True)
    questions = [q for q in json.loads(done.stdout) if q["type"] == "Numerical"]
    expected = [field for exercise in exercises() for field in flat(exercise)]
    assert len(questions) == len(expected)
    for question, field in zip(questions, expected, strict=True):
        numbers = [c["text"]["number"] for c in question["choices"]]
        assert numbers == pytest.approx([field.right, *(v for v, _ in field.wrong)], abs=1e-9)
        assert question["choices"][0]["text"]["range"] == field.tolerance
        assert [c["weight"] for c in question["choices"]] == [100, *([0] * len(field.wrong))]


def test_moodle_xml_parser_reads_the_embedded_answers() -> None:
    parser = pytest.importorskip(
        "moodle_xml_parser.parser", reason="moodle-xml-parser, a parser of Moodle XML, is missing"
    )
    content = moodle("Week 1", exercises()).decode()
    read = {question.name: question for question in parser.parse_string(content)["cloze"]}
    several = [e for e in exercises() if answers(e).size > 1]
    assert len(read) == len(several)
    for exercise in several:
        (question,) = (q for name, q in read.items() if f"({exercise.topic.name} 3)" in name)
        gaps = [gap for gap in question.gaps if gap.sub_type == "NUMERICAL"]  # others: LaTeX
        right = [[o.answer for o in gap.options if o.score == 100] for gap in gaps]
        assert [len(options) for options in right] == [1] * answers(exercise).size
        numbers = [float(option.partition(":")[0]) for (option,) in right]
        np.testing.assert_allclose(numbers, answers(exercise), atol=1e-9)


def test_the_tests_of_an_assignment_pass_only_with_right_answers(tmp_path: Path) -> None:
    """They run as in otter-grader: as doctests, with the names of the student's notebook."""
    with zipfile.ZipFile(io.BytesIO(otter("Week 1", exercises()[:6]))) as package:
        package.extractall(tmp_path)
    book = json.loads((tmp_path / "assignment.ipynb").read_text("utf-8"))
    source = ["".join(cell["source"]) for cell in book["cells"]]
    for number, exercise in enumerate(exercises()[:6], 1):
        assert f'grader.check("q{number}")' in source
        assert exercise.topic.title in source[3 * number - 1]
        found: dict[str, Any] = {}
        exec((tmp_path / "tests" / f"q{number}.py").read_text("utf-8"), found)
        (case,) = found["test"]["suites"][0]["cases"]
        right = right_answer(exercise, exercise.last)
        assert right not in case["code"]
        slip = next(iter(exercise.slips.values()))[exercise.last.name]
        for typed, failures in ((right, 0), (written(slip, exercise.decimals), 1)):
            test = doctest.DocTestParser().get_doctest(
                case["code"], {f"answer_{number}": typed}, "q", None, 0
            )
            assert doctest.DocTestRunner().run(test, out=str).failed == failures


@pytest.mark.filterwarnings("ignore")
def test_otter_grader_finds_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grader = pytest.importorskip("otter", reason="otter-grader is missing")
    with zipfile.ZipFile(io.BytesIO(otter("Week 1", exercises()[:2]))) as package:
        package.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"answer_1": right_answer(exercises()[0], exercises()[0].last), "answer_2": "1 2 3"}
    notebook = grader.Notebook("assignment.ipynb")
    passed = [notebook.check(f"q{n}", global_env=names).grade for n in (1, 2)]
    assert passed == [1, 0]


def test_gift_contains_every_number_with_its_tolerance() -> None:
    text = gift("Week 1", exercises()).decode()
    found = re.findall(r"=%100%(-?[\d.]+):([\d.]+)#", text)
    right = np.concatenate([answers(exercise) for exercise in exercises()])
    np.testing.assert_allclose([float(value) for value, _ in found], right, atol=1e-9)
    assert text.count("::[html]") == len(right)
    assert not re.search(r"\de[-+]?\d", re.sub(r"(?s)::.*?\{#", "", text))  # no exponents


def test_students_get_their_own_numbers(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("Ana López\n\nBo  Chen\n", "utf-8")
    assert read_names(names) == ["Ana López", "Bo Chen"]
    ana, bo = (make_sheet(["softmax", "rnn"], 4, 1, name) for name in read_names(names))
    assert [e.topic.name for e in ana.exercises] == ["softmax", "rnn"] * 2
    assert [e.numbers for e in ana.exercises] != [e.numbers for e in bo.exercises]
    assert ana == make_sheet(["softmax", "rnn"], 4, 1, "Ana López")
    names.write_text("Bo\nBo\n", "utf-8")
    with pytest.raises(InputError, match="different file names"):
        read_names(names)


def test_a_sheet_hides_the_solutions_that_its_other_version_has(tmp_path: Path) -> None:
    said = list(write_sheets(["layer-norm"], 2, 5, tmp_path / "sheet", formats=["gift"]))
    folder = tmp_path / "sheet"
    exercise = draw("layer-norm", 5)
    steps = [step.title for step in exercise.solution.steps]
    for suffix in ("md", "tex"):
        sheet = (folder / f"exercises.{suffix}").read_text("utf-8")
        solved = (folder / f"solutions.{suffix}").read_text("utf-8")
        assert exercise.topic.title in sheet
        assert not any(step in sheet for step in steps)
        assert all(step in solved for step in steps)
        assert "layer-norm" in solved
    assert (folder / "questions.gift").exists()
    has_pdf = bool(list(folder.glob("*.pdf")))
    assert has_pdf != any("LaTeX is not installed" in line for line in said)
    with pytest.raises(InputError, match="already exists"):
        list(write_sheets(["rnn"], 1, 5, folder))
    with pytest.raises(InputError, match="expected one of moodle"):
        list(write_sheets(["rnn"], 1, 5, tmp_path / "new", formats=["word"]))
