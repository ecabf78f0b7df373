"""What a training will take, before it takes it: as counted by building it, and by running it."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run
from torch import Tensor

from translucid.core import device as devices
from translucid.models import build
from translucid.models.build import ModelConfig
from translucid.models.mlp import MLPConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer import TransformerConfig
from translucid.training import memory
from translucid.training.config import TrainingConfig
from translucid.training.memory import activations, count, estimate
from translucid.training.state import State

SIZES: dict[str, Any] = {"d_model": 16, "heads": 2, "vocab": 50}
TRANSLATOR = {"shape": "encoder-decoder", "head": "language", **SIZES}
LANGUAGE = {"shape": "decoder", "head": "language"}
CONFIGS: dict[str, ModelConfig] = {
    "translator": TransformerConfig(**TRANSLATOR, layers=3, decoder_layers=5),
    "translator of equal halves": TransformerConfig(**TRANSLATOR, layers=3, target_vocab=30),
    "gated, learned, untied": TransformerConfig(
        **LANGUAGE, **SIZES, layers=7, activation="swiglu", positions="learned", tied=False,
        kv_heads=1, norm="rms", bias=False,
    ),
    "sinusoids": TransformerConfig(**LANGUAGE, **SIZES, layers=1, positions="sinusoidal"),
    "classes": TransformerConfig(
        shape="encoder", head="classify", outputs=3, **SIZES, layers=2, ngram_features=100
    ),
    "three": TransformerConfig(
        shape="encoder", head="tag", outputs=3, **SIZES, layers=2, ensemble_size=3
    ),
    "lstm": RecurrentConfig(
        shape="encoder", head="tag", outputs=3, vocab=50, d_model=8, hidden=12, layers=4,
        bidirectional=True, characters=6,
    ),
    "gru": RecurrentConfig(**LANGUAGE, vocab=50, d_model=12, hidden=12, cell="gru", layers=3),
    "attention": RecurrentConfig(
        shape="encoder-decoder", head="language", vocab=50, d_model=12, hidden=12, cell="rnn",
    ),
    "mlp": MLPConfig(inputs=3, outputs=2, hidden=(5, 7, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_counted_as_they_are_built(name: str) -> None:
    before = torch.get_rng_state()
    counted = count(CONFIGS[name])
    assert torch.equal(before, torch.get_rng_state()), "nothing is drawn"
    network = build(CONFIGS[name])
    assert counted == (
        sum(p.numel() for p in network.parameters()),
        sum(b.numel() for b in network.buffers()),
    )


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd", "muon"])
def test_optimizer_state_has_the_estimated_size(optimizer: str) -> None:
    training = TrainingConfig(optimizer=optimizer, ema=0.9)
    config = CONFIGS["sinusoids"]
    state = State(build(config), training)
    need = estimate(config, training)
    tensors = [
        tensor for name, tensor in state.tensors().items()
        if name.startswith("optimizer.") and not name.endswith(".step")
    ]  # fmt: skip
    kept = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    assert need.average == 4 * need.parameters
    if optimizer == "muon":  # AdamW keeps twice as much for what is no matrix
        assert need.optimizer < kept < 2 * need.optimizer
    else:
        assert need.optimizer == kept
    assert need.total == need.weights + need.gradients + need.optimizer + need.average + (
        need.activations
    )


def left_behind(config: ModelConfig, rows: int, length: int) -> int:
    """Bytes that a forward pass really keeps for the backward pass, weights aside."""
    network = build(config).train()
    weights = {p.untyped_storage().data_ptr() for p in network.parameters()}
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
            held.append(tensor)  # its place must not be given to another
        return tensor

    held: list[Tensor] = []
    ids = torch.randint(4, 30, (rows, length))
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        if isinstance(config, MLPConfig):
            held.append(network(torch.rand(rows * length, config.inputs)))
        elif config.shape == "encoder-decoder":
            half = length // 2
            output = network(
                source=ids[:, :half], source_mask=mask[:, :half], target=ids[:, half:],
                target_mask=mask[:, half:],
            )  # fmt: skip
            held.append(output.log_softmax(-1))
        else:
            output = network(ids) if config.shape == "decoder" else network(ids, mask)
            held.append(output.log_softmax(-1))
    return sum(seen.values())


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "lstm"])
def test_activations_are_a_bound_from_below_that_is_worth_something(name: str) -> None:
    large: dict[str, Any] = {"dropout": 0.0}
    if not isinstance(CONFIGS[name], MLPConfig):
        large |= {"d_model": 64, **({"hidden": 64} if hasattr(CONFIGS[name], "hidden") else {})}
    config = CONFIGS[name].model_copy(update=large)
    real = left_behind(config, 16, 32)
    guess = activations(config, TrainingConfig(batch_tokens=16 * 32))
    assert real / 6 <= guess <= real


def refused(tmp_path: Path, *words: str) -> str:
    answer = run("train", *words, "--out", "run", cwd=tmp_path)
    assert answer.returncode == 2, answer.stderr
    assert not (tmp_path / "run").exists()
    return answer.stderr


def test_a_model_that_cannot_fit_is_refused_with_numbers(tmp_path: Path) -> None:
    message = refused(tmp_path, "classify", "--toyland", "60", "model.d_model=100000000")
    assert "available on cpu; lower model.d_model (100000000), model.layers (2)" in message
    assert re.search(
        r"\([\d,]+ parameters\) needs about [\d,.]+ EiB \(weights [\d,.]+ PiB, ", message
    )
    assert "gradients" in message
    assert "adamw" in message


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ("model.layers=1000000000", "lower model.layers (1000000000)"),
        ("model.d_ff=100000000000", "lower model.d_ff (100000000000)"),
        ("model.d_model=1000000000000", "lower model.d_model"),
        ("training.batch_tokens=100000000000", "lower training.batch_tokens, "),
        ("model.ensemble_size=100000000", "lower model.ensemble_size (100000000)"),
        ("model.max_length=100000000000", "lower model.max_length (100000000000)"),
    ],
)
def test_the_key_that_takes_most_is_named(change: str, first: str, tmp_path: Path) -> None:
    more = ["model.positions=learned"] if "max_length" in change else []
    assert first in refused(tmp_path, "classify", "--toyland", "60", change, *more)


def test_a_self_test_refuses_it_too(tmp_path: Path) -> None:
    words = ["train", "tag", "--toyland", "60", "--self-test", "model.d_model=100000000"]
    answer = run(*words, cwd=tmp_path)
    assert answer.returncode == 2
    assert "of memory is available" in answer.stderr


def test_a_model_that_just_fits_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config, training, cpu = CONFIGS["translator"], TrainingConfig(), torch.device("cpu")
    total = estimate(config, training).total
    monkeypatch.setattr(memory, "available_bytes", lambda device: total)
    memory.check_memory(config, training, cpu, {})
    monkeypatch.setattr(memory, "available_bytes", lambda device: total - 1)
    with pytest.raises(ValueError, match="lower "):
        memory.check_memory(config, training, cpu, {})
    monkeypatch.setattr(memory, "available_bytes", lambda device: None)
    memory.check_memory(config, training, cpu, {})


def test_available_memory_is_reported() -> None:
    size = devices.available_bytes(torch.device("cpu"))
    assert size is None or size > 1 << 20
    assert devices.available_bytes(torch.device("meta")) is None


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_has_what_is_left_to_it(version: int, tmp_path: Path) -> None:
    names = {
        2: ("memory.max", "memory.current", "memory.stat", "inactive_file 300\nanon 9\n"),
        1: ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
            "cache 9\ntotal_inactive_file 300\n"),
    }[version]  # fmt: skip
    (tmp_path / "memory").mkdir()
    for name, text in zip(names[:3], ("1000\n", "800\n", names[3]), strict=True):
        (tmp_path / name).write_text(text, "utf-8")
    assert devices._left_to_group(tmp_path) == 500
    (tmp_path / names[0]).write_text("max\n")
    assert devices._left_to_group(tmp_path) is None
