"""The experiments on residuals, the order of norms and feed-forward blocks."""

import numpy as np
import pytest
import torch
from tests.lab.families import JITTER, judge, measured, rule_test

from translucid.models import TransformerConfig, build
from translucid_lab.claims import block_contributions, experiments, residual_connections, small_nets
from translucid_lab.claims.block_contributions import NETS
from translucid_lab.claims.residual_connections import KINDS, ORDERS, SETTINGS
from translucid_lab.claims.small_nets import Deep
from translucid_lab.claims.toyland_text import next_words
from translucid_lab.engine.verdict import by_case


def depths(*ends, spread=0.01, shallow=0.01):
    """The loss at the largest depth, for each kind."""
    return [
        {"depths": [4, 40],
         **{kind: {"loss": [shallow, end + spread * j], "gradient": [1.0, 1.0]}
            for kind, end in zip(KINDS, ends, strict=True)}}
        for j in JITTER
    ]  # fmt: skip


def costs(residual, small, plain, loss=0.01, spread=0.01):
    return [
        {depth: {name: {"loss": loss, "cost": [cost + spread * j] * int(depth)}
                 for name, cost in zip(NETS, (residual, small, plain), strict=True)}
         for depth in ("12", "36")}
        for j in JITTER
    ]  # fmt: skip


def test_c62_asks_where_blocks_are_to_spare():
    needed, spare = costs(1.0, 1.0, 2.0), costs(0.05, 0.05, 2.0)
    both = [{"12": a["12"], "36": b["36"]} for a, b in zip(needed, spare, strict=True)]
    assert judge("C62", both).verdict == "depends"


def orders(post=(2.0, 2.0, 2.0), spread=0.01, wide=0.1, starts=0.1):
    """Losses without warm-up, with it, and from other starts; how far apart post-norm's are, by
    learning rate and by start."""
    apart = {"post": (wide, wide, starts), "pre": (0.1,) * 3, "none": (0.5,) * 3}
    said = {"post": post, "pre": (2.0, 2.0, 2.0), "none": (3.0, 3.0, 3.0)}
    return [
        {"rates": [1e-3, 1e-2],
         **{order: {setting: [loss - far, loss + far + (spread * j if order == "post" else 0)]
                    for setting, loss, far in zip(SETTINGS, said[order], apart[order], strict=True)}
            for order in ORDERS}}
        for j in JITTER
    ]  # fmt: skip


def sums(relu, none, wider, linear, spread=0.01):
    return [
        {"accuracy": {"none": none, "none, but wider": wider, "linear": linear,
                      "ReLU": min(relu + spread * j, 1.0), "GELU": 0.98}}
        for j in JITTER
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C61": [
            (depths(1, 0.02, 0.02, 0.9, 0.02), "supported"),
            (depths(1, 1.2, 1.2, 0.9, 1.1), "refuted"),
            (depths(1, 0.9, 0.9, 0.9, 0.8), "undecided"),  # better, but not by half
            (depths(1, 1.2, 0.02, 0.9, 0.02), "depends"),
            (depths(1, 0.5, 0.02, 0.9, 0.02, spread=0.05), "undecided"),
            (depths(1, 1e3, 0.02, 0.9, 0.02), "depends"),  # what is no number counts by its rank
            (depths(1, 0.02, 0.02, 0.9, 0.02, shallow=0.9), "not tested"),
        ],
        "C62": [
            (costs(0.05, 0.05, 2.0), "supported"),
            (costs(1.0, 1.0, 2.0), "refuted"),
            (costs(0.05, 0.05, 0.2), "refuted"),  # the plain net can skip them too
            (costs(1.0, 0.05, 2.0), "depends"),
            (costs(0.25, 0.25, 2.0, spread=0.2), "undecided"),
            (costs(0.05, 0.05, 2.0, loss=0.9), "not tested"),  # nothing was learned to be lost
        ],
        "C76": [
            (sums(0.98, 0.5, 0.6, 0.4), "supported"),
            (sums(0.97, 0.99, 0.99, 0.99), "refuted"),
            (
                sums(0.98, 0.94, 0.94, 0.94, spread=0.0),
                "supported",
            ),  # a third of the mistakes
            (sums(0.3, 0.5, 0.6, 0.4), "not tested"),
            (sums(0.97, 0.5, 0.995, 0.4), "depends"),
            (sums(0.95, 0.9, 0.9, 0.9, spread=0.03), "undecided"),
        ],
        "C63": [
            (orders(), "supported", ""),
            (orders(post=(4.3, 4.0, 4.0)), "refuted", ""),
            (orders(wide=0.9), "refuted", ""),  # the claim names sensitivity too
            (orders(starts=0.9), "depends", "fails: with no warm-up"),
            (orders(post=(4.0, 2.0, 2.0)), "depends", "fails: with no warm-up"),
            (orders(post=(2.0, 4.0, 2.0)), "depends", "fails: with warm-up"),
            (orders(post=(3.0, 2.0, 2.0), spread=0.5), "undecided", ""),
        ],
    }
)


