"""The stages between what goes in and what comes out, each made from the points of one part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.catalogue import describe
from translucid.see.text_trace import TextTrace
from translucid.see.walk.data import Seen, Stage, along, at, quoted, ratio, strongest
from translucid.tasks.outputs import Cell, Row, floats

FIRST = 4  # numbers of a vector that are shown
LINKS, CLOSER = 2, 3  # of each token, in the walk through all layers and in one layer
ATTENTION = {
    "self_attention": (
        "self-attention",
        "Each token asks a question (its query) and takes from the tokens whose answer (their "
        "key) fits. Several heads ask different questions side by side. What was taken is added to "
        "the token's vector.",
    ),
    "cross_attention": (
        "cross-attention",
        "Before a token is written, the decoder looks at the source for it, and takes from the "
        "tokens that it needs. Each row: the token about to be written ← those of the source.",
    ),
    "alignment": (
        "attention to the source",
        "Before a token is written, the decoder's state is compared with every token of the "
        "source, and takes from those that fit. Each row: the token about to be written ← those "
        "of the source.",
    ),
}
FEEDFORWARD = (
    "Each token by itself: a small network looks in its vector for what it has learnt to find, and "
    "adds what follows from that."
)
CELLS = {
    "lstm": (
        "LSTM",
        "Reads token by token and carries a memory, the cell, along. At each token three gates "
        "stand between 0 (closed) and 1 (open).",
    ),
    "gru": (
        "GRU",
        "Reads token by token and carries a state along. At each token two gates stand between 0 "
        "(closed) and 1 (open).",
    ),
    "rnn": (
        "RNN",
        "Reads token by token and carries a state along. It has no gates: each token and the state "
        "so far make the new state. The numbers: how far it moved, as a share of its length.",
    ),
}
# The gates in the order people ask for them, with what an open one does.
GATES = {
    "lstm": {"forget_gate": "keeps", "input_gate": "writes", "output_gate": "shows"},
    "gru": {"update_gate": "keeps", "reset_gate": "hears"},
}
POSITIONS = {
    "encoding": "A layer that sees all tokens at once does not know their order. So each position "
    "has a vector of its own, which is added to the token's.",
    "angles": "A layer that sees all tokens at once does not know their order. So queries and keys "
    "are turned, pair of numbers by pair of numbers, the farther the later they stand.",
    "bias": "A layer that sees all tokens at once does not know their order. So the farther away a "
    "token is, the more its score is lowered. The numbers: what head 0 takes off for the first "
    "token.",
}


@dataclass(frozen=True)
class Chosen:
    """What is to be seen closer."""

    layer: int | None = None
    head: int | None = None
    top: int = 5

    @property
    def links(self) -> int:
        """How many of each token: more, the fewer rows there are."""
        if self.layer is None:
            return LINKS
        return CLOSER if self.head is None else self.top


def stages_of(reading: TextTrace, names: Sequence[str], chosen: Chosen) -> Iterator[Stage]:
    """In the order of the model, from these names of the trace; without the output head."""
    for name in names:
        scope, _, point = name.rpartition(".")
        part = scope.rpartition(".")[2]
        match part, point:
            case "embedding", "lookup":
                yield _embedding(reading, name)
            case "characters", "output":
                yield _characters(reading, name)
            case "positions", "encoding" | "angles" | "bias":
                yield _positions(reading, name)
            case "self_attention" | "cross_attention" | "alignment", "pattern":
                yield _attention(reading, name, names, chosen)
            case "feedforward", "output":
                yield _feedforward(reading, name, names, chosen)
            case "lstm" | "gru" | "rnn", "hidden":
                yield _cell(reading, name, names, chosen)
            case "bridge", "hidden":
                yield _bridge(reading, name)
            case "final_norm", "output" if f"{scope}.normalised" in reading:
                yield _final_norm(reading, name)
            case "standardise", "output":
                yield _numbers(reading, name, "inputs at one scale", STANDARDISED, names, chosen)
            case "dense", "activation" if layer_of(name) is not None:
                title = f"layer {layer_of(name)}"
                yield _numbers(reading, name, title, DENSE, names, chosen)


STANDARDISED = (
    "Each input is measured in deviations from its mean over the training data, so that none "
    "drowns the others."
)
DENSE = (
    "Each number of this layer is a weighted sum of all numbers before it, sent through an "
    "activation, which lets the network bend."
)


def _stack(name: str) -> str:
    """Which of the model's stacks a name belongs to."""
    for stack in ("encoder", "decoder"):
        if stack in name.split("."):
            return stack
    return ""


