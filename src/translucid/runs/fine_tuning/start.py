"""Fine-tuning: build the initial network of a run from a trained model and a recipe.

The trained model that training starts from is called the start model (or source).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from translucid.core.errors import ConfigError, InputError
from translucid.data.tokenizers.extended import extended
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import Network
from translucid.models.adapters import check_adapters
from translucid.runs.fine_tuning.rows import RowStart, open_row_start
from translucid.runs.fine_tuning.take_over import (
    Rows,
    StartModel,
    kept_rows,
    open_source,
    reordered,
    replaced_rows,
    take_over,
    tokenizers_for,
)
from translucid.runs.recipe.automatic_sizes import with_picks
from translucid.runs.recipe.examples import Prepared, Record
from translucid.runs.recipe.recipe import DECIDED, MODELS, Recipe
from translucid.tasks.registry import TASKS

# Keys that a recipe may change: no weights depend on them, or only those of a new head.
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


def with_model_keys(recipe: Recipe, source: StartModel) -> Recipe:
    """The recipe with the sizes of the start model; raise an error for keys that contradict
    them."""
    task, config = TASKS[recipe.task.kind], source.config
    if config.kind not in task.models:
        raise ConfigError(
            f"training.start_from = {source.path!r}: this is a {config.kind} model, but task "
            f"{recipe.task.kind} needs {' or '.join(task.models)}"
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
    wrong += [
        f"model.{key} = {recipe.model[key]!r}: the model that training starts from is of kind "
        f"{config.kind}, which has no such key; omit the key"
        for key in unknown
    ]
    if wrong:
        raise ConfigError(*wrong)
    of_kind = recipe.model_copy(update={"model": {**recipe.model, "kind": config.kind}})
    return with_picks(of_kind, {"model": theirs})[0]


def _keys(recipe: Recipe, source: StartModel) -> dict[str, Any]:
    """The model keys that the start model sets, with their values. A recipe may change the keys in
    FREE."""
    task, config = TASKS[recipe.task.kind], source.config
    shape = source.shape_for(recipe.task.kind)
    keys = {key: value for key, value in config.model_dump().items() if key not in DECIDED}
    del keys["kind"]
    keys = {key: value for key, value in keys.items() if not key.startswith("lora_")}
    if config.head != task.head:
        keys = {key: value for key, value in keys.items() if key not in OF_HEAD}
        if shape == "decoder":
            keys["pooling"] = "last"  # the only token that attends to all others
    if shape != config.shape:
        if keys.get("encoder_hidden") is not None:
            keys["hidden"] = keys["encoder_hidden"]
        keys = {key: value for key, value in keys.items() if key not in OF_BOTH_STACKS}
    if shape != "encoder":
        keys.pop("word_dropout", None)
    if source.imported:  # opened models have no dropout
        del keys["dropout"]
    return keys


def _contradicts(key: str, value: Any, theirs: Any) -> str:
    return (
        f"model.{key} = {value!r}: the model that training starts from has {theirs!r}; omit the key"
    )


Say = Callable[[str], None]
SIZES = ("shape", "vocab", "target_vocab")  # determined by the source


@dataclass(frozen=True)
class Start:
    """A start model, and the recipe with the keys that the start model determines."""

    source: StartModel
    recipe: Recipe
    # The old tokens of each new token of an extended vocabulary, by tokenizer.
    parts: dict[str, list[list[int]]] = field(default_factory=dict)

    @property
    def statistics(self) -> None:
        """None: the task measures them in the new training data."""

    @property
    def kept(self) -> bool:
        """Whether all tokens of the start model keep their ids."""
        return self.recipe.tokenizer.vocabulary != "replace"

    @property
    def shape(self) -> str:
        return self.source.shape_for(self.recipe.task.kind)

    def tokenizers(self, train: Sequence[Record]) -> dict[str, Tokenizer] | None:
        """The start model's tokenizers, extended if the recipe says so. None if new tokenizers have
        to be trained on the data."""
        if not self.kept:
            return None
        held = tokenizers_for(self.source, self.shape)
        if self.recipe.tokenizer.vocabulary == "keep":
            return held
        if self.recipe.data.store is not None:
            raise ConfigError(
                'tokenizer.vocabulary = "extend": not available with data.store; omit one'
            )
        if len(held) > 1 and self.source.config.target_vocab is None:
            raise ConfigError(
                'tokenizer.vocabulary = "extend": not possible, because source and target of this '
                "model have separate tokenizers, but share the rows of one embedding table; use "
                '"keep" or "replace"'
            )
        for name, tokenizer in held.items():
            texts = (text for record in train for text in record.texts_of(name))
            new = extended(tokenizer, texts)
            held[name], self.parts[name] = new.tokenizer, new.parts
        return held

    def sizes(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes that task and data determine, replaced by those that the start model
        determines."""
        sizes = dict(known) | {"shape": self.shape}
        if not self.kept:
            return sizes
        config = self.source.config
        tokens, target = sizes["vocab"], sizes.pop("target_vocab", 0)
        sizes["vocab"] = max(config.vocab, tokens)  # with rows that are not tokens
        if self.shape == "encoder-decoder" and config.target_vocab is not None:
            sizes["target_vocab"] = max(config.target_vocab, target)
        return sizes

    def begin(self, network: Network, known: Prepared, say: Say) -> dict[str, Any]:
        """Copy the start model's weights into the network and report what was copied; return the
        record that the run saves."""
        rows = self._rows(network, known)
        taken = take_over(network, self.source, rows, known.labels)
        lines = [self.source.line(), *self._about_model(), *self._about_vocabulary(rows, known)]
        if not taken.why_fresh and reordered(self.source, known.labels):
            lines.append("  labels: not in the start model's order; rows were reordered")
        lines += taken.lines(network, self.source)
        for line in lines:
            say(line)
        check_adapters(network, self.recipe.model.get("lora_where", ()))
        config = network.config.model_dump()
        sizes = {key: config[key] for key in SIZES}
        vocabulary = self.recipe.tokenizer.vocabulary
        return {
            "path": self.source.path, "task": self.source.bundle.task,
            "weights": self.source.weights, "vocabulary": vocabulary, "sizes": sizes,
            "taken": list(taken.taken), "fresh": list(taken.fresh),
            "notes": [line.strip() for line in lines[1:]],
        }  # fmt: skip

    def frozen(self, start: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of frozen weights; with adapters, all copied weights."""
        chosen = self.recipe.training.freeze
        if chosen or not self.recipe.model.get("lora_rank"):
            return chosen
        fresh = {name.partition(".")[0] for name in start["fresh"] if ".lora." not in name}
        whole = {name.partition(".")[0] for name in start["taken"]} - fresh
        apart = [name for name in start["taken"] if name.partition(".")[0] in fresh]
        return (*(f"{part}.*" for part in sorted(whole)), *apart)

    def _rows(self, network: Network, known: Prepared) -> dict[str, Rows]:
        """For each stack, the rows of the start model's table that initialize its embedding
        table."""
        old, rows = self.source.bundle.tokenizers, {}
        for stack, side in (("encoder", "source"), ("decoder", "target")):
            ours = known.tokenizers.get(side) or known.tokenizers.get("tokenizer")
            theirs = old.get(side) or old.get("tokenizer") or old["source"]
            if self.kept or ours is None:
                config = self.source.config
                target = stack == "decoder" and config.target_vocab is not None
                count = (config.target_vocab if target else None) or config.vocab
                new = self.parts.get(side, self.parts.get("tokenizer", []))
                rows[stack] = kept_rows(count, new, len(theirs))
            else:
                rows[stack] = replaced_rows(ours, theirs)
        return rows

    def _about_model(self) -> list[str]:
        keys = ("kind", "d_model", "hidden", "heads", "layers", "decoder_layers")
        model = self.recipe.model
        shown = " ".join(f"{key}={model[key]}" for key in keys if model.get(key) is not None)
        return [f"  model: as in the start model, {shown}"]

    def _about_vocabulary(self, rows: Mapping[str, Rows], known: Prepared) -> list[str]:
        lines = []
        for name, tokenizer in known.tokenizers.items():
            if self.kept:
                new = len(self.parts.get(name, ()))
                more = f"extended by {new:,}, each initialized as the mean of its old tokens, to"
                change = "kept," if self.recipe.tokenizer.vocabulary == "keep" else more
                lines.append(f"  vocabulary ({name}): {change} {len(tokenizer):,} tokens")
                continue
            of_stack = rows["decoder" if name == "target" or self.shape == "decoder" else "encoder"]
            fresh = len(of_stack.begin) - of_stack.equal - of_stack.split
            lines.append(
                f"  vocabulary ({name}): replaced, {len(tokenizer):,} tokens: {of_stack.equal:,} "
                f"rows copied by equal text, {of_stack.split:,} initialized as the mean of their "
                f"old tokens, {fresh:,} new"
            )
        return lines


def open_start(recipe: Recipe) -> Start | RowStart | None:
    """The model that a recipe starts from, if any."""
    path = recipe.training.start_from
    if path is None and recipe.model.get("lora_rank"):
        raise ConfigError(
            f"model.lora_rank = {recipe.model['lora_rank']}: adapters need a trained model; name "
            "one with training.start_from (--from), or leave the key out"
        )
    if path is None:
        return None
    source = open_source(path, recipe.task.kind)
    if not TASKS[recipe.task.kind].shape:
        return open_row_start(path, source.bundle, recipe)
    if recipe.tokenizer.vocabulary != "replace" and recipe.tokenizer.folder is not None:
        raise ConfigError(
            f"tokenizer.folder = {recipe.tokenizer.folder!r}: fine-tuning keeps the vocabulary of "
            'the start model; omit this key, or set tokenizer.vocabulary = "replace"'
        )
    return Start(source, with_model_keys(recipe, source))


def read_record(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check the record of the model that a run started from, and return it."""
    sizes = values.get("sizes")
    right = isinstance(sizes, dict) and {*sizes} <= {*SIZES} and isinstance(
        values.get("weights"), str
    )  # fmt: skip
    if not right:
        raise InputError(
            f"{where} is damaged or was not written by a run; copy the whole run again"
        )
    return dict(values)
