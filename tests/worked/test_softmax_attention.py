"""The softmax and one head of attention, as first written and as they should be.

Shapes: scores and pattern (1, 1, queries, keys) in the trace; look() takes plain matrices.
"""

import itertools
import math
import sys

import numpy as np
import pytest
import torch
from tests.worked.helpers import look, numbers, prints_as, same, self_attention

from translucid.core.trace import Trace
from translucid.parts import masks
from translucid.parts.activations import softmax
from translucid.parts.attention import Layout, attend

LOGITS = numbers("2 1 0")
EXPONENTIALS = "7.38905609893065 2.718281828459045 1"
PROBABILITIES = "0.6652409557748218 0.24472847105479764 0.09003057317038046"

X = numbers("1 0; 0 1; 1 1")
PATTERN = """0.4011120926797859 0.1977758146404282 0.4011120926797859;
    0.1977758146404282 0.4011120926797859 0.4011120926797859;
    0.2482550782577231 0.2482550782577231 0.5034898434845538"""
OUTPUT = """0.8022241853595719 0.5988879073202141; 0.5988879073202141 0.8022241853595719;
    0.7517449217422769 0.7517449217422769"""
CAUSAL = Layout(causal=True)
NAIVE = {"*shift": 0.0}  # exponentials without taking the largest score off first


def test_w01_softmax_210_with_plain_exponentials():
    trace = Trace(edit=NAIVE)
    probabilities = softmax(LOGITS, trace.at("softmax"))
    same(trace["softmax.exponentials"], EXPONENTIALS)
    same(trace["softmax.normaliser"], [11.107337927389695])
    same(probabilities, PROBABILITIES)
    assert prints_as(probabilities, "0.665 0.245 0.09", 3)

    # The source prints e^2 = 2.39 and the sum 6.11; its probabilities do not follow from those.
    assert not prints_as(trace["softmax.exponentials"], "2.39 2.72 1", 2)
    assert not prints_as(trace["softmax.normaliser"], [6.11], 2)
    printed = Trace(edit={**NAIVE, "*exponentials": lambda e: numbers("2.39 2.72 1")})
    wrong = softmax(LOGITS, printed.at("softmax"))
    same(printed["softmax.normaliser"], [6.11])
    same(wrong, "0.3911620294599018 0.4451718494271686 0.1636661211129296")


def test_w02_softmax_210_with_the_shift():
    trace = Trace()
    probabilities = softmax(LOGITS, trace.at("softmax"))
    same(probabilities, PROBABILITIES)
    same(softmax(LOGITS), PROBABILITIES)
    same(trace["softmax.shift"], [2.0])
    # The shift divides exponentials and sum alike by e^2; multiplied back they are as printed.
    same(trace["softmax.exponentials"] * math.exp(2), EXPONENTIALS)
    total = trace["softmax.normaliser"] * math.exp(2)
    same(total, [11.107337927389695])
    assert prints_as(total, [11.11], 2)
    assert prints_as(probabilities, "0.665 0.245 0.09", 3)


def test_w05_unmasked_attention_code():
    output, trace = look(X, X, X)
    same(trace["attention.pattern"][0, 0], PATTERN)
    same(output, OUTPUT)

    # As first written the sum has no axis: one number for the whole matrix, and no row sums to 1.
    _, naive = look(X, X, X, edit=NAIVE)
    exponentials = naive["attention.exponentials"]
    wrong = exponentials / naive["attention.normaliser"].sum()
    same(
        wrong[0, 0],
        """0.110935434195862 0.054698789368316424 0.110935434195862;
        0.054698789368316424 0.110935434195862 0.110935434195862;
        0.110935434195862 0.110935434195862 0.22498981608819504""",
    )
    same(wrong[0, 0].sum(-1), "0.27656965776004044 0.27656965776004044 0.44686068447991906")
    wrong_output, _ = look(X, X, X, edit={"*pattern": lambda pattern: wrong})
    same(
        wrong_output,
        """0.221870868391724 0.16563422356417842; 0.16563422356417842 0.221870868391724;
        0.33592525028405706 0.33592525028405706""",
    )


def test_w05_overflow_without_the_shift():
    large = numbers("40 0; 0 40")
    _, stable = look(large, large, large)
    same(stable["attention.scaled"][0, 0], "1131.3708498984759 0; 0 1131.3708498984759")
    same(stable["attention.pattern"][0, 0], "1 0; 0 1")
    _, naive = look(large, large, large, edit=NAIVE)
    assert naive["attention.pattern"][0, 0].isnan().tolist() == [[True, False], [False, True]]

    threshold = 709.782712893384  # the logarithm of the largest float64
    assert threshold == pytest.approx(math.log(sys.float_info.max), abs=1e-9)
    for score, overflows in [(threshold - 1e-9, False), (threshold + 1e-9, True)]:
        trace = Trace(edit=NAIVE)
        probabilities = softmax(numbers([score, 0.0]), trace.at("softmax"))
        assert bool(trace["softmax.exponentials"].isinf().any()) is overflows
        assert bool(probabilities.isnan().any()) is overflows


