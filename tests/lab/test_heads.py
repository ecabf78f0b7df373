"""The experiments on heads: several at once, fewer and fewer, and what they cost."""

import numpy as np
import pytest
import torch
from tests.lab.families import around, quick_data, rule_test, verdict

from translucid.models import TransformerConfig, build
from translucid.tasks.batch import IGNORE
from translucid_lab.claims import head_sizes, multi_head
from translucid_lab.claims.attention_tasks import patterns, right
from translucid_lab.claims.head_sizes import SHARED, grouped, remembered, sizes
from translucid_lab.claims.multi_head import (
    FAR,
    HEADS,
    KINDS,
    MANY,
    NEAR,
    divided,
    looking_back,
    pruning,
    relations,
    removable,
    two_back,
)

# ---- the rules ----


def levels(one, four=0.99, between=0.6, single=0.3, spread=0.005, several=None):
    """several: accuracy of two and of four heads, without spread."""
    return [
        {"accuracy": [one + j, *([several] * 2 if several else [0.99 + j, four + j / 2])],
         "apart": [0.0, between + j, between + j], "single": {"other positions": single + j}}
        for j in around(0.0, spread)
    ]  # fmt: skip


def shared_out(two, four, learned=0.99):
    """In how many of ten nets with two and with four heads each relation has a head."""
    near, far = [0.0, 0.9, 0.0, 0.1], [0.0, 0.1, 0.0, 0.9]
    return [
        {"accuracy": [0.9, learned, learned],
         "back": [[near], *([near, far if seed < count else near] for count in (two, four))]}
        for seed in range(10)
    ]  # fmt: skip


def test_c51_counts_runs():
    """Five of ten single heads get there: that is neither most nor few."""
    data = levels(0.3)
    for run in data[:5]:
        run["accuracy"][0] = 0.98
    assert verdict(relations, "C51", data) == "undecided"


def pruned(spare, early=0.0, late=0.0, spread=0.001):
    return [
        {
            "removable": spare + 100 * j,
            "early": early + j,
            "late": late + j,
            "apart": 0.5,
            "curve": [0.99],
        }
        for j in around(0.0, spread)
    ]


def counted(width=64, weights=9, multiplications=7):
    return [{"heads": [6, 12], "width": [128, width], "weights": [9, weights],
             "multiplications": [7, multiplications]}]  # fmt: skip


def losses(*more, spread=0.005):
    return [
        {"loss": [2.0, *(2.0 + each + j for each in more)], "numbers": [128, 64, 32, 16]}
        for j in around(0.0, spread)
    ]


test_rules = rule_test(
    {
        "C51": [
            (levels(0.3), "supported"),
            (levels(0.3, single=0.99), "refuted"),  # one way that gets there is enough
            (levels(0.99), "refuted"),
            (levels(0.97, spread=0.05), "undecided"),
            (levels(0.3, four=0.5), "not tested"),
        ],
        "C52": [
            (pruned(4, 0.05, 0.02), "supported"),
            (pruned(0), "refuted"),
            (pruned(4), "depends"),
            (pruned(1.5, 0.005, 0.005), "undecided"),
            (pruned(4, 0.005, 0.005), "undecided"),
        ],
        "C53": [
            (counted(), "supported"),
            (counted(width=128), "refuted"),
            (counted(weights=18), "refuted"),
            (counted(multiplications=8), "refuted"),
        ],
        "grouped-heads": [
            (losses(0.0, 0.01, 0.02), "supported", "0.25 of the cache"),
            (losses(0.1, 0.2, 0.3), "refuted"),
            (losses(0.0, 0.01, 0.2), "depends"),
            (losses(0.05, 0.05, 0.05, spread=0.1), "undecided"),
        ],
        "C50": [
            (shared_out(10, 10), "supported"),
            (shared_out(0, 0), "refuted"),
            (shared_out(10, 0), "depends", "fails: 4 heads"),
            (shared_out(6, 6), "undecided"),
            (shared_out(10, 10, learned=0.5), "not tested"),
        ],
    }
)


def test_one_head_cannot_give_most_of_its_weight_to_two_words():
    near, far, both = [0.1, 0.8, 0.0, 0.1], [0.2, 0.0, 0.2, 0.6], [0.0, 0.5, 0.0, 0.5]
    assert divided([near, far])
    assert divided([both, far, near])
    assert not divided([near, near])
    assert not divided([both])
    assert not divided([near, both])


