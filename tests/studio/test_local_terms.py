"""The terms of each number in a page that computes its runs itself equal those of Python."""

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.both_sides import KEYS, OFF, Both
from tests.studio.test_local_model import TEXTS
from tests.studio.test_local_text import CLOSE, compare
from tests.studio.test_terms import numbers_of

MANY = 4  # random numbers of each point, besides the first and the last
OTHER = {"translate": {"off": OFF["translate"]}, "generate": {"off": OFF["generate"]},
         "translate-lstm": {"target": "Der Hund zorp ."}}  # fmt: skip


def addresses(run: dict[str, Any], generator: random.Random) -> Iterator[str]:
    for point in run["points"]:
        shape = point["shape"]
        first, last = [0 for _ in shape], [size - 1 for size in shape]
        others = [[generator.randrange(size) for size in shape] for _ in range(MANY)]
        for index in [first, last, *others] if shape else [[]]:
            alone = not shape and point["at"].endswith(".scale")
            yield point["at"] if alone else f"{point['at']}{[0, *index]}"


def same_number(here: dict[str, Any], there: dict[str, Any], at: str) -> None:
    for key in ("value", "text"):
        one, two = here.pop(key), there.pop(key)
        assert (one is None) == (two is None), (at, key)
        if two is not None:
            near = 0 if there.get("kind") == "constant" else CLOSE  # a constant may be 1e-5
            assert float(one) == pytest.approx(float(two), rel=CLOSE, abs=near), (at, key)


def same(here: Any, there: Any, at: str) -> None:
    """The same expression: operations, names, addresses and values. The terms of a sum are ordered
    by size, so rounding may exchange terms of almost the same size."""
    one, two = (each.pop("arguments", []) for each in (here, there))
    same_number(here, there, at)
    assert here == there, at
    assert len(one) == len(two), at
    if there.get("operation") not in ("+", "max"):
        for n, pair in enumerate(zip(one, two, strict=True)):
            same(*pair, f"{at}, {n}")
        return
    sizes = [[abs(float(term["text"])) for term in terms] for terms in (one, two)]
    assert sizes[0] == pytest.approx(sizes[1], rel=CLOSE, abs=CLOSE), at
    named, wanted = ({key_of(term): term for term in terms} for terms in (one, two))
    for key in named.keys() ^ wanted.keys():  # shown on one side only
        last = min(sizes[1][: len(two) - 1])
        term = named.get(key) or wanted[key]
        assert abs(float(term["text"])) == pytest.approx(last, rel=CLOSE, abs=CLOSE), (at, key)
    for key in named.keys() & wanted.keys():
        same(named[key], wanted[key], f"{at}, {key}")


def key_of(term: dict[str, Any]) -> str:
    return json.dumps([term.get("rest"), [one["address"] for one in numbers_of(term)]])


def compare_terms(both: Both, runs: list[list[dict[str, Any]]], asked: list[str]) -> None:
    paths = [f"/api/runs/{{0}}/terms?address={quote(each)}" for each in asked]
    for path, one, two in both.ask(runs, *paths):
        here, there = one.json, two.json
        assert one.status == 200, (path, here)
        expressions = [each.pop("expression") for each in (here, there)]
        same_number(here, there, path)
        compare(here, there, path)
        if expressions[1] is None:
            assert expressions[0] is None, path
        else:
            same(*expressions, path)


@pytest.mark.parametrize("name", KEYS)
def test_terms_equal_the_servers(both: Both, name: str) -> None:
    """Numbers of every point, with and without edits, and of every weight and input in them."""
    generator = random.Random(name)
    for given in ({"text": TEXTS[name][1]}, {"text": TEXTS[name][0], **OTHER.get(name, {})}):
        run = both.run(name, **given)
        asked = list(addresses(run[0], generator))
        compare_terms(both, [run], asked)
        below = {}
        for _, one, _ in both.ask([run], *(f"/api/runs/{{0}}/terms?address={quote(each)}"
                                           for each in asked)):  # fmt: skip
            for number in numbers_of(one.json["expression"]):
                if number["kind"] != "point":
                    below[number["address"].partition("[")[0]] = number["address"]
        assert below or name == "perceptron"
        compare_terms(both, [run], list(below.values()))


def test_more_terms_of_a_long_sum_are_shown_on_request(both: Both) -> None:
    run = both.run("translate", TEXTS["translate"][0])
    asked = [f"head.logits[0, 1, 7]&top={top}" for top in (1, 8, 63, 64)]
    mixed = "encoder.layers.0.self_attention.mixed[0, 0, 0, 0]"  # one term for each token
    asked += [f"{mixed}&top={top}" for top in range(1, len(run[0]["tokens"]["source"]) + 2)]
    paths = [f"/api/runs/{{0}}/terms?address={each}" for each in asked]
    for path, one, two in both.ask([run], *paths):
        same(one.json["expression"], two.json["expression"], path)


def test_an_address_without_a_number_is_refused(both: Both) -> None:
    run = both.run("translate", TEXTS["translate"][0])
    wrong = ["head.logits", "head.logits[0, 99, 0]", "head.logit[0, 0, 0]", "head.logits[0, 0",
             "head.logits[0, 1, 2]&top=65", "decoder.layers.0.self_attention.scale[0]"]  # fmt: skip
    for path, one, _ in both.ask([run], *(f"/api/runs/{{0}}/terms?address={w}" for w in wrong)):
        assert one.status == 422, path
        assert one.json["error"], path
