"""The experiments on the causal mask and on what a decoder reads: rules, measuring, pictures."""

import numpy as np
import pytest
import torch
from tests.lab.families import around, quick_data, rule_test, verdict

from translucid_lab.claims import causal_masking, exposure_bias, markov_chain
from translucid_lab.claims.causal_masking import (
    LOOKS,
    PLACES,
    WAYS,
    causal_mask,
    mask_in_writing,
    who_sees_whom,
    with_mask,
    without_mask,
)
from translucid_lab.claims.exposure_bias import OWN, SIDES
from translucid_lab.claims.exposure_bias import exposure as exposed
from translucid_lab.claims.markov_chain import Chain, small_decoder

NAN = float("nan")


# ---- rules ----


def leaks(whole=0.2, prefix=3.0, masked=1.01, masked_prefix=None, spread=0.0):
    """Losses at the end of training, where the truth is 1 nat; without the mask, then with it."""
    masked_prefix = masked if masked_prefix is None else masked_prefix
    return [
        {"steps": [1] * LOOKS, "truth": 1.0, "rate": 1.0,
         "no mask": {"whole": [2.0] * (LOOKS - 1) + [w], "prefix": [2.0] * (LOOKS - 1) + [p]},
         "mask": {"whole": [masked] * LOOKS, "prefix": [masked_prefix] * LOOKS}}
        for w, p in zip(around(whole, spread), around(prefix, spread), strict=True)
    ]  # fmt: skip


def influence(past=0.3, own=1.0, future=0.0):
    ones = np.ones((PLACES, PLACES))
    table = past * np.tril(ones, -1) + own * np.eye(PLACES) + future * np.triu(ones, 1)
    return [{"decoder": table.tolist(), "encoder": ones.tolist()}] * 10


def test_c78_names_what_it_depends_on():
    why = who_sees_whom.claims["C78"].judge(influence()).why
    assert "where one counts from" in why
    assert "holds: counted from the word that is predicted" in why


def written(buffer=0.1, prefix=0.0, cache=0.0, spread=0.0):
    return [
        {"leaks": [each, prefix, cache], "changes": [0.2, 0.1, 0.0], "masked leaks": [0.0] * 3}
        for each in around(buffer, spread)
    ]


def gaps(same=0.5, later=0.0, spread=0.0):
    taught, scheduled = OWN
    return [
        {"truth": 1.0, "same": each, "later": later,
         taught: {SIDES[0]: 1.0, SIDES[1]: 1.3}, scheduled: {SIDES[0]: 1.0, SIDES[1]: 1.1}}
        for each in around(same, spread)
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C77": [
            (leaks(), "supported"),
            (leaks(whole=1.1), "refuted"),  # nothing leaks
            (leaks(prefix=1.1), "refuted"),  # it leaks, and does no harm
            (leaks(masked_prefix=1.2), "refuted"),  # a mask that does not hide all
            (leaks(masked=0.5), "refuted"),  # neither does this
            (leaks(whole=0.9, spread=0.4), "undecided"),
            (leaks(whole=NAN), "undecided"),
        ],
        "C78": [
            (influence(), "depends"),
            (influence(own=0.0), "supported"),
            (influence(future=0.1), "refuted"),
            (influence(future=1e-15), "depends"),  # rounding
            (influence(past=0.0), "undecided"),
            (influence(past=NAN), "undecided"),
        ],
        "C79": [
            (written(), "depends"),
            (written(prefix=0.1, cache=0.1), "supported"),
            (written(buffer=0.0), "refuted"),
            (written(buffer=0.005), "undecided"),
            (written(buffer=0.02, spread=0.02), "undecided"),
            (written(buffer=NAN), "undecided"),
        ],
        "C80": [
            (gaps(), "depends"),
            (gaps(same=1.0), "supported"),  # what it reads is what it says
            (gaps(later=0.5), "refuted"),  # not even from left to right
            (gaps(same=0.95, spread=0.05), "undecided"),
            (gaps(later=NAN, same=1.0), "undecided"),
        ],
    }
)


# ---- the measuring ----


def chain_of(order=1, words=4, sharpness=1.0):
    return Chain.random(words, order, sharpness, torch.Generator().manual_seed(0))


def test_entropy_is_what_long_texts_show():
    chain = chain_of()
    text = chain.draw(50, 1000, torch.Generator().manual_seed(1))
    assert chain.truth(text) == pytest.approx(chain.entropy(), rel=0.01)


@pytest.mark.parametrize("order", [1, 2])
def test_next_words_by_hand(order):
    chain = chain_of(order)
    text = chain.draw(3, 6, torch.Generator().manual_seed(1))
    found = chain.next(text)
    assert found.shape == (3, 7 - order, 4)
    for row in range(3):
        for at in range(order - 1, 6):
            before = tuple(text[row, at - order + 1 : at + 1].tolist())
            assert torch.equal(found[row, at - order + 1], chain.table[before])


@pytest.mark.parametrize("order", [1, 2])
def test_drawn_words_follow_the_table(order):
    chain = chain_of(order, words=3)
    text = chain.draw(4000, 8, torch.Generator().manual_seed(1))
    before = (text[:, -order - 1 : -1] == 1).all(dim=1)
    shares = torch.bincount(text[before, -1], minlength=3) / before.sum()
    assert torch.allclose(shares, chain.table[(1,) * order], atol=0.06)


