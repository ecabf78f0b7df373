"""Markdown, LaTeX and JSON: well-formed always, and compiled where a compiler is at hand."""

import json
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
import torch
from tests.worked.test_solutions import SOLUTIONS, solutions_with_few_digits

from translucid import worked
from translucid.core import catalogue
from translucid.worked.solution.document import grown
from translucid.worked.solution.notation import Writer

PLACEHOLDER = re.compile(r"<\w+>")
PRIVATE = re.compile("[\ue000-\uf8ff]")


def problems(latex: str) -> list[str]:
    """What keeps a piece of LaTeX from being well-formed."""
    found: list[str] = []
    stack: list[str] = []
    for token in re.findall(
        r"\\\\|\\begin\{\w+\*?\}|\\end\{\w+\*?\}|\\left\b|\\right\b|\\.|[{}]", latex
    ):
        if token.startswith(r"\begin"):
            stack.append(token[6:])
        elif token.startswith(r"\end"):
            if not stack or stack.pop() != token[4:]:
                found.append(f"{token} without its beginning")
        elif token in ("{", r"\left"):
            stack.append(token)
        elif token in ("}", r"\right"):
            wanted = {"}": "{", r"\right": r"\left"}[token]
            if not stack or stack.pop() != wanted:
                found.append(f"{token} without {wanted}")
    found += [f"{token} is never closed" for token in stack]
    found += [f"placeholder {match}" for match in PLACEHOLDER.findall(latex)]
    found += ["a mark was left"] if PRIVATE.search(latex) else []
    math = re.sub(r"\\text\{[^}]*\}", "", latex)
    if math.count("$") % 2:
        found.append("an odd number of $")
    return found


def test_the_check_finds_what_is_wrong() -> None:
    assert problems(r"\begin{bmatrix} 1 \end{bmatrix} \left( x_{1} \right)") == []
    for bad in (
        r"{",
        r"\frac{1}{2}}",
        r"\begin{bmatrix} 1",
        r"\left( x",
        "<query>",
        "\ue000",
        "$x",
    ):
        assert problems(bad), bad


@pytest.mark.parametrize("key", catalogue.CATALOGUE)
def test_every_formula_is_well_formed_with_all_numbers_put_in(key: str) -> None:
    point = catalogue.CATALOGUE[key]
    numbers = (torch.tensor(-2.5), torch.tensor([1.0, -1e-9]), torch.randn(3, 2))
    for template, value in product((point.formula, *point.forms.values()), numbers):
        names = PLACEHOLDER.findall(template)
        values = {name.strip("<>"): value for name in names}
        written = Writer(3).numbers(template, key.partition(".")[0], dict(values))
        assert problems(written) == []
        assert problems(grown(written)) == []
        assert written.count("bmatrix") >= (2 * len(names) if value.numel() > 1 else 0)


@pytest.mark.parametrize("kind", SOLUTIONS)
def test_documents_are_well_formed(kind: str) -> None:
    solution = solutions_with_few_digits()[kind]
    for step in solution.steps:
        for text in (step.symbol, step.formula, step.numbers, step.result):
            assert problems(text) == [], step.title
    latex = solution.latex()
    assert latex.startswith(r"\documentclass")
    assert latex.endswith("\\end{document}\n")
    assert problems(latex) == []
    body = re.sub(r"\$\$.*?\$\$", "", solution.markdown(), flags=re.S)
    assert problems(re.sub(r"\\[<>]", "", body)) == []
    assert solution.markdown().count("$$") % 2 == 0


@pytest.mark.parametrize("kind", SOLUTIONS)
def test_each_step_stands_in_every_document(kind: str) -> None:
    solution = SOLUTIONS[kind]
    content = json.loads(solution.json(), parse_constant=pytest.fail)
    assert [step["number"] for step in content["steps"]] == [*range(1, len(solution.steps) + 1)]
    latex, markdown, text = solution.latex(), solution.markdown(), solution.text(200)
    for number, step in enumerate(solution.steps, 1):
        assert f"\\textbf{{{number}.}}" in latex
        assert f"**{number}. " in markdown
        assert f"\n{number}. " in text
        for side in step.sides():
            assert grown(side) in latex
            assert grown(side) in markdown


SPECIAL = {"a_b & 50% $5 \\frac{": {"#1": 0.5, "{x}~^\\$": 0.3, "漢字": 0.2}}


def test_special_characters_are_escaped() -> None:
    solution = worked.beam(SPECIAL)
    latex = solution.latex()
    assert r"a\_b \& 50\% \$5 \textbackslash{}frac\{" in latex
    assert r"\#1" in latex
    assert r"\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}\$" in latex
    assert problems(re.sub(r"\\[{}$]", "", latex)) == []
    assert "a_b & 50% $5 \\frac{ " in solution.text()
    assert r"a\_b & 50% \$5 \\frac{" in solution.markdown()
    assert "a_b & 50% $5 \\\\frac{" in solution.json()
    for text in (latex, solution.text(), solution.markdown(), solution.json()):
        assert not PRIVATE.search(text)


def test_a_formula_grows_its_parentheses() -> None:
    matrix = r"\begin{bmatrix} 1 \end{bmatrix}"
    assert grown(rf"\exp({matrix} - (1))") == rf"\exp\left({matrix} - (1)\right)"
    assert grown("(1 - z)") == "(1 - z)"
    assert grown(rf"\lVert {matrix} \rVert^2").startswith(r"\left\lVert")


needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None,
    reason="pdflatex is not installed (texlive-latex-recommended); only the structure was checked",
)


def typeset(document: str, folder: Path) -> None:
    (folder / "solution.tex").write_text(document, "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "solution.tex"]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace"
    )
    assert run.returncode == 0, run.stdout[-2000:]
    assert (folder / "solution.pdf").stat().st_size > 1000
    assert "Overfull \\hbox" not in run.stdout


@needs_latex
def test_all_solutions_compile_in_one_document(tmp_path: Path) -> None:
    found = [worked.beam(SPECIAL), *solutions_with_few_digits().values()]
    bodies = "\n\n\\clearpage\n".join(solution._repr_latex_() for solution in found)
    only = found[0]  # its preamble knows the letters that are not Latin
    typeset(only.latex().replace(only._repr_latex_(), bodies), tmp_path)


@needs_latex
@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLUTIONS)
def test_every_latex_document_compiles(kind: str, tmp_path: Path) -> None:
    typeset(solutions_with_few_digits()[kind].latex(), tmp_path)


@pytest.mark.parametrize("word", ["[am", "*am", "[2pt]", "]"])
def test_no_word_is_taken_for_an_option_of_the_line_end_before_it(word: str) -> None:
    """`\\\\ [am` would ask TeX for a length."""
    table = {f"{word}": {word: 0.6, "b": 0.4}, f"{word} {word}": {f"{word}x": 0.5, word: 0.5}}
    text = worked.beam(table=table, prefix=word).latex()
    assert word.replace("]", "") in text.replace("{", "").replace("}", "")
    assert re.findall(r"\\\\\s*[\[*]", text) == []
    assert problems(text) == []
