"""What the pages show is what the program prints: every example in them is run.

A ```python block with >>> prompts is a doctest, and the blocks of a page share their names. In a
```console block a line `$ command` is run with the package's own command line, and what follows
must be its output; a line `...` there stands for lines left out.
"""

import doctest
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.decode_table import place, write_table
from tests.in_process import Answer, run
from tests.reference_pages import GENERATED, generated
from tests.serving.running import running, served

import translucid as tl
from translucid.cli.shared.inputs import inputs_of

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
    if page.parent == ROOT / "docs/course":
        for made in folder.glob("*.svg"):
            assert texts_of(made) == texts_of(ROOT / "docs/images/course" / made.name), made.name


def texts_of(figure: Path) -> list[str]:
    return re.findall(r">([^<>]+)</text>", figure.read_text("utf-8"))


def commands(page: Path) -> Iterator[tuple[str, str]]:
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("translucid"):
                yield command, output


PAGES_WITH_COMMANDS = [page for page in PAGES if any(commands(page))]
# Training commands of a page get these settings, and data that it writes has at most 40 lines.
SMALL = ["training.steps=2", "training.device=cpu", "model.d_model=16", "model.tied=false"]


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    check_commands(page, folder, run)


def check_commands(page: Path, folder: Path, run: Callable[..., Answer]) -> None:
    """Run the commands of a page one after the other in one folder."""
    for command, output in commands(page):
        words = shlex.split(command)[1:]
        if words[0] == "train":
            own = {word.partition("=")[0] for word in words}
            words += [word for word in SMALL if word.partition("=")[0] not in own]
        for word in words:
            if words[0] == "data" and len(word) > 3 and word.isdecimal():
                words[words.index(word)] = "40"
                output = output.replace(f"{int(word):,}", "40")
        ran = run(*words, cwd=folder)
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


README = (ROOT / "README.md").read_text("utf-8")
TRIED = re.findall(r"^\| [^|]+ \| `translucid ([^`]+)` \|", README, re.MULTILINE)


@pytest.mark.parametrize("command", TRIED, ids=lambda command: command.split()[0])
def test_each_task_of_the_readme_has_a_line_that_works(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    if words[1].startswith("hf:"):  # not without the network: the text is accepted as one
        assert inputs_of(words[2:], words[0], tmp_path).texts == tuple(words[2:])
        return
    ran = run(*words, cwd=tmp_path)
    assert (ran.returncode, ran.stdout.strip() != "") == (0, True), ran.stderr


def test_the_readme_resumes_and_opens_its_run() -> None:
    section = README.partition("## Train on your files")[2].partition("## ")[0]
    assert "--out runs/mine" in section
    for command in ("resume", "explore"):
        assert f"`translucid {command} runs/mine`" in section


def requests_of_the_readme() -> tuple[str, str, str]:
    """The path and the body of its curl command, and the program that uses the openai client."""
    section = README.partition("## Serve")[2].partition("\n## ")[0]
    path, sent = re.findall(r"^curl \S+:8000(\S+) .* -d '(.*)'$", section, re.MULTILINE)[0]
    (lines,) = blocks(ROOT / "README.md", "py")
    assert "translucid serve runs/demo" in section
    assert 'model="demo"' in lines
    return path, sent, lines


def test_what_the_readme_sends_to_its_server_is_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("openai", reason="the openai client is not installed")
    path, sent, lines = requests_of_the_readme()
    model = tl.load("demo:translate")
    with running([served("demo", model)]) as server:
        (expected,) = model.translate([json.loads(sent)["text"]])
        assert server.get(path, json.loads(sent))["results"][0]["texts"][0]["text"] == expected
        exec(lines.replace("http://127.0.0.1:8000", server.address), {})
    assert capsys.readouterr().out == f"{expected}\n"


def test_the_readme_shows_the_figure_that_its_lines_draw(tmp_path: Path) -> None:
    figure = (
        tl.load("demo:translate")
        .trace("The dog does not sleep.")
        .figure("decoder.layers.*.cross_attention.pattern")
    )
    figure.save(tmp_path / "made.svg")
    assert texts_of(tmp_path / "made.svg") == texts_of(ROOT / "docs/images/readme-heads.svg")


def test_badges_and_citation_agree_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    badge = (ROOT / "docs/images/badge-python.svg").read_text("utf-8")
    assert project["requires-python"].removeprefix(">=") + "+" in badge
    assert project["license"] in (ROOT / "docs/images/badge-license.svg").read_text("utf-8")
    assert f'version: "{tl.__version__}"' in (ROOT / "CITATION.cff").read_text("utf-8")
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 165


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.name)
def test_generated_pages_agree_with_the_code(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == generated(page, text), "python -m tests.reference_pages writes the pages anew"


def test_decoding_tables_agree_with_the_results(tmp_path: Path) -> None:
    """The newest results of each machine and instruction set are in a table of their own."""
    read = (json.loads(f.read_text("utf-8")) for f in (ROOT / "bench/results").glob("*.json"))
    results = [result for result in read if {"rounds", "races"} <= result.keys()]  # decode.py
    results.sort(key=lambda result: str(result["when"]))
    text = (ROOT / "docs/explanation/speed.md").read_text("utf-8")
    page = tmp_path / "speed.md"
    page.write_text(text, "utf-8")
    write_table(page, results)
    assert len({place(result) for result in results}) >= 5
    assert page.read_text("utf-8") == text, "python bench/decode.py --table writes the tables anew"
