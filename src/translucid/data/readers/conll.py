"""Sentences in columns, one word per line, a blank line between sentences.

The CoNLL family: two columns (word, tag), CoNLL-2003's four, or the ten of Universal Dependencies
(https://universaldependencies.org/format.html), whose words are 2 and whose tags are 4.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from translucid.data.readers.lines import DEFAULT, LineRule, read_lines
from translucid.data.readers.loading import Loading
from translucid.data.records import Tagged
from translucid.errors import ConfigError, InputError

COMMENT = "# "  # not "#" alone: in text from the web, words begin with it
_NO_WORD = re.compile(r"\d+[-.]\d+")  # UD: 1-2 is a multiword range, 1.1 an empty node


def read_conll(
    path: str | Path,
    *,
    words: int = 1,
    tags: int = 2,
    comments: bool = True,
    rule: LineRule = DEFAULT,
    loading: Loading | None = None,
) -> Iterator[Tagged]:
    """`words` and `tags` are column numbers, from 1 on. Columns are separated by tabs, or where a
    line has none by spaces. The id column of Universal Dependencies is only looked at when the
    words stand further right: in a column of words, 3-2 is a word.
    """
    for role, column in (("words", words), ("tags", tags)):
        if column < 1:
            raise ConfigError(f"{role} = {column}: columns are counted from 1")
    loading = loading if loading is not None else Loading()
    loading.file = loading.file or str(path)
    sentence: list[tuple[str, str]] = []
    start, spoilt = 0, False
    for line, text in read_lines(path, rule, loading=loading):
        if text is None:  # without one of its words, the sentence would be another one
            spoilt = True
        elif not text.strip():
            yield from _finish(sentence, start, spoilt, loading)
            sentence, spoilt = [], False
        elif comments and text.startswith(COMMENT):
            loading.leave_out("comment", line)
        else:
            cells = text.split("\t") if "\t" in text else text.split()
            if words > 1 and _NO_WORD.fullmatch(cells[0]):
                loading.leave_out("range or empty node", line)
                continue
            start = start if sentence else line
            sentence.append(_word(cells, words, tags, f"{path}:{line}"))
    yield from _finish(sentence, start, spoilt, loading)
    if not loading.records:
        raise InputError(f"{path}: there is no sentence in it, only blank lines or comments")


def _finish(
    sentence: list[tuple[str, str]], start: int, spoilt: bool, loading: Loading
) -> Iterator[Tagged]:
    if not sentence or spoilt:
        return
    if [word for word, _ in sentence] == ["-DOCSTART-"]:
        loading.leave_out("document mark", start)
        return
    loading.records += 1
    yield Tagged(tuple(w for w, _ in sentence), tuple(t for _, t in sentence), start)


def _word(cells: list[str], words: int, tags: int, where: str) -> tuple[str, str]:
    if len(cells) < max(words, tags):
        role, column = max(("words", words), ("tags", tags), key=lambda pair: pair[1])
        raise InputError(
            f"{where}: {role} = {column}, but the line has {len(cells)} "
            f"column{'' if len(cells) == 1 else 's'}: {' | '.join(cells)!r:.80}; choose other "
            "columns, or put a blank line between sentences"
        )
    word, tag = cells[words - 1].strip(), cells[tags - 1].strip()
    if not word or not tag:
        role, column = ("word", words) if not word else ("tag", tags)
        raise InputError(f"{where}: column {column} is empty, but a {role} is needed")
    return word, tag
