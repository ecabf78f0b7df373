"""Rules are frozen: their hashes stand written down, and a verdict knows by which it was given."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench import lab_freeze, lab_judge

from translucid_lab.claims import attention_scores, experiments, real_experiments
from translucid_lab.engine import evidence, fingerprints, results
from translucid_lab.engine.evidence import expected_errors
from translucid_lab.engine.experiment import UNSEEN, Experiment, of_file
from translucid_lab.engine.intervals import BarComparison
from translucid_lab.engine.results import verified
from translucid_lab.engine.runner import ExperimentResult, run
from translucid_lab.engine.verdict import Finding, Rule, compared, same

FILE = Path(__file__).with_name("planted.py")


def scale() -> Experiment:
    return experiments()["softmax-scale"]


def test_every_rule_is_the_one_that_was_frozen() -> None:
    """After a change of a rule: python bench/lab_freeze.py"""
    every = [*experiments().values(), *real_experiments().values()]
    known = [(made, key) for made in every for key in made.claims]
    assert {name: rule["hash"] for name, rule in fingerprints.frozen().items()} == {
        fingerprints.name_of(made, key): fingerprints.fingerprint(made, key) for made, key in known
    }
    assert all(fingerprints.frozen_since(made, key) >= "2026-11-16" for made, key in known)


def test_shipped_results_were_measured_by_the_code_of_now() -> None:
    """After a change of code that measures: run these again, or show that the numbers are equal."""
    known = {**experiments(), **real_experiments()}
    for file in (results.FILE, results.AGAIN, results.ELSEWHERE, results.REAL):
        shipped = results.shipped(file)
        assert shipped
        assert [name for name, kept in shipped.items() if kept.stale(known[name])] == []


def test_a_rule_is_words_seeds_label_bars_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scale()
    before, rule = fingerprints.fingerprint(made, "C46"), made.claims["C46"]
    assert fingerprints.fingerprint(replace(made, title="another", seconds=9.0), "C46") == before
    others = [
        replace(made, seeds=11),
        replace(made, claims={"C46": replace(rule, text=f"{rule.text} Or not.")}),
        replace(made, claims={"C46": replace(rule, label="identity")}),
        replace(made, claims={"C46": replace(rule, judge=made.claims["C47"].judge)}),
    ]
    hashes = {fingerprints.fingerprint(other, "C46") for other in others}
    assert len(hashes | {before}) == 5
    monkeypatch.setattr(attention_scores, "WIDTHS", (4, 16))  # a number that the function reads
    assert fingerprints.fingerprint(made, "C46") != before
    assert fingerprints.frozen_since(made, "C46") == ""


def test_freezing_keeps_the_day_of_what_has_not_changed() -> None:
    before = {key: {**rule, "since": "2001-01-01"} for key, rule in fingerprints.frozen().items()}
    before["C46"] = {"hash": "of before", "since": "2001-01-01"}
    after = lab_freeze.rules(before, "2002-02-02")
    assert {key for key, rule in after.items() if rule["since"] == "2002-02-02"} == {"C46"}


# ---- verdicts, and the rules that gave them ----


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> results.Kept:
    (result,) = run([scale()], tmp_path_factory.mktemp("lab"), quick=True)
    assert isinstance(result, ExperimentResult)
    return results.Kept.of(result)


def row(kept: results.Kept) -> evidence.Evidence:
    by_name = {kept.experiment: kept}
    return next(one for one in evidence.rows(experiments(), by_name) if one.claim.key == "C46")


@pytest.mark.slow
def test_a_verdict_names_its_rule(kept: results.Kept) -> None:
    now = row(kept)
    assert not now.older_rule
    frozen = f"The rule {kept.hashes['C46']} was frozen on {kept.frozen['C46']}."
    assert row(replace(kept, first_seed=UNSEEN)).rule_text == frozen
    assert now.rule_text.startswith(frozen)
    assert "--first-seed 1000" in now.rule_text
    assert (now.label, kept.labels["C46"]) == ("simulation", "simulation")
    for changed in (replace(kept, hashes={}), replace(kept, hashes={"C46": "of before"})):
        assert row(changed).older_rule
        assert row(changed).confidence[0].startswith("Judged by an older")


def test_results_are_stored_by_first_seed(kept: results.Kept, tmp_path: Path) -> None:
    files = {0: results.FILE, UNSEEN: results.FILE, 100: results.AGAIN, 2 * UNSEEN: results.AGAIN}
    for first, file in files.items():
        out = tmp_path / str(first)
        results.keep(
            out, ExperimentResult(scale(), kept.data, quick=False, seconds=1.0, first=first)
        )
        assert results.read(out, file)["softmax-scale"].first_seed == first


def test_the_committed_verdicts_are_shown_as_those_of_their_rules() -> None:
    """Never mixed: what an older rule has said is called so, and counts for no rate of errors."""
    rows = evidence.rows(experiments(), results.shipped())
    for one in rows:
        assert one.kept is not None
        assert one.older_rule == (
            one.kept.hashes.get(one.claim.key) != fingerprints.frozen()[one.claim.key]["hash"]
        )


def test_stored_numbers_are_judged_again(kept: results.Kept) -> None:
    def states(stored: results.Kept) -> dict[str, str]:
        return {one.key: one.state for one in verified(experiments(), {stored.experiment: stored})}

    assert states(kept) == {"C46": "same", "C47": "same"}
    assert states(replace(kept, hashes={"C47": kept.hashes["C47"]}))["C46"] == "older rule"
    for finding in (
        replace(kept.findings["C46"], verdict="refuted"),
        replace(kept.findings["C46"], cases={}),
        replace(kept.findings["C46"], comparisons=()),
    ):
        assert states(replace(kept, findings={**kept.findings, "C46": finding}))["C46"] == "differs"
    other = ({**kept.data[0], "raw": [1.0] * 5}, *kept.data[1:])  # one seed's numbers
    assert states(replace(kept, data=other)) == {"C46": "differs", "C47": "same"}


def test_findings_come_back_as_they_were(kept: results.Kept, tmp_path: Path) -> None:
    (result,) = run(of_file(FILE)[:1], tmp_path)
    assert isinstance(result, ExperimentResult)
    stored = results.keep(tmp_path, result)
    read = results.read(tmp_path)["planted"].findings["planted"]
    assert read == stored.findings["planted"]
    assert read.comparisons[0].values == tuple(seed["mean"] for seed in result.data)
    assert read.p is not None


# ---- two measurements, and all together ----


def test_repetitions_compare_cases_and_sizes_not_the_word_alone(kept: results.Kept) -> None:
    first = kept.findings["C46"]
    assert same(first, first)
    assert list(compared(first, first)) == [
        "the same verdict.", "Of 2 effect sizes 2 lie within the intervals of the first run.",
    ]  # fmt: skip
    moved = replace(first.comparisons[0], value=99.0)
    away = replace(first, comparisons=(moved, *first.comparisons[1:]))
    assert list(compared(first, away))[-1].startswith("Of 2 effect sizes 1 lie")
    assert not same(first, away)
    case = next(iter(first.cases))
    other = replace(first, cases={**first.cases, case: None})
    assert f"Cases that changed: {case} holds, then is open." in list(compared(first, other))


def test_how_many_verdicts_may_be_false() -> None:
    findings = [Finding("supported", "", p=p) for p in (0.001, 0.002, 0.04)]
    sentence = expected_errors([*findings, Finding("supported", ""), Finding("undecided", "")])
    assert sentence.startswith("3 verdicts rest on")
    assert "at most 0.1 may be expected" in sentence  # 3 verdicts at a rate of 0.04
    assert expected_errors([]) == ""


def test_rules_without_chance_need_no_level() -> None:
    assert Rule("", lambda data: Finding("supported", "by algebra")).finding([]).p is None


def test_stored_numbers_are_judged_by_the_rules_of_now(kept: results.Kept) -> None:
    old = replace(kept, hashes={**kept.hashes, "C46": "of before"}, rules={**kept.rules, "C46": ""},
                  findings={key: Finding("undecided", "old") for key in kept.findings})  # fmt: skip
    now = old.judged_again(scale())
    assert now.findings == kept.findings
    assert (now.hashes, now.rules) == (kept.hashes, kept.rules)
    assert (now.date, now.data, now.code) == (kept.date, kept.data, kept.code)
    assert kept.judged_again(scale()) == kept


def test_a_new_measurement_replaces_the_old_one_and_its_repetitions(
    kept: results.Kept, tmp_path: Path
) -> None:
    other = replace(kept, experiment="own-token")
    for file in (results.FILE, results.ELSEWHERE, results.AGAIN):
        results.write(tmp_path, file, {"softmax-scale": kept, "own-token": other})
    new = replace(kept, first_seed=5000)
    results.write(tmp_path / "new", results.AGAIN, {"softmax-scale": new})
    lab_judge.take(tmp_path, results.FILE, tmp_path / "new" / results.AGAIN)
    assert results.read(tmp_path) == {"softmax-scale": new, "own-token": other}
    for file in (results.ELSEWHERE, results.AGAIN):
        assert results.read(tmp_path, file) == {"own-token": other}
    lab_judge.take(tmp_path, results.AGAIN, tmp_path / "new" / results.AGAIN)  # a repetition
    assert results.read(tmp_path)["softmax-scale"] == new
    assert set(results.read(tmp_path, results.AGAIN)) == {"softmax-scale", "own-token"}


def test_a_comparison_that_only_the_correction_leaves_open_is_named(kept: results.Kept) -> None:
    first = kept.findings["C46"]
    made = replace(first.comparisons[0], value=0.3, low=0.2, high=0.4, bar=0.1, side="across",
                   corrected=(0.05, 0.55))  # fmt: skip

    def told(comparison: BarComparison) -> str:
        finding = replace(first, verdict="undecided", p=None, comparisons=(comparison,))
        return " ".join(row(replace(kept, findings={"C46": finding})).confidence)

    assert "of 0.3 from [0.2, 0.4] to [0.05, 0.55], which contains the threshold 0.1" in told(made)
    assert "widens" not in told(replace(made, low=0.05))  # open before the correction
    assert "widens" not in told(replace(made, side="above"))
