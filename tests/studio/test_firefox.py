"""In Firefox, too, the models that run in the page compute what PyTorch computes."""

from typing import Any

import pytest
from tests.studio.firefox import Firefox, fox  # noqa: F401
from tests.studio.local_page import ask, demo
from tests.studio.test_local_model import TEXTS, compare, run_in_page
from tests.studio.test_local_text import GENERATORS, searched
from tests.studio.test_local_text import compare as compare_answers


@pytest.mark.parametrize("name", TEXTS)
def test_every_point_equals_pytorch(fox: Firefox, local: str, name: str) -> None:  # noqa: F811
    reading = demo(name).trace(TEXTS[name][1])
    compare(run_in_page(fox, local, name, reading, {}), reading)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_beam_search_equals_pythons(fox: Firefox, local: str, name: str) -> None:  # noqa: F811
    options: dict[str, Any] = {"beam_size": 3, "n_best": 2, "max_length": 8}
    text = TEXTS[name][0]
    compare_answers(ask(fox, local, "search", name, text, options), searched(name, text, options))
