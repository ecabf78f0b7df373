"""Judge stored measurements by the rules as they are now. Nothing is measured.

    python bench/lab_freeze.py
    python bench/lab_judge.py docs/lab

If a rule has changed since, its verdict is not independent of the numbers, which were known. `lab
show` and the report say so until the experiment is measured again with new seeds. The new
measurement replaces the stored one and all of its repetitions:

    python bench/lab_judge.py docs/lab results.json=runs/new/again.json
"""

import sys
from pathlib import Path

from translucid_lab.claims import experiments, real_experiments
from translucid_lab.engine import results

FILES = (results.FILE, results.AGAIN, results.ELSEWHERE, results.REAL)


def judge(folder: Path) -> list[str]:
    """Judge the files of a folder again; return a line for each verdict whose rule has changed."""
    known, lines = {**experiments(), **real_experiments()}, []
    for file in FILES:
        before = results.read(folder, file)
        after = {  # numbers of other code cannot be judged
            name: kept if kept.stale(known[name]) else kept.judged_again(known[name])
            for name, kept in before.items()
        }
        for name, kept in after.items():
            for key, finding in kept.findings.items():
                if kept.hashes.get(key) != before[name].hashes.get(key):
                    old = before[name].findings.get(key)
                    verdict = old.verdict if old else "not measured"
                    lines.append(f"{file}: {key}: {verdict}, now {finding.verdict}")
        if after != before:
            results.write(folder, file, after)
    return lines


def take(folder: Path, file: str, measured: Path) -> None:
    """Take new measurements into a file. What they replace is removed, with its repetitions."""
    new = results.read(measured.parent, measured.name)
    for other in FILES if file in (results.FILE, results.REAL) else (file,):
        before = results.read(folder, other)
        after = {name: kept for name, kept in before.items() if name not in new}
        after |= new if other == file else {}
        if after != before:
            results.write(folder, other, after)


if __name__ == "__main__":
    place, *new = sys.argv[1:]
    for file, measured in (word.split("=", 1) for word in new):
        take(Path(place), file, Path(measured))
    print("\n".join(judge(Path(place))) or "no rule has changed")
