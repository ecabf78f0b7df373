"""Tracing: read and replace every intermediate value of a model.

A part calls `x = trace("pattern", x)`. With `NO_TRACE`, this returns x, and `torch.compile` removes
the call. With a `Trace`, the value is kept under its full name, such as
`decoder.layers.2.cross_attention.pattern`, and may be replaced. `core/catalogue.py` explains the
names.

Patterns are shell globs over full names. `*` also matches dots, so `*.pattern` is every attention
pattern. A recurrent loop writes the same name once per position; reading joins the positions
along axis 1, and `name@3` means position 3 alone, in patterns and in look-ups.

Your own class may override three hooks: `passes` (every value), `keeps` (every value that matches
`keep`) and `missing` (the message about an unknown name).
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from fnmatch import translate
from functools import lru_cache

import torch
from torch import Tensor

from translucid.core.catalogue import CATALOGUE, entry
from translucid.core.errors import TraceBudgetError, TraceError, UnknownPointError, nearest

Edit = Callable[[Tensor], Tensor] | Tensor | float

DEFAULT_BUDGET = 2**30  # bytes: enough for all values of a small model


class NoTrace:
    """The trace used when tracing is off: every call returns its value unchanged."""

    scope = ""  # name of the calling part, such as decoder.layers.2

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def at(self, scope: str) -> "NoTrace":
        """A view of this trace for the sub-part `scope`: names start with the part's name."""
        return self

    def step(self, position: int) -> "NoTrace":
        """A view of this trace for one position of a loop over time."""
        return self

    def wants(self, *names: str) -> bool:
        """Whether one of these points is kept or edited; if not, a part may use a fused kernel."""
        return False

    def __repr__(self) -> str:
        return "NO_TRACE"


NO_TRACE = NoTrace()


