"""Weights in float32 stay where they lie in the file, and are weights like any other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from translucid.core.errors import InputError
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.importing import open_network
from translucid.interop.placing import place_weights
from translucid.interop.rules import Pairs, rule

D, FF, VOCAB = 8, 12, 11
CONFIG = {
    "model_type": "llama", "vocab_size": VOCAB, "hidden_size": D, "intermediate_size": FF,
    "num_hidden_layers": 2, "num_attention_heads": 2, "rms_norm_eps": 1e-5,
}  # fmt: skip
SHAPES = {f"self_attn.{name}_proj": (D, D) for name in "qkvo"} | {
    "mlp.gate_proj": (FF, D), "mlp.up_proj": (FF, D), "mlp.down_proj": (D, FF),
    "input_layernorm": (D,), "post_attention_layernorm": (D,),
}  # fmt: skip


def random_llama() -> dict[str, Tensor]:
    ends = {"model.embed_tokens": (VOCAB, D), "lm_head": (VOCAB, D), "model.norm": (D,)}
    layers = {f"model.layers.{i}.{name}": shape for i in range(2) for name, shape in SHAPES.items()}
    return {f"{name}.weight": torch.randn(shape) for name, shape in (ends | layers).items()}


def write(folder: Path, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_mapped_weights_equal_copied_weights(tmp_path: Path) -> None:
    """A file in float64 is converted, so that every weight of it is a copy."""
    tensors = random_llama()
    ours: Any = open_network(write(tmp_path / "a", tensors)).network
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    copied = open_network(write(tmp_path / "b", wide)).network
    for name, weight in ours.state_dict().items():
        assert torch.equal(weight, copied.state_dict()[name]), name
    stored = read_safetensors(tmp_path / "a" / "model.safetensors").tensors
    feedforward = ours.decoder.layers[1].feedforward
    places = {  # two tensors that follow each other are one weight
        "model.embed_tokens": ours.decoder.embedding.table.weight,
        "lm_head": ours.head.linear.weight,
        "model.layers.1.mlp.gate_proj": feedforward.expand.weight,
        "model.layers.1.mlp.down_proj": feedforward.output.weight,
    }  # fmt: skip
    apart = {place.data_ptr() - stored[f"{name}.weight"].start for name, place in places.items()}
    assert len(apart) == 1, "all of them lie in one mapping of the file"


def test_training_changes_no_file_and_no_other_weight(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", random_llama())
    before = (folder / "model.safetensors").read_bytes()
    network = open_network(folder).network
    ids = torch.arange(6)[None]
    network(ids).square().mean().backward()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            others = {n: w.clone() for n, w in network.named_parameters() if n != name}
            assert weight.grad is not None
            weight.sub_(weight.grad)
            assert all(
                torch.equal(w, others[n]) for n, w in network.named_parameters() if n in others
            )
    assert (folder / "model.safetensors").read_bytes() == before
    assert not torch.equal(open_network(folder).network(ids), network(ids))


def test_a_tensor_used_by_two_weights_is_copied(tmp_path: Path) -> None:
    save_file({"w": torch.randn(4, 3)}, tmp_path / "w.safetensors")
    tensors = read_safetensors(tmp_path / "w.safetensors").tensors
    pair = torch.nn.ModuleDict({name: torch.nn.Linear(3, 4, bias=False) for name in "ab"})
    place_weights(pair, [rule("w", f"{name}.weight") for name in "ab"], tensors, (), "x")
    a, b = pair.parameters()
    assert torch.equal(a, b)
    assert a.data_ptr() != b.data_ptr()


def test_rows_are_reordered_while_copying(tmp_path: Path) -> None:
    values = torch.randn(12, 3)
    save_file({"w": values}, tmp_path / "w.safetensors")
    tensors = read_safetensors(tmp_path / "w.safetensors").tensors
    layer = torch.nn.Linear(3, 12, bias=False)
    place_weights(layer, [rule("w", "weight", Pairs(2))], tensors, (), "x")
    assert torch.equal(layer.weight, Pairs(2).apply(values))


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (torch.nan, "not finite"),
        (-torch.inf, "not finite"),
        (3e38, "beyond"),  # the sum of two is infinite, but the values are finite
        (9e11, ""),  # the sum of two is beyond the limit, but the values are not
    ],
)
def test_mapped_weights_that_are_huge_or_not_finite_are_refused(
    tmp_path: Path, value: float, refused: str
) -> None:
    tensors = random_llama()
    tensors["lm_head.weight"][:2, 1] = value
    folder = write(tmp_path / "a", tensors)
    if refused:
        with pytest.raises(InputError, match=rf"lm_head\.weight .* values (that are )?{refused}"):
            open_network(folder)
    else:
        network: Any = open_network(folder).network
        assert torch.equal(network.head.linear.weight, tensors["lm_head.weight"])
