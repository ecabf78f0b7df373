"""What feeds a part: the points that it reads, and the tokens that stand behind a position.

A trace says what every part gave; which of those values another part took is told here, as the
models' `forward` has it.
"""

from translucid.models.base import Encoder
from translucid.models.recurrent import RecurrentDecoder
from translucid.models.transformer import Layer, Stack
from translucid.parts.embedding import Embedding
from translucid.parts.recurrent import Recurrent
from translucid.see.terms.computation import Computation, Terms, joined

FRAMES = ("self_attention", "cross_attention", "feedforward")  # in the order of a layer


def above(scope: str) -> str:
    """The scope in which this one stands, with the dot behind it; empty at the top."""
    return f"{scope.rpartition('.')[0]}." if "." in scope else ""


def member(scope: str) -> str:
    """What the names of this network of an ensemble begin with; empty where there is one."""
    names = scope.split(".")
    return f"{names[0]}.{names[1]}." if names[0] == "members" else ""


def stack_of(scope: str) -> str:
    """The encoder or decoder in which a part stands."""
    names = scope.split(".")
    side = next(n for n, name in enumerate(names) if name in ("encoder", "decoder"))
    return ".".join(names[: side + 1])


def reader_of(c: Computation, scope: str) -> str:
    """The encoder or decoder on which a head stands: the last one."""
    start = member(scope)
    network = c.module(start.rstrip(".")) if start else c.network
    return f"{start}{'decoder' if hasattr(network, 'decoder') else 'encoder'}"


# ---- tokens ----


def _has_source(c: Computation) -> bool:
    return "source" in c.inputs


def ids_name(c: Computation, scope: str) -> str:
    """The input whose ids a part reads."""
    if not _has_source(c):
        return "ids"
    return "source" if "encoder" in scope.split(".") else "target"


def mask_name(c: Computation, scope: str) -> str:
    """The input that says which of them are tokens; empty: all are."""
    name = f"{ids_name(c, scope)}_mask" if _has_source(c) else "mask"
    return name if name in c.inputs else ""


def is_token(c: Computation, scope: str, row: int, place: int) -> bool:
    """Is there a token at this place, or padding?"""
    name = mask_name(c, scope)
    return not name or bool(c.tensor(name)[row, place])


def position(c: Computation, scope: str, row: int, place: int) -> int:
    """The number of tokens before this place."""
    there = sum(is_token(c, scope, row, t) for t in range(place + 1))
    return max(there - 1, 0)


def token_before(
    c: Computation, scope: str, row: int, place: int, *, backward: bool = False
) -> int | None:
    """The last token that a loop has read before it comes to this place; None: there is none."""
    length = c.tensor(ids_name(c, scope)).shape[1]
    places = range(place + 1, length) if backward else range(place - 1, -1, -1)
    return next((t for t in places if is_token(c, scope, row, t)), None)


# ---- Transformers ----


def embedded(c: Computation, stack: str, before: str = "") -> str:
    """The vectors of the tokens, with what the parts of the input have added; `before` one of
    them, without it and those behind it."""
    reader = c.module(stack)
    parts = list(reader.input_parts()) if isinstance(reader, Encoder) else []
    parts = parts[: parts.index(before)] if before else parts
    added = [f"{stack}.{name}.sum" for name in parts if name != "word_dropout"]
    if added:
        return added[-1]
    table = reader.get_submodule("embedding")
    assert isinstance(table, Embedding)
    return f"{stack}.embedding.{'lookup' if table.factor == 1.0 else 'scaled'}"


def placed(c: Computation, stack: str) -> str:
    """The vectors of the tokens, told where they stand."""
    name = f"{stack}.positions.output"
    return name if name in c.points else embedded(c, stack)


def layer_input(c: Computation, stack: str, layer: int) -> str:
    """What a layer gets; of the number behind the last layer: what the last one gives."""
    reader = c.module(stack)
    assert isinstance(reader, Stack)
    if layer == 0:
        normed = reader.embedding_norm is not None
        return f"{stack}.embedding_norm.output" if normed else placed(c, stack)
    return after(c, f"{stack}.layers.{layer - 1}.feedforward_residual")


