"""Spelling variants of names, other tools' names for keys and options, and shell quoting."""

import re
import shlex
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from translucid.core.errors import InputError

# Translucid's keys with other tools' names for them; the first allowed key is suggested.
OTHER_TOOLS = {
    "accumulate": "accumulate_grad_batches gradient_accumulation_steps",
    "activation": "activation_function",
    "alpha": "length_penalty",
    "batch_tokens": "batch_size",
    "beam_size": "beam beam_width beams num_beams",
    "clip_norm": "grad_clip max_grad_norm",
    "d_ff": "ffn_dim intermediate_size",
    "hidden": "hidden_dim hidden_size",
    "d_model": "dim emb_size embed_dim embedding_size hidden_dim hidden_size n_embd",
    "evaluate_every": "eval_every eval_steps val_every",
    "heads": "n_head n_heads nhead num_attention_heads num_heads",
    "layers": "n_layer n_layers num_hidden_layers num_layers",
    "learning_rate": "lr",
    "log_every": "log_steps logging_steps",
    "n_best": "nbest num_return_sequences",
    "patience": "early_stopping",
    "precision": "bf16 dtype fp16",
    "save_every": "checkpoint_every save_steps",
    "schedule": "lr_scheduler scheduler",
    "start_from": "from_pretrained init_from pretrained",
    "steps": "epochs max_epochs max_steps n_epochs num_epochs num_steps num_train_epochs",
    "warmup": "warmup_steps",
}

# Keys whose unit differs from that in other tools.
UNITS = {"steps": "updates of the weights, not epochs", "batch_tokens": "tokens, not examples"}

# Other tools' names for values, by the last part of the key, with Translucid's name.
OTHER_VALUES = {
    "precision": {"bf16": "bfloat16", "fp32": "float32", "float": "float32", "full": "float32"},
}
Value = TypeVar("Value")


class OtherName(UserWarning):
    """Warning that another tool's name for a value was accepted."""


class Missing(InputError):
    """A required argument is missing. names: the names of the arguments that the message
    mentions. lead: text before the message, in which no names are replaced."""

    def __init__(self, message: str, names: Collection[str], *, lead: str = "") -> None:
        self.message, self.names, self.lead = message, tuple(names), lead
        super().__init__(lead + message)

    def as_options(self) -> str:
        """The message with command-line options in place of arguments: x becomes --x."""
        names = "|".join(re.escape(name) for name in self.names)
        return self.lead + re.sub(rf"(?<![\w-])({names})(?![\w-])", r"--\1", self.message)


def bare(name: str) -> str:
    """Normalize a name, so that W_Q, w_q, wq and --wq are equal."""
    return name.lower().replace("_", "").replace("-", "")


def spelt(name: str, known: Collection[str]) -> str:
    """The known name that equals `name` except for spelling. If there is none or more than one,
    `name` itself is returned."""
    if name in known:
        return name
    same = [other for other in known if bare(other) == bare(name)]
    return same[0] if len(same) == 1 else name


def quoted(word: str) -> str:
    """Quote a word for the shell if necessary, in double quotes if possible."""
    if re.fullmatch(r"[\w.,:/=+-]+", word):
        return word
    return shlex.quote(word) if re.search(r'["$`!\\]', word) else f'"{word}"'


def our_name(name: str, known: Iterable[str]) -> str | None:
    """Translucid's name for what other tools call `name`, in any spelling."""
    theirs, allowed = name.lower().replace("-", "_"), {*known}
    keys = (key for key, names in OTHER_TOOLS.items() if theirs in names.split())
    return next((key for key in keys if key in allowed), None)


def unit_note(name: str, key: str) -> str:
    """A note on the unit of `key`, such as ` (tokens, not examples)`, if `name`, the option of
    another tool, has a different unit; otherwise empty."""
    differs = key in UNITS and ("epoch" in name or "batch" in name)
    return f" ({UNITS[key]})" if differs else ""


def our_value(key: str, value: Value) -> Value:
    """Translucid's name for a value; warns if another tool's name was given."""
    names: Mapping[Any, Any] = OTHER_VALUES.get(key.rpartition(".")[2].lstrip("-"), {})
    if not isinstance(value, str) or value not in names:
        return value
    ours: Value = names[value]
    warnings.warn(f"{key}: using {ours} for {value}; write {ours}", OtherName, stacklevel=3)
    return ours
