"""`translucid lab` through the real command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.forked import TRANSLUCID
from tests.in_process import run

from translucid_lab.engine import results
from translucid_lab.engine.experiment import claims

PLANTED = Path(__file__).parents[1] / "lab" / "planted.py"
QUICK = ["lab", "run", "C46", "C49", "--quick"]


@pytest.fixture(autouse=True)
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what runs here counts."""
    monkeypatch.setattr(results, "SHIPPED", ())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where three claims and one of the user's own have run."""
    made = tmp_path_factory.mktemp("lab")
    shutil.copy(PLANTED, made / "mine.py")
    done = run(*QUICK, "mine.py", cwd=made)
    assert done.returncode == 0, done.stderr
    (made / "said.txt").write_text(done.stdout + done.stderr, "utf-8")
    return made


# ---- run ----


@pytest.mark.slow
def test_a_run_prints_claim_verdict_and_reason(folder: Path) -> None:
    said = " ".join((folder / "said.txt").read_text("utf-8").split())
    assert "C46 supported (quick): Dividing by sqrt(d_k) keeps scores from growing" in said
    assert "C47 " in said  # measured by the same experiment
    assert "from d_k = 4 to 512 the softmax Jacobian is multiplied by 0.1" in said
    assert "planted supported (quick): Sums of products are positive." in said
    assert "4 experiments, 31 seeds" in said
    assert "runs/lab: 5 claims, " in said
    assert "next: translucid lab report --out report" in said
    assert (folder / "runs" / "lab" / "quick.json").exists()


def test_what_is_there_is_not_measured_again(folder: Path) -> None:
    again = run("lab", "run", "C46", "--quick", "--json", cwd=folder)
    assert "10 of them measured before" in again.stderr
    told = json.loads(again.stdout)
    assert told["complete"]
    (result,) = told["results"]
    assert result["experiment"] == "softmax-scale"
    assert set(result["findings"]) == {"C46", "C47"}
    assert result["findings"]["C46"]["verdict"] == "supported"
    assert result["findings"]["C46"]["numbers"]["raw"] < 0.5