def test_by_case_lists_the_cases():
    found = by_case({"a": True, "b": False, "c": None}, "numbers", "the weather")
    assert found.verdict == "depends"
    assert found.why == "numbers (it depends on the weather; holds: a; fails: b; open: c)"
    assert by_case({"a": True, "b": None}, "", "").verdict == "undecided"
    assert by_case({"a": False, "b": None}, "", "").verdict == "undecided"


@pytest.mark.thorough
def test_pictures_show_the_means():
    found = measured("depth")
    drawn = experiments()["depth"].draw([found, found])
    assert all(np.allclose(drawn.series[kind], found[kind]["loss"]) for kind in KINDS)
    found = measured("leaving-out-blocks")
    drawn = experiments()["leaving-out-blocks"].draw([found])
    for name in NETS:
        assert np.allclose(drawn.series[f"{name} net"], np.median(found["12"][name]["cost"]))
    found = measured("norm-order")
    drawn = experiments()["norm-order"].draw([found])
    assert np.allclose(drawn.series["norm after the sum, warm-up"], found["post"]["warm-up"])
    assert np.allclose(drawn.series["no norm, no warm-up"], found["none"]["no warm-up"])
    found = measured("feed-forward")
    drawn = experiments()["feed-forward"].draw([found])
    assert np.allclose(drawn.values, list(found["accuracy"].values()))


# ---- the measuring ----


def test_a_residual_block_adds_its_input():
    torch.manual_seed(0)
    net = Deep(inputs=3, outputs=1, width=5, depth=2, residual=True, branch=0.5)
    x = torch.randn(4, 5)
    first = net.block_list()[0]
    assert torch.allclose(first(x), x + 0.5 * first.dense.linear(torch.relu(x)))
    first.residual = False
    assert torch.allclose(first(x), first.dense.linear(torch.relu(x)))


def test_leaving_out_a_block_is_a_net_without_it():
    torch.manual_seed(0)
    net = Deep(inputs=3, outputs=1, width=5, depth=3, norm="layer", residual=True)
    x = torch.randn(4, 3)
    less = net(x, without=1)
    del net.blocks[1]
    assert torch.equal(net(x), less)


def test_small_branches_are_scaled_by_depth():
    branches = {
        kind: residual_connections._deep(0, kind, 16).block_list()[0].branch
        for kind in ("residual, small branches", "residual")
    }
    assert branches == {"residual, small branches": 0.25, "residual": 1.0}


def test_the_target_has_variance_one():
    x, y = small_nets.smooth_target(100, 4, torch.Generator().manual_seed(0))
    assert x.shape == (100, 4)
    assert float(y.var()) == pytest.approx(1, rel=1e-4)


def test_layers_of_the_feedforward_comparison_are_about_equal():
    sizes = []
    for d_model, wide, activation in block_contributions.FEEDFORWARDS.values():
        if (d_model, activation) == (8, None):
            continue  # the one that is simply taken away
        sizes.append(4 * d_model**2 + (0 if activation is None else 2 * wide * d_model**2))
    assert max(sizes) / min(sizes) < 1.25


def test_scaled_starts_scale_layers_alone():
    torch.manual_seed(0)
    net = build(
        TransformerConfig(shape="decoder", head="language", vocab=9, d_model=8, heads=2, layers=1)
    )
    before = {name: each.clone() for name, each in net.named_parameters()}
    residual_connections._scale_layers(net, 3.0)
    for name, each in net.named_parameters():
        scaled = ".layers." in name and before[name].dim() == 2
        assert torch.allclose(each, before[name] * (3.0 if scaled else 1.0)), name


def test_what_diverges_counts_as_guessing():
    assert residual_connections._language(0, "none", 1e6, 4, 0) == pytest.approx(
        np.log(next_words(0).vocab)
    )


def test_toyland_rows():
    text = next_words(3)
    assert text.ids.max() < text.vocab
    assert (text.ids[:, 0] != 0).all()
    padded = text.ids == 0
    assert not (padded[:, :-1] & ~padded[:, 1:]).any()  # padding only at the end
