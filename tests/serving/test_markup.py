"""HTML around translations: texts are found, and markup survives whatever the words do."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translucid.serving.markup import Alignment, Segment, joined, split, translate_html


def unchanged(texts: list[str]) -> list[tuple[str, Alignment]]:
    """A translation that keeps every word."""
    return [(text, [[i] for i in range(len(text.split()))]) for text in texts]


def reversed_words(texts: list[str]) -> list[tuple[str, Alignment]]:
    """A translation that reverses the words and writes them in capitals."""
    result: list[tuple[str, Alignment]] = []
    for text in texts:
        words = text.split()
        aligned = [[len(words) - 1 - i] for i in range(len(words))]
        result.append((" ".join(reversed(words)).upper(), aligned))
    return result


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("one <b>two</b> three", "THREE <b>TWO</b> ONE"),
        ("<p>one two</p><p>three</p>", "<p>TWO ONE</p><p>THREE</p>"),
        ("<b>one <i>two</i></b> three", "THREE <b><i>TWO</i> ONE</b>"),
        ("one<br>two", "ONE<br>TWO"),
        ("<a href='x'>one</a> &amp; two", "TWO &amp; <a href='x'>ONE</a>"),
        ("<code>one two</code> three four", "<code>one two</code> FOUR THREE"),
        (" one two <!-- c -->", " TWO ONE <!-- c -->"),
        ("<b>one two</b>", "<b>TWO ONE</b>"),
        ("un<b>do</b> it", "IT <b>UNDO</b>"),
        ("", ""),
        ("<script>1 < 2</script>", "<script>1 < 2</script>"),
    ],
)
def test_markup_follows_its_words(html: str, expected: str) -> None:
    assert translate_html([html], reversed_words) == [expected]


def test_texts_of_several_documents_are_translated_together() -> None:
    calls: list[list[str]] = []

    def translate(texts: list[str]) -> list[tuple[str, Alignment]]:
        calls.append(texts)
        return unchanged(texts)

    assert translate_html(["<p>a</p>b", "c"], translate) == ["<p>a</p>b", "c"]
    assert calls == [["a", "b", "c"]]


WORDS = st.sampled_from(["one", "two", "three", "&amp;", "&lt;"])
INLINE = st.sampled_from(["b", "i", "a"])
HTML = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(" ".join),
        st.tuples(INLINE, inner).map(lambda pair: f"<{pair[0]}>{pair[1]}</{pair[0]}>"),
    ),
    max_leaves=8,
)


@given(HTML)
def test_a_translation_that_keeps_every_word_keeps_the_document(html: str) -> None:
    assert translate_html([html], unchanged) == [html]


@given(st.text(alphabet="<>/abi &;!-\"'= p", max_size=40))
def test_any_text_gives_well_formed_inline_elements(html: str) -> None:
    """Whatever the input, the inline elements of the result are closed in the right order."""
    for part, translated in zip(
        [one for one in split(html) if isinstance(one, Segment)],
        _segments(html), strict=False,
    ):  # fmt: skip
        assert _balanced(translated), (html, part)


def test_elements_whose_words_interleave_in_the_translation_are_nested() -> None:
    (segment,) = split("<b>one two</b> <i>three four</i>")
    assert isinstance(segment, Segment)
    translated = joined(segment, "1 3 2 4", [[0], [2], [1], [3]])
    assert _balanced(translated), translated
    assert re.sub("<.*?>", "", translated) == "1 3 2 4"


def _segments(html: str) -> list[str]:
    results: list[str] = []

    def translate(texts: list[str]) -> list[tuple[str, Alignment]]:
        return reversed_words(texts)

    translate_html([html], translate)
    for part in split(html):
        if isinstance(part, Segment):
            ((text, aligned),) = reversed_words([part.text])
            results.append(joined(part, text, aligned))
    return results


def _balanced(html: str) -> bool:
    stack: list[str] = []
    wrong: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Sequence[object]) -> None:
            stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if not stack or stack.pop() != tag:
                wrong.append(tag)

    Check().feed(re.sub(r"&\w*;?", "x", html))
    return not wrong and not stack
