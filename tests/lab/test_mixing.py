"""The experiments on what tokens do with one another, and on what stands in a row."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.lab.families import around, quick_data, rule_test

from translucid.models import MLPConfig, build
from translucid.parts.attention import SelfAttention
from translucid.parts.feedforward import FeedForward
from translucid.tasks.batch import IGNORE
from translucid_lab.claims import attention_lookup, attention_tasks, probing, token_mixing
from translucid_lab.claims.attention_lookup import (
    ASKING,
    CONTENTS,
    ENTRIES,
    FILLERS,
    NAMES,
    dictionaries,
    dictionary,
    far,
    far_question,
)
from translucid_lab.claims.attention_tasks import answers, apart, right, train
from translucid_lab.claims.probing import ASKED, PLACES, carried, facts
from translucid_lab.claims.token_mixing import alone, outside, same_rows

# ---- the rules ----


def look_ups(accuracy=0.99, weight=0.9, query=0.95, keys=0.9, values=0.9, spread=0.005):
    said = {"another query": query, "keys exchanged": keys, "values exchanged": values,
            "keys and values exchanged": accuracy}  # fmt: skip
    return [
        {"accuracy": accuracy + j, "weight": weight + j,
         "follows": {name: each + j for name, each in said.items()}}
        for j in around(0.0, spread)
    ]  # fmt: skip


def naming(single=0.125, mixed=0.99, moved=0.0, spread=0.01):
    return [
        {"each word alone": {"accuracy": single + j, "moved": moved},
         "with attention": {"accuracy": mixed + j, "moved": 9.0},
         "all words side by side": {"accuracy": 0.99, "moved": 9.0}}
        for j in around(0.0, spread)
    ]  # fmt: skip


def distances(near, most, spread=0.01):
    return [
        {"distances": [5, 100], "attention": [near, most + j], "LSTM": [0.9, 0.3],
         "RNN": [0.5, 0.1]}
        for j in around(0.0, spread)
    ]  # fmt: skip


def rows(mlp=0.0, beyond=-0.1, weight=0.1, moves=0.5):
    found = {"mlp moves": mlp, "attention moves": moves, "outside": beyond, "least weight": weight}
    signed = found | {"mlp moves": 2.0}
    return [{"of the book": found, "never negative": found, "with negative numbers": signed}] * 10


def contents(lone=(0.95, 0.95, 0.95), both=(0.99, 0.99, 0.99), known=0.17, spread=0.005):
    return [
        {"learned": 1.0, "input": [1.0, 1.0, known + j], "attention alone": [x + j for x in lone],
         "input + attention": [x + j for x in both]}
        for j in around(0.0, spread)
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C45": [
            (look_ups(), "supported"),
            (look_ups(accuracy=0.6), "not tested"),
            (look_ups(weight=0.3), "refuted"),
            (look_ups(query=0.2), "refuted"),  # it does not matter what is sought
            (look_ups(keys=0.2), "refuted"),
            (look_ups(values=0.2), "refuted"),
            (look_ups(values=0.5, accuracy=1.2, spread=0.2), "undecided"),
        ],
        "C56": [
            (naming(), "supported"),
            (naming(single=0.6), "refuted"),
            (naming(moved=1e-3), "refuted"),  # it does see the other word
            (naming(mixed=0.3), "not tested"),  # nobody has learned it
            (naming(single=0.17, spread=0.05), "undecided"),
        ],
        "C57": [
            (distances(0.99, 0.98), "supported"),
            (distances(0.99, 0.4), "refuted"),
            (distances(0.5, 0.5), "not tested"),  # flat, but wrong
            (distances(1.0, 0.92), "refuted"),  # right, but falling
            (distances(0.99, 0.93, spread=0.1), "undecided"),
        ],
        "C60": [
            (contents(), "supported"),
            (contents(lone=(0.3, 0.9, 0.9)), "depends"),
            (contents(lone=(0.3, 0.9, 0.9), both=(0.9, 0.9, 0.3)), "refuted"),
            (contents(known=0.9), "refuted"),  # the input had it already
            (contents(lone=(0.8, 0.9, 0.9), spread=0.1), "undecided"),
        ],
        "C58": [
            (rows(), "supported"),
            (rows(mlp=0.1), "refuted"),
            (rows(beyond=0.1), "refuted"),
            (rows(weight=0.0), "refuted"),  # a row takes no part
            (rows(moves=0.0), "refuted"),
        ],
    }
)


# ---- the measuring ----


def test_dictionaries_have_different_keys():
    entries, keys, values = dictionaries(200, torch.Generator().manual_seed(0))
    assert entries.shape == (200, ENTRIES)
    assert all(len(set(row)) == ENTRIES for row in keys.tolist())
    assert (entries // CONTENTS == keys).all()
    assert (entries % CONTENTS == values).all()
    assert values.unique().tolist() == list(range(CONTENTS))


@pytest.mark.parametrize("distance", [5, 9])
def test_a_far_question_asks_for_an_entry(distance):
    x, wanted = far_question(distance, 300, torch.Generator().manual_seed(0))
    assert x.shape == (300, distance + 1)
    asked, entries, filler = x[:, -1] - ASKING, x[:, :2], x[:, 2:-1] - ASKING - NAMES
    assert (filler >= 0).all()
    assert (filler < FILLERS).all()
    for row, key, value in zip(entries.tolist(), asked.tolist(), wanted.tolist(), strict=True):
        assert key * CONTENTS + value in row


def test_a_net_without_attention_sees_one_word():
    net = token_mixing._reader(0).eval()
    x, _ = token_mixing._previous(20, torch.Generator().manual_seed(0))
    other = x.clone()
    other[:, :-1] = 0
    assert not torch.equal(net(x), net(other))
    assert torch.equal(attention_tasks.silent(net, SelfAttention)(x), net(other))
    assert not any(p.requires_grad for p in net.encoder.layers[0].self_attention.parameters())
    assert all(p.requires_grad for p in net.encoder.layers[0].feedforward.parameters())


def test_training_lowers_the_loss_and_ignores_missing_targets():
    torch.manual_seed(0)
    net = build(MLPConfig(inputs=3, hidden=(), outputs=3))
    x = torch.eye(3)
    wanted = torch.tensor([2, 0, IGNORE])
    train(net, lambda generator: (x, wanted), 0, steps=100, rate=0.1)
    assert right(net, (x, wanted)) == 1.0
    assert answers(net, x)[:2].tolist() == [2, 0]
    assert right(net, (x, torch.tensor([2, 1, IGNORE]))) == 0.5


def test_frozen_weights_stay_while_fitting():
    net = attention_tasks.silent(token_mixing._reader(0), FeedForward)
    train(net, lambda generator: token_mixing._previous(4, generator), 0, steps=2, rate=0.1)
    assert not any(p.any() for p in net.encoder.layers[0].feedforward.parameters())


def test_distance_between_heads():
    same = torch.tensor([[0.5, 0.5, 0.0]]).expand(1, 2, 1, 3)
    assert apart(same) == 0.0
    never = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])[None, :, None]
    assert apart(never) == pytest.approx(1.0)
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.1, 0.4, 0.5])
    half = (p + q) / 2  # by relative entropies, the other way to write it
    wanted = sum(0.5 * F.kl_div(half.log(), each, reduction="sum") for each in (p, q))
    found = apart(torch.stack([p, q])[None, :, None])
    assert found == pytest.approx(float(wanted / np.log(2)) ** 0.5, rel=1e-5)
    assert apart(same[:, :1]) == 0.0  # a single head has no other


def test_outside_of_a_hull():
    generator = torch.Generator().manual_seed(0)
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    within = torch.tensor([[0.2, 0.3]], dtype=torch.float64)
    beyond = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    assert outside(within, corners, generator) < 0
    assert outside(beyond, corners, generator) == pytest.approx(0.5**0.5, rel=0.01)


def test_identity_parts():
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(token_mixing.identity_mlp(4)(x[None])[0], x.clamp(min=0))
        found = token_mixing.identity_attention(4)(x[None], token_mixing.Layout())[0]
    assert torch.allclose(found, (x @ x.T / 2).softmax(-1) @ x)


def test_facts_of_rows():
    found = facts(torch.tensor([[3, 1, 4], [1, 5, 2]]))
    assert found["word"].tolist() == [1, 4, 5, 2]
    assert found["word before"].tolist() == [3, 1, 1, 5]
    assert found["position"].tolist() == [0, 1, 0, 1]


def test_a_probe_reads_known_labels_and_guesses_others():
    generator = torch.Generator().manual_seed(0)
    told, hidden = (torch.randint(4, (400,), generator=generator) for _ in range(2))
    rows_ = F.one_hot(told, 4).float() @ torch.randn(4, 8, generator=generator)
    for wanted, least, most in ((told, 0.99, 1.0), (hidden, 0.1, 0.45)):
        found = probing._probed(rows_[:200], wanted[:200], rows_[200:], wanted[200:], 0, steps=60)
        assert least <= found <= most


# ---- quick runs ----


def test_same_rows_quick():
    found = quick_data(same_rows)
    drawn = same_rows.draw([found])
    seen = found["of the book"]
    assert np.allclose(drawn.values, np.hstack([seen[k] for k in ("input", "mlp", "attention")]))
    assert seen["attention"][2] == pytest.approx([0.7517449217422769] * 2)  # as the book has it


@pytest.mark.slow
def test_dictionary_quick():
    found = quick_data(dictionary)
    assert found["weight"] == pytest.approx(found["weights"][0])
    assert sum(found["weights"]) == pytest.approx(1.0, abs=1e-5)
    # Exchanging both is exchanging two entries, and attention does not see their order.
    assert found["follows"]["keys and values exchanged"] == pytest.approx(found["accuracy"])
    drawn = dictionary.draw([found, found | {"accuracy": 0.0}])
    assert drawn.values[0] == pytest.approx(found["accuracy"] / 2)
    assert np.allclose(drawn.values[2:], list(found["follows"].values()))


@pytest.mark.slow
def test_word_alone_quick():
    found = quick_data(alone)
    assert np.allclose(
        alone.draw([found]).values[:3], [each["accuracy"] for each in found.values()]
    )


@pytest.mark.slow
def test_distance_quick():
    found = quick_data(far)
    assert all(
        np.allclose(far.draw([found]).series[name], found[name]) for name in attention_lookup.NETS
    )


@pytest.mark.slow
def test_row_contents_quick():
    found = quick_data(carried)
    assert np.allclose(carried.draw([found]).values, [found[place] for place in PLACES])
    assert all(len(found[place]) == len(ASKED) for place in PLACES)
