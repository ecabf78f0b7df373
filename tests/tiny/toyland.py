"""Cache the sentences of Toyland in each process: the same number is the same sentence.

A small run would spend half of its time generating its corpus. In `tests/toyland`, which tests the
generator, nothing is cached.
"""

import importlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

generator = importlib.import_module("translucid.data.toyland.generate")
candidate = generator.candidate
remembered = lru_cache(maxsize=50_000)(candidate)
ITSELF = Path(__file__).parents[1] / "toyland"


@pytest.fixture(scope="module", autouse=True)
def sentences_are_remembered(request: pytest.FixtureRequest) -> Iterator[None]:
    generator.candidate = candidate if request.path.is_relative_to(ITSELF) else remembered
    yield
    generator.candidate = candidate
