"""Claims, the experiments that test them, and how one is found or begun.

An experiment is found in a module, in a user's file, or by its claim; `translucid lab new` writes
one to begin from.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self

from translucid import TranslucidError
from translucid.core import ConfigError, InputError, nearest, write_text
from translucid.see import Picture
from translucid_lab.engine.verdict import Data, Finding, Rule

Literature = Literal["right", "partly", "wrong", "vague"]


@dataclass(frozen=True)
class Claim:
    """One sentence that many books and courses have in some form."""

    key: str  # C46
    says: str
    literature: Literature | None  # of those who have measured or proved it before; None: nobody
    notes: str  # who, and under which conditions


@cache
def _texts(file: str) -> dict[str, Any]:
    """A TOML file beside this one."""
    return tomllib.loads(files(__package__).joinpath(file).read_text("utf-8"))


@cache
def claims() -> dict[str, Claim]:
    """All claims, by key, in their order."""
    return {key: Claim(key, **entry) for key, entry in _texts("claims.toml").items()}


def in_plain_words(key: str, verdict: str) -> str:
    """One sentence on what this verdict means for this claim; empty if there is none."""
    sentence: str = _texts("plain_words.toml").get(key, {}).get(verdict, "")
    return sentence


LEAST_SEEDS = 10  # where there is chance: with fewer, exact tests can say nothing

UNSEEN = 1000  # the first seed of the run that counts: those below were seen while rules were made


@dataclass(frozen=True)
class Experiment:
    """One measurement, for one claim or several.

    run(seed, quick) measures and returns numbers that JSON can hold; with `quick` it does less of
    the same. Verdicts and pictures are made of the numbers of all seeds, and of nothing else.
    """

    name: str  # softmax-scale
    title: str  # what is seen, for a figure
    varies: str
    measures: str
    claims: Mapping[str, Rule]  # by key
    run: Callable[[int, bool], Data]
    draw: Callable[[Sequence[Data]], Picture]
    seconds: float  # of one seed on one core, about
    seeds: int = LEAST_SEEDS  # 1: there is no chance in it
    references: tuple[str, ...] = ()
    beyond_toys: bool = False  # it asks claims a second time, though not of real data

    def __post_init__(self) -> None:
        if self.seeds != 1 and self.seeds < LEAST_SEEDS:
            raise ConfigError(
                f"{self.name}: seeds = {self.seeds}; take {LEAST_SEEDS} or more, or 1 where "
                "nothing is left to chance"
            )

    @classmethod
    def described(
        cls,
        name: str,
        run: Callable[[int, bool], Data],
        draw: Callable[[Sequence[Data]], Picture],
        judges: Mapping[str, Callable[[Sequence[Data]], Finding]],
    ) -> Self:
        """An experiment of the lab: its texts and rules are in experiments.toml; `judges` has the
        function that applies each claim's rule."""
        entry = dict(_texts("experiments.toml")[name])
        rules = entry.pop("claims")
        if set(rules) != set(judges):
            raise ConfigError(f"{name}: rules in experiments.toml for {[*rules]}, functions for "
                              f"{[*judges]}")  # fmt: skip
        entry["claims"] = {key: Rule(judge=judges[key], **rule) for key, rule in rules.items()}
        entry["references"] = tuple(entry.get("references", ()))
        return cls(name=name, run=run, draw=draw, **entry)

    @property
    def real(self) -> bool:
        """Does it ask claims again, beyond toys?"""
        labels = (rule.label for rule in self.claims.values())
        return self.beyond_toys or "real data" in labels


def of_module(module: ModuleType) -> list[Experiment]:
    return [value for value in vars(module).values() if isinstance(value, Experiment)]


def of_file(path: Path, taken: Collection[str] = ()) -> list[Experiment]:
    """The experiments of a file outside the package; those of the package have taken names."""
    if not path.is_file():
        raise ConfigError(
            f"{path}: no such file; `translucid lab new NAME` writes one to begin with"
        )
    experiments = of_module(_loaded(path))
    if not experiments:
        raise ConfigError(f"{path}: no Experiment is made in it; see `translucid lab new --help`")
    names = [experiment.name for experiment in experiments]
    if twice := [name for name in names if names.count(name) > 1 or name in taken]:
        raise ConfigError(f"{path}: the name {twice[0]} is taken; give the experiment another")
    return experiments


def _loaded(path: Path) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    name = f"translucid_lab_{path.stem}"  # no name that a file of its own could have
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: not a Python file: its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
    except TranslucidError:
        raise
    except Exception as error:
        raise ConfigError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def for_claim(key: str, known: Mapping[str, Experiment]) -> Experiment:
    """The experiment that decides on a claim, or that has this name."""
    if key.lower() in known:
        return known[key.lower()]
    for experiment in known.values():
        if key.lower() in map(str.lower, experiment.claims):
            return experiment
    if key.upper() in claims():
        raise ConfigError(f"{key.upper()}: there is no experiment for this claim yet")
    close = nearest(key.upper(), claims()) or nearest(key.lower(), known)
    hint = f"; did you mean {', '.join(close)}?" if close else "; see `translucid lab list`"
    raise ConfigError(f"{key}: no such claim or experiment{hint}")


_NAME = re.compile(r"[A-Za-z][\w-]*")


def write_template(name: str, taken: Collection[str], folder: Path = Path()) -> Path:
    """NAME.py, which is never written over; the lab's experiments have taken names."""
    name = name.removesuffix(".py")
    if not _NAME.fullmatch(name) or not name.isascii():
        raise ConfigError(
            f"{name}: a name has letters, digits, _ and -, and begins with a letter, such as "
            "longer-words"
        )
    if name.lower() in taken:
        raise ConfigError(f"{name}: the lab has an experiment of this name; choose another")
    path = folder / f"{name}.py"
    if path.exists():
        raise InputError(f"{path} exists already; choose another name")
    write_text(path, template_text(name))
    return path


def template_text(name: str) -> str:
    template = files("translucid_lab.engine").joinpath("template.txt").read_text("utf-8")
    return template.replace("NAME", name.lower())
