"""Rules are frozen before the run that counts: each has a hash, and the day it has it since.

What a rule is: the claim's words, the rule's words, its label, the number of seeds, the function
that judges with the functions and numbers of the lab that it uses, and the statistics below it. A
rule that was changed has another hash, and verdicts of before are shown as those of an older rule.
`python bench/lab_freeze.py` writes the hashes down, with the day.
"""

import hashlib
import inspect
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from types import CodeType
from typing import Any

from translucid_lab.engine.claims import claims
from translucid_lab.engine.experiment import Experiment

FILE = "frozen.json"
# 1: the bootstrap over 5 seeds, each comparison for itself. 2: Student's t, ranks and exact counts
# over 10 seeds, Holm within a claim. To be raised when all rules change at once.
STATISTICS = 2
LAB = "translucid_lab.claims."


def fingerprint(experiment: Experiment, key: str) -> str:
    """Of the rule that an experiment has for a claim."""
    rule, claim = experiment.claims[key], claims().get(key)
    parts = [str(STATISTICS), claim.says if claim else experiment.title, rule.text, rule.label]
    parts += [str(experiment.seeds), *_code(rule.judge)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def frozen() -> dict[str, dict[str, str]]:
    """By claim: the hash, and since when."""
    text = files("translucid_lab.engine").joinpath(FILE).read_text("utf-8")
    rules: dict[str, dict[str, str]] = json.loads(text)
    return rules


def name_of(experiment: Experiment, key: str) -> str:
    """A claim that is asked of toys and beyond them has two rules."""
    return f"{key}, {experiment.name}" if experiment.real else key


def frozen_since(experiment: Experiment, key: str) -> str:
    """The day, or nothing where the rule is no frozen one: a user's own, or one in the making."""
    entry = frozen().get(name_of(experiment, key), {})
    return entry.get("since", "") if entry.get("hash") == fingerprint(experiment, key) else ""


def _code(function: Any) -> Iterator[str]:
    """A function and what it uses of the lab's claims, without regard to spaces and lines."""
    waiting, seen = [function], set()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        yield "".join(inspect.getsource(here).split())
        for name in sorted(_names(here.__code__)):
            value = here.__globals__.get(name)
            if inspect.isfunction(value) and value.__module__.startswith(LAB):
                waiting.append(value)
            elif _plain(value):
                yield f"{name} = {value!r}"


def _names(code: CodeType) -> set[str]:
    nested = [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*map(_names, nested))


def _plain(value: Any) -> bool:
    """Numbers and texts, and what is made of them."""
    if isinstance(value, dict):
        return all(_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return isinstance(value, int | float | str | range)
