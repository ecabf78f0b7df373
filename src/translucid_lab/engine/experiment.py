"""Claims and the experiments that test them: definition, lookup, and the template of `lab new`."""

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
    """A statement that many books and courses make in some form."""

    key: str  # C46
    says: str
    literature: Literature | None  # the verdict of published work; None: there is none
    notes: str  # the sources, and their conditions


@cache
def _texts(file: str) -> dict[str, Any]:
    """Read a TOML file from this folder."""
    return tomllib.loads(files(__package__).joinpath(file).read_text("utf-8"))


@cache
def claims() -> dict[str, Claim]:
    """All claims by key, in the order of the file."""
    return {key: Claim(key, **entry) for key, entry in _texts("claims.toml").items()}


def in_plain_words(key: str, verdict: str) -> str:
    """One sentence on what this verdict means for this claim; empty if there is none."""
    sentence: str = _texts("plain_words.toml").get(key, {}).get(verdict, "")
    return sentence


LEAST_SEEDS = 10  # minimum for a random experiment: with fewer, exact tests cannot decide anything
UNSEEN = 1000  # first seed of the run that counts: lower ones were seen while rules were written


@dataclass(frozen=True)
class Experiment:
    """A measurement that tests one or more claims.

    run(seed, quick) returns the numbers of one seed, in a form that JSON can store; with `quick`
    it measures less. Verdicts and pictures are computed from the numbers of all seeds alone.
    """

    name: str  # softmax-scale
    title: str  # what the figure shows
    varies: str
    measures: str
    claims: Mapping[str, Rule]  # by key
    run: Callable[[int, bool], Data]
    draw: Callable[[Sequence[Data]], Picture]
    seconds: float  # approximate, for one seed on one core
    seeds: int = LEAST_SEEDS  # 1: nothing in it is random
    references: tuple[str, ...] = ()
    beyond_toys: bool = False  # a second test of its claims, without real data

    def __post_init__(self) -> None:
        if self.seeds != 1 and self.seeds < LEAST_SEEDS:
            raise ConfigError(
                f"{self.name}: seeds = {self.seeds}; use {LEAST_SEEDS} or more, or 1 if nothing in "
                "the experiment is random"
            )

    @classmethod
    def described(
        cls,
        name: str,
        run: Callable[[int, bool], Data],
        draw: Callable[[Sequence[Data]], Picture],
        judges: Mapping[str, Callable[[Sequence[Data]], Finding]],
    ) -> Self:
        """Create an experiment of the lab, with texts and rules from experiments.toml. judges: for
        each claim, the function that applies its rule."""
        entry = dict(_texts("experiments.toml")[name])
        rules = entry["claims"]
        entry["claims"] = {key: Rule(judge=judge, **rules[key]) for key, judge in judges.items()}
        entry["references"] = tuple(entry.get("references", ()))
        return cls(name=name, run=run, draw=draw, **entry)

    @property
    def real(self) -> bool:
        """Whether this is a second test of its claims, beyond toy examples."""
        labels = (rule.label for rule in self.claims.values())
        return self.beyond_toys or "real data" in labels


def of_module(module: ModuleType) -> list[Experiment]:
    return [value for value in vars(module).values() if isinstance(value, Experiment)]


def of_file(path: Path, taken: Collection[str] = ()) -> list[Experiment]:
    """Load the experiments of a user's file. taken: names already in use."""
    if not path.is_file():
        raise ConfigError(
            f"{path}: no such file; `translucid lab new NAME` writes one to start from"
        )
    experiments = of_module(_loaded(path))
    if not experiments:
        raise ConfigError(
            f"{path}: the file defines no Experiment; see `translucid lab new --help`"
        )
    names = [experiment.name for experiment in experiments]
    if twice := [name for name in names if names.count(name) > 1 or name in taken]:
        raise ConfigError(f"{path}: the name {twice[0]} is taken; rename the experiment")
    return experiments


def _loaded(path: Path) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    name = f"translucid_lab_{path.stem}"  # cannot clash with another module
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: not a Python file: its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module there
    try:
        spec.loader.exec_module(module)
    except TranslucidError:
        raise
    except Exception as error:
        raise ConfigError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def for_claim(key: str, known: Mapping[str, Experiment]) -> Experiment:
    """Find an experiment by one of its claims, or by its name."""
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
    """Write NAME.py from the template; never overwrite a file."""
    name = name.removesuffix(".py")
    if not _NAME.fullmatch(name) or not name.isascii():
        raise ConfigError(
            f"{name}: use letters, digits, _ and - for a name, and start with a letter, as in "
            "longer-words"
        )
    if name.lower() in taken:
        raise ConfigError(f"{name}: the lab has an experiment with this name; choose another")
    path = folder / f"{name}.py"
    if path.exists():
        raise InputError(f"{path} exists already; choose another name")
    write_text(path, template_text(name))
    return path


def template_text(name: str) -> str:
    template = files("translucid_lab.engine").joinpath("template.txt").read_text("utf-8")
    return template.replace("NAME", name.lower())