class Trace(NoTrace):
    """The values of one run of a model by name, and edits to make while it runs.

    keep: patterns of the points to keep.
    edit: for each pattern, how to change a value: a function of the value, a new value, or a number
    to fill it with. The trace keeps the edited values.
    budget_bytes: keeping more than this raises TraceBudgetError; None means no limit.
    device: where to keep the values, such as "cpu"; by default, where they were computed.
    by_hand: compute every part step by step, even if it is not traced. Fused kernels give the same
    results except for rounding.
    """

    def __init__(
        self,
        keep: str | Sequence[str] = "*",
        *,
        edit: Mapping[str, Edit] | None = None,
        budget_bytes: int | None = DEFAULT_BUDGET,
        device: torch.device | str | None = None,
        by_hand: bool = False,
    ) -> None:
        keep = [keep] if isinstance(keep, str) else keep
        if not isinstance(keep, Sequence) or not all(isinstance(glob, str) for glob in keep):
            raise TraceError(f'keep = {keep!r}: must be a pattern or a list, such as "*.pattern"')
        self._keep = [_pattern(glob) for glob in keep]
        self._edit = [(_pattern(glob), change) for glob, change in (edit or {}).items()]
        self._values: dict[str, Tensor | dict[int, Tensor]] = {}
        self._met: set[str] = set()
        self._budget = budget_bytes
        self._device = device
        self._by_hand = by_hand
        self.bytes = 0

    # ---- called by the parts ----

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return self._meet(name, None, value)

    def at(self, scope: str) -> NoTrace:
        return _Scope(self, scope + ".", None)

    def step(self, position: int) -> NoTrace:
        return _Scope(self, "", position)

    def wants(self, *names: str) -> bool:
        return self._by_hand or any(
            pattern.covers(name)
            for name in names
            for pattern in (*self._keep, *(glob for glob, _ in self._edit))
        )

    def _meet(self, name: str, position: int | None, value: Tensor) -> Tensor:
        self._met.add(name)
        for pattern, change in self._edit:
            if pattern.matches(name, position):
                value = _changed(name, value, change)
        value = self.passes(name, position, value)
        for pattern in self._keep:
            if pattern.matches(name, position):
                self.keeps(name, position, value)
                break
        return value

    # ---- hooks for subclasses ----

    def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
        """Called with every value, after edits are applied. The model continues with the returned
        value, which the trace keeps. position: the index in a loop over time; None outside of a
        loop."""
        return value

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        """Called with every value that matches `keep`. By default, it stores the value if the
        budget allows."""
        size = value.numel() * value.element_size()
        if self._budget is not None and self.bytes + size > self._budget:
            raise TraceBudgetError(
                f"keeping {name} {tuple(value.shape)} would need {self.bytes + size:,} bytes; the "
                f"budget is {self._budget:,}",
                'keep fewer points (keep="*.pattern"), shorten the input, or raise budget_bytes',
            )
        if self._device is not None:
            value = value.to(self._device)
        if position is None:
            self._refuse_twice(name in self._values, name)
            self._values[name] = value
        else:
            steps = self._values.setdefault(name, {})
            assert isinstance(steps, dict), f"{name} is written both in a loop and outside one"
            self._refuse_twice(position in steps, f"{name}@{position}")
            steps[position] = value
        self.bytes += size

    def missing(self, name: str) -> str:
        """The message about a name that is not in the trace."""
        if name in self._met:
            return f"{name} was computed but not kept; add it to keep"
        if not self._met:
            return f"there is no {name!r}: the trace is empty because no model has run with it yet"
        return f"there is no point {name!r}. " + _suggest(name, self._met)

    def _refuse_twice(self, there: bool, name: str) -> None:
        if there:
            raise TraceError(
                f"{name} is in this trace already, because a Trace holds only one run; create a "
                "new Trace for each run"
            )

    def edits(self) -> NoTrace:
        """A trace for the steps of a search: it makes the same edits but keeps no values. NO_TRACE
        if there are no edits."""
        if not self._edit:
            return NO_TRACE
        edit = self.edit
        placed = [glob for glob in edit if "@" in glob]
        if placed:
            raise TraceError(
                f"{placed[0]!r} edits one position of a whole text, but decoding reads one token "
                "at a time; omit the position (@...), or use model.trace(text, target, edit=...)"
            )
        return Trace([], edit=edit)

    # ---- reading ----

    @property
    def edit(self) -> dict[str, Edit]:
        """The edits, by pattern."""
        return {pattern.glob: change for pattern, change in self._edit}

    @property
    def met(self) -> Set[str]:
        """The names of all points computed so far, kept or not."""
        return self._met

    def written(self) -> Iterator[tuple[str, int | None, Tensor]]:
        """The kept values in order, as (name, position in a loop or None, value)."""
        for name, kept in self._values.items():
            if isinstance(kept, Tensor):
                yield name, None, kept
            else:
                yield from ((name, position, value) for position, value in kept.items())

    def drop(self, name: str) -> None:
        """Remove the kept values of one point."""
        kept = self._values.pop(name)
        values = [kept] if isinstance(kept, Tensor) else kept.values()
        self.bytes -= sum(value.numel() * value.element_size() for value in values)

    def complete(self, other: "Trace") -> None:
        """Copy the values that this trace lacks from another trace. Both traces must come from the
        same model and from inputs of the same shapes. Afterwards, the points have the order of the
        other trace."""
        kept = other._values | self._values
        for name, steps in other._values.items():
            if isinstance(steps, dict) and isinstance(own := kept[name], dict):
                kept[name] = steps | own
        self._values, self._met, self.bytes = kept, self._met | other._met, other.bytes

    def clear(self) -> None:
        """Remove all kept values, so that the trace can be reused for a new run."""
        self._values, self.bytes = {}, 0

    def __getitem__(self, name: str) -> Tensor:
        if isinstance(value := self._values.get(name), Tensor):
            return value
        base, _, position = name.partition("@")
        if base not in self._values:
            raise UnknownPointError(self.missing(base))
        value = self._values[base]
        if isinstance(value, Tensor):
            if position:
                raise UnknownPointError(
                    f"{base} is not computed position by position; omit @{position}"
                )
            return value
        if position:
            if not position.isdigit() or int(position) not in value:
                raise UnknownPointError(
                    f"{name}: the position must be between {min(value)} and {max(value)}"
                )
            return value[int(position)]
        return torch.stack([value[t] for t in sorted(value)], dim=1)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def names(self, pattern: str = "*") -> list[str]:
        """The kept names that match, in the order the model wrote them."""
        return list(matching(tuple(self._values), pattern))

    def check(self) -> None:
        """Raise an error if a pattern in `keep` or `edit` matches no point, for example because it
        is misspelt."""
        patterns = (*self._keep, *(glob for glob, _ in self._edit))
        check_patterns([pattern.glob for pattern in patterns], self._met)

    def __repr__(self) -> str:
        return f"Trace({len(self)} points, {self.bytes:,} bytes)"


