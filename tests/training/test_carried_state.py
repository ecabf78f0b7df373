"""A state that is carried from batch to batch: values as of one long text, gradients that end at
the border, and runs that can be stopped."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runs.test_resume import same_runs, stop_and_resume
from tests.runs.test_runs import SMALL, small
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.data.batching import plan_streams
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.model import load
from translucid.models.build import build
from translucid.models.recurrent import RecurrentConfig
from translucid.runs.batches import Stream
from translucid.runs.recipe import recipe, toml
from translucid.runs.run import train_recipe
from translucid.runs.setup import set_up
from translucid.tasks import language
from translucid.tasks.language import Language
from translucid.tasks.options import DecodingConfig
from translucid.training.config import TrainingConfig
from translucid.training.distributed import ALONE
from translucid.training.gradients import Gradients
from translucid.training.recurrent_training import CarriedState

ROW, ROWS, STREAMS = 4, 5, 2


def network(cell: str = "lstm", **options: Any) -> Any:
    torch.manual_seed(3)
    config = RecurrentConfig(
        shape="decoder", head="language", vocab=11, d_model=6, hidden=6, layers=2, cell=cell,
        dropout=0.0, **options,
    )  # fmt: skip
    return build(config).double()


def text() -> Tensor:
    """(streams, rows * row)"""
    random = torch.Generator().manual_seed(1)
    return torch.randint(11, (STREAMS, ROWS * ROW), generator=random)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_values_are_those_of_one_long_text(cell: str) -> None:
    model, ids = network(cell), text()
    carried = CarriedState(model, STREAMS)
    parts = [carried(row) for row in ids.split(ROW, dim=1)]
    assert torch.allclose(torch.cat(parts, dim=1), model(ids), rtol=0, atol=1e-12)
    carried.reset()
    assert torch.equal(carried(ids[:, :ROW]), parts[0])


def test_padding_and_streams_that_ended_leave_their_state_alone() -> None:
    model, ids = network(), text()
    carried = CarriedState(model, STREAMS)
    carried(ids[:, :ROW])
    mask = torch.ones(1, ROW, dtype=torch.bool)
    mask[0, 2:] = False
    kept = carried.hidden[:, 1].clone()
    carried(ids[:1, ROW : 2 * ROW], mask)
    assert torch.equal(carried.hidden[:, 1], kept)
    again = CarriedState(model, 1)
    again(ids[:1, : ROW + 2])
    assert torch.allclose(carried.hidden[:, 0], again.hidden[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_gradients_are_those_of_the_loop_by_hand(accumulate: int) -> None:
    """h.detach() at each border, written with torch's own LSTM; the last border is in an epoch."""
    task = Language(Tokenizer.train("word", ["a b c d e f g"]))
    model, ids = network(), text()
    items = [
        language.LanguageItem(row[:-1].tolist(), row[1:].tolist(), 1.0, n)
        for n, row in enumerate(ids.unfold(1, ROW + 1, ROW).flatten(0, 1))
    ]
    per_stream = len(items) // STREAMS
    order = [items[place::per_stream] for place in range(per_stream)] * 2  # two epochs
    config = TrainingConfig(accumulate=accumulate)
    carried = CarriedState(model, STREAMS)
    gradients = Gradients(carried, task, config, torch.device("cpu"), ALONE)
    by_hand = network()
    lstm, state = by_hand.decoder.recurrent.fused, None
    for place, chosen in enumerate(order):
        if place % per_stream == 0:
            state = None
        batch = task.collate(chosen)
        gradients.add(replace(batch, first=place % per_stream == 0), 0.5, last=True)
        x = by_hand.decoder.embedding.table(batch.inputs["ids"])
        hidden, state = lstm(x, state)
        state = tuple(part.detach() for part in state)
        logits = by_hand.head.linear(hidden)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), reduction="sum"
        )
        (0.5 * loss).backward()
        if place % accumulate == 0:
            for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
                assert ours.grad is not None
                assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=1e-6)
                ours.grad = theirs.grad = None


