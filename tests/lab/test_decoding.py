"""The experiments on search, on writing and on label smoothing: rules, measuring, pictures."""

from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.lab.families import around, rule_test

from translucid.generate.beam_search import GenerationConfig, Hypothesis
from translucid.worked.beam import EXAMPLE
from translucid_lab.claims import beam_search_errors, decoded_texts
from translucid_lab.claims import label_smoothing as label_smoothing_claim
from translucid_lab.claims.beam_search_errors import (
    BEAMS,
    BRACKETS,
    END,
    KINDS,
    ROOM,
    SIGNS,
    START,
    Tables,
    beam_optimum,
    dead_ends,
    finishable,
    likeliest,
    sentences,
)
from translucid_lab.claims.decoded_texts import (
    FINALLY,
    SCORES,
    beam_length,
    example,
    most_likely_word,
)
from translucid_lab.claims.label_smoothing import (
    SETTINGS,
    calibration_error,
    label_smoothing,
    smoothing_length,
)

NAN = float("nan")


# ---- rules ----


def shares(above=0.8, greedy=0.2, wide=0.7, spread=0.0):
    """At a beam of 8, and of the optimum found by greedy."""
    at = BEAMS.index(8)
    return [
        {"above": [above + jitter] * len(BEAMS), "below": [0.0] * len(BEAMS),
         "found": [wide + jitter if place == at else greedy for place in range(len(BEAMS))]}
        for jitter in around(0.0, spread)
    ]  # fmt: skip


def ends(hard=20, soft=0, ungrammatical=30, tries=100):
    hits = dict(zip(KINDS.values(), (hard, soft, ungrammatical), strict=True))
    return [{"tries": tries, **hits}] * 10


def lengths(plain=(1, 1, 4), divided=(1, 4, 4), trained=(-2.0, 1.0), spread=0.0):
    """Words in the example, where greedy has 1; and more words than greedy of a trained model."""
    return [
        {"greedy": [1] * len(FINALLY),
         "example": dict(zip(SCORES, (list(plain), list(divided)), strict=True)),
         **{score: [5.0, 5.0, 5.0, 5.0 + more + jitter]
            for score, more in zip(SCORES, trained, strict=True)}}
        for jitter in around(0.0, spread)
    ]  # fmt: skip


def steps(linear=1e-6, total=1e-7, negative=0.0, taken=1.0):
    text = {"new pairs": 0.5, "log p": -1.0}
    return [{"linear": linear, "sum": total, "negative": negative, "taken": taken,
             "greedy": text, "drawn": text, "toyland": text}] * 10  # fmt: skip


def honesty(few=-0.1, many=0.1, spread=0.0):
    """By how much the calibration error changes with smoothing."""
    return [
        {setting: {"error": [0.3, 0.3 + change + jitter], "loss": [2.0, 2.1],
                   "sure": [0.6, 0.5], "right": [0.3, 0.3]}
         for setting, change in zip(SETTINGS, (few, many), strict=True)}
        for jitter in around(0.0, spread)
    ]  # fmt: skip


def shorter(plain=-1.0, divided=0.0, spread=0.0):
    return [
        {"0": {score: [5.0] * 4 for score in SCORES},
         "0.1": {score: [5.0, 5.0, 5.0, 5.0 + less + jitter]
                 for score, less in zip(SCORES, (plain, divided), strict=True)}}
        for jitter in around(0.0, spread)
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C85": [
            (shares(), "supported"),
            (shares(above=0.01), "refuted"),  # greedy misses next to nothing
            (shares(wide=0.1), "refuted"),  # a beam finds the optimum less often
            (shares(above=0.05, spread=0.04), "undecided"),
            (shares(above=NAN), "undecided"),
        ],
        "C86": [
            (ends(), "depends"),
            (ends(soft=30), "supported"),
            (ends(0, 0, 0), "refuted"),
            (ends(1, 1, 1), "undecided"),
            (ends(0, 0, 0, tries=20), "undecided"),  # too few to say never
        ],
        "C87": [
            (lengths(), "illustrates"),  # the example holds and fails, whatever the model writes
            (lengths(trained=(9.0, 9.0)), "illustrates"),
            (lengths((4, 4, 4), (4, 4, 4), (-1.0, 1.0)), "depends"),
            (lengths((4, 4, 4), (4, 4, 4), (1.0, 1.0)), "supported"),
            (lengths((1, 1, 1), (1, 1, 1), (-1.0, -1.0)), "refuted"),
            (lengths((1, 1, 1), (1, 1, 1), (0.0, -1.0), spread=0.5), "undecided"),
            (lengths((4, 4, 4), (4, 4, 4), (NAN, 1.0)), "undecided"),
        ],
        "C84": [
            (steps(), "supported"),
            (steps(linear=0.1), "refuted"),
            (steps(total=0.1), "refuted"),
            (steps(negative=0.1), "refuted"),
            (steps(taken=0.99), "refuted"),
            (steps(linear=NAN), "undecided"),
            (steps(taken=NAN), "undecided"),
        ],
        "label-smoothing": [
            (honesty(), "depends"),
            (honesty(many=-0.1), "supported"),
            (honesty(few=0.1), "refuted"),
            (honesty(few=0.0, spread=0.05), "undecided"),
            (honesty(few=NAN), "undecided"),
        ],
        "label-smoothing-length": [
            (shorter(), "depends"),
            (shorter(divided=-1.0), "supported"),
            (shorter(plain=1.0), "refuted"),
            (shorter(plain=-0.1, spread=0.3), "undecided"),
            (shorter(plain=NAN), "undecided"),
        ],
    }
)


