"""The tree of a beam search: every prefix that was considered, and why it was kept or pruned.

In every round, each unfinished beam proposes its best tokens, as many as there are beams, because
only these can win a place. For narrow beams, a few more tokens are shown, and also tokens that a
constraint excluded. The winners are read from the search itself; only the order of the proposals is
computed again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from translucid.generate.beam_search import GenerationConfig, Round
from translucid.generate.constraints import Constraint

Fate = Literal["followed", "ended", "pruned", "forbidden", "cut", "stopped"]
SHOWN = 3  # minimum number of proposals to show for each beam
Winners = dict[tuple[int, int], int]  # (parent, token) -> the place in the beam that they won


@dataclass(frozen=True)
class Pruned:
    """The reason why a prefix was pruned."""

    bar: float  # the score of the prefix in the last place
    places: int  # number of places for which prefixes compete
    ended: int  # number of places that finished texts occupy
    cost: float  # diversity penalty, which is included in the score of the prefix


@dataclass
class Node:
    """A prefix in the tree: the prefix of its parent plus one token."""

    number: int
    parent: int | None
    token: int
    token_log_prob: float  # the model's own log-probability of the token
    score: float  # of the whole prefix
    fate: Fate = "followed"
    why: str = ""
    length: int = 0  # tokens chosen so far
    ranked: float | None = None  # score / length^alpha of a text at the end of the search
    place: int | None = None  # rank of a returned text, from 1
    chosen: bool = False  # a prefix of the best text
    group: int = 0
    pruned: Pruned | None = None

    def as_dict(self) -> dict[str, Any]:
        """The node as a dictionary for JSON."""
        return vars(self) | {"pruned": None if self.pruned is None else vars(self.pruned)}


@dataclass
class Tree:
    """The prefixes that a search considered for one source.

    constraints: the constraints of the search, each with a description that is shown for tokens
    that it forbids.
    """

    config: GenerationConfig
    eos: int
    least: int
    most: int
    constraints: Sequence[tuple[str, Constraint]] = ()
    source: int = 0
    nodes: list[Node] = field(default_factory=lambda: [Node(0, None, -1, 0.0, 0.0, chosen=True)])
    rounds: int = 0
    _places: list[int] = field(default_factory=list)  # the node in each place of the beam

    def watch(self, round_: Round) -> None:
        """Add a round of the search to the tree. Pass this method to the search: `search(...,
        watch=tree.watch)`."""
        rows = (round_.sources == self.source).nonzero()
        if not len(rows):
            return
        here = int(rows[0, 0])
        self.rounds += 1
        if not self._places:
            self._places = [0] * self.config.beam_size
        size = self.config.beam_size // self.config.beam_groups
        places = list(self._places)
        taken = torch.zeros_like(
            round_.log_probs[here, 0]
        )  # count of each token in earlier groups: (vocab,)
        for group in range(self.config.beam_groups):
            beams = range(group * size, (group + 1) * size)
            winners = {
                (int(round_.parents[here, place]), int(round_.after.tokens[here, place, -1])): place
                for place in beams
                if not round_.before.finished[here, place]
                and round_.after.scores[here, place] > -torch.inf
            }
            cost = (
                self.config.diversity_penalty * taken if self.config.beam_groups > 1 else 0 * taken
            )
            self._grow(round_, here, beams, winners, cost, places)
            for _, token in winners:
                taken[token] += 1
        self._places = places
        if bool(round_.done[here]):
            self._end(round_, here)

    def _grow(
        self,
        round_: Round,
        here: int,
        beams: range,
        winners: Winners,
        cost: Tensor,
        places: list[int],
    ) -> None:
        """Add the proposals of one group of beams to the tree. The node of each new beam is stored
        in `places`."""
        before, after = round_.before, round_.after
        ended = int(before.finished[here, beams.start : beams.stop].sum())
        bar = min((float(after.scores[here, place]) for place in winners.values()), default=0.0)
        for beam in beams:
            if before.finished[here, beam] or before.scores[here, beam] == -torch.inf:
                continue
            parent = self.nodes[self._places[beam]]
            own, wanted = round_.log_probs[here, beam], round_.adjusted[here, beam] - cost
            proposals = self._proposals(own, wanted, len(beams), beam, winners)
            scores = (before.scores[here, beam] + wanted[proposals]).tolist()
            token_log_probs = own[proposals].tolist()
            for token, score, token_log_prob in zip(
                proposals, scores, token_log_probs, strict=True
            ):
                node = self._add(parent, token, token_log_prob, score)
                node.group = beams.start // len(beams)
                place = winners.get((beam, token))
                if place is not None:
                    node.score = float(after.scores[here, place])
                    places[place] = node.number
                    if token == self.eos:
                        self._rank(node, "ended", "ends")
                elif score == -torch.inf:
                    node.fate = "forbidden"
                    node.score = float(before.scores[here, beam] + own[token])
                    node.why = self._forbidden_by(token, own, before.tokens[here, beam])
                else:
                    node.pruned = Pruned(bar, len(beams) - ended, ended, float(cost[token]))
                    node.fate, node.why = "pruned", _below(score, node.pruned)

    def _proposals(
        self,
        own: Tensor,
        wanted: Tensor,
        width: int,
        beam: int,
        winners: Winners,
    ) -> list[int]:
        """The tokens that one beam proposes, best first, followed by those that are forbidden. own:
        the model's log-probabilities; wanted: the adjusted ones."""
        width = min(max(width, SHOWN), len(own))
        best, liked = wanted.topk(width), own.topk(width)
        proposed = best.indices[best.values > -torch.inf].tolist()
        proposed += [t for b, t in winners if b == beam and t not in proposed]
        forbidden = (wanted[liked.indices] == -torch.inf) & (liked.values > -torch.inf)
        return [*proposed, *liked.indices[forbidden].tolist()]

    def _forbidden_by(self, token: int, own: Tensor, tokens: Tensor) -> str:
        if token == self.eos and self.rounds <= self.least:
            return f"the end is not allowed before {self.least} tokens"
        for words, constraint in self.constraints:
            if constraint(own, tokens)[token] == -torch.inf:
                return words
        return "a constraint forbids it"

    def _add(self, parent: Node, token: int, token_log_prob: float, score: float) -> Node:
        node = Node(len(self.nodes), parent.number, token, token_log_prob, score)
        node.length = parent.length + 1
        self.nodes.append(node)
        return node

    def _rank(self, node: Node, fate: Fate, why: str) -> None:
        alpha, length = self.config.alpha, max(node.length, 1)
        node.fate, node.ranked = fate, node.score / length**alpha
        divided = f"{node.score:.2f} / {length}^{alpha:g} = {node.ranked:.2f}" if alpha else ""
        node.why = f"{why}: {divided or f'{node.ranked:.2f}'}"

    def _end(self, round_: Round, here: int) -> None:
        """Finish the tree: mark the unfinished prefixes and the returned texts."""
        scores, finished = round_.after.scores[here], round_.after.finished[here]
        standing = [p for p in range(self.config.beam_size) if scores[p] > -torch.inf]
        ranks = round_.after.ranking(self.config.alpha)[here]
        ended = sorted((float(ranks[p]) for p in standing if finished[p]), reverse=True)
        for place in standing:
            if finished[place]:
                continue
            node = self.nodes[self._places[place]]
            if self.rounds >= self.most:
                self._rank(node, "cut", f"reached the limit of {self.most} tokens")
            else:
                bound = node.score / self.most**self.config.alpha
                self._rank(node, "stopped", "")
                node.why = (
                    f"could reach at most {bound:.2f}, but a finished text already has "
                    f"{ended[self.config.n_best - 1]:.2f}"
                )
        order = ranks.argsort(descending=True, stable=True)[: self.config.n_best].tolist()
        leaves = [self._places[place] for place in order if place in standing]
        for number, leaf in enumerate(leaves, start=1):
            self.nodes[leaf].place = number
        for node in self.path(leaves[0]) if leaves else ():
            node.chosen = True

    def path(self, number: int) -> Iterator[Node]:
        """The nodes from the node with this number up to the root."""
        node: Node | None = self.nodes[number]
        while node is not None:
            yield node
            node = None if node.parent is None else self.nodes[node.parent]

    def children(self) -> dict[int, list[Node]]:
        """The children of each node, best first."""
        below: dict[int, list[Node]] = {node.number: [] for node in self.nodes}
        for node in self.nodes[1:]:
            assert node.parent is not None
            below[node.parent].append(node)
        return {number: sorted(nodes, key=lambda n: -n.score) for number, nodes in below.items()}

    def tokens(self, number: int) -> list[int]:
        """The tokens from the root to the node with this number. If the node's text has ended, the
        end token is included."""
        return [node.token for node in self.path(number) if node.parent is not None][::-1]

    def as_dict(self, piece: Callable[[int], str] = str) -> dict[str, Any]:
        """The tree as a dictionary for JSON. piece: returns the text of a token."""
        nodes = [node.as_dict() | {"piece": piece(node.token)} for node in self.nodes[1:]]
        return {
            "search": self.config.model_dump(),
            "least": self.least,
            "most": self.most,
            "rounds": self.rounds,
            "nodes": [self.nodes[0].as_dict() | {"piece": ""}, *nodes],
        }


def _below(score: float, by: Pruned) -> str:
    last = f"the last of {by.places} places" if by.places > 1 else "the only place"
    texts = f" ({by.ended} text{'s have' if by.ended > 1 else ' has'} ended)" if by.ended else ""
    group = f"; {by.cost:.2f} of it because earlier groups chose this token" if by.cost else ""
    if score >= by.bar:
        return f"{score:.2f} ties with {last}{texts}{group}"
    digits = digits_apart(score, by.bar)
    return f"{score:.{digits}f} is below {by.bar:.{digits}f}, {last}{texts}{group}"


def digits_apart(one: float, other: float) -> int:
    """The smallest number of decimals with which two numbers differ when printed."""
    return next((d for d in (2, 3, 4, 6, 9) if f"{one:.{d}f}" != f"{other:.{d}f}"), 12)
