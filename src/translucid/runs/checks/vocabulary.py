"""Words that the vocabulary does not know, and vocabularies that do not fit the model."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from translucid.models.base import EncoderDecoderModel, Network
from translucid.models.mlp import MLPConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.runs.recipe.examples import Record
from translucid.tasks.base import Task
from translucid.tasks.batch import IGNORE
from translucid.tasks.findings import Finding, spread_out
from translucid.tasks.vocabulary import unknown_pieces

MANY_UNKNOWN = 0.05
TEXTS = 2000  # texts per part and side in which unknown tokens are counted


def unknown_tokens(task: Task[Any, Any], parts: dict[str, Sequence[Record]]) -> Finding:
    """The fraction of tokens that the vocabulary does not have, and which they are most often."""
    rates, missing, worst = [], Counter[str](), 0.0
    for part, records in parts.items():
        if not records:
            continue
        chosen = spread_out(records, TEXTS)
        tokens = unknown = 0
        for side, tokenizer in task.vocabularies.items():
            # By lines, since a whole file can be one text.
            whole = (text for record in chosen for text in record.texts_of(side))
            texts = [line for text in whole for line in text.split("\n")]
            for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
                tokens += len(ids)
                pieces = unknown_pieces(tokenizer, text, ids)
                unknown += len(pieces)
                missing.update(pieces)
        rates.append(f"{unknown / max(tokens, 1):.2%} of {part}")
        worst = max(worst, unknown / max(tokens, 1))
    words = f"tokens that the vocabulary does not know: {', '.join(rates)}"
    if missing:
        often = ", ".join(f"{word!r} {n:,}" for word, n in missing.most_common(5))
        words += f"; most often {often}"
    if worst > MANY_UNKNOWN:
        words += (
            "; raise tokenizer.vocab_size, or take a tokenizer.kind that can spell any word (bpe, "
            "bytes)"
        )
    return Finding("unknown tokens", worst <= MANY_UNKNOWN, words)


def sizes_agree(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding:
    """The model has a row for every token, and an output for every label."""
    wanted, has = _wanted(task), _has(network)
    differ = {what: (n, has[what]) for what, n in wanted.items() if has.get(what, n) != n}
    words = [f"{n:,} {what}, but the model has {m:,}" for what, (n, m) in differ.items()]
    beyond = _beyond(task, items, has)
    if _one_table(network) and _several(task):
        beyond.append("two vocabularies, but the model has one table for both (set target_vocab)")
    if beyond or any(n > m for n, m in differ.values()):
        message = "; ".join([*words, *beyond])
        remedy = "build the model with the sizes of its tokenizers and labels"
        return Finding("sizes", False, f"there are {message}; {remedy}", serious=True)
    if differ:
        message = "; ".join(words)
        return Finding("sizes", False, f"there are {message}: the rest of it will never be used")
    message = ", ".join(f"{what} {n:,}" for what, n in has.items())
    return Finding("sizes", True, f"data and model agree: {message}")


def _wanted(task: Task[Any, Any]) -> dict[str, int]:
    sizes = {
        "target tokens" if side == "target" else "tokens": len(tokenizer)
        for side, tokenizer in task.vocabularies.items()
    }
    if task.label_names:
        sizes["labels"] = len(task.label_names)
    return sizes


def _has(network: Network) -> dict[str, int]:
    config = network.config
    if isinstance(config, MLPConfig):
        return {"inputs": config.inputs, "outputs": config.outputs}
    assert isinstance(config, SequenceConfig), "a task has an MLP or a sequence model"
    sizes = {"tokens": config.vocab}
    if isinstance(network, EncoderDecoderModel):
        sizes["target tokens"] = network.vocab
    if config.outputs is not None:
        sizes["labels"] = config.outputs
    return sizes


def _one_table(network: Network) -> bool:
    return isinstance(network, EncoderDecoderModel) and network.config.target_vocab is None


def _several(task: Task[Any, Any]) -> bool:
    """Whether a row is another token on each side. Two splitters over the same tokens, as a
    translator of another tool may have them, are one vocabulary."""
    tokenizers = {t.fingerprint: t for t in task.vocabularies.values()}.values()
    return len({tuple(t.pieces(range(len(t)))) for t in tokenizers}) > 1


def _beyond(task: Task[Any, Any], items: Sequence[Any], has: dict[str, int]) -> list[str]:
    """What a real batch holds and the model has no row, column or output for."""
    batch = task.collate(items)
    if "x" in batch.inputs:
        columns = {"inputs": batch.inputs["x"].shape[1], "outputs": batch.targets.shape[1]}
        return [f"{n} {what}, but the model has {has[what]}" for what, n in columns.items()
                if has[what] != n]  # fmt: skip
    tokens, target_tokens = has["tokens"], has.get("target tokens", has["tokens"])
    targets = batch.targets[batch.targets != IGNORE]
    held = {
        **{name: (ids, target_tokens if name == "target" else tokens)
           for name, ids in batch.inputs.items() if name in ("ids", "source", "target")},
    }  # fmt: skip
    if not targets.is_floating_point():  # else they are values, not classes
        held["targets"] = targets, has.get("labels", target_tokens)
    return [
        f"number {int(numbers.max()):,} among the {name} of a batch, but the model has {size:,}"
        for name, (numbers, size) in held.items()
        if numbers.numel() and int(numbers.max()) >= size
    ]
