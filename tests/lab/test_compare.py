"""bench/lab_compare.py: two measurements side by side."""

import json
from pathlib import Path

from bench import lab_compare as compare

from translucid_lab.claims import experiments
from translucid_lab.engine import evidence, results


def shipped(file: str) -> Path:
    return next(folder / file for folder in results.SHIPPED if (folder / file).exists())


def test_changes_are_those_that_the_lab_knows() -> None:
    """Claims whose verdict another machine and other seeds changed, counted by the lab's rows."""
    first, elsewhere = results.shipped(), results.shipped(results.ELSEWHERE)
    every = evidence.rows(experiments(), first, elsewhere=elsewhere)
    wavering = {row.claim.key for row in every if row.wavers}
    assert len(elsewhere) > 10
    old, new = (compare.findings(shipped(file)) for file in (results.FILE, results.ELSEWHERE))
    rows = [row.split(" | ") for row in compare.table(old, new)[2:-2]]
    assert len(rows) == len({*old, *new})
    changed = {row[0].removeprefix("| ") for row in rows if "**" in row[2]}
    assert changed == wavering | (set(old) - set(new))  # the others were measured once


def test_sizes_and_sums(tmp_path: Path) -> None:
    def written(name: str, verdicts: dict[str, str], more: float) -> dict[str, dict[str, object]]:
        found = {
            key: {"verdict": verdict, "why": f"it is {more} [0.1, 3], and -2e-05 [-1, {more}]",
                  "numbers": {"gain": {"float": "inf"}, "by": [more]} if key == "C2" else {}}
            for key, verdict in verdicts.items()
        }  # fmt: skip
        path = tmp_path / name
        path.write_text(json.dumps({"results": [{"findings": found}]}))
        return compare.findings(path)

    old = written("old.json", {"C10": "supported", "C2": "refuted", "mine": "depends"}, 1.5)
    new = written("new.json", {"C10": "undecided", "C2": "refuted"}, 2.5)
    assert compare.table(old, new)[2:] == [
        "| C2 | refuted | refuted | gain inf -> inf, by[0] 1.5 -> 2.5 |",
        "| C10 | supported | **undecided** | #1 1.5 -> 2.5, #2 -2e-05 -> -2e-05 |",
        "| mine | depends | **not measured** | #1 1.5 -> none, #2 -2e-05 -> none |",
        "",
        "3 claims: 1 the same verdict, 1 supported -> undecided, 1 depends -> not measured",
    ]


def test_sizes_of_what_a_rule_has_compared() -> None:
    def finding(value: float) -> dict[str, object]:
        made = [{"value": value, "bar": 0.1}, {"value": {"float": "inf"}, "bar": 2}]
        return {"verdict": "supported", "why": "", "numbers": {"by": 7.0}, "comparisons": made}

    sizes = compare.sizes(finding(0.25), finding(0.5))
    assert sizes == "#1 (0.1) 0.25 -> 0.5, #2 (2) inf -> inf"
