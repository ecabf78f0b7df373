"""Every number opens to the bottom: what the page is told of its terms gives the number again, and
the page, clicked through from an attention weight to an embedding, shows just that."""

import itertools
import json
import math
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.serving import FAMILIES, LINEAR, TEXT, Served, model, serving, text_for

from translucid.parts.activations import ACTIVATIONS
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.terms import carried

# Forms that the families of the studio's tests lack.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "alibi": ("language-transformer", {"positions": "alibi", "activation": "swiglu"}),
    "rotary": ("language-transformer", {"positions": "rotary", "norm": "rms"}),
}
MODELS = {family: (family, {}) for family in FAMILIES | LINEAR} | VARIANTS


def worked_out(part: dict[str, Any]) -> float:
    """An expression of the answer, by plain arithmetic."""
    if "operation" not in part:
        return float(part["text"]) if part["value"] is None else part["value"]
    values = [worked_out(one) for one in part["arguments"]]
    match part["operation"]:
        case "+":
            return sum(values)
        case "·":
            return math.prod(values)
        case "-":
            return values[0] - values[1]
        case "/":
            return values[0] / values[1] if values[1] else 0.0
        case "^":
            return values[0] ** values[1]
        case "max":
            return max(values)
        case "where":
            return values[1] if values[0] else -math.inf
        case "abs":
            return abs(values[0])
        case "table":
            return values[0]
        case "<=" | "<" | ">" as sign:
            return float(eval(f"{values[0]} {sign} {values[1]}"))
        case name if name in ACTIVATIONS:
            return float(ACTIVATIONS[name](torch.tensor(values[0], dtype=torch.float64)))
        case name:
            return float(getattr(math, name)(values[0]))


def numbers_of(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if part and "operation" in part:
        for one in part["arguments"]:
            yield from numbers_of(one)
    elif part and part.get("address"):
        yield part


def ask(handlers: Handlers, run: str, address: str, more: str = "") -> dict[str, Any]:
    reply = handlers.ask("GET", f"/api/runs/{run}/terms?address={quote(address)}{more}")
    assert reply.status == 200, (address, reply.body)
    return json.loads(reply.body)


def in_test(name: str) -> tuple[Handlers, Any, Any]:
    family, keys = MODELS[name]
    held = model(family, **keys)
    library = Library({name: held})
    run = library.run("a", text_for(family))
    return Handlers(library), run, held.trace(run.text, run.target)


@pytest.mark.parametrize("name", MODELS)
def test_random_numbers_of_every_family_down_to_the_bottom(name: str) -> None:
    handlers, run, trace = in_test(name)
    generator, kinds = random.Random(name), set()
    for start in generator.sample(list(trace), min(3, len(trace))):
        index = [generator.randrange(size) for size in trace[start].shape]
        address = f"{start}[{', '.join(map(str, index))}]" if index else start
        expected = float(trace[start][tuple(index)])
        for _ in range(400):
            opened = ask(handlers, run.key, address)
            kinds.add(opened["kind"])
            value = float(opened["text"]) if opened["value"] is None else opened["value"]
            assert value == expected
            line = float(eval(opened["python"], {"trace": trace}))
            assert line == pytest.approx(value, rel=1e-5)
            below = list(numbers_of(opened["expression"]))
            if opened["expression"] is not None:
                size = 1 + sum(abs(one["value"] or 0) for one in below)
                assert worked_out(opened["expression"]) == pytest.approx(value, abs=1e-5 * size)
                assert {one["name"] for one in below} <= set(opened["symbols"])
                assert opened["formula"][:5] in ("", "<math")
            if not below:
                break
            computed = [one for one in below if one["kind"] == "point"]
            chosen = generator.choice(computed or below)
            address = chosen["address"]
            expected = float(chosen["text"]) if chosen["value"] is None else chosen["value"]
        else:
            raise AssertionError(f"no bottom: {address}")
    assert "point" in kinds


def test_a_token_has_its_name_and_a_long_sum_more_terms_when_asked() -> None:
    handlers, run, trace = in_test("translate-transformer")
    opened = ask(handlers, run.key, "encoder.embedding.lookup[0, 1, 3]")
    (token,) = (one for one in numbers_of(opened["expression"]) if one["kind"] == "input")
    assert token["token"] == trace.words.source[1]
    assert ask(handlers, run.key, token["address"])["token"] == trace.words.source[1]
    few, all_ = (ask(handlers, run.key, "encoder.layers.0.feedforward.output[0, 1, 3]", more)
                 for more in ("", "&top=64"))  # fmt: skip
    rest = few["expression"]["arguments"][-1]
    shown = few["expression"]["arguments"][:8]
    assert "rest" in rest
    largest = sorted((abs(one["value"]) for one in all_["expression"]["arguments"]
                      if one.get("operation") == "·"), reverse=True)  # fmt: skip
    assert [abs(one["value"]) for one in shown] == largest[:8]
    assert rest["rest"] == len(largest) - 8
    assert worked_out(few["expression"]) == pytest.approx(worked_out(all_["expression"]))


def test_a_switched_value_appears_as_the_remainder_of_its_terms() -> None:
    library = Library({"translate": model("translate-transformer")})
    off = next(
        key for key in library.opened["a"].switches if key.endswith("cross_attention.head.0")
    )
    run = library.run("a", TEXT, None, [off])
    (point,) = library.opened["a"].switches[off].edit
    name = point.partition("@")[0]
    shape = run.shapes[name]
    address = f"{name}[{', '.join('0' for _ in shape)}]"
    opened = ask(Handlers(library), run.key, address)
    given = worked_out(opened["expression"])
    assert abs(given) > 1e-6
    assert opened["remainder"] == pytest.approx(opened["value"] - given)


def test_a_saved_page_carries_a_walk_to_the_bottom() -> None:
    handlers, run, _ = in_test("translate-transformer")
    addresses = list(carried(run))
    assert addresses[0].partition("[")[0].endswith(".pattern")
    assert len(set(addresses)) == len(addresses)
    for at, then in itertools.pairwise(addresses):
        below = [one["address"] for one in numbers_of(ask(handlers, run.key, at)["expression"])]
        if not below:
            break
        assert then in below
    assert "embedding.table.weight" in at


# ---- on the page ----

ASIDE = re.compile(
    r"mask\[|scale$|(weight|bias|gain)\[|^source"
)  # beside the way from a weight to a token
OPENED = "document.querySelector('.terms .copies button')?.title"
SIGNS = str.maketrans({"−": "-", "·": "*", "÷": "/", "^": "@", "≤": "<"})


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"translate": model("translate-transformer")}) as served:
        yield served


