"""The numbers of a recurrent decoder's attention: one alignment of each target token."""

from translucid.see.terms import wiring
from translucid.see.terms.computation import Computation, Index, Terms, dot, joined
from translucid.see.terms.expression import Expression, add, apply, minus, over, times


def alignment(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """The attention of a recurrent decoder."""
    row, *place = index
    side = wiring.above(scope)
    encoder = wiring.output_of(c, f"{wiring.member(scope)}encoder")
    additive = hasattr(c.module(scope), "energy")

    def here(label: str, *at: int) -> Expression:
        return c.number(label, f"{scope}.{label}", row, *at)

    def states(query: int) -> Terms:
        return c.vector("hidden", f"{side}recurrent.output", row, query, None)

    match point:
        case "query":
            query, d = place
            if not additive:
                return states(query).at(d)
            return c.linear(f"{scope}.query", d, states(query), "W_q", "b_q")
        case "key":
            key, d = place
            return c.linear(
                f"{scope}.key", d, c.vector("encoder_output", encoder, row, key, None), "W_k"
            )
        case "scores":
            query, key = place
            asked = c.vector("query", f"{scope}.query", row, query, None)
            offered = c.vector("key", f"{scope}.key", row, key, None)
            return _energy(c, scope, asked, offered) if additive else c.total(dot(asked, offered))
        case "shift":
            query, _ = place
            scores = c.vector("scores", f"{scope}.scores", row, query, None)
            return c.largest(_real(c, encoder, row, scores))
        case "exponentials":
            grown = apply("exp", minus(here("scores", *place), here("shift", *place)))
            mask = wiring.mask_name(c, encoder)
            return times(c.number(mask, mask, row, place[1]), grown) if mask else grown
        case "normaliser":
            query, _ = place
            return c.total(c.vector("exponentials", f"{scope}.exponentials", row, query, None))
        case "pattern":
            return over(here("exponentials", *place), here("normaliser", *place))
        case "context":
            query, d = place
            return c.total(
                dot(
                    c.vector("pattern", f"{scope}.pattern", row, query, None),
                    c.vector("encoder_output", encoder, row, None, d),
                )
            )
        case "output":
            query, d = place
            context = c.vector("context", f"{scope}.context", row, query, None)
            read = joined(context, states(query))
            return apply("tanh", c.linear(f"{scope}.output", d, read))
    raise NotImplementedError(point)


def _energy(c: Computation, scope: str, asked: Terms, offered: Terms) -> Expression:
    """vᵀ tanh(q + k)."""
    v = c.vector("v", f"{scope}.energy.weight", 0, None)
    values = v.values * (asked.values + offered.values).tanh()
    return c.total(
        Terms(values, lambda d: times(v.at(d), apply("tanh", add(asked.at(d), offered.at(d)))))
    )


def _real(c: Computation, encoder: str, row: int, scores: Terms) -> Terms:
    """Scores of tokens; padding has none."""
    mask = wiring.mask_name(c, encoder)
    if not mask:
        return scores
    places = [k for k in range(len(scores.values)) if bool(c.tensor(mask)[row, k])]
    return Terms(scores.values[places], lambda i: scores.at(places[i]))
