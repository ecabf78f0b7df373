"""Mistakes between data and model that no error tells: the loss falls, and the model is useless.

Each check runs the real task and the real model on a few examples and returns a Finding. Nothing is
drawn from torch's generator and no weight is touched, so a run goes on as if nobody had looked.
"""

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

SAMPLE = 8  # items that are looked at
PROBE = 12  # tokens of the text that the causality probe changes one by one
CHANGE = 1e-5  # of the largest output: less is rounding
LOSS_CHANGE = 1e-4  # of the loss: sums in another order
MASK_OF = {"ids": "mask", "source": "source_mask", "target": "target_mask"}


def shifted_targets(
    task: Task[Any, Any], items: Sequence[Any], records: Sequence[Record]
) -> Finding | None:
    """What is to be said stands where it should: one token ahead, at the word, at the text. None
    where the task knows no other way to tell."""
    if task.head == "language":
        return _next_token_targets(task.collate(spread_out(items, SAMPLE)))
    chosen = spread_out(records, SAMPLE)
    expected = task.expected_targets(chosen)
    return None if expected is None else _labels_in_place(task, chosen, *expected)


def _next_token_targets(batch: Batch) -> Finding:
    """A decoder reads token i and says token i + 1; at the last one too it says something."""
    name = "target" if "target" in batch.inputs else "ids"
    read = batch.inputs[name]
    mask = batch.inputs.get(MASK_OF[name], torch.ones_like(read, dtype=torch.bool))
    same, compared = _agreement(read, mask, batch.targets, 1)
    words = f"{same:,} of {compared:,} targets are the token after the one that is read"
    silent = int((mask & (batch.targets == IGNORE)).sum())
    if same == compared and not silent:
        return Finding("shifted targets", True, words)
    meanings = {0: "the model would learn to copy", 2: "the shift is made twice"}
    for shift in (0, 2, 3, -1):
        agree, of = _agreement(read, mask, batch.targets, shift)
        if same < compared and of and agree == of:
            words += f"; all are the token at {shift:+}: {meanings.get(shift, 'a wrong shift')}"
            break
    if silent:
        words += f"; {silent:,} tokens are read without a target"
    return Finding(
        "shifted targets", False,
        f"{words}; in collate, targets[i] must be inputs[i + 1], and the last one the end",
        serious=True,
    )  # fmt: skip


def _agreement(read: Tensor, mask: Tensor, targets: Tensor, shift: int) -> tuple[int, int]:
    """How many targets are the token `shift` places on, of those that have one there."""
    length = read.shape[1]
    places = torch.arange(max(0, -shift), min(length, length - shift))
    wanted, read_there = targets[:, places], read[:, places + shift]
    counts = (wanted != IGNORE) & mask[:, places + shift]
    return int(((wanted == read_there) & counts).sum()), int(counts.sum())


def _labels_in_place(
    task: Task[Any, Any], records: Sequence[Record], wanted: Tensor, where: str
) -> Finding:
    """The label of every text, or of every word at its first piece."""
    batch = task.collate([task.encode(record) for record in records])
    wrong = (wanted != batch.targets).nonzero().tolist()
    total = int((wanted != IGNORE).sum())
    if not wrong:
        return Finding("targets in place", True, f"{total:,} labels, each at {where}")
    line = records[wrong[0][0]].line
    return Finding(
        "targets in place", False,
        f"{len(wrong):,} places with another label than {where} has, of {total:,} labels (first: "
        f"line {line:,}, place {wrong[0][-1] + 1}); look at encode and collate", serious=True,
    )  # fmt: skip


