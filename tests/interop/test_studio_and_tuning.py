"""A model of another tool in the studio, in an explanation and in training: family by family."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.test_everything import (  # noqa: F401  (fixtures)
    FAMILIES,
    TEXT,
    all_families,
    foreign,
    loss_of,
    opened,
)
from tests.interop.tiny_foreign import LABELS, Foreign
from tests.studio.serving import serving

import translucid as tl
from translucid.see.part_switches import choose, switches
from translucid.tasks.batch import IGNORE

# One whose two tokenizers have one vocabulary; the others are for CI.
TUNED = ["marian", *(pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES
                     if name != "marian")]  # fmt: skip
TRAINED = {
    "language": ["the cat is in the sun", "the sun is in"],
    "translate": [("the cat is in", "the cat"), ("in the sun", "the sun is")],
    "classify": list(zip(("the cat", "is in", "the sun is"), LABELS["classifier"], strict=True)),
    "tag": [(["the", "cat", "is", "in"], LABELS["tagger"])],
}  # fmt: skip


@all_families
def test_the_studio_shows_what_the_model_computes(foreign: Foreign) -> None:  # noqa: F811
    """Every point in its shape, two of them value by value, and a head that is switched off."""
    model = foreign.model
    layer = f"{foreign.stack}.layers.1.self_attention"
    names = [f"{layer}.pattern", model.network.output_point]
    off = choose(switches(model.network), ["heads"])[0]
    with serving({foreign.family: model}) as studio:
        for keys, edit in (([], {}), ([off.key], off.edit)):
            shown = studio.run("a", TEXT, off=keys)
            target = shown["target"] if foreign.task == "translate" else None
            reading = model.trace(TEXT, target, edit=edit)
            assert [point["at"] for point in shown["points"]] == list(reading)
            path = f"/api/runs/{shown['run']}/tensors?as=f32&" + "&".join(f"at={n}" for n in names)
            for header, values in studio.get(path).frames:
                assert torch.equal(torch.tensor(values), reading[header["at"]][0]), header["at"]


@pytest.mark.slow
@all_families
def test_an_explanation_is_that_of_a_model_of_ours(foreign: Foreign, tmp_path: Path) -> None:  # noqa: F811
    foreign.model.save(tmp_path / "ours")
    explained = str(foreign.model.explain(TEXT))
    assert TEXT in explained
    assert explained == str(tl.load(tmp_path / "ours").explain(TEXT))


@pytest.mark.parametrize("foreign", TUNED, indirect=True)
def test_training_continues_from_the_reference(foreign: Foreign, tmp_path: Path) -> None:  # noqa: F811
    """The loss of the first step is that of the reference, the second is lower."""
    examples: Any = TRAINED[foreign.task]
    tl.train(
        foreign.task, tmp_path / "run", train=examples, valid=examples, start_from=foreign.folder,
        device="cpu", quiet=True, steps=2, batch_tokens=1000, log_every=1, evaluate_every=2,
        learning_rate=0.001, warmup=0, label_smoothing=0.0, model={"dropout": 0.0},
        data={"max_length": 30},
    )  # fmt: skip
    lines = (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
    losses = [line["loss"] for line in map(json.loads, lines) if "norm" in line]
    nats, targets = 0.0, 0
    for item in foreign.model.encoded_examples(str(tmp_path / "run" / "data" / "train.jsonl")):
        batch = foreign.model.task.collate([item])
        count = int((batch.targets != IGNORE).sum())
        with torch.inference_mode():
            nats += count * loss_of(foreign.reference(batch.inputs).logits, batch.targets)
        targets += count
    assert losses[0] == pytest.approx(nats / targets, abs=1e-5)
    assert losses[1] < losses[0]
