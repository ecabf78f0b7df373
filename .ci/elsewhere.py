"""Runs some of the tests once more in other surroundings: `elsewhere.py [FILES]`.

In a copy of the checkout under the temporary folder, whose path has spaces, in the C locale with
ASCII as its encoding, and without compiled kernels. FILES test files are drawn by the seed of the
order (TRANSLUCID_TESTS_SEED); 0 is all of them.
"""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SEED = "TRANSLUCID_TESTS_SEED"  # of tests/shuffled.py
SOME = 40  # test files


def copied(folder: Path) -> None:
    """Files that git knows or would add: not the environment, nor what was compiled."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True).stdout.split(b"\0")
    for name in filter(os.path.isfile, filter(None, names)):
        place = folder / os.fsdecode(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.fsdecode(name), place)


def main(some: int = SOME) -> int:
    seed = os.environ.get(SEED) or str(random.SystemRandom().randrange(1, 10_000))
    with TemporaryDirectory() as made:
        folder = Path(made, "a folder with spaces")
        copied(folder)
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("tests/**/test_*.py"))
        chosen = random.Random(int(seed)).sample(files, some) if 0 < some < len(files) else files
        print(f"{len(chosen)} of {len(files)} test files in {folder}, {SEED}={seed}", flush=True)
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), *chosen]
        plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "OMP_NUM_THREADS": "1", SEED: seed}
        plain["PYTHONDONTWRITEBYTECODE"] = ""  # compile the copied files once, not in each process
        given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        there = {"cwd": folder, "env": given | plain, "check": False}
        code = subprocess.run(pytest, **there).returncode
        again = [sys.executable, Path(__file__).with_name("alone.py").resolve(), str(code)]
        return code and subprocess.run(again, **there).returncode


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
