"""What the pages show is what the program prints: every example in them is run.

A ```python block with >>> prompts is a doctest, and the blocks of a page share their names. In a
```console block a line `$ command` is run with the package's own command line, and what follows
must be its output; a line `...` there stands for lines left out.
"""

import doctest
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.in_process import run
from tests.reference_pages import GENERATED, generated

import translucid as tl

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS_MODELS = ("figures.md",)  # tests/see/test_page.py makes them


def blocks(page: Path, language: str) -> Iterator[str]:
    yield from re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the examples of a page run: they may write files, and read those of the checkout."""
    for name in ("examples", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in NEEDS_MODELS], ids=lambda page: page.name
)
def test_python_examples(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for code in blocks(page, "python"):
        example = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), 0)
        report: list[str] = []
        runner.run(example, out=report.append, clear_globs=False)
        names = example.globs
        assert not report, "".join(report)


def commands(page: Path) -> Iterator[tuple[str, str]]:
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("translucid"):
                yield command, output


PAGES_WITH_COMMANDS = [page for page in PAGES if any(commands(page))]
# Training commands of a page get these settings, and data that it writes is cut to 40 lines.
SMALL = ["training.steps=2", "training.device=cpu", "model.d_model=16", "model.tied=false"]


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of a page run one after the other in one folder."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for command, output in commands(page):
        words = shlex.split(command)[1:]
        ran = run(*words, *(SMALL if words[0] == "train" else ()), cwd=folder)
        assert ran.returncode == 0, (command, ran.stderr)
        if words[0] != "train":
            pattern = re.escape(output.strip()).replace(r"\.\.\.", ".*")
            assert re.fullmatch(pattern, ran.stdout.strip(), re.DOTALL), (command, ran.stdout)
        if words[0] == "data":
            for path in (folder / "corpus").glob("*.??"):
                lines = path.read_text("utf-8").splitlines(keepends=True)
                path.write_text("".join(lines[:40]), "utf-8")


LINK = re.compile(r"""\]\(([^)\s]+)\)|(?:href|src)="([^"]+)\"""")
ELSEWHERE = re.compile(r"[a-z]+:")  # https:, mailto:, moment:
MARKDOWN = [*PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md",
            "SECURITY.md", "CODE_OF_CONDUCT.md", "tests/invariants/README.md"))]  # fmt: skip


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get where Markdown is rendered."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in (first or second for first, second in LINK.findall(text)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not ELSEWHERE.match(path):
            assert target.exists(), link
            assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_the_readme_trains_on_files_of_ones_own(tmp_path: Path) -> None:
    """Its three commands, on small files and for two steps."""
    page = (ROOT / "README.md").read_text("utf-8")
    section = page.partition("## Train on your files")[2].partition("## ")[0]
    train, translate, explore = re.findall(r"^translucid .+$", section, re.MULTILINE)
    for language, word in (("en", "dog"), ("de", "Hund")):
        for part in ("train", "test", "new"):
            lines = "".join(f"{word} {number}\n" for number in range(20))
            (tmp_path / f"{part}.{language}").write_text(lines, "utf-8")
    (tmp_path / "new.de").unlink()
    small = ["training.steps=2", "training.device=cpu", "model.d_model=16", "model.heads=2"]
    for command in ([*shlex.split(train), *small, "model.layers=1"], shlex.split(translate)):
        ran = run(*command[1:], cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
    assert len((tmp_path / "new.de").read_text("utf-8").splitlines()) == 20
    assert shlex.split(explore)[1:] == ["explore", "runs/mine"]
    resume = re.search(r"`translucid (resume runs/mine)`", section)
    assert resume
    assert run(*resume[1].split(), cwd=tmp_path).returncode == 0


def test_badges_and_citation_agree_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    badge = (ROOT / "docs/images/badge-python.svg").read_text("utf-8")
    assert project["requires-python"].removeprefix(">=") + "+" in badge
    assert project["license"] in (ROOT / "docs/images/badge-license.svg").read_text("utf-8")
    assert f'version: "{tl.__version__}"' in (ROOT / "CITATION.cff").read_text("utf-8")
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.name)
def test_generated_pages_agree_with_the_code(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == generated(page, text), "python -m tests.reference_pages writes the pages anew"
