"""The numbers of the end: pooling, logits, n-gram features, ensembles, probabilities, the loss."""

import torch

from translucid.models.heads import MaskedLanguageHead
from translucid.parts.embedding import LanguageHead
from translucid.parts.feedforward import Dense
from translucid.parts.ngrams import NGramFeatures
from translucid.parts.recurrent import Recurrent
from translucid.see.terms import wiring
from translucid.see.terms.computation import Computation, Index, Terms, dot
from translucid.see.terms.expression import Expression, add, apply, constant, minus, over, times
from translucid.see.terms.layers import activation


def head(c: Computation, scope: str, point: str, index: Index) -> Expression:
    part, read = c.module(scope), wiring.output_of(c, wiring.reader_of(c, scope))
    row, *place = index
    match point:
        case "hidden":
            return c.number("x", read, *index)
        case "logits":
            return _logits(c, scope, read, index)
        case "transformed":
            return _dense(c, scope, index[-1], c.vector("x", read, row, place[0], None))
        case "dense":
            return _dense(c, scope, place[0], c.vector("pooled", f"{scope}.pooled", row, None))
        case "class_logits":
            return c.linear(f"{scope}.linear", place[0], _vector(c, scope, row))
        case "embedding":
            vector = _vector(c, scope, row)
            if not getattr(part, "normalise", False):
                return vector.at(place[0])
            return over(vector.at(place[0]), apply("sqrt", c.total(dot(vector, vector))))
        case "pool_scores":
            query = c.vector("w", f"{scope}.query.weight", 0, None)
            return c.total(dot(query, c.vector("x", read, row, place[0], None)))
        case "pool_pattern":
            return _pool_pattern(c, scope, index)
    return _pooled(c, scope, read, index)


def _logits(c: Computation, scope: str, read: str, index: Index) -> Expression:
    row, place, token = index
    part, label = c.module(scope), "x"
    if isinstance(part, MaskedLanguageHead):
        read, label = f"{scope}.norm.output", "normed"
    x = c.vector(label, read, row, place, None)
    if isinstance(part, LanguageHead) and part.scale != 1:
        scale, plain = constant("logit_scale", part.scale), x
        x = Terms(plain.values * part.scale, lambda i: times(scale, plain.at(i)))
    return c.linear(f"{scope}.linear", token, x)


def _dense(c: Computation, scope: str, d: int, x: Terms) -> Expression:
    """act(W_d x + b_d)."""
    layer = c.module(f"{scope}.dense")
    assert isinstance(layer, Dense)
    return activation(layer.activation, c.linear(f"{scope}.dense.linear", d, x, "W_d", "b_d"))


def _vector(c: Computation, scope: str, row: int) -> Terms:
    """The vector of a text: pooled, perhaps through a dense layer."""
    name = "dense" if getattr(c.module(scope), "dense", None) is not None else "pooled"
    return c.vector(name, f"{scope}.{name}", row, None)


def _pool_pattern(c: Computation, scope: str, index: Index) -> Expression:
    row, place = index
    pooling = getattr(c.module(scope), "pooling")  # noqa: B009 (a Module's getattr)
    if pooling == "attention":
        name = f"{scope}.pool_softmax.probabilities"
        return c.number("pool_scores", name, row, place)
    length = c.tensor(f"{scope}.pool_pattern").shape[1]
    there = [t for t in range(length) if wiring.is_token(c, scope, row, t)]
    if pooling == "mean":
        return over(constant("t", place in there), constant("n", max(len(there), 1)))
    chosen = there[:1] if pooling == "first" else there[-1:]
    return constant("t", place in chosen)


def _pooled(c: Computation, scope: str, read: str, index: Index) -> Expression:
    row, d = index
    pattern = f"{scope}.pool_pattern"
    if pattern in c.points:
        weights = c.vector("pool_pattern", pattern, row, None)
        return c.total(dot(weights, c.vector("x", read, row, None, d)))
    path = f"{wiring.reader_of(c, scope)}.recurrent"
    part = c.module(path)
    assert isinstance(part, Recurrent)
    return wiring.last_states(c, part, path, part.layers - 1, row, "hidden", "h").at(d)


def ngrams(c: Computation, scope: str, point: str, index: Index) -> Expression:
    part = c.module(scope)
    assert isinstance(part, NGramFeatures)
    ids = c.tensor("ids")
    mask = c.inputs.get("mask", torch.ones_like(ids, dtype=torch.bool))
    if point == "sum":
        row, out = index
        logits = c.number("class_logits", f"{wiring.above(scope)}head.class_logits", *index)
        words, pairs = (
            c.vector(name, f"{scope}.{name}", row, None, out) for name in ("words", "pairs")
        )
        there = mask[row].nonzero()[:, 0].tolist()
        both = Terms(
            (words.values + pairs.values)[there],
            lambda i: add(words.at(there[i]), pairs.at(there[i])),
        )
        return c.total(logits, both)
    row, place, out = index
    token = c.number("ids", "ids", row, place)
    if point == "words":
        table = c.number("table", f"{scope}.words.weight", int(token.value), out)
        return apply("table", table, token)
    last = wiring.token_before(c, scope, row, place)
    before = constant("ids", 0) if last is None else c.number("ids", "ids", row, last)
    hashed = int(before.value) * 1000003 + int(token.value) * 7919
    table = c.number("table", f"{scope}.pairs.weight", hashed % part.pairs.num_embeddings, out)
    return apply("table", table, before, token)


def ensemble(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """The logarithm of the mean probability."""
    count = len(c.network.get_submodule("members"))  # type: ignore[arg-type]
    last = [
        f"members.{n}.{'ngrams' if f'members.{n}.ngrams.sum' in c.points else 'head'}"
        for n in range(count)
    ]
    parts = [c.number("softmax", f"{name}.softmax.probabilities", *index) for name in last]
    return apply("log", over(add(*parts), constant("n", count)))


def softmax(c: Computation, scope: str, point: str, index: Index) -> Expression:
    """The softmax of outputs, or of the scores of pooling."""
    place = index[:-1]
    scores = c.softmax_of(scope)

    def here(label: str) -> Expression:
        return c.number(label, f"{scope}.{label}", *index)

    match point:
        case "shift":
            whole = c.vector("x", scores, *place, None)
            return c.largest(_tokens_only(c, scope, place[0], whole))
        case "exponentials":
            grown = apply("exp", minus(c.number("x", scores, *index), here("shift")))
            padding = scope.endswith("pool_softmax") and not wiring.is_token(c, scope, *index)
            return times(constant("t", 0), grown) if padding else grown
        case "normaliser":
            return c.total(c.vector("exponentials", f"{scope}.exponentials", *place, None))
    return over(here("exponentials"), here("normaliser"))


def _tokens_only(c: Computation, scope: str, row: int, scores: Terms) -> Terms:
    if not scope.endswith("pool_softmax"):
        return scores
    there = [t for t in range(len(scores.values)) if wiring.is_token(c, scope, row, t)]
    return Terms(scores.values[there], lambda i: scores.at(there[i]))
