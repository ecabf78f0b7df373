"""Names: other spellings, what other tools call a key or option, and shell quoting."""

import re
import shlex
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from translucid.core.errors import InputError

# Names that other tools use, each with our names for it; the first that is allowed is suggested.
OTHER_TOOLS: dict[str, tuple[str, ...]] = {
    "accumulate_grad_batches": ("accumulate",),
    "activation_function": ("activation",),
    "batch_size": ("batch_tokens",),
    "beam": ("beam_size",),
    "beam_width": ("beam_size",),
    "beams": ("beam_size",),
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

# Keys that count something else than the name in another tool suggests.
UNITS = {"steps": "updates of the weights, not epochs", "batch_tokens": "tokens, not examples"}

# Values that other tools use, by the last part of the key, each with our value.
OTHER_VALUES = {
    "precision": {"bf16": "bfloat16", "fp32": "float32", "float": "float32", "full": "float32"},
}
Value = TypeVar("Value")


class OtherName(UserWarning):
    """A value was given by the name that another tool has for it, and was accepted."""


class Missing(InputError):
    """Something that is needed was not given. `names` are the arguments that the message names."""

    def __init__(self, message: str, names: Collection[str]) -> None:
        self.message, self.names = message, tuple(names)
        super().__init__(message)

    def as_options(self) -> str:
        """The message for those who type options: x becomes --x."""
        names = "|".join(re.escape(name) for name in self.names)
        return re.sub(rf"(?<![\w-])({names})(?![\w-])", r"--\1", self.message)


def bare(name: str) -> str:
    """What all spellings of a name share: W_Q, w_q, wq and --wq are one."""
    return name.lower().replace("_", "").replace("-", "")


def spelt(name: str, known: Collection[str]) -> str:
    """The known name of which this is another spelling, if it is of exactly one."""
    if name in known:
        return name
    same = [other for other in known if bare(other) == bare(name)]
    return same[0] if len(same) == 1 else name


def quoted(word: str) -> str:
    """A word of a command; in double quotes where it needs any, which every shell reads."""
    if re.fullmatch(r"[\w.,:/=+-]+", word):
        return word
    return shlex.quote(word) if re.search(r'["$`!\\]', word) else f'"{word}"'


def our_name(name: str, known: Iterable[str]) -> str | None:
    """The known name for what other tools call `name`, in any spelling."""
    names = OTHER_TOOLS.get(name.lower().replace("-", "_"), ())
    allowed = {*known}
    return next((key for key in names if key in allowed), None)


def unit_note(name: str, key: str) -> str:
    """` (tokens, not examples)` if a number for `name` means something else for `key`."""
    differs = key in UNITS and ("epoch" in name or "batch" in name)
    return f" ({UNITS[key]})" if differs else ""


def our_value(key: str, value: Value) -> Value:
    """Our name for a value; warns if another tool's name was given."""
    names: Mapping[Any, Any] = OTHER_VALUES.get(key.rpartition(".")[2].lstrip("-"), {})
    if not isinstance(value, str) or value not in names:
        return value
    ours: Value = names[value]
    warnings.warn(f"{key}: {value} is called {ours} here", OtherName, stacklevel=3)
    return ours
