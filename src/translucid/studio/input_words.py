"""Help with typing a text: words that the model does not know, similar ones, and completions."""

import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import Any

from translucid.core.errors import InputError
from translucid.data.spans import split_words
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.studio.page_model import PageModel, as_opened
from translucid.studio.surveys import texts_of
from translucid.tasks.base import Task
from translucid.tasks.tag import Tag

TEXTS = 500  # number of texts whose words are offered
COMPLETIONS = 6
REPLACEMENTS = 4  # per unknown word
ALIKE = 0.65  # minimum similarity of the spelling
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@dataclass
class KnownWords:
    """Texts that a model reads without <unk>, and their words."""

    texts: list[str] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # adjacent words

    def between(self, before: str, after: str) -> list[str]:
        """Words that fit between two words: first those that both follow `before` and precede
        `after` in the texts, then those that do one of the two. In each group, the most frequent
        come first. An empty string is the end of a text."""
        pairs = [pair for pair, _ in self.pairs.most_common()]
        following = [second for first, second in pairs if second and first == before]
        preceding = [first for first, second in pairs if second == after]
        both = [word for word in following if word in set(preceding)]
        return list(dict.fromkeys(both + following + preceding))


def input_help(opened: PageModel, text: str, caret: int) -> dict[str, Any]:
    """The unknown parts of a text with replacements, and completions of the word at the caret.
    Positions are counted in UTF-16 units, as in JavaScript."""
    task, known = opened.model.task, known_words(opened)
    typed = re.search(r"[^\W\d_]+$", _first_units(text, caret))
    begun = typed[0] if typed else ""
    words = [word for word, _ in known.words.most_common()]
    fits = [word for word in words if begun and word.lower().startswith(begun.lower())]
    return {
        "begun": begun,
        "completions": [word for word in fits if word != begun][:COMPLETIONS],
        "unknown": [
            {
                "from": _units(text[:first]), "to": _units(text[:last]),
                "text": text[first:last].strip(),
                "replacements": _replacements(task, known, text, first, last),
            }
            for first, last in unknown_places(task, text)
        ],
    }  # fmt: skip


def another_text(opened: PageModel, number: int) -> str:
    """One of the model's own texts without unknown words; a number beyond the last text wraps
    around to the first."""
    texts = known_words(opened).texts
    if not texts:
        raise InputError("the model has no example texts")
    return as_opened(opened, texts[number % len(texts)])


@lru_cache(8)
def known_words(opened: PageModel) -> KnownWords:
    """The words of the model's data, or of its vocabulary if there is no such data."""
    task = opened.model.task
    try:
        texts = [text for text, _ in texts_of(opened, TEXTS)[0] if not unknown_places(task, text)]
    except InputError:  # its data is not here
        texts = []
    lines = [[*WORD.findall(text), ""] for text in texts]
    known = KnownWords(texts, Counter(), Counter(pair for line in lines for pair in pairwise(line)))
    known.words.update(word for line in lines for word in line if word)
    if not known.words and task.vocabularies:
        known.words.update(_vocabulary(next(iter(task.vocabularies.values()))))
    return known


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    """The tokens of the vocabulary that are whole words."""
    if tokenizer.unit == "character":
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


def _replacements(
    task: Task[Any, Any], known: KnownWords, text: str, first: int, last: int
) -> list[str]:
    """Replacements for a part of a text that the model reads as <unk>. The part, from `first` to
    `last`, includes the space before it, if any. The function tries the same part with the space
    removed or added, words with a similar spelling, and words with the same neighbour in the
    model's data. If none of them fits, the only replacement is an empty text."""
    piece = text[first:last].strip()
    gap = text[first:last][: -len(piece)] if piece else ""
    alike = get_close_matches(piece, known.words, REPLACEMENTS, ALIKE)
    alike += get_close_matches(piece.lower(), known.words, REPLACEMENTS, ALIKE)
    before, after = ["", *WORD.findall(text[:first])][-1], [*WORD.findall(text[last:]), ""][0]
    words = alike + (known.between(before, after) if WORD.fullmatch(piece) else [])
    words += ["."] if piece in ("!", "?", ";", ":") else []
    tried = dict.fromkeys([piece if gap else f" {piece}", *(gap + word for word in words)])
    most = len(unknown_places(task, text))

    def reads(new: str) -> bool:
        unknown = unknown_places(task, text[:first] + new + text[last:])
        inside = any(start < first + len(new) and end > first for start, end in unknown)
        return not inside and len(unknown) < most

    return [new for new in tried if reads(new)][:REPLACEMENTS] or [""]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _first_units(text: str, count: int) -> str:
    return text.encode("utf-16-le", "surrogatepass")[: 2 * count].decode("utf-16-le", "ignore")
