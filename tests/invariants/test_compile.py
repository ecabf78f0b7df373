"""Under torch.compile an unseen run holds no trace code, and a seen run is the same run."""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from tests.invariants.cases import (
    begin,
    close,
    config_of,
    model_of,
    random_text,
    randomised,
    spread,
    whole,
)
from tests.invariants.stripped import make_twin
from torch import Tensor, fx, nn

from translucid.core.trace import NO_TRACE, Trace
from translucid.models import ModelConfig, Network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("no_grad", "fresh_compiler"),
    pytest.mark.invariant("torch.compile: no trace code, same numbers"),
]
NAMES = [
    "transformer-decoder-rotary-layer-pre",
    "transformer-decoder-alibi-rms-post",
    "transformer-decoder-learned-layer-pre",
    "transformer-encoder-sinusoidal-batch-post",
    "transformer-encoder-decoder-none-layer-pre",
]
CI = (NAMES[0], NAMES[4])

# Compiling is slow: CI sees a decoder and an encoder-decoder, `make test` none.
GRAPHS = [
    pytest.param(name, padded, marks=() if padded and name in CI else pytest.mark.thorough)
    for name in NAMES
    for padded in (True, False)
]
STEPS = [
    pytest.param(name, marks=() if name in CI else pytest.mark.thorough)
    for name in NAMES
    if "decoder" in name
]


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    models, dropped = make_twin(tmp_path_factory.mktemp("twin"))
    assert dropped > 60, "the trace calls are written in a way that stripped.py does not know"
    return models


def one_layer(name: str) -> ModelConfig:
    return config_of(name).model_copy(update={"layers": 1})


class Recorder:
    """A backend that runs the graph as it is and keeps its code."""

    def __init__(self) -> None:
        self.graphs: list[str] = []

    def __call__(self, graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        self.graphs.append(graph.code)
        return graph.forward


def recorded(model: nn.Module, *args: object) -> tuple[Tensor, str]:
    torch.compiler.reset()
    recorder = Recorder()
    output = torch.compile(model, backend=recorder, fullgraph=True)(*args)
    (code,) = recorder.graphs
    return output, code


def arguments(model: Network, padded: bool) -> tuple[object, ...]:
    text = random_text(model, rows=2, length=4)
    if padded:
        ids, mask = spread(text.ids, 6, "left")
    else:
        ids, mask = text.ids, None
    if text.source is None:
        return ids, mask
    return text.source, ids, text.source_mask, mask


@pytest.mark.parametrize(("name", "padded"), GRAPHS)
def test_the_graph_is_that_of_a_model_without_trace(
    name: str, padded: bool, twin: ModuleType
) -> None:
    config = one_layer(name)
    model = randomised(config)
    stripped = twin.build(twin.TransformerConfig(**config.model_dump())).double().eval()
    stripped.load_state_dict(model.state_dict())
    args = arguments(model, padded)
    output, code = recorded(model, *args, NO_TRACE)
    expected, plain = recorded(stripped, *args)
    assert code == plain
    assert "scaled_dot_product_attention" in code, "nobody looks, so the fused kernel should run"
    close(output, model(*args))
    assert torch.equal(output, expected)


@pytest.mark.parametrize(
    ("name", "keep"),
    [
        (NAMES[0], "*"),
        pytest.param(NAMES[1], "*.pattern", marks=pytest.mark.thorough),
        pytest.param(NAMES[4], "*", marks=pytest.mark.thorough),
    ],
)
def test_a_traced_run(name: str, keep: str) -> None:
    """It compiles or falls back: either way the same numbers under the same names."""
    model = randomised(one_layer(name))
    seen_is_unseen(model, keep)


@pytest.mark.parametrize(
    "name",
    [
        "gru-decoder",
        pytest.param("lstm-encoder-decoder-both-additive", marks=pytest.mark.thorough),
    ],
)
def test_a_traced_recurrent_run(name: str) -> None:
    seen_is_unseen(model_of(name), "*")


def seen_is_unseen(model: Network, keep: str) -> None:
    text = random_text(model, rows=2, length=3)
    eager, compiled = Trace(keep), Trace(keep)
    expected = whole(model, text, eager)
    close(whole(torch.compile(model, backend="eager"), text, compiled), expected)
    assert list(compiled) == list(eager)
    for point in eager:
        close(compiled[point], eager[point])


@pytest.mark.parametrize("name", STEPS)
def test_a_step_with_a_fixed_state(name: str) -> None:
    """The cursor is a tensor and no shape grows, so one graph serves every step but the first."""
    model, recorder = model_of(name), Recorder()
    text = random_text(model, rows=2, length=6)
    state = begin(model, text, fixed=True)
    step = torch.compile(model.step, backend=recorder)
    logits = [step(text.ids[:, t : t + 1], state) for t in range(6)]
    close(torch.cat(logits, dim=1), whole(model, text))
    assert len(recorder.graphs) <= 2


@pytest.mark.thorough
def test_gradients_through_a_compiled_model() -> None:
    model = randomised(one_layer("transformer-decoder-rotary-layer-pre"))
    text = random_text(model, rows=2, length=4)
    weights = list(model.parameters())
    with torch.enable_grad():
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        ours = torch.autograd.grad(compiled(text.ids).square().sum(), weights)
        expected = torch.autograd.grad(model(text.ids).square().sum(), weights)
    for one, other in zip(ours, expected, strict=True):
        close(one, other, 1e-10)
