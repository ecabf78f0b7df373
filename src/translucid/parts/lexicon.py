"""A bilingual lexicon and a word alignment, which is a predecessor of attention.

    mixture(y) = (1 - ε) Σ_j pattern(j) t(y | x_j) + ε u(y)

t is the lexicon: the probability of a target token as the translation of a source token (Brown et
al. 1993, https://aclanthology.org/J93-2003). The pattern says which source token is translated
next. It depends on the source position of the token just written and on how far the alignment
usually jumps, so it is a hidden Markov model (Vogel, Ney & Tillmann 1996,
https://aclanthology.org/C96-2141). Tokens without a source have the probabilities u.

Shapes: source (sources, keys); tokens (rows, length); the beams of a source are adjacent rows.
"""

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, add, apply, constant, dot
from translucid.parts.sparse_table import SparseTable, check_fractions

ZERO = constant("0", 0)
REACH = 10  # jumps farther than this aligned one probability


class Lexicon(SparseTable):
    """t(y | x): for each source token, a row with the probability of every target token. The row of
    a source token that was never aligned contains only zeros."""

    output_point = "translation"

    def forward(self, source: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """The translation probabilities of each source token: (sources, keys, target vocab)."""
        none = self.values.new_zeros(*source.shape, self.columns)
        return trace("translation", self.add(source, none))

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, key, token = index
        source = at.run.number("source", at.ids, row, key)
        entry = int(self.find(torch.tensor(int(source.value)), torch.tensor(token)))
        return ZERO if entry < 0 else apply("table", at.weight("t", "values", entry), source)


class JumpAlignment(nn.Module):
    """pattern_t = posterior_t · jumps: the probability that each source token is translated next,
    computed from the source position of the token just written (the posterior).

    State 0 is the start, before the source; state j + 1 is source position j.
    """

    variant = Variant(["jumping"])
    output_point = "mixture"

    def __init__(self, vocab: int) -> None:
        super().__init__()
        size = 2 * REACH + 1
        self.distances = nn.Parameter(torch.full((size,), 1 / size), requires_grad=False)
        self.unaligned = nn.Parameter(torch.tensor(0.1), requires_grad=False)  # ε
        self.unigram = nn.Parameter(torch.full((vocab,), 1 / vocab), requires_grad=False)  # u

    def jumps(self, mask: Tensor) -> Tensor:
        """The probability of each jump from a state to a source position: (sources, keys + 1,
        keys). mask: True at real tokens."""
        places = mask.cumsum(dim=1)  # from 1
        before = nn.functional.pad(places, (1, 0))
        distance = (places[:, None] - before[..., None]).clamp(-REACH, REACH)
        weight = self.distances[distance + REACH] * mask[:, None]
        return normalised(weight)

    def start(self, jumps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The state before the first token: the posterior, the pattern, and whether each row has
        read a token."""
        places = torch.zeros(len(jumps), dtype=torch.long, device=jumps.device)
        start = nn.functional.one_hot(places, jumps.shape[1]).to(jumps)
        return start, jumps[:, 0], places > 0

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None,
        translation: Tensor,
        jumps: Tensor,
        state: tuple[Tensor, Tensor, Tensor],
        trace: NoTrace = NO_TRACE,
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Read tokens; return the mixture after each token (rows, length, vocab) and the new state.
        The first token of a text, such as the start token, is not a translation of a source
        token."""
        sources, keys, _ = translation.shape
        jumps, epsilon = trace("jumps", jumps), self.unaligned
        read = tokens.reshape(sources, 1, -1).expand(-1, keys, -1)
        emission = translation.gather(2, read).transpose(1, 2)  # (sources, beams * length, keys)
        emission = (1 - epsilon) * emission.reshape(*tokens.shape, keys)
        emission = trace("emission", emission + epsilon * self.unigram[tokens][..., None])
        real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        (posterior, pattern, begun), patterns = state, []
        for t in range(tokens.shape[1]):
            now = trace.step(t)
            aligned = nn.functional.pad(normalised(pattern * emission[:, t]), (1, 0))
            changes = (begun & real[:, t])[:, None]
            posterior = now("posterior", torch.where(changes, aligned, posterior))
            pattern = (posterior.view(sources, -1, keys + 1) @ jumps).flatten(0, 1)
            pattern = now("pattern", pattern)
            begun = begun | real[:, t]
            patterns.append(pattern)
        every = torch.stack(patterns, dim=1)  # (rows, length, keys)
        mixed = (every.view(sources, -1, keys) @ translation).view(*tokens.shape, -1)
        mixture = trace("mixture", (1 - epsilon) * mixed + epsilon * self.unigram)
        return mixture, (posterior, pattern, begun)

    def check(self) -> None:
        """Raise an error if loaded values are not probabilities."""
        check_fractions(self.distances, "the table of jump probabilities")
        check_fractions(self.unaligned[None], "the fraction of tokens without a source")
        check_fractions(self.unigram, "the table of probabilities of tokens without a source")

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, column = index
        if point == "jumps":
            return self._jump_terms(at, *index)
        if point == "posterior":
            return self._posterior_terms(at, *index)
        if point == "pattern":
            reached = at.vector("jumps", row, None, column)
            return at.run.total(dot(at.vector("posterior", row, place, None), reached))
        lexicon, epsilon = at.encoder.part("lexicon"), at.weight("ε", "unaligned")
        if point == "emission":
            token = int(at.run.number("ids", at.ids, row, place).value)
            aligned: Expression = lexicon.number("translation", row, column, token)
        else:
            token = column
            translations = lexicon.vector("translation", row, None, token)
            aligned = at.run.total(dot(at.vector("pattern", row, place, None), translations))
        rest = epsilon * at.weight("u", "unigram", token)
        return (constant("1", 1) - epsilon) * aligned + rest

    def _posterior_terms(self, at: Scope, row: int, place: int, state: int) -> Expression:
        """One value of the posterior, by Bayes' rule: the pattern at the previous token, times the
        emission, divided by the sum over the source."""
        before = at.token_before(row, place)
        if before is None:
            return constant("start", state == 0)
        if not at.is_token(row, place):
            return at.number("posterior", row, before, state)
        if state == 0:
            return ZERO
        emission = at.vector("emission", row, place, None)
        joint = dot(at.vector("pattern", row, before, None), emission)
        return joint.at(state - 1) / at.run.total(joint)

    def _jump_terms(self, at: Scope, row: int, state: int, key: int) -> Expression:
        """The probability of one jump: the weight of its distance, divided by the sum over all real
        positions."""
        source = at.encoder
        real = [k for k in range(at.run.tensor(source.ids).shape[1]) if source.is_token(row, k)]
        start = 0 if state == 0 else sum(k <= state - 1 for k in real)

        def weight(place: int) -> Expression:
            away = sum(k <= place for k in real) - start
            return at.weight("D", "distances", min(max(away, -REACH), REACH) + REACH)

        if key not in real:
            return ZERO
        return weight(key) / add(*(weight(k) for k in real))


def normalised(weights: Tensor) -> Tensor:
    """Divide by the sum along the last axis; rows of zeros remain zeros."""
    total = weights.sum(dim=-1, keepdim=True)
    return weights / torch.where(total > 0, total, 1.0)
