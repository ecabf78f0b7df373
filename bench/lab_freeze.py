"""Freeze the lab's rules: write down the hash of each rule, and since when it has this hash.

    python bench/lab_freeze.py

A rule whose hash is unchanged keeps its time. Run this before the measurement that counts, with
seeds that were not used to write the rules; if a rule is changed afterwards, its time is later than
that of its verdict.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from translucid_lab.claims import experiments, real_experiments
from translucid_lab.engine import fingerprints


def rules(before: dict[str, dict[str, str]], now: str) -> dict[str, dict[str, str]]:
    after = {}
    for experiment in [*experiments().values(), *real_experiments().values()]:
        for key in experiment.claims:
            made = fingerprints.fingerprint(experiment, key)
            name = fingerprints.name_of(experiment, key)
            same = before.get(name, {}).get("hash") == made
            after[name] = {"hash": made, "since": before[name]["since"] if same else now}
    return after


if __name__ == "__main__":
    path = Path(fingerprints.__file__).with_name(fingerprints.FILE)
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    after = rules(before, datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"))
    path.write_text(json.dumps(after, indent=1) + "\n", "utf-8")
    changed = [key for key in after if before.get(key, {}).get("hash") != after[key]["hash"]]
    print(f"{len(after)} rules, {len(changed)} of them new or changed: {', '.join(changed)}")
