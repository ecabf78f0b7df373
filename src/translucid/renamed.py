"""Names that keys, weights and trace points had once: what was written with them is still read.

A recipe or model folder written before is translated, and that is said; an old name that is typed
today is refused with the new one.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from translucid.errors import ConfigError

# Keys of recipes, section and all.
KEYS = {
    "tokenizer.vocab": "tokenizer.vocab_size",
    "model.letters": "model.characters",
    "model.votes": "model.ngram_features",
    "model.members": "model.ensemble_size",
    "training.capture": "training.cuda_graphs",
    "training.save_aside": "training.save_in_background",
    "decoding.beams": "decoding.beam_size",
}

# Keys that came later, with what runs did that were begun without them.
ADDED: dict[str, Any] = {"data.standardise": False}

# Beginnings of the names of weights, within one network.
WEIGHTS = {
    "encoder.letters.": "encoder.characters.",
    "votes.": "ngrams.",
}

# Keys of a checkpoint's state.json.
CHECKPOINT = {"told": "fingerprint"}

# Inputs of networks.
INPUTS = {
    "real": "mask",
    "source_real": "source_mask",
    "target_real": "target_mask",
    "letters": "characters",
}

# Options of generation, in Python and on the command line.
GENERATION = {
    "beam": "beam_size",
    "beams": "beam_size",
    "best": "n_best",
    "shortest": "min_length",
    "longest": "max_length",
    "tokens": "max_length",
    "shortest_share": "min_length_ratio",
    "longest_share": "max_length_ratio",
    "no_repeat": "no_repeat_ngram",
    "repetition": "repetition_penalty",
    "groups": "beam_groups",
    "diversity": "diversity_penalty",
    "beside": "ensemble",
}

# Options of the command line that are no options of generation.
OPTIONS = {"max_tokens": "max_input_length"}


class Renamed(UserWarning):
    """What was written with a name of before has been read all the same."""


def is_now(old: str, new: str) -> str:
    """The message for a name of before."""
    return f"{old}: now {new}"


def refuse_old(options: Iterable[str]) -> None:
    """Options of generation by names that they had once."""
    mistakes = [is_now(name, GENERATION[name]) for name in options if name in GENERATION]
    if mistakes:
        raise ConfigError(*mistakes)


def keys_today(sections: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The sections of a recipe file with today's keys; what was translated is said.

    A file is of one time: one that holds an old key and a new one is refused.
    """
    written = [f"{section}.{key}" for section, keys in sections.items() for key in keys]
    old = [key for key in written if key in KEYS]
    if old and not {*KEYS.values()}.isdisjoint(written):
        raise ConfigError(*(f"{where}: {is_now(key, KEYS[key])}" for key in old))
    for key in old:
        warnings.warn(f"{where}: {is_now(key, KEYS[key])}", Renamed, stacklevel=3)
    return {section: section_today(section, keys) for section, keys in sections.items()}


def section_today(section: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """One section of a recipe or a model folder, in today's keys."""
    return {_today(section, key): value for key, value in keys.items()}


def _today(section: str, key: str) -> str:
    return KEYS.get(f"{section}.{key}", f"{section}.{key}").removeprefix(f"{section}.")


def weight_today(name: str) -> str:
    """The name of a weight, alone, in an ensemble, or in a checkpoint."""
    before = re.match(r"((network|average)\.)?(members\.\d+\.)?", name)
    start = before.end() if before else 0
    for old, new in WEIGHTS.items():
        if name.startswith(old, start):
            return name[:start] + new + name[start + len(old) :]
    return name
