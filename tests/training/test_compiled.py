"""Compiled layers train as the plain ones; where they cannot be compiled, that is said."""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.runs.test_runs import small
from torch import Tensor, fx

from translucid.core.errors import ConfigError
from translucid.fast.compiled import CompiledLayers
from translucid.models import RecurrentConfig, TransformerConfig, build
from translucid.runs.run import train_recipe
from translucid.runs.session import Recording
from translucid.tasks.loss import cross_entropy
from translucid.training import automatic
from translucid.training.config import TrainingConfig
from translucid.training.distributed import Processes

# Of torch, from inside its compiler; nobody sees them by default.
pytestmark = pytest.mark.filterwarnings("ignore")

SHAPE: dict[str, Any] = {
    "vocab": 20, "d_model": 8, "heads": 2, "layers": 2, "d_ff": 16, "head": "language",
    "dropout": 0.0,
}  # fmt: skip
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What torch.compile has made; run as it is, since making machine code of it takes a minute."""
    made: list[str] = []

    def keep(graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        made.append(graph.code)
        return graph.forward

    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **_: plain(function, backend=keep))
    torch.compiler.reset()
    yield made
    torch.compiler.reset()


def texts(rows: int, length: int) -> Tensor:
    return torch.randint(3, 20, (rows, length))


def batch(shape: str, rows: int, source: int, target: int) -> dict[str, Tensor]:
    if shape == "decoder":
        return {"ids": texts(rows, target)}
    mask = torch.arange(source) < torch.randint(1, source + 1, (rows, 1))
    return {"source": texts(rows, source), "target": texts(rows, target), "source_mask": mask}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "positions", "kinds"),
    [
        pytest.param("decoder", "rotary", 1, marks=pytest.mark.thorough),
        ("encoder-decoder", "alibi", 2),
        pytest.param("encoder-decoder", "rotary", 2, marks=pytest.mark.thorough),
    ],
)
def test_one_program_for_all_layers_of_a_kind_and_all_shapes(
    shape: Any, positions: Any, kinds: int, programs: list[str]
) -> None:
    torch.manual_seed(0)
    network = build(TransformerConfig(shape=shape, positions=positions, **SHAPE)).train()
    layers, said = CompiledLayers(network, lambda line: lines.append(line)), 0
    lines: list[str] = []
    for rows, source, target in ((3, 5, 5), (4, 4, 4), (2, 9, 6), (5, 3, 8), (2, 2, 2)):
        inputs, targets = batch(shape, rows, source, target), texts(rows, target)
        gradients = []
        for compiled in (True, False):
            network.zero_grad()
            if compiled:
                with layers.used():
                    loss = cross_entropy(network(**inputs), targets)
            else:
                loss = cross_entropy(network(**inputs), targets)
            loss.backward()
            gradients.append([p.grad.clone() for p in network.parameters() if p.grad is not None])
        for ours, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
        said = len(lines)
    assert len(programs) == kinds
    assert (said, lines[0][:14]) == (1, "torch.compile:")


@pytest.mark.slow
def test_layers_run_plain_outside_the_block_and_with_hooks(programs: list[str]) -> None:
    network = build(TransformerConfig(shape="decoder", **SHAPE))
    layers, ids = CompiledLayers(network, lambda _: None), texts(2, 4)
    before = network(ids=ids)
    with layers.used():
        network(ids=ids)
        count = len(programs)
        network.decoder.layers[1].register_forward_hook(lambda *_: _[-1] * 0)
        changed = network(ids=ids)
    assert count == len(programs) == 1
    assert not torch.allclose(before, changed)
    network(ids=ids)
    assert len(programs) == 1


@pytest.mark.parametrize(
    ("changed", "device", "wanted"),
    [
        ({"cuda_graphs": True, "steps": 1000}, CUDA, True),
        ({"cuda_graphs": True, "steps": 999}, CUDA, False),
        ({"cuda_graphs": True, "steps": 500, "accumulate": 2}, CUDA, True),
        ({"cuda_graphs": True, "steps": 9000, "deterministic": True}, CUDA, False),
        ({"cuda_graphs": False, "steps": 9000}, CUDA, False),
        ({"steps": 9000}, CPU, False),
        ({"compile": True}, CPU, True),
        ({"compile": False, "cuda_graphs": True, "steps": 9000}, CUDA, False),
    ],
)
def test_whether_layers_are_compiled(
    changed: dict[str, Any], device: torch.device, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is the work of the whole run: weights times tokens."""
    model = TransformerConfig(shape="decoder", **SHAPE)
    tokens = automatic.WORTH_COMPILING / 1000 / build(model).parameters_count
    training = TrainingConfig(batch_tokens=math.ceil(tokens), **changed)
    for triton in (True, False):
        monkeypatch.setattr(automatic, "has_triton", lambda has=triton: has)
        asked = changed.get("compile", False) is True
        assert automatic.with_compilation(training, model, device).compile is (
            wanted and (triton or asked)
        )


