"""Seeds are measured once, kept, gone on with, and the same in one process and in two."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from translucid.core.errors import ConfigError, InputError
from translucid_lab.claims import experiments
from translucid_lab.engine import evidence, fingerprints, results
from translucid_lab.engine.experiment import Experiment, claims, for_claim, of_file
from translucid_lab.engine.fingerprints import digest, line_of, outside
from translucid_lab.engine.runner import ExperimentResult, Failure, SeedDone, jobs_of, run
from translucid_lab.engine.verdict import Finding, Rule, Verdict

FILE = Path(__file__).with_name("planted.py")


@pytest.fixture
def planted() -> Experiment:
    return of_file(FILE)[0]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Which seeds were really measured."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("LAB_LOG", str(path))
    return path


def ended(planted: Experiment, out: Path, **how: object) -> list[ExperimentResult | Failure]:
    return list(run([planted], out, quick=True, **how))  # type: ignore[arg-type]


def only(found: list[ExperimentResult | Failure]) -> ExperimentResult:
    (result,) = found
    assert isinstance(result, ExperimentResult)
    return result


# ---- kept ----


def test_a_seed_is_measured_once(planted: Experiment, tmp_path: Path, log: Path) -> None:
    first = only(ended(planted, tmp_path))
    assert log.read_text("utf-8").split() == list("0123456789")
    steps: list[SeedDone] = []
    again = only(ended(planted, tmp_path, progress=steps.append))
    assert log.read_text("utf-8").split() == list("0123456789")
    assert again.data == first.data
    assert [(step.done, step.of, step.kept) for step in steps] == [
        (n, 10, True) for n in range(1, 11)
    ]
    assert first.findings["planted"].verdict == "supported"
    jobs_of(planted, tmp_path, quick=True)[0].path.unlink()  # the others come before it now
    assert only(ended(planted, tmp_path)).data == first.data
    log.write_text(" ".join("0123456789") + "\n")
    only(ended(planted, tmp_path, seeds=12))  # two more
    assert log.read_text("utf-8").split() == [*"0123456789", "10", "11"]
    list(run([planted], tmp_path))  # the full setting is another one
    assert len(log.read_text("utf-8").split()) == 22


def test_seeds_may_begin_elsewhere(planted: Experiment, tmp_path: Path, log: Path) -> None:
    long = only(ended(planted, tmp_path, seeds=7))
    again = only(ended(planted, tmp_path, seeds=2, first=5))
    assert log.read_text("utf-8").split() == list("0123456")  # these were there
    assert again.data == long.data[5:]
    assert (long.first, again.first) == (0, 5)
    other = only(ended(planted, tmp_path, first=40))
    assert log.read_text("utf-8").split()[7:] == [str(seed) for seed in range(40, 50)]
    assert "10 seeds from 40 on" in results.Kept.of(other).when
    assert "from" not in results.Kept.of(long).when
    certain = next(each for each in experiments().values() if each.seeds == 1)
    assert [job.seed for job in jobs_of(certain, tmp_path, seeds=3, first=9)] == [0]


def test_changed_code_measures_anew(tmp_path: Path) -> None:
    mine, text = tmp_path / "mine.py", FILE.read_text("utf-8")

    def paths(content: str) -> set[Path]:
        mine.write_text(content, "utf-8")
        return {job.path for job in jobs_of(of_file(mine)[0], tmp_path)}

    before = paths(text)
    assert paths(text + "\n# a comment\n") == before
    assert not paths(text + "\nCHANGED = 1\n") & before  # of a user's file, all counts


def test_code_that_an_experiment_uses_is_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A changed helper measures anew, but not those who do without it; nor do changed rules,
    comments and layout."""
    copies = tmp_path / "lab"
    shutil.copytree(fingerprints.FOLDER, copies)
    monkeypatch.setattr(fingerprints, "FOLDER", copies)
    with_helper, without = experiments()["norm-order"], experiments()["softmax-scale"]

    def change(file: str, old: str, new: str) -> list[str]:
        text = (copies / file).read_text("utf-8")
        assert old in text
        (copies / file).write_text(text.replace(old, new), "utf-8")
        return [digest(with_helper), digest(without)]

    before = [digest(with_helper), digest(without)]
    assert change("engine/verdict.py", "ENOUGH = 0.8", "ENOUGH = 0.7") == before
    unused = change("claims/toyland_text.py", "def sentences(", "def other_sentences(")
    assert unused == before
    assert (
        change("claims/toyland_text.py", "def next_words(", "# Why.\ndef next_words(\n") == before
    )
    helper = change("claims/toyland_text.py", "def next_words(", "X = 1\n\n\n@X\ndef next_words(")
    assert helper[0] != before[0]
    assert helper[1] == before[1]
    fit = change("engine/fit.py", "weight_decay=0.0", "weight_decay=0.1")
    assert fit[0] != helper[0]
    assert fit[1] == before[1]


