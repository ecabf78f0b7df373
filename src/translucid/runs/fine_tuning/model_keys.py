"""The model section of a recipe, as the model that training starts from has it."""

from typing import Any

from translucid.core.errors import ConfigError
from translucid.runs.fine_tuning.source import Source
from translucid.runs.recipe.automatic_sizes import with_picks
from translucid.runs.recipe.recipe import DECIDED, MODELS, Recipe
from translucid.tasks.registry import TASKS

# What a recipe may choose anew: no weight depends on it, or only those of a head that is fresh.
FREE = (
    "dropout", "word_dropout", "locked_dropout", "embedding_dropout", "weight_dropout",
    "forget_bias", "pooling",
    "head_dense", "normalise", "ngram_features",
)  # fmt: skip
OF_HEAD = (
    "tied", "head_bias", "logit_scale", "pooling", "head_dense", "normalise", "ngram_features",
    "characters",
)  # fmt: skip
OF_BOTH_STACKS = ("decoder_layers", "encoder_hidden", "attention", "bridge", "input_feeding")


def with_model_keys(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with the source's sizes; a key that contradicts them is refused."""
    task, config = TASKS[recipe.task.kind], source.config
    if config.kind not in task.models:
        raise ConfigError(
            f"training.start_from = {source.path!r}: a {config.kind} model, but task "
            f"{recipe.task.kind} takes {' or '.join(task.models)}"
        )
    theirs = _keys(recipe, source)
    if recipe.model.get("kind", config.kind) != config.kind:
        raise ConfigError(_contradicts("kind", recipe.model["kind"], config.kind))
    wrong = [
        _contradicts(key, value, theirs[key])
        for key, value in recipe.model.items()
        if key in theirs and key not in FREE and value != theirs[key]
    ]
    unknown = [key for key in recipe.model if key not in MODELS[config.kind].model_fields]
    wrong += [_contradicts(key, recipe.model[key], f"no such key ({config.kind})")
              for key in unknown]  # fmt: skip
    if wrong:
        raise ConfigError(*wrong)
    of_kind = recipe.model_copy(update={"model": {**recipe.model, "kind": config.kind}})
    return with_picks(of_kind, {"model": theirs})[0]


def _keys(recipe: Recipe, source: Source) -> dict[str, Any]:
    """All that the source decides, FREE keys among them."""
    task, config = TASKS[recipe.task.kind], source.config
    shape = source.shape_for(recipe.task.kind)
    keys = {key: value for key, value in config.model_dump().items() if key not in DECIDED}
    del keys["kind"]
    keys = {key: value for key, value in keys.items() if not key.startswith("lora_")}
    if config.head != task.head:
        keys = {key: value for key, value in keys.items() if key not in OF_HEAD}
        if shape == "decoder":
            keys["pooling"] = "last"  # the only token that has read all others
    if shape != config.shape:
        if keys.get("encoder_hidden") is not None:
            keys["hidden"] = keys["encoder_hidden"]
        keys = {key: value for key, value in keys.items() if key not in OF_BOTH_STACKS}
    if shape != "encoder":
        keys.pop("word_dropout", None)
    if source.imported:  # whoever only opens a model sets it to 0
        del keys["dropout"]
    return keys


def _contradicts(key: str, value: Any, theirs: Any) -> str:
    return (
        f"model.{key} = {value!r}: the model that training starts from has {theirs!r}, and its "
        "weights fit no other; leave the key out"
    )
