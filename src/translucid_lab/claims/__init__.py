"""The experiments of the lab, one theme per file, and the helpers that they share."""

import pkgutil
from functools import cache
from importlib import import_module

from translucid.core import ConfigError
from translucid_lab.engine.experiment import Experiment, claims, of_module


def experiments() -> dict[str, Experiment]:
    """All experiments on toy examples, by name, in the order of the claims."""
    return {name: made for name, made in _every().items() if not made.real}


def real_experiments() -> dict[str, Experiment]:
    """Second tests of claims, on real text or pretrained weights."""
    return {name: made for name, made in _every().items() if made.real}


@cache
def _every() -> dict[str, Experiment]:
    known: dict[str, Experiment] = {}
    for file in pkgutil.iter_modules(__path__, f"{__name__}."):
        for experiment in of_module(import_module(file.name)):
            if known.setdefault(experiment.name, experiment) is not experiment:
                raise ConfigError(f"two experiments are called {experiment.name}")
    return dict(sorted(known.items(), key=lambda item: _place(item[1])))


def _place(experiment: Experiment) -> int:
    order = [*claims()]
    return min(order.index(key) if key in order else len(order) for key in experiment.claims)
