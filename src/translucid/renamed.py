"""Names that keys, weights and trace points had once: what was written with them is still read.

A recipe or model folder written before is translated, and that is said; an old name that is typed
today is refused with the new one.
"""

import re
from collections.abc import Mapping
from typing import Any

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

# Beginnings of the names of weights, within one network.
WEIGHTS = {
    "encoder.letters.": "encoder.characters.",
    "votes.": "ngrams.",
}

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


def section_today(section: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """One section of a model folder, in today's keys."""
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
