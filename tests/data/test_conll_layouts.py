"""A known layout is recognised: it reads as the same file with its columns chosen by number."""

from collections.abc import Callable
from pathlib import Path

import pytest

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.loading import Loading
from translucid.data.readers.read import read_tagged
from translucid.data.records import Tagged

Make = Callable[[str, str | bytes], Path]

CONLLU = """\
# sent_id = 1
# text = Zum Haus
1-2\tZum\t_\t_\t_\t_\t_\t_\t_\t_
1\tzu\tzu\tADP\tAPPR\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\tART\tCase=Dat\t3\tdet\t_\t_
2.1\tleer\tleer\tX\tX\t_\t_\t_\t_\t_
3\tHaus\tHaus\tNOUN\tNN\tCase=Dat\t0\troot\t_\t_

1\t10 000\t_\tNUM\tCARD\t_\t0\troot\t_\t_
"""
CONLL_2003 = """\
-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
3-2 CD I-NP O

-DOCSTART- -X- O O

Peter NNP B-NP B-PER
"""
KNOWN = {
    "conllu": ("a.conllu", CONLLU, 2, 4),
    "conllu without a telling name": ("a.txt", CONLLU, 2, 4),
    "conllu in spaces": ("a.conll", CONLLU.replace("10 000", "10000").replace("\t", " "), 2, 4),
    "conll-2003": ("a.txt", CONLL_2003, 1, 4),
    "conll-2003 in tabs": ("a.conll", CONLL_2003.replace(" ", "\t"), 1, 4),
    "conll-2003 in german": ("a.conll", "Haus Haus NN B-NC O\nBonn Bonn NE B-NC B-LOC\n", 1, 5),
    "three": ("a.conll", "EU NNP B-ORG\nis VBZ O\n", 1, 3),
    "two": ("a.conll", "EU\tB-ORG\nis\tO\n", 1, 2),
    "plus": ("a.conllup", f"# global.columns = FORM DEPREL UPOS\n{'a x Y'}\n", 1, 3),
}


@pytest.mark.parametrize("case", KNOWN)
def test_a_layout_is_read_as_with_its_columns_chosen(make: Make, case: str) -> None:
    name, text, words, tags = KNOWN[case]
    path, loading = make(name, text), Loading()
    assert list(read_tagged(path, loading=loading)) == list(
        read_tagged(path, words=words, tags=tags)
    )
    (note,) = loading.notes
    first = next(read_tagged(path))
    assert f"words = column {words} (" in note
    assert f"tags = column {tags} (" in note
    assert f"gives words = {first.words[0]!r}, tags = {first.tags[0]!r}" in note


def test_ranges_empty_nodes_and_documents_are_skipped(make: Make) -> None:
    assert list(read_tagged(make("a.conllu", CONLLU))) == [
        Tagged(("zu", "dem", "Haus"), ("ADP", "DET", "NOUN"), 4),
        Tagged(("10 000",), ("NUM",), 9),
    ]
    assert [r.words for r in read_tagged(make("b.txt", CONLL_2003))] == [
        ("EU", "rejects", "3-2"),
        ("Peter",),
    ]


@pytest.mark.parametrize(("name", "number"), [("xpos", 5), ("feats", 6), ("DEPREL", 8)])
def test_a_column_is_chosen_by_its_name(make: Make, name: str, number: int) -> None:
    path = make("a.conllu", CONLLU)
    assert list(read_tagged(path, tags=name)) == list(read_tagged(path, words=2, tags=number))


def test_other_columns_of_conll_2003_by_name(make: Make) -> None:
    path = make("a.txt", CONLL_2003)
    assert next(read_tagged(path, tags="pos")).tags == ("NNP", "VBZ", "CD")
    assert next(read_tagged(path, words="word", tags="chunk")).tags == ("B-NP", "B-VP", "I-NP")


def test_columns_of_the_training_data_come_first(make: Make) -> None:
    loading = Loading(expected={"words": "form", "tags": "xpos"})
    assert next(read_tagged(make("a.conllu", CONLLU), loading=loading)).tags[0] == "APPR"
    assert loading.columns == {"words": "form", "tags": "xpos"}
    other = Loading(expected={"words": "form", "tags": "xpos"})  # which this file does not have
    assert next(read_tagged(make("a.conll", "a X\n"), loading=other)).tags == ("X",)
    assert other.columns == {"words": "word", "tags": "tag"}


def test_unknown_layouts_and_columns_are_refused(make: Make) -> None:
    path = make("a.conll", "dogs dog NOUN Plur\nbark bark VERB Pres\n")
    with pytest.raises(InputError, match=r"the tags\? .* 4 columns.*data\.tags_"):
        list(read_tagged(path))
    with pytest.raises(ConfigError, match="from 1 to 4"):
        list(read_tagged(path, tags="pos"))
    assert next(read_tagged(path, tags=3)) == Tagged(("dogs", "bark"), ("NOUN", "VERB"), 1)
    with pytest.raises(InputError, match=r"'ups'.*did you mean 'upos'\?"):
        list(read_tagged(make("a.conllu", CONLLU), tags="ups"))
