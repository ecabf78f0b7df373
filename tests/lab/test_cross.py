"""The experiments on attention against one vector, on ends, and on gaps."""

import numpy as np
import pytest
import torch
from tests.lab.families import around, rule_test

from translucid.tasks.batch import IGNORE
from translucid_lab.claims import cross_attention
from translucid_lab.claims.bidirectional_context import (
    CLUES,
    FILLERS,
    GAP,
    READERS,
    SIDES,
    cloze,
    clozes,
)
from translucid_lab.claims.cross_attention import (
    ARMS,
    END,
    FIRST,
    LENGTHS,
    WORDS,
    context_vector,
    pairs,
)

NAN = float("nan")


# ---- rules ----


def matches(attention=1.0, vector=0.1, short=1.0, aligned=0.95, ends=1.0, right=1.0, spread=0.0):
    """Exact matches at the longest sentences; at the shortest both have `short`."""
    rest = [short] * (len(LENGTHS) - 1)
    return [
        {"attention": [*rest, attention], "one vector": [*rest, vector + jitter],
         "aligned": [1.0] * (len(LENGTHS) - 1) + [aligned + jitter],
         "ends": [ends + jitter] * len(LENGTHS) + [0.3],
         "length right": [right + jitter] * len(LENGTHS) + [0.0], "untrained ends": 0.0}
        for jitter in around(0.0, spread)
    ]  # fmt: skip


def picked(spread=0.0, **changed):
    """What a Transformer's queries, keys and values do."""
    values = {"right": 1.0, "aligned": 0.9, "query": 0.9, "value": 0.9} | changed
    return [
        {**row, "picked": {name: value + jitter for name, value in values.items()}}
        for row, jitter in zip(matches(), around(0.0, spread), strict=True)
    ]


def gaps(both=(1.0, 1.0), left=(1.0, 0.125), spread=0.0):
    return [
        {"both sides": [each + jitter for each in both],
         "left side only": [left[0], left[1] + jitter]}
        for jitter in around(0.0, spread)
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C81": [
            (picked(), "supported"),
            (picked(aligned=0.2), "refuted"),  # it looks elsewhere
            (picked(query=0.1), "refuted"),  # whoever asks gets the same
            (picked(value=0.1), "refuted"),  # something else is handed over
            (picked(aligned=0.5, right=1.2, spread=0.1), "undecided"),
            (picked(right=0.5), "not tested"),
        ],
        "C83": [
            (matches(), "supported"),  # lengths that were not trained do not count
            (matches(ends=0.5), "refuted"),
            (matches(right=0.5), "refuted"),
            (matches(ends=0.95, spread=0.04), "undecided"),
            (matches(right=NAN), "undecided"),
        ],
        "C82": [
            (gaps(), "supported"),
            (gaps(left=(1.0, 0.99)), "refuted"),  # the left side is enough
            (gaps(both=(1.0, 0.2)), "refuted"),
            (gaps(both=(0.2, 1.0)), "refuted"),
            (gaps(both=(0.9, 0.9), spread=0.05), "undecided"),
            (gaps(left=(0.2, 0.125)), "not tested"),  # it has learned nothing
        ],
    }
)


# ---- the measuring ----


def generator():
    return torch.Generator().manual_seed(0)


def test_pairs_turn_sentences_round():
    source, target = pairs(5, 4, generator())
    for row in range(5):
        for at in range(4):
            wanted = (int(source[row, 3 - at]) - FIRST + 3) % WORDS + FIRST
            assert target[row, at] == wanted
    assert source.min() >= FIRST
    assert target.max() < FIRST + WORDS


