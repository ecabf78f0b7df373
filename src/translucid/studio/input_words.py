"""What the page needs to help with typing a text: the words that a model knows, and the places of a
text that it does not know. static/js/words.js offers replacements and completions."""

import re
from functools import lru_cache
from typing import Any

from translucid.core.errors import InputError
from translucid.data.spans import split_words
from translucid.studio.page_model import PageModel, as_opened
from translucid.studio.surveys import texts_of
from translucid.tasks.base import Task
from translucid.tasks.tag import Tag

TEXTS = 500  # number of texts whose words are offered
READ = 32  # maximum number of texts in a request
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def another_text(opened: PageModel, number: int) -> str:
    """One of the model's own texts without unknown words; a number beyond the last text wraps
    around to the first."""
    texts = known_texts(opened)
    if not texts:
        raise InputError("the model has no example texts")
    return as_opened(opened, texts[number % len(texts)])


@lru_cache(8)
def known_texts(opened: PageModel) -> list[str]:
    """Texts of the model's data that it reads without <unk>; empty if there is no such data."""
    task = opened.model.task
    try:
        return [text for text, _ in texts_of(opened, TEXTS)[0] if not unknown_places(task, text)]
    except InputError:  # its data is not here
        return []


def vocabulary(task: Task[Any, Any]) -> list[str]:
    """The tokens of the input's vocabulary that are whole words."""
    tokenizer = next(iter(task.vocabularies.values()), None)
    if tokenizer is None or tokenizer.unit == "character":
        return []
    pieces = tokenizer.pieces(i for i in range(len(tokenizer)) if i not in tokenizer.special_ids)
    begins = "" if tokenizer.unit == "word" else " "  # other pieces continue a word
    whole = [piece.strip() for piece in pieces if piece.startswith(begins)]
    return [word for word in whole if WORD.fullmatch(word)]


def unknown_places(task: Task[Any, Any], text: str) -> list[tuple[int, int]]:
    """The places of a text that the model reads as <unk>, with the space before them."""
    if not task.vocabularies:
        return []
    tokenizer = next(iter(task.vocabularies.values()))  # of the input
    if isinstance(task, Tag):
        places = split_words(text)
        ids, words = tokenizer.encode_words([text[first:last] for first, last in places])
        spans = [(i, places[word]) for i, word in zip(ids, words, strict=True) if word is not None]
    else:
        spans = [*zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)]
    return list(dict.fromkeys(span for i, span in spans if i == tokenizer.unk_id))


def in_units(text: str, place: tuple[int, int]) -> list[int]:
    """A place in a text, counted in UTF-16 units as in JavaScript."""
    return [len(text[:end].encode("utf-16-le", "surrogatepass")) // 2 for end in place]
