"""Runs every test file in a process of its own, and prints those that fail: `make alone`.

A file that passes only after another has run (which imported, registered or downloaded something)
fails here. Takes pytest's marker expression, then the files or folders [all of tests/].
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FINE = (0, 5)  # pytest's codes for "all passed" and "no test has this marker"
LINES = 40  # of a failing file's output


def files(places: list[str]) -> Iterator[Path]:
    for place in map(Path, places or ["tests"]):
        yield from sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def run(file: Path, marked: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", marked, str(file)]
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return ran.returncode, ran.stdout.decode(errors="backslashreplace")


def main(marked: str, places: list[str]) -> int:
    failed = []
    tried = list(files(places))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = pool.map(lambda file: run(file, marked), tried)
        for number, (file, (code, printed)) in enumerate(zip(tried, answers, strict=True), 1):
            print(f"{number}/{len(tried)} {file}", flush=True)
            if code not in FINE:
                failed.append(file)
                print("\n".join(printed.splitlines()[-LINES:]), flush=True)
    print(f"{len(failed)} of {len(tried)} test files fail alone", *failed, sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
