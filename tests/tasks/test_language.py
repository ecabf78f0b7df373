"""Language models are scored on every token once, with as much text before it as was asked for."""

from pathlib import Path

import pytest
import torch

from translucid.core.errors import ConfigError
from translucid.data.records import Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import Network, RecurrentConfig, TransformerConfig, build
from translucid.runs.recipe.examples import read_records
from translucid.runs.recipe.recipe import DataConfig
from translucid.tasks.batch import IGNORE
from translucid.tasks.language import Language, LanguageItem
from translucid.tasks.loss import cross_entropy

LETTERS = Tokenizer.train("char", ["abcdefghij "])
RECORDS = [Text("abcdefghij" * 3, 1), Text("a bc", 2), Text("", 3), Text("jihgf edcba", 4)]
MODELS = {
    "transformer": TransformerConfig(
        shape="decoder", head="language", vocab=len(LETTERS), d_model=8, heads=2, layers=2
    ),
    "lstm": RecurrentConfig(
        shape="decoder", head="language", vocab=len(LETTERS), d_model=8, hidden=8
    ),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Network:
    torch.manual_seed(0)
    network = build(MODELS[request.param]).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return network


def loss(model: Network, items: list[LanguageItem], context: int) -> float:
    return Language(LETTERS, context=context).evaluate(model, items).numbers["loss"]


@torch.no_grad()
def by_hand(model: Network, rows: list[LanguageItem], context: int, stretch: int) -> float:
    """Each stretch of the text in one call of its own."""
    ids = [i for row in rows for i in row.ids]
    targets = [i for row in rows for i in row.targets]
    total = 0.0
    for start in range(0, len(ids), stretch):
        first = max(start - context, 0)
        read = torch.tensor([ids[first : start + stretch]])
        told = torch.tensor([targets[first : start + stretch]])
        told[:, : start - first] = IGNORE
        total += float(cross_entropy(model(read), told))
    return total / len(ids)


def test_without_context_each_row_is_scored_alone(model: Network) -> None:
    rows = Language(LETTERS).rows(RECORDS, 8)
    assert Language(LETTERS).with_context(rows) is rows
    assert loss(model, rows, 0) == pytest.approx(by_hand(model, rows, 0, 8), rel=1e-6)


@pytest.mark.parametrize("context", [1, 4, 7])
def test_a_context_slides_within_a_row(model: Network, context: int) -> None:
    rows = Language(LETTERS).rows(RECORDS, 8)
    assert loss(model, rows, context) == pytest.approx(
        by_hand(model, rows, context, 8 - context), rel=1e-6
    )
    assert loss(model, rows, context) != pytest.approx(loss(model, rows, 0), rel=1e-3)


@pytest.mark.parametrize("context", [49, 1000])
def test_a_context_as_long_as_the_text_equals_one_row(model: Network, context: int) -> None:
    rows = Language(LETTERS).rows(RECORDS, 8)
    (whole,) = Language(LETTERS).rows(RECORDS, 49)
    assert loss(model, rows, context) == pytest.approx(loss(model, [whole], 0), rel=1e-6)


@pytest.mark.parametrize("context", [1, 3, 7, 8, 20, 100])
def test_every_token_is_scored_once_with_its_context(context: int) -> None:
    task = Language(LETTERS, context=context)
    rows = task.rows(RECORDS, 8)
    found = task.with_context(rows)
    told = [t for item in found for t in item.targets if t != IGNORE]
    assert told == [t for row in rows for t in row.targets]
    seen = 0
    for item in found:
        before = sum(t == IGNORE for t in item.targets)
        assert item.targets[:before] == [IGNORE] * before
        assert before == min(context, seen)
        assert len(item.ids) <= max(8, context + 8)
        assert context >= 8 or len(item.ids) <= 8, "no longer than in training"
        seen += len(item.ids) - before


def test_an_empty_line_is_a_text_for_benchmarks_of_words(tmp_path: Path) -> None:
    """What is predicted: every word as spaces separate them, and the end of every line."""
    lines = [" = Title = ", "", " the <unk> cat 's mat @,@ don't ", "", ""]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", "utf-8")
    words = sum(len(line.split()) for line in lines)
    tokens = {}
    for keep in (True, False):
        said: list[str] = []
        records = read_records(
            "language", [str(tmp_path / "a.txt")], DataConfig(keep_empty=keep), said.append
        )
        task = Language(Tokenizer.train("space", [record.text for record in records]))
        rows = task.rows(records, 4)
        tokens[keep] = sum(task.targets(row) for row in rows)
        assert task.tokenizer.unk_id not in [i for row in rows for i in row.targets]
    assert tokens == {True: words + len(lines), False: words + 2}


def test_only_lines_can_be_empty() -> None:
    with pytest.raises(ConfigError, match="keep_empty = true"):
        DataConfig(keep_empty=True, unit="file")
