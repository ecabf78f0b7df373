"""The stages of a walk, each made from the trace points of one part of the network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.see.terms import sums
from translucid.see.text_trace import TextTrace
from translucid.see.walk.walk import Kind, Seen, Stage, quoted
from translucid.tasks.outputs import Cell, OutputRow, floats

FIRST = 4  # number of vector values to show
LINKS, CLOSER = 2, 3  # links to show per token, with all layers and with one layer
UNORDERED = "Attention by itself ignores the order of the tokens. Therefore "
POSITIONS = {
    "encoding": f"{UNORDERED}each position has a vector of its own, which is added to the token's.",
    "angles": f"{UNORDERED}queries and keys are rotated, one pair of dimensions at a time, by an "
    "angle proportional to their position.",
    "bias": f"{UNORDERED}the score of a token is lower the farther away it is. Values: what head 0 "
    "subtracts for the first token.",
}
ATTENTION = {
    "self_attention": (
        "self-attention",
        "Each token compares its query with the keys of the tokens and takes the values of those "
        "that match. Several heads do this in parallel. The result is added to the token's "
        "vector.",
    ),
    "cross_attention": (
        "cross-attention",
        "Before a token is written, the decoder attends to the source and takes the values of the "
        "tokens that match. Each row: the token about to be written ← tokens of the source.",
    ),
    "alignment": (
        "attention to the source",
        "Before a token is written, the decoder's state is compared with every token of the "
        "source and takes the vectors of those that match. Each row: the token about to be written "
        "← tokens of the source.",
    ),
}
JUMPING = (
    "From the source token translated last, the alignment jumps to the one to translate next. "
    "Jumps that were common in training are more probable. Each row: the token about to be written "
    "← the tokens of the source that it may translate."
)
NGRAMS = (
    "The probability of a token is a sum over n-grams: sequences of 1, 2, 3, ... tokens that were "
    "counted in training. Each row: the token that follows ← the fraction of its probability that "
    "each length contributes."
)
FEEDFORWARD = (
    "A small network transforms the vector of each token separately, and its output is added to "
    "the vector."
)
CELLS = {
    "lstm": (
        "LSTM",
        "It reads token by token and carries a memory, the cell. At each token, three gates have "
        "values between 0 (closed) and 1 (open).",
    ),
    "gru": (
        "GRU",
        "It reads token by token and carries a state. At each token, two gates have values between "
        "0 (closed) and 1 (open).",
    ),
    "rnn": (
        "RNN",
        "It reads token by token and carries a state. There are no gates: the new state depends on "
        "the token and the previous state. Values: how far the state moved, as a fraction of "
        "its length.",
    ),
}
# The gates in their usual order, with the effect of an open gate.
GATES = {
    "lstm": {"forget_gate": "keeps", "input_gate": "writes", "output_gate": "shows"},
    "gru": {"update_gate": "keeps", "reset_gate": "reads"},
}
STANDARDISED = (
    "Each input is expressed in standard deviations from its mean over the training data, so that "
    "no input dominates the others."
)
DENSE = (
    "Each value of this layer is a weighted sum of all values of the layer before it, followed by "
    "an activation function, which makes the network non-linear."
)


@dataclass(frozen=True)
class Focus:
    """The layer and head to show in detail."""

    layer: int | None = None
    head: int | None = None
    top: int = 5

    @property
    def links(self) -> int:
        """The number of links to show per token: more if there are fewer rows."""
        if self.layer is None:
            return LINKS
        return CLOSER if self.head is None else self.top


@dataclass(frozen=True)
class Part:
    """A trace point to show in a stage, with the part of the network it belongs to."""

    reading: TextTrace
    name: str
    focus: Focus
    names: Sequence[str]  # all points of the walk

    @property
    def scope(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def value(self) -> Tensor:
        return self.reading[self.name][0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The tokens along the point."""
        return self.reading.words.along(self.name, "length")

    def stage(
        self, kind: Kind, what: str, sentence: str, *, address: str = "", **parts: Any
    ) -> Stage:
        """Make a stage for this part. address: the point to show, by default the part's own."""
        return Stage(
            kind, chapter_of(self.reading, self.name), titled(self.name, what), sentence,
            **{**at(self.reading, address or self.name), "layer": layer_of(self.name),
               "points": self._points(), **parts},
        )  # fmt: skip

    def _points(self) -> tuple[Seen, ...]:
        """All points of the part, listed only if one layer was chosen."""
        if self.focus.layer is None:
            return ()
        scopes = (f"{self.scope}.", f"{self.scope}_residual.")
        return tuple(
            Seen(name, tuple(self.reading[name].shape), describe(name).meaning)
            for name in self.names
            if name.startswith(scopes)
        )


