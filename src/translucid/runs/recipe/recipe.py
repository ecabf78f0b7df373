"""The recipe: all settings of a run in one file.

Sections: task, data, tokenizer, model, training, decoding. Unknown keys are errors that suggest the
nearest key.
"""

import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from translucid.core.config import Config, unknown_key, with_overrides
from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import our_name
from translucid.models import ModelConfig
from translucid.models.lexicon import LexiconConfig
from translucid.models.linear import LinearConfig
from translucid.models.mlp import MLPConfig
from translucid.models.ngram import NGramConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer import TransformerConfig
from translucid.tasks.base import Task
from translucid.tasks.options import DataConfig as DataConfig
from translucid.tasks.options import DecodingConfig as DecodingConfig
from translucid.tasks.options import TaskConfig as TaskConfig
from translucid.tasks.options import TokenizerConfig as TokenizerConfig
from translucid.tasks.registry import TASKS
from translucid.training.config import TrainingConfig

MODELS: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "recurrent": RecurrentConfig,
    "mlp": MLPConfig,
    "linear": LinearConfig,
    "ngram": NGramConfig,
    "lexicon": LexiconConfig,
}
DATA = "data"  # folder in a run for data that a Python program passed
# Determined by the task and the data; not keys of a recipe.
DECIDED = (
    "shape", "head", "vocab", "target_vocab", "outputs", "inputs", "ngrams", "entries",
)  # fmt: skip


SECTIONS: dict[str, type[Config]] = {
    "task": TaskConfig,
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
}  # and "model", whose keys depend on its kind

# Keys added after version 0.1, with the value that older runs effectively had, which `resume` uses.
# Defaults of added model keys must leave older models unchanged, and need no entry here.
ADDED: dict[str, Any] = {"training.baseline": False, "training.keep_baseline": False}
# The keys of [training] that apply to models that are fitted to all examples at once.
FITTING = ("seed", "device")


class Recipe(Config):
    """All settings of a run, by section."""

    task: TaskConfig
    data: DataConfig
    tokenizer: TokenizerConfig
    # The keys of the model's config without DECIDED; for fine-tuning, perhaps without `kind`.
    model: dict[str, Any]
    training: TrainingConfig
    decoding: DecodingConfig

    @property
    def fitted(self) -> bool:
        """Whether the model is fitted to all examples at once, without training steps."""
        return "kind" in self.model and self.model["kind"] == baseline_kind(self.task.kind)

    def model_config_for(self, *, sizes: Mapping[str, Any]) -> ModelConfig:
        """The model's full config: the recipe's keys and the sizes of task and data."""
        options = {key: value for key, value in self.model.items() if key != "kind"}
        return MODELS[self.model["kind"]](**options, **sizes)

    @property
    def reads_characters(self) -> bool:
        """Whether the model reads the characters of each word."""
        config = self.model_config_for(sizes=TASKS[self.task.kind].smallest_sizes())
        return getattr(config, "characters", 0) > 0


def baseline_kind(task: str) -> str | None:
    """The kind of the model that is fitted as the baseline of a task; None if it has none."""
    kind: str | None = TASKS[task].traits.baseline.get("model", {}).get("kind")
    return kind


def keys_by_section() -> dict[str, list[str]]:
    """All keys of a recipe by section, including those of all model kinds."""
    keys = {name: list(config.model_fields) for name, config in SECTIONS.items()}
    families = [key for config in MODELS.values() for key in config.model_fields]
    keys["model"] = [key for key in dict.fromkeys(families) if key not in DECIDED]
    return {name: keys[name] for name in Recipe.model_fields}


def full_name(key: str) -> str | None:
    """The key with its section: training.steps for `steps`, or for the name that another tool uses
    for `steps`. None if no section or more than one has this key."""
    known = keys_by_section()
    key = our_name(key, [key for keys in known.values() for key in keys]) or key
    having = [section for section, keys in known.items() if key in keys]
    return f"{having[0]}.{key}" if len(having) == 1 else None


