"""Parquet and saved `datasets`; those that need pyarrow are skipped where it is not installed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from translucid.core.errors import InputError
from translucid.data.readers.loading import Loading
from translucid.data.readers.read import read_labelled, read_numbers, read_tagged, read_text
from translucid.data.records import Labelled, TableRow, Tagged, Text

FEATURES = {
    "text": {"dtype": "string", "_type": "Value"},
    "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    "tokens": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"},
    "ner_tags": {"feature": {"names": ["O", "B-X"], "_type": "ClassLabel"}, "_type": "List"},
}
COLUMNS = {
    "text": ["fine", "awful", "?", ""],
    "label": [1, 0, -1, 0],
    "tokens": [["a", "b"], ["c"], [], ["d"]],
    "ner_tags": [[1, 0], [0], [], [0]],
}


@pytest.fixture
def arrow() -> Any:
    return pytest.importorskip("pyarrow")


def table_of(arrow: Any) -> Any:
    note = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    table = arrow.table(COLUMNS)
    return table.replace_schema_metadata(note)


def test_parquet(arrow: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(table_of(arrow), path, row_group_size=2)
    loading = Loading()
    assert list(read_labelled(path, loading=loading)) == [
        Labelled("fine", "pos", 1),
        Labelled("awful", "neg", 2),
        Labelled("?", "-1", 3),  # "no label" stays what it was, for check_labels to refuse
    ]
    assert (loading.records, loading.left_out) == (3, {"empty": 1})
    assert next(read_tagged(path)) == Tagged(("a", "b"), ("B-X", "O"), 1)
    assert next(read_text(path)) == Text("fine", 1)
    numbers = tmp_path / "n.parquet"
    parquet.write_table(arrow.table({"x": [1, 2], "y": [0.5, 1.5]}), numbers)
    assert list(read_numbers(numbers)) == [TableRow((1,), (0.5,), 1), TableRow((2,), (1.5,), 2)]


def test_a_saved_dataset(arrow: Any, tmp_path: Path) -> None:
    table = table_of(arrow)
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, part in zip(names, (table[:2], table[2:]), strict=True):
        with arrow.ipc.new_stream(str(tmp_path / name), table.schema) as writer:
            writer.write_table(part)
    state = {"_data_files": [{"filename": name} for name in names]}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert [record.label for record in read_labelled(tmp_path)] == ["pos", "neg", "-1"]
    assert [record.line for record in read_tagged(tmp_path)] == [1, 2, 4]


def test_broken_parquet(arrow: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"no parquet at all")
    with pytest.raises(InputError, match=r"a\.parquet cannot be read"):
        list(read_text(path))


def test_without_pyarrow_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="pip install pyarrow"):
        list(read_text(path))


def test_several_splits(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
    with pytest.raises(InputError, match=r"several splits.*/test, .*/train"):
        list(read_labelled(tmp_path))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("{", "no data files"),
        ('{"_data_files": 3}', "no data files"),
        ('{"_data_files": []}', "no rows"),
        ('{"_data_files": [{"filename": "../secret"}]}', "'../secret'"),
        ('{"_data_files": [{"filename": "/etc/passwd"}]}', "not the name of a file"),
        ('{"_data_files": [{"filename": ".."}]}', "not the name of a file"),
        ('{"_data_files": [{"filename": "link"}]}', "not the name of a file"),
        ('{"_data_files": [{"filename": "missing"}]}', "not the name of a file"),
        ('{"_data_files": [{"filename": 3}]}', "3 is not the name"),
    ],
)
def test_a_folder_that_points_elsewhere(tmp_path: Path, state: str, message: str) -> None:
    (tmp_path / "state.json").write_text(state, "utf-8")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match=message):
        list(read_labelled(tmp_path))