class _Scope(NoTrace):
    """The trace as seen by one part: adds the part's prefix and its loop position to names."""

    def __init__(self, root: Trace, prefix: str, position: int | None) -> None:
        self._root, self._prefix, self._position = root, prefix, position
        self.scope = prefix.removesuffix(".")

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return self._root._meet(self._prefix + name, self._position, value)

    def at(self, scope: str) -> NoTrace:
        return _Scope(self._root, f"{self._prefix}{scope}.", self._position)

    def step(self, position: int) -> NoTrace:
        return _Scope(self._root, self._prefix, position)

    def wants(self, *names: str) -> bool:
        return self._root.wants(*(self._prefix + name for name in names))


class _Pattern:
    """A glob pattern with an optional `@position`."""

    def __init__(self, glob: str) -> None:
        base, _, position = glob.partition("@")
        if position and not position.isdigit():
            raise TraceError(f"{glob!r}: @ must be followed by one position, such as @3")
        self.glob = glob
        self._all = base == "*"
        self._regex = re.compile(translate(base))
        self._position = int(position) if position else None

    def covers(self, name: str) -> bool:
        """Whether the pattern matches this name at some position."""
        return self._all or self._regex.match(name) is not None

    def matches(self, name: str, position: int | None) -> bool:
        if self._position is not None and self._position != position:
            return False
        return self._all or self._regex.match(name) is not None


_pattern = lru_cache(1024)(_Pattern)


def check_patterns(globs: Sequence[str], names: Collection[str]) -> None:
    """Raise an error if a pattern matches none of the names of trace points."""
    for glob in globs:
        if glob != "*" and not any(map(_pattern(glob).covers, names)):
            raise UnknownPointError(
                f"the pattern {glob!r} matches no point of this model. " + _suggest(glob, {*names})
            )


@lru_cache(256)
def matching(names: tuple[str, ...], pattern: str) -> tuple[str, ...]:
    """The names that a pattern matches."""
    glob = _pattern(pattern)
    return tuple(name for name in names if glob.matches(name, None))


def _changed(name: str, value: Tensor, change: Edit) -> Tensor:
    if isinstance(change, int | float):
        return torch.full_like(value, change)
    edited = change(value) if callable(change) else change
    if not isinstance(edited, Tensor):
        raise TraceError(
            f"the edit of {name} gives {edited!r}; an edit must be a tensor, a number, or a "
            "function that returns a tensor"
        )
    if edited.shape != value.shape:
        raise TraceError(
            f"the edit of {name} returned shape {tuple(edited.shape)}; "
            f"it must keep the shape {tuple(value.shape)}"
        )
    return edited


def _ends(names: set[str]) -> list[str]:
    """The last component of every trace point that the catalogue lists for the parts in `names`.
    Points that a fused kernel skips are included."""
    parts = {entry(name).partition(".")[0] for name in names}
    points = (key.split(".") for key in CATALOGUE)
    return sorted({point for part, point in points if part in parts})


def _suggest(asked: str, names: set[str]) -> str:
    """A sentence that suggests names similar to `asked`. A pattern such as `*.patern` is compared
    with the last component of each name."""
    if "*" in asked:
        met, word = sorted({name.rpartition(".")[2] for name in names}), asked.rpartition(".")[2]
        close = [f"*.{end}" for end in nearest(word, met) or nearest(word, _ends(names))]
        if close:
            return f"Did you mean {', '.join(close)}?"
        return f"Points end in {', '.join(_ends(names))}."
    close = nearest(asked, sorted(names))
    return f"Did you mean {', '.join(close)}?" if close else "trace.names() lists all names."
