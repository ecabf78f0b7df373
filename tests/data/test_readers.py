"""Users' files as records: what is read, what is counted, and what each bad file is answered."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translucid.core.errors import ConfigError, InputError, TranslucidError
from translucid.data.readers.lines import LineRule
from translucid.data.readers.loading import Loading, check_labels
from translucid.data.readers.read import (
    read_labelled,
    read_numbers,
    read_pairs,
    read_parallel,
    read_tagged,
    read_text,
)
from translucid.data.readers.tables import TableRule
from translucid.data.records import Labelled, Pair, TableRow, Tagged, Text

Make = Callable[[str, str | bytes], Path]


# Plain text


def test_text_by_line(make: Make) -> None:
    loading = Loading()
    path = make("a.txt", "one\n\n  \ntwo\u2028three\n")
    records = list(read_text(path, loading=loading))
    assert records == [Text("one", 1), Text("two\u2028three", 4)]
    assert (loading.records, loading.left_out.get("empty", 0)) == (2, 2)
    assert loading.lines() == [
        f"{path}: 2 records",
        "  2 empty, left out (first: line 2)",
    ]


def test_keep_empty_gives_one_record_per_line(make: Make) -> None:
    path = make("a.txt", "\none\n\n" + "x" * 50 + "\n")
    rule = TableRule(lines=LineRule(20, "skip"))
    loading = Loading()
    records = list(read_text(path, keep_empty=True, rule=rule, loading=loading))
    assert records == [Text("", 1), Text("one", 2), Text("", 3), Text("", 4)]
    assert (
        loading.records,
        loading.left_out.get("empty", 0),
        loading.left_out.get("too long", 0),
    ) == (4, 0, 1)
    assert list(read_text(make("b", ""), keep_empty=True)) == []


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_keep_empty_gives_one_record_per_row(make: Make, suffix: str) -> None:
    csv = "text,n\na,1\n\n,2\n"
    jsonl = '{"text": "a"}\n\n{"text": ""}\n'
    records = read_text(make(f"a.{suffix}", csv if suffix == "csv" else jsonl), keep_empty=True)
    assert [record.text for record in records] == ["a", "", ""]


def test_text_by_paragraph_and_by_file(make: Make) -> None:
    path = make("a.txt", "\na\nb\n\n\nc\n")
    assert list(read_text(path, unit="paragraph")) == [Text("a\nb", 2), Text("c", 6)]
    assert list(read_text(path, unit="file")) == [Text("\na\nb\n\n\nc", 1)]


# Parallel files


def test_parallel_files(make: Make) -> None:
    de, en = make("t.de", "eins\n\u2028zwei\n\ndrei\n"), make("t.en", "one\ntwo\nempty\nthree\n")
    loading = Loading()
    assert list(read_parallel(de, en, loading=loading)) == [
        Pair("eins", "one", 1),
        Pair("\u2028zwei", "two", 2),
        Pair("drei", "three", 4),
    ]
    assert (loading.records, loading.left_out.get("empty", 0)) == (3, 1)


def test_a_pair_with_a_long_line_is_left_out(make: Make) -> None:
    de, en = make("t.de", "a\nbbbbbb\nc\ndddddd\n"), make("t.en", "A\nB\nC\nDDDDDD\n")
    loading = Loading()
    pairs = list(read_parallel(de, en, rule=LineRule(5, "skip"), loading=loading))
    assert [(p.source, p.target) for p in pairs] == [("a", "A"), ("c", "C")]
    assert loading.left_out.get("too long", 0) == 2


@pytest.mark.parametrize("swap", [False, True])
def test_unequal_files_are_refused(make: Make, swap: bool) -> None:
    short, long = make("s", "a\nb\n"), make("l", "1\n2\nthe third\n4\n5\n")
    files = (long, short) if swap else (short, long)
    counts = r"l has 5 lines, but .*s has 2" if swap else r"s has 2 lines, but .*l has 5"
    message = counts + r".*line 2.*l:3.*'the third'"
    with pytest.raises(InputError, match=message):
        list(read_parallel(*files))


@given(st.integers(1, 6), st.integers(1, 6))
def test_pairs_are_all_or_nothing(tmp_path_factory: pytest.TempPathFactory, n: int, m: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "a").write_text("x\n" * n)
    (folder / "b").write_text("y\n" * m)
    if n == m:
        assert len(list(read_parallel(folder / "a", folder / "b"))) == n
    else:
        with pytest.raises(InputError, match="ends after line"):
            list(read_parallel(folder / "a", folder / "b"))


# Labelled texts and pairs in tables

TWO = [Labelled("good film", "1", 1), Labelled("bad", "0", 2)]


def at(records: list[Labelled], *lines: int) -> list[Labelled]:
    return [Labelled(r.text, r.label, line) for r, line in zip(records, lines, strict=True)]


LABELLED: dict[str, tuple[str, str, dict[str, object], list[Labelled]]] = {
    "tsv": ("a.tsv", "1\tgood film\n0\tbad\n", {}, TWO),
    "tsv, told": ("a.tsv", "good film\t1\nbad\t0\n", {"text": 1, "label": 2}, TWO),
    "tsv, one told": ("a.tsv", "good film\t1\nbad\t0\n", {"label": 2}, TWO),
    "tsv, header": ("a.tsv", "sentence\tLabel\ngood film\t1\nbad\t0\n", {}, at(TWO, 2, 3)),
    "tsv, a label like a header": ("a.tsv", "question\tWhy?\nlabel\tNo.\n",
        {}, [Labelled("Why?", "question", 1), Labelled("No.", "label", 2)]),
    "tsv, blank lines": ("a.tsv", "\n1\tgood film\n  \n0\tbad\n\n", {}, at(TWO, 2, 4)),
    "csv by name": ("a.csv", "id,stars,words\n7,1,good film\n8,0,bad\n",
        {"text": "words", "label": "stars"}, at(TWO, 2, 3)),
    "csv told header": ("a.csv", "x,y\n1,good film\n0,bad\n",
        {"rule": TableRule(header=True), "label": 1, "text": 2}, at(TWO, 2, 3)),
    "csv told no header": ("a.csv", "label,text\n1,good\n",
        {"rule": TableRule(header=False), "label": 1, "text": 2},
        [Labelled("text", "label", 1), Labelled("good", "1", 2)]),
    "csv quoted": ("a.csv", 'label,text\r\n1,"good, ""really""\r\ngood"\r\n0,bad\r\n',
        {}, [Labelled('good, "really"\ngood', "1", 2), Labelled("bad", "0", 4)]),
    "csv with semicolons": ("a.csv", "1;good film\n0;bad\n",
        {"rule": TableRule(delimiter=";")}, TWO),
    "jsonl": ("a.jsonl",
        '{"label": 1, "text": "good film"}\n{"text": "bad", "label": "0", "more": [1]}\n', {}, TWO),
    "jsonl with true": ("a.jsonl", '{"y": true, "x": "\\u00e9"}\n',
        {"label": "y", "text": "x"}, [Labelled("é", "true", 1)]),
    "told format": ("a.dat", "1\tgood film\n0\tbad\n", {"rule": TableRule("tsv")}, TWO),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELLED)
def test_labelled(make: Make, case: str) -> None:
    name, content, options, expected = LABELLED[case]
    loading = Loading()
    assert list(read_labelled(make(name, content), loading=loading, **options)) == expected
    assert loading.records == len(expected)
    packed = make(name + ".gz", gzip.compress(content.encode()))
    assert list(read_labelled(packed, **options)) == expected


def test_the_report_names_header_and_columns(make: Make) -> None:
    loading = Loading()
    path = make("a.tsv", "label\ttext\n1\ta\n0\t\n\n")
    assert len(list(read_labelled(path, loading=loading))) == 1
    head, header, columns, empty = loading.lines()
    assert head == f"{path}: 1 record"
    assert "'label', 'text' (if it is data, set data.header=false" in header
    assert "label = column 1 ('label'), text = column 2 ('text'); line 2" in columns
    assert empty == "  2 empty, left out (first: line 3)"


def test_swapped_columns_are_noticed(make: Make) -> None:
    loading = Loading()
    path = make("a.tsv", "".join(f"text number {i}\t{i % 2}\n" for i in range(30)))
    list(read_labelled(path, label=1, text=2, loading=loading))
    assert "30 different labels" in "\n".join(loading.lines())


def test_pairs_in_a_table(make: Make) -> None:
    path = make("a.tsv", "Hund\tdog\nKatze\t\n")
    loading = Loading()
    assert list(read_pairs(path, loading=loading)) == [Pair("Hund", "dog", 1)]
    assert loading.left_out.get("empty", 0) == 1
    path = make("a.jsonl", '{"de": "Hund", "en": "dog"}\n')
    assert list(read_pairs(path, source="en", target="de")) == [Pair("dog", "Hund", 1)]


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_json_lines_keep_any_text(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "a.jsonl"
    lines = (json.dumps({"source": a, "target": b}, ensure_ascii=False) for a, b in pairs)
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    kept = [(a, b) for a, b in pairs if a.strip() and b.strip()]
    assert [(p.source, p.target) for p in read_pairs(path)] == kept


# Sentences in columns

UD = """\
# sent_id = 1
# text = Zum #1
1-2\tZum\t_\t_\n1\tzu\t_\tADP\n2\tdem\t_\tDET\n2.1\tleer\t_\tX\n3\t#1\t_\tNOUN

