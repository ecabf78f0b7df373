"""What a student reads first: the example that trains by hand runs, and does what it says."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from translucid.generate.beam_search import GenerationConfig
from translucid.generate.decode import find
from translucid.models import GenerationInputs, TransformerConfig, build

FILE = Path(__file__).parent.parent.parent / "examples" / "train_by_hand.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(FILE), run_name="by_hand")


@pytest.mark.slow
def test_a_few_steps_lower_the_loss(example: dict[str, Any], capsys: Any) -> None:
    torch.manual_seed(0)
    model = _model(example)
    first = example["train"](model, steps=1)
    assert example["train"](model, steps=60) < first - 0.2
    assert capsys.readouterr().out == ""  # it speaks every hundred steps


def test_its_greedy_loop_is_ours(example: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = _model(example).eval()
    source, _ = example["make_batch"](5, torch.Generator().manual_seed(0))
    length, start, end = example["LENGTH"], example["START"], example["END"]
    by_hand = example["greedy"](model, source)
    how = GenerationConfig(beam_size=1, min_length=length, max_length=length + 1)
    ours = find(model, [[start]] * 5, GenerationInputs.of(source), how, eos=end, pad=0)
    for row, texts in zip(by_hand.tolist(), ours, strict=True):
        ended = row.index(end) if end in row else length
        assert texts[0].tokens[:ended] == row[:ended]


def _model(example: dict[str, Any]) -> Any:
    return build(
        TransformerConfig(
            shape="encoder-decoder", head="language", vocab=example["FIRST"] + example["DIGITS"],
            d_model=16, heads=2, layers=1, d_ff=32, dropout=0.0, positions="rotary",
        )
    )  # fmt: skip
