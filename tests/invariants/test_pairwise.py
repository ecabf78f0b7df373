"""The rows that stand for the grid: whichever two options one chooses, all their values meet."""

from itertools import combinations, product

import pytest
from tests.invariants.cases import (
    ACTIVATIONS,
    CELLS,
    CONFIGS,
    GRID,
    NORMS,
    PLACEMENTS,
    POSITIONS,
    SHAPES,
)
from tests.invariants.pairwise import covering

from translucid.models import ModelConfig, RecurrentConfig, TransformerConfig


def met(configs: list[ModelConfig], one: str, other: str) -> set[tuple[object, object]]:
    return {(getattr(config, one), getattr(config, other)) for config in configs}


TRANSFORMER = {
    "shape": SHAPES,
    "positions": POSITIONS,
    "norm": NORMS,
    "placement": PLACEMENTS,
    "kv_heads": (4, 2, 1),
    "activation": ACTIVATIONS,
    "d_head": (2, 4),
    "qk_norm": (False, True),
    "embedding_scale": (True, False),
    "norm_eps": (None, 0.01),
    "embedding_norm": (False, True),
    "first_position": (0, 2),
}


@pytest.mark.parametrize(("one", "other"), list(combinations(TRANSFORMER, 2)))
def test_transformers(one: str, other: str) -> None:
    configs = [config for config in CONFIGS.values() if isinstance(config, TransformerConfig)]
    assert set(product(TRANSFORMER[one], TRANSFORMER[other])) <= met(configs, one, other)


def test_recurrent() -> None:
    configs = [config for config in CONFIGS.values() if isinstance(config, RecurrentConfig)]
    assert set(product(CELLS, SHAPES)) <= met(configs, "cell", "shape")
    translators = [config for config in configs if config.shape == "encoder-decoder"]
    readers = [config for config in configs if config.shape != "decoder"]
    kinds, ways = ("none", "additive", "dot"), (False, True)
    assert set(product(CELLS, kinds)) <= met(translators, "cell", "attention")
    assert set(product(ways, kinds)) <= met(translators, "bidirectional", "attention")
    assert set(product(CELLS, ways)) <= met(readers, "cell", "bidirectional")


@pytest.mark.parametrize(
    ("family", "option", "values"),
    [
        (TransformerConfig, "placement", PLACEMENTS),
        (RecurrentConfig, "bidirectional", (False, True)),
    ],
)
def test_pooling(family: type[ModelConfig], option: str, values: tuple[object, ...]) -> None:
    heads = [c for c in CONFIGS.values() if isinstance(c, family) and c.head == "classify"]
    assert set(product(("mean", "attention", "last", "first"), values)) <= met(
        heads, "pooling", option
    )


def test_few_rows() -> None:
    """As many as the two longest options need, or hardly more; a third of the grid."""
    kinds = [config.kind for config in CONFIGS.values()]
    assert kinds.count("transformer") < len(POSITIONS) * len(ACTIVATIONS) + 26
    assert kinds.count("recurrent") < 37
    assert len(GRID) + len(CONFIGS) > 3 * kinds.count("transformer")


def test_options_that_do_not_fit_stay_apart() -> None:
    options = {"a": ("1", "2"), "b": ("1", "2"), "c": ("1", "2", "3")}
    rows = covering(options, lambda row: row.get("a") != row.get("b") or "a" not in row)
    assert {(row["a"], row["b"]) for row in rows} == {("1", "2"), ("2", "1")}
    assert {(row["b"], row["c"]) for row in rows} == set(product(options["b"], options["c"]))
    assert len(rows) == 6
