"""Judge stored measurements again by rules that have changed since. Nothing is measured.

    python bench/lab_freeze.py
    python bench/lab_judge.py docs/lab

Such a verdict is not independent of its numbers, which were known when the rule was changed. `lab
show` and the report say so until the experiment is measured again with new seeds.
"""

import sys
from pathlib import Path

from translucid_lab.claims import experiments, real_experiments
from translucid_lab.engine import results


def judge(folder: Path) -> list[str]:
    """Judge the files of a folder again; return a line for each verdict whose rule has changed."""
    known, lines = {**experiments(), **real_experiments()}, []
    for file in (results.FILE, results.AGAIN, results.ELSEWHERE, results.REAL):
        before = results.read(folder, file)
        after = {
            name: kept.judged_again(known[name]) if name in known else kept
            for name, kept in before.items()
        }
        for name, kept in after.items():
            for key, finding in kept.findings.items():
                if kept.hashes.get(key) != before[name].hashes.get(key):
                    old = before[name].findings[key].verdict
                    lines.append(f"{file}: {key}: {old}, now {finding.verdict}")
        if after != before:
            results.write(folder, file, after)
    return lines


if __name__ == "__main__":
    print("\n".join(judge(Path(sys.argv[1]))) or "no rule has changed")