def chapter_of(reading: TextTrace, name: str) -> str:
    both = bool(reading.words.source and reading.words.target)
    match _stack(name):
        case "encoder":
            return "Reading the source (encoder)" if both else "Reading (encoder)"
        case "decoder":
            return "Writing the target (decoder)" if both else "Reading (decoder)"
        case _:
            return "Through the network"


def layer_of(name: str) -> int | None:
    parts = name.split(".")
    return int(parts[parts.index("layers") + 1]) if "layers" in parts else None


def _titled(name: str, what: str) -> str:
    layer, stack = layer_of(name), _stack(name)
    where = stack if layer is None else f"{stack} layer {layer}".strip()
    return f"{where}: {what}" if where else what


def _embedding(reading: TextTrace, name: str) -> Stage:
    table = reading[name][0]  # (length, d_model)
    sentence = (
        f"From here on a token is {table.shape[-1]:,} numbers (a vector), learnt in training; "
        "tokens that are used alike have similar ones."
    )
    return Stage("vectors", chapter_of(reading, name), _titled(name, "embedding"), sentence,
                 **at(reading, name), rows=_vectors(table, along(reading, name)))  # fmt: skip


def _vectors(table: Tensor, labels: Sequence[str]) -> tuple[Row, ...]:
    lengths = floats(torch.linalg.vector_norm(table.float(), dim=-1))
    return tuple(
        Row(label, (*(Cell("", value) for value in first), Cell("length", length)))
        for label, first, length in zip(labels, floats(table[:, :FIRST]), lengths, strict=True)
    )


def _characters(reading: TextTrace, name: str) -> Stage:
    words = name.replace("characters.output", "embedding.lookup")
    shares = ratio(reading[name][0], reading[words][0])
    sentence = (
        "The characters of each word are read as well, so that a word the vocabulary lacks is not "
        "blank. The numbers: what they add, as a share of the word's own vector."
    )
    return Stage("sizes", chapter_of(reading, name), _titled(name, "characters"), sentence,
                 **at(reading, name), rows=_sizes(shares, along(reading, name)))  # fmt: skip


def _sizes(values: Tensor, labels: Sequence[str]) -> tuple[Row, ...]:
    return tuple(
        Row(label, (Cell("", value),)) for label, value in zip(labels, floats(values), strict=True)
    )


def _positions(reading: TextTrace, name: str) -> Stage:
    point = name.rpartition(".")[2]
    value = reading[name][0]
    rows: tuple[Row, ...] = ()
    sentence, happened = POSITIONS[point], ""
    match point:
        case "encoding":  # (length, d_model)
            sentence += " The numbers: how long it is."
            rows = _sizes(torch.linalg.vector_norm(value.float(), dim=-1), along(reading, name))
        case "angles":  # (length, pairs)
            happened = _turned(value)
        case _:  # (heads, queries, keys)
            rows = _sizes(value[0, :, 0], along(reading, name))
    return Stage("sizes", chapter_of(reading, name), _titled(name, "positions"), sentence,
                 **at(reading, name), rows=rows, happened=happened)  # fmt: skip


def _turned(angles: Tensor) -> str:
    """Every position turns a pair by the same angle more, so one line says all. (length, pairs)"""
    if len(angles) == 1:
        return "position 0: not turned"
    fastest, *_, slowest = [f"{step:.3g}" for step in floats(angles[1] - angles[0])] * 2
    fastest, slowest = ("" if step == "1" else f"{step} " for step in (fastest, slowest))
    more = f", the slowest by {slowest}p" if fastest != slowest else ""
    return f"position p: the fastest pair is turned by {fastest}p radians{more}"


