"""Rows for language models: no token is lost and none is invented."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translucid.core.errors import ConfigError, InputError
from translucid.data.packing import pack

PAD, BOS, EOS = 0, 1, 2
documents = st.lists(st.lists(st.integers(3, 99), max_size=12), min_size=1, max_size=12)


@given(documents, st.integers(1, 9))
def test_the_rows_are_the_documents(docs: list[list[int]], length: int) -> None:
    inputs, targets, mask = pack(docs, length, bos=BOS, eos=EOS, pad_id=PAD)
    stream = [token for document in docs for token in (*document, EOS)]
    assert targets[mask].tolist() == stream
    assert inputs[mask].tolist() == [BOS, *stream[:-1]]
    assert (targets[~mask] == PAD).all()
    assert inputs.shape == targets.shape == mask.shape
    assert inputs.shape[1] == length
    assert mask[:-1].all()  # only the last row may be padded
    assert mask[-1].any()
    assert inputs.flatten()[1:].tolist() == targets.flatten()[:-1].tolist()


def test_what_cannot_be_packed() -> None:
    with pytest.raises(InputError, match="no documents"):
        pack([], 4, bos=BOS, eos=EOS, pad_id=PAD)
    with pytest.raises(ConfigError, match="length = 0"):
        pack([[5]], 0, bos=BOS, eos=EOS, pad_id=PAD)
