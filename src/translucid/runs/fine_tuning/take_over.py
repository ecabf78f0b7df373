"""From the weights of a trained network to those that a new one begins with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import ConfigError
from translucid.core.weights import own_tensors
from translucid.models import Network
from translucid.runs.fine_tuning.source import Source
from translucid.runs.fine_tuning.vocabulary import Rows
from translucid.tasks.label_scores import FUNCTION

LANGUAGE = ("language", "fill")  # heads with a row for each token


@dataclass(frozen=True)
class TakenOver:
    """Names of tensors, by what became of them."""

    taken: tuple[str, ...]
    fresh: tuple[str, ...]
    left: tuple[str, ...]  # of the source
    why_fresh: str  # its head

    def lines(self, network: Network, source: Source) -> list[str]:
        """In words."""
        ours, theirs = own_tensors(network), own_tensors(source.bundle.network)
        lines = [f"  taken over: {_amount(self.taken, ours)}"]
        if self.fresh:
            why = f" ({self.why_fresh})" if self.why_fresh else ""
            lines.append(f"  fresh: {_amount(self.fresh, ours)}{why}")
        if self.left:
            lines.append(f"  left out of the source: {_amount(self.left, theirs)}")
        return lines


@torch.no_grad()
def take_over(
    network: Network, source: Source, rows: Mapping[str, Rows], labels: Sequence[str]
) -> TakenOver:
    """Write all that fits into the network. rows: of the tables of each stack, `encoder` and
    `decoder`; the head has those of the decoder, or of the only stack."""
    theirs = source.bundle.network.state_dict()
    head, order = _head(network, source, labels)
    of_head = rows[_stack(network)]
    taken, fresh = [], []
    for name, tensor in own_tensors(network).items():
        value, part = theirs.get(name.replace(".base.", ".")), _part(name)
        output = part == "head" and name.endswith(("head.linear.weight", "head.linear.bias"))
        if value is None or (part in ("head", "ngrams") and head == "kind"):
            value = None
        elif part == "ngrams":  # by the ids of tokens, for each label
            value = value if of_head.same and order == sorted(order) and not head else None
        elif name.endswith("embedding.table.weight"):
            value = rows[part].of(value, tensor)
        elif output and source.config.head in LANGUAGE:
            value = of_head.of(value, tensor)
        elif output:
            value = value[order] if not head else None
        if value is None:
            fresh.append(name)
            if ".characters.linear." in name:  # added to vectors that mean something already
                tensor.zero_()
            continue
        if value.shape != tensor.shape:
            raise ConfigError(
                f"training.start_from = {source.path!r}: {name} has shape {[*value.shape]}, but "
                f"the recipe's model {[*tensor.shape]}; leave the sizes in the section model out"
            )
        tensor.copy_(value)
        taken.append(name)
    written = {name.replace(".base.", ".") for name in taken}
    left = [name for name in own_tensors(source.bundle.network) if name not in written]
    return TakenOver(tuple(taken), tuple(fresh), tuple(left), _why(head, source, labels))


def _head(network: Network, source: Source, labels: Sequence[str]) -> tuple[str, list[int]]:
    """What of the head differs ("": nothing), and the rows of its output in the order of the
    labels."""
    if network.config.model_dump()["head"] != source.config.head:
        return "kind", []
    theirs = list(source.bundle.labels)
    if {*labels} != {*theirs} or len(labels) != len(theirs):
        return "labels", []
    if source.bundle.statistics.get(FUNCTION, "softmax") != "softmax":
        return "meaning", []
    return "", [theirs.index(label) for label in labels]


def _why(head: str, source: Source, labels: Sequence[str]) -> str:
    if head == "kind":
        return f"the source has a head for task {source.bundle.task}"
    if head == "labels":
        return f"the source's labels are others: {some(source.bundle.labels)}"
    if head == "meaning":
        return "the labels of the source do not exclude each other"
    return ""


def reordered(source: Source, labels: Sequence[str]) -> bool:
    """Whether the source has the same labels in another order."""
    theirs = source.bundle.labels
    return {*labels} == {*theirs} and tuple(labels) != tuple(theirs)


def _part(name: str) -> str:
    """encoder, decoder, head, ngrams; in an ensemble too."""
    if ".lora." in name:
        return "LoRA adapters"
    words = name.split(".")
    return words[2] if words[0] == "members" else words[0]


def _stack(network: Network) -> str:
    """The stack that the head stands on."""
    return "encoder" if network.config.model_dump()["shape"] == "encoder" else "decoder"


def _amount(names: Iterable[str], tensors: Mapping[str, Tensor]) -> str:
    """`encoder (22,565,376 values)`, part by part."""
    parts: dict[str, int] = {}
    for name in names:
        parts[_part(name)] = parts.get(_part(name), 0) + tensors[name].numel()
    return ", ".join(f"{part} ({count:,} values)" for part, count in parts.items())


def some(names: Sequence[str], most: int = 6) -> str:
    """The first of them, in words."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") or "none"