def parse(values: Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """Make a recipe from nested values; report all mistakes at once."""
    overrides = list(overrides)
    values = _carrying(with_overrides(values, overrides, full_name))
    mistakes = [
        unknown_key(key, Recipe.model_fields) for key in values if key not in Recipe.model_fields
    ]
    parsed: dict[str, Any] = {}
    for name, config in SECTIONS.items():
        try:
            parsed[name] = config(**values.get(name, {}))
        except ConfigError as error:
            mistakes += [f"{name}.{mistake}" for mistake in error.mistakes]
    model = dict(values.get("model", {}))
    task = parsed["task"].kind if "task" in parsed else None
    starts = "training" in parsed and parsed["training"].start_from is not None
    mistakes += [f"model.{mistake}" for mistake in _check_model(model, task, starts=starts)]
    if task is not None:
        mistakes += _check_carrying(model, task, parsed)
        keys = [word.partition("=")[0].strip() for word in overrides]
        mistakes += _of_other_tasks(keys, task) + _of_steps(keys, model.get("kind"), task)
    if mistakes:
        raise ConfigError(*mistakes)
    if parsed["data"].long is None:
        parsed["data"] = parsed["data"].model_copy(update={"long": TASKS[task or ""].long})
    return Recipe(model=model, **parsed)


def _carrying(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Set decoding.carry_state as in training, unless it is set."""
    training, decoding = values.get("training", {}), values.get("decoding", {})
    if training.get("carry_state") is not True or "carry_state" in decoding:
        return values
    return {**values, "decoding": {**decoding, "carry_state": True}}


def _check_carrying(model: Mapping[str, Any], task: str, parsed: Mapping[str, Any]) -> list[str]:
    """Error messages for carry_state if the model is not a single recurrent language model."""
    named = [
        f"{name}.carry_state = true"
        for name in ("training", "decoding")
        if name in parsed and parsed[name].carry_state
    ]
    if not named:
        return []
    kind, networks = model.get("kind"), model.get("ensemble_size", 1)
    if (TASKS[task].shape, TASKS[task].head) != ("decoder", "language"):
        return [f"{key} is for language models, not for task {task}; omit the key" for key in named]
    if kind not in (None, "recurrent"):
        return [
            f"{key}: a {kind} has no state to carry; use model.kind = recurrent, or "
            "decoding.context for tokens before those that are scored"
            for key in named
        ]
    if networks != 1:
        return [f"{key} works with one network, not {networks}; set model.ensemble_size = 1"
                for key in named]  # fmt: skip
    return []


def _check_model(model: dict[str, Any], name: str | None, *, starts: bool) -> list[str]:
    """Set the default kind, check the keys, and return the error messages. Keys that depend on the
    data have their smallest possible values in this check. starts: whether training starts from
    another model, which then determines the kind if it is not set."""
    if name is None:
        return []
    task = TASKS[name]
    if not starts:
        model.setdefault("kind", task.models[0])
    kind = model.get("kind")
    if kind is not None and kind not in task.models:
        return [f"kind = {kind!r}: task {name} takes {' or '.join(task.models)}"]
    decided = [key for key in model if key in DECIDED]
    if decided:
        return [f"{key} is determined by the task and the data; omit the key" for key in decided]
    options = {key: value for key, value in model.items() if key != "kind"}
    kinds = task.models if kind is None else (kind,)
    return min((_mistakes(kind, options, task) for kind in kinds), key=len)


def _mistakes(kind: str, options: Mapping[str, Any], task: Any) -> list[str]:
    fields = MODELS[kind].model_fields
    unknown = [_unknown_model_key(key, kind, task) for key in options if key not in fields]
    known = {key: value for key, value in options.items() if key in fields}
    try:
        MODELS[kind](**known, **task.smallest_sizes())
    except ConfigError as error:
        return [*unknown, *error.mistakes]
    return unknown


def _unknown_model_key(key: str, kind: str, task: Any) -> str:
    """The message for a key that this kind of model does not have."""
    own = [name for name in MODELS[kind].model_fields if name not in DECIDED]
    name = our_name(key, own) or our_name(key, keys_by_section()["model"]) or key
    others = [other for other, config in MODELS.items() if name in config.model_fields]
    if name in own or not others:
        return unknown_key(key, own)
    first = [other for other in others if other in task.models] or others
    takes = (
        "" if first[0] in task.models else f"; task {task.name} takes {' or '.join(task.models)}"
    )
    declared = [name for name in vars(MODELS[kind])["__annotations__"] if name in own]
    also = "" if name == key else f" (here {name})"
    return (
        f"{key}: a key of model.kind={' or '.join(first)}{also}, not of {kind}{takes}; {kind} has "
        f"{', '.join(name for name in declared if name != 'kind')}"
    )


def keys_used(task: type[Any]) -> dict[str, Collection[str]]:
    """The keys that a task uses, in sections whose keys depend on the task."""
    traits = task.traits
    return {"task": traits.task_keys, "data": traits.data_keys, "decoding": traits.decoding_keys}


def _of_other_tasks(keys: Iterable[str], task: str) -> list[str]:
    """Error messages for keys that only other tasks use, such as data.label_column."""
    mistakes = []
    for key in keys:
        section, _, name = key.partition(".")
        own = keys_used(TASKS[task]).get(section, ())
        if name in own or name not in keys_used(Task).get(section, ()):
            continue
        others = [other for other in TASKS.names() if name in keys_used(TASKS[other])[section]]
        has = ", ".join(f"{section}.{other}" for other in own) or f"no key of {section}"
        mistakes.append(
            f"{key}: a key of task {' or '.join(others)}, not of {task}, which has {has}"
        )
    return mistakes


def _of_steps(keys: Iterable[str], kind: str | None, task: str) -> list[str]:
    """Error messages for keys about training steps, if the model is fitted at once."""
    if kind is None or kind != baseline_kind(task):
        return []
    apply = [f"training.{key}" for key in FITTING]
    return [
        f"{key}: model.kind = {kind} is fitted to all examples at once, without training steps; "
        f"omit the key (keys of training that apply: {', '.join(apply)})"
        for key in keys
        if key.startswith("training.") and key not in apply
    ]


def of_run(
    folder: Path,
    overrides: Iterable[str] = (),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Recipe:
    """The recipe of a run folder. Keys that are newer than the run have their values in ADDED; data
    that lies in the run folder has its current path."""
    chosen = read(folder / "recipe.toml", overrides, changes, missing=ADDED)
    data, own = chosen.data, folder / DATA
    parts = (*data.train, *data.valid, *data.test)
    if Path(data.folder).name != DATA or not any((own / name).is_file() for name in parts):
        return chosen
    here = data.model_copy(update={"folder": str(own)})
    return chosen.model_copy(update={"data": here})


def read(
    path: str | Path,
    overrides: Iterable[str] = (),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    missing: Mapping[str, Any] | None = None,
) -> Recipe:
    """Read a recipe from a TOML file. changes: values by section and key that replace those of the
    file; missing: values of keys, such as training.steps, that the file does not set."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such recipe: {path}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}{_is_data(path)}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}{_is_data(path)}") from None
    for name, section in values.items():
        if not isinstance(section, dict):
            raise InputError(
                f"{path}: {name} = {section!r}: must be a section; write [{name}] and its keys"
            )
    for name, keys in (changes or {}).items():
        values[name] = {**values.get(name, {}), **keys}
    for name, value in (missing or {}).items():
        section, _, key = name.partition(".")
        values.setdefault(section, {}).setdefault(key, value)
    return parse(values, overrides)


def _is_data(path: str | Path) -> str:
    """The end of an error message: a hint to use --train. Empty for a .toml file."""
    if Path(path).suffix == ".toml":
        return ""
    return f"; if it is data, name the task first: translucid train TASK --train {path}"
