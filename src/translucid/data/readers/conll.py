"""Read CoNLL files, in which each line contains one word and its annotations in columns, and a
blank line ends a sentence.

The layout is recognised from the first sentence: two columns (word, tag), the four of CoNLL-2003,
the ten of Universal Dependencies, and others.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from translucid.core.errors import ConfigError, InputError, nearest
from translucid.data.readers.lines import DEFAULT, LineRule, read_lines
from translucid.data.readers.loading import Loading
from translucid.data.readers.tables import Column
from translucid.data.records import Tagged

# https://universaldependencies.org/format.html
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_ID = re.compile(r"\d+([-.]\d+)?")
_SPAN = re.compile(r"O|[BIESULM]-\S+")
_DECLARED = re.compile(r"#\s*global\.columns\s*=\s*(.+)")  # CoNLL-U Plus names its columns


@dataclass(frozen=True)
class ConllLayout:
    """The layout of a CoNLL file: the names of its columns, and the numbers of the columns with the
    words and the tags, counted from 1."""

    name: str
    columns: tuple[str, ...] = ()  # empty: the columns have no names
    words: int = 1
    tags: int | None = None  # None: there is no such column, or it is not known
    width: int = 0

    def place(self, column: Column, role: str, path: str | Path) -> int:
        """The number of a column that the user chose by number or name."""
        if isinstance(column, int):
            if column < 1:
                raise ConfigError(
                    f"{role} = {column}: columns are counted from 1; use 1 for the first column"
                )
            return column
        if not self.columns:
            raise ConfigError(
                f"{path}: {role} = {column!r}: the columns of this file have no known names; "
                f"choose by number, from 1 to {self.width}"
            )
        if column.lower() not in self.columns:
            close = nearest(column.lower(), self.columns, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(
                f"{path}: {role} = {column!r}: there is no such column; the columns of "
                f"{self.name} are {', '.join(self.columns)}{hint}"
            )
        return self.columns.index(column.lower()) + 1

    def title(self, number: int) -> str:
        """The name of a column in messages."""
        known = number <= len(self.columns)
        return f"column {number}" + (f" ({self.columns[number - 1]!r})" if known else "")


def declared_columns(comment: str) -> tuple[str, ...]:
    """The column names that a CoNLL-U Plus comment declares; empty for other comments."""
    match = _DECLARED.fullmatch(comment.strip())
    return tuple(match[1].lower().split()) if match else ()


def recognise(
    rows: Sequence[Sequence[str]], path: str | Path, declared: Sequence[str] = ()
) -> ConllLayout:
    """Recognise the layout of a file from the rows of its first sentence."""
    width = len(rows[0])
    if declared:
        places = {name: number for number, name in enumerate(declared, start=1)}
        return ConllLayout(
            "CoNLL-U Plus", tuple(declared), places.get("form", 1), places.get("upos"), width
        )
    numbered = all(_ID.fullmatch(row[0]) for row in rows)
    if numbered and (width == len(CONLLU) or (_is_conllu(path) and 2 <= width < len(CONLLU))):
        return ConllLayout("CoNLL-U", CONLLU[:width], 2, 4 if width >= 4 else None, width)
    if width == 1:
        return ConllLayout("one column", ("word",), 1, None, width)
    if width == 2:
        return ConllLayout("two columns", ("word", "tag"), 1, 2, width)
    if not _spans(rows, width):
        return ConllLayout(f"{width} columns", width=width)
    chunks = _spans(rows, width - 1)
    if chunks and width == 4:
        return ConllLayout("CoNLL-2003", ("word", "pos", "chunk", "ner"), 1, 4, width)
    if chunks and width == 5:
        return ConllLayout("CoNLL-2003 (de)", ("word", "lemma", "pos", "chunk", "ner"), 1, 5, width)
    if width == 3 and not chunks:
        return ConllLayout("three columns", ("word", "pos", "tag"), 1, 3, width)
    return ConllLayout(f"{width} columns", width=width)


def _is_conllu(path: str | Path) -> bool:
    return ".conllu" in Path(path).suffixes


def _spans(rows: Sequence[Sequence[str]], number: int) -> bool:
    """Whether all cells of a column are tags of chunks or entities: B-, I- or O."""
    return all(len(row) >= number and _SPAN.fullmatch(row[number - 1]) for row in rows)


COMMENT = "# "  # not "#" alone, since hashtags begin with it
DOCUMENT = "-DOCSTART-"
_NO_WORD = re.compile(r"\d+[-.]\d+")  # UD: 1-2 is a multiword range, 1.1 an empty node


@dataclass(frozen=True)
class ConllSentence:
    """The lines between two blank lines, with the words and tags that they contain."""

    lines: tuple[str, ...]
    places: tuple[int, ...]  # indexes of the lines with words
    words: tuple[str, ...]
    tags: tuple[str, ...]  # empty if tags are not read
    line: int  # line number of the first word, or of the first line if there are no words
    layout: ConllLayout


def read_conll(
    path: str | Path,
    *,
    words: Column | None = None,
    tags: Column | None = None,
    rule: LineRule = DEFAULT,
    loading: Loading | None = None,
) -> Iterator[Tagged]:
    """Read tagged sentences. words, tags: the columns, by number (from 1) or by name. By default,
    they are those of the recognised layout, and a note in `loading` names this layout."""
    loading = loading if loading is not None else Loading()
    loading.file = loading.file or str(path)
    for sentence in read_sentences(path, words=words, tags=tags, rule=rule, loading=loading):
        if sentence.words:
            loading.records += 1
            yield Tagged(sentence.words, sentence.tags, sentence.line)
    if not loading.records:
        raise InputError(f"{path} contains no sentence, only blank lines or comments")


def read_sentences(
    path: str | Path,
    *,
    words: Column | None = None,
    tags: Column | None = None,
    tagged: bool = True,
    rule: LineRule = DEFAULT,
    loading: Loading,
) -> Iterator[ConllSentence]:
    """Yield every block of lines between blank lines, even if it has no words. tagged: whether to
    read tags.

    Columns are separated by tabs, or by spaces in lines without tabs. If the words are not in the
    first column, lines with a range such as 3-4 in the first column are skipped.
    """
    columns: _Columns | None = None
    declared: tuple[str, ...] = ()
    for block in _blocks(path, rule, loading):
        rows: list[tuple[int, int, list[str]]] = []  # index in the block, line number, cells
        for place, (line, text) in enumerate(block):
            if text is None:
                continue
            if text.startswith(COMMENT):
                loading.leave_out("comment", line)
                declared = declared or declared_columns(text)
                continue
            cells = text.split("\t") if "\t" in text else text.split()
            if cells[0].strip() == DOCUMENT:
                loading.leave_out("document mark", line)
            else:
                rows.append((place, line, cells))
        if columns is None and rows:
            layout = recognise([cells for _, _, cells in rows], path, declared)
            columns = _Columns.choose(layout, words, tags, path, rows[0][2], tagged, loading)
        # A line of the block was too long, so its words are not read.
        spoilt = any(text is None for _, text in block)
        kept = [] if columns is None or spoilt else columns.words_of(rows, path, loading)
        yield ConllSentence(
            tuple(text for _, text in block if text is not None),
            tuple(place for place, _, _, _ in kept),
            tuple(word for _, _, word, _ in kept),
            tuple(tag for _, _, _, tag in kept) if tagged else (),
            kept[0][1] if kept else block[0][0],
            columns.layout if columns is not None else ConllLayout("no columns"),
        )


def _blocks(
    path: str | Path, rule: LineRule, loading: Loading
) -> Iterator[list[tuple[int, str | None]]]:
    """Yield the numbered lines between two blank lines. The text of a line that was too long is
    None."""
    block: list[tuple[int, str | None]] = []
    for line, text in read_lines(path, rule, loading=loading):
        if text is None or text.strip():
            block.append((line, text))
        elif block:
            yield block
            block = []
    if block:
        yield block


@dataclass
class _Columns:
    """The numbers of the columns with the words and the tags, from 1. If `tag` is 0, tags are not
    read."""

    layout: ConllLayout
    word: int
    tag: int
    shown: bool = False

    @classmethod
    def choose(
        cls,
        layout: ConllLayout,
        words: Column | None,
        tags: Column | None,
        path: str | Path,
        example: list[str],
        tagged: bool,
        loading: Loading,
    ) -> "_Columns":
        expected = loading.expected
        words = words if words is not None else _there(layout, expected.get("words"))
        tags = tags if tags is not None else _there(layout, expected.get("tags"))
        word = layout.words if words is None else layout.place(words, "words", path)
        if not tagged:
            return cls(layout, word, 0)
        tag = layout.tags if tags is None else layout.place(tags, "tags", path)
        if tag is None:
            raise InputError(
                f"{path}: which column holds the tags? Lines have {layout.width} "
                f"column{'' if layout.width == 1 else 's'}, such as {' | '.join(example)!r:.80}, "
                "and the layout is unknown; choose a column, such as data.tags_column=2"
            )
        return cls(layout, word, tag)

    def words_of(
        self, rows: list[tuple[int, int, list[str]]], path: str | Path, loading: Loading
    ) -> list[tuple[int, int, str, str]]:
        """For every word, the index of its line in the block, its line number, the word and its
        tag."""
        kept = []
        for place, line, cells in rows:
            if self.word > 1 and _NO_WORD.fullmatch(cells[0]):
                loading.leave_out("range or empty node", line)
                continue
            word, tag = _word(cells, self.word, self.tag, f"{path}:{line}")
            if not self.shown:
                self._note(cells, line, word, tag, loading)
            kept.append((place, line, word, tag))
        return kept

    def _note(self, cells: list[str], line: int, word: str, tag: str, loading: Loading) -> None:
        self.shown = True
        roles = {"words": (self.word, word)} | ({"tags": (self.tag, tag)} if self.tag else {})
        taken = ", ".join(f"{role} = {self.layout.title(n)}" for role, (n, _) in roles.items())
        gives = ", ".join(f"{role} = {value!r}" for role, (_, value) in roles.items())
        loading.notes.append(
            f"{self.layout.name}: {taken}; line {line}, {' | '.join(cells)!r:.80}, gives {gives} "
            "(data.words_column, data.tags_column)"
        )
        names = self.layout.columns
        loading.columns |= {
            role: names[n - 1] if n <= len(names) else n for role, (n, _) in roles.items()
        }


def _there(layout: ConllLayout, column: object) -> Column | None:
    """The column that was used in training if this file has it; otherwise None."""
    if isinstance(column, int):
        return column if column <= layout.width else None
    return column if isinstance(column, str) and column in layout.columns else None


def _word(cells: list[str], words: int, tags: int, where: str) -> tuple[str, str]:
    if len(cells) < max(words, tags):
        role, column = max(("words", words), ("tags", tags), key=lambda pair: pair[1])
        raise InputError(
            f"{where}: the {role} should be in column {column}, but this line has {len(cells)} "
            f"column{'' if len(cells) == 1 else 's'}: {' | '.join(cells)!r:.80}; choose different "
            "columns, or put a blank line between sentences"
        )
    word, tag = cells[words - 1].strip(), cells[tags - 1].strip() if tags else ""
    if not word or (tags and not tag):
        role, column = ("word", words) if not word else ("tag", tags)
        raise InputError(
            f"{where}: column {column} is empty, but must contain the {role}; fill it in, or "
            "remove the line"
        )
    return word, tag
