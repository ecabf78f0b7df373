"""One number of a run and the terms it is computed from, for the page: formulas as MathML, tokens
by name. The terms come from `trace.terms(address)`."""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

from torch import Tensor

from translucid.parts.computation import read_address, written
from translucid.see.contributions import AdapterNorm, adapter_norms
from translucid.see.terms import OpenedNumber, as_json, computation
from translucid.see.terms import terms as opened_at
from translucid.studio.page_model import as_mathml
from translucid.studio.text_runs import Run

TOP = 8  # how many terms of a long sum to list
MOST = 64  # maximum number of terms that can be requested
CARRIED = 480  # for how many numbers per text a saved page contains the terms
DEEPEST = 60  # maximum steps from a number down to the inputs
LEAST_OPENED = 0.01  # a page opens on no smaller attention weight
SCORES = 5  # steps from an attention weight to its score


class _Points:
    """The points of a run, recomputed on request for a long text. With `row`, attention is computed
    only for one head and query, and expanded to the shape of the point."""

    def __init__(self, run: Run, row: tuple[int, int] | None = None) -> None:
        self.run, self.row = run, row

    def __getitem__(self, name: str) -> Tensor:
        attended = None if self.row is None else self.run.attended(name)
        if self.row is None or attended is None:
            return self.run[name]
        head, query = (range(place, place + 1) for place in self.row)
        own = name.rpartition(".")[2]
        return attended.points([own], head, query)[own].expand(self.run.shapes[name])

    def __contains__(self, name: object) -> bool:
        return name in self.run.shapes

    def __iter__(self) -> Iterator[str]:
        return iter(self.run.shapes)


def terms(run: Run, address: str, top: int = TOP) -> dict[str, Any]:
    """The number at an address, with the terms it is computed from."""
    if run.shapes.get(address) == (1,):  # a perceptron's output: one number on the page
        address = written(address, (0,))
    plain = as_json(_opened(run, address, top))
    plain["symbol"] = as_mathml(plain["symbol"])
    plain["formula"] = as_mathml(plain["formula"]) if plain["formula"] else ""
    plain["symbols"] = {name: as_mathml(latex) for name, latex in plain["symbols"].items()}
    _name_tokens(run, plain)
    return plain


def with_adapters(run: Run) -> dict[str, Any]:
    """A run's description for the page, including the contributions of LoRA adapters."""
    norms: tuple[AdapterNorm, ...] = ()
    if run.opened.adapted:
        norms = adapter_norms(computation(run.kept, points=_Points(run)))
    return run.as_dict() | {"adapters": [{**asdict(norm), "ratio": norm.ratio} for norm in norms]}


def _opened(run: Run, address: str, top: int = TOP) -> OpenedNumber:
    if run.whole:
        return _opening(run, top)(address)
    points = _Points(run, _row_of(run, address))
    return opened_at(computation(run.kept, points=points, shown=top), address)


def _row_of(run: Run, address: str) -> tuple[int, int] | None:
    """The head and query of an attention value. The value depends only on this query of this head
    and on points outside attention."""
    name, index = read_address(address)
    shape = run.shapes.get(name, ())
    inside = f"{name.rpartition('.')[0]}.pattern" in run.shapes
    if not inside or len(shape) != 4 or len(index) != 4:
        return None
    _, head, query, _ = index
    return (head, query) if head < shape[1] and query < shape[2] else None


@lru_cache(1)  # consecutive requests usually concern the same run
def _opening(run: Run, top: int) -> Callable[[str], OpenedNumber]:
    return lru_cache(CARRIED)(partial(opened_at, computation(run.kept, shown=top)))


def _name_tokens(run: Run, number: dict[str, Any]) -> None:
    """Add the token's text to each token id among the terms of a number."""
    if number.get("kind") == "input":
        name, _ = read_address(number["address"])
        for side in (run.example.source, run.example.target):
            if side is not None and side.name == name:
                number["token"] = side.tokenizer.pieces([int(number["value"])])[0]
    inside = number.get("expression")
    for part in [inside] if inside else number.get("arguments", ()):
        _name_tokens(run, part)


def shown_first(run: Run) -> Iterator[str]:
    """Addresses of the numbers that a page selects by default: in each head of attention weights,
    the weight that it opens on; of each other point, the largest number in the first row. Attention
    weights come first, then the output."""

    def late(name: str) -> int:
        return 0 if name.endswith(".pattern") else 1 if name == run.output_point else 2

    for name in sorted(run.shapes, key=late):
        shape = run.shapes[name]
        if not shape or not math.prod(shape):
            continue
        values = run[name].float().nan_to_num(neginf=0.0)
        if name.endswith(".pattern") and len(shape) in (3, 4):
            heads = [(0, head) for head in range(shape[1])] if len(shape) == 4 else [(0,)]
            for head in heads:
                yield written(name, (*head, *first_weight(values[head])))
        else:
            leading = tuple(0 for _ in shape[:-1])
            yield written(name, (*leading, int(values[leading].abs().argmax())))


def first_weight(weights: Tensor) -> tuple[int, int]:
    """The row and column on which a page opens, like firstWeight in static/js/ink.js: the largest
    weight that is not the maximum of its row, or else the maximum of the first row."""
    tops = weights.argmax(-1, keepdim=True)
    others = weights.scatter(-1, tops, 0.0)
    if float(others.max()) <= LEAST_OPENED:
        return 0, int(tops[0])
    row, column = divmod(int(others.argmax()), weights.shape[-1])
    return row, column


def carried(run: Run) -> Iterator[str]:
    """Addresses of the numbers that a saved page can open, up to a limit. First, from the default
    selection: its first number down to the inputs, and its other attention weights down to their
    scores. Then the rest of the selection and the terms of all these numbers, breadth-first."""
    first = list(shown_first(run))
    known: dict[str, None] = {}
    for number, address in enumerate(first):
        if len(known) < CARRIED and (number == 0 or ".pattern[" in address):
            known |= dict.fromkeys(_down(run, address, SCORES if number else DEEPEST))
    waiting = deque([*first, *known])
    while waiting and len(known) < CARRIED:
        address = waiting.popleft()
        known[address] = None
        if len(known) + len(waiting) < CARRIED:
            waiting.extend(one.address for one in _opened(run, address).numbers)
    yield from itertools.islice(known, CARRIED)


def _down(run: Run, address: str, lines: int) -> Iterator[str]:
    """A chain of at most `lines` numbers. It starts with the number at an address. Each next number
    is the first term of the previous one that is neither a scale nor part of a mask."""
    for _ in range(lines):
        yield address
        below = _opened(run, address).numbers
        if not below:
            return
        computed = [number.address for number in below if number.kind == "point"]
        # skip scales and masks
        varying = [one for one in computed if "[" in one and "mask[" not in one]
        address = (varying or computed or [number.address for number in below])[0]
