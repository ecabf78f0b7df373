"""Names that keys, weights and trace points had once: what was written with them is still read.

A recipe or model folder written before is translated, and that is said; an old name that is typed
today is refused with the new one.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from translucid.core.errors import ConfigError

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
ADDED: dict[str, Any] = {
    "data.standardise": False,
    "training.trackers": [],
    "training.packing": False,
    "training.start_from": None,
    "training.freeze": [],
    "training.learning_rates": {},
    "training.layer_decay": None,
    "tokenizer.vocabulary": "keep",
    "training.carry_state": False,
    "decoding.carry_state": None,
    "training.decay_embeddings": False,
    "training.betas": [0.9, 0.98],
    "training.activation_regularization": 0.0,
    "training.temporal_regularization": 0.0,
    "task.temperature": 0.05,
    "data.score_column": None,
    "data.split": "every-nth",
    "data.split_seed": None,
    "data.fold": None,
    "data.missing_labels": [],
}

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


# What other tools call a key or an option: with what it is here, the first that exists.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "accumulate_grad_batches": ("accumulate",),
    "activation_function": ("activation",),
    "batch_size": ("batch_tokens",),
    "beam_width": ("beam_size",),
    "bf16": ("precision",),
    "checkpoint_every": ("save_every",),
    "dim": ("d_model",),
    "dtype": ("precision",),
    "early_stopping": ("patience",),
    "emb_size": ("d_model",),
    "embed_dim": ("d_model",),
    "embedding_size": ("d_model",),
    "epochs": ("steps",),
    "eval_every": ("evaluate_every",),
    "eval_steps": ("evaluate_every",),
    "ffn_dim": ("d_ff",),
    "fp16": ("precision",),
    "from_pretrained": ("start_from",),
    "grad_clip": ("clip_norm",),
    "gradient_accumulation_steps": ("accumulate",),
    "hidden_dim": ("hidden", "d_model"),
    "hidden_size": ("hidden", "d_model"),
    "init_from": ("start_from",),
    "intermediate_size": ("d_ff",),
    "length_penalty": ("alpha",),
    "log_steps": ("log_every",),
    "logging_steps": ("log_every",),
    "lr": ("learning_rate",),
    "lr_scheduler": ("schedule",),
    "max_epochs": ("steps",),
    "max_grad_norm": ("clip_norm",),
    "max_steps": ("steps",),
    "n_embd": ("d_model",),
    "n_epochs": ("steps",),
    "n_head": ("heads",),
    "n_heads": ("heads",),
    "n_layer": ("layers",),
    "n_layers": ("layers",),
    "nbest": ("n_best",),
    "nhead": ("heads",),
    "num_attention_heads": ("heads",),
    "num_beams": ("beam_size",),
    "num_epochs": ("steps",),
    "num_heads": ("heads",),
    "num_hidden_layers": ("layers",),
    "num_layers": ("layers",),
    "num_return_sequences": ("n_best",),
    "num_steps": ("steps",),
    "num_train_epochs": ("steps",),
    "pretrained": ("start_from",),
    "save_steps": ("save_every",),
    "scheduler": ("schedule",),
    "val_every": ("evaluate_every",),
    "warmup_steps": ("warmup",),
}
# What they count in something else than these keys.
COUNTED = {"steps": "updates of the weights, not epochs", "batch_tokens": "tokens, not examples"}


def as_here(name: str, known: Iterable[str]) -> str | None:
    """The known name of what other tools call so, in any of its spellings."""
    names = ELSEWHERE.get(name.lower().replace("-", "_"), ())
    here = {*known}
    return next((key for key in names if key in here), None)


def counted(name: str, key: str) -> str:
    """` (tokens, not examples)` where a number for the one means something else for the other."""
    differs = key in COUNTED and ("epoch" in name or "batch" in name)
    return f" ({COUNTED[key]})" if differs else ""


# Other names of values, by the last part of their key.
VALUES = {
    "precision": {"bf16": "bfloat16", "fp32": "float32", "float": "float32", "full": "float32"},
}


class Renamed(UserWarning):
    """What was written with a name of before has been read all the same."""


def is_now(old: str, new: str) -> str:
    """The message for a name of before."""
    return f"{old}: now {new}"


Value = TypeVar("Value")


def value_today(key: str, value: Value) -> Value:
    """A value by the name that it has here; that it was given by another is said."""
    names: Mapping[Any, Any] = VALUES.get(key.rpartition(".")[2].lstrip("-"), {})
    if not isinstance(value, str) or value not in names:
        return value
    here: Value = names[value]
    warnings.warn(f"{key}: {value} is called {here} here", Renamed, stacklevel=3)
    return here


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
