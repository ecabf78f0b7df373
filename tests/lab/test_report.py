"""The page of the lab: one file, everything in it escaped, with the numbers that were measured."""

import re
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from translucid.see.pictures import Axis, Bars, Grid, Heat, Lines
from translucid.see.render.drawing import SIZE
from translucid_lab.claims import experiments
from translucid_lab.engine.evidence import Evidence, rows
from translucid_lab.engine.experiment import Claim, Experiment, claims, in_plain_words, of_file
from translucid_lab.engine.intervals import BarComparison
from translucid_lab.engine.report import page, write
from translucid_lab.engine.report_figures import dots, figure, number, numbers
from translucid_lab.engine.report_front import WORKED
from translucid_lab.engine.results import AGAIN, ELSEWHERE, Kept, keep, latest, read, shipped
from translucid_lab.engine.runner import ExperimentResult, run
from translucid_lab.engine.verdict import Finding, Verdict

FILE = Path(__file__).with_name("planted.py")
HOSTILE = '<script>alert("1")</script> & <b>'
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags, ids, links, and whether everything that opens is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, found in self.tags if (value := found.get(name)) is not None]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Evidence]:
    out = tmp_path_factory.mktemp("lab")
    known = experiments()
    chosen = [known["softmax-scale"], known["own-token"], of_file(FILE)[0]]
    for result in run(chosen, out, quick=True):
        assert isinstance(result, ExperimentResult)
        keep(out, result)
    return rows(known, {name: each for name, each in latest(out).items() if name in
                        {made.name for made in chosen}})  # fmt: skip


@pytest.fixture(scope="module")
def text(measured: list[Evidence]) -> str:
    return page(measured)


@pytest.mark.slow
def test_the_page_is_whole_and_loads_nothing(text: str) -> None:
    found = Page(text)
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    links = found.values("href") + found.values("xlink:href")
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert all(link.startswith(("#", "https://", "data:")) for link in links)
    assert {tag for tag, _ in found.tags} & {"link", "iframe", "object", "embed"} == set()
    assert all(value.startswith("data:") for value in found.values("src"))
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "default-src 'none'" in text


def test_every_claim_is_on_the_front_and_what_ran_has_a_section(
    text: str, measured: list[Evidence]
) -> None:
    found = Page(text)
    words = " ".join(found.words)
    for key, claim in claims().items():
        assert claim.says in words, key
    sections = [each["id"] for tag, each in found.tags if each.get("class") == "card claim"]
    assert sections == ["C46", "C47", "C48", "own-planted-planted"]
    for row in measured:
        if row.kept and row.finding:
            assert row.kept.rules[row.claim.key] in words
            assert row.finding.why[1:60] in words
            assert row.claim.notes in words
            assert row.difference in words
    for command in WORKED:
        assert f"translucid work {command}" in words
    order = [text.index(f'id="{name}"') for name in ("depends", "supported", "C46")]
    assert order == sorted(order)
    assert text.count("<figure") == len(sections)
    assert "def _scale(seed: int, quick: bool)" in words  # the code that measured
    assert str(FILE.parent) not in text  # whose computer it was


def test_the_commands_of_the_worked_examples_exist() -> None:
    from translucid.worked import EXERCISES

    assert set(WORKED) == {exercise.__name__.replace("_", "-") for exercise in EXERCISES}


def test_differences_are_a_plain_sentence(measured: list[Evidence]) -> None:
    (row,) = [row for row in measured if row.claim.key == "C48"]
    assert row.kept is not None
    kept = replace(row.kept, findings={"C48": Finding("supported", "by chance")})
    told = page([replace(row, kept=kept)])
    sentence = "The literature calls this wrong; these measurements support it."
    assert told.count(sentence) == 2  # on the front, and in its section
    assert "where measurement and literature differ" in told
    assert sentence not in page([row])


