"""Sinusoidal and rotary positions: values, periods, and what depends on distance alone.

Shapes: positions (length,) for encode; (batch, length) for angles. look() gives all dot products
of two matrices as attention's scores.
"""

import numpy as np
import pytest
import torch
from tests.worked.helpers import look, numbers, prints_as, same, set_weights

from translucid.core.trace import Trace
from translucid.parts.attention import Layout, SelfAttention
from translucid.parts.positions import Rotary, Sinusoidal, frequencies, period, rotate

PE_2 = "0.9092974268256817 -0.4161468365471424 0.01999866669333308 0.9998000066665778"


def encode(positions, d=4):
    return Sinusoidal(d).encode(torch.as_tensor(positions))


def dots(q, k):
    """q kᵀ, as attention computes it."""
    _, trace = look(q, k, k)
    return trace["attention.scores"][0, 0]


def test_w27_encoding_of_four_dimensions():
    same(1 / frequencies(4), "1 100")
    wanted = f"""0 1 0 1;
        0.8414709848078965 0.5403023058681398 0.009999833334166664 0.9999500004166653; {PE_2}"""
    same(encode(range(3)), wanted)
    trace = Trace()
    x = torch.zeros(1, 3, 4, dtype=torch.float64)
    same(Sinusoidal(4).add(x, torch.arange(3)[None], trace.at("positions"))[0], wanted)
    same(trace["positions.encoding"][0], wanted)


def test_w28_the_formula_with_its_exponent():
    pairs = torch.tensor([0, 1, 2, 255])
    right = 1 / frequencies(512)[pairs]
    same(right, "1 1.036632928437698 1.0746078283213174 9646.616199111992")
    # As typeset, 10000 multiplies 2i/d instead of being raised to it: a division by zero at i = 0.
    printed = 10000 * 2 * pairs.double() / 512
    same(printed, "0 39.0625 78.125 9960.9375")
    assert not torch.isclose(right, printed).any()


def test_w29_periods_and_what_repeats():
    periods = numbers([period(0, 4), period(1, 4)])
    same(periods, "6.283185307179586 628.3185307179587")
    assert prints_as(periods[0], 6.28, 2)
    assert prints_as(periods[1], 628.3, 1)
    same(numbers(period(255, 512)), 60611.47716626105)

    # "Repeats exactly" is not so: the periods are irrational and positions are whole numbers.
    sines = encode([6, 7, 44, 710])[:, 0]
    same(
        sines, "-0.27941549819892586 0.6569865987187891 0.017701925105413577 6.0288706691585265e-05"
    )
    same(
        encode(6) - encode(0),
        "-0.27941549819892586 -0.03982971334963403 0.059964006479444595 -0.0017994600647958103",
    )
    distances = (encode(range(1, 5001)) - encode(0)).norm(dim=-1)
    same(distances.min(), 0.044406417783428485)
    assert int(distances.argmin()) + 1 == 1885


def test_w30_dot_products_depend_on_distance_alone():
    gram = dots(encode(range(3)), encode(range(3)))
    wanted = """2 1.540252306284805 0.5836531701194354; 1.540252306284805 2 1.540252306284805;
        0.5836531701194354 1.540252306284805 2"""
    same(gram, wanted)
    p = torch.arange(3.0, dtype=torch.float64)
    distance = (p[:, None] - p)[..., None]
    same((distance * frequencies(4)).cos().sum(-1), wanted)
    same(gram, gram.T)  # even in p - q: the direction is lost
    same(encode(2).square().sum(), 2.0)
    same(
        dots(encode([0], 512), encode(range(6), 512))[0],
        """256 249.10209782736297 231.7336203897073 211.74944342769248 196.68823115257953
        189.59666768102977""",
    )


@pytest.mark.parametrize(("d", "rises_at"), [(4, 3), (8, 3), (64, 5), (512, 43)])
def test_w30_dot_products_are_not_monotone(d, rises_at):
    falling = dots(encode([0], d), encode(range(60), d))[0].diff()
    assert int((falling > 0).nonzero()[0]) == rises_at


