"""Planted mistakes are found, each by its own check; healthy models of every family pass all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.checks.checked import (
    FAMILIES,
    PAIRS,
    TASKS,
    TINY,
    look,
    network_for,
    planted,
    world,
)
from torch import Tensor, nn

from translucid.core.errors import TrainingError
from translucid.data.batching import pad
from translucid.data.records import Tagged
from translucid.models.base import Decoder, Encoded
from translucid.parts import masks
from translucid.runs.checks import model as model_checks
from translucid.runs.checks import startup
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.classify import Classify, ClassifyItem
from translucid.tasks.language import Language, LanguageItem
from translucid.tasks.tag import Tag, TagItem
from translucid.tasks.translate import Translate, TranslateItem

# --- healthy


def often(task: str, family: str) -> bool:
    """Every family with a task or two; all of them are met on demand."""
    if ("classify", family) not in PAIRS:  # it is of one task only
        return True
    return (TASKS.index(task) + list(FAMILIES).index(family)) % 3 == 0


@pytest.mark.parametrize(
    ("task", "family"),
    [
        pytest.param(task, family, marks=() if often(task, family) else pytest.mark.thorough)
        for task, family in PAIRS
    ],
)
def test_healthy_models_pass(task: str, family: str) -> None:
    network = network_for(task, FAMILIES[family]).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    drawn = torch.get_rng_state()
    found = look(None, network, task)
    assert [f for f in found.values() if not f.ok] == []
    assert ("leaking mask" in found) == (task in ("translate", "language"))
    assert network.training  # as it was, and so is everything else
    assert torch.equal(torch.get_rng_state(), drawn)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("task", TASKS)
def test_healthy_models_in_both_directions_pass(task: str) -> None:
    if task != "language":
        both = FAMILIES["lstm additive"] | {"bidirectional": True}
        assert all(f.ok for f in look(None, network_for(task, both), task).values())


def test_separate_vocabularies_pass() -> None:
    examples, prepared, items = world("translate", joint=False)
    network = network_for("translate", TINY, joint=False)
    found = startup.of_model(prepared.task, network, items, examples.train)
    assert [f for f in found if not f.ok] == []


def test_regression_passes() -> None:
    found = look(None, network_for("regress", {"hidden": [8], "standardise": True}), "regress")
    assert all(f.ok for f in found.values())
    assert set(found) == {"sizes", "padding in the loss"}


@pytest.mark.parametrize("task", [*TASKS, "regress"])
def test_healthy_run_starts_without_warnings(task: str) -> None:
    examples, prepared, items = world(task)
    said: list[str] = []
    network = network_for(task, {"hidden": [8]} if task == "regress" else TINY)
    alone = replace(examples, valid=[], test=[])  # which have words that few examples do not show
    startup.startup(prepared.task, network, items, alone, said.append)
    assert said == []


# --- shifted targets


class Unshifted(Language):
    def collate(self, items: Sequence[LanguageItem]) -> Batch:
        return super().collate([replace(item, targets=item.ids) for item in items])


class TwiceShifted(Language):
    def collate(self, items: Sequence[LanguageItem]) -> Batch:
        return super().collate([replace(i, ids=i.ids[:-1], targets=i.targets[1:]) for i in items])


def moved(batch: Batch, targets: Tensor) -> Batch:
    return replace(batch, targets=targets, count=int((targets != IGNORE).sum()))


class UnshiftedTranslate(Translate):
    def collate(self, items: Sequence[TranslateItem]) -> Batch:
        batch = super().collate(items)
        read = batch.inputs["target"]
        return moved(batch, read.masked_fill(~batch.inputs["target_mask"], IGNORE))


class TwiceShiftedTranslate(Translate):
    def collate(self, items: Sequence[TranslateItem]) -> Batch:
        batch = super().collate(items)
        return moved(batch, torch.nn.functional.pad(batch.targets[:, 1:], (0, 1), value=IGNORE))


class NeverEnds(Translate):
    def collate(self, items: Sequence[TranslateItem]) -> Batch:
        batch = super().collate(items)
        return moved(batch, batch.targets.masked_fill(batch.targets == self.target.eos_id, IGNORE))


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (Unshifted, "language", "all are the token at +0: the model would learn to copy"),
        (TwiceShifted, "language", "all are the token at +2: shifted twice"),
        (UnshiftedTranslate, "translate", "the model would learn to copy"),
        (TwiceShiftedTranslate, "translate", "shifted twice"),
        (NeverEnds, "translate", "8 tokens have no target"),
    ],
)
def test_a_wrong_shift_is_found(kind: type, name: str, words: str) -> None:
    task, network = planted(kind, name), network_for(name, TINY)
    finding = look(task, network, name)["shifted targets"]
    assert finding.mark == "-"
    assert words in finding.words
    examples, _, items = world(name)
    with pytest.raises(TrainingError, match="shifted targets: "):
        startup.startup(task, network, items, examples, lambda line: None)


class TagsOneLate(Tag):
    def encode(self, record: Tagged) -> TagItem:
        item = super().encode(record)
        return replace(item, tags=[IGNORE, *item.tags[:-1]])


class NextLabel(Classify):
    def collate(self, items: Sequence[ClassifyItem]) -> Batch:
        batch = super().collate(items)
        return replace(batch, targets=(batch.targets + 1) % len(self.labels))


@pytest.mark.parametrize(("kind", "name"), [(TagsOneLate, "tag"), (NextLabel, "classify")])
def test_labels_at_the_wrong_place_are_found(kind: type, name: str) -> None:
    finding = look(planted(kind, name), network_for(name, TINY), name)["targets in place"]
    assert finding.mark == "-"
    assert "(first: line " in finding.words


# --- padding


class PadsInTargets(Language):
    """Pad ids where IGNORE should be, and counted."""

    def collate(self, items: Sequence[LanguageItem]) -> Batch:
        batch = super().collate(items)
        targets, _ = pad([item.targets for item in items], self.tokenizer.pad_id)
        return Batch(batch.inputs, targets, targets.numel(), batch.lines)


class PadsCounted(Tag):
    """A loss over the right targets, divided by the wrong number."""

    def collate(self, items: Sequence[TagItem]) -> Batch:
        batch = super().collate(items)
        return replace(batch, count=batch.targets.numel())


class MeanLoss(Classify):
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return super().loss(model, batch) / batch.count


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (PadsInTargets, "language", "targets at padding must be IGNORE"),
        (PadsCounted, "tag", "targets are counted, while"),
        (MeanLoss, "classify", "the loss must be a sum"),
    ],
)
def test_padding_in_the_loss_is_found(kind: type, name: str, words: str) -> None:
    finding = look(planted(kind, name), network_for(name, TINY), name)["padding in the loss"]
    assert finding.mark == "-"
    assert words in finding.words


class ForgetsMask(Classify):
    def collate(self, items: Sequence[ClassifyItem]) -> Batch:
        batch = super().collate(items)
        return replace(batch, inputs={"ids": batch.inputs["ids"]})


class ForgetsSourceMask(Translate):
    def collate(self, items: Sequence[TranslateItem]) -> Batch:
        batch = super().collate(items)
        inputs = {name: t for name, t in batch.inputs.items() if name != "source_mask"}
        return replace(batch, inputs=inputs)


@pytest.mark.parametrize("family", ["rotary pre", "lstm additive"])
@pytest.mark.parametrize(
    ("kind", "name"), [(ForgetsMask, "classify"), (ForgetsSourceMask, "translate")]
)
def test_attended_padding_is_found(kind: type, name: str, family: str) -> None:
    finding = look(planted(kind, name), network_for(name, FAMILIES[family]), name)["padding seen"]
    assert finding.mark == "-"
    assert "answers depend on the other texts" in finding.words


# --- the causal mask


@pytest.mark.parametrize("task", ["language", "translate"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "none"])
def test_a_decoder_without_its_causal_mask_is_found(task: str, positions: str) -> None:
    network: Any = network_for(task, FAMILIES[f"{positions} pre"])
    network.decoder.causal = False
    finding = look(None, network, task)["leaking mask"]
    assert finding.mark == "-"
    assert "changing token 2 of " in finding.words
    assert "changes earlier outputs, at 1 " in finding.words
    examples, prepared, items = world(task)
    with pytest.raises(TrainingError, match="leaking mask: the model sees future tokens"):
        startup.startup(prepared.task, network, items, examples, lambda line: None)


def test_a_mask_that_leaks_by_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_too_many(queries: Tensor, keys: Tensor) -> Tensor:
        return keys[None, :] <= queries[:, None] + 1

    monkeypatch.setattr(masks, "causal", one_too_many)  # only where a mask is built by hand
    finding = look(None, network_for("language", TINY), "language")["leaking mask"]
    assert finding.mark == "-"
    assert "changes earlier outputs, at 1 " in finding.words


class ReadsBackwards(Decoder):
    """A recurrent decoder that also reads from right to left."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.inner, self.embedding, self.d_output = decoder, decoder.embedding, decoder.d_output

    def forward(self, ids: Tensor, mask: Any = None, memory: Any = None, trace: Any = None) -> Any:
        one = self.inner(ids, mask, memory)
        other = self.inner(ids.flip(1), mask, memory).outputs.flip(1)
        return Encoded(one.outputs + other, mask, one.state)


def test_a_decoder_that_reads_both_ways_is_found() -> None:
    network: Any = network_for("language", FAMILIES["gru none"])
    network.decoder = ReadsBackwards(network.decoder)
    assert look(None, network, "language")["leaking mask"].mark == "-"


def test_dead_input_and_non_finite_outputs_are_found() -> None:
    deaf: Any = network_for("language", TINY)
    nn.init.zeros_(deaf.decoder.embedding.table.weight)
    assert "does not read its input" in look(None, deaf, "language")["leaking mask"].words
    broken: Any = network_for("language", TINY)
    nn.init.constant_(broken.decoder.embedding.table.weight, torch.nan)
    assert "not finite" in look(None, broken, "language")["outputs"].words


def test_the_sample_has_padding() -> None:
    _, prepared, items = world("language")  # whose rows all have one length
    chosen = model_checks._of_unequal_lengths(prepared.task, items)
    assert len({prepared.task.sizes(item) for item in chosen}) > 2