def test_surprising_claims_come_first_with_a_sentence_and_a_small_figure(
    measured: list[Evidence],
) -> None:
    (row,) = [row for row in measured if row.claim.key == "C48"]
    assert row.kept is not None
    told = {}
    for verdict in ("refuted", "depends", "undecided"):
        kept = replace(row.kept, findings={"C48": Finding(verdict, "as numbers have it")})
        told[verdict] = page([replace(row, kept=kept)])
    for verdict, text in told.items():
        there = text.index('id="surprises"') < text.index(f'id="{verdict}"') if (
            'id="surprises"' in text) else False  # fmt: skip
        assert there == (verdict != "undecided"), verdict  # nobody is surprised by what is open
        assert text.count('<div class="small"><svg') == there
    sentence = in_plain_words("C48", "refuted")
    assert told["refuted"].count(sentence) == 2  # on the front, and in its section
    assert sentence not in told["depends"]
    small = re.findall(r'<div class="small">(.*?)</div>', told["refuted"])
    assert "<rect" in small[0]  # the bars of its figure
    assert "<text" not in small[0]


def test_sentences_belong_to_claims_and_verdicts() -> None:
    """Every verdict that stands first on the page of the package has one."""
    sentences = tomllib.loads(
        files("translucid_lab.engine").joinpath("plain_words.toml").read_text("utf-8")
    )
    assert set(sentences) <= set(claims())
    for by_verdict in sentences.values():
        assert set(by_verdict) <= set(get_args(Verdict))
        assert all(30 < len(sentence) < 200 and sentence.endswith(".")
                   for sentence in by_verdict.values())  # fmt: skip
    for row in rows(experiments(), shipped()):
        if row.surprising and row.finding and not row.older_rule:
            assert in_plain_words(row.claim.key, row.finding.verdict), row.claim.key


def test_confidence_lists_the_repetitions(measured: list[Evidence]) -> None:
    (row,) = [row for row in measured if row.claim.key == "C48"]
    assert row.kept is not None
    full = replace(row.kept, quick=False, seeds=10)
    alone = replace(row, kept=full)
    assert alone.confidence[-3:] == [
        "Not measured again with other seeds.",
        "Not measured on another kind of machine.",
        "Not tested at another size than what was varied here.",
    ]
    moved = replace(full, machine="a mainframe", first_seed=3000)
    real = replace(full, findings={"C48": Finding("depends", "in truth")})
    sure = replace(alone, again=replace(full, first_seed=2000), elsewhere=moved, real=real)
    again, elsewhere, size = sure.confidence[-3:]
    assert again.startswith("Measured again with 10 seeds from 2000 on: the same verdict.")
    assert elsewhere.startswith("On another kind of machine (a mainframe; 10 seeds from 3000 on): "
                                "the same verdict.")  # fmt: skip
    assert size == "Tested at another size, beyond the toy: depends."
    other = replace(moved, findings={"C48": Finding("undecided", "too close")})
    assert "undecided. too close" in replace(sure, elsewhere=other).other_machine
    moved_only = replace(alone, elsewhere=other)
    assert moved_only.wavers
    assert moved_only.repetition == ""  # these were other seeds
    assert "depends, then undecided" in page([moved_only])


def test_another_kind_of_machine_has_a_file_of_its_own(tmp_path: Path) -> None:
    result = next(iter(run(of_file(FILE)[:1], tmp_path)))
    assert isinstance(result, ExperimentResult)
    kept = keep(tmp_path, replace(result, first=0))
    keep(tmp_path, replace(result, first=100))
    assert set(read(tmp_path, AGAIN)) == {"planted"}
    assert read(tmp_path, ELSEWHERE) == {}
    content = (tmp_path / "results.json").read_text("utf-8")
    (tmp_path / "results.json").write_text(content.replace(kept.machine, "a mainframe"), "utf-8")
    keep(tmp_path, replace(result, first=200))
    assert read(tmp_path, AGAIN)["planted"].first_seed == 100
    elsewhere = read(tmp_path, ELSEWHERE)
    assert elsewhere["planted"].first_seed == 200
    by_name = [read(tmp_path), read(tmp_path, AGAIN), {}, elsewhere]
    (row,) = [row for row in rows({}, *by_name) if row.claim.key == "planted"]
    assert row.elsewhere == elsewhere["planted"]