def _attention(reading: TextTrace, name: str, names: Sequence[str], chosen: Chosen) -> Stage:
    scope = name.rpartition(".")[0]
    part = scope.rpartition(".")[2]
    pattern = reading[name][0]
    if pattern.dim() == 2:  # an alignment has no heads
        pattern = pattern[None]
    what, sentence = ATTENTION[part]
    queries, keys = _askers(reading, name, part), along(reading, name, "keys")
    heads = len(pattern)
    rows = [
        Row(label, cells, head)
        for head in _heads(heads, chosen)
        for label, cells in zip(
            queries,
            strongest(pattern.float().mean(0) if head is None else pattern[head], keys,
                      chosen.links),
            strict=True,
        )
    ]  # fmt: skip
    return Stage(
        "links", chapter_of(reading, name), _titled(name, what), sentence, **at(reading, name),
        rows=tuple(rows), happened=_sharpest(pattern, queries, keys, chosen) if heads > 1 else "",
        added=_added(reading, scope, queries), layer=layer_of(name), heads=heads,
        points=_points(reading, scope, names, chosen),
    )  # fmt: skip


def _askers(reading: TextTrace, name: str, part: str) -> tuple[str, ...]:
    """Who looks: the token that is read, or the one that is to be written."""
    if part == "self_attention":
        return along(reading, name, "queries")
    return reading.words.follows


def _heads(count: int, chosen: Chosen) -> list[int | None]:
    if chosen.head is not None:
        return [chosen.head]
    return [None] if chosen.layer is None or count == 1 else list(range(count))


def _sharpest(pattern: Tensor, queries: Sequence[str], keys: Sequence[str], chosen: Chosen) -> str:
    """The strongest link of the heads that are shown, but not of a token that has no choice."""
    free = (pattern > 0).sum(dim=-1, keepdim=True) > 1  # (heads, queries, 1)
    values = pattern.float() * free
    if chosen.head is not None:
        values[: chosen.head] = values[chosen.head + 1 :] = 0
    head, query, key = torch.unravel_index(values.argmax(), values.shape)
    value = float(values[head, query, key])
    if not value:
        return ""
    link = f"{quoted(queries[int(query)])} ← {quoted(keys[int(key)])} {value:.2f}"
    return f"sharpest: head {int(head)}, {link}"


def _added(reading: TextTrace, scope: str, labels: Sequence[str]) -> tuple[Cell, ...]:
    """What a part adds to each token, as a share of the vector that it is added to."""
    frame = f"{scope}_residual"
    if f"{frame}.branch" not in reading:
        return ()
    shares = ratio(reading[f"{frame}.branch"][0], reading[f"{frame}.skip"][0])
    return tuple(Cell(label, value) for label, value in zip(labels, floats(shares), strict=True))


def _points(
    reading: TextTrace, scope: str, names: Sequence[str], chosen: Chosen
) -> tuple[Seen, ...]:
    """All that a part computes, for those who look closer."""
    if chosen.layer is None:
        return ()
    scopes = (f"{scope}.", f"{scope}_residual.")
    return tuple(
        Seen(name, tuple(reading[name].shape), describe(name).meaning)
        for name in names
        if name.startswith(scopes)
    )


def _feedforward(reading: TextTrace, name: str, names: Sequence[str], chosen: Chosen) -> Stage:
    scope = name.rpartition(".")[0]
    active = reading[f"{scope}.activated"][0] != 0  # (length, d_ff)
    share = float(active.float().mean())
    happened = ""
    if share < 1:  # an activation that switches units off
        happened = f"{share:.0%} of {active.shape[-1]:,} hidden units are on"
    return Stage(
        "sizes", chapter_of(reading, name), _titled(name, "feed-forward"), FEEDFORWARD,
        **at(reading, f"{scope}_residual.branch"), happened=happened,
        added=_added(reading, scope, along(reading, name)), layer=layer_of(name),
        points=_points(reading, scope, names, chosen),
    )  # fmt: skip


def _cell(reading: TextTrace, name: str, names: Sequence[str], chosen: Chosen) -> Stage:
    scope = name.rpartition(".")[0]
    part = scope.rpartition(".")[2]
    what, sentence = CELLS[part]
    ways = {"forward": ", left to right", "backward": ", right to left"}
    way = ways.get(scope.split(".")[-2], "")
    labels = along(reading, name)
    if part == "rnn":
        found = at(reading, name) | {"rows": _moved(reading, name, labels)}
    else:
        found = _gates(reading, scope, GATES[part], labels)
    return Stage(
        "sizes" if part == "rnn" else "gates", chapter_of(reading, name),
        _titled(name, what + way), sentence, layer=layer_of(name), **found,
        points=_points(reading, scope, names, chosen),
    )  # fmt: skip