def lines(page: Page) -> dict[str, Any]:
    """What the card says."""
    return page.inner.eval_on_selector(
        ".terms",
        """card => ({
          line: card.querySelector('.numbersin')?.textContent ?? '',
          sums: [...card.querySelectorAll('.sums')].map(table =>
            [...table.querySelectorAll('tr:not(.below) td.n')].map(el => el.textContent)),
          factors: [...card.querySelectorAll('.sums tr:not(.below)')].map(row =>
            [...row.querySelectorAll('.number')].map(el => el.firstChild.textContent)),
          terms: [...card.querySelectorAll('.sums tr:not(.below) td.n')].map(el => el.textContent),
          value: card.querySelector('.strong td.n').textContent,
          called: [...card.querySelectorAll('.sumtable:not(.sums) th')].map(el => el.textContent),
          crumbs: card.querySelectorAll('.crumbs li').length,
          names: [...card.querySelectorAll('.number')].map(el => [el.dataset.name, el.dataset.to]),
        })""",
    )


def number(text: str) -> float:
    text = text.replace("∞", "inf")
    return float(text.translate(SIGNS))


def recomputed(card: dict[str, Any]) -> float:
    """The number from the digits that stand on the card."""
    for factors, term in zip(card["factors"], card["terms"], strict=True):
        if len(factors) == 2:
            product = number(factors[0]) * number(factors[1])
            assert product == pytest.approx(number(term), rel=1e-4, abs=1e-9)
    if not card["line"]:
        return sum(map(number, card["sums"][0]))
    known = {"exp": math.exp, "sqrt": math.sqrt, "max": max, "inf": math.inf,
             "where": lambda seen, value, other: value if seen else other}  # fmt: skip
    text = card["line"].removeprefix("= ").replace("∞", "inf").translate(SIGNS)
    for table in card["sums"]:
        total = sum(map(number, table))
        assert any(number(part) == pytest.approx(total, rel=1e-4, abs=1e-5)
                   for part in re.findall(r"[−-]?\d[\d.e-]*", card["line"]))  # fmt: skip
    return float(eval(text.replace("@", "**"), known))


def test_by_clicks_from_an_attention_weight_to_an_embedding_and_back(
    studio: Served, leaf: Page
) -> None:
    """Each card's shown digits give its value, and the next card's value is the number clicked."""
    at = f"{studio.address}#/attention?kind=encoder&layer=0&head=1&text={quote(TEXT)}&pin=src:2"
    leaf.turn(at)
    leaf.wait("document.querySelector('.terms .strong td.n')")
    depth, clicked = 0, None
    while True:
        card = lines(leaf)
        value = number(card["value"])
        if clicked is not None:
            assert value == pytest.approx(clicked, rel=1e-5)
        if not card["names"]:
            break
        assert [name for name in card["called"] if re.match(r"(\S+) \1$", name)] == []
        assert recomputed(card) == pytest.approx(value, rel=2e-4, abs=2e-5)
        addresses = [to for _, to in card["names"]]
        to = next((to for to in addresses if not ASIDE.search(to)), addresses[0])
        button = f'.terms .number[data-to="{to}"]'
        clicked = number(leaf.inner.eval_on_selector(button, "el => el.firstChild.textContent"))
        depth += 1
        leaf.inner.click(button)
        leaf.wait(f"to => {OPENED} === to", to)
    assert "embedding.table.weight" in to
    assert "a weight" in leaf.text(".terms .meaning").lower()
    linked = leaf.inner.evaluate("location.hash")
    leaf.see(f"{studio.address}{linked}")  # the walk stands in the link
    leaf.wait(f"to => {OPENED} === to", to)
    for _ in range(depth):
        leaf.inner.focus(".terms .crumbs button")
        leaf.inner.keyboard.press("Backspace")
    assert leaf.inner.evaluate("document.querySelector('.terms .crumbs')") is None
    assert "/attention?" in leaf.inner.evaluate("location.hash")  # it did not go out
    # By keys alone, and by the symbol in the formula.
    leaf.inner.focus(".terms .number")
    leaf.inner.keyboard.press("Enter")
    leaf.wait("document.querySelectorAll('.terms .crumbs li').length === 2")
    assert "number" in leaf.inner.evaluate("document.activeElement.className")
    leaf.inner.keyboard.press("Backspace")
    leaf.inner.eval_on_selector(
        ".terms .symbol[data-name=normaliser]",
        "el => el.dispatchEvent(new MouseEvent('click', { bubbles: true }))",
    )
    leaf.wait("document.querySelectorAll('.terms .crumbs li').length === 2")
    assert "normaliser" in leaf.text(".terms .strong th")