def test_verdicts_that_other_seeds_did_not_repeat(measured: list[Evidence]) -> None:
    (row,) = [row for row in measured if row.claim.key == "C48"]
    assert row.kept is not None
    same = replace(row.kept, first_seed=100)
    other = replace(same, findings={"C48": Finding("undecided", "too close")})
    assert "Measured again with" not in page([row])
    told = page([replace(row, again=same)])
    assert told.count("from 100 on: the same verdict.") == 1
    assert "did not reproduce" not in told
    told = page([replace(row, again=other)])
    assert "did not reproduce" in told
    assert "depends, then undecided" in told
    assert "Of 1 claims measured again with other seeds, 0 got" in told
    assert "from 100 on: undecided. too close" in told


def test_a_verdict_that_was_not_reproduced_is_on_no_list(measured: list[Evidence]) -> None:
    (row,) = [row for row in measured if row.claim.key == "C48"]
    assert row.kept is not None
    refuted = replace(row.kept, findings={"C48": Finding("refuted", "as numbers have it")})
    other = replace(refuted, findings={"C48": Finding("supported", "elsewhere")})
    sure, wavering = replace(row, kept=refuted), replace(row, kept=refuted, elsewhere=other)
    assert sure.surprising
    assert not wavering.surprising
    told = page([wavering])
    assert 'id="surprises"' not in told
    assert 'id="refuted"' not in told
    assert 'id="not-reproduced"' in told
    assert "<b>1</b> not reproduced" in told
    assert "</svg><b>1</b> refuted" in page([sure])


def test_rules_frozen_after_the_measurement_are_named(measured: list[Evidence]) -> None:
    (row,) = [row for row in measured if row.claim.key == "C48"]
    assert row.kept is not None
    days = {"2026-11-16": False, "2026-11-17": False, "2026-11-18": True,
            "2026-11-17T09:59Z": False, "2026-11-17T10:01Z": True}  # fmt: skip
    for day, known in days.items():
        kept = replace(row.kept, date="2026-11-17T10:00:00Z", frozen={"C48": day})
        changed = replace(row, kept=kept)
        assert ("later than the measurement" in changed.rule_text) == known
        assert ("when the numbers were known: C48." in page([changed])) == known
        assert f"before new seeds were drawn: {1 - known}" in page([changed])


def test_everything_is_escaped(measured: list[Evidence]) -> None:
    (row,) = [row for row in measured if row.claim.key == "planted"]
    assert row.kept is not None
    kept: Kept = replace(
        row.kept, title=HOSTILE, varies=HOSTILE, measures=HOSTILE, machine=HOSTILE,
        references=(HOSTILE, f"https://example.org/{HOSTILE}"), rules={HOSTILE: HOSTILE},
        findings={HOSTILE: Finding("depends", HOSTILE, {HOSTILE: HOSTILE, "x": [1.0, np.inf]})},
    )  # fmt: skip
    made: Experiment = replace(
        of_file(FILE)[0],
        draw=lambda data: Bars(HOSTILE, HOSTILE, (HOSTILE, "b"), np.array([1.0, 2.0]), HOSTILE),
    )
    told = page([Evidence(Claim(HOSTILE, HOSTILE, None, HOSTILE), made, kept)])
    found = Page(told)
    assert [tag for tag, _ in found.tags].count("script") == 1  # the page's own
    assert "<b>" not in told.replace("<b>1</b>", "").replace("<b>&lt;", "")
    assert HOSTILE in " ".join(found.words)