def stages_of(reading: TextTrace, names: Sequence[str], focus: Focus) -> Iterator[Stage]:
    """The stages in model order, without the output head."""
    for name in names:
        part = Part(reading, name, focus, names)
        match part.scope.rpartition(".")[2], name.rpartition(".")[2]:
            case "embedding", "lookup":
                yield _embedding(part)
            case "characters", "output":
                yield _characters(part)
            case "positions", "encoding" | "angles" | "bias":
                yield _positions(part)
            case "self_attention" | "cross_attention" | "alignment", "pattern":
                yield _attention(part)
            case _, "probability" if name == _highest_order(names):
                yield _ngrams(part)
            case "feedforward", "output":
                yield _feedforward(part)
            case "lstm" | "gru" | "rnn", "hidden":
                yield _cell(part)
            case "bridge", "hidden":
                yield _bridge(part)
            case "final_norm", "output" if f"{part.scope}.normalised" in reading:
                yield _final_norm(part)
            case "standardise", "output":
                yield _numbers(part, "inputs at one scale", STANDARDISED)
            case "dense", "activation" if layer_of(name) is not None:
                yield _numbers(part, "", DENSE)


# ---- tokens as vectors ----


def _embedding(part: Part) -> Stage:
    sentence = (
        f"From here on, each token is a vector of {part.value.shape[-1]:,} values learned in "
        "training; tokens with similar uses have similar vectors."
    )
    rows = vector_rows(part.value, part.labels)
    return part.stage("vectors", "embedding", sentence, rows=rows)


def _characters(part: Part) -> Stage:
    words = part.name.replace("characters.output", "embedding.lookup")
    sentence = (
        "The characters of each word are read as well, which helps with words that are not in the "
        "vocabulary. Values: the length of what they add, relative to the word's own vector."
    )
    rows = size_rows(ratio(part.value, part.reading[words][0]), part.labels)
    return part.stage("sizes", "characters", sentence, rows=rows)


def _positions(part: Part) -> Stage:
    point, value = part.name.rpartition(".")[2], part.value
    rows: tuple[OutputRow, ...] = ()
    sentence, happened = POSITIONS[point], ""
    match point:
        case "encoding":  # (length, d_model)
            sentence += " Values: its length."
            rows = size_rows(_lengths(value), part.labels)
        case "angles":  # (length, pairs)
            happened = _turned(value)
        case _:  # (heads, queries, keys)
            rows = size_rows(value[0, :, 0], part.labels)
    return part.stage("sizes", "positions", sentence, rows=rows, happened=happened)


def _turned(angles: Tensor) -> str:
    """Describe the rotation angles, which grow linearly with position. (length, pairs)"""
    if len(angles) == 1:
        return "position 0: not rotated"
    fastest, *_, slowest = [f"{step:.3g}" for step in floats(angles[1] - angles[0])] * 2
    fastest, slowest = ("" if step == "1" else f"{step} " for step in (fastest, slowest))
    more = f", the slowest by {slowest}p" if fastest != slowest else ""
    return f"position p: the fastest pair is rotated by {fastest}p radians{more}"


