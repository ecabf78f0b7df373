"""Many records encoded together are those encoded one by one."""

import pytest
from tests.runs.test_runs import small

from translucid.runs.recipe.examples import load_examples
from translucid.runs.setup import set_up


def _hear(line: str) -> None:
    pass


@pytest.mark.parametrize("name", ["translate", "classify", "tag", "language", "embed"])
def test_encode_all_equals_encode(name: str) -> None:
    recipe = small(name, "transformer")
    task = set_up(recipe, _hear).task
    records = load_examples(recipe, _hear).train[:40]
    items = task.encode_all(records)
    assert items == [task.encode(record) for record in records]
    assert len({item.line for item in items}) == len(records)
    if name == "translate":
        sources = [task.frame(task.source.encode(r.source)) for r in records]
        targets = [task.target.encode(r.target) for r in records]
        assert [(i.source, i.target) for i in items] == list(zip(sources, targets, strict=True))
    if name == "classify":
        assert [i.ids for i in items] == [
            task.frame(task.tokenizer.encode(r.text)) for r in records
        ]
        assert [task.labels[item.label] for item in items] == [r.label for r in records]
