"""Heads against toyland's links; coarse and fine features; a sentence of three words."""

import numpy as np
import pytest
import torch
from tests.lab.families import around, quick_data, rule_test

from translucid.data.toyland import Toyland
from translucid.parts.attention import SelfAttention
from translucid.tasks.batch import IGNORE
from translucid_lab.claims import three_words as three_words_claim
from translucid_lab.claims.head_specialisation import (
    BACK,
    FEATURES,
    WIDTH,
    coarse_fine,
    features,
    split,
)
from translucid_lab.claims.syntactic_heads import (
    HEADS,
    LAYERS,
    RELATIONS,
    Lexicon,
    as_read,
    best_offset,
    fixed_offset,
    links,
    meets,
    roles,
)
from translucid_lab.claims.three_words import (
    LANGUAGES,
    VOCABULARY,
    possible,
    strongest,
    three_words,
)

# ---- the rules ----


def relation(share, lost, elsewhere=0.01, baseline=0.4):
    return {"best": 1, "share": [0.1, share] + [0.1] * 6, "baseline": baseline, "lost": lost,
            "lost elsewhere": elsewhere}  # fmt: skip


def net(subject=0.8, pronoun=0.8, lost=0.3, steady=0.7, others=(0.6,), loss=0.2, spread=0.01):
    """others: how steady the other heads are, of one seed after the other."""
    return [
        {"loss": loss, "subject": relation(subject + j, lost + j),
         "antecedent": relation(pronoun + j, lost + j),
         "fixed": [steady + j] + [others[seed % len(others)]] * 7}
        for seed, j in enumerate(around(0.0, spread))
    ]  # fmt: skip


def layers(same, different, spread=0.05):
    return [
        {name: {"before": 0.1, "after": after + j, "error": 0.01}
         for name, after in zip(BACK, (same, different), strict=True)}
        for j in around(0.0, spread)
    ]  # fmt: skip


def sentences(first, *seconds, spread=0.05, accuracy=0.8):
    """seconds: how often the name looks at "I", by language."""
    return [
        {language: {"accuracy": accuracy, "nets": 10,
                    "links": {"I → am": first + j, "name → I": second + j}}
         for language, second in zip(LANGUAGES, seconds, strict=True)}
        for j in around(0.0, spread)
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C55": [
            (layers(0.9, 0.9), "supported"),
            (layers(0.1, 0.1), "refuted"),
            (layers(0.1, 0.9), "depends"),
            (layers(0.2, 0.2, spread=0.2), "undecided"),
        ],
        "C59": [
            (sentences(0.9, 0.9, 0.9, 0.9), "supported"),
            (sentences(0.9, 0.2, 0.2, 0.2), "refuted"),
            (sentences(0.2, 0.9, 0.9, 0.9), "refuted"),
            (sentences(0.9, 0.9, 0.2, 0.5), "depends", "fails: names depend on the verb"),
            (sentences(0.8, 0.5, 0.5, 0.5, spread=0.2), "undecided"),
            (sentences(0.9, 0.9, 0.9, 0.9, accuracy=0.4), "not tested"),
        ],
        "C54": [
            (net(), "supported"),
            (net(subject=0.2, pronoun=0.2, steady=0.2, others=(0.1,)), "refuted"),
            (net(lost=-0.2, steady=0.2, others=(0.1,)), "refuted"),  # they meet, without effect
            (net(subject=0.2), "refuted", "does not hold: verb and subject"),  # one is enough
            (net(steady=0.2, others=(0.1,)), "refuted", "does not hold: word order"),
            (net(others=(0.1,)), "supported"),  # the claim does not say how many heads
            (net(loss=1.5), "not tested"),  # not learned yet
            (net(0.45, 0.45, steady=0.5, others=(0.1,), spread=0.3), "undecided"),
        ],
    }
)


# ---- the measuring ----


@pytest.fixture(scope="module")
def world():
    return list(Toyland(seed=0).sentences("train", 60))


def test_words_are_named_by_what_they_are_aligned_with(world):
    lexicon = Lexicon(world)
    texts = lexicon.texts(world)
    english = {number: word for word, number in lexicon.english.items()}
    german = {number: word for word, number in lexicon.german.items()}
    for row, sentence in enumerate(world):
        for place, word in enumerate(as_read(sentence)):
            assert english[int(texts.english[row, place])] == word
            first = [at for here, at in sentence.alignment if here == place][:1]
            found = int(texts.german[row, place])
            assert (found == IGNORE) == (not first)
            if first:
                assert german[found] == sentence.german[min(first)].lower()
        assert not texts.mask[row, len(sentence.english) :].any()


def test_verbs_are_read_without_number(world):
    for sentence in world:
        verbs = {verb for verb, _ in sentence.subjects}
        for place, (word, read) in enumerate(zip(sentence.english, as_read(sentence), strict=True)):
            if place not in verbs:
                assert read == word.lower()
            else:
                assert read not in ("is", "are", "am", "has", "does", "was", "sleeps", "likes")


