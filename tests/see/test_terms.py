"""Every number of every architecture, walked down to weights, tokens and constants."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.points.given import CHARACTERS, IDS, MASK, SEGMENTS, SOURCE, SOURCE_MASK, SPELLED, Ran
from tests.points.test_points import CONFIGS, ENOUGH, run
from tests.see.small import pair, reading
from torch import Tensor

from translucid.core.catalogue import entry
from translucid.core.errors import InputError, UnknownPointError
from translucid.models import LinearConfig, MLPConfig, PerceptronConfig
from translucid.parts.computation import Computation, read_address, written
from translucid.parts.expression import Expression, Operation, evaluate, leaves
from translucid.see.reading import read
from translucid.see.terms import OpenedNumber, as_json, shown, terms
from translucid.see.terms import computation as of

DEEPEST = 400  # lines from an output to a weight, through six tokens and two layers


def inputs_of(ran: Ran) -> dict[str, Tensor | None]:
    config = ran.network.config
    mask, source_mask = (MASK, SOURCE_MASK) if ran.padded else (None, None)
    if isinstance(config, PerceptronConfig | MLPConfig):
        return {"x": ran.calls[""][0]}
    if config.shape == "encoder-decoder":
        masks = {"source_mask": source_mask, "target_mask": mask}
        return {"source": SOURCE, "target": IDS, **masks}
    segments = {"segments": SEGMENTS} if getattr(config, "segments", 0) else {}
    characters = {"characters": CHARACTERS} if getattr(config, "characters", 0) else {}
    if isinstance(config, LinearConfig):
        characters = {"characters": SPELLED}
    return {"ids": IDS, "mask": mask, **segments, **characters}


def numeric(name: str) -> bool:
    """A network that reads numbers: nothing can be padded."""
    return isinstance(CONFIGS[name], PerceptronConfig | MLPConfig)


def computation(name: str, padded: bool) -> Computation:
    ran = run(name, padded)
    return Computation(ran.network, ran.trace, inputs_of(ran), shown=3)


def somewhere(c: Computation, name: str, generator: random.Random) -> str:
    return written(name, tuple(generator.randrange(size) for size in c.tensor(name).shape))


def adds_up(c: Computation, opened: OpenedNumber) -> None:
    """The terms give the value; so do the digits that are shown, within their rounding; and every
    address leads to its number."""
    assert not math.isnan(opened.value), opened
    for number in opened.numbers:
        name, index = read_address(number.address)
        assert float(c.tensor(name)[index]) == number.value, number
    if opened.expression is None:
        return
    assert abs(opened.remainder) <= 1e-9 * max(1.0, abs(opened.value)), opened
    numbers = list(leaves(opened.expression))
    if not all(map(math.isfinite, (opened.value, *(number.value for number in numbers)))):
        return
    true = evaluate(opened.expression)
    moved = [abs(evaluate(_rounded(opened.expression, n)) - true) for n in range(len(numbers))]
    again = evaluate(_rounded(opened.expression, None))
    tied = 1e-5 * abs(true) if "max" in str(opened.expression) else 0.0  # one moves unseen
    assert abs(again - true) <= 1.01 * sum(moved) + tied + 1e-12, opened
    size = sum(abs(number.value) for number in numbers) + 1.0
    assert sum(moved) <= 1e-4 * size**2, opened


def _rounded(expression: Expression, which: int | None) -> Expression:
    """With the digits that are shown: of one of its leaves, or of all."""
    places = iter(range(10**6))

    def of(one: Expression) -> Expression:
        if isinstance(one, Operation):
            return replace(one, arguments=tuple(map(of, one.arguments)))
        here = next(places)
        return replace(one, value=float(shown(one.value))) if which in (None, here) else one

    return of(expression)


def walk(c: Computation, address: str, generator: random.Random) -> Iterator[OpenedNumber]:
    """Down to the bottom, by any of the terms that were computed."""
    for _ in range(DEEPEST):
        opened = terms(c, address)
        yield opened
        if not opened.numbers:
            return
        computed = [number for number in opened.numbers if number.kind == "point"]
        address = generator.choice(computed or opened.numbers).address
    raise AssertionError(f"no bottom: {address}")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ENOUGH else pytest.mark.thorough)
        if number % 6
        else name
        for number, name in enumerate(CONFIGS)
    ],
)
def test_every_form_opens_and_every_line_of_a_walk_to_the_bottom_adds_up(name: str) -> None:
    """test_points says that those of CI have all forms of the catalogue."""
    generator, met = random.Random(name), set()
    padded = generator.random() < 0.5 and not numeric(name)
    ran, c = run(name, padded), computation(name, padded)
    for opened in walk(c, somewhere(c, c.network.output_point, generator), generator):
        adds_up(c, opened)
    for point in ran.trace:
        if ran.form(point)[0] not in met:
            met.add(ran.form(point)[0])
            adds_up(c, terms(c, somewhere(c, point, generator)))


@pytest.mark.thorough
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_walk_from_every_point_of_every_architecture(name: str, padded: bool) -> None:
    generator, c = random.Random(name), computation(name, padded and not numeric(name))
    for point in c.points:
        for opened in walk(c, somewhere(c, point, generator), generator):
            adds_up(c, opened)


@pytest.mark.parametrize("family", ["transformer", "lstm"])
def test_probability_and_loss_of_a_translation_down_to_its_tokens(family: str) -> None:
    trace = reading("translate", "the dog sees a cat .", "der hund sieht eine katze .", family)
    losses = trace.outputs.losses(trace[trace.network.output_point], trace.example.batch.targets)
    c, generator, kinds = of(trace), random.Random(1), set()
    for place, loss in enumerate(losses.flatten().tolist()):
        assert trace.terms(f"loss[0, {place}]").value == pytest.approx(loss, rel=1e-12)
        for opened in walk(c, f"loss[0, {place}]", generator):
            adds_up(c, opened)
            line = eval(opened.python, {"trace": trace})
            assert float(line) == pytest.approx(opened.value, rel=1e-9)
            assert json.loads(json.dumps(as_json(opened), allow_nan=False))["text"] in str(opened)
            kinds |= {opened.kind, *(number.kind for number in opened.numbers)}
    assert kinds == {"point", "parameter", "input"}


def test_all_terms_of_a_softmax_with_its_true_maximum_and_sum() -> None:
    trace = reading("language", "the dog sees a cat .")
    softmax = trace["head.logits"].softmax(-1)
    opened = trace.terms("head.softmax.probabilities[0, 2, 5]")
    assert opened.value == pytest.approx(float(softmax[0, 2, 5]), rel=1e-12)
    for point in ("shift", "exponentials", "normaliser"):
        at = 0 if point != "exponentials" else 5
        adds_up(of(trace), trace.terms(f"head.softmax.{point}[0, 2, {at}]", top=2))
    assert {entry(read_address(n.address)[0]) for n in opened.numbers} == {
        "softmax.exponentials", "softmax.normaliser",
    }  # fmt: skip


def test_the_rest_of_a_sum_is_what_is_not_shown() -> None:
    trace = reading("language", "the dog sees a cat .")
    few = trace.terms("head.logits[0, 2, 5]", top=3)
    whole = trace.terms("head.logits[0, 2, 5]", top=10**6)
    assert isinstance(few.expression, Operation)
    assert isinstance(whole.expression, Operation)
    assert few.expression.arguments[:3] == whole.expression.arguments[:3]
    rest = few.expression.arguments[-1]
    others = whole.expression.arguments[3:]
    assert not isinstance(rest, Operation)
    assert rest.value == pytest.approx(math.fsum(map(evaluate, others)), rel=1e-9)


def test_an_edit_shows_as_a_remainder() -> None:
    task, network = pair("language")
    trace = read(network, task, "the dog sees a cat .", edit={"*.scaled": lambda x: x + 0.5})
    opened = trace.terms("decoder.layers.0.self_attention.scaled[0, 0, 3, 1]")
    assert opened.remainder == pytest.approx(0.5)
    assert "by the terms: 0.5" in str(opened)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("head.logit[0, 0, 0]", "did you mean head.logits"),
        ("head.logits[0, 0]", r"axis, at most \[0, 6, "),
        ("head.logits[0, 99, 0]", "is out of range"),
        ("head.logits[0, x]", "head.logits.0, x.*address"),
        ("decoder.layers.0.self_attention.scale[0]", "is a single number; omit the index"),
        ("loss[7]", "the targets have shape"),
    ],
)
def test_wrong_addresses_are_refused(address: str, message: str) -> None:
    trace = reading("language", "the dog sees a cat .")
    with pytest.raises((InputError, UnknownPointError), match=message):
        trace.terms(address)
