"""The claims of the lab, from five sets of course notes, and what the literature says of them."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Literature = Literal["right", "partly", "wrong", "vague"]


@dataclass(frozen=True)
class Claim:
    """One sentence that many books and courses have in some form."""

    key: str  # C46
    says: str
    literature: Literature | None  # of those who have measured or proved it before; None: nobody
    notes: str  # who, and under which conditions


@cache
def claims() -> dict[str, Claim]:
    """All claims, by key, in their order."""
    text = files("translucid_lab.engine").joinpath("claims.toml").read_text("utf-8")
    return {key: Claim(key, **entry) for key, entry in tomllib.loads(text).items()}


@cache
def _sentences() -> dict[str, dict[str, str]]:
    text = files("translucid_lab.engine").joinpath("plain_words.toml").read_text("utf-8")
    return tomllib.loads(text)


def in_plain_words(key: str, verdict: str) -> str:
    """What this verdict means for this claim, in one sentence; nothing where nobody wrote one."""
    return _sentences().get(key, {}).get(verdict, "")
