"""Attack Translucid with hostile model folders, run folders, requests and races, and count the
results.

    python bench/attack.py [--models 600] [--seed 0] [--json]

Outcomes: refused (by an error that names the cause), harmless (loaded and used, since the change
does not matter), hung, escaped (something outside the folder was used as if it were part of it, or
was written), deleted (something outside), unexpected (any other error). The exit status is 1 if any
of the last four occurs. docs/explanation/security.md states what is promised.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench import foreign_models, victims  # noqa: E402
from bench.attempts import OUTCOMES, Tally, attempt, harm, snapshot  # noqa: E402
from bench.hostile_foreign import HostileFile, hand_made, mutants  # noqa: E402
from bench.hostile_models import FILES, ask, hostile_models, train_models  # noqa: E402
from bench.hostile_requests import (  # noqa: E402
    ask_all,
    closed_within,
    hostile_histories,
    slow_heads,
)
from bench.hostile_runs import RUN, hostile_runs  # noqa: E402

PATHS = (
    "/api/models", "/static/../app.py", "/static/%2e%2e/app.py", "/open/x", "/api/runs/x/tensors",
    "/%00", "//evil", "/api/train/a/history",
)  # fmt: skip
COMMAND = [sys.executable, "-m", "translucid"]


def command(*words: str) -> None:
    """Run a command line in this process, without its output."""
    from translucid.cli import main
    from translucid.core.errors import TranslucidError

    out, err = StringIO(), StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(words)
    except SystemExit as end:
        if end.code == 2:
            raise TranslucidError(err.getvalue()) from None
        if end.code:
            raise RuntimeError(err.getvalue()) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def canary(place: Path, good: Path) -> Iterator[Callable[[], str | None]]:
    """Create a folder beside the attack that must stay untouched; the block receives a function
    that returns what happened to it, or None."""
    shutil.copytree(good, place / "precious", symlinks=True)
    (place / "precious" / "thesis.txt").write_text("years of work\n")
    before = snapshot(place / "precious")
    yield lambda: harm(before, snapshot(place / "precious"))


def attack_models(good: Path, count: int | None, seed: int) -> Tally:
    tally = Tally("model folders")
    for case in hostile_models(good, count, seed):
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            with canary(place, good / case.task / "best") as harmed:
                case.make(good, place / "model")
                outcome, note, seconds = attempt(lambda: ask(place / "model", case.task))  # noqa: B023
                outcome = "escaped" if outcome == "harmless" and case.escapes else outcome
                tally.add(case.name, harmed() or outcome, note, seconds)
    return tally


def attack_foreign(place: Path, count: int, by_hand: int | None, seed: int) -> list[victims.Table]:
    """Open hostile files of other tools, each in its own process, which measures time and
    memory."""
    good = place / "good"
    foreign_models.write_models(good)
    for name, model in foreign_models.GOOD.items():
        foreign_models.ask(good / name / model.path)  # imports the modules once, for all children
    cases = list(hand_made(good))
    if by_hand is not None and by_hand < len(cases):
        cases = random.Random(seed).sample(cases, by_hand)
    tables = {name: victims.Table(name) for name in foreign_models.GOOD}
    for case in [*cases, *mutants(good, count, seed)]:
        end = attack_file(good, place / "attack", case)
        tables[case.format].add(case.name, end)
        if end.outcome in victims.BAD:
            print(ascii(tables[case.format].bad[-1]), file=sys.stderr, flush=True)
    return list(tables.values())


def attack_file(good: Path, place: Path, case: HostileFile) -> victims.Ending:
    """Open one hostile file. place: a folder that is created for it and removed afterwards."""
    folder = place / "model"
    try:
        shutil.copytree(good / case.format, folder)
        case.change(folder)
        path = folder / foreign_models.GOOD[case.format].path
        return victims.opened(foreign_models.ask, path, must_refuse=case.must_refuse, folder=folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def attack_runs(good: Path, count: int | None, seed: int) -> Tally:
    tally = Tally("run folders")
    cases = list(hostile_runs())
    if count is not None and count < len(cases):
        cases = random.Random(seed).sample(cases, count)
    for case in cases:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            shutil.copytree(good / "regress", place / "run")
            shutil.copy(good / "a.csv", place)
            with canary(place, good / "regress" / "best") as harmed:
                case.change(place / "run")
                os.chdir(place)
                outcome, note, seconds = attempt(lambda: command("resume", "run", *RUN), seconds=20)
                os.chdir("/")
                outcome = "escaped" if outcome == "harmless" and case.escapes else outcome
                tally.add(case.name, harmed() or outcome, note, seconds)
    return tally


def attack_histories(count: int | None, seed: int) -> Tally:
    tally = Tally("records in the studio")
    cases = list(hostile_histories())
    if count is not None and count < len(cases):
        cases = random.Random(seed).sample(cases, count)
    for name, make in cases:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            tally.add(name, *attempt(lambda: ask_all(Path(folder))))
    return tally


def attack_server(count: int) -> Tally:
    """Send requests to the studio: connections that never end, forged origins and hosts, unusual
    paths."""
    import http.client
    import threading

    from translucid.studio.handlers import Handlers
    from translucid.studio.library import Library
    from translucid.studio.server.serve import ready

    tally = Tally("requests to the studio")
    page = ready(0)
    page.opening.set_result(Handlers(Library({})))
    thread = threading.Thread(target=page.run, daemon=True)
    thread.start()
    port, deadline = page.held.getsockname()[1], time.monotonic() + 20
    while not page.server.started and time.monotonic() < deadline:
        time.sleep(0.05)
    links = slow_heads(port, count)
    drawn = random.Random(0)
    for number in range(count):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        own = f"127.0.0.1:{port}"
        headers = {
            "Host": drawn.choice(["evil.example", own, "", "a" * 5000]),
            "Origin": drawn.choice(["http://evil.example", "null", f"http://{own}"]),
            "Cookie": drawn.choice(["", f"translucid-{port}=x", "translucid=" + "a" * 3000]),
        }
        path = drawn.choice(PATHS)
        method = drawn.choice(["GET", "POST", "PUT", "HEAD", "OPTIONS", "TRACE"])
        began = time.monotonic()
        try:
            link.request(method, path, body=b"x" * drawn.choice([0, 10]), headers=headers)
            status = link.getresponse().status
            outcome = "unexpected" if status >= 500 else "escaped" if status == 200 else "refused"
            note = str(status)
        except TimeoutError as error:
            outcome, note = "hung", str(error)
        except (OSError, http.client.HTTPException) as error:
            outcome, note = "refused", str(error)  # the connection was closed
        finally:
            link.close()
        tally.add(f"{number}: {method} {path}", outcome, note, time.monotonic() - began)
    closed = closed_within(links, 25)
    for number in range(len(links)):
        tally.add("a head that never ends", "refused" if number < closed else "hung")
    for link in links:
        link.close()
    page.server.should_exit = True
    thread.join(10)
    return tally


def attack_races(good: Path, count: int) -> Tally:
    """Start processes that all use the same folder: at most one may get it, and its files must be
    complete."""
    tally = Tally("races for a run folder")
    words = ["--train", "a.csv", "model.hidden=[4]", "training.steps=300", "training.device=cpu"]
    for number in range(count):
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            shutil.copy(good / "a.csv", place)
            began = time.monotonic()
            all_of_them = [
                subprocess.Popen([*COMMAND, "train", "regress", "--out", "run", *words],
                                 cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True) for _ in range(3)
            ]  # fmt: skip
            ends = [(process.communicate(timeout=120)[1], process.returncode)
                    for process in all_of_them]  # fmt: skip
            took = time.monotonic() - began
            won = [end for end in ends if end[1] == 0]
            for said, code in ends:
                named = code == 2 and ("is in use" in said or "already contains a run" in said)
                good_end = code == 0 or named
                tally.add(f"race {number}", "refused" if named else "harmless" if good_end else
                          "unexpected", said[-200:], took)  # fmt: skip
            lines = (place / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
            steps = [record["step"] for record in map(json.loads, lines) if "valid" not in record]
            whole = len(won) == 1 and steps == sorted(set(steps))
            outcome, note, seconds = attempt(lambda: ask(place / "run", "regress"))  # noqa: B023
            tally.add(
                f"race {number}: what is left", outcome if whole else "escaped", note, seconds
            )
    return tally


def table(tallies: list[Tally]) -> str:
    lines = ["| attack | tried | " + " | ".join(OUTCOMES) + " | slowest, s |",
             "| --- |" + " ---: |" * (len(OUTCOMES) + 2)]  # fmt: skip
    for tally in tallies:
        counts = " | ".join(f"{tally.counts[name]:,}" for name in OUTCOMES)
        lines.append(f"| {tally.kind} | {tally.tried:,} | {counts} | {tally.seconds:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", type=int, default=600, help="model folders; 0: all")
    parser.add_argument("--mutants", type=int, default=2500, help="damaged files of other tools")
    parser.add_argument("--hand-made", type=int, default=0, help="files made by hand; 0: all")
    parser.add_argument("--only-foreign", action="store_true", help="files of other tools alone")
    parser.add_argument("--runs", type=int, default=150, help="run folders; 0: all")
    parser.add_argument("--histories", type=int, default=400, help="records; 0: all")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--races", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as name:
        good = Path(name)
        os.chdir(good)
        foreign = attack_foreign(good / "foreign", options.mutants, options.hand_made or None,
                                 options.seed)  # fmt: skip
        if not options.only_foreign:
            train_models(good, command)
            assert all((good / file).exists() for file in FILES)
        tallies = (
            []
            if options.only_foreign
            else [
                attack_models(good, options.models or None, options.seed),
                attack_runs(good, options.runs or None, options.seed),
                attack_histories(options.histories or None, options.seed),
                attack_server(options.requests),
                attack_races(good, options.races),
            ]
        )
        os.chdir("/")
    if options.json:
        told: dict[str, Any] = {
            "machine": platform.platform(), "date": time.strftime("%Y-%m-%d"),
            "seed": options.seed, "attacks": [tally.as_json() for tally in tallies],
            "foreign": [table.as_json() for table in foreign],
        }  # fmt: skip
        print(json.dumps(told, indent=2))
    else:
        print(victims.table_of(foreign))
        if tallies:
            print("\n" + table(tallies))
        for line in (line for tally in (*foreign, *tallies) for line in tally.bad):
            print(ascii(line))
    sys.exit(any(tally.bad for tally in (*foreign, *tallies)))


if __name__ == "__main__":
    main()