def _final_norm(part: Part) -> Stage:
    sentence = "After all layers, every vector is normalised to the same scale."
    lengths = floats(_lengths(part.value))
    happened = f"all vectors are now {min(lengths):.2f} to {max(lengths):.2f} long"
    if len(lengths) == 1:
        happened = f"the vector is now {lengths[0]:.2f} long"
    return part.stage("sizes", "final norm", sentence, happened=happened)


def _numbers(part: Part, what: str, sentence: str) -> Stage:
    """The stage of a layer in a network that reads numbers: one row of values."""
    values = part.value
    inputs = part.reading.words.features if part.scope == "standardise" else ()
    labels = inputs or tuple(map(str, range(len(values))))
    off = int((values == 0).sum())
    happened = f"{len(values) - off} of {len(values)} values are not 0, the others are exactly 0"
    return part.stage(
        "sizes", what, sentence, rows=size_rows(values, labels),
        worked=sums(part.reading, part.name), happened=happened if off else "",
    )  # fmt: skip


# ---- layers of a Transformer ----


def _attention(part: Part) -> Stage:
    kind = part.scope.rpartition(".")[2]
    pattern = part.value
    if pattern.dim() == 2:  # an alignment has no heads
        pattern = pattern[None]
    what, sentence = ATTENTION[kind]
    sentence = JUMPING if f"{part.scope}.jumps" in part.reading else sentence
    words, heads = part.reading.words, len(pattern)
    # The token that attends: the one being read, or the one about to be written.
    queries = words.along(part.name, "queries") if kind == "self_attention" else words.follows
    keys = words.along(part.name, "keys")
    rows = [
        OutputRow(label, cells, head)
        for head in _heads(heads, part.focus)
        for label, cells in zip(
            queries,
            strongest(pattern.float().mean(0) if head is None else pattern[head], keys,
                      part.focus.links),
            strict=True,
        )
    ]  # fmt: skip
    happened = _sharpest(pattern, queries, keys, part.focus) if heads > 1 else ""
    return part.stage(
        "links", what, sentence, rows=tuple(rows), happened=happened, added=_added(part, queries),
        heads=heads,
    )  # fmt: skip


def _highest_order(names: Sequence[str]) -> str:
    return [name for name in names if name.endswith("_ngram.probability")][-1]


def _ngrams(part: Part) -> Stage:
    """The stage of an n-gram model: which fraction of the probability of the token that follows
    comes from n-grams of each length."""
    scopes = [name.rpartition(".")[0] for name in part.names if name.endswith("_ngram.probability")]
    targets, fractions = part.reading.example.batch.targets[0], list[Tensor]()
    left = torch.ones(len(targets))
    chosen = torch.where(targets >= 0, targets, part.value.argmax(dim=-1))[:, None]
    for scope in reversed(scopes):  # what the higher orders leave, times the part of this order
        own = part.reading[f"{scope}.discounted"][0].gather(1, chosen)[:, 0]
        fractions.append(left * own)
        left = left * part.reading[f"{scope}.backoff"][0, :, 0]
    fractions.append(left / part.value.shape[-1])
    table = torch.stack(fractions, dim=1) / part.value.gather(1, chosen)
    labels = [*(f"{n} token{'s'[: n - 1]}" for n in range(len(scopes), 0, -1)), "any token"]
    rows = zip(part.reading.words.follows, strongest(table, labels, part.focus.links), strict=True)
    shown = tuple(OutputRow(label, cells) for label, cells in rows)
    return part.stage("links", "n-grams", NGRAMS, rows=shown)


def _heads(count: int, focus: Focus) -> list[int | None]:
    if focus.head is not None:
        return [focus.head]
    return [None] if focus.layer is None or count == 1 else list(range(count))