# sent_id = 2
1\t10 000\t_\tNUM
"""


def test_universal_dependencies(make: Make) -> None:
    loading = Loading()
    assert list(read_tagged(make("a.conllu", UD), words=2, tags=4, loading=loading)) == [
        Tagged(("zu", "dem", "#1"), ("ADP", "DET", "NOUN"), 4),
        Tagged(("10 000",), ("NUM",), 10),
    ]
    assert loading.lines()[2:] == [
        "  3 comment lines, skipped (first: line 1)",
        "  2 multiword ranges or empty nodes, skipped (first: line 3)",
    ]


def test_conll_with_spaces(make: Make) -> None:
    text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\n3-2 CD O\n#hash NN O\n\n\n\nEnd . O"
    loading = Loading()
    assert list(read_tagged(make("a.txt", text), tags=3, loading=loading)) == [
        Tagged(("EU", "3-2", "#hash"), ("B-ORG", "O", "O"), 3),
        Tagged(("End",), ("O",), 9),
    ]
    assert loading.left_out == {"document mark": 1}


def test_a_line_that_begins_like_a_comment_is_skipped(make: Make) -> None:
    path = make("a.conll", "# O\nof O\n")
    assert [record.words for record in read_tagged(path)] == [("of",)]


def test_a_sentence_with_a_long_line_is_left_out(make: Make) -> None:
    path = make("a.conll", "a O\nbbbbbbbbbbb O\n\nc O\n")
    loading = Loading()
    rule = TableRule(lines=LineRule(5, "skip"))
    assert list(read_tagged(path, rule=rule, loading=loading)) == [Tagged(("c",), ("O",), 4)]
    assert loading.left_out.get("too long", 0) == 1


def test_tags_in_json_lines(make: Make) -> None:
    path = make("a.jsonl", '{"tokens": ["EU", "is"], "tags": [1, "O"]}\n{"tokens":[],"tags":[]}\n')
    loading = Loading()
    assert list(read_tagged(path, loading=loading)) == [Tagged(("EU", "is"), ("1", "O"), 1)]
    assert loading.left_out.get("empty", 0) == 1


# Numbers


def test_numbers(make: Make) -> None:
    points = [TableRow(("1", "2"), (3.5,), 1), TableRow(("-1e-3", " 0"), (4.0,), 2)]
    path = make("a.csv", "1,2,3.5\n-1e-3, 0,4\n")
    assert list(read_numbers(path)) == points
    path = make("b.csv", "a,b,y\n1,2,3.5\n\n-1e-3, 0,4\n")
    loading = Loading()
    found = list(read_numbers(path, loading=loading))
    assert [(p.inputs, p.outputs) for p in found] == [(p.inputs, p.outputs) for p in points]
    assert [p.line for p in found] == [2, 4]
    assert loading.left_out.get("empty", 0) == 1
    assert next(read_numbers(path, inputs=["b"], targets=["a", 3])) == TableRow(
        ("2",), (1.0, 3.5), 2
    )
    assert next(read_numbers(path, targets=["a"])) == TableRow(("2", "3.5"), (1.0,), 2)
    path = make("c.jsonl", '{"x": 1, "y": 2.5}\n')
    assert next(read_numbers(path)) == TableRow((1,), (2.5,), 1)


def test_outputs_in_other_notations_are_read_and_rows_without_one_are_left_out(make: Make) -> None:
    """As in the columns of inputs."""
    path = make("a.csv", 'x;y\n1;"2,5"\n2;\n3;"1.234,5"\n4;n/a\n')
    loading = Loading()
    assert [(r.line, r.outputs) for r in read_numbers(path, loading=loading)] == [
        (2, (2.5,)), (4, (1234.5,))
    ]  # fmt: skip
    assert loading.lost == {"without an output": 2}
    assert "decimal mark ','" in " ".join(loading.lines())
    shares = make("b.csv", "x,y\n1,12 %\n2,3.5 %\n")
    assert [r.outputs for r in read_numbers(shares)] == [(12.0,), (3.5,)]
    thousands = make("c.csv", 'x,y\n1,"1,234"\n')
    with pytest.raises(InputError, match=r"column 2 \('y'\).*decimals or thousands.*data.decimal"):
        list(read_numbers(thousands))
    assert [r.outputs for r in read_numbers(thousands, decimal=",")] == [(1.234,)]
    bare = make("d.csv", "3,5;7,25\n4,5;8,25\n")  # no header: these are numbers
    assert [r.outputs for r in read_numbers(bare)] == [(7.25,), (8.25,)]


@given(st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2), min_size=1))
def test_numbers_are_read_exactly(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, float]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "a.csv"
    path.write_text("".join(f"{x!r},{y!r}\n" for x, y in rows))
    assert [(float(p.inputs[0]), *p.outputs) for p in read_numbers(path)] == rows


# Everything that is refused

Read = Callable[..., object]
BAD: dict[str, tuple[Read, str, str | bytes, dict[str, object], str]] = {
    "missing column by name": (read_labelled, "a.csv", "id,text,stars\n1,x,2\n",
        {"label": "star"}, r"label = 'star'.*'id', 'text', 'stars'.*did you mean 'stars'"),
    "missing column by number": (read_labelled, "a.tsv", "1\tx\n",
        {"label": 1, "text": 3}, r"text = 3.*2 columns, counted from 1"),
    "column 0": (read_labelled, "a.tsv", "1\tx\n", {"label": 0}, r"label = 0"),
    "number for json": (read_labelled, "a.jsonl", '{"a": "x"}\n',
        {"text": 1, "label": 2}, r"label = 2.*names, not numbers.*'a'"),
    "column missing in a later object": (
        read_labelled, "a.jsonl", '{"text": "x", "label": "y"}\n{"txt": "x", "label": "y"}\n', {},
        r"a\.jsonl:2.*'text'.*'txt', 'label'",
    ),
    "no usual names": (read_labelled, "a.jsonl", '{"x": "a", "y": "b"}\n',
        {}, r"the label\?.*'x', 'y'.* data.label_column=x data.text_column=y$"),
    "too many columns to guess": (read_labelled, "a.tsv", "1\tx\ty\n",
        {}, r"the label\?.*3 columns.* data.label_column=1 data.text_column=2$"),
    "semicolons": (read_labelled, "a.csv", "text;label\nx;y\nz\n",
        {"label": "label"}, r"set data.delimiter=';'"),
    "one column twice": (read_labelled, "a.tsv", "1\tx\n",
        {"label": 2, "text": 2}, r"label = 2 and text = 2"),
    "a name twice": (read_labelled, "a.csv", "text,text,label\na,b,c\n",
        {"text": "text"}, r"'text': 2 columns"),
    "ragged": (read_labelled, "a.tsv", "1\tx\n0\ty\tz\n", {}, r"a\.tsv:2: .*3 cells.*line 1 has 2"),
    "ragged csv": (read_labelled, "a.csv", "1,x\n\n0\n", {}, r"a\.csv:3: .*1 cell,.*line 1 has 2"),
    "open quote": (read_labelled, "a.csv", '1,x\n0,"never closed\nmore\n',
        {}, r"a\.csv:2: .*CSV \(unexpected end of data\)"),
    "stray quote": (read_labelled, "a.csv", '1,"x"y\n',
        {}, r"a\.csv:1: .*',' expected after '\"'.*twice"),
    "lone return in csv": (read_labelled, "a.csv", "1,a\rb\n",
        {}, r"a\.csv:1: .*CSV \(new-line character"),
    "long line in csv": (read_labelled, "a.csv", "1,x\n0," + "y" * 99 + "\n",
        {"rule": TableRule(lines=LineRule(50, "skip"))}, r"a\.csv:2: .*50 bytes"),
    "only blank lines": (read_labelled, "a.tsv", "\n\n", {}, r"no rows.*2 blank"),
    "only blank json": (read_labelled, "a.jsonl", "\n", {}, r"a\.jsonl contains no JSON objects"),
    "no json": (read_labelled, "a.jsonl", '{"text": "x", "label": 1}\n{"text": \n',
        {}, r"a\.jsonl:2: .*JSON \(Expecting value"),
    "json of a list": (read_labelled, "a.jsonl", "[1, 2]\n",
        {}, r"a\.jsonl:1: found 1, but a JSON object"),
    "deep json": (read_labelled, "a.jsonl", "[" * 100_000 + "\n", {}, r"a\.jsonl:1: .*too deeply"),
    "long number in json": (read_labelled, "a.jsonl", "9" * 5000 + "\n", {}, r"a\.jsonl:1: .*JSON"),
    "text that is a list": (read_labelled, "a.jsonl", '{"text": ["x"], "label": 1}\n',
        {}, r"a\.jsonl:1: text contains a list"),
    "half a surrogate": (read_labelled, "a.jsonl", '{"text": "\\ud83d", "label": 1}\n',
        {}, r"a\.jsonl:1: text .*half of a surrogate"),
    "unknown format": (read_labelled, "a.txt", "1\tx\n",
        {}, r"a\.txt.*\.tsv, \.csv, \.jsonl.*data\.format"),
    "format without columns": (read_labelled, "a.conll", "1\tx\n", {}, r"'conll' has no columns"),
    "word among numbers": (read_numbers, "a.csv", "1,2\n3,four\n",
        {}, r"a\.csv:2: column 2 is 'four'"),
    "infinite": (read_numbers, "a.csv", "1,1e999\n", {}, r"a\.csv:1: column 2 is '1e999'"),
    "underscore": (read_numbers, "a.csv", "1,1_000\n", {}, r"column 2 is '1_000'"),
    "two notations": (read_numbers, "a.csv", '1,"2,5"\n2,2.5\n',
        {}, r"column 2 has decimal points and decimal commas, such as '2,5' and '2.5'"),
    "true": (read_numbers, "a.jsonl", '{"x": 1, "y": true}\n', {}, r":1: column 'y' is True"),
    "no inputs": (read_numbers, "a.csv", "1\n2\n", {}, r"none is left for the inputs"),
    "missing target": (read_numbers, "a.csv", "x,y\n1,2\n",
        {"targets": ["z"]}, r"targets = 'z'.*'x', 'y'"),
    "conll column": (read_tagged, "a.conll", "a\tO\nb\n",
        {}, r"a\.conll:2: .* in column 2, .*1 column: 'b'"),
    "conll empty tag": (read_tagged, "a.conll", "a\tO\nb\t\n",
        {}, r"a\.conll:2: column 2 is empty"),
    "conll by name": (read_tagged, "a.conll", "a\tO\n",
        {"tags": "ner"}, r"tags = 'ner'.*word, tag"),
    "conll column 0": (read_tagged, "a.conll", "a\tO\n", {"words": 0}, r"words = 0"),
    "conll without sentences": (read_tagged, "a.conll", "# a\n\n", {}, r"no sentence"),
    "tags for other words": (read_tagged, "a.jsonl", '{"words": ["a", "b"], "tags": ["O"]}\n',
        {}, r"a\.jsonl:1: .*2 words.*1 tag"),
    "bad bytes": (read_labelled, "a.csv", b"1,a\n0,\xff\n", {}, r"a\.csv:2: byte 3"),
    "nul": (read_tagged, "a.conll", b"a\tO\n\0\tO\n", {}, r"a\.conll:2: byte 1.*NUL"),
    "empty": (read_text, "a.txt", "", {}, r"a\.txt.*empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files(make: Make, case: str) -> None:
    read, name, content, options, message = BAD[case]
    with pytest.raises((InputError, ConfigError), match=message):
        list(read(make(name, content), **options))  # type: ignore[call-overload]


@pytest.mark.parametrize("read", [read_text, read_labelled, read_pairs, read_tagged, read_numbers])
def test_a_folder_is_refused_by_every_reader(tmp_path: Path, read: Read) -> None:
    with pytest.raises(InputError, match=r"is a folder.*datasets"):
        list(read(tmp_path))  # type: ignore[call-overload]


@pytest.mark.parametrize("suffix", ["txt", "tsv", "csv", "jsonl", "conll", "parquet"])
def test_all_readers_report_a_missing_file(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"train.{suffix}").write_text("")
    read = read_tagged if suffix == "conll" else read_text
    with pytest.raises(InputError, match=rf"no such file.*train\.{suffix}\?"):
        list(read(tmp_path / f"tran.{suffix}"))


@given(st.binary(max_size=200), st.sampled_from(["tsv", "csv", "jsonl", "conll", "txt"]))
def test_any_bytes_give_records_or_a_translucid_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"a.{suffix}"
    path.write_bytes(data)
    readers: list[Read] = [read_text, read_labelled, read_pairs, read_tagged, read_numbers]
    for read in readers:
        message = path.name
        try:
            list(read(path))  # type: ignore[call-overload]
        except TranslucidError as error:
            message = str(error)
        assert path.name in message


def test_unknown_labels_at_test_time() -> None:
    seen = [(1, "POS"), (2, "NEGG"), (5, "MID"), (6, "NEGG")]
    message = r"test\.tsv:2: .*no label 'NEGG'.*did you mean 'NEG'\? \(1 further"
    with pytest.raises(InputError, match=message):
        check_labels(seen, ["POS", "NEG"], "test.tsv")
    with pytest.raises(InputError, match=r"no tag 'Z'.*'O', 'X'"):
        check_labels([(3, "Z")], {"X", "O"}, "test.conll", what="tag")
    check_labels(seen[:1], ["POS", "NEG"], "test.tsv")