@pytest.mark.parametrize("side", SIDES)
def test_clozes_have_one_gap_and_one_clue_on_its_side(side):
    ids, targets = clozes(200, side, generator())
    is_gap, is_clue = ids == GAP, (ids >= FILLERS) & (ids < GAP)
    assert (is_gap.sum(dim=1) == 1).all()
    assert (is_clue.sum(dim=1) == 1).all()
    gap, clue = is_gap.int().argmax(dim=1), is_clue.int().argmax(dim=1)
    assert ((clue < gap) if side == SIDES[0] else (clue > gap)).all()
    assert torch.equal(targets[is_gap], ids[is_clue] - FILLERS)
    assert (targets[~is_gap] == IGNORE).all()
    assert set((ids[is_clue] - FILLERS).tolist()) == set(range(CLUES))


def test_the_sides_of_clozes_are_mirror_images():
    """So that the two differ in nothing but the side."""
    left, right = (clozes(2000, side, generator())[0] for side in SIDES)
    where = [(ids == GAP).float().mean(dim=0) for ids in (left.flip(1), right)]
    assert torch.equal(*where)


class Planted:
    """A translator that is right in all but the first sentence, where it forgets to end."""

    def __init__(self, answers):
        self.answers = answers

    def __call__(self, net, source):
        texts = []
        for number, row in enumerate(self.answers):
            words = row if number else [*row, *[FIRST] * 9]
            texts.append(cross_attention.Hypothesis(words, 0.0, 0.0, [], finished=number > 0))
        return texts


def test_fractions_of_right_and_finished_translations(monkeypatch):
    _, target = pairs(cross_attention.TESTS, 3, generator())
    monkeypatch.setattr(cross_attention, "_written", Planted(target.tolist()))
    share = 1 - 1 / cross_attention.TESTS
    assert cross_attention._right(None, 3, generator()) == pytest.approx(share)
    assert cross_attention._ends(None, 3, generator()) == pytest.approx((share, share))


def test_alignment_is_read_off_the_trace():
    net = cross_attention._translator("attention", 0)
    pattern = torch.zeros(cross_attention.TESTS, 3, 3)
    pattern[:, [0, 1, 2], [2, 1, 0]] = 1.0  # the truth
    pattern[0] = pattern[0].flip(1)  # of one sentence, two of three words are wrong

    class Planted(cross_attention.Trace):
        def __getitem__(self, name):
            assert super().__getitem__(name).shape == pattern.shape
            return pattern

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_attention, "Trace", Planted)
        found = cross_attention._aligned(net, 3, generator())
    assert found == pytest.approx(1 - 2 / 3 / cross_attention.TESTS)


def test_one_vector_has_no_attention_and_the_rest_is_the_same():
    with_it, without = (cross_attention._translator(arm, 0) for arm in ARMS)
    assert without.decoder.alignment is None
    names = {name for name, _ in without.named_parameters()}
    extra = {name for name, _ in with_it.named_parameters()} - names
    assert extra
    assert all("alignment" in name for name in extra)


def test_greedy_starts_feeds_back_and_ends():
    """Every word of the text is the likeliest after <start> and the words before it."""
    net = cross_attention._translator("attention", 0)
    source, _ = pairs(4, 3, generator())
    for row, text in enumerate(cross_attention._written(net.eval(), source)):
        words = [*text.tokens, END] if text.finished else text.tokens
        read = torch.tensor([[cross_attention.START, *words[:-1]]])
        said = net(source[row : row + 1], read)[0].argmax(dim=-1)
        assert said.tolist() == words


# ---- pictures and quick runs ----


def test_pictures_show_the_means():
    drawn = context_vector.draw(matches(spread=0.05))
    assert np.allclose(drawn.series["attention"], [1.0] * len(LENGTHS))
    assert drawn.series["one vector"][-1] == pytest.approx(0.1)
    assert drawn.series["weights on the right word"][-1] == pytest.approx(0.95)
    drawn = cloze.draw(gaps(spread=0.05))
    assert np.allclose(drawn.values, [1.0, 1.0, 1.0, 0.125, 1 / CLUES])
    assert len(drawn.labels) == len(READERS) * len(SIDES) + 1
