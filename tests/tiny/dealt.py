"""Run only some combinations of options in `make test`, such that every two values still occur
together.
"""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def chosen(
    values: Iterable[Any], *those: Any, rest: pytest.MarkDecorator = pytest.mark.thorough
) -> list[Any]:
    """The cases of a test: the values in `those` without a mark, the rest of the values marked."""
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
    """The product of the options as cases of a test: one in `share` without a mark, the rest
    marked.

    The chosen ones are those whose indices in their lists add up to a multiple of `share`. Every
    two values occur together if there is a third option with `share` values or more; with only two
    options, each value of one occurs with one in `share` values of the other.
    """
    return [
        pytest.param(
            *(value for _, value in row),
            marks=rest if sum(place for place, _ in row) % share else (),
        )
        for row in product(*(tuple(enumerate(values)) for values in options))
    ]
