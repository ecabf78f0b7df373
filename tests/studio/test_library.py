"""The names of runs: one for each question, and what they are made of."""

import pytest
from tests.studio.serving import model

from translucid.studio.library import Library
from translucid.studio.page_model import describe_model


def test_runs_are_named_by_start_or_by_weights() -> None:
    """All weights of a large model take seconds to read: not before the first page."""
    one, other = model("classify-transformer"), model("classify-transformer")
    text = "the old dog"
    served = Library({"one": one, "other": other}, start="now")
    run = served.run("a", text)
    describe_model(served.model("a"))
    assert "fingerprint" not in vars(run.opened)
    keys = [run.key, served.run("b", text).key, served.run("a", "a cat").key,
            Library({"one": one}, start="later").run("a", text).key,
            Library({"one": one}).run("a", text).key]  # fmt: skip
    assert len({*keys}) == len(keys)
    assert served.run("a", text) is run
    assert Library({"one": one}, start="now").run("a", text).key == run.key
    other.network.get_parameter("encoder.embedding.table.weight").data[0, 0] += 1
    unnamed = [Library({"m": each}).run("a", text) for each in (one, other)]
    assert unnamed[0].key == keys[-1] != unnamed[1].key


@pytest.mark.parametrize("family", ["tag-lstm", "classify-gru", "translate-lstm"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_shapes_of_a_recurrent_run_are_those_of_the_trace(family: str, bidirectional: bool) -> None:
    """A backward reader ends at position 0."""
    own = model(family, bidirectional=bidirectional)
    run = Library({"small": own}).run("a", "the dog sees a cat .")
    trace = own.trace(run.text)
    assert run.shapes == {name: tuple(trace[name].shape) for name in trace}