def test_w30_after_projection_the_absolute_position_counts():
    rng = np.random.default_rng(2)
    w_q, w_k = (torch.from_numpy(rng.standard_normal((64, 64)) / 8) for _ in "qk")
    plain, learned = (SelfAttention(64, heads=1, bias=False).double() for _ in range(2))
    set_weights(plain.qkv, torch.eye(64).repeat(3, 1))
    set_weights(learned.qkv, torch.cat([w_q.T, w_k.T, torch.eye(64)]))
    at_distance_3 = []
    for layer in (plain, learned):
        trace = Trace()
        layer(encode(range(103), 64)[None], Layout(), trace=trace.at("attention"))
        at_distance_3.append(trace["attention.scores"][0, 0].diagonal(3))  # p = 0 to 99
    assert at_distance_3[0].std(correction=0) < 1e-12
    same(at_distance_3[1].std(correction=0), 3.4637258027626405)
    same(at_distance_3[1].abs().mean(), 4.028026232142756)


def test_w31_expansion_into_four_terms():
    x_p = numbers("2.0409191213851825 -2.5556650313141818 0.41809884672577885 -0.5677696061279298")
    x_q = numbers(
        "-0.45264929211044586 -0.2155971630897659 -2.019986129147251 -0.23193237764418947"
    )
    both = Sinusoidal(4).add(torch.stack([x_p, x_q])[None], torch.tensor([[1, 2]]))[0]
    left = dots(both[:1], both[1:])[0, 0]
    terms = dots(torch.stack([x_p, encode(1)]), torch.stack([x_q, encode(2)]))
    same(left, 2.065096716266633)
    same(terms, "-1.0856961812858006 2.3600397869791796; -0.7494991957115504 1.5402523062848048")
    same(terms.sum(), left)


def test_w32_a_shift_is_a_rotation():
    # PE(p + k) = R(k) PE(p): rotary's turn by -k, since the pairs stand as (sine, cosine).
    angles = Rotary(4).angles(torch.tensor([[-3]]))
    shift = rotate(torch.eye(4, dtype=torch.float64)[:, None, None], angles)[:, 0, 0].T
    same(
        shift,
        """-0.9899924966004454 0.1411200080598672 0 0; -0.1411200080598672 -0.9899924966004454 0 0;
        0 0 0.9995500337489875 0.02999550020249566; 0 0 -0.02999550020249566 0.9995500337489875""",
    )
    same(encode(2), PE_2)
    wanted = "-0.9589242746631385 0.28366218546322625 0.04997916927067833 0.9987502603949663"
    same(encode(5), wanted)
    same(rotate(encode([2])[None, None], angles)[0, 0, 0], wanted)

    # A tangent instead would not stay bounded.
    rows = encode([1, 2, 11, 33, 344])
    same(
        rows[:, 0] / rows[:, 1],
        """1.5574077246549023 -2.185039863261519 -225.95084645419513 -75.31301480008509
        227.50041426165396""",
    )


def test_w33_rotary_scores_at_equal_offsets():
    q, k = numbers("1 2 -1 0.5"), numbers("0.5 -1 2 1")
    rotary, scores = Rotary(4), []
    for p_q, p_k in [(5, 2), (105, 102), (2, 5)]:
        turned = [
            rotate(x[None, None, None], rotary.angles(torch.tensor([[p]])))[0, 0]
            for x, p in ((q, p_q), (k, p_k))
        ]
        same(turned[0].norm(), q.norm())
        same(turned[1].norm(), k.norm())
        scores.append(dots(*turned)[0, 0])
    # Offsets +3 and -3 differ: unlike the additive encoding, rotation keeps the direction.
    same(torch.stack(scores), "-0.3565673222475387 -0.3565673222475387 0.32789471080191296")


def test_w33_rotary_scores_within_a_layer():
    layer = SelfAttention(4, heads=1, bias=False).double()
    q, k = numbers("1 2 -1 0.5"), numbers("0.5 -1 2 1")
    set_weights(layer.qkv, torch.cat([torch.diag(q), torch.diag(k), torch.eye(4)]))
    x = torch.ones(1, 3, 4, dtype=torch.float64)  # every token asks q and offers k
    angles = Rotary(4).angles(torch.tensor([[2, 5, 105]]))
    trace = Trace()
    layer(x, Layout(angles=angles), trace=trace.at("attention"))
    scores = trace["attention.scores"][0, 0]
    same(scores[1, 0], -0.3565673222475387)
    same(scores[0, 1], 0.32789471080191296)