def test_loss_by_prefix_is_that_of_whole_texts_only_with_the_mask():
    net = small_decoder(4, seed=0, d_model=8)
    text = chain_of().draw(10, 6, torch.Generator().manual_seed(1))
    losses = causal_masking._loss_whole, causal_masking._loss_by_prefix
    whole, prefix = (loss(net, text, with_mask) for loss in losses)
    assert whole == pytest.approx(prefix, abs=1e-5)
    whole, prefix = (loss(net, text, without_mask) for loss in losses)
    assert abs(whole - prefix) > 1e-3


def test_without_the_mask_the_decoder_is_no_longer_causal():
    net = small_decoder(4, seed=0, d_model=8)
    plain = net(torch.tensor([[0, 1, 2]]), trace=without_mask())
    later = net(torch.tensor([[0, 1, 3]]), trace=without_mask())
    assert not torch.allclose(plain[:, 0], later[:, 0])
    net.decoder.causal = False  # the second way to take it away
    assert torch.allclose(net(torch.tensor([[0, 1, 2]])), plain, atol=1e-6)


def test_the_three_ways_of_writing_agree_with_the_mask():
    net = small_decoder(4, seed=0, d_model=8).eval()
    ids = chain_of().draw(5, 8, torch.Generator().manual_seed(1))
    first, *others = (causal_masking._next(net, way, ids, 5, with_mask) for way in WAYS)
    for other in others:
        assert torch.allclose(first, other, atol=1e-6)


def test_variation():
    p, q = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    assert causal_masking._variation(p, p) == 0
    assert causal_masking._variation(p, q) == 1


def test_distance_from_the_truth_is_zero_for_the_true_table():
    chain = Chain.random(exposure_bias.WORDS, 2, 1.0, torch.Generator().manual_seed(0))
    text = chain.draw(3, 6, torch.Generator().manual_seed(1))

    def net(ids):
        known = torch.full((*ids.shape, exposure_bias.WORDS + 1), -torch.inf)
        known[:, 1:, :-1] = chain.next(ids).log()
        return known

    assert exposure_bias._distance(net, chain, text) == pytest.approx(0, abs=1e-6)


def test_its_own_texts_go_on_from_the_starts_and_hold_no_end():
    net = small_decoder(exposure_bias.WORDS + 1, seed=0, d_model=8).eval()
    starts = torch.tensor([[1, 2], [3, 4], [5, 6]])
    own = exposure_bias._written(net, starts, torch.Generator().manual_seed(0))
    assert own.shape == (3, exposure_bias.LENGTH)
    assert torch.equal(own[:, :2], starts)
    assert own.max() < exposure_bias.WORDS


def test_scheduled_batches_swap_inputs_and_never_targets():
    net = small_decoder(exposure_bias.WORDS + 1, seed=0, d_model=8)
    text = torch.randint(exposure_bias.WORDS, (1, 10), generator=torch.Generator().manual_seed(0))
    read, targets = exposure_bias._batches(net, text, 0.5, torch.Generator().manual_seed(1))()
    assert (targets == text[:, 1:]).all()
    assert (read[:, 0] == text[0, 0]).all()
    assert 0.3 < (read[:, 1:] != text[:, 1:-1]).float().mean() < 0.6
    read, _ = exposure_bias._batches(net, text, 0.0, torch.Generator().manual_seed(1))()
    assert (read == text[:, :-1]).all()


def test_learning_lowers_the_loss_and_may_be_watched():
    chain = chain_of(sharpness=3.0)
    text = chain.draw(100, 9, torch.Generator().manual_seed(1))
    net, seen = small_decoder(4, seed=0, d_model=16), []
    before = causal_masking._loss_whole(net, text, with_mask)
    markov_chain.train(net, lambda: (text[:, :-1], text[:, 1:]), 12, rate=1e-2, until=seen.append)
    assert causal_masking._loss_whole(net, text, with_mask) < before - 0.2
    assert [step.done for step in seen] == list(range(1, 13))


# ---- quick runs and pictures ----


def test_measured_influence_depends_on_the_counting():
    data = [quick_data(who_sees_whom, seed) for seed in range(2)]
    assert verdict(who_sees_whom, "C78", data) == "depends"
    drawn = who_sees_whom.draw(data)
    wanted = np.mean([each["decoder"] for each in data], axis=0)
    assert np.allclose(drawn.heats[0].values, wanted)


def test_pictures_show_the_means():
    data = leaks(spread=0.1)
    drawn = causal_mask.draw(data)
    assert drawn.series["no mask: the whole text is there"][-1] == pytest.approx(0.2)
    assert drawn.series["mask: only the words before"][-1] == pytest.approx(1.01)
    assert (drawn.series["entropy of the text"] == 1.0).all()
    assert np.allclose(mask_in_writing.draw(written()).values, [0.2, 0.1, 0.1, 0, 0, 0])
    assert np.allclose(exposed.draw(gaps(spread=0.1)).values, [1.0, 1.3, 1.0, 1.1])
