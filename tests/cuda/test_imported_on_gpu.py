"""Models in another tool's layout, opened on a GPU: with captured graphs they write what they write
without, and what a processor writes. The folders are exports of random models of ours, so that no
other library is needed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.own_models import ENGLISH, own
from tests.interop.test_export_huggingface import DECODERS, TRANSLATORS

import translucid as tl
from translucid.core.trace import Trace
from translucid.fast.decode_graphs import DecodeGraphs
from translucid.interop.export.exporting import export

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
NAMES = {
    "llama": ("language", DECODERS["grouped heads, no biases"]),
    "gpt2": ("language", DECODERS["learned positions"]),
    "gpt_neox": ("language", DECODERS["layer norm and relu"]),
    "marian": ("translate", TRANSLATORS["post-norm, grouped heads, untied"]),
    "t5": ("translate", TRANSLATORS["relative"]),
}
SEARCHES: tuple[dict[str, Any], ...] = (
    {"beam_size": 1, "min_length": 6, "max_length": 7},
    {"beam_size": 3, "n_best": 3, "min_length": 4, "max_length": 6},
)


@pytest.fixture(autouse=True)
def _full_precision():
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("family", NAMES)
def test_captured_is_uncaptured(family: str, tmp_path: Path) -> None:
    """A trace, even one that keeps nothing and changes nothing, is never captured."""
    task, (options, kind) = NAMES[family]
    assert kind == family
    export(own(task, **options), "huggingface", tmp_path / "out")
    on_gpu, on_cpu = (tl.load(tmp_path / "out", device=device) for device in ("cuda", "cpu"))
    assert DecodeGraphs().fits(on_gpu.network)
    still = {f"{'decoder' if task == 'language' else 'encoder'}.embedding.lookup": lambda x: x}
    for search in SEARCHES:
        plain = [on_gpu.decode([text], trace=Trace([], edit=still), **search)[0]
                 for text in ENGLISH]  # fmt: skip
        elsewhere = on_cpu.decode(list(ENGLISH), **search)
        for _ in range(3):  # captured, then replayed
            captured = on_gpu.decode(list(ENGLISH), **search)
            for one, other, third in zip(captured, plain, elsewhere, strict=True):
                assert [t.text for t in one.texts] == [t.text for t in other.texts]
                assert [t.tokens for t in one.texts] == [t.tokens for t in third.texts]
                for a, b in zip(one.texts, other.texts, strict=True):
                    assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-3)
