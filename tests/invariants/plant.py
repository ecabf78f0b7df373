"""Insert the faults of `faults.toml` into a copy of the source, one by one, and check that tests
fail.

    python tests/invariants/plant.py                 all faults
    python tests/invariants/plant.py alpha reorder   those whose description has one of these words
    python tests/invariants/plant.py --source DIR    use a copy of DIR instead of src/
    python tests/invariants/plant.py --jobs 8        eight at a time

The source itself is never changed.
"""

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from tests.invariants.faults import FAULTS, Fault  # noqa: E402 (found through the line above)


def run(source: Path, tests: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run these tests with this source."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "not thorough", *options]
    command += ["-o", f"pythonpath={source} {ROOT}", *tests]
    return subprocess.run(command, cwd=ROOT, env=os.environ, encoding="utf-8", capture_output=True)


def where(fault: Fault) -> str:
    file, _, function = fault.red.partition("::")
    return f"{HERE}/test_{file}.py::test_{function}"


def broken(source: Path, fault: Fault, folder: Path) -> Path:
    """A copy of the source that contains the fault."""
    copy = folder / "src"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "translucid" / fault.file
    text = path.read_text("utf-8")
    assert text.count(fault.old) == 1, (
        f"{fault.file} has {text.count(fault.old)} times {fault.old!r}"
    )
    path.write_text(text.replace(fault.old, fault.new), "utf-8")
    return copy


def caught(source: Path, fault: Fault) -> str | None:
    """None if the test fails because of the fault; otherwise, what happened instead."""
    with TemporaryDirectory() as folder:
        copy = broken(source, fault, Path(folder))
        done = run(copy, [where(fault)], "-x")
        if f"translucid: {copy}" not in done.stdout:
            return "the copy was not the one imported\n" + done.stdout + done.stderr
        return None if done.returncode == 1 and " failed" in done.stdout else done.stdout[-2000:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--source", type=Path, default=ROOT / "src")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    chosen = [f for f in FAULTS if not given.words or any(w in f.what for w in given.words)]
    sound = run(given.source, sorted({where(fault) for fault in chosen}), "-q")
    if sound.returncode != 0:
        print(sound.stdout[-3000:], "the source is not sound, so red proves nothing", sep="\n")
        return 1
    missed = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for fault, instead in zip(
            chosen, pool.map(lambda fault: caught(given.source, fault), chosen), strict=True
        ):
            missed += instead is not None
            verdict = "red" if instead is None else f"GREEN\n{instead}"
            print(f"{fault.file}: {fault.what}: {fault.red}: {verdict}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