def leaking_mask(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding | None:
    """Change each token of a text in turn: nothing that was said before it may change."""
    if not isinstance(network, AutoregressiveNetwork) or network.config.head != "language":
        return None  # it may see the words to come
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
    for variant in (rows, rows | masks):  # without and with a mask other code builds the pattern
        outputs = _outputs(network, variant)
        if not bool(outputs.isfinite().all()):
            return _not_finite()
        changed = _changed(outputs[:-1], outputs[-1:])  # (changed token, position)
        if not bool(changed.diagonal().all()):
            dead = (~changed.diagonal()).nonzero()[0].item() + 1
            return Finding(
                "leaking mask", False,
                f"changing token {dead} of {length} does not change what is said at it: the model "
                f"does not read its input as {name}", serious=True,
            )  # fmt: skip
        for token, position in changed.tril(-1).nonzero().tolist():
            leaks.setdefault(token + 1, []).append(position + 1)
    if not leaks:
        return Finding(
            "leaking mask", True,
            f"changing each of {length} tokens changes nothing before it, and something from it on",
        )  # fmt: skip
    token, positions = next(iter(leaks.items()))
    places = ", ".join(map(str, sorted(set(positions))))
    return Finding(
        "leaking mask", False,
        f"the model sees tokens to come: changing token {token} of {length} changes what is said "
        f"at {places}, before it ({len(leaks)} of {length} tokens leak); the causal mask is "
        "missing or turned around", serious=True,
    )  # fmt: skip


def padding_seen(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding:
    """Other ids in the padding, the same outputs at real tokens."""
    chosen = _of_unequal_lengths(task, items)
    inputs = task.collate(chosen).inputs
    padding = _padding(task, chosen, inputs)
    amount = sum(int(places.sum()) for places in padding.values())
    other = dict(inputs)
    for name, places in padding.items():
        vocab = (
            network.vocab
            if name == "target" and isinstance(network, AutoregressiveNetwork)
            else _vocab(network)
        )
        other[name] = torch.where(places, _another(inputs[name], vocab), inputs[name])
    before, after = _outputs(network, inputs), _outputs(network, other)
    if not bool(before.isfinite().all()):
        return _not_finite()
    changed = _changed(after, before)
    if before.dim() == 3 and padding:  # what is said at padding nobody hears
        changed = changed & ~next(reversed(padding.values())).to(changed.device)
    rows = [i + 1 for i, row in enumerate(changed) if bool(row.any())]
    if not rows:
        return Finding("padding seen", True, f"other ids in {amount} padded places change nothing")
    return Finding(
        "padding seen", False,
        f"other ids in {amount} padded places change the outputs of {len(rows)} of {len(changed)} "
        "texts, so an answer depends on its neighbours in the batch; collate must give the token "
        "`mask`, and the model use it", serious=True,
    )  # fmt: skip


def padding_in_loss(task: Task[Any, Any], network: Network, items: Sequence[Any]) -> Finding:
    """The loss of a padded batch is the sum of its items' losses, and counts their targets."""
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
            "; they must be equal: targets at padding are to be IGNORE, and the loss is to be a sum"
        )
    elif len(counts) > 1:
        words += (
            f"; but {together.count:,} targets are counted where {marked:,} are not IGNORE, so the "
            "loss is divided by a wrong number: look at collate"
        )
    else:
        return Finding("padding in the loss", True, f"{words}; {marked:,} targets count")
    return Finding("padding in the loss", False, words, serious=True)


def _of_unequal_lengths(task: Task[Any, Any], items: Sequence[Any]) -> list[Any]:
    """Beginnings of some items, so that a batch of them has padding."""
    return [
        task.shorten(item, max(PROBE - 2 * place, 3)) if max(task.sizes(item)) > 1 else item
        for place, item in enumerate(spread_out(items, SAMPLE))
    ]


def _padding(
    task: Task[Any, Any], items: Sequence[Any], inputs: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Where padding is, by the items' lengths: a forgotten mask cannot hide it."""
    names = [name for name in inputs if name in MASK_OF]
    lengths = torch.tensor([task.sizes(item) for item in items])  # (items, sides)
    if len(names) == 1:  # where there are several sides, they are rows of one input
        lengths = lengths.flatten()[:, None]
    return {
        name: torch.arange(inputs[name].shape[1]) >= lengths[:, side : side + 1]
        for side, name in enumerate(names)
    }


@contextmanager
def _looking(network: Network) -> Iterator[torch.device]:
    """Without dropout and gradients; afterwards the model is as it was."""
    with evaluating(network), torch.no_grad():
        yield next(network.parameters()).device


def _outputs(network: Network, inputs: dict[str, Tensor]) -> Tensor:
    with _looking(network) as device:
        return network(**{name: tensor.to(device) for name, tensor in inputs.items()}).float()


def _changed(outputs: Tensor, before: Tensor) -> Tensor:
    """Where any of the last axis' numbers is another."""
    return (outputs - before).abs().amax(dim=-1) > CHANGE * before.abs().max()


def _another(ids: Tensor, vocab: int) -> Tensor:
    """The next token for each, and never padding, start or end."""
    following = (ids + 1) % vocab
    return torch.where(following < 3, 3, following)


def _vocab(network: Network) -> int:
    return int(getattr(network.config, "vocab", 0))


def _not_finite() -> Finding:
    return Finding(
        "outputs", False, "the model's outputs are not finite before any training; look at its "
        "weights, or begin anew", serious=True,
    )  # fmt: skip
