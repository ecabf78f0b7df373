"""A product of options of which `make test` runs a share in which every two values still meet."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def chosen(
    values: Iterable[Any], *those: Any, rest: pytest.MarkDecorator = pytest.mark.thorough
) -> list[Any]:
    """Cases of a test: those as they are, the rest of the values marked."""
    values = list(values)
    assert all(value in values for value in those), "of these there is one that is no value"
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if value in those else rest,
        )
        for value in values
    ]


def dealt(
    *options: Iterable[Any], share: int, rest: pytest.MarkDecorator = pytest.mark.thorough
) -> list[Any]:
    """The product as cases of a test: one in `share` as they are, the rest marked.

    Those are the ones whose places in their lists add up to a multiple of `share`. Two values meet
    if a third option has `share` values or more; of two options alone, each value of one meets one
    in `share` of the other.
    """
    return [
        pytest.param(
            *(value for _, value in row),
            marks=rest if sum(place for place, _ in row) % share else (),
        )
        for row in product(*(tuple(enumerate(values)) for values in options))
    ]
