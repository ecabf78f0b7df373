"""Exercises as quizzes for learning platforms: Moodle XML, GIFT, and QTI 2.1 packages.

Every number of an answer is one field with a tolerance. In Moodle XML and GIFT, the numbers that
result from common slips are wrong answers with feedback.
"""

import html
import io
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from xml.etree import ElementTree as ET

import numpy as np

from translucid.practice.exercise import Exercise
from translucid.see.render.frame import escape
from translucid.see.render.latex import with_formulas
from translucid.see.render.mathml import mathml
from translucid.worked.solution.content import Content, SolutionTable
from translucid.worked.solution.document import aligned, grown

_QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
_CP = "http://www.imsglobal.org/xsd/imscp_v1p1"
_MATHML = "http://www.w3.org/1998/Math/MathML"
_XMLNS = f' xmlns="{_MATHML}"'
Write: TypeAlias = Callable[[str, Sequence[Exercise]], bytes]


@dataclass(frozen=True)
class Field:
    """One number to enter."""

    place: tuple[int, ...]  # row and column, counted from 1; empty for a single number
    right: float
    tolerance: float
    wrong: tuple[tuple[float, str], ...]  # the number that a slip leads to, and what to say

    @property
    def label(self) -> str:
        if not self.place:
            return ""
        if len(self.place) == 1:
            return f"number {self.place[0]}"
        return f"row {self.place[0]}, column {self.place[1]}"


def fields(exercise: Exercise) -> list[list[Field]]:
    """The fields of an exercise, in rows."""
    right = exercise.right[exercise.last.name]
    rows = np.atleast_2d(right)
    return [
        [
            Field(
                ((), (j + 1,), (i + 1, j + 1))[right.ndim], float(rows[i, j]), exercise.tolerance,
                _wrong(exercise, i, j),
            )
            for j in range(rows.shape[1])
        ]
        for i in range(rows.shape[0])
    ]  # fmt: skip


def _wrong(exercise: Exercise, i: int, j: int) -> tuple[tuple[float, str], ...]:
    """The wrong numbers at this position, far enough from the right one and from each other."""
    name, seen = (
        exercise.last.name,
        [float(np.atleast_2d(exercise.right[exercise.last.name])[i, j])],
    )
    out: list[tuple[float, str]] = []
    for mistake in exercise.topic.slips:
        if mistake.name in exercise.slips:
            value = float(np.atleast_2d(exercise.slips[mistake.name][name])[i, j])
            if all(abs(value - other) > 2.5 * exercise.tolerance for other in seen):
                seen.append(value)
                out.append((value, mistake.say))
    return tuple(out)


# ---- Texts ----


def _html(text: str, formula: Callable[[str], str]) -> str:
    return with_formulas(text, escape, formula)


def _tex(latex: str) -> str:
    return rf"\({escape(latex)}\)"


def _display_tex(latex: str) -> str:
    return rf"\[{escape(latex)}\]"


def _display_mathml(latex: str) -> str:
    return mathml(latex, display=True)


def _content(content: Content, inline: Callable[[str], str], display: Callable[[str], str]) -> str:
    """A question or a solution as HTML."""
    formulas = [
        f"{item.symbol} = {grown(item.text)}" for item in content.given if item.table is None
    ]
    out = [f"<p>{display(formula)}</p>" for formula in formulas]
    for item in content.given:
        if item.table is not None:
            out += [f"<p>{_html(item.symbol, inline)}</p>", _table(item.table, inline)]
    for number, _, step in content.numbered():
        out.append(f"<p>{number}. {_html(step.title, inline)}</p>")
        if step.sides():
            out.append(f"<p>{display(aligned(step))}</p>")
        if step.table is not None:
            out.append(_table(step.table, inline))
    out += [f"<p>{_html(content.closing, inline)}</p>"] if content.closing else []
    return "".join(out)