def test_one_claim_and_another_folder(tmp_path: Path) -> None:
    done = run("lab", "run", "C49", "--out", "my lab", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "next: translucid lab show C49 --results 'my lab'"
    shown = run("lab", "show", "C49", "--results", "my lab", cwd=tmp_path)
    assert shown.stdout.startswith("C49  supported\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "claims such as C46"),
        (["C460"], "C460: no such claim or experiment; did you mean C60, C46, C40?"),
        (["softmx-scale"], "did you mean softmax-scale"),
        (["C460", "none.py"], "2 mistakes:"),
        (["none.py"], "none.py: no such file; `translucid lab new NAME`"),
        (["C46", "--seeds", "0"], "--seeds"),
        (["C46", "--jobs", "0"], "--jobs"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, words: list[str], message: str) -> None:
    done = run("lab", "run", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_failing_seed_is_named_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(PLANTED, tmp_path / "mine.py")
    monkeypatch.setenv("LAB_TROUBLE", "seed 3")
    done = run("lab", "run", "mine.py", "--quick", cwd=tmp_path)
    assert done.returncode == 1
    assert "planted, seed 3: ZeroDivisionError: nothing to divide by" in done.stderr
    assert done.stderr.endswith("(run again with --debug for the traceback)\n")
    assert "second  supported" in done.stdout
    debug = run("lab", "run", "mine.py", "--quick", "--debug", cwd=tmp_path)
    assert "in measure" in debug.stderr


def test_ctrl_c_explains_how_to_resume(tmp_path: Path) -> None:
    slow = PLANTED.read_text("utf-8").replace(
        "    generator = torch", "    time.sleep(600 * (seed > 1))\n    generator = torch"
    )
    (tmp_path / "mine.py").write_text(
        slow.replace("import os\n", "import os\nimport time\n"), "utf-8"
    )
    words = [*TRANSLUCID, "lab", "run", "mine.py", "--quick"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        env=os.environ,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while not list(tmp_path.rglob("seed-1.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "stopped: 2 of 20 seeds are in runs/lab; run the same command again" in err
    assert "Traceback" not in err


@pytest.mark.thorough
def test_a_killed_run_ends_its_processes_and_resumes(tmp_path: Path) -> None:
    beat = "    for _ in range(40 * seed):\n        time.sleep(0.05)\n"
    beat += "        Path(f'beat-{seed}').open('a').write('.')\n"
    slow = PLANTED.read_text("utf-8").replace(
        "    generator = torch", f"{beat}    generator = torch"
    )
    (tmp_path / "mine.py").write_text(
        slow.replace("import os\n", "import os\nimport time\n"), "utf-8"
    )
    words = ["lab", "run", "mine.py", "--quick", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "translucid", *words], cwd=tmp_path, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=os.environ,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not list(tmp_path.rglob("seed-1.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    time.sleep(2)
    before = [path.stat().st_size for path in sorted(tmp_path.glob("beat-*"))]
    time.sleep(2)
    assert [path.stat().st_size for path in sorted(tmp_path.glob("beat-*"))] == before
    seeds = sorted(tmp_path.rglob("planted/*/seed-*.json"))
    times = [path.stat().st_mtime_ns for path in seeds]
    assert 0 < len(seeds) < 10
    assert run(*words, cwd=tmp_path).returncode == 0
    assert [path.stat().st_mtime_ns for path in seeds] == times  # these were not measured again
    assert len(list(tmp_path.rglob("planted/*/seed-*.json"))) == 10


# ---- list, show ----


def test_all_claims_are_listed(folder: Path) -> None:
    listed = run("lab", "list", cwd=folder)
    lines = listed.stdout.splitlines()
    for key, claim in claims().items():
        assert any(line.startswith(f"{key} ") and line.endswith(claim.says) for line in lines), key
    row = next(line for line in lines if line.startswith("C46"))
    assert row.split()[1:4] == ["right", "supported,", "quick"]
    assert any(line.startswith("planted ") for line in lines)
    told = json.loads(run("lab", "list", "--json", cwd=folder).stdout)
    assert len(told) >= 91
    by_claim = {each["claim"]: each for each in told}
    assert by_claim["C46"]["state"] == "supported"
    assert by_claim["C46"]["result"]["rules"].keys() == {"C46"}
    assert by_claim["C48"]["state"] == "not run"
    assert by_claim["C48"]["result"] is None


@pytest.mark.parametrize("word", ["C46", "c46", "softmax-scale"])
def test_a_claim_is_shown(folder: Path, word: str) -> None:
    shown = run("lab", "show", word, cwd=folder)
    assert shown.returncode == 0, shown.stderr
    said = " ".join(shown.stdout.split())
    for part in (
        "C46 supported",
        "claim Dividing by sqrt(d_k)",
        "varied the width d_k",
        "measured the variance of the scores",
        "rule Supported if from d_k = 4 to 512",
        "verdict supported: from d_k = 4 to 512",
        "ran quick, 10 seeds, 20",
        "literature right. Vaswani",
        "see https://arxiv.org/abs/1706.03762",
    ):
        assert part in said, part


def test_a_run_with_few_seeds_does_not_replace_the_result(tmp_path: Path) -> None:
    shutil.copy(PLANTED, tmp_path / "mine.py")
    full = run("lab", "run", "mine.py", cwd=tmp_path)
    assert "not replaced" not in full.stdout, full.stderr
    looked = run("lab", "run", "mine.py", "--seeds", "2", cwd=tmp_path)
    assert "full results are not replaced" in looked.stdout
    said = " ".join(run("lab", "show", "planted", cwd=tmp_path).stdout.split())
    assert said.startswith("planted supported claim ")
    assert "quick look 2 seeds, 20" in said
    assert ": undecided: 2 seeds measured" in said


def test_what_has_not_run_is_shown_with_its_rule(folder: Path) -> None:
    shown = run("lab", "show", "C48", cwd=folder)
    assert shown.stdout.startswith("C48  not run\n")
    assert "rule        Asked for queries equal to keys" in shown.stdout
    assert shown.stdout.endswith("next: translucid lab run C48\n")
    wrong = run("lab", "show", "C99", cwd=folder)
    assert wrong.returncode == 2
    assert "did you mean C9" in wrong.stderr


# ---- report, new ----


def test_the_report(folder: Path) -> None:
    done = run("lab", "report", "--out", "page", "--figures", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("page/index.html: ")
    page = (folder / "page" / "index.html").read_text("utf-8")
    assert page.count('<section class="card claim"') == 5
    assert page.count("<figure") == 5
    drawn = {path.name: path.read_text("utf-8") for path in (folder / "page" / "figures").iterdir()}
    assert set(drawn) == {f"{name}.{kind}" for kind in ("svg", "csv") for name in
                          ("softmax-scale", "softmax-promises", "planted", "second")}  # fmt: skip
    assert all(("</svg>" in text) == name.endswith("svg") for name, text in drawn.items())
    assert drawn["softmax-scale.csv"].startswith("d_k,as they are,divided by √d_k\n4,0.")


def test_a_claim_beyond_toys_needs_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRANSLUCID_SHARED", raising=False)
    done = run("lab", "run", "C48", "--real", "--seeds", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "TRANSLUCID_SHARED is not set; set it to the folder that contains weights/" in done.stderr
    )
    monkeypatch.setenv("TRANSLUCID_SHARED", str(tmp_path))
    done = run("lab", "run", "C15", "--real", "--seeds", "1", cwd=tmp_path)
    assert "train.tsv: no such file; put it there" in done.stderr


def test_stored_verdicts_are_verified(folder: Path, tmp_path: Path) -> None:
    done = run("lab", "verify", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("results.json: 3 verdicts judged again: 3 same\n")
    assert "verdicts rest on the numbers of several seeds" in done.stdout
    path = tmp_path / "runs" / "lab" / "quick.json"
    path.parent.mkdir(parents=True)
    text = (folder / "runs" / "lab" / "quick.json").read_text("utf-8")
    path.write_text(text.replace('"verdict": "supported"', '"verdict": "refuted"'), "utf-8")
    wrong = run("lab", "verify", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "differs" in wrong.stdout.splitlines()[0]
    assert "C46  refuted, now supported: from d_k" in wrong.stdout


@pytest.mark.slow
def test_a_template_runs_as_it_is(tmp_path: Path) -> None:
    made = run("lab", "new", "Longer-words", cwd=tmp_path)
    assert made.stdout.splitlines()[-1] == "next: translucid lab run Longer-words.py --quick"
    done = run("lab", "run", "Longer-words.py", "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "longer-words  undecided (quick): With more keys" in done.stdout
    shown = run("lab", "show", "longer-words", cwd=tmp_path)
    assert "varied      the number of keys" in shown.stdout
    assert run("lab", "report", "--out", "page", cwd=tmp_path).returncode == 0
    text = (tmp_path / "Longer-words.py").read_text("utf-8")
    again = run("lab", "new", "Longer-words", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert (tmp_path / "Longer-words.py").read_text("utf-8") == text
    for name in ("9lives", "a b", "../up", "softmax-scale"):
        assert run("lab", "new", name, cwd=tmp_path).returncode == 2