# ---- the measuring: searches ----


def models(count=6, words=3):
    return beam_search_errors._random_models(count, words, torch.Generator().manual_seed(0))


def by_hand(table, words, length):
    """The log-probabilities of all texts of this length after word 0."""
    found = {}
    for text in product(range(words), repeat=length):
        seen = (0, 0, *text)
        found[text] = sum(float(table[seen[at], seen[at + 1], seen[at + 2]])
                          for at in range(length))  # fmt: skip
    return found


def test_viterbi_and_a_beam_that_holds_all_find_what_listing_all_texts_finds():
    made = models()
    exact = likeliest(made[..., :3], 4)
    wide = Tables(made).find(0, 4, GenerationConfig(beam_size=81, alpha=0.0), eos=3)
    for number in range(len(made)):
        listed = by_hand(made[number], 3, 4)
        best = max(listed, key=listed.get)
        assert float(exact[number]) == pytest.approx(listed[best], abs=1e-9)
        assert tuple(wide[number].tokens) == best
        assert wide[number].log_probability == pytest.approx(listed[best], abs=1e-9)


def test_greedy_chooses_the_likeliest_next_word():
    made = models()
    for number, text in enumerate(Tables(made).find(0, 5, GenerationConfig(beam_size=1), eos=3)):
        last = (0, 0)
        for word in text.tokens:
            assert word == int(made[number][last].argmax())
            last = (last[1], word)


def test_beams_of_several_models_do_not_mix():
    made = models()
    together = Tables(made).find(0, 5, GenerationConfig(beam_size=3, alpha=0.0), eos=3)
    for number, text in enumerate(together):
        alone = Tables(made[number : number + 1]).find(
            0, 5, GenerationConfig(beam_size=3, alpha=0.0), eos=3
        )
        assert alone[0].tokens == text.tokens
        assert by_hand(made[number], 3, 5)[tuple(text.tokens)] == pytest.approx(
            text.log_probability, abs=1e-9)  # fmt: skip


def test_models_that_end_leave_the_others_alone():
    """Sources that are settled leave a search early."""
    truth = (3.0 * torch.randn(8, 4, 4, 5, generator=torch.Generator().manual_seed(0))).double()
    made = truth.log_softmax(dim=-1)
    together = Tables(made).find(0, 12, GenerationConfig(beam_size=4, alpha=0.0), eos=4)
    assert len({len(text.tokens) for text in together}) > 1
    for number, text in enumerate(together):
        alone = Tables(made[number : number + 1]).find(
            0, 12, GenerationConfig(beam_size=4, alpha=0.0), eos=4
        )
        assert alone[0].tokens == text.tokens


# ---- the measuring: brackets ----


def test_sentences_are_all_that_is_well_formed():
    def well_formed(text):
        while "()" in text or "[]" in text:
            text = text.replace("()", "").replace("[]", "")
        return not text

    found = sentences(3)
    assert len(found) == len(set(found))
    listed = ["".join(signs) for size in (2, 4, 6) for signs in product(SIGNS, repeat=size)]
    assert set(found) == {text for text in listed if well_formed(text)}


def test_finishable_is_the_beginning_of_a_sentence_that_fits():
    whole = sentences()
    for size in (1, 2, 3, 4):
        for signs in product(range(BRACKETS), repeat=size):
            text = "".join(SIGNS[sign] for sign in signs)
            for left in (1, 2, 3, ROOM - size):
                fits = any(each.startswith(text) and len(each) - size + 1 <= left for each in whole)
                assert finishable(signs, left) == fits, (text, left)


def test_ways_to_an_end_are_what_listing_them_finds():
    made = beam_search_errors._bracket_models(2, torch.Generator().manual_seed(0))
    ways = beam_search_errors._ways(made)
    for row, last, left in product(range(2), range(BRACKETS), (0, 1, 2, 3)):
        found = any(
            all(made[row, a, b] > 0 for a, b in zip((last, *text, END), (*text, END), strict=False))
            for size in range(left)
            for text in product(range(BRACKETS), repeat=size)
        )
        assert bool(ways[row, left, last]) == found, (row, last, left)


def test_bracket_models_know_the_last_sign():
    made = beam_search_errors._bracket_models(3, torch.Generator().manual_seed(0))
    assert torch.allclose(made.sum(dim=-1), torch.ones(3, START + 1, dtype=torch.float64))
    opening, other = SIGNS.index("("), SIGNS.index("]")
    assert (made[:, opening, other] == 0).all()
    assert (made[:, opening, END] == 0).all()
    assert (made[:, START, SIGNS.index("(")] > 0).all()


