"""Of a product that is dealt out, every two values meet in what always runs."""

from itertools import combinations, product

import pytest
from tests.tiny.dealt import chosen, dealt


@pytest.mark.parametrize(
    ("sizes", "share"), [((4, 3, 2, 5), 3), ((11, 5, 2), 2), ((2, 2, 3, 2), 2), ((5, 5, 5), 4)]
)
def test_every_two_values_meet(sizes: tuple[int, ...], share: int) -> None:
    cases = dealt(*(range(size) for size in sizes), share=share)
    assert [case.values for case in cases] == list(product(*(range(size) for size in sizes)))
    always = [case.values for case in cases if not case.marks]
    assert len(always) <= -(-len(cases) // share) + 1
    for one, other in combinations(range(len(sizes)), 2):
        met = {(row[one], row[other]) for row in always}
        assert met == set(product(range(sizes[one]), range(sizes[other]))), (one, other)
    assert all(mark.name == "thorough" for case in cases for mark in case.marks)


def test_chosen_cases_are_unmarked_and_the_rest_marked() -> None:
    cases = chosen([("a", 1), ("b", 2), "c"], ("b", 2), rest=pytest.mark.slow)
    assert [case.values for case in cases] == [("a", 1), ("b", 2), ("c",)]
    assert [[mark.name for mark in case.marks] for case in cases] == [["slow"], [], ["slow"]]
    with pytest.raises(AssertionError, match="no value"):
        chosen("ab", "c")