def test_w06_causal_attention_code():
    output, trace = look(X, X, X, CAUSAL)
    # The source marks what is forbidden with 1; here True means "may attend".
    same((~trace["attention.mask"][0, 0]).double(), "0 1 1; 0 0 1; 0 0 0")
    same(
        trace["attention.pattern"][0, 0],
        """1 0 0; 0.3302384506733431 0.6697615493266569 0;
        0.2482550782577231 0.2482550782577231 0.5034898434845538""",
    )
    right = "1 0; 0.3302384506733431 0.6697615493266569; 0.7517449217422769 0.7517449217422769"
    same(output, right)
    fused = attend(X[None, None], X[None, None], X[None, None], CAUSAL)
    same(fused[0, 0], right)

    # Without keepdims the row sums lie along the columns: column j is divided by row j's sum.
    _, naive = look(X, X, X, CAUSAL, edit=NAIVE)
    wrong = naive["attention.exponentials"] / naive["attention.normaliser"].squeeze(-1)
    same(
        wrong[0, 0],
        """1 0 0; 0.49306869139523984 0.6697615493266569 0;
        1 0.6697615493266569 0.5034898434845538""",
    )
    same(wrong[0, 0].sum(-1), "1 1.1628302407218967 2.1732513928112107")
    wrong_output, _ = look(X, X, X, CAUSAL, edit={"*pattern": lambda pattern: wrong})
    same(
        wrong_output,
        "1 0; 0.49306869139523984 0.6697615493266569; 1.5034898434845538 1.1732513928112107",
    )

    # The source's square mask fails for one query and three keys; slots do not.
    last = Layout(masks.causal(torch.tensor([2]), torch.arange(3)))
    one, _ = look(X[2:], X, X, last)
    same(one[0], "0.7517449217422769 0.7517449217422769")


def test_w17_single_head_attention():
    layer = self_attention("1 0; 0 1", heads=1)
    trace = Trace(edit=NAIVE)
    output = layer(X[None], Layout(), trace=trace.at("attention"))[0]
    root = 0.7071067811865475
    same(trace["attention.scores"][0, 0], "1 0 1; 0 1 1; 1 1 2")
    same(trace["attention.scaled"][0, 0], numbers("1 0 1; 0 1 1; 1 1 2") * root)
    same(
        trace["attention.exponentials"][0, 0],
        """2.028114981647472 1 2.028114981647472; 1 2.028114981647472 2.028114981647472;
        2.028114981647472 2.028114981647472 4.1132503787829275""",
    )
    sums = trace["attention.normaliser"][0, 0, :, 0]
    same(sums, "5.056229963294944 5.056229963294944 8.169480342077872")
    assert prints_as(sums, "5.056 5.056 8.169", 3)
    pattern = trace["attention.pattern"][0, 0]
    same(pattern, PATTERN)
    same(output, OUTPUT)
    same(layer(X[None], Layout())[0], OUTPUT)

    # The source prints row 2 of the pattern as a copy of row 1, and 0.751 for 0.751745.
    assert prints_as(pattern[1], "0.198 0.401 0.401", 3)
    assert not prints_as(pattern[1], "0.401 0.198 0.401", 3)
    assert prints_as(output[2], "0.752 0.752", 3)
    assert not prints_as(output[2], "0.751 0.751", 3)


@pytest.mark.parametrize("d_head", [1, 2, 3, 4])
def test_w18_variance_of_a_dot_product_exactly(d_head):
    corners = numbers(list(itertools.product([-1.0, 1.0], repeat=d_head)))
    _, trace = look(corners, corners, corners)
    same(trace["attention.scores"].mean(), 0.0)
    same(trace["attention.scores"].var(correction=0), float(d_head))
    same(trace["attention.scaled"].var(correction=0), 1.0)


@pytest.mark.slow
def test_w18_variance_of_a_dot_product_by_chance():
    # The listed numbers are these draws of default_rng(0), in this order, all q before all k.
    rng = np.random.default_rng(0)
    wanted = {2: 2.0146148080500015, 64: 63.75735764012162, 512: 514.3163326120437}
    deviation = {2: math.sqrt(2), 64: 8.0, 512: 22.627416997969522}
    for (d_head, variance), draws in zip(wanted.items(), [200_000, 200_000, 50_000], strict=True):
        q, k = (torch.from_numpy(rng.standard_normal((draws, 1, 1, d_head))) for _ in "qk")
        trace = Trace(["*.scores", "*.scale"])
        attend(q, k, k.new_ones(draws, 1, 1, 1), trace=trace.at("attention"))
        same(trace["attention.scores"].var(correction=0), variance)
        same(1 / trace["attention.scale"], deviation[d_head])


SATURATION = {  # d_head: raw and scaled, each the mean largest weight and the mean Jacobian norm
    4: "0.5791293057518788 0.3393880347432204; 0.40316926597985037 0.3809978711627042",
    64: "0.8919060895997154 0.13486626595205975; 0.42038277516860795 0.3848695182852846",
    512: "0.9623988563562527 0.05172724535511844; 0.42076974937277967 0.3858754064471011",
}


@pytest.mark.slow
def test_w19_softmax_saturation():
    rng = np.random.default_rng(1)  # for each size one q and then six keys, 4000 times
    jacobians = torch.func.vmap(torch.func.jacrev(softmax))
    for d_head, wanted in SATURATION.items():
        q = torch.from_numpy(rng.standard_normal((4000, 1, 1, d_head)))
        k = torch.from_numpy(rng.standard_normal((4000, 1, 6, d_head)))
        found = []
        for scaled in (False, True):
            trace = Trace(["*.scaled", "*.pattern"])
            attend(q, k, k.new_ones(4000, 1, 6, 1), scaled=scaled, trace=trace.at("attention"))
            largest = trace["attention.pattern"].amax(-1).mean()
            jacobian = jacobians(trace["attention.scaled"][:, 0, 0])  # (draws, keys, keys)
            found.append(torch.stack([largest, jacobian.flatten(1).norm(dim=1).mean()]))
        same(torch.stack(found), wanted)
