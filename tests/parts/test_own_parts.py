"""A position scheme and a norm that the package does not know: all that others need to know about
them is in their class."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.invariants.cases import randomised, transformer
from tests.points.given import IDS, MASK
from tests.see.small import pair
from tests.see.test_terms import adds_up, walk
from torch import Tensor

from translucid.core import extensions
from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.fast.decode_step import DecodeStep
from translucid.models import build
from translucid.parts.computation import Computation, Index, Scope
from translucid.parts.expression import Expression, Terms, apply
from translucid.parts.norms import Norm, Residual
from translucid.parts.positions import NoPositions
from translucid.see.embeddings import position_gram, position_table
from translucid.see.part_switches import switches, together
from translucid.see.reading import read

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "own_position.py"


class LargestNorm(Norm):
    """x / max |x| * gain"""

    neutral = {"rms": 1.0}  # noqa: RUF012 (as a user writes it)

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.linspace(0.5, 1.5, d_model))

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        largest = trace("rms", x.abs().amax(dim=-1, keepdim=True))
        return trace("output", trace("normalised", x / largest) * self.gain)

    def linearised(self, direction: Tensor, statistic: Any) -> tuple[Tensor, float]:
        return self.gain.detach().double() * direction / statistic("rms"), 0.0

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        match point:
            case "rms":
                x = at.inputs(*index[:-1], None)
                sizes = Terms(x.values.abs(), lambda i: apply("abs", x.at(i)))
                return at.run.largest(sizes)
            case "normalised":
                return at.input(*index) / at.number("rms", *index)
        return super().terms(at, point, index)


def run(network: Any) -> Computation:
    trace = Trace()
    with torch.no_grad():
        network(IDS, MASK, trace=trace)
    return Computation(network, trace, {"ids": IDS, "mask": MASK}, shown=3)


def opens(c: Computation, address: str) -> list[str]:
    """Every address from here to the bottom, each with terms that give its value."""
    opened = []
    for one in walk(c, address, random.Random(1)):
        adds_up(c, one)
        opened.append(one.address)
    return opened


def test_a_custom_position_scheme_loads_has_a_switch_and_a_picture_and_decodes() -> None:
    extensions.load(EXAMPLE)
    network = randomised(transformer("decoder", positions="ramp"))
    c = run(network)
    assert opens(c, "decoder.positions.output[0, 2, 1]")
    assert opens(c, "decoder.positions.encoding[0, 2, 1]")[-1] == "decoder.positions.w[1]"
    (switch,) = (one for one in switches(network) if one.kind == "positions")
    assert (switch.key, switch.name) == ("decoder.positions", "decoder positions")
    network.decoder.positions, own = NoPositions().double(), network.decoder.positions
    without = network(IDS, MASK)
    network.decoder.positions = own
    torch.testing.assert_close(network(IDS, MASK, trace=Trace(edit=switch.edit)), without)
    assert not torch.allclose(network(IDS, MASK), without)
    assert not DecodeStep.fits(network)
    table = position_table(network, 5)
    expected = torch.arange(5).double().log1p()[:, None] * own.w.detach()
    torch.testing.assert_close(torch.tensor(table.values), expected, rtol=1e-6, atol=1e-6)


def test_without_a_word_about_itself_a_scheme_has_no_switch_no_terms_and_no_picture() -> None:
    network = randomised(transformer("decoder", positions="none"))

    class Silent(NoPositions):
        def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
            return trace("output", x + trace("encoding", torch.ones_like(x)))

    network.decoder.positions = Silent()
    c = run(network)
    assert c.terms("decoder.positions.encoding", (0, 0, 0)) is None
    adds_up(c, next(iter(walk(c, "decoder.positions.output[0, 0, 0]", random.Random(1)))))
    assert not [one for one in switches(network) if one.kind == "positions"]
    assert not DecodeStep.fits(network)
    for show in (position_table, position_gram):
        with pytest.raises(InputError, match="Silent, your own"):
            show(network)


def with_own_norms(network: Any) -> Any:
    """Every norm of residual frames and the last one, replaced."""
    size = network.decoder.d_output
    for part in list(network.modules()):
        if isinstance(part, Residual):
            part.norm = LargestNorm(size)
    network.decoder.final_norm = LargestNorm(size)
    return network.double().eval()


def test_a_custom_norm_loads_has_a_switch_and_decodes() -> None:
    network = with_own_norms(randomised(transformer("decoder", norm="rms")))
    c, norm = run(network), "decoder.layers.0.feedforward_residual.norm"
    for point in ("rms[0, 2, 0]", "normalised[0, 2, 1]", "output[1, 0, 2]"):
        assert opens(c, f"{norm}.{point}")
    (switch,) = (one for one in switches(network) if one.key == norm)
    assert switch.edit == {f"{norm}.rms": 1.0}
    assert together([switch]) == switch.edit
    assert not DecodeStep.fits(network)


def test_contributions_pass_through_a_custom_norm() -> None:
    task, network = pair("language", norm="rms")
    reading = read(with_own_norms(network), task, "the dog sees a cat .")
    found = reading.contributions(2, 3)
    total = math.fsum([*(one.value for one in found.parts), found.remainder])
    assert total == pytest.approx(float(reading["head.logits"][0, 2, 3]), rel=1e-9)


def test_every_declared_position_point_is_written() -> None:
    for positions in ("sinusoidal", "learned", "rotary", "alibi", "relative"):
        network = build(transformer("decoder", positions=positions)).eval()
        trace = Trace()
        network(IDS, trace=trace)
        assert f"decoder.positions.{network.decoder.positions.point}" in trace, positions
