"""The table of gates holds the means of the trace."""

import numpy as np
import pytest
from tests.see.small import reading

from translucid.core.errors import InputError
from translucid.see.pictures import Grid

TEXT = "the dog sees a cat ."


@pytest.mark.parametrize(
    ("family", "rows"),
    [
        ("lstm", ["f  forget", "i  input", "o  output", "g  candidate", "c  cell", "h  hidden"]),
        ("gru", ["r  reset", "z  update", "n  candidate", "h  hidden"]),
        ("rnn", ["h  hidden"]),
    ],
)
def test_a_gate_is_the_mean_of_its_units_and_a_state_their_size(family, rows):
    seen = reading("translate", TEXT, "der hund .", family)
    grid = seen.gates()
    assert isinstance(grid, Grid)
    for heat in grid.heats:
        assert list(heat.rows.labels) == rows
        inside = heat.address.startswith("encoder")
        assert heat.columns.labels == (seen.words.source if inside else seen.words.target)
        for row, label in zip(heat.values, rows, strict=True):
            gate = label.split()[1] in ("forget", "input", "output", "reset", "update")
            name = heat.address.replace("*", label.split()[1] + "_gate" * gate)
            units = seen[name][0].numpy()
            wanted = units.mean(1) if gate else np.sqrt((units**2).mean(1))
            np.testing.assert_allclose(row, wanted, rtol=1e-9)


def test_one_unit_shows_its_own_numbers():
    seen = reading("language", TEXT, family="lstm")
    (heat,) = seen.gates("decoder*", unit=5).heats
    np.testing.assert_array_equal(
        heat.values[4], seen["decoder.recurrent.layers.0.lstm.cell"][0, :, 5].numpy()
    )
    assert heat.scale == "signed"


def test_networks_without_gates_are_refused():
    with pytest.raises(InputError, match=r"recurrent\.layers"):
        reading("language", TEXT).gates()
    with pytest.raises(InputError, match=r"unit = 12: .*forget_gate has units 0 to 11"):
        reading("language", TEXT, family="lstm").gates(unit=12)