def _gates(
    reading: TextTrace, scope: str, gates: dict[str, str], labels: Sequence[str]
) -> dict[str, Any]:
    means = {
        does: floats(reading[f"{scope}.{gate}"][0].float().mean(-1)) for gate, does in gates.items()
    }
    rows = tuple(
        Row(label, tuple(Cell(does, values[place]) for does, values in means.items()))
        for place, label in enumerate(labels)
    )
    happened = _most_open(means, labels, _start(scope, labels))
    said = [f"{does}: {describe(f'{scope}.{gate}').meaning}" for gate, does in gates.items()]
    found = at(reading, f"{scope}.{next(iter(gates))}")
    return found | {"rows": rows, "happened": happened, "meaning": "; ".join(said)}


def _start(scope: str, labels: Sequence[str]) -> int | None:
    """Which token is read first, where the memory is still empty; a decoder's is not."""
    if _stack(scope) == "decoder":
        return None
    return len(labels) - 1 if "backward" in scope.split(".") else 0


def _most_open(means: dict[str, list[float]], labels: Sequence[str], start: int | None) -> str:
    """Where most was forgotten, but not where there was nothing to forget; and the like."""
    keeps, other, *_ = means
    places = [place for place in range(len(labels)) if place != start]
    said = []
    if places:
        lowest = min(places, key=means[keeps].__getitem__)
        said = [f"at {labels[lowest]!r} most is forgotten ({keeps} {means[keeps][lowest]:.2f})"]
    highest = max(range(len(labels)), key=means[other].__getitem__)
    said.append(f"at {labels[highest]!r} it {other} most ({means[other][highest]:.2f})")
    return "; ".join(said)


def _moved(reading: TextTrace, name: str, labels: Sequence[str]) -> tuple[Row, ...]:
    """How far each token moves a state, as a share of the state's length after it."""
    states = reading[name][0]  # (length, hidden)
    backward = "backward" in name.split(".")
    start = states.new_zeros(1, states.shape[-1])
    bridge = f"{name.partition('.recurrent.')[0]}.bridge.hidden"
    if bridge in reading:
        start = reading[bridge]
    before = torch.cat([states[1:], start]) if backward else torch.cat([start, states[:-1]])
    return _sizes(ratio(states - before, states), labels)


def _bridge(reading: TextTrace, name: str) -> Stage:
    sentence = (
        "All that was read is now in one state. The decoder starts from it: a sentence in "
        f"{reading[name].shape[-1]:,} numbers."
    )
    return Stage("vectors", chapter_of(reading, name), _titled(name, "bridge"), sentence,
                 **at(reading, name), rows=_vectors(reading[name], ("start",)))  # fmt: skip


def _final_norm(reading: TextTrace, name: str) -> Stage:
    sentence = "After all layers, every vector is brought to the same scale."
    lengths = floats(torch.linalg.vector_norm(reading[name][0].float(), dim=-1))
    happened = f"all vectors are now {min(lengths):.2f} to {max(lengths):.2f} long"
    if len(lengths) == 1:
        happened = f"the vector is now {lengths[0]:.2f} long"
    return Stage("sizes", chapter_of(reading, name), _titled(name, "final norm"), sentence,
                 **at(reading, name), happened=happened)  # fmt: skip


def _numbers(
    reading: TextTrace, name: str, title: str, sentence: str, names: Sequence[str], chosen: Chosen
) -> Stage:
    """One row of numbers: a layer of a network without text."""
    values = reading[name][0]
    scope = name.rpartition(".")[0]
    inputs = reading.words.features if scope == "standardise" else ()
    labels = inputs or tuple(map(str, range(len(values))))
    off = int((values == 0).sum())
    happened = (
        f"{len(values) - off} of {len(values)} numbers are above or below 0, the others exactly 0"
    )
    return Stage(
        "sizes", chapter_of(reading, name), title, sentence, **at(reading, name),
        rows=_sizes(values, labels), happened=happened if off else "", layer=layer_of(name),
        points=_points(reading, scope, names, chosen),
    )  # fmt: skip
