"""`--train a b` is `--train a --train b`; nothing else is taken for a file."""

import pytest

from translucid.cli import app, parser
from translucid.cli.shared.parsing import repeated_options


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("translate --train a b", "translate --train a --train b"),
        ("translate --train a --train b", "translate --train a --train b"),
        ("translate --train=a b", "translate --train=a --train b"),
        ("--train a translate", "--train a translate"),
        ("--train a translate b.c=d", "--train a translate b.c=d"),
        ("t --train a b --valid c d --out x", "t --train a --train b --valid c --valid d --out x"),
        ("t --train a b model.d=3 x.y=4", "t --train a --train b model.d=3 x.y=4"),
        ("t --train a b model.d=3 --quiet", "t --train a --train b model.d=3 --quiet"),
        ("t --out x y.z=1", "t --out x y.z=1"),
        ("t --train - b", "t --train - --train b"),
        ("t --quiet --train a b", "t --quiet --train a --train b"),
        ("t --train a -- b", "t --train a -- b"),
        ("t --train a/x.y=z.txt", "t --train a/x.y=z.txt"),
    ],
)
def test_several_files_after_one_option(typed: str, meant: str) -> None:
    params = parser(app).commands["train"].params
    assert repeated_options(params, typed.split(), "translucid train") == meant.split()