@pytest.mark.parametrize(("rows", "budget"), [(10, 40), (11, 30), (7, 100), (5, 10)])
def test_streams_go_on_and_hold_every_row_once(rows: int, budget: int) -> None:
    lengths = np.full((rows, 1), 10)
    lengths[-1] = 3
    starts = set()
    for epoch in range(6):
        plan = plan_streams(lengths, budget, seed=1, epoch=epoch)
        assert sorted(np.concatenate(plan.batches).tolist()) == list(range(rows))
        assert max(map(len, plan.batches)) <= max(budget // 10, 1)
        for before, after in zip(plan.batches, plan.batches[1:], strict=False):
            assert ((before[: len(after)] + 1) % rows).tolist() == after.tolist()
        starts.add(int(plan.batches[0][0]))
    assert len(starts) > 1


def carrying(**training: Any) -> recipe.Recipe:
    chosen = small("language", "lstm", carry_state=True, **training)
    data = chosen.data.model_copy(update={"max_length": 12})
    return chosen.model_copy(update={"data": data})


def test_a_model_trained_on_streams_is_evaluated_on_streams(tmp_path: Path) -> None:
    """Also where a recipe with every key in it is told so; who asks for something else hears it."""
    file = tmp_path / "recipe.toml"
    file.write_text(toml.dump(small("language", "lstm")), "utf-8")
    assert recipe.read(file, ["training.carry_state=true"]).decoding.carry_state is True
    carried = carrying(steps=1)
    assert carried.decoding.carry_state is True
    for answer, decoding in ((0, carried.decoding), (1, DecodingConfig(carry_state=False))):
        said: list[str] = []
        set_up(carried.model_copy(update={"decoding": decoding}), said.append)
        assert sum("! decoding.carry_state = false" in line for line in said) == answer


@pytest.mark.slow
def test_a_resumed_run_equals_the_uninterrupted_run(tmp_path: Path) -> None:
    """Stopped in the middle of an epoch: the state is part of the checkpoint."""
    chosen = carrying(steps=7, accumulate=2, evaluate_every=4, batch_tokens=300)
    assert chosen.decoding.carry_state
    train_recipe(chosen, tmp_path / "straight", quiet=True)
    stop_and_resume(chosen, tmp_path / "stopped", [3])
    same_runs(tmp_path / "straight", tmp_path / "stopped")
    # And a model that is opened later is scored as the run scored it.
    model = load(tmp_path / "straight")
    valid = json.loads((tmp_path / "straight" / "test.json").read_text("utf-8"))["test"]
    assert model.evaluation_settings().decoding.carry_state
    assert model.evaluate().numbers["loss"] == pytest.approx(valid["loss"], rel=1e-6)
    alone = model.evaluate(carry_state=False).numbers["loss"]
    assert abs(alone - valid["loss"]) > 1e-6 * alone


def test_a_stream_continues_from_another_state() -> None:
    chosen = carrying(batch_tokens=300)
    setup = set_up(chosen, lambda _: None)
    items = setup.items[:67]
    whole = Stream(setup.task, items, chosen)
    batches = [next(whole) for _ in range(9)]
    assert [batch.first for batch in batches] == [True, False, False] * 3
    later = Stream(setup.task, items, chosen, **whole.place(4))
    for batch in batches[4:]:
        other = next(later)
        assert batch.first == other.first
        assert torch.equal(batch.inputs["ids"], other.inputs["ids"])


def test_evaluation_reads_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer.train("word", ["a b c d e f g"])
    task, model = Language(tokenizer, carry_state=True), network()
    ids = text().flatten().tolist()
    items = [
        language.LanguageItem(ids[at : at + ROW], ids[at + 1 : at + ROW + 1], 1.0, at)
        for at in range(0, len(ids) - ROW, ROW)
    ]
    count = sum(len(item.targets) for item in items)
    log_probs = model(torch.tensor([ids[:count]])).detach().log_softmax(-1)[0]
    expected = -sum(float(log_probs[i, ids[i + 1]]) for i in range(count)) / count
    for stretch in (1024, 7):
        monkeypatch.setattr(language, "STRETCH", stretch)
        assert task.evaluate(model, items).numbers["loss"] == pytest.approx(expected, abs=1e-6)


def test_carry_state_is_refused_without_a_recurrent_language_model() -> None:
    def mistake(task: str, family: str, **sections: Any) -> str:
        values = {"task": {"kind": task}, "data": {"toyland": 200}, "model": SMALL[family]}
        with pytest.raises(ConfigError) as caught:
            recipe.parse(values | sections)
        return str(caught.value)

    on: dict[str, Any] = {"training": {"carry_state": True}}
    said = mistake("language", "transformer", **on)
    assert "training.carry_state = true: a transformer has no state" in said
    assert "not for task tag; omit the key" in mistake("tag", "lstm", **on)
    assert "set model.ensemble_size = 1" in mistake("language", "ensemble", **on)
    said = mistake("language", "lstm", **on, decoding={"context": 9})
    assert "context = 9 has no effect; set context = 0" in said
    task = Language(Tokenizer.train("word", ["a b"]), carry_state=True)
    with pytest.raises(InputError, match="no state to carry"):
        task.evaluate(torch.nn.Linear(2, 2), [])
    with pytest.raises(ConfigError, match="no state to carry"):
        CarriedState(torch.nn.Linear(2, 2), 3)


def test_embedding_dropout_hides_a_token_everywhere() -> None:
    model = network(embedding_dropout=0.5)
    drop = model.decoder.embedding_dropout
    ids = torch.arange(11).repeat(4, 3)
    x = torch.ones(*ids.shape, 6, dtype=torch.double)
    torch.manual_seed(0)
    dropped = drop.train()(x, ids)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    for token in range(11):
        assert len(dropped[ids == token].unique()) == 1
    assert torch.equal(drop.eval()(x, ids), x)
    twice = [model.train()(ids).detach() for _ in range(2)]
    assert not torch.equal(*twice)
