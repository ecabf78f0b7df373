"""What a network loses without a part, against a copy in which the part's weights are gone."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from translucid.core.errors import InputError, UnknownPointError
from translucid.data.features import Columns
from translucid.data.records import Labelled, Pair, TableRow, Tagged, Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import GenerationConfig
from translucid.models import (
    MLPConfig,
    Network,
    RecurrentConfig,
    TransformerConfig,
    build,
)
from translucid.see.ablation import Ablation, ablate, edited, measure
from translucid.see.part_switches import choose, switches
from translucid.see.pictures import Bars, Grid
from translucid.tasks.base import Task
from translucid.tasks.batch import IGNORE
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.tasks.tag import Tag
from translucid.tasks.translate import Translate

TEXTS = ["the dog sees a cat", "a bird", "the cat sees", "a dog sees the bird and a cat"]
TOKENIZER = Tokenizer.train("word", TEXTS)
SIZES: dict[str, Any] = {"vocab": len(TOKENIZER), "d_model": 8}
HEADS = SIZES | {"heads": 2, "layers": 1}

Made = tuple[Network, Task[Any, Any], Sequence[Any]]


def loud(network: Network) -> Network:
    """With weights large enough that every part matters."""
    torch.manual_seed(1)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return network.eval()


def made(kind: str) -> Made:
    task: Task[Any, Any]
    records: list[Any]
    match kind:
        case "translate" | "lstm":
            shape: dict[str, Any] = {"shape": "encoder-decoder", "head": "language"}
            network = build(
                TransformerConfig(**shape, **HEADS)
                if kind == "translate"
                else RecurrentConfig(**shape, **SIZES, hidden=8, bidirectional=True)
            )
            task = Translate(
                TOKENIZER, TOKENIZER, search=GenerationConfig(beam_size=2, max_length=6)
            )
            records = [Pair(a, b, 1) for a, b in zip(TEXTS, reversed(TEXTS), strict=True)]
        case "language":
            network = build(TransformerConfig(shape="decoder", head="language", **HEADS))
            task, records = Language(TOKENIZER), [Text(text, 1) for text in TEXTS]
        case "classify":
            config = {"shape": "encoder", "head": "classify", "outputs": 2}
            network = build(RecurrentConfig(**config, **SIZES, hidden=8, cell="gru"))
            task = Classify(TOKENIZER, ["bad", "good"], smoothing=0.3)
            records = [Labelled(t, ("bad", "good")[i % 2], i) for i, t in enumerate(TEXTS)]
        case "tag":
            config = {"shape": "encoder", "head": "tag", "outputs": 3}
            network = build(TransformerConfig(**config, **HEADS))
            task = Tag(TOKENIZER, ["O", "B-X", "I-X"])
            words = [text.split() for text in TEXTS]
            records = [Tagged(w, ["B-X", *["O"] * (len(w) - 1)], 1) for w in words]
        case _:
            network = build(MLPConfig(inputs=2, hidden=(4,)))
            task = Regress(Columns.numbers(["x1", "x2"]))
            records = [TableRow((x, x * x), (x,), 1) for x in (0.1, 0.7, -0.4)]
    return loud(network), task, [task.encode(record) for record in records]


def loss_by_hand(network: Network, task: Task[Any, Any], items: Sequence[Any]) -> float:
    """Item by item, so without padding; summed by cross-entropy's definition."""
    total, count = 0.0, 0
    for item in items:
        batch = task.collate([item])
        with torch.no_grad():
            said = network(**batch.inputs)
        if isinstance(task, Regress):
            total += 0.5 * float((said - batch.targets).square().sum())
            count += batch.targets.numel()
            continue
        rows, targets = said.flatten(0, -2), batch.targets.flatten()
        rows, targets = rows[targets != IGNORE], targets[targets != IGNORE]
        total -= float(F.log_softmax(rows, dim=-1)[range(len(targets)), targets].sum())
        count += len(targets)
    return total / count


@pytest.mark.parametrize("kind", ["translate", "lstm", "language", "classify", "tag", "regress"])
def test_with_nothing_off_it_is_what_the_task_says(kind: str) -> None:
    network, task, items = made(kind)
    found = measure(network, task, items, {})
    assert found.metric == pytest.approx(task.evaluate(network, items).numbers[task.metric])
    assert found.loss == pytest.approx(loss_by_hand(network, task, items), rel=1e-5)
    alone = measure(network, task, items, {}, metric=False)
    assert (alone.loss, alone.metric) == (pytest.approx(found.loss), None)
    assert not network.training
    network.train()
    assert measure(network, task, items, {}).loss == pytest.approx(found.loss)
    assert network.training, "it is left as it was found"


def without_head(network: Network, key: str, head: int) -> Network:
    copy = deepcopy(network)
    attention: Any = copy.get_submodule(key.rpartition(".head.")[0])
    first = head * attention.d_head
    attention.output.weight.data[:, first : first + attention.d_head] = 0
    return copy


