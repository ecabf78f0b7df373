"""Compare two measurements of the lab: the verdict of every claim, and its effect sizes.

    python bench/lab_compare.py docs/lab/results.json runs/lab/results.json

Prints a row for each claim: the old verdict, the new one (marked if it changed), and the effect
sizes of its rule, old -> new. If a rule stores no numbers, these are the intervals in its reason.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

INTERVAL = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?) \[[^\]]*\d[^\]]*\]")  # 0.198 [0.184, 0.212]
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SHOWN = 4  # maximum effect sizes to print for a claim


def findings(path: Path) -> dict[str, dict[str, Any]]:
    """The findings by claim, in the order of the file."""
    results = json.loads(path.read_text("utf-8"))["results"]
    return {key: found for each in results for key, found in each["findings"].items()}


def effects(finding: dict[str, Any]) -> dict[str, float]:
    """The effect sizes of a finding: what its rule compared, with the bar. For older results, its
    numbers by name or, without names, by their position in the reason."""
    if made := finding.get("comparisons"):
        return {f"#{at} ({each['bar']:.3g})": float(dict(_flat(each["value"], "value"))["value"])
                for at, each in enumerate(made, 1)}  # fmt: skip
    named = dict(_flat(finding["numbers"]))
    quoted = INTERVAL.findall(finding["why"]) or NUMBER.findall(finding["why"])
    return named or {f"#{at}": float(text) for at, text in enumerate(quoted, 1)}


def _flat(value: Any, name: str = "") -> list[tuple[str, float]]:
    if isinstance(value, dict) and list(value) == ["float"]:
        return [(name, float(value["float"]))]  # infinity, or no number, as JSON cannot say it
    if isinstance(value, dict):
        return [
            pair for key, part in value.items() for pair in _flat(part, f"{name} {key}".strip())
        ]
    if isinstance(value, list):
        return [pair for at, part in enumerate(value) for pair in _flat(part, f"{name}[{at}]")]
    return [(name, float(value))] if isinstance(value, int | float) else []


def sizes(old: dict[str, Any] | None, new: dict[str, Any] | None) -> str:
    before, after = (effects(each) if each else {} for each in (old, new))
    names = list({**before, **after})
    told = [f"{name} {_number(before.get(name))} -> {_number(after.get(name))}" for name in names]
    more = f", and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return ", ".join(told[:SHOWN]) + more


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def table(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> list[str]:
    keys = sorted({**old, **new}, key=lambda key: (not key[1:].isdigit(), key[:1], len(key), key))
    rows = ["| claim | old | new | effect sizes, old -> new |", "| --- | --- | --- | --- |"]
    changes: Counter[str] = Counter()
    for key in keys:
        before, after = old.get(key), new.get(key)
        verdicts = [each["verdict"] if each else "not measured" for each in (before, after)]
        changed = verdicts[0] != verdicts[1]
        changes[f"{verdicts[0]} -> {verdicts[1]}" if changed else "the same verdict"] += 1
        shown = f"**{verdicts[1]}**" if changed else verdicts[1]
        rows.append(f"| {key} | {verdicts[0]} | {shown} | {sizes(before, after)} |")
    counted = ", ".join(f"{count} {name}" for name, count in changes.most_common())
    return [*rows, "", f"{len(keys)} claims: {counted}"]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("two files, please: python bench/lab_compare.py OLD.json NEW.json")
    print("\n".join(table(*(findings(Path(name)) for name in sys.argv[1:]))))