def test_a_figure_that_cannot_be_drawn_is_explained(measured: list[Evidence]) -> None:
    (row,) = [row for row in measured if row.claim.key == "planted"]
    assert row.kept is not None
    gone = replace(row, kept=replace(row.kept, file="/nowhere/mine.py"))
    assert "No figure: mine.py" in page([gone])
    made = of_file(FILE)[0]
    other = replace(row.kept, data=({},), code="of before")
    assert "the experiment has changed since it ran" in page([Evidence(row.claim, made, other)])
    with pytest.raises(KeyError):  # a mistake in the experiment is not hidden
        page([Evidence(row.claim, made, replace(row.kept, data=({},)))])


def test_the_file(measured: list[Evidence], tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a" / "b", measured)
    assert path == tmp_path / "a" / "b" / "index.html"
    assert path.read_text("utf-8") == text
    assert list(path.parent.iterdir()) == [path]


# ---- figures ----

LINES = Lines(
    "T", Axis("d", ("4", "16")), "y", {"a": np.array([0.5, -1e-5]), "b": np.array([3, np.nan])}
)
BARS = Bars("T", "share", ("one", "two"), np.array([0.25, 12345.0]))
HEAT = Heat(
    "T", np.array([[0.1, -2.0], [np.nan, 4.0]]), Axis("q", ("x", "y")), Axis("k", ("u", "v"))
)


def test_the_tables_have_the_numbers_of_the_pictures() -> None:
    def cells(html: str) -> list[str]:
        return re.findall(r"<t[dh](?: [^>]*)?>(.*?)</t[dh]>", html)

    minus = "\N{MINUS SIGN}"
    assert cells(numbers(LINES)) == [
        "d",
        "a",
        "b",
        "4",
        "0.5",
        "3",
        "16",
        f"{minus}1e{minus}05",
        "–",
    ]
    assert cells(numbers(BARS)) == ["", "share", "one", "0.25", "two", "1.23e+04"]
    assert cells(numbers(HEAT)) == ["q \\ k", "u", "v", "x", "0.1", f"{minus}2", "y", "–", "4"]
    assert cells(numbers(Grid("G", (HEAT, HEAT), 2))) == cells(numbers(HEAT)) * 2
    assert number(float("inf")) == "–"


def test_no_probability_is_written_as_nothing() -> None:
    made = BarComparison(0.9, 0.8, 1.0, 0.5, "t", 0.0, 0.02, "above", (0.8, 1.0))
    text = dots([made])
    assert "p &lt; 1e-12, corrected p 0.02 (t)" in text
    assert "p 0," not in text


def test_pictures_follow_the_colours_of_the_page_and_share_no_names() -> None:
    for picture in (LINES, BARS, HEAT):
        drawn = figure(picture)
        assert not re.search(r"#[0-9a-f]{6}", drawn)
        assert "var(--ink)" in drawn
        assert " id=" not in drawn


def test_letters_of_a_picture_are_at_most_as_large_as_the_claim_above_them() -> None:
    wide = LINES.drawing().width
    (rem,) = re.findall(r'style="max-width: ([\d.]+)rem"', figure(LINES))
    assert float(rem) * SIZE / wide == pytest.approx(1.3, abs=0.01)


def test_words_in_a_picture_stay_as_they_are() -> None:
    said = "an id of #11201d, url(#y), var(--x)"
    assert said in figure(Bars(said, "x", ("a",), np.array([1.0])))


# ---- texts of the claims ----

REMARKS = re.compile(r"\b00\d\b|\bthe (same )?(file|source)('s)?\b| [.,;:]|\(\)|  |TODO")


@pytest.mark.parametrize("claim", claims().values(), ids=lambda claim: claim.key)
def test_claims_and_notes_are_written_for_readers(claim) -> None:  # type: ignore[no-untyped-def]
    for text in (claim.says, claim.notes):
        assert not REMARKS.search(text), text
        assert text.endswith((".", ")"))
        assert text.strip() == text
