"""The numbers of recurrent cells, of the bridge to a decoder, and of input feeding."""

from translucid.models.bridge import Bridge, CopyBridge
from translucid.models.recurrent import RecurrentDecoder
from translucid.parts.recurrent import Recurrent
from translucid.see.terms import wiring
from translucid.see.terms.computation import Computation, Index, Terms, dot
from translucid.see.terms.expression import Expression, add, apply, constant, minus, times

# The blocks of torch's weights, in its order, by the letters of the formulas.
BLOCKS = {"rnn": ("",), "lstm": ("_i", "_f", "_g", "_o"), "gru": ("_r", "_z", "_n")}
SUMS = {
    "preactivation": "", "forget_sum": "_f", "input_sum": "_i", "candidate_sum": "_g",
    "output_sum": "_o", "reset_sum": "_r", "update_sum": "_z",
}  # fmt: skip


def cell(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """One unit of an RNN, LSTM or GRU at one token."""
    path, _, rest = scope.partition(".layers.")
    part, kind = c.module(path), scope.rpartition(".")[2]
    assert isinstance(part, Recurrent)
    layer = int(rest.partition(".")[0])

    def here(label: str) -> Expression:
        return c.number(label, f"{scope}.{label}", *index)

    def before(label: str, what: str) -> Expression:
        return _before(c, part, scope, layer, index, what, label).at(index[2])

    match kind, point:
        case "gru", "candidate_sum":
            return _sum(c, part, scope, layer, index, "_n")
        case _, name if name in SUMS:
            return _sum(c, part, scope, layer, index, SUMS[name])
        case "rnn", "hidden":
            act = "relu" if part.cell == "rnn_relu" else "tanh"
            return apply(act, here("preactivation"))
        case "lstm", "cell":
            old = times(here("forget_gate"), before("c_before", "cell"))
            return add(old, times(here("input_gate"), here("candidate")))
        case "lstm", "hidden":
            return times(here("output_gate"), apply("tanh", here("cell")))
        case "gru", "hidden":
            stays = here("update_gate")
            new = times(minus(constant("1", 1), stays), here("candidate"))
            return add(new, times(stays, before("h_before", "hidden")))
        case _, "candidate":
            return apply("tanh", here("candidate_sum"))
    return apply("sigmoid", here(point.replace("_gate", "_sum")))


def _sum(
    c: Computation, part: Recurrent, scope: str, layer: int, index: Index, letter: str
) -> Expression:
    """W x + U h + b of one block; torch keeps b as two."""
    path = scope.partition(".layers.")[0]
    blocks = BLOCKS["rnn" if part.cell == "rnn_relu" else part.cell]
    row = blocks.index(letter) * part.hidden + index[2]
    end = f"l{layer}" + ("_reverse" if ".backward." in scope else "")
    x = _below(c, part, path, layer, index)
    state = _before(c, part, scope, layer, index, "hidden", "h_before")
    from_x = dot(c.vector(f"W{letter}", f"{path}.fused.weight_ih_{end}", row, None), x)
    from_h = dot(c.vector(f"U{letter}", f"{path}.fused.weight_hh_{end}", row, None), state)
    bias = c.number(f"b{letter}", f"{path}.fused.bias_ih_{end}", row)
    if letter == "_n":
        other = c.number("b_hn", f"{path}.fused.bias_hh_{end}", row)
        reset = c.number("reset_gate", f"{scope}.reset_gate", *index)
        return c.total(from_x, bias, times(reset, c.total(from_h, other)))
    other = c.number(f"b{letter}", f"{path}.fused.bias_hh_{end}", row)
    return c.total(from_x, from_h, bias, other)


def _below(c: Computation, part: Recurrent, path: str, layer: int, index: Index) -> Terms:
    """What a layer reads at this token."""
    row, place, _ = index
    if layer:
        return wiring.states_at(c, part, path, layer - 1, row, place, "x")
    stack = path.rpartition(".")[0]
    fed = getattr(c.module(stack), "feeding", False)
    name = f"{stack}.input_feeding.input" if fed else wiring.embedded(c, stack)
    return c.vector("x", name, row, place, None)


def _before(
    c: Computation, part: Recurrent, scope: str, layer: int, index: Index, point: str, label: str
) -> Terms:
    """The state before this token: of the one before it, or what the network began with."""
    row, place, _ = index
    last = wiring.token_before(c, scope, row, place, backward=".backward." in scope)
    if last is not None:
        return c.vector(label, f"{scope}.{point}", row, last, None)
    stack = wiring.stack_of(scope)
    bridge = getattr(c.module(stack), "bridge", None)
    match bridge:
        case Bridge():
            return c.vector(label, f"{stack}.bridge.{point}", row, None)
        case CopyBridge():
            return c.vector(label, f"{stack}.bridge.copied_{point}", row, layer, None)
    return c.zeros(label, part.hidden)


def recurrent(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """The states of the top layer, its directions side by side."""
    part = c.module(scope)
    assert isinstance(part, Recurrent)
    row, place, d = index
    return wiring.states_at(c, part, scope, part.layers - 1, row, place, "h").at(d)


def bridge(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """The decoder's first state, from the encoder's last."""
    path = f"{wiring.member(scope)}encoder.recurrent"
    encoder, own = c.module(path), c.module(scope)
    assert isinstance(encoder, Recurrent)
    what = point.removeprefix("copied_")
    letter = "c" if what == "cell" else "h"
    if isinstance(own, CopyBridge):
        row, layer, d = index
        layer = encoder.layers - 1 if own.top else layer
        return wiring.last_states(c, encoder, path, layer, row, what, letter).at(d)
    row, d = index
    last = wiring.last_states(c, encoder, path, encoder.layers - 1, row, what, letter)
    total = c.linear(f"{scope}.{what}", d, last, f"W_{letter}", f"b_{letter}")
    return total if what == "cell" else apply("tanh", total)


def feeding(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """The embedding, and what attention gave at the token before."""
    row, place, d = index
    stack = scope.rpartition(".")[0]
    decoder = c.module(stack)
    assert isinstance(decoder, RecurrentDecoder)
    name = wiring.embedded(c, stack)
    width = c.tensor(name).shape[-1]
    if d < width:
        return c.number("x", name, row, place, d)
    last = wiring.token_before(c, scope, row, place)
    if last is None:
        return constant("output_before", 0)
    return c.number("output_before", f"{stack}.alignment.output", row, last, d - width)
