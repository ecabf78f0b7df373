"""The numbers of attention: projections, rotation, scores, softmax, the mix of the values."""

from translucid.parts.attention import CrossAttention, MultiHead, SelfAttention
from translucid.see.terms import wiring
from translucid.see.terms.computation import Computation, Index, dot, joined
from translucid.see.terms.expression import (
    Expression,
    add,
    apply,
    constant,
    minus,
    over,
    times,
)

INITIALS = {"query": "Q", "key": "K", "value": "V"}


def attention(c: Computation, scope: str, point: str, index: Index) -> Expression:
    part = c.module(scope)
    assert isinstance(part, MultiHead)
    if point == "scale":  # one number for all
        return _scale(part)
    row, *place = index

    def here(label: str, *at: int) -> Expression:
        return c.number(label, f"{scope}.{label}", row, *at)

    match point:
        case "query" | "key" | "value":
            return _projected(c, scope, part, point, index)
        case "normed_query" | "normed_key":
            return _normed(c, scope, point, index)
        case "rotated_query" | "rotated_key":
            return _turned(c, scope, point, index)
        case "scores":
            head, query, key = place
            served = head // (part.heads // part.kv_heads)
            asked, offered = _matched(c, scope, "query"), _matched(c, scope, "key")
            return c.total(
                dot(
                    c.vector(asked, f"{scope}.{asked}", row, head, query, None),
                    c.vector(offered, f"{scope}.{offered}", row, served, key, None),
                )
            )
        case "scaled":
            return times(c.number("scale", f"{scope}.scale"), here("scores", *place))
        case "biased":
            bias = f"{wiring.stack_of(scope)}.positions.bias"
            return add(here("scaled", *place), c.number("bias", bias, *index))
        case "mask":
            return _mask(c, scope, part, index)
        case "masked":
            before = "biased" if f"{scope}.biased" in c.points else "scaled"
            return apply("where", here("mask", *place), here(before, *place))
        case "shift":
            head, query, _ = place
            return c.largest(c.vector("masked", f"{scope}.masked", row, head, query, None))
        case "exponentials":
            return apply("exp", minus(here("masked", *place), here("shift", *place)))
        case "normaliser":
            head, query, _ = place
            all_keys = c.vector("exponentials", f"{scope}.exponentials", row, head, query, None)
            return c.total(all_keys)
        case "pattern":
            return over(here("exponentials", *place), here("normaliser", *place))
        case "mixed":
            head, query, d = place
            served = head // (part.heads // part.kv_heads)
            return c.total(
                dot(
                    c.vector("pattern", f"{scope}.pattern", row, head, query, None),
                    c.vector("value", f"{scope}.value", row, served, None, d),
                )
            )
        case "output":
            query, d = place
            heads = joined(
                *(
                    c.vector("mixed", f"{scope}.mixed", row, head, query, None)
                    for head in range(part.heads)
                )
            )
            return c.linear(f"{scope}.output", d, heads, "W_O", "b_O")
    raise NotImplementedError(point)


def _projected(c: Computation, scope: str, part: MultiHead, point: str, index: Index) -> Expression:
    row, head, place, d = index
    letter, size = INITIALS[point], part.d_head
    weight, bias, own = f"W_{letter}", f"b_{letter}", head * size + d
    if isinstance(part, CrossAttention) and point != "query":
        read, label = wiring.output_of(c, f"{wiring.member(scope)}encoder"), "encoder_output"
    else:
        read, label = wiring.into_part(c, scope), "x"
    x = c.vector(label, read, row, place, None)
    if isinstance(part, SelfAttention):  # one matrix makes all three
        first = {"query": 0, "key": part.heads, "value": part.heads + part.kv_heads}[point]
        return c.linear(f"{scope}.qkv", first * size + own, x, weight, bias)
    if point == "query":
        return c.linear(f"{scope}.query", own, x, weight, bias)
    first = 0 if point == "key" else part.kv_heads
    return c.linear(f"{scope}.kv", first * size + own, x, weight, bias)


def _normed(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """gain · q / sqrt(mean(q²) + eps), over the dimensions of a head."""
    row, head, place, d = index
    plain = point.removeprefix("normed_")
    whole = c.vector(plain, f"{scope}.{plain}", row, head, place, None)
    norm = f"{scope}.{plain}_norm"
    gain = c.number(f"gain_{INITIALS[plain]}", f"{norm}.gain", d)
    eps = constant("epsilon", getattr(c.module(norm), "eps"))  # noqa: B009 (a Module's getattr)
    squares = c.total(dot(whole, whole))
    size = apply("sqrt", add(over(squares, constant("n", len(whole.values))), eps))
    return over(times(gain, whole.at(d)), size)


def _turned(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """A pair (even, odd) turned by its angle; what has no angle stays as it is."""
    row, head, place, d = index
    plain = point.removeprefix("rotated_")
    before = f"normed_{plain}" if f"{scope}.normed_{plain}" in c.points else plain
    angles = f"{wiring.stack_of(scope)}.positions.angles"
    pair = d // 2
    if pair >= c.tensor(angles).shape[-1]:
        return c.number(before, f"{scope}.{before}", *index)
    even, odd = (
        c.number(before, f"{scope}.{before}", row, head, place, 2 * pair + side) for side in (0, 1)
    )
    angle = c.number("angles", angles, row, place, pair)
    cos, sin = apply("cos", angle), apply("sin", angle)
    if d % 2 == 0:
        return minus(times(cos, even), times(sin, odd))
    return add(times(sin, even), times(cos, odd))


def _scale(part: MultiHead) -> Expression:
    if not part.scaled:
        return constant("scale", part.factor)
    above = constant("factor", part.factor) if part.factor != 1 else constant("1", 1)
    return over(above, apply("sqrt", constant("d_head", part.d_head)))


def _matched(c: Computation, scope: str, side: str) -> str:
    """The last form of queries or keys before they meet."""
    forms = (f"rotated_{side}", f"normed_{side}", side)
    return next(form for form in forms if f"{scope}.{form}" in c.points)


def _mask(c: Computation, scope: str, part: MultiHead, index: Index) -> Expression:
    """All that is asked of a key at once."""
    row, _, query, key = index
    if isinstance(part, CrossAttention):
        name = wiring.mask_name(c, f"{wiring.member(scope)}encoder")
        return c.number(name, name, row, key) if name else constant("1", 1)
    scopes = [f"{wiring.stack_of(scope)}.masks.{n}" for n in ("causal", "window", "padding")]
    asked = [
        c.number(name.rpartition(".")[2], name, row, 0, query, key)
        for name in scopes
        if name in c.points
    ]
    if not asked:
        return constant("1", 1)
    return asked[0] if len(asked) == 1 else times(*asked)