def _sharpest(pattern: Tensor, queries: Sequence[str], keys: Sequence[str], focus: Focus) -> str:
    """Describe the largest attention weight in the shown heads. Queries with a single key are
    skipped, because their weight is always 1."""
    free = (pattern > 0).sum(dim=-1, keepdim=True) > 1  # (heads, queries, 1)
    values = pattern.float() * free
    if focus.head is not None:
        values[: focus.head] = values[focus.head + 1 :] = 0
    # torch.unravel_index would import sympy, which takes half a second.
    row, key = divmod(int(values.argmax()), values.shape[-1])
    head, query = divmod(row, values.shape[-2])
    value = float(values[head, query, key])
    if not value:
        return ""
    link = f"{quoted(queries[query])} ← {quoted(keys[key])} {value:.2f}"
    shown = f"means of {len(pattern)} heads; " if _heads(len(pattern), focus) == [None] else ""
    return f"{shown}sharpest: head {head}, {link}"


def _added(part: Part, labels: Sequence[str]) -> tuple[Cell, ...]:
    """The length of what a part adds to each token, relative to the token's vector."""
    frame = f"{part.scope}_residual"
    if f"{frame}.branch" not in part.reading:
        return ()
    fractions = ratio(part.reading[f"{frame}.branch"][0], part.reading[f"{frame}.skip"][0])
    return tuple(Cell(label, value) for label, value in zip(labels, floats(fractions), strict=True))


def _feedforward(part: Part) -> Stage:
    active = part.reading[f"{part.scope}.activated"][0] != 0  # (length, d_ff)
    fraction = float(active.float().mean())
    happened = ""
    if fraction < 0.99:  # activations such as ReLU; GELU is hardly ever exactly 0
        happened = f"{fraction:.0%} of {active.shape[-1]:,} hidden units are active"
    return part.stage(
        "sizes", "feed-forward", FEEDFORWARD, address=f"{part.scope}_residual.branch",
        happened=happened, added=_added(part, part.labels),
    )  # fmt: skip


# ---- recurrent layers ----


def _cell(part: Part) -> Stage:
    kind = part.scope.rpartition(".")[2]
    what, sentence = CELLS[kind]
    ways = {"forward": ", left to right", "backward": ", right to left"}
    what += ways.get(part.scope.split(".")[-2], "")
    if kind == "rnn":
        return part.stage("sizes", what, sentence, rows=_moved(part))
    gates = GATES[kind]
    means = {
        does: floats(part.reading[f"{part.scope}.{gate}"][0].float().mean(-1))
        for gate, does in gates.items()
    }
    rows = tuple(
        OutputRow(label, tuple(Cell(does, values[place]) for does, values in means.items()))
        for place, label in enumerate(part.labels)
    )
    meanings = [
        f"{does}: {describe(f'{part.scope}.{gate}').meaning}" for gate, does in gates.items()
    ]
    return part.stage(
        "gates", what, sentence, address=f"{part.scope}.{next(iter(gates))}", rows=rows,
        happened=_most_open(means, part.labels, _start(part)), meaning="; ".join(meanings),
    )  # fmt: skip


def _start(part: Part) -> int | None:
    """The index of the token that is read first, while the state is still zero; None for a decoder
    that starts from an encoder's state."""
    if stack_of(part.scope) == "decoder" and part.reading.words.source:
        return None
    return len(part.labels) - 1 if "backward" in part.scope.split(".") else 0


def _most_open(means: dict[str, list[float]], labels: Sequence[str], start: int | None) -> str:
    """Describe at which token the first gate has its lowest mean (except at the start), and at
    which token the second gate has its highest."""
    keeps, other, *_ = means
    places = [place for place in range(len(labels)) if place != start]
    remarks = []
    if places:
        lowest = min(places, key=means[keeps].__getitem__)
        kept = f"{keeps} {means[keeps][lowest]:.2f}"
        if start is not None and means[keeps][start] < means[keeps][lowest]:
            kept += f"; {labels[start]!r} comes first, with nothing to forget"
        remarks = [f"it forgets most at {labels[lowest]!r} ({kept})"]
    highest = max(range(len(labels)), key=means[other].__getitem__)
    remarks.append(f"it {other} most at {labels[highest]!r} ({means[other][highest]:.2f})")
    return "; ".join(remarks)