# ---- the measuring ----


def test_two_words_back():
    x, wanted = two_back(5, torch.Generator().manual_seed(0))
    assert (wanted[:, :FAR] == IGNORE).all()
    for row in range(5):
        for place in range(FAR, x.shape[1]):
            pair = int(x[row, place - NEAR]), int(x[row, place - FAR])
            assert divmod(int(wanted[row, place]), KINDS) == pair


def test_looking_back():
    pattern = torch.zeros(1, 2, 8, 8)
    for query in range(8):
        pattern[0, 0, query, max(query - 1, 0)] = 1.0
        pattern[0, 1, query, max(query - 3, 0)] = 1.0
    assert looking_back(pattern) == [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]


def test_heads_split_one_width():
    nets = [multi_head._net(0, count) for count in (*HEADS, MANY)]
    assert len({net.parameters_count for net in nets}) == 1
    assert [patterns(net, two_back(1, torch.Generator())[0])[0].shape[1] for net in nets] == [
        1, 2, 4, 8,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("curve", "wanted"),
    [((0.9, 0.9, 0.895, 0.5), 2), ((0.9, 0.5, 0.9), 0), ((0.9, 0.95, 0.95), 2)],
)
def test_removable(curve, wanted):
    assert removable(curve) == wanted


def test_removing_a_head_is_zeroing_what_it_hands_to_the_output():
    net = multi_head._net(0, MANY).eval()
    batch = two_back(50, torch.Generator().manual_seed(0))
    without = multi_head._without(net, [1, 3], batch)
    output = net.encoder.layers[0].self_attention.output
    with torch.no_grad():
        output.weight.unflatten(1, (MANY, -1))[:, [1, 3]] = 0
    assert right(net, batch) == without


def test_the_least_important_head_is_removed_next():
    net = multi_head._net(0, MANY).eval()
    batch = two_back(50, torch.Generator().manual_seed(0))
    (gone,) = multi_head._next_to_go(net, [], batch)
    each = [multi_head._without(net, [head], batch) for head in range(MANY)]
    assert each[gone] == max(each)


@pytest.mark.parametrize("shared", SHARED)
def test_a_cache_remembers_keys_and_values(shared):
    net = build(TransformerConfig(
        shape="decoder", head="language", vocab=9, d_model=32, heads=8, kv_heads=shared, layers=2
    ))  # fmt: skip
    assert remembered(net) == 2 * 2 * shared * 4  # layers, keys and values, heads, width


def test_multiplications_by_hand():
    layer = head_sizes.SelfAttention(8, 2, bias=False)
    words, width = 3, 8
    by_hand = words * width * 3 * width + 2 * words * words * width + words * width * width
    assert head_sizes._multiplications(layer, torch.randn(1, words, width)) == by_hand


# ---- quick runs ----


def test_head_width_quick():
    found = quick_data(sizes)
    assert found["weights"][0] == 1_769_472
    assert found["heads"] == [1, 2, 3, 4, 6, 8, 12]
    assert np.allclose(sizes.draw([found]).values * 1e6, found["weights"])


@pytest.mark.slow
def test_two_relations_quick():
    found = quick_data(relations)
    drawn = relations.draw([found, {**found, "accuracy": [0.0, 0.0, 0.0]}])
    assert all(np.allclose(heat.values, back)
               for heat, back in zip(drawn.heats, found["back"], strict=True))  # fmt: skip
    assert f"{found['accuracy'][0] / 2:.0%} right" in drawn.heats[0].title


@pytest.mark.slow
def test_removing_heads_quick():
    found = quick_data(pruning)
    assert len(found["curve"]) == MANY
    drawn = pruning.draw([found, {**found, "curve": [0.0] * MANY}])
    assert np.allclose(drawn.series[f"{MANY} heads"], np.array(found["curve"]) / 2)


@pytest.mark.slow
def test_grouped_heads_quick():
    found = quick_data(grouped)
    assert found["numbers"] == [128, 64, 32, 16]
    assert np.allclose(grouped.draw([found]).series["loss"], found["loss"])