def _table(table: SolutionTable, inline: Callable[[str], str]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{_html(c, inline)}</{tag}>' for c in cells)}</tr>"

    rows = [row(table.header, "th"), *(row(cells, "td") for cells in table.rows)]
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def _question(exercise: Exercise) -> str:
    return _content(exercise.question("written"), _tex, _display_tex)


def _name(number: int, exercise: Exercise) -> str:
    return f"{number:02} {exercise.topic.title} ({exercise.topic.name} {exercise.seed})"


def _number(value: float) -> str:
    """A number with up to 10 decimals and without an exponent, which GIFT does not allow."""
    return f"{round(value, 10) + 0.0:.10f}".rstrip("0").rstrip(".")


# ---- Moodle XML ----


def moodle(title: str, exercises: Sequence[Exercise]) -> bytes:
    """A quiz as Moodle XML: numerical questions, and embedded answers for several numbers."""
    quiz = ET.Element("quiz")
    category = ET.SubElement(quiz, "question", type="category")
    _text(category, "category", f"$course$/top/{title.replace('/', '//')}")
    for number, exercise in enumerate(exercises, 1):
        rows = fields(exercise)
        single = len(rows) == len(rows[0]) == 1
        question = ET.SubElement(quiz, "question", type="numerical" if single else "cloze")
        _text(question, "name", _name(number, exercise))
        body = _question(exercise) + ("" if single else _cloze(rows))
        _text(question, "questiontext", body, format="html")
        _text(question, "generalfeedback", _content(exercise.solution, _tex, _display_tex),
              format="html")  # fmt: skip
        ET.SubElement(question, "penalty").text = "0.3333333"
        ET.SubElement(question, "hidden").text = "0"
        if single:
            ET.SubElement(question, "defaultgrade").text = "1"
            field = rows[0][0]
            for fraction, value, say in [
                ("100", field.right, "Right."), *(("0", v, say) for v, say in field.wrong)
            ]:  # fmt: skip
                answer = ET.SubElement(question, "answer", fraction=fraction)
                ET.SubElement(answer, "text").text = _number(value)
                ET.SubElement(answer, "tolerance").text = _number(field.tolerance)
                _text(answer, "feedback", escape(say), format="html")
    return _xml(quiz)


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(ET.SubElement(parent, tag, attributes), "text").text = text


def _xml(root: ET.Element) -> bytes:
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _cloze(rows: list[list[Field]]) -> str:
    cells = [f"<tr>{''.join(f'<td>{_embedded(f)}</td>' for f in row)}</tr>" for row in rows]
    return f"<table><tbody>{''.join(cells)}</tbody></table>"


def _embedded(field: Field) -> str:
    """One number in Moodle's notation for embedded answers."""
    tolerance = _number(field.tolerance)
    answers = [f"={_number(field.right)}:{tolerance}"]
    answers += [f"%0%{_number(v)}:{tolerance}#{_guarded(say)}" for v, say in field.wrong]
    return f"{{1:NUMERICAL:{'~'.join(answers)}}}"


def _guarded(text: str) -> str:
    return re.sub(r'([}#~/"\\])', r"\\\1", html.escape(text, quote=False))


# ---- GIFT ----


def gift(title: str, exercises: Sequence[Exercise]) -> bytes:
    """A quiz as GIFT. This format has no questions with several fields, so each number of an answer
    is a separate question."""
    out = [f"// {title}", f"$CATEGORY: {title}"]
    for number, exercise in enumerate(exercises, 1):
        for row in fields(exercise):
            for field in row:
                name, ask = _name(number, exercise), ""
                if field.label:
                    name, ask = f"{name}, {field.label}", f"<p>Enter only {field.label}.</p>"
                answers = [f"=%100%{_number(field.right)}:{_number(field.tolerance)}#Right."]
                answers += [
                    f"=%0%{_number(value)}:{_number(field.tolerance)}#{_gift(say)}"
                    for value, say in field.wrong
                ]
                text = _gift(_question(exercise) + ask)
                lines = "\n".join(f"  {answer}" for answer in answers)
                out.append(f"::{_gift(name)}::[html]{text}{{#\n{lines}\n}}")
    return ("\n\n".join(out) + "\n").encode()


def _gift(text: str) -> str:
    """Escape the characters that have a special meaning in GIFT."""
    return re.sub(r"([\\~=#{}:])", r"\\\1", text)


# ---- QTI 2.1 ----


def qti(title: str, exercises: Sequence[Exercise]) -> bytes:
    """A quiz as a QTI 2.1 package: a zip file with one item for each exercise, and a test."""
    packed = io.BytesIO()
    names = [f"item{number:02}" for number in range(1, len(exercises) + 1)]
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as package:
        put(package, "imsmanifest.xml", _manifest(names))
        put(package, "test.xml", _test(title, names))
        for number, (name, exercise) in enumerate(zip(names, exercises, strict=True), 1):
            put(package, f"{name}.xml", _item(name, number, exercise))
    return packed.getvalue()


def put(package: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes at any time
    info.compress_type = zipfile.ZIP_DEFLATED
    package.writestr(info, content)


def _manifest(names: list[str]) -> bytes:
    root = ET.Element("manifest", xmlns=_CP, identifier="translucid-practice")
    metadata = ET.SubElement(root, "metadata")
    ET.SubElement(metadata, "schema").text = "QTIv2.1 Package"
    ET.SubElement(metadata, "schemaversion").text = "1.0.0"
    ET.SubElement(root, "organizations")
    resources = ET.SubElement(root, "resources")
    for name in ("test", *names):
        kind = "imsqti_test_xmlv2p1" if name == "test" else "imsqti_item_xmlv2p1"
        resource = ET.SubElement(
            resources, "resource", identifier=f"resource-{name}", type=kind, href=f"{name}.xml"
        )
        ET.SubElement(resource, "file", href=f"{name}.xml")
        for item in names if name == "test" else ():
            ET.SubElement(resource, "dependency", identifierref=f"resource-{item}")
    return _xml(root)


def _test(title: str, names: list[str]) -> bytes:
    root = ET.Element("assessmentTest", xmlns=_QTI, identifier="test", title=title)
    part = ET.SubElement(
        root, "testPart", identifier="part", navigationMode="nonlinear",
        submissionMode="individual",
    )  # fmt: skip
    section = ET.SubElement(
        part, "assessmentSection", identifier="section", title=title, visible="true"
    )
    for name in names:
        ET.SubElement(section, "assessmentItemRef", identifier=name, href=f"{name}.xml")
    return _xml(root)


def _item(name: str, number: int, exercise: Exercise) -> bytes:
    """One item: a field for each number, with an absolute tolerance and equal points."""
    rows = fields(exercise)
    flat = [field for row in rows for field in row]
    ids = [f"RESPONSE{i}" for i in range(1, len(flat) + 1)]
    root = ET.Element(
        "assessmentItem", xmlns=_QTI, identifier=name, title=_name(number, exercise),
        adaptive="false", timeDependent="false",
    )  # fmt: skip
    for response, field in zip(ids, flat, strict=True):
        declared = ET.SubElement(
            root, "responseDeclaration", identifier=response, cardinality="single",
            baseType="float",
        )  # fmt: skip
        correct = ET.SubElement(declared, "correctResponse")
        ET.SubElement(correct, "value").text = _number(field.right)
    score = ET.SubElement(
        root, "outcomeDeclaration", identifier="SCORE", cardinality="single", baseType="float",
        normalMaximum=str(len(flat)),
    )  # fmt: skip
    ET.SubElement(ET.SubElement(score, "defaultValue"), "value").text = "0"
    text = _content(exercise.question("written"), mathml, _display_mathml)
    # Without its namespace, which ElementTree would turn into a prefix of every element.
    body = ET.fromstring(f"<itemBody><div>{text.replace(_XMLNS, '')}</div></itemBody>")
    for formula in body.iter("math"):
        formula.set("xmlns", _MATHML)
    inputs = ET.SubElement(ET.SubElement(body, "table"), "tbody")
    at = iter(ids)
    for row in rows:
        line = ET.SubElement(inputs, "tr")
        for _ in row:
            ET.SubElement(
                ET.SubElement(line, "td"), "textEntryInteraction", responseIdentifier=next(at)
            )
    root.append(body)
    processing = ET.SubElement(root, "responseProcessing")
    for response, field in zip(ids, flat, strict=True):
        condition = ET.SubElement(ET.SubElement(processing, "responseCondition"), "responseIf")
        tolerance = _number(field.tolerance)
        equal = ET.SubElement(condition, "equal", toleranceMode="absolute", tolerance=tolerance)
        ET.SubElement(equal, "variable", identifier=response)
        ET.SubElement(equal, "correct", identifier=response)
        points = ET.SubElement(condition, "setOutcomeValue", identifier="SCORE")
        total = ET.SubElement(points, "sum")
        ET.SubElement(total, "variable", identifier="SCORE")
        ET.SubElement(total, "baseValue", baseType="float").text = "1"
    return _xml(root)
