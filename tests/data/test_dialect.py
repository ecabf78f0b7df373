"""Delimiter, header and label column are detected: the records equal those with the keys set."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.dialect import Delimiter
from translucid.data.readers.loading import Loading
from translucid.data.readers.read import read_labelled, read_numbers, read_pairs, read_text
from translucid.data.readers.tables import TableRule
from translucid.data.records import Labelled, Pair, TableRow

Make = Callable[[str, str | bytes], Path]
CHARACTERS: dict[Delimiter, str] = {",": ",", ";": ";", "tab": "\t", "pipe": "|"}


@pytest.mark.parametrize("name", CHARACTERS)
@pytest.mark.parametrize("header", ["text{0}label\n", ""])
def test_the_delimiter_is_detected(make: Make, name: Delimiter, header: str) -> None:
    rows = 'fine, or so{0}neg\n"a{0} b"{0}pos\nno; not it{0}neg\n'
    if name == ",":
        rows = rows.replace(", or", " or")
    elif name == ";":
        rows = rows.replace("no;", "no")
    path, loading = make("a.csv", (header + rows).format(CHARACTERS[name])), Loading()
    columns: dict[str, int | str] = {"text": 1, "label": 2} if not header else {}
    records = list(read_labelled(path, loading=loading, **columns))  # type: ignore[arg-type]
    assert records == list(
        read_labelled(path, rule=TableRule(delimiter=name), **columns)  # type: ignore[arg-type]
    )
    assert [record.label for record in records] == ["neg", "pos", "neg"]
    assert any("data.delimiter" in note for note in loading.notes) == (name != ",")


def test_one_column_with_a_semicolon_stays_one(make: Make) -> None:
    path = make("a.csv", "one; two\nthree\nfour; five; six\n")
    assert [record.text for record in read_text(path)] == ["one; two", "three", "four; five; six"]


def test_a_tsv_has_tabs(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"data.delimiter = ';'.*data.format"):
        list(read_labelled(make("a.tsv", "1\tx\n"), rule=TableRule(delimiter=";")))


# Headers with unknown names


PAIRS = "The dog sleeps here.\tDer Hund schläft hier.\nI see the cat.\tIch sehe die Katze.\n"
STARS = "so good a film\tbest\nso bad a film\tworst\nwhat a good one\tbest\nbad it is\tworst\n"


@pytest.mark.parametrize(
    ("content", "options", "read", "records"),
    [
        (
            "caption\tUntertitel\n" + PAIRS * 2,
            {"source": 1, "target": 2},
            read_pairs,
            [Pair(*line.split("\t"), n) for n, line in enumerate((PAIRS * 2).splitlines(), 2)],  # type: ignore[arg-type]
        ),
        (
            "opinion\tmark\n" + STARS,
            {"text": 1, "label": 2},
            read_labelled,
            [Labelled(*line.split("\t"), n) for n, line in enumerate(STARS.splitlines(), 2)],  # type: ignore[arg-type]
        ),
    ],
)
def test_a_header_with_unknown_names_is_not_a_record(
    make: Make, content: str, options: dict[str, int], read: Callable, records: list[object]
) -> None:
    path, loading = make("a.tsv", content), Loading()
    if read is read_pairs:  # no cell shows which of two texts is the source
        with pytest.raises(InputError, match=r"which column holds the .*data\.header=false"):
            list(read(path))
    else:
        assert list(read(path)) == records
    assert list(read(path, loading=loading, **options)) == records
    assert any("header" in note for note in loading.notes)
    whole = list(read(path, rule=TableRule(header=False), **options))
    assert len(whole) == len(records) + 1


@pytest.mark.parametrize(
    ("content", "options", "read", "note"),
    [
        ("mine\tyours\n" + PAIRS, {"source": 1, "target": 2}, read_pairs, "first is the source"),
        ("mine\tmark\n" + STARS, {"text": 1, "label": 2}, read_labelled, "whose values repeat"),
        ("mark\tmine\n" + "".join("\t".join(row.split("\t")[::-1]) + "\n"
                                   for row in STARS.splitlines()),
         {"text": 2, "label": 1}, read_labelled, "whose values repeat"),
    ],
)  # fmt: skip
def test_roles_of_two_columns_below_a_declared_header(
    make: Make, content: str, options: dict[str, int], read: Callable, note: str
) -> None:
    path, loading, rule = make("a.tsv", content), Loading(), TableRule(header=True)
    records = list(read(path, rule=rule, loading=loading))
    assert records == list(read(path, rule=rule, **options))
    assert len(records) == content.count("\n") - 1
    assert any(note in line and "_column" in line for line in loading.notes)
    for role in options:  # one of them is enough
        assert list(read(path, rule=rule, **{role: options[role]})) == records


def test_indistinguishable_label_and_text_columns_are_refused(make: Make) -> None:
    for rows in ("a\tb\nc\td\n", "a\tb\na\tb\na\tb\n"):
        with pytest.raises(
            InputError, match=r"for example data.label_column=x data.text_column=\"y z\""
        ):
            list(read_labelled(make("a.tsv", "x\ty z\n" + rows), rule=TableRule(header=True)))


@pytest.mark.parametrize(
    "content",
    [
        PAIRS * 2,
        "Go.\tGeh.\n" + PAIRS * 2,  # a sentence
        "Hello\tHallo\n" + "Yes\tJa\nNo\tNein\nGo\tGeh\n",  # no shorter than the rest
        "english\tgerman\n",  # nothing to compare with
    ],
)
def test_data_is_not_read_as_a_header(make: Make, content: str) -> None:
    assert len(list(read_pairs(make("a.tsv", content)))) == content.count("\n")


def test_a_first_label_that_repeats_is_not_a_header(make: Make) -> None:
    path = make("a.tsv", "pos\tgood\n" + "neg\tso bad a film\npos\tso good a film\n" * 3)
    assert len(list(read_labelled(path))) == 7


# The report names the columns


def test_the_report_names_the_columns_with_an_example(make: Make) -> None:
    loading = Loading()
    list(read_labelled(make("a.csv", "review,stars\nfine,5\n"), text="review", label="stars",
                       loading=loading))  # fmt: skip
    for words in ("label = column 2 ('stars'), text = column 1 ('review')", "text = 'fine'"):
        assert words in loading.notes[-1]
    assert loading.columns == {"label": "stars", "text": "review"}
    numbers = Loading()
    assert list(read_numbers(make("b.csv", "a,b,y\n1,2,3\n"), loading=numbers)) == [
        TableRow(("1", "2"), (3.0,), 2)
    ]
    assert numbers.columns == {"input": ("a", "b"), "output": ("y",)}
    assert "inputs = column 1 ('a'), column 2 ('b'); outputs = column 3 ('y')" in numbers.notes[-1]


def test_columns_of_the_training_data_come_before_usual_names(make: Make) -> None:
    expected = {"text": "review", "label": "stars"}
    path = make("a.csv", "text,review,label,stars\n1,fine,3,5\n")
    (record,) = read_labelled(path, loading=Loading(expected=expected))
    assert record == Labelled("fine", "5", 2)
    (usual,) = read_labelled(
        make("b.csv", "text,label\nfine,5\n"), loading=Loading(expected=expected)
    )
    assert usual == Labelled("fine", "5", 2)
    swapped = make("c.csv", "y,b,a\n3,2,1\n")
    loading = Loading(expected={"input": ("a", "b"), "output": ("y",)})
    assert list(read_numbers(swapped, loading=loading)) == [TableRow(("1", "2"), (3.0,), 2)]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize(
    "names", ["german,english", "Deutsch,Englisch", "german_sentence,english_sentence", "de_DE,en"]
)
def test_two_languages_above_two_columns_are_a_header(
    names: str, kind: str, tmp_path: Path
) -> None:
    """However short the sentences below are."""
    rows = [("Hallo", "Hello"), ("Wir gehen jetzt.", "We are going now."), ("Ja", "Yes")] * 2
    one, other = names.split(",")
    if kind == "jsonl":
        lines = [json.dumps({one: a, other: b}) for a, b in rows]
    else:
        between = "," if kind == "csv" else "\t"
        lines = [between.join(row) for row in [(one, other), *rows]]
    file = tmp_path / f"pairs.{kind}"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    pairs = [(pair.source, pair.target) for pair in read_pairs(file)]
    assert pairs == rows


@pytest.mark.parametrize("first", ["Hallo,Hello", "de,Hello", "de,de", "german english,dutch a b"])
def test_words_that_only_look_like_languages_are_data(first: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(first + "\nWir gehen,We go\nJa,Yes\nNein,No\n", "utf-8")
    assert len(list(read_pairs(file))) == 4


# Which column holds the label, and whether line 1 is a header


NAMES = ["Anna", "Bert", "Cora", "Dora", "Emil", "Fred", "Gina", "Hugo", "Ida", "Jan", "Kim", "Lea"]


def table(header: str | None, first: list[str], second: list[str], between: str = ",") -> str:
    rows = [f"{a}{between}{b}" for a, b in zip(first, second, strict=True)]
    return "\n".join(([header] if header else []) + rows) + "\n"


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("header", "labels"),
    [
        ("name,gender", "FMFFMMFMFMFF"),
        ("Vorname,Geschlecht", "FMFFMMFMFMFF"),
        ("the word,its kind (m/f)", "FMFFMMFMFMFF"),
        ("name,stars", "123123123123"),
        (None, "FMFFMMFMFMFF"),
        (None, "123123123123"),
    ],
)
def test_the_label_is_the_column_whose_values_repeat(
    make: Make, header: str | None, labels: str, swapped: bool
) -> None:
    columns = (list(labels), NAMES) if swapped else (NAMES, list(labels))
    if header and swapped:
        header = ",".join(reversed(header.split(",")))
    path, loading = make("a.csv", table(header, *columns)), Loading()
    records = list(read_labelled(path, loading=loading))
    first = 2 if header else 1
    assert records == [
        Labelled(name, label, n)
        for n, (name, label) in enumerate(zip(NAMES, labels, strict=True), first)
    ]
    assert any("whose values repeat" in note for note in loading.notes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            table("name,kind", NAMES[:4], list("abba")),
            r":1: the row 'name', 'kind' may be a header",
        ),
        (table("Zoe,x", NAMES, list("abcdefabcdef")), None),  # one of twelve labels is alone
        (table(None, NAMES[:6], NAMES[6:]), r"may be a header|which column"),
        (table("id,name,kind", ["1", "2", "3"], ["Anna,a", "Bert,b", "Cora,a"]), r"which column"),
    ],
)
def test_in_doubt_the_user_is_asked(make: Make, content: str, words: str | None) -> None:
    path = make("a.csv", content)
    if words is None:
        assert len(list(read_labelled(path))) == content.count("\n") - 1
        return
    with pytest.raises(InputError, match=words) as error:
        list(read_labelled(path))
    assert "data.header=" in str(error.value) or "data.label_column=" in str(error.value)


def test_a_column_chosen_by_number_has_its_header_compared_too(make: Make) -> None:
    rows = [f"{n},{name},{'FM'[n % 2]}" for n, name in enumerate(NAMES)]
    path = make("a.csv", "id,name,gender\n" + "\n".join(rows) + "\n")
    assert len(list(read_labelled(path, text=2, label=3))) == len(NAMES)


def test_a_short_first_row_over_long_texts_is_refused(make: Make) -> None:
    rows = [f"this is sentence number {n}\tdas ist der Satz {n}" for n in range(60)]
    rows[30] = "yes\tja"
    path = make("a.tsv", "original\tcopy\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r":1: .*'original', 'copy'"):
        list(read_pairs(path, source=1, target=2))
    whole = list(read_pairs(path, rule=TableRule(header=False)))
    assert len(whole) == 61
    assert len(list(read_pairs(path, rule=TableRule(header=True)))) == 60


def test_a_header_of_numbers_is_recognised_by_its_words(make: Make) -> None:
    path = make("a.csv", "area,price\n1,2\n3,4\n")
    assert [record.outputs for record in read_numbers(path)] == [(2.0,), (4.0,)]


# Missing labels


@pytest.mark.parametrize("written", ["", " ", "NaN", "nan"])
def test_missing_labels_are_counted_and_not_a_class(make: Make, written: str) -> None:
    rows = [f"text {n},{'pos' if n % 2 else 'neg'}" for n in range(10)] + [f"more,{written}"] * 5
    loading = Loading()
    records = list(read_labelled(make("a.csv", "text,label\n" + "\n".join(rows)), loading=loading))
    assert {record.label for record in records} == {"pos", "neg"}
    assert (loading.records, loading.left_out) == (10, {"no label": 5})
    assert "5 without a label, left out (first: line 12)" in loading.lines()[-1]


@pytest.mark.parametrize("value", ["null", "NaN", '""'])
def test_missing_labels_of_json_lines_are_counted(make: Make, value: str) -> None:
    rows = ['{"text": "a", "label": "x"}', f'{{"text": "b", "label": {value}}}']
    loading = Loading()
    assert len(list(read_labelled(make("a.jsonl", "\n".join(rows)), loading=loading))) == 1
    assert loading.left_out == {"no label": 1}


@pytest.mark.parametrize("word", ["NA", "None", "null", "N/A", "?"])
def test_words_for_missing_labels_are_left_out_if_rare_and_refused_if_frequent(
    make: Make, word: str
) -> None:
    rows = [f"text {n},{'pos' if n % 2 else 'neg'}" for n in range(100)]
    some, many = ("text,label\n" + "\n".join([*rows, *[f"t,{word}"] * n]) for n in (2, 20))
    loading = Loading()
    assert len(list(read_labelled(make("a.csv", some), loading=loading))) == 100
    assert any(f"'{word}' (2)" in note and "missing_labels=[]" in note for note in loading.notes)
    path = make("a.csv", many)
    with pytest.raises(InputError, match=r"20 of 120 .*data\.missing_labels=\[\]"):
        list(read_labelled(path))
    assert len(list(read_labelled(path, missing=[]))) == 120
    assert len(list(read_labelled(path, missing=[word]))) == 100