def _moved(part: Part) -> tuple[OutputRow, ...]:
    """How far each token moves the state, as a fraction of the new state's length."""
    reading, name = part.reading, part.name
    states = part.value  # (length, hidden)
    start = states.new_zeros(1, states.shape[-1])
    bridge = f"{name.partition('.recurrent.')[0]}.bridge."
    if f"{bridge}hidden" in reading:
        start = reading[f"{bridge}hidden"]
    elif f"{bridge}copied_hidden" in reading:
        start = reading[f"{bridge}copied_hidden"][:, layer_of(name)]
    backward = "backward" in name.split(".")
    before = torch.cat([states[1:], start]) if backward else torch.cat([start, states[:-1]])
    return size_rows(ratio(states - before, states), part.labels)


def _bridge(part: Part) -> Stage:
    state = part.reading[part.name]
    sentence = (
        "The final state of the encoder represents the whole source. The decoder starts from these "
        f"{state.shape[-1]:,} values."
    )
    return part.stage("vectors", "bridge", sentence, rows=vector_rows(state, ("start",)))


# ---- shared by all stages ----


def at(reading: TextTrace, address: str) -> dict[str, Any]:
    """The stage fields that describe a trace point."""
    point = describe(address)
    shape = tuple(reading[address].shape)
    return {"address": address, "shape": shape, "axes": point.axes, "meaning": point.meaning}


def stack_of(name: str) -> str:
    """The stack that a trace point belongs to: encoder, decoder, or "" for neither."""
    for stack in ("encoder", "decoder"):
        if stack in name.split("."):
            return stack
    return ""


def chapter_of(reading: TextTrace, name: str) -> str:
    both = bool(reading.words.source and reading.words.target)
    match stack_of(name):
        case "encoder":
            return "Reading the source (encoder)" if both else "Reading (encoder)"
        case "decoder":
            return "Writing the target (decoder)" if both else "Reading (decoder)"
        case _:
            return "Through the network"


def layer_of(name: str) -> int | None:
    parts = name.split(".")
    return int(parts[parts.index("layers") + 1]) if "layers" in parts else None


def titled(name: str, what: str) -> str:
    layer, stack = layer_of(name), stack_of(name)
    where = stack if layer is None else f"{stack} layer {layer}".strip()
    return ": ".join(filter(None, (where, what)))


def vector_rows(table: Tensor, labels: Sequence[str]) -> tuple[OutputRow, ...]:
    """One table row for each vector, with its first values and its length."""
    lengths = floats(_lengths(table))
    return tuple(
        OutputRow(label, (*(Cell("", value) for value in first), Cell("length", length)))
        for label, first, length in zip(labels, floats(table[:, :FIRST]), lengths, strict=True)
    )


def size_rows(values: Tensor, labels: Sequence[str]) -> tuple[OutputRow, ...]:
    """One table row for each label, with a single number."""
    return tuple(
        OutputRow(label, (Cell("", value),))
        for label, value in zip(labels, floats(values), strict=True)
    )


def strongest(weights: Tensor, labels: Sequence[str], most: int) -> list[tuple[Cell, ...]]:
    """The entries with the largest weights in each row. weights: (rows, labels)."""
    top = weights.float().topk(min(most, weights.shape[-1]))
    return [
        tuple(
            Cell(labels[place], value)
            for value, place in zip(values, places, strict=True)
            if value > 0  # masked keys are not links
        )
        for values, places in zip(floats(top.values), top.indices.tolist(), strict=True)
    ]


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """The length of `part` relative to that of `whole`: (..., values) -> (...)."""
    return _lengths(part) / _lengths(whole).clamp(min=1e-30)


def _lengths(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors.float(), dim=-1)
