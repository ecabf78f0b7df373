"""Choose settings that fit the data, by rules of thumb.

The choices are printed and written to the run's recipe; keys that the user sets take precedence.
The choices aim at a training time of minutes on a GPU; `time_limit` adapts them to slower machines.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from translucid.data.tokenizers.pipelines import WORDS
from translucid.models.sequence_config import SequenceConfig
from translucid.runs.recipe.examples import Record
from translucid.runs.recipe.recipe import MODELS, Recipe, parse
from translucid.tasks.options import DataConfig
from translucid.tasks.registry import TASKS


@dataclass(frozen=True)
class Amount:
    """The amount of training data."""

    examples: int
    words: int  # separated by spaces
    words_known: int  # different words
    # The 99th percentile of lengths:
    long_words: int = 0
    long_characters: int = 0
    long_bytes: int = 0


def measure(train: Sequence[Record]) -> Amount:
    """Count examples and words; each number counts as a word."""
    words, known = 0, set[str]()
    sizes: list[tuple[int, int, int]] = []  # words, characters and bytes of each text
    for record in train:
        words += len(record.values)
        for text in record.texts:
            text_words = text.split()
            words += len(text_words)
            known.update(text_words)
            sizes.append((len(text_words), len(text), len(text.encode(errors="replace"))))
    long = [
        sorted(column)[math.ceil(LONG * len(column)) - 1] for column in zip(*sizes, strict=True)
    ]
    return Amount(len(train), words, len(known), *long)


def size_for(amount: Amount) -> "Size":
    """Choose a model size: small and with dropout for little data, large for much data."""
    return next(size for size in SIZES if amount.words <= size.words)


def pick(
    recipe: Recipe, amount: Amount, device: str, size: "Size | None" = None
) -> dict[str, dict[str, Any]]:
    """Settings for this amount of data, or for this model size, by section and key."""
    task = TASKS[recipe.task.kind]
    if recipe.fitted:  # without training steps
        data = max_length(recipe, amount, recipe.training.batch_tokens)
        return {section: dict(keys) for section, keys in task.traits.baseline.items()} | {
            "data": data
        }
    starts = recipe.training.start_from is not None
    if starts and task.shape:
        loss = dict(task.traits.suggested.get("task", {}))  # such as label smoothing
        tuning = _tuning(recipe, amount, device)
        data = max_length(recipe, amount, tuning["batch_tokens"])
        return {"task": loss, "data": data, "training": tuning}
    suggested = {section: dict(keys) for section, keys in task.traits.suggested.items()}
    if recipe.task.class_weights is not None:  # the loss is not weighted on validation data
        suggested.get("training", {}).pop("best_metric", None)
    if recipe.model["kind"] == "mlp":  # no text
        keys = dict(suggested.get("training", {}))
        if starts:  # its model keys are those of the start model
            keys["learning_rate"] = keys["learning_rate"] / START_RATE
            suggested.pop("model", None)
        if "steps" in keys:
            passes = TABLE_EPOCHS * amount.examples // keys["batch_tokens"]
            keys["steps"] = max(keys["steps"], passes)
        return suggested | {"training": keys | _most_steps(recipe, keys)}
    size = size_for(amount) if size is None else size
    settings = recipe.training.model_dump(
        exclude_unset=True
    )  # the rest depends on what the user sets
    batch = settings.get("batch_tokens", size.batch_tokens * (4 if device == "cuda" else 1))
    epochs = round(size.epochs * amount.words * PIECES_PER_WORD / batch, -2)
    steps = settings.get("steps", int(min(max(epochs, 500), 100_000)))
    training: dict[str, Any] = {
        "steps": steps,
        "batch_tokens": batch,
        "learning_rate": size.learning_rate,
        "warmup": steps // 20,
        "evaluate_every": max(steps // 10, 1),
        "patience": PATIENCE,
    }
    training |= _most_steps(recipe, training)
    if device == "cuda":
        training["precision"] = "bfloat16"
    tokenizer: dict[str, Any] = {}
    if recipe.tokenizer.kind in ("bpe", "unigram"):
        tokenizer["vocab_size"] = min(size.vocab_size, max(amount.words_known, 500))
    elif recipe.tokenizer.kind in WORDS:
        tokenizer["vocab_size"] = max(amount.words_known + 4, 8)
    model: dict[str, Any] = {}
    if issubclass(MODELS[recipe.model["kind"]], SequenceConfig):  # others are fitted to the data
        model = {"d_model": size.d_model, "dropout": size.dropout}
    if recipe.model["kind"] == "recurrent":
        model |= {"hidden": size.d_model, "layers": 1 if size.layers < 4 else 2}
        if task.shape != "decoder":
            model["bidirectional"] = True
    elif recipe.model["kind"] == "transformer":
        model |= {"heads": size.d_model // 64 if size.d_model > 128 else 4, "layers": size.layers}
    data = max_length(recipe, amount, batch)
    picked = {
        "task": {}, "data": data, "tokenizer": tokenizer, "model": model, "training": training,
    }  # fmt: skip
    return {section: keys | suggested.get(section, {}) for section, keys in picked.items()}


def max_length(recipe: Recipe, amount: Amount, batch_tokens: int) -> dict[str, Any]:
    """The key data.max_length, raised so that 99 % of the texts fit. It is limited by the number of
    learned positions, the size of a batch, and MOST_TOKENS. Empty if the default is enough."""
    usual, task = DataConfig().max_length, TASKS[recipe.task.kind]
    if "long" not in task.traits.data_keys or "kind" not in recipe.model:
        return {}
    match recipe.tokenizer.kind:
        case "char":
            tokens = amount.long_characters
        case "bytes":
            tokens = amount.long_bytes
        case "word" | "space":
            tokens = amount.long_words * 2  # punctuation is a separate token
        case _:
            tokens = amount.long_bytes // BYTES_PER_PIECE
    # A batch has both texts of a pair.
    most = min(MOST_TOKENS, batch_tokens // task.traits.max_files)
    network = recipe.model_config_for(sizes=task.smallest_sizes())
    if (positions := getattr(network, "context_length", None)) is not None:
        most = min(most, positions)
    wanted = min(-(-(tokens + 2) // 64) * 64, most)  # with special tokens
    return {"max_length": wanted} if wanted > usual else {}


def _tuning(recipe: Recipe, amount: Amount, device: str) -> dict[str, Any]:
    """Settings for fine-tuning: few epochs with a low learning rate."""
    settings = recipe.training.model_dump(exclude_unset=True)
    batch = settings.get("batch_tokens", 2048)
    passes = round(TUNING_EPOCHS * amount.words * PIECES_PER_WORD / batch, -1)
    steps = settings.get("steps", int(min(max(passes, 100), 20_000)))
    rate = ADAPTER_RATE if recipe.model.get("lora_rank") else TUNING_RATE
    training = {
        "steps": steps, "batch_tokens": batch, "learning_rate": rate,
        "warmup": steps // 10, "evaluate_every": max(steps // 10, 1),
    }  # fmt: skip
    training |= {"precision": "bfloat16"} if device == "cuda" else {}
    return training | _most_steps(recipe, training)


def _most_steps(recipe: Recipe, training: dict[str, Any]) -> dict[str, int]:
    """The key training.most_steps, which allows the number of steps to change during training.
    Empty without a time limit, or if the user has set the number of steps."""
    fixed = "steps" in recipe.training.model_fields_set
    if recipe.training.minutes is None or fixed or "steps" not in training:
        return {}
    return {"most_steps": training["steps"]}


START_RATE = 3  # networks for rows that start from a trained one learn more slowly
TABLE_EPOCHS = 10  # of large tables, at least
PATIENCE = 5  # of about ten evaluations
TUNING_EPOCHS, TUNING_RATE = 4, 5e-5
ADAPTER_RATE = 5e-4  # adapters start at zero and are small, so they need larger steps
PIECES_PER_WORD = 1.4  # of a subword tokenizer, about
BYTES_PER_PIECE = 3  # fewer than in most subwords, to be safe
LONG = 0.99  # fraction of the texts that should fit
MOST_TOKENS = 1024  # attention takes quadratic time


@dataclass(frozen=True)
class Size:
    words: float  # of the training data, at most
    d_model: int
    layers: int
    dropout: float
    vocab_size: int
    learning_rate: float
    batch_tokens: int
    epochs: int

    @property
    def weights(self) -> int:
        """The approximate number of weights in the layers of a transformer encoder of this size."""
        return 12 * self.d_model**2 * self.layers


SIZES = (
    Size(100_000, 128, 2, 0.1, 2000, 2e-3, 2048, 40),
    Size(2_000_000, 256, 3, 0.1, 8000, 1e-3, 4096, 20),
    Size(20_000_000, 512, 4, 0.1, 16000, 7e-4, 8192, 10),
    Size(float("inf"), 512, 6, 0.1, 32000, 5e-4, 16384, 3),
)


def with_picks(recipe: Recipe, picks: dict[str, dict[str, Any]]) -> tuple[Recipe, list[str]]:
    """The recipe with these values for unset keys, and the values used, as `section.key=value`."""
    values: dict[str, dict[str, Any]] = {"model": dict(recipe.model)}
    for name in ("task", "data", "tokenizer", "training", "decoding"):
        values[name] = getattr(recipe, name).model_dump(exclude_unset=True)
    picked = []
    for section, keys in picks.items():
        for key, value in keys.items():
            if key not in values[section]:
                values[section][key] = value
                picked.append(f"{section}.{key}={str(value).lower() if value is True else value}")
    return parse(values), picked
