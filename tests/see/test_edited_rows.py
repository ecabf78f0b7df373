"""One text with many edits in a batch, against reading it once for each."""

import pytest
import torch
from tests.see.small import ENGLISH, pair
from tests.studio.serving import TEXT, model

from translucid.see.edits import can_be_rows, read_edited
from translucid.see.part_switches import switches
from translucid.see.reading import Reading, read
from translucid.studio.answers import effect
from translucid.studio.library import Library

NETWORKS = {
    "translate": ("translate", "transformer", {"layers": 1}),
    "alibi": ("language", "transformer", {"positions": "alibi", "norm": "layer"}),
    "learned": ("tag", "transformer", {"layers": 1, "positions": "learned"}),
    "lstm": ("translate", "lstm", {"bidirectional": True}),
    "gru": ("classify", "gru", {}),
    "mlp": ("regress", "mlp", {}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_row_is_the_run_with_its_edit(name: str) -> None:
    task, family, keys = NETWORKS[name]
    made, network = pair(task, family, **keys)
    text = "0.5 1 -2" if name == "mlp" else ENGLISH[0]
    target = "der hund schläft ." if task == "translate" else None
    plain = read(network, made, text, target)
    edits = [switch.edit for switch in switches(network) if can_be_rows(plain, switch.edit)]
    assert len(edits) >= len(switches(network)) - 2  # a scale for each stack
    shared = 0
    for edit, row in zip(edits, read_edited(plain, edits), strict=True):
        alone = Reading(network, made, plain.example, edit=edit, by_hand=True)
        with torch.no_grad():
            network(**plain.example.inputs_for(network), trace=alone)
        row.check()
        assert list(row) == list(alone)
        for point in alone:
            assert torch.allclose(row[point], alone[point], rtol=1e-9, atol=1e-12), point
            shared += row[point] is plain[point]  # no copy of what an edit does not reach
    assert shared > 0 or family not in ("transformer", "mlp")


def test_reading_ahead_equals_reading_later() -> None:
    held = model("translate-transformer")
    ahead, alone = Library({"m": held}), Library({"m": held})
    run = ahead.run("a", TEXT)
    keys = list(ahead.opened["a"].switches)[:8]
    ahead.prefetch(run.key, keys)
    waiting = dict(ahead.runs)
    assert len(waiting) == 1 + len([key for key in keys if not key.endswith(".scale")])
    for key in keys:
        one, other = (library.run("a", TEXT, run.target, [key]) for library in (ahead, alone))
        assert (one is waiting.get(one.key)) != key.endswith(".scale")
        known, anew = effect(run, [key], one), effect(run, [key])
        assert known["loss"] == pytest.approx(anew["loss"], rel=1e-5)
        assert known["loss"][0] != known["loss"][1]
        mine, theirs = one.as_dict(), other.as_dict()
        assert mine.pop("loss") == pytest.approx(theirs.pop("loss"), rel=1e-5)
        mine.pop("ms"), theirs.pop("ms")
        assert mine == theirs
    before = dict(ahead.runs)
    ahead.prefetch(one.key, keys)  # of a run with a part off already nothing is read ahead
    assert dict(ahead.runs) == before
