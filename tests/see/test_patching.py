"""Causal tracing, against `model.trace` with an edit by hand."""

from typing import Any

import pytest
import torch
from tests.see.small_readings import SOURCE, TASKS, recurrent, transformer

import translucid as tl
from translucid.core.errors import InputError
from translucid.models import Network
from translucid.see import patching
from translucid.see.edits import from_trace
from translucid.see.part_switches import switches
from translucid.see.patching import Patching
from translucid.see.pictures import Grid, Heat
from translucid.see.reading import Reading, read

GERMAN = "der Hund sieht eine Katze"
CLEAN, CORRUPTED = "the dog sees a cat", "the cat sees a dog"
STREAM_OF = {
    "transformer": "{}.layers.0.feedforward_residual.sum",
    "recurrent": "{}.recurrent.layers.0.lstm.hidden",
}
# Each family, and the side whose stream decides all that comes after it.
CASES = [
    (family, task, side)
    for family in STREAM_OF
    for task, side in (
        ("language", "decoder"), ("translate", "encoder"), ("classify", "encoder"),
        ("tag", "encoder"),
    )
]  # fmt: skip


def network_of(family: str, task: str) -> Network:
    return transformer(task) if family == "transformer" else recurrent(task, cell="lstm")


def runs(network: Network, task: str, **options: Any) -> tuple[Reading, Reading]:
    target = GERMAN if task == "translate" else None
    clean = read(network, TASKS[task], CLEAN, target)
    return clean, read(network, TASKS[task], CORRUPTED, target, **options)


@pytest.mark.parametrize(("family", "task", "side"), CASES)
def test_all_of_a_layer_is_the_clean_run_and_one_cell_an_edit_by_hand(
    family: str, task: str, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patching, "TOKENS", 12)  # cells come in several batches
    network, point = network_of(family, task), STREAM_OF[family].format(side)
    clean, corrupted = runs(network, task)
    traced = clean.patching(corrupted)
    tokens = range(clean[point].shape[1])
    assert traced.value(point, tokens) == pytest.approx(traced.clean_value, abs=1e-9)
    assert traced.fraction(traced.clean_value) == 1.0
    assert traced.fraction(traced.corrupted_value) == 0.0
    by_hand = []
    for token in tokens:
        edit = from_trace(clean, point, tokens={token: token})
        logits = read(
            network, TASKS[task], CORRUPTED, GERMAN if task == "translate" else None, edit=edit
        ).output_values
        row = logits if logits.dim() == 1 else logits[traced.position]
        rival = 0.0 if traced.against is None else row[traced.against]
        by_hand.append(traced.fraction(float(row[traced.output] - rival)))
    assert traced.recovered(point) == pytest.approx(by_hand, abs=1e-9)
    assert max(by_hand, key=abs) != 0.0


def test_the_same_run_put_into_itself_changes_nothing() -> None:
    network = transformer("language")
    clean, corrupted = runs(network, "language")
    point = "decoder.layers.1.self_attention.mixed"  # its tokens are no second axis
    logits = patching.patched(corrupted, corrupted, point, [(0, 2), (1,)])
    torch.testing.assert_close(logits, corrupted["head.logits"].expand_as(logits))
    logits = patching.patched(clean, corrupted, point, [(0, 2), (1,)])
    edit = from_trace(clean, point, tokens={0: 0, 2: 2})
    alone = read(network, TASKS["language"], CORRUPTED, edit=edit)["head.logits"]
    torch.testing.assert_close(logits[:1], alone)


def test_what_is_switched_off_in_the_corrupted_run_stays_off() -> None:
    network = transformer("classify")
    off = next(each for each in switches(network) if each.kind == "layers")
    clean, corrupted = runs(network, "classify", edit=off.edit)
    point = "encoder.embedding.lookup"
    everywhere = range(clean[point].shape[1])
    values = clean.patching(corrupted, output=0).value(point, everywhere)
    edited = read(network, TASKS["classify"], CLEAN, edit=off.edit)
    assert values == pytest.approx(float(edited.output_values[0]), abs=1e-9)
    assert values != pytest.approx(float(clean.output_values[0]), abs=1e-3)


def test_the_answer_that_is_measured() -> None:
    clean, corrupted = runs(transformer("language"), "language")
    chosen = clean.patching(corrupted)
    ours, theirs = clean["head.logits"][0], corrupted["head.logits"][0]
    apart = (ours.softmax(-1) - theirs.softmax(-1)).abs().sum(-1)
    assert chosen.position == int(apart.argmax())
    row = ours[chosen.position]
    assert chosen.output == int(row.argmax())
    alone = clean.patching(corrupted, position=3, output=5)
    assert (alone.against, alone.clean_value) == (None, float(ours[3, 5]))
    over = clean.patching(corrupted, position=3, output=5, against=2)
    assert over.clean_value == pytest.approx(float(ours[3, 5] - ours[3, 2]))
    assert repr(clean.names_at(3, [5])[0]) in str(over)


def test_the_map_has_a_row_for_each_depth_and_says_how_far_it_is() -> None:
    clean, corrupted = runs(transformer("translate"), "translate")
    traced, seen = clean.patching(corrupted), list[tuple[int, int]]()
    grid = traced.picture(progress=lambda done, of: seen.append((done, of)))
    assert isinstance(grid, Grid)
    assert [heat.address for heat in grid.heats] == ["encoder", "decoder"]
    assert grid.heats[0].columns.labels == ("the", "dog | cat", "sees", "a", "cat | dog", "</s>")
    count = sum(len(heat.rows.labels) for heat in grid.heats)
    assert seen == [(done + 1, count) for done in range(count)]
    one = traced.picture("encoder.layers.1.feedforward.output", tokens=(1, 4))
    assert isinstance(one, Heat)
    whole = traced.recovered("encoder.layers.1.feedforward.output")
    assert one.values[0].tolist() == pytest.approx(whole[1:4])


def test_runs_that_cannot_be_patched_are_refused() -> None:
    network = transformer("translate")
    task = TASKS["translate"]
    clean, corrupted = runs(network, "translate")
    with pytest.raises(InputError, match=r"source: the clean run has 6 tokens \(the dog.*one 5 \("):
        clean.patching(read(network, task, "the dog sees cat", GERMAN))
    with pytest.raises(InputError, match=r"target: .*the same target"):
        clean.patching(read(network, task, CORRUPTED, "der Hund sieht"))
    for numbers in ("perceptron", "regress"):
        model = tl.load(f"demo:{numbers}")
        with pytest.raises(InputError, match=r"patching.*numbers.*edit="):
            model.trace("1 1").patching(model.trace("0 1"))
    with pytest.raises(InputError, match="different networks"):
        clean.patching(runs(transformer("translate"), "translate")[1])
    traced = clean.patching(corrupted)
    for options, message in (
        ({"position": 99}, "position = 99: must be between 0 and 5"),
        ({"output": len(SOURCE) + 99}, "output = .*: must be between 0 and"),
        ({"output": 1, "against": -1}, "against = -1"),
    ):
        with pytest.raises(InputError, match=message):
            Patching(clean, corrupted, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no vector for each token"):
        traced.recovered("encoder.layers.0.self_attention.scale")
    with pytest.raises(InputError, match=r"token 6: .* between 0 and 5"):
        traced.value("encoder.embedding.lookup", [6])
    with pytest.raises(InputError, match="nothing can be recovered"):
        clean.patching(clean).recovered("encoder.embedding.lookup")
