"""Models that people use, where they are at hand: a folder named by TRANSLUCID_SHARED."""

import os
from pathlib import Path

import pytest
import torch

import translucid as tl

SHARED = os.environ.get("TRANSLUCID_SHARED")
pytestmark = pytest.mark.skipif(
    SHARED is None, reason="TRANSLUCID_SHARED does not name a folder with real weights"
)
STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
    "One day, she saw a big, red ball."
)


def test_stories_tell_a_story() -> None:
    model = tl.load(Path(SHARED or "") / "weights/stories260K/stories260K.bin")
    (decoded,) = model.decode([""], beam_size=1, max_length=60)
    assert decoded.texts[0].text.strip().startswith(STORY)
    pattern = model.trace(STORY)["decoder.layers.4.self_attention.pattern"]
    assert pattern.shape[1] == 8
    assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)
