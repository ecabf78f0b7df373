"""docs/reference/toyland.md shows what the generator gives."""

from tests.toyland.toyland_page import chosen, parts, samples


def test_the_samples_in_the_page_are_the_generators() -> None:
    _, shown, _ = parts()
    assert shown == samples() + "\n", "run: python -m tests.toyland.toyland_page"


def test_the_page_has_samples_of_every_family() -> None:
    assert sum(len(own) for own in chosen().values()) >= 60
    assert all(own for own in chosen().values())