def after(c: Computation, frame: str) -> str:
    """What leaves a residual frame."""
    post = c.module(frame).placement == "post"
    return f"{frame}.norm.output" if post else f"{frame}.sum"


def into_frame(c: Computation, frame: str) -> str:
    """What goes past the sub-layer of a frame: what the layer got, or what the frame before
    gave."""
    layer, _, own = frame.rpartition(".")
    block = c.module(layer)
    assert isinstance(block, Layer)
    there = [name for name in FRAMES if getattr(block, name) is not None]
    place = there.index(own.removesuffix("_residual"))
    if place:
        return after(c, f"{layer}.{there[place - 1]}_residual")
    stack, _, number = layer.rpartition(".layers.")
    return layer_input(c, stack, int(number))


def into_branch(c: Computation, frame: str) -> str:
    """What the sub-layer of a frame reads, before a norm that stands in front of it."""
    block = c.module(frame.rpartition(".")[0])
    assert isinstance(block, Layer)
    first = f"{frame.rpartition('.')[0]}.self_attention_residual"
    return f"{first if block.parallel else frame}.skip"


def into_part(c: Computation, part: str) -> str:
    """What attention or feed-forward gets: behind the norm, where that stands in front."""
    frame = f"{part}_residual"
    pre = c.module(frame).placement == "pre"
    return f"{frame}.norm.output" if pre else into_branch(c, frame)


def into_linear(c: Computation, layer: str) -> str:
    """What a linear layer of attention or feed-forward reads; of what the heads mixed, all heads
    side by side."""
    part, _, own = layer.rpartition(".")
    match own:
        case "output":
            return f"{part}.{'activated' if part.endswith('feedforward') else 'mixed'}"
        case "kv":
            return output_of(c, f"{member(part)}encoder")
    return into_part(c, part)


def into_norm(c: Computation, scope: str) -> str:
    """What a norm is given."""
    up, _, own = scope.rpartition(".")
    if own == "final_norm":
        stack = c.module(up)
        assert isinstance(stack, Stack)
        return layer_input(c, up, len(stack.layers))
    if own == "embedding_norm":
        return placed(c, up)
    if up.endswith("head"):
        return f"{up}.transformed"
    post = c.module(up).placement == "post"
    return f"{up}.sum" if post else into_branch(c, up)


def output_of(c: Computation, stack: str) -> str:
    """What an encoder or decoder gives to the head, or to the other."""
    reader = c.module(stack)
    if isinstance(reader, Stack):
        return f"{stack}.final_norm.output"
    if isinstance(reader, RecurrentDecoder) and reader.alignment is not None:
        return f"{stack}.alignment.output"
    return f"{stack}.recurrent.output"


# ---- recurrent networks ----


def cells(part: Recurrent, path: str, layer: int) -> list[tuple[str, bool]]:
    """The scopes of a layer's cells, and whether each reads from right to left."""
    kind = "rnn" if part.cell == "rnn_relu" else part.cell
    if len(part.directions) == 1:
        return [(f"{path}.layers.{layer}.{kind}", False)]
    return [(f"{path}.layers.{layer}.{way}.{kind}", way == "backward") for way in part.directions]


def states_at(
    c: Computation, part: Recurrent, path: str, layer: int, row: int, place: int, label: str
) -> Terms:
    """What a layer hands on at one place: its states side by side, 0 at padding."""
    scopes = cells(part, path, layer)
    if not is_token(c, path, row, place):
        return c.zeros(label, part.hidden * len(scopes))
    return joined(*(c.vector(label, f"{scope}.hidden", row, place, None) for scope, _ in scopes))


def last_states(
    c: Computation, part: Recurrent, path: str, layer: int, row: int, point: str, label: str
) -> Terms:
    """The states of a layer behind the last token, of both directions side by side."""
    length = c.tensor(ids_name(c, path)).shape[1]
    ends: list[Terms] = []
    for scope, backward in cells(part, path, layer):
        place = token_before(c, path, row, -1 if backward else length, backward=backward)
        ends.append(
            c.zeros(label, part.hidden)
            if place is None
            else c.vector(label, f"{scope}.{point}", row, place, None)
        )
    return joined(*ends)
