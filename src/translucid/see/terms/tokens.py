"""The numbers before the first layer: rows of tables, characters, segments, positions, masks."""

from translucid.parts.characters import Characters
from translucid.parts.positions import Alibi, Learned, Rotary, Sinusoidal
from translucid.parts.relative import RelativeBias
from translucid.parts.rotary_scaling import BY_PARTS
from translucid.see.terms import wiring
from translucid.see.terms.computation import Computation, Index, Terms, joined
from translucid.see.terms.expression import Expression, add, apply, constant, minus, over, times


def embedding(c: Computation, scope: str, point: str, index: Index) -> Expression:
    if point == "lookup":
        return _row(c, f"{scope}.table.weight", wiring.ids_name(c, scope), index)
    width = c.tensor(f"{scope}.lookup").shape[-1]
    lookup = c.number("lookup", f"{scope}.lookup", *index)
    return times(apply("sqrt", constant("d_model", width)), lookup)


def _row(c: Computation, table: str, ids: str, index: Index) -> Expression:
    """The row of a table that a token points to."""
    *place, d = index
    token = c.number("ids", ids, *place)
    return apply("table", c.number("table", table, int(token.value), d), token)


def characters(c: Computation, scope: str, point: str, index: Index) -> Expression:
    part = c.module(scope)
    assert isinstance(part, Characters)
    row, place, *more = index
    match point:
        case "lookup":
            looked_up = _row(c, f"{scope}.table.weight", "characters", index)
            there = bool(c.tensor("characters")[row, place, more[0]] > 0)
            return looked_up if there else times(constant("characters", 0), looked_up)
        case "convolved":
            window, out = more
            return c.linear(f"{scope}.filters", out, _window(c, scope, part, (row, place, window)))
        case "activated":
            window, out = more
            slid = apply("relu", c.number("convolved", f"{scope}.convolved", *index))
            ids = c.tensor("characters")[row, place]
            first = window - part.width + 1
            inside = bool((ids[max(first, 0) : window + 1] > 0).any())
            return slid if inside else times(constant("w", 0), slid)
        case "loudest":
            return c.largest(c.vector("activated", f"{scope}.activated", row, place, None, *more))
        case "output":
            loudest = c.vector("loudest", f"{scope}.loudest", row, place, None)
            return c.linear(f"{scope}.linear", more[0], loudest, "V", "c")
        case "sum":
            return _added(c, scope, "output", index)
    raise NotImplementedError(point)


def _window(c: Computation, scope: str, part: Characters, at: tuple[int, int, int]) -> Terms:
    """The characters of a window, as its filters read them: dimension by dimension."""
    row, place, window = at
    count, size = c.tensor(f"{scope}.lookup").shape[2:]
    characters = [window - part.width + 1 + offset for offset in range(part.width)]
    vectors = [
        c.vector("lookup", f"{scope}.lookup", row, place, n, None)
        if 0 <= n < count
        else c.zeros("lookup", size)
        for n in characters
    ]
    whole = joined(*vectors)
    order = [n * size + d for d in range(size) for n in range(part.width)]
    return Terms(whole.values[order], lambda i: whole.at(order[i]))


def segments(c: Computation, scope: str, point: str, index: Index) -> Expression:
    if point == "sum":
        return _added(c, scope, "lookup", index)
    if "segments" in c.inputs:
        return _row(c, f"{scope}.table.weight", "segments", index)
    return apply(
        "table", c.number("table", f"{scope}.table.weight", 0, index[-1]), constant("segments", 0)
    )


def _added(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """What was there before a part of the input, and what it adds."""
    stack, _, own = scope.rpartition(".")
    x = c.number("x", wiring.embedded(c, stack, before=own), *index)
    return add(x, c.number(point, f"{scope}.{point}", *index))


def positions(c: Computation, scope: str, point: str, index: Index) -> Expression | None:
    """None for a scheme of a user's own: only it knows."""
    part, stack = c.module(scope), scope.rpartition(".")[0]
    row = index[0]

    def p(place: int, label: str = "p", first: int = 0) -> Expression:
        return constant(label, wiring.position(c, scope, row, place) + first)

    if point == "output":
        x = c.number("x", wiring.embedded(c, stack), *index)
        return add(x, c.number("encoding", f"{scope}.encoding", *index))
    match part:
        case Sinusoidal():
            return _wave(part, p(index[1], first=part.first), index[2])
        case Learned():
            at = wiring.position(c, scope, row, index[1]) + part.first
            table = c.number("table", f"{scope}.table", at, index[2])
            return apply("table", table, constant("p", at))
        case Rotary():
            return _angle(part, wiring.position(c, scope, row, index[1]), index[2])
        case Alibi():
            _, head, query, key = index
            away = apply("abs", minus(p(query, "p_q"), p(key, "p_k")))
            return times(constant("-1", -1), c.number("m_h", f"{scope}.slopes", head), away)
        case RelativeBias():
            _, head, query, key = index
            ends = [wiring.position(c, scope, row, place) for place in (query, key)]
            offset = c.tensor(f"{scope}.table.weight").new_tensor(ends[1] - ends[0]).long()
            bucket = int(part.bucket(offset))
            table = c.number("table", f"{scope}.table.weight", bucket, head)
            return apply("table", table, p(key, "p_k"), p(query, "p_q"))
    return None


def _wave(part: Sinusoidal, p: Expression, d: int) -> Expression:
    """sin or cos of p / base^(2i/d)."""
    half = part.d_model // 2
    pair, cosine = divmod(d, 2) if part.layout == "interleaved" else (d % half, d // half)
    wide = part.layout == "fairseq"
    power = pair / (half - 1) if wide else 2 * pair / part.d_model
    slow = apply("^", constant("base", part.base), constant("2i/d", power))
    return apply("cos" if cosine else "sin", over(p, slow))


def _angle(part: Rotary, position: int, pair: int) -> Expression:
    """p / base^(2i/d), as the scaling has it."""
    d, scaling = part.d_rotary, part.scaling
    base, power = constant("base", part.base), constant("2i/d", 2 * pair / d)
    p, factor = constant("p", position), constant("scaling", scaling.factor)
    if scaling.method == "dynamic":
        longer = constant("longer", max(1.0, (position + 1) / scaling.length))
        stretched = add(minus(times(factor, longer), factor), constant("1", 1))
        grown = times(base, apply("^", stretched, constant("d/(d-2)", d / (d - 2))))
        return over(p, apply("^", grown, power))
    slow = apply("^", base, power)
    if scaling.method in BY_PARTS:
        kept = constant("kept", float(scaling.kept(d, part.base)[pair]))
        return over(times(p, add(kept, over(minus(constant("1", 1), kept), factor))), slow)
    return over(p, times(factor, slow)) if scaling.factor != 1 else over(p, slow)


def masks(c: Computation, scope: str, point: str, index: Index) -> Expression:
    row, _, query, key = index
    if point == "causal":
        return apply("<=", constant("k", key), constant("q", query))
    if point == "window":
        ends = (
            constant(label, wiring.position(c, scope, row, place))
            for label, place in (("p_q", query), ("p_k", key))
        )
        reach = getattr(c.module(scope.rpartition(".")[0]), "window")  # noqa: B009
        return apply("<", apply("abs", minus(*ends)), constant("w", reach))
    name = wiring.mask_name(c, scope)
    return c.number(name, name, row, key)
