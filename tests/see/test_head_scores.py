"""`model.head_scores`: how often each head's maximum is the gold position."""

from typing import Any

import pytest
from tests.see.small import pair

import translucid as tl
from translucid.core.errors import InputError
from translucid.data.toyland import Toyland
from translucid.see.head_scores import HeadScores, head_scores
from translucid.see.reading import read

TEXTS = ["the dog sees a cat .", "a cat and the bird sleep .", "the old bird sings ."]
LINKS = [[(2, 1), (4, 3)], [(5, 1)], [(3, 2), (2, 0)]]
GERMAN = ["der hund sieht eine katze .", "eine katze und der vogel schlafen .", "der vogel singt ."]
ALIGNED = [[(1, 1), (4, 4)], [(4, 4), (5, 5)], [(2, 1), (3, 2)]]


def scored(task: str, kind: str = "word", **keys: Any) -> HeadScores:
    made, network = pair(task, kind=kind, **keys)
    return head_scores(network, made, TEXTS, LINKS)


@pytest.mark.parametrize(
    ("task", "first", "part"),
    [
        ("classify", 1, "encoder.layers.{}.self_attention"),
        ("tag", 0, "encoder.layers.{}.self_attention"),
        ("translate", 0, "encoder.layers.{}.self_attention"),
        ("language", 1, "decoder.layers.{}.self_attention"),
    ],
)
def test_fractions_equal_a_count_over_single_cells(task: str, first: int, part: str) -> None:
    """With one token per word. first: the number of special tokens before the text."""
    made, network = pair(task)
    result = scored(task)
    target = "der" if task == "translate" else None
    for layer in range(2):
        for head in range(2):
            hits = 0
            for text, links in zip(TEXTS, LINKS, strict=True):
                trace = read(network, made, text, target)
                cells = trace[f"{part.format(layer)}.pattern"][0, head].tolist()
                hits += sum(
                    all(cells[first + word][first + gold] >= other for other in cells[first + word])
                    for word, gold in links
                )
            assert result.heads[part.format(layer)][head] == hits / 5
    assert result.links == 5
    assert len(result.heads) == 2
    assert result.previous == 3 / 5
    assert (result.offset, result.at_offset) == (-1, 3 / 5)


def test_cross_attention_is_scored_at_the_step_that_predicts_the_word() -> None:
    made, network = pair("translate")
    result = head_scores(network, made, TEXTS, ALIGNED, GERMAN)
    for layer in range(2):
        part = f"decoder.layers.{layer}.cross_attention"
        for head in range(2):
            hits = 0
            for text, target, links in zip(TEXTS, GERMAN, ALIGNED, strict=True):
                trace = read(network, made, text, target)
                # Row 0 reads the start token and predicts the first word.
                rows = trace[f"{part}.pattern"][0, head].argmax(dim=-1).tolist()
                hits += sum(rows[word] == source for source, word in links)
            assert result.heads[part][head] == hits / 6
    assert result.previous == 4 / 6  # the same position


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_any_token_of_the_gold_word_counts(kind: str) -> None:
    """By hand on the spelling: a query is the last token of its word."""
    made, network = pair("language", kind=kind)
    result = head_scores(network, made, TEXTS, LINKS)
    hits = 0
    for text, links in zip(TEXTS, LINKS, strict=True):
        trace = read(network, made, text)
        rows = trace["decoder.layers.1.self_attention.pattern"][0, 0].argmax(dim=-1).tolist()
        word_of, place = [None], 0
        pieces = made.tokenizer.pieces(made.tokenizer.encode(text))
        for piece in pieces:
            place += len(piece)
            spaces = text[:place].count(" ")
            word_of.append(None if piece == " " else spaces)
        for word, gold in links:
            query = max(n for n, of in enumerate(word_of) if of == word)
            hits += word_of[rows[query]] == gold
    assert "".join(pieces) == text
    assert result.heads["decoder.layers.1.self_attention"][0] == hits / 5


def test_a_list_of_words_sets_the_words() -> None:
    made, network = pair("tag")
    words = [text.split() for text in TEXTS]
    assert head_scores(network, made, words, LINKS) == scored("tag")


def test_words_of_toyland_are_the_words_of_the_links() -> None:
    """The trained translator's cross-attention finds most aligned words, a fixed offset half."""
    model = tl.load("demo:translate")
    sentences = list(Toyland().sentences("test", 40))
    pairs = [[link for link in one.alignment if one.english[link[0]].isalpha()]
             for one in sentences]  # fmt: skip
    sources, targets = ([getattr(one, side) for one in sentences] for side in ("source", "target"))
    result = model.head_scores(sources, pairs, targets)
    assert result.links == sum(map(len, pairs))
    assert result.best[2] > result.at_offset + 0.1
    assert f"{result.best[0]}, head {result.best[1]}" in str(result)
    assert f"{result.best[2]:.3f}" in str(result)


def test_texts_without_links_do_not_change_the_scores() -> None:
    made, network = pair("tag")
    result = head_scores(network, made, [*TEXTS, "the dog ."], [*LINKS, []])
    assert result == scored("tag")


@pytest.mark.parametrize(
    ("texts", "links", "targets", "message"),
    [
        (TEXTS, LINKS[:2], None, "3 texts, 2 lists of links"),
        (TEXTS, [[], [], []], None, "no links"),
        (TEXTS[:1], [[(2, 9)]], None, r"text 1: has words 0 to 5, but a link names word 9"),
        (TEXTS[:1], [[(0, 0)]], GERMAN, "3 targets"),
    ],
)
def test_links_that_do_not_fit_are_refused(
    texts: Any, links: Any, targets: Any, message: str
) -> None:
    made, network = pair("translate")
    with pytest.raises(InputError, match=message):
        head_scores(network, made, texts, links, targets)


def test_a_model_without_the_attention_in_question_is_refused() -> None:
    made, network = pair("tag", "gru")
    with pytest.raises(InputError, match="no attention heads"):
        head_scores(network, made, TEXTS, LINKS)
    made, network = pair("translate", "gru")
    with pytest.raises(InputError, match="no heads of self-attention"):
        head_scores(network, made, TEXTS, LINKS)