def test_links_leave_out_subjects_right_before(world):
    texts = Lexicon(world).texts(world)
    found = {tuple(link) for link in texts.links("subject").tolist()}
    for row, sentence in enumerate(world):
        for verb, head in sentence.subjects:
            assert ((row, verb, head) in found) == (abs(verb - head) >= 2)
    count = sum(len(sentence.antecedents) for sentence in world)
    assert len(texts.links("antecedent")) == count > 0


def test_meeting_links():
    looks = torch.eye(4)[[0, 0, 1, 1]][None]  # each word at one word
    found = torch.tensor([[0, 1, 0], [0, 2, 0], [0, 3, 1]])
    assert meets(looks, found) == pytest.approx(2 / 3)
    assert best_offset(found) == -2
    assert fixed_offset(looks, torch.ones(1, 4, dtype=torch.bool)) == pytest.approx(0.5)
    assert fixed_offset(torch.eye(4)[None], torch.ones(1, 4, dtype=torch.bool)) == 0.0  # itself
    mask = torch.tensor([[True, True, True, False]])
    assert fixed_offset(looks, mask) == pytest.approx(2 / 3)  # padding does not count


def test_roles():
    (found,) = net(subject=0.44, pronoun=0.8, steady=0.7, others=(0.1,), spread=0.0)[:1]
    assert roles(found) == [True, True, *[False] * 6]


def test_split_of_values():
    layer = SelfAttention(WIDTH, 2)
    with torch.no_grad():
        value = layer.qkv.weight[2 * WIDTH :].unflatten(0, (2, -1))
        value.zero_()
        value[0, :, :FEATURES] = 1.0
        value[1, :, FEATURES : 2 * FEATURES] = 1.0
        assert split(layer) == 1.0
        value[:, :, : 2 * FEATURES] = 1.0
        assert split(layer) == 0.0


def test_features_have_two_scales():
    x = features(4000, torch.Generator().manual_seed(0))
    assert float(x[..., :FEATURES].std()) == pytest.approx(3.0, rel=0.05)
    assert float(x[..., FEATURES : 2 * FEATURES].std()) == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_word_is_hidden(language):
    spoken = LANGUAGES[language]
    hidden, wanted = three_words_claim._hidden(spoken, 100, torch.Generator().manual_seed(0))
    asked = wanted != IGNORE
    assert (asked.sum(dim=1) == 1).all()
    assert (hidden[asked] == 0).all()
    whole = torch.where(asked, wanted, hidden)
    assert {tuple(VOCABULARY[i] for i in row) for row in whole.tolist()} <= set(spoken)


def test_what_the_languages_allow():
    """A hidden name: one of two, of two, of four. With "was", "I" and "he" are alike."""
    told = [possible(spoken) for spoken in LANGUAGES.values()]
    assert told == pytest.approx(
        [(1 + 1 + 1 / 2) / 3, (3 / 4 + 1 + 1 / 2) / 3, (1 + 1 + 1 / 4) / 3]
    )
    for spoken in LANGUAGES.values():
        assert {sentence[:2] for sentence in spoken} >= {("I", "am")}


def test_strongest_link_is_to_another_word():
    pattern = torch.tensor([[0.8, 0.15, 0.05], [0.3, 0.3, 0.4], [0.2, 0.1, 0.7]])
    assert strongest(pattern, 0, 1)
    assert strongest(pattern, 2, 0)
    assert not strongest(pattern, 1, 0)


# ---- quick runs ----


@pytest.mark.slow
def test_head_links_quick():
    found = quick_data(links)
    seen = found["example"]
    drawn = links.draw([found])
    assert len(drawn.heats) == len(RELATIONS) + 1
    assert all(np.allclose(heat.values, each)
               for heat, each in zip(drawn.heats, seen["maps"], strict=False))  # fmt: skip
    assert all(np.allclose(np.sum(each, axis=1), 1, atol=1e-4) for each in seen["maps"])
    assert drawn.heats[0].frames == tuple(map(tuple, seen["subject"]))
    shares = np.array([found[name]["share"] for name in RELATIONS]).T
    assert np.allclose(drawn.heats[-1].values[:-1], shares)
    assert shares.shape == (LAYERS * HEADS, len(RELATIONS))


@pytest.mark.slow
def test_coarse_and_fine_quick():
    found = quick_data(coarse_fine)
    drawn = coarse_fine.draw([found])
    wanted = [found[name][key] for name in BACK for key in ("before", "after")]
    assert np.allclose(drawn.values, wanted)


@pytest.mark.slow
def test_three_words_quick():
    found = quick_data(three_words)
    other = {language: {**each, "map": (3 * np.array(each["map"])).tolist()}
             for language, each in found.items()}  # fmt: skip
    drawn = three_words.draw([found, other])
    for heat, each in zip(drawn.heats, found.values(), strict=True):
        assert np.allclose(heat.values, 2 * np.array(each["map"]))
