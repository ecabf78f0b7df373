"""Read users' files as records, one function per kind of task.

Every reader is a generator that fills in the report `loading`. After the last record,
`loading.lines()` returns the lines to print. Errors are InputErrors that name file and line.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from translucid.core.errors import InputError
from translucid.data.readers.cells import as_label, as_list, as_number, as_text, is_number
from translucid.data.readers.columns import Places, cell, note_rows, open_rows, read_columns
from translucid.data.readers.conll import read_conll
from translucid.data.readers.lines import DEFAULT, LineRule, read_lines
from translucid.data.readers.loading import AUTO, Loading, WithLabel, has_no_label, with_label
from translucid.data.readers.quantities import as_number as in_any_notation
from translucid.data.readers.quantities import notation_of, text_of
from translucid.data.readers.tables import (
    AUTOMATIC,
    Column,
    Decimal,
    Table,
    TableRule,
    format_of,
)
from translucid.data.records import (
    Header,
    Labelled,
    Pair,
    SimilarPair,
    TableRow,
    Tagged,
    Text,
)

FIRST = 12  # cells of a row in a message


def read_text(
    path: str | Path,
    *,
    column: Column | None = None,
    unit: Literal["line", "paragraph", "file"] = "line",
    keep_empty: bool = False,
    rule: TableRule = AUTOMATIC,
    loading: Loading | None = None,
) -> Iterator[Text]:
    """Read texts, for language models and for predictions.

    unit: what becomes one record of a plain file: a line, the lines between blank lines, or the
    whole file. keep_empty: every line gives a record; the record of a line that is too long is
    empty, and such lines are counted.
    """
    loading = _begin(loading, path)
    if column is None and (rule.format or format_of(path, "text")) == "text":
        if unit != "line":
            yield from _read_units(path, unit, rule.lines, loading)
            return
        for line, text in read_lines(path, rule.lines, loading=loading, may_be_empty=keep_empty):
            if keep_empty or (text is not None and text.strip()):
                loading.records += 1
                yield Text(text or "", line)
            elif text is not None:
                loading.leave_out("empty", line)
    else:
        for line, cells in read_columns(path, {"text": column}, rule, loading, keep_empty):
            text = as_text(cells[0], f"{path}:{line}: text") if cells else ""
            if keep_empty or text.strip():
                loading.records += 1
                yield Text(text, line)
            else:
                loading.leave_out("empty", line)


def _read_units(
    path: str | Path, unit: Literal["paragraph", "file"], rule: LineRule, loading: Loading
) -> Iterator[Text]:
    held: list[str] = []
    start = 1
    for line, text in read_lines(path, rule, loading=loading):
        if text is None:
            continue
        if unit == "paragraph" and not text.strip():
            if held:
                loading.records += 1
                yield Text("\n".join(held), start)
            held = []
        else:
            start = start if held else line
            held.append(text)
    if held:
        loading.records += 1
        yield Text("\n".join(held), start)


def read_labelled(
    path: str | Path,
    *,
    text: Column | None = None,
    label: Column | None = None,
    rule: TableRule = AUTOMATIC,
    missing: Collection[str] = AUTO,
    loading: Loading | None = None,
) -> Iterator[Labelled]:
    """Read texts with labels. If a table has two columns without names, the label column is the one
    whose values repeat. missing: the labels that mean "no label", or AUTO for words such as n/a."""
    loading = _begin(loading, path)
    records: list[Labelled] = []
    for line, cells in read_columns(path, {"label": label, "text": text}, rule, loading):
        if isinstance(cells[1], str) and not cells[1].strip():
            loading.leave_out("empty", line)
        elif has_no_label(cells[0]):
            loading.leave_out("no label", line)
        else:
            asked = as_text(cells[1], f"{path}:{line}: text")
            records.append(Labelled(asked, as_label(cells[0], f"{path}:{line}: label"), line))
    question = "are these the right columns for label and text?"
    yield from _counted(records, missing, path, loading, question)


def read_pairs(
    path: str | Path,
    *,
    source: Column | None = None,
    target: Column | None = None,
    rule: TableRule = AUTOMATIC,
    loading: Loading | None = None,
    keep_empty: bool = False,
) -> Iterator[Pair]:
    """Read sentence pairs from one table. If a table has two columns without names, the first is
    the source. keep_empty: keep pairs in which a cell is empty."""
    loading = _begin(loading, path)
    for line, cells in read_columns(path, {"source": source, "target": target}, rule, loading):
        pair = Pair(
            as_text(cells[0], f"{path}:{line}: source"),
            as_text(cells[1], f"{path}:{line}: target"),
            line,
        )
        if not keep_empty and not (pair.source.strip() and pair.target.strip()):
            loading.leave_out("empty", line)
            continue
        loading.records += 1
        yield pair


def read_parallel(
    source: str | Path,
    target: str | Path,
    *,
    rule: LineRule = DEFAULT,
    loading: Loading | None = None,
) -> Iterator[Pair]:
    """Read sentence pairs from two files, in which lines with the same number belong together. If
    one line of a pair is empty or too long, the pair is skipped."""
    loading = _begin(loading, f"{source} + {target}")
    if Path(source).is_file() and Path(target).is_file() and Path(source).samefile(target):
        raise InputError(
            f"{source} and {target} are the same file, so every line would be its own translation; "
            "pass the file in the other language (to train a model that copies, copy the file)"
        )
    counts = [0, 0]
    extra = ""  # the first line without a counterpart
    for a, b in zip_longest(read_lines(source, rule), read_lines(target, rule)):
        counts = [n if side is None else side[0] for n, side in zip(counts, (a, b), strict=True)]
        if a is None or b is None:
            text = (a or b or (0, None))[1]
            extra = extra or repr((text or "(a long line)")[:60])
            continue
        line, first, second = a[0], a[1], b[1]
        if first is None or second is None:
            loading.leave_out("too long", line)
            continue
        if not first.strip() or not second.strip():
            loading.leave_out("empty", line)
            continue
        loading.records += 1
        yield Pair(first, second, line)
    if counts[0] != counts[1]:
        few = min(counts)
        short, long = (source, target) if counts[0] == few else (target, source)
        raise InputError(
            f"{source} has {counts[0]:,} lines, but {target} has {counts[1]:,}: {short} ends after "
            f"line {few}, but {long}:{few + 1} continues with {extra}; line n of one file must be "
            "the translation of line n of the other"
        )


def read_similar(
    path: str | Path,
    *,
    source: Column | None = None,
    target: Column | None = None,
    score: Column | None = None,
    rule: TableRule = AUTOMATIC,
    loading: Loading | None = None,
) -> Iterator[SimilarPair]:
    """Read pairs of texts. If the table has a column of scores, each pair has the similarity in
    this column; otherwise, the two texts of a pair have the same meaning."""
    loading = _begin(loading, path)
    wanted = {"source": source, "target": target} | ({} if score is None else {"score": score})
    usual = "score" if score is None else None
    for line, cells in read_columns(path, wanted, rule, loading, optional=usual):
        texts = [
            as_text(text, f"{path}:{line}: {role}")
            for role, text in zip(("source", "target"), cells, strict=False)
        ]
        if not all(text.strip() for text in texts):
            loading.leave_out("empty", line)
            continue
        where = f"{path}:{line}: score"
        alike = as_number(cells[2], where) if len(cells) > 2 else None
        if alike is not None and not -1 <= alike <= 1:
            raise InputError(
                f"{where} is {alike:g}, but scores must be between -1 and 1, since they are "
                "compared with a cosine; for example, divide scores from 0 to 5 by 5"
            )
        loading.records += 1
        yield SimilarPair(texts[0], texts[1], alike, line)


def read_tagged(
    path: str | Path,
    *,
    words: Column | None = None,
    tags: Column | None = None,
    rule: TableRule = AUTOMATIC,
    loading: Loading | None = None,
) -> Iterator[Tagged]:
    """Read sentences with one tag per word, from CoNLL files, or from JSON lines or Parquet with
    two columns of lists."""
    loading = _begin(loading, path)
    if (rule.format or format_of(path, "conll")) == "conll":
        yield from read_conll(path, words=words, tags=tags, rule=rule.lines, loading=loading)
        return
    for line, cells in read_columns(path, {"words": words, "tags": tags}, rule, loading):
        where = f"{path}:{line}"
        if isinstance(cells[0], str):
            raise InputError(
                f"{where}: the column of words contains a text, {cells[0]!r:.60}; expected a list "
                "of words, as in JSON lines; if each line of the file has one word and its tag, "
                "name it .conll or set data.format=conll"
            )
        sentence = tuple(
            as_text(w, f"{where}: words") for w in as_list(cells[0], f"{where}: words")
        )
        marks = tuple(as_label(t, f"{where}: tags") for t in as_list(cells[1], f"{where}: tags"))
        if len(sentence) != len(marks):
            raise InputError(
                f"{where}: the sentence has {len(sentence)} words, but {len(marks)} tags; give "
                "each word one tag"
            )
        if not sentence:
            loading.leave_out("empty", line)
            continue
        loading.records += 1
        yield Tagged(sentence, marks, line)


def read_rows(
    path: str | Path,
    *,
    inputs: Sequence[Column] | None = None,
    label: Column | None = None,
    ignored: Sequence[Column] = (),
    rule: TableRule = AUTOMATIC,
    missing: Collection[str] = AUTO,
    loading: Loading | None = None,
) -> Iterator[TableRow]:
    """Read rows with labels. By default, the label is the column with a usual name, or else the
    last, and all others are inputs. missing: the labels that mean "no label", or AUTO for words
    such as n/a."""
    loading = _begin(loading, path)
    wanted = None if label is None else [label]
    opened = open_rows(path, inputs, wanted, rule, loading, role="label", ignored=ignored)
    records: list[TableRow] = []
    for line, x, (answer,), header in _rows(path, opened, loading, "label"):
        if isinstance(answer, float) and answer.is_integer():
            answer = int(answer)
        if has_no_label(answer):
            loading.leave_out("no label", line)
        else:
            named = (as_label(answer, f"{path}:{line}: label"),)
            records.append(TableRow(x, named, line, header))
    question = "is data.label_column right? To predict a number, use the task regress"
    yield from _counted(records, missing, path, loading, question)


def read_numbers(
    path: str | Path,
    *,
    inputs: Sequence[Column] | None = None,
    targets: Sequence[Column] | None = None,
    ignored: Sequence[Column] = (),
    decimal: Decimal | None = None,
    rule: TableRule = AUTOMATIC,
    loading: Loading | None = None,
) -> Iterator[TableRow]:
    """Read rows with numeric outputs. By default, the last column is the output and all others are
    inputs. The first line is a header if none of its cells is a number. Rows without an output are
    left out. decimal: the decimal mark of the outputs; default: detect it."""
    loading = _begin(loading, path)
    opened = open_rows(path, inputs, targets, rule, loading, ignored=ignored)
    rows = []
    for line, x, y, header in _rows(path, opened, loading, "output"):
        if any(text_of(value) is None for value in y):
            loading.leave_out("no output", line)
        else:
            rows.append((line, x, y, header))
    titles = [opened[0].title(place) for place in opened[2]]
    columns = [
        _numbers(path, title, [(line, y[n]) for line, _, y, _ in rows], decimal, loading)
        for n, title in enumerate(titles)
    ]
    for (line, x, _, header), numbers in zip(rows, zip(*columns, strict=True), strict=True):
        loading.records += 1
        yield TableRow(x, numbers, line, header)


def _numbers(
    path: str | Path,
    title: str,
    cells: Sequence[tuple[int, object]],
    decimal: Decimal | None,
    loading: Loading,
) -> list[float]:
    """The numbers in an output column, which are all written in the same notation. cells: with
    their lines."""
    if decimal != "," and all(is_number(value) and "_" not in str(value) for _, value in cells):
        return [as_number(value, f"{path}:{line}: {title}") for line, value in cells]
    for line, value in cells:
        if not isinstance(value, str) or not in_any_notation(value.strip()):
            as_number(value, f"{path}:{line}: {title}")  # which explains what is wrong
    texts = [str(text_of(value)) for _, value in cells]
    try:
        notation = notation_of(texts, decimal)
    except ValueError as error:
        raise InputError(f"{path}: {title} {error}") from None
    if notation.unit or notation.decimal == ",":
        written = f"in {notation.unit}, " * bool(notation.unit)
        loading.notes.append(f"{title}: numbers {written}with decimal mark {notation.decimal!r}")
    return [value for text in texts if (value := notation.read(text)) is not None]


def _counted(
    records: Sequence[WithLabel],
    missing: Collection[str],
    path: str | Path,
    loading: Loading,
    question: str,
) -> Iterator[WithLabel]:
    """Yield and count the records that have a label. question: asked if most labels differ."""
    for record in with_label(records, missing, str(path), loading):
        loading.records += 1
        yield record
    labels = {record.label for record in records}
    if loading.records >= 20 and len(labels) > loading.records / 2:
        loading.notes.append(f"{len(labels):,} different labels: {question}")


def _rows(
    path: str | Path, opened: tuple[Table, Places, Places], loading: Loading, role: str
) -> Iterator[tuple[int, tuple[object, ...], tuple[object, ...], Header]]:
    """Yield the line, inputs and targets of each row, and the header, which is the same for all
    rows. Blank lines are counted and skipped."""
    table, places_x, places_y = opened
    header = Header(str(path), tuple(table.column(place) for place in places_x))
    shown = False
    for line, row in table.rows:
        if not row:
            if row is not None:
                loading.leave_out("empty", line)
            continue
        x, y = (tuple(cell(table, p, line, row) for p in places) for places in (places_x, places_y))
        if not shown:
            gives = f"line {line} gives {_shown(x)} and {_shown(y)}"
            note_rows(table, places_x, places_y, gives, loading, role)
            shown = True
        yield line, x, y, header


def _shown(cells: Sequence[object]) -> str:
    """The first cells of a row for a message."""
    shown = [f"{value:.40}" if isinstance(value, str) else repr(value) for value in cells[:FIRST]]
    return f"({', '.join(shown)}{', ...' if len(cells) > FIRST else ''})"


def _begin(loading: Loading | None, file: str | Path) -> Loading:
    loading = loading if loading is not None else Loading()
    loading.file = str(file)
    return loading