def test_the_code_of_an_experiment_may_move(tmp_path: Path) -> None:
    """A function, class or constant counts by what it says, not by where it is defined."""
    text = "import torch\n\nWIDE = 3\n\ndef run(seed, quick):\n    return _made(WIDE)\n"
    made = 'def _made(wide):\n    """Documented."""\n    return {\'x\': wide}\n'
    other = made.replace('    """Documented."""\n', "").replace(
        "{'x': wide}", '{\n"x": wide  # why\n}'
    )

    def code(source: str) -> set[str]:
        return {code for code, _ in fingerprints._source(source).definitions.values()}

    assert code(text + made) == code(other + text)
    assert code(text + made) != code(text + made.replace("wide}", "2 * wide}"))
    used = fingerprints._source(text).definitions["run"][1]
    assert used == {"_made", "WIDE"}  # no argument, no attribute


def test_an_interrupted_run_resumes(
    planted: Experiment, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TROUBLE", "stop at 3")
    with pytest.raises(KeyboardInterrupt):
        ended(planted, tmp_path)
    assert log.read_text("utf-8").split() == list("012")
    monkeypatch.delenv("LAB_TROUBLE")
    gone_on = only(ended(planted, tmp_path))
    assert log.read_text("utf-8").split() == list("0123456789")
    assert gone_on.data == only(ended(planted, tmp_path / "other")).data


def test_a_damaged_seed_is_named(planted: Experiment, tmp_path: Path) -> None:
    only(ended(planted, tmp_path))
    path = jobs_of(planted, tmp_path, quick=True)[2].path
    path.write_text(path.read_text("utf-8")[:10], "utf-8")
    (failure,) = ended(planted, tmp_path)
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, InputError)
    assert str(failure).startswith(f"planted, seed 2: {path} cannot be read")


# ---- what goes wrong ----


