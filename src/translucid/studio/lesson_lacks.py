"""Why a stop of a lesson cannot be shown: the model lacks something, or the sentence does, or the
lesson asks for what no sentence could give."""

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qs

from translucid.core.catalogue import describe

# Axes as long as the text; all others are the model's.
OF_THE_TEXT = ("length", "queries", "keys", "windows", "characters")
NOUNS = {"heads": "head", "kv_heads": "head", "layers": "layer", "hidden": "unit", "d_ff": "unit"}
KINDS = ("encoder", "decoder", "cross")  # of attention, as an address names them


class Lacks(Exception):
    """What a step needs and this model has not got."""


class SentenceLacks(Lacks):
    """What this sentence has not got; another may have it."""


class Mistake(Lacks):
    """What the lesson asks of a point of this model that no sentence could give."""


def check_places(asked: str, at: str, shape: Sequence[int], places: Sequence[int]) -> None:
    """Whether there is such a place in a point. shape: of one text."""
    axes = describe(at).axes[1:]
    named = axes if len(axes) == len(shape) else ("",) * len(shape)
    if len(places) > len(shape):
        raise miscounted(asked, at, shape, places)
    for place, size, axis in zip(places, shape, named, strict=False):
        if place < size:
            continue
        if axis in OF_THE_TEXT:
            raise SentenceLacks("the sentence is too short")
        noun = NOUNS.get(axis, "dimension")
        raise Mistake(f"{asked}: there is no {noun} {place}; {at} has {noun}s 0 to {size - 1}")


def miscounted(asked: str, at: str, shape: Sequence[int], places: Sequence[int]) -> Mistake:
    """How many indices a point has, and how many it got."""
    axes = describe(at).axes[1:]
    names = f" ({', '.join(axes)})" if axes and len(axes) == len(shape) else ""
    return Mistake(f"{asked}: {at} has {len(shape)} indices{names}, not {len(places)}")


def attention_kind(point: str) -> str:
    """Which attention a pattern belongs to."""
    scopes = point.split(".")
    if {"cross_attention", "alignment"} & set(scopes):
        return "cross"
    return "encoder" if "encoder" in scopes else "decoder"


def check_attention(address: str, points: Iterable[tuple[str, Sequence[int]]]) -> None:
    """Whether a model has the attention, the layer and the head that an address names. points:
    with their shapes, of one text."""
    view, _, query = address.partition("?")
    chosen = {key: values[-1] for key, values in parse_qs(query).items()}
    if view != "attention" or "kind" not in chosen:
        return
    kind = chosen["kind"]
    shapes = {at: shape for at, shape in points if at.endswith(".pattern")}
    layers = [shape for at, shape in shapes.items() if attention_kind(at) == kind]
    if not layers:
        kinds = [name for name in KINDS if name in map(attention_kind, shapes)]
        raise Mistake(f"{address}: there is no {kind} attention; there is {' and '.join(kinds)}"
                      if kinds else "this model has no attention")  # fmt: skip
    heads = layers[0][0] if len(layers[0]) == 3 else 1
    for noun, count in (("layer", len(layers)), ("head", heads)):
        place = chosen.get(noun, "")
        if place.isdigit() and int(place) >= count:
            raise Mistake(
                f"{address}: there is no {noun} {place}; {kind} attention has {noun}s "
                f"0 to {count - 1}"
            )