def test_a_text_that_only_opens_is_a_dead_end_and_one_that_closes_is_none():
    opens = Hypothesis([0] * ROOM, 0.0, 0.0, [], finished=False)
    closes = Hypothesis([0, 1] * 4, 0.0, 0.0, [], finished=True)
    assert not all(finishable(*each) for each in beam_search_errors._prefixes(opens))
    assert all(finishable(*each) for each in beam_search_errors._prefixes(closes))


# ---- the measuring: writing and smoothing ----


def test_the_example_is_the_worked_one():
    assert example(0.4).table == EXAMPLE


def test_the_example_switches_to_the_long_sentence_at_its_threshold():
    """0.95^4 p against 0.5 * 0.5, and divided by the number of tokens."""
    for p in (0.29, 0.3, 0.31, 0.4):
        long, short = np.log(p * 0.95**4), np.log(0.25)
        plain, divided, greedy = (
            decoded_texts._words(example(p), GenerationConfig(beam_size=beams, alpha=alpha))
            for beams, alpha in ((2, 0.0), (2, 1.0), (1, 0.0))
        )
        assert greedy == 1
        assert plain == (4 if long > short else 1)
        assert divided == (4 if long / 5 > short / 2 else 1)


def test_pairs_that_are_new():
    assert decoded_texts._new_pairs([[1, 2, 1, 2], [1, 2]]) == pytest.approx(2 / 4)
    assert decoded_texts._new_pairs([[1]]) == 0


def test_calibration_error_by_hand():
    sure = torch.tensor([0.95, 0.95, 0.55, 0.55])
    right = torch.tensor([True, True, False, True])
    assert calibration_error(sure, right) == pytest.approx((0.1 + 0.1) / 4, abs=1e-6)
    assert calibration_error(torch.ones(4), torch.ones(4, dtype=torch.bool)) == 0
    assert calibration_error(torch.ones(4), torch.zeros(4, dtype=torch.bool)) == 1


def test_smoothed_is_what_the_smoothed_loss_is_least_at():
    """Found by descent on the loss that torch has."""
    truth = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    for _ in range(100):
        each = torch.stack([F.cross_entropy(logits[None], torch.tensor([word]), label_smoothing=0.1)
                            for word in range(3)])  # fmt: skip
        (slope,) = torch.autograd.grad(truth @ each, logits)
        with torch.no_grad():
            logits -= 3 * slope
    found = logits.detach().softmax(dim=0)
    assert torch.allclose(found, label_smoothing_claim.smoothed(truth, 0.1), atol=1e-6)


@pytest.fixture(scope="module")
def writer():
    return decoded_texts.language_model(0, 2, sentences=50)


@pytest.mark.slow
def test_an_author_writes_from_prompts_that_it_has_not_seen(writer):
    assert writer.unseen.shape[0] == decoded_texts.HELD_OUT
    assert all(len(prompt) == decoded_texts.PROMPT for prompt in writer.prompts)
    texts = writer.generate(beams=2, alpha=1.0)
    assert len(texts) == decoded_texts.TEXTS
    assert max(len(text.tokens) for text in texts) <= decoded_texts.MAX_LENGTH


def test_checks_notice_a_word_that_is_not_the_likeliest(writer):
    prompt, text = writer.prompts[0], writer.generate(beams=1, alpha=0.0)[0]
    assert decoded_texts._checked(writer, prompt, text)["taken"] == 1.0
    other = (text.tokens[0] + 1) % writer.net.vocab
    wrong = Hypothesis([other, *text.tokens[1:]], 0.0, 0.0, [], text.finished)
    assert decoded_texts._checked(writer, prompt, wrong)["taken"] < 1.0


def test_checks_notice_a_head_that_is_not_linear(writer, monkeypatch):
    prompt, text = writer.prompts[0], writer.generate(beams=1, alpha=0.0)[0]
    assert decoded_texts._checked(writer, prompt, text)["linear"] < 1e-4
    linear = writer.net.head.linear
    monkeypatch.setattr(linear, "forward", lambda x: F.linear(x, linear.weight).tanh())
    assert decoded_texts._checked(writer, prompt, text)["linear"] > 1e-4


# ---- quick runs and pictures ----

CHEAP = [beam_optimum, dead_ends, smoothing_length]


def test_pictures_show_the_means():
    drawn = beam_optimum.draw(shares(spread=0.1))
    assert np.allclose(drawn.series["the likeliest of all"], [0.2, 0.2, 0.2, 0.7, 0.2])
    assert np.allclose(dead_ends.draw(ends()).values, [0.2, 0.0, 0.3])
    assert np.allclose(beam_length.draw(lengths(spread=0.1)).series["by probability"],
                       [5, 5, 5, 3])  # fmt: skip
    assert np.allclose(most_likely_word.draw(steps()).values, 0.5)
    drawn = label_smoothing.draw(honesty())
    assert np.allclose(drawn.series["few sentences: how sure"], [0.6, 0.5])
    drawn = smoothing_length.draw(shorter(spread=0.1))
    assert np.allclose(drawn.series["smoothing 0.1, by probability"], [5, 5, 5, 4])