@pytest.mark.parametrize("kind", ["translate", "language", "tag"])
def test_without_each_head_as_without_its_weights(kind: str) -> None:
    network, task, items = made(kind)
    chosen = choose(switches(network), ["heads"])
    result = ablate(network, task, items, chosen)
    assert [switch for switch, _ in result.rows] == chosen
    assert result.complete
    for switch, found in result.rows:
        assert switch.head is not None
        copy = without_head(network, switch.key, switch.head)
        assert found.loss == pytest.approx(loss_by_hand(copy, task, items), rel=1e-5)
        assert found.metric == pytest.approx(task.evaluate(copy, items).numbers[task.metric])
        assert result.change(found) == found.loss - result.whole.loss != 0


def test_a_translator_writes_as_without_the_part() -> None:
    """The search of the copy takes its shortcuts, that of the edited network must not."""
    network, task, items = made("translate")
    assert isinstance(task, Translate)
    whole, changed = task.predict(network, items), 0
    assert task.predict(edited(network, {}), items) == whole
    for switch in choose(switches(network), ["heads"]):
        assert switch.head is not None
        copy = without_head(network, switch.key, switch.head)
        written = task.predict(edited(network, switch.edit), items)
        assert written == task.predict(copy, items)
        changed += written != whole
    assert changed > 3

    network, task, items = made("lstm")
    assert isinstance(task, Translate)
    whole = task.predict(network, items)
    (switch,) = [s for s in switches(network) if s.key.endswith("decoder.recurrent.layers.0"
                 ".lstm.input_gate=1")]  # fmt: skip
    copy = deepcopy(network)
    recurrent: Any = copy.get_submodule("decoder.recurrent")
    recurrent.weights(0, "forward")[2].data[:8] = 1000.0  # the input gate comes first
    written = task.predict(edited(network, switch.edit), items)
    assert written == task.predict(copy, items)
    assert written != whole


def test_the_table_the_data_and_the_pictures_hold_the_same_numbers() -> None:
    network, task, items = made("translate")
    found = [s for s in switches(network) if s.kind in ("heads", "layers", "attention")]
    result = ablate(network, task, items, found)
    told = {row["key"]: row for row in result.as_dict()["switches"]}
    assert list(told) == [switch.key for switch in found]
    lines = result.table().splitlines()
    assert lines[0].split() == ["switched", "off", "loss", "change", "bleu", "change"]
    assert lines[1].split()[:2] == ["nothing", f"{result.whole.loss:.4f}"]
    for (switch, measured), line in zip(result.rows, lines[2:], strict=False):
        assert told[switch.key]["loss"] == measured.loss
        assert line.startswith(switch.name)
        assert f"{measured.loss:.4f}  {result.change(measured):>+9.4f}" in line
    heads, bars = result.pictures()
    assert isinstance(heads, Grid)
    assert isinstance(bars, Bars)
    titles = ["encoder self-attention", "decoder self-attention", "decoder cross-attention"]
    assert [heat.title for heat in heads.heats] == titles
    for heat, scope in zip(heads.heats, ("encoder", "decoder", "decoder"), strict=True):
        part = heat.title.split()[1].replace("-", "_")
        for layer, head in np.ndindex(1, 2):
            row = told[f"{scope}.layers.{layer}.{part}.head.{head}"]
            assert heat.values[layer, head] == row["loss_change"]
    others = [row for row in told.values() if row["head"] is None]
    assert bars.labels == tuple(row["name"] for row in others)
    assert bars.values.tolist() == [row["loss_change"] for row in others]
    sizes = sorted(others, key=lambda row: -abs(row["loss_change"]))
    assert {bars.labels[place] for place in bars.marked} == {sizes[0]["name"]}
    most = sorted(told.values(), key=lambda row: -abs(row["loss_change"]))[:3]
    assert [switch.key for switch in result.largest] == [row["key"] for row in most]
    assert sum(line.endswith(" *") for line in lines) == 3


def test_what_was_done_before_a_stop_is_known() -> None:
    network, task, items = made("classify")
    found, known = switches(network), list[Ablation]()

    def progress(so_far: Ablation) -> None:
        known.append(so_far)
        if len(so_far.rows) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ablate(network, task, items, found, metric=False, progress=progress)
    assert [len(each.rows) for each in known] == [0, 1, 2]
    assert not known[-1].complete
    assert f"stopped after 2 of {len(found)}" in known[-1].table()
    whole = ablate(network, task, items, found[:2], metric=False)
    assert known[-1].rows == whole.rows


def test_an_edit_that_meets_nothing_and_no_examples_are_refused() -> None:
    network, task, items = made("classify")
    (first, *_) = switches(network)
    wrong = replace(first, edit={"encoder.recurrent.layers.7.gru.hidden": 0.0})
    with pytest.raises(UnknownPointError, match="no point"):
        ablate(network, task, items, [wrong])
    with pytest.raises(InputError, match="example"):
        ablate(network, task, [], [first])
    with pytest.raises(InputError, match="no part was switched off"):
        ablate(network, task, items, []).picture()
