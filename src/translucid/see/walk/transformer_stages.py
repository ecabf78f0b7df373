"""The stages of a Transformer's layer: attention, and the feed-forward network after it."""

from collections.abc import Sequence

from torch import Tensor

from translucid.see.text_trace import TextTrace
from translucid.see.walk.data import Stage, along, at, quoted, ratio, strongest
from translucid.see.walk.stage_parts import Chosen, chapter_of, layer_of, points_of, titled
from translucid.tasks.outputs import Cell, OutputRow, floats

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


def attention_stage(reading: TextTrace, name: str, names: Sequence[str], chosen: Chosen) -> Stage:
    scope = name.rpartition(".")[0]
    part = scope.rpartition(".")[2]
    pattern = reading[name][0]
    if pattern.dim() == 2:  # an alignment has no heads
        pattern = pattern[None]
    what, sentence = ATTENTION[part]
    queries, keys = _askers(reading, name, part), along(reading, name, "keys")
    heads = len(pattern)
    rows = [
        OutputRow(label, cells, head)
        for head in _heads(heads, chosen)
        for label, cells in zip(
            queries,
            strongest(pattern.float().mean(0) if head is None else pattern[head], keys,
                      chosen.links),
            strict=True,
        )
    ]  # fmt: skip
    return Stage(
        "links", chapter_of(reading, name), titled(name, what), sentence, **at(reading, name),
        rows=tuple(rows), happened=_sharpest(pattern, queries, keys, chosen) if heads > 1 else "",
        added=_added(reading, scope, queries), layer=layer_of(name), heads=heads,
        points=points_of(reading, scope, names, chosen),
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
    # By hand: torch.unravel_index loads a library for algebra, half a second of it.
    row, key = divmod(int(values.argmax()), values.shape[-1])
    head, query = divmod(row, values.shape[-2])
    value = float(values[head, query, key])
    if not value:
        return ""
    link = f"{quoted(queries[query])} ← {quoted(keys[key])} {value:.2f}"
    shown = f"means of {len(pattern)} heads; " if _heads(len(pattern), chosen) == [None] else ""
    return f"{shown}sharpest: head {head}, {link}"


def _added(reading: TextTrace, scope: str, labels: Sequence[str]) -> tuple[Cell, ...]:
    """What a part adds to each token, as a fraction of the vector that it is added to."""
    frame = f"{scope}_residual"
    if f"{frame}.branch" not in reading:
        return ()
    fractions = ratio(reading[f"{frame}.branch"][0], reading[f"{frame}.skip"][0])
    return tuple(Cell(label, value) for label, value in zip(labels, floats(fractions), strict=True))


def feedforward_stage(reading: TextTrace, name: str, names: Sequence[str], chosen: Chosen) -> Stage:
    scope = name.rpartition(".")[0]
    active = reading[f"{scope}.activated"][0] != 0  # (length, d_ff)
    fraction = float(active.float().mean())
    happened = ""
    if fraction < 0.99:  # an activation that switches units off; GELU hardly ever does
        happened = f"{fraction:.0%} of {active.shape[-1]:,} hidden units are on"
    return Stage(
        "sizes", chapter_of(reading, name), titled(name, "feed-forward"), FEEDFORWARD,
        **at(reading, f"{scope}_residual.branch"), happened=happened,
        added=_added(reading, scope, along(reading, name)), layer=layer_of(name),
        points=points_of(reading, scope, names, chosen),
    )  # fmt: skip
