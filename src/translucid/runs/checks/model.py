"""Checks for silent mistakes in data and model: the loss falls, but the model is useless.

Each check runs the task and the model on a few examples and returns a Finding, without changing
weights or random generators.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from translucid.models.base import AutoregressiveNetwork, EncoderDecoderModel, Network, evaluating
from translucid.runs.recipe.examples import Record
from translucid.tasks.base import Task
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.findings import Finding, spread_out
from translucid.tasks.vocabulary import unknown_pieces

SAMPLE = 8  # items to check
PROBE = 12  # length of the text whose tokens are changed one by one
CHANGE = 1e-5  # relative to the largest output; less is rounding
LOSS_CHANGE = 1e-4  # relative to the loss; less is rounding
MASK_OF = {"ids": "mask", "source": "source_mask", "target": "target_mask"}


def shifted_targets(
    task: Task[Any, Any], items: Sequence[Any], records: Sequence[Record]
) -> Finding | None:
    """Check that each target is at the right input: a next token at the token before it, a label at
    its word or text. None if the task cannot compute the targets independently."""
    if task.head == "language":
        return _next_token_targets(task.collate(spread_out(items, SAMPLE)))
    chosen = spread_out(records, SAMPLE)
    expected = task.expected_targets(chosen)
    return None if expected is None else _labels_in_place(task, chosen, *expected)


def _next_token_targets(batch: Batch) -> Finding:
    """Check that the target at token i is token i + 1, and that the last token has a target too."""
    name = "target" if "target" in batch.inputs else "ids"
    read = batch.inputs[name]
    mask = batch.inputs.get(MASK_OF[name], torch.ones_like(read, dtype=torch.bool))
    same, compared = _agreement(read, mask, batch.targets, 1)
    words = f"{same:,} of {compared:,} targets are the next token"
    silent = int((mask & (batch.targets == IGNORE)).sum())
    if same == compared and not silent:
        return Finding("shifted targets", True, words)
    meanings = {0: "the model would learn to copy", 2: "shifted twice"}
    for shift in (0, 2, 3, -1):
        agree, of = _agreement(read, mask, batch.targets, shift)
        if same < compared and of and agree == of:
            words += f"; all are the token at {shift:+}: {meanings.get(shift, 'a wrong shift')}"
            break
    if silent:
        words += f"; {silent:,} tokens have no target"
    return Finding(
        "shifted targets", False,
        f"{words}; in collate, targets[i] must be inputs[i + 1], and the last one the end token",
        serious=True,
    )  # fmt: skip


def _agreement(read: Tensor, mask: Tensor, targets: Tensor, shift: int) -> tuple[int, int]:
    """The number of targets that equal the token `shift` positions later, and the number of targets
    for which there is such a token."""
    length = read.shape[1]
    places = torch.arange(max(0, -shift), min(length, length - shift))
    wanted, read_there = targets[:, places], read[:, places + shift]
    counts = (wanted != IGNORE) & mask[:, places + shift]
    return int(((wanted == read_there) & counts).sum()), int(counts.sum())


def _labels_in_place(
    task: Task[Any, Any], records: Sequence[Record], wanted: Tensor, where: str
) -> Finding:
    """Check that collate puts the label of each text, or of each word, at its position."""
    batch = task.collate([task.encode(record) for record in records])
    wrong = (wanted != batch.targets).nonzero().tolist()
    total = int((wanted != IGNORE).sum())
    if not wrong:
        return Finding("targets in place", True, f"{total:,} labels, each at {where}")
    line = records[wrong[0][0]].line
    return Finding(
        "targets in place", False,
        f"{len(wrong):,} of {total:,} labels differ from {where} (first: line {line:,}, position "
        f"{wrong[0][-1] + 1}); check encode and collate", serious=True,
    )  # fmt: skip


def leaking_mask(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding | None:
    """Check that changing a token changes no output before that token; without a causal mask, it
    would. Return None if the model may attend to later tokens."""
    if not isinstance(network, AutoregressiveNetwork) or network.config.head != "language":
        return None  # the model may attend to later tokens
    name = "target" if isinstance(network, EncoderDecoderModel) else "ids"
    longest_item = max(spread_out(items, SAMPLE), key=lambda item: task.sizes(item)[-1])
    inputs = task.collate([task.shorten(longest_item, PROBE)]).inputs
    plain = {key: value for key, value in inputs.items() if key in MASK_OF}
    length = plain[name].shape[1]
    rows = {key: value.repeat(length + 1, 1) for key, value in plain.items()}
    diagonal = torch.arange(length)
    rows[name][diagonal, diagonal] = _another(rows[name][diagonal, diagonal], network.vocab)
    masks = {MASK_OF[key]: torch.ones_like(value, dtype=torch.bool) for key, value in rows.items()}
    leaks: dict[int, list[int]] = {}
    for variant in (rows, rows | masks):  # different code with and without a mask
        outputs = _outputs(network, variant)
        if not bool(outputs.isfinite().all()):
            return _not_finite()
        changed = _changed(outputs[:-1], outputs[-1:])  # (changed token, position)
        if not bool(changed.diagonal().all()):
            dead = (~changed.diagonal()).nonzero()[0].item() + 1
            return Finding(
                "leaking mask", False,
                f"changing token {dead} of {length} does not change the output at that token: the "
                f"model does not read its input as {name}", serious=True,
            )  # fmt: skip
        for token, position in changed.tril(-1).nonzero().tolist():
            leaks.setdefault(token + 1, []).append(position + 1)
    if not leaks:
        return Finding(
            "leaking mask", True,
            f"changing any of {length} tokens changes only the outputs at and after that token",
        )  # fmt: skip
    token, positions = next(iter(leaks.items()))
    places = ", ".join(map(str, sorted(set(positions))))
    return Finding(
        "leaking mask", False,
        f"the model sees future tokens: changing token {token} of {length} changes earlier "
        f"outputs, at {places} ({len(leaks)} of {length} tokens leak); the causal mask is missing "
        "or reversed", serious=True,
    )  # fmt: skip


def padding_seen(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding:
    """Check that other ids in the padding do not change the outputs at real tokens."""
    chosen = _of_unequal_lengths(task, items)
    inputs = task.collate(chosen).inputs
    padding = _padding(task, chosen, inputs)
    amount = sum(int(places.sum()) for places in padding.values())
    other = dict(inputs)
    for name, places in padding.items():
        vocab = (
            network.vocab
            if name == "target" and isinstance(network, AutoregressiveNetwork)
            else int(getattr(network.config, "vocab", 0))
        )
        other[name] = torch.where(places, _another(inputs[name], vocab), inputs[name])
    before, after = _outputs(network, inputs), _outputs(network, other)
    if not bool(before.isfinite().all()):
        return _not_finite()
    changed = _changed(after, before)
    if before.dim() == 3 and padding:  # outputs at padding do not matter
        changed = changed & ~next(reversed(padding.values())).to(changed.device)
    rows = [i + 1 for i, row in enumerate(changed) if bool(row.any())]
    if not rows:
        return Finding(
            "padding seen", True, f"other ids in {amount} padded positions change nothing"
        )
    return Finding(
        "padding seen", False,
        f"other ids in {amount} padded positions change the outputs of {len(rows)} of "
        f"{len(changed)} texts, so answers depend on the other texts of a batch; collate must "
        "return the token `mask`, and the model must use it", serious=True,
    )  # fmt: skip


def padding_in_loss(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding:
    """Check that the loss of a padded batch is the sum of its items' losses."""
    chosen = _of_unequal_lengths(task, items)
    together, alone = task.collate(chosen), [task.collate([item]) for item in chosen]
    with _looking(network) as device:
        whole = float(task.loss(network, together.to(device)))
        parts = sum(float(task.loss(network, batch.to(device))) for batch in alone)
    marked = int((together.targets != IGNORE).sum())
    counts = {together.count, sum(batch.count for batch in alone), marked}
    words = f"{len(chosen)} items in one batch: loss {whole:.4f}, one by one {parts:.4f}"
    if not abs(whole - parts) <= LOSS_CHANGE * max(abs(parts), 1e-6):  # also where it is NaN
        words += (
            "; they must be equal: targets at padding must be IGNORE, and the loss must be a sum"
        )
    elif len(counts) > 1:
        words += (
            f"; but {together.count:,} targets are counted, while {marked:,} are not IGNORE, so "
            "the loss is divided by a wrong number: check collate"
        )
    else:
        return Finding("padding in the loss", True, f"{words}; {marked:,} targets count")
    return Finding("padding in the loss", False, words, serious=True)