def test_a_failing_seed_is_named_and_the_others_are_kept(
    planted: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TROUBLE", "seed 1")
    (failure,) = ended(planted, tmp_path)
    assert isinstance(failure, Failure)
    assert str(failure) == "planted, seed 1: ZeroDivisionError: nothing to divide by"
    kept = [job.seed for job in jobs_of(planted, tmp_path, quick=True) if job.kept]
    assert kept == [0, *range(2, 10)]
    monkeypatch.delenv("LAB_TROUBLE")
    assert len(only(ended(planted, tmp_path)).data) == 10


def test_a_value_that_json_cannot_store_is_reported(
    planted: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TROUBLE", "tensor at 0")
    (failure,) = ended(planted, tmp_path)
    assert str(failure).startswith("planted, seed 0: run() returned")


def test_a_failing_rule_keeps_the_seeds(
    planted: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TROUBLE", "rule")
    (failure,) = ended(planted, tmp_path)
    assert str(failure) == "planted, its rule: IndexError: no such seed"
    assert all(job.kept for job in jobs_of(planted, tmp_path, quick=True))


def test_only_the_number_of_seeds_that_the_rule_names_decides(
    planted: Experiment, tmp_path: Path
) -> None:
    """Neither fewer, nor more: seeds that are added until a verdict comes prove nothing."""
    for seeds in (2, 11):
        finding = only(ended(planted, tmp_path, seeds=seeds)).findings["planted"]
        assert finding.verdict == "undecided"
        assert finding.why.startswith(f"{seeds} seeds measured")
        assert "10" in finding.why
    without = replace(planted, seeds=1)  # nothing is left to chance
    assert only(ended(without, tmp_path, seeds=9)).data == only(ended(without, tmp_path)).data


@pytest.mark.parametrize("verdict", ["supported", "refuted", "depends", "not tested"])
def test_a_quick_run_never_refutes(planted: Experiment, verdict: Verdict) -> None:
    sure = replace(
        planted, claims={"planted": Rule("as it is", lambda data: Finding(verdict, "x"))}
    )
    data = ({"mean": 1.0},) * 10
    assert (
        ExperimentResult(sure, data, quick=False, seconds=0.0).finding("planted").verdict == verdict
    )
    quick = ExperimentResult(sure, data, quick=True, seconds=0.0).finding("planted")
    assert quick.verdict == ("undecided" if verdict in ("refuted", "depends") else verdict)
    assert quick.why.endswith("x")


# ---- processes and threads ----


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(
    planted: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an experiment of the package and of one outside, of which one seed fails."""
    both = [planted, experiments()["softmax-promises"]]
    one, two = tmp_path / "1", tmp_path / "2"
    assert all(isinstance(each, ExperimentResult) for each in run(both, one, quick=True))
    monkeypatch.setenv("LAB_TROUBLE", "seed 1")
    found = list(run(both, two, quick=True, processes=2))
    (failure,) = [each for each in found if isinstance(each, Failure)]
    assert str(failure) == "planted, seed 1: ZeroDivisionError: nothing to divide by"
    assert len(found) == 2
    seeds = {path.relative_to(two) for path in two.rglob("seed-*.json")}
    assert seeds == {p.relative_to(one) for p in one.rglob("seed-*.json") if p.stem != "seed-1"}
    for seed in seeds:
        here, there = (
            json.loads((folder / seed).read_text("utf-8"))["data"] for folder in (one, two)
        )
        assert here == there


def test_the_number_of_threads_changes_no_number(planted: Experiment, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(only(ended(planted, tmp_path / str(threads))).data)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


# ---- experiments: which, and where ----


def test_files_outside_the_package(planted: Experiment, tmp_path: Path) -> None:
    assert outside(planted)
    assert not outside(experiments()["softmax-scale"])
    assert "def measure(" in FILE.read_text("utf-8").splitlines()[line_of(planted) - 1]
    wrapped = replace(planted, run=partial(planted.run))
    assert line_of(wrapped) == line_of(planted)
    assert digest(wrapped) == digest(planted)
    cases = {
        "none.py": (None, "no such file.*lab new NAME"),
        "empty.py": ("x = 1\n", "no Experiment"),
        "broken.py": ("def (:\n", "SyntaxError"),
        "raises.py": ("1 / 0\n", "ZeroDivisionError"),
        "words.txt": ("x = 1\n", "must end in .py"),
        "taken.py": (
            FILE.read_text("utf-8").replace('"planted"', '"own-token"'),
            "own-token is taken",
        ),
        "twice.py": (FILE.read_text("utf-8").replace('"second"', '"planted"'), "planted is taken"),
    }
    for name, (text, message) in cases.items():
        if text is not None:
            (tmp_path / name).write_text(text, "utf-8")
        with pytest.raises(ConfigError, match=message):
            of_file(tmp_path / name, experiments())


def test_claims_and_names_find_their_experiment() -> None:
    known = experiments()
    for word in ("C46", "c47", "softmax-scale", "Softmax-Scale"):
        assert for_claim(word, known).name == "softmax-scale"
    with pytest.raises(ConfigError, match="did you mean softmax-scale"):
        for_claim("softmax-scal", known)
    with pytest.raises(ConfigError, match="C46: there is no experiment for this claim yet"):
        for_claim("C46", {})


# ---- results ----


def test_results_come_back_as_they_were(planted: Experiment, tmp_path: Path) -> None:
    assert results.read(tmp_path) == {}
    made = only(ended(planted, tmp_path))
    kept = results.keep(tmp_path, made)
    assert results.read(tmp_path, results.QUICK) == {"planted": kept}
    assert kept.data == made.data  # also what is not finite
    assert kept.data[0]["odd"] == float("inf")
    text = (tmp_path / results.QUICK).read_text("utf-8")
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert kept.rules == {"planted": "Supported if above 0; refuted if below."}
    assert kept.when.startswith("quick, 10 seeds, 20")
    assert not kept.stale(planted)
    assert kept.stale(experiments()["own-token"])
    full = next(iter(run([planted], tmp_path)))
    assert isinstance(full, ExperimentResult)
    results.keep(tmp_path, full)
    results.keep(tmp_path, made)
    assert not results.latest(tmp_path)["planted"].quick  # a quick run takes no full one's place
    few = results.keep(tmp_path, only(list(run([planted], tmp_path, seeds=3))))
    assert results.read(tmp_path, results.QUICK) == {"planted": few}
    assert results.latest(tmp_path)["planted"].seeds == 10, "nor does a look at a few seeds"


def test_ones_own_results_come_before_the_shipped(
    planted: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped, own = tmp_path / "shipped", tmp_path / "own"
    monkeypatch.setattr(results, "SHIPPED", (tmp_path / "none", shipped))
    assert results.latest(own) == {}
    known = experiments()
    some = list(run([known["softmax-promises"], known["own-token"]], shipped))
    for each in some:
        assert isinstance(each, ExperimentResult)
        results.keep(shipped, each)
    assert isinstance(some[0], ExperimentResult)
    mine = results.keep(own, replace(some[0], seconds=12.0))
    found = results.latest(own)
    assert found["softmax-promises"] == mine
    assert found["own-token"] == results.read(shipped)["own-token"]
    by_claim = {row.claim.key: row for row in evidence.rows(known, found)}
    assert len(by_claim) >= 89
    assert by_claim["C49"].state == "supported"
    assert by_claim["C46"].state == "not run"
    assert evidence.rows({}, {})[0].state == "no experiment yet"


def test_other_seeds_are_stored_beside_a_verdict(
    planted: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "SHIPPED", ())
    first, again = (only(list(run([planted], tmp_path, first=seed))) for seed in (0, 50))
    kept = [results.keep(tmp_path, each) for each in (first, again)]
    assert results.read(tmp_path)["planted"] == kept[0]
    assert results.read(tmp_path, results.AGAIN)["planted"] == kept[1]

    def row(repeated: results.Kept) -> evidence.Evidence:
        by_name = [{each.experiment: each} for each in (kept[0], repeated)]
        return next(each for each in evidence.rows({}, *by_name) if each.claim.key == "planted")

    assert row(kept[1]).repetition == (
        "Measured again with 10 seeds from 50 on: the same verdict. Of 1 effect sizes 1 lie within "
        "the intervals of the first run."
    )
    assert not row(kept[1]).wavers
    other = replace(kept[1], findings={"planted": Finding("undecided", "it is close", {})})
    assert row(other).repetition.endswith("10 seeds from 50 on: undecided. it is close")
    assert row(other).wavers
    for changed in (replace(other, code="other"), replace(other, quick=not other.quick)):
        assert row(changed).again is None
        assert row(changed).repetition == "Not measured again with other seeds."


def test_the_shipped_repetition_is_of_the_shipped_code() -> None:
    kept, elsewhere = results.shipped(), results.shipped(results.ELSEWHERE)
    assert len(elsewhere) > 20
    for name, other in elsewhere.items():
        past = kept[name].first_seed + kept[name].seeds
        assert other.seeds == 1 or other.first_seed >= past, f"{name}: seeds measured before"
        assert other.code == kept[name].code
        assert other.machine != kept[name].machine
    rows = evidence.rows(experiments(), kept, elsewhere=elsewhere)
    assert sum(row.elsewhere is not None for row in rows) == sum(
        len(other.findings) for other in elsewhere.values()
    )


def test_a_damaged_file_of_results_is_named(tmp_path: Path) -> None:
    (tmp_path / results.FILE).write_text('{"results": [{}]}')
    with pytest.raises(InputError, match=r"results\.json cannot be read .* remove it"):
        results.read(tmp_path)


@pytest.mark.parametrize(
    ("literature", "verdict", "said"),
    [
        ("right", "supported", ""),
        ("wrong", "refuted", ""),
        ("partly", "depends", ""),
        ("right", "refuted", "The literature calls this right; these measurements refute it."),
        ("wrong", "supported", "The literature calls this wrong; these measurements support it."),
        ("right", "undecided", "these measurements do not decide it."),
        ("partly", "supported", "calls this partly right; these measurements support it."),
        ("vague", "supported", "nearest measurable question"),
        (None, "supported", ""),
    ],
)
def test_where_verdict_and_literature_differ(literature, verdict, said) -> None:  # type: ignore[no-untyped-def]
    from translucid_lab.engine.experiment import Claim

    told = evidence.difference(Claim("C1", "x", literature, ""), verdict)
    assert told == "" if not said else said in told


def test_every_claim_has_one_experiment_and_a_verdict_of_the_full_lab() -> None:
    deciding = [key for each in experiments().values() for key in each.claims]
    assert sorted(deciding) == sorted(set(deciding))
    assert set(claims()) <= set(deciding)
    kept = results.shipped()
    assert not any(each.quick for each in kept.values())
    assert {key for each in kept.values() for key in each.findings} == set(deciding)