def test_unsupported_compilation_is_refused_or_switched_off() -> None:
    recurrent = RecurrentConfig(
        shape="decoder", vocab=20, d_model=8, hidden=8, layers=1, head="language"
    )
    with pytest.raises(ConfigError, match=r"only the layers of a transformer.*compile = false"):
        automatic.with_compilation(TrainingConfig(compile=True), recurrent, CUDA)
    left_open = TrainingConfig()
    assert automatic.with_compilation(left_open, recurrent, CUDA).compile is False
    transformer = TransformerConfig(shape="decoder", **SHAPE)
    with pytest.raises(ConfigError, match=r"training.deterministic = true .*set one .* to false"):
        automatic.with_compilation(
            TrainingConfig(compile=True, deterministic=True), transformer, CUDA
        )


@pytest.mark.thorough
def test_compiled_layers_train_as_the_plain_ones_with_a_record_and_without(tmp_path: Path) -> None:
    def trained(name: str, recording: Recording | None = None, **options: Any) -> dict[str, Tensor]:
        chosen = small("classify", "still", steps=2, **options)
        held = train_recipe(chosen, tmp_path / name, quiet=True, recording=recording)
        assert "does not work here" not in (tmp_path / name / "log.txt").read_text("utf-8")
        return held.network.state_dict()

    plain, fast = trained("plain"), trained("fast", compile=True)
    seen = trained("seen", Recording(), compile=True)
    for name, weight in plain.items():
        torch.testing.assert_close(fast[name], weight, rtol=1e-3, atol=1e-4)
        assert torch.equal(fast[name], seen[name]), name


def test_without_a_compiler_the_plain_layers_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        def fail(*_: object, **__: object) -> object:
            raise RuntimeError("no compiler here\nand a long story")

        return fail

    runs = []
    for compiled in (False, True):
        monkeypatch.setattr(torch, "compile", broken)
        chosen = small("classify", "still", steps=2, compile=compiled)
        runs.append(train_recipe(chosen, tmp_path / str(compiled), quiet=True).network.state_dict())
    log = (tmp_path / "True/log.txt").read_text("utf-8")
    assert "torch.compile does not work here" in log
    assert "(no compiler here)" in log
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])


@pytest.mark.slow
def test_layers_within_ddp_are_compiled_too(programs: list[str]) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    network = build(TransformerConfig(shape="decoder", **SHAPE)).train()
    wrapped, layers = Processes(0, 1, "ddp").wrap(network), CompiledLayers(network, lambda _: None)
    ids, gradients = texts(3, 5), []
    for compiled in (True, False):
        network.zero_grad()
        with layers.used() if compiled else nullcontext():
            loss = cross_entropy(wrapped(ids=ids), ids)
        loss.backward()
        gradients.append([p.grad.clone() for p in network.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert len(programs) == 1
    dist.destroy_process_group()