def _of_unequal_lengths(task: Task[Any, Any], items: Sequence[Any]) -> list[Any]:
    """Items of different lengths, so that a batch of them has padding."""
    return [
        task.shorten(item, max(PROBE - 2 * place, 3)) if max(task.sizes(item)) > 1 else item
        for place, item in enumerate(spread_out(items, SAMPLE))
    ]


def _padding(
    task: Task[Any, Any], items: Sequence[Any], inputs: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The positions of padding, from the items' lengths rather than a mask."""
    names = [name for name in inputs if name in MASK_OF]
    lengths = torch.tensor([task.sizes(item) for item in items])  # (items, sides)
    if len(names) == 1:  # several sides are rows of one input
        lengths = lengths.flatten()[:, None]
    return {
        name: torch.arange(inputs[name].shape[1]) >= lengths[:, side : side + 1]
        for side, name in enumerate(names)
    }


@contextmanager
def _looking(network: Network) -> Iterator[torch.device]:
    """Switch off dropout and gradients inside the `with` block."""
    with evaluating(network), torch.no_grad():
        yield next(network.parameters()).device


def _outputs(network: Network, inputs: dict[str, Tensor]) -> Tensor:
    with _looking(network) as device:
        return network(**{name: tensor.to(device) for name, tensor in inputs.items()}).float()


def _changed(outputs: Tensor, before: Tensor) -> Tensor:
    """A mask of the positions where any value of the last axis differs."""
    return (outputs - before).abs().amax(dim=-1) > CHANGE * before.abs().max()


def _another(ids: Tensor, vocab: int) -> Tensor:
    """A different token for each id, never padding, start or end."""
    following = (ids + 1) % vocab
    return torch.where(following < 3, 3, following)


def _not_finite() -> Finding:
    return Finding(
        "outputs", False, "the model's outputs are not finite before any training; look at its "
        "weights, or start over", serious=True,
    )  # fmt: skip


MANY_UNKNOWN = 0.05
TEXTS = 2000  # texts per part and side in which unknown tokens are counted


def unknown_tokens(task: Task[Any, Any], parts: dict[str, Sequence[Record]]) -> Finding:
    """Check for unknown tokens: their fraction, and the most frequent ones."""
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
    words = ", ".join(rates)
    if missing:
        often = ", ".join(f"{word!r} {n:,}" for word, n in missing.most_common(5))
        words += f"; most often {often}"
    if worst > MANY_UNKNOWN:
        words += (
            "; raise tokenizer.vocab_size, or use a tokenizer.kind that can spell any word (bpe, "
            "bytes)"
        )
    return Finding("unknown tokens", worst <= MANY_UNKNOWN, words)


def sizes_agree(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding:
    """Check that the model has a row for every token and an output for every label."""
    wanted, has = _wanted(task), _has(network)
    differ = {what: (n, has[what]) for what, n in wanted.items() if has.get(what, n) != n}
    words = [f"{n:,} {what}, but the model has {m:,}" for what, (n, m) in differ.items()]
    beyond = _beyond(task, items, has)
    one_table = isinstance(network, EncoderDecoderModel) and network.config.target_vocab is None
    if one_table and _several(task):
        beyond.append("two vocabularies, but the model has one table for both (set target_vocab)")
    if beyond or any(n > m for n, m in differ.values()):
        message = "; ".join([*words, *beyond])
        remedy = "build the model with the sizes of its tokenizers and labels"
        return Finding("sizes", False, f"there are {message}; {remedy}", serious=True)
    if differ:
        message = "; ".join(words)
        return Finding("sizes", False, f"there are {message}: the rest is never used")
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
    config = network.config.model_dump()
    if config.get("inputs") is not None:
        return {"inputs": config["inputs"], "outputs": config["outputs"]}
    sizes = {"tokens": config["vocab"]}
    if config.get("shape") == "encoder-decoder":
        sizes["target tokens"] = config["target_vocab"] or config["vocab"]
    if config.get("outputs") is not None:
        sizes["labels"] = config["outputs"]
    return sizes


def _several(task: Task[Any, Any]) -> bool:
    """Whether source and target have different tokens. Two tokenizers over the same tokens, as in
    some imported models, are one vocabulary."""
    tokenizers = {t.fingerprint: t for t in task.vocabularies.values()}.values()
    return len({tuple(t.pieces(range(len(t)))) for t in tokenizers}) > 1


def _beyond(task: Task[Any, Any], items: Sequence[Any], has: dict[str, int]) -> list[str]:
    """Describe the ids in a batch that are too large for the model, which has no row or output for
    them. For numeric data, describe a number of columns that differs from the model's."""
    batch = task.collate(items)
    if "x" in batch.inputs:
        columns = {"inputs": batch.inputs["x"].shape[1]}
        if batch.targets.dim() > 1:  # else they are labels
            columns["outputs"] = batch.targets.shape[1]
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
        f"ids up to {int(numbers.max()):,} in the {name} of a batch, but the model has only "
        f"{size:,} rows"
        for name, (numbers, size) in held.items()
        if numbers.numel() and int(numbers.max()) >= size
    ]
