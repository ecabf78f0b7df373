"""Opening a model takes little more memory than the model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from translucid.core.trace import Trace, TraceBudgetError
from translucid.models import TransformerConfig, build

D, LAYERS, VOCAB = 768, 6, 16_000
OPEN = """
import sys
from pathlib import Path
from translucid.interop.importing import open_network

def peak():  # of this process alone: resource.getrusage would count that of the tests too
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

before = peak()
opened = open_network(Path(sys.argv[1]))
print(peak() - before, 4 * opened.network.parameters_count)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_peak_memory_is_that_of_the_model(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "vocab_size": VOCAB, "hidden_size": D, "intermediate_size": 3 * D,
        "num_hidden_layers": LAYERS, "num_attention_heads": 12, "rms_norm_eps": 1e-5,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    ends = ("model.embed_tokens", "lm_head")
    tensors = {f"{name}.weight": torch.rand(VOCAB, D) for name in ends}
    tensors["model.norm.weight"] = torch.ones(D)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name in "qkvo":
            tensors[f"{prefix}self_attn.{name}_proj.weight"] = torch.rand(D, D)
        for name, shape in {"gate": (3 * D, D), "up": (3 * D, D), "down": (D, 3 * D)}.items():
            tensors[f"{prefix}mlp.{name}_proj.weight"] = torch.rand(shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = torch.ones(D)
    save_file(tensors, tmp_path / "model.safetensors")
    largest = max(tensor.nbytes for tensor in tensors.values())
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    peak, size = map(int, done.stdout.split())
    # The weights, the pages of one tensor of the file, and a little.
    assert peak < 1.15 * size + largest + (20 << 20)


@pytest.mark.slow
def test_the_trace_budget_at_30_layers_and_2048_tokens() -> None:
    """What a trace would keep is known without running it, on a device that computes nothing; it
    is the parabola through what short texts do keep."""
    config = TransformerConfig(
        shape="decoder", head="language", vocab=50, d_model=36, heads=9, kv_heads=3, layers=30,
        d_ff=48, activation="swiglu", norm="rms", positions="rotary", tied=True, bias=False,
    )  # fmt: skip
    network = build(config).eval()

    def kept(length: int, **options: Any) -> int:
        device = next(network.parameters()).device
        trace = Trace(budget_bytes=None, **options)
        with torch.inference_mode():
            network(torch.zeros(1, length, dtype=torch.long, device=device), trace=trace)
        return trace.bytes

    one, two, three = (kept(length) for length in (2, 3, 4))
    square = (three - 2 * two + one) // 2
    line = two - one - 5 * square
    rest = one - 4 * square - 2 * line
    network.to("meta")
    assert kept(2048) == square * 2048**2 + line * 2048 + rest
    pattern = 9 * 2048**2 * 4  # bytes of a layer
    assert kept(2048, keep="*.pattern") == 30 * pattern
    with pytest.raises(TraceBudgetError, match=rf"layers\.{2**30 // pattern}\..*2,?048"):
        network(torch.zeros(1, 2048, dtype=torch.long, device="meta"), trace=Trace("*.pattern"))
