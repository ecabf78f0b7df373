"""What only a GPU can show: its fused kernels agree with the hand-written path, and one decoding
step can be captured as a graph and replayed."""

import pytest
import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.fast.fixed_state import with_fixed_timeline
from translucid.models import GenerationInputs, RecurrentConfig, TransformerConfig, build
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.parts.attention import Layout, attend

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "none"]


def transformer(shape: str, positions: str) -> torch.nn.Module:
    torch.manual_seed(0)
    config = TransformerConfig(
        shape=shape, head="language", vocab=50, d_model=64, heads=4, kv_heads=2, layers=2,
        positions=positions, max_length=32, dropout=0.0,
    )  # fmt: skip
    return build(config).cuda().eval()


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 50, (rows, length), generator=generator).cuda()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_bias", [False, True])
def test_fused_attention_gives_zeros_to_a_query_without_keys(
    dtype: torch.dtype, with_bias: bool
) -> None:
    q, k, v = (torch.randn(2, 4, 5, 16, device="cuda", dtype=dtype) for _ in range(3))
    for x in (q, k, v):
        x.requires_grad_()
    mask = torch.rand(2, 1, 5, 5, device="cuda") > 0.4
    mask[0, :, 2] = False
    bias = torch.randn(2, 4, 5, 5, device="cuda") if with_bias else None
    fused = attend(q, k, v, Layout(mask, bias=bias))
    by_hand = attend(q, k, v, Layout(mask, bias=bias), trace=Trace())
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    torch.testing.assert_close(fused, by_hand, atol=tolerance, rtol=tolerance)
    assert fused[0, :, 2].abs().max() == 0
    for gradient in torch.autograd.grad(fused.float().square().sum(), (q, k, v)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_traced_equals_untraced(positions: str) -> None:
    model, ids = transformer("decoder", positions), tokens(3, 9)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[0, :4] = False
    with torch.no_grad():
        plain, traced = model(ids, mask), model(ids, mask, trace=Trace())
    torch.testing.assert_close(plain[mask], traced[mask], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_cudnn_equals_unrolled(cell: str) -> None:
    torch.manual_seed(0)
    config = RecurrentConfig(
        shape="encoder", head="tag", outputs=5, vocab=50, d_model=32, hidden=32, layers=2,
        cell=cell, bidirectional=True, dropout=0.0,
    )  # fmt: skip
    model, ids = build(config).cuda().double().eval(), tokens(3, 9)  # float32 would be TF32
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[0, :4] = False
    mask[1, 6:] = False
    with torch.no_grad():
        plain, traced = model(ids, mask), model(ids, mask, trace=Trace())
    torch.testing.assert_close(plain[mask], traced[mask], atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("shape", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_captured_step_equals_the_whole_sequence(shape: str, positions: str) -> None:
    """One graph, replayed: the slot number moves on inside the graph."""
    model, ids, source = transformer(shape, positions), tokens(4, 12), tokens(4, 7, seed=1)
    with torch.no_grad():
        if isinstance(model, EncoderDecoderModel):
            whole = model(source, ids)
            state = model.start(GenerationInputs.of(source), capacity=16)
        else:
            assert isinstance(model, DecoderModel)
            whole = model(ids)
            state = model.start(GenerationInputs(4), capacity=16)
        state = with_fixed_timeline(state)

        newest = ids[:, :1].clone()
        warm = state.copy()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model.step(newest, warm)
        torch.cuda.current_stream().wait_stream(side)

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = model.step(newest, state)
        # Capturing runs nothing, so the state is still fresh on the device.
        stepped = []
        for t in range(ids.shape[1]):
            newest.copy_(ids[:, t : t + 1])
            graph.replay()
            stepped.append(logits.clone())
    torch.testing.assert_close(torch.cat(stepped, dim=1), whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("weight_dropout", [0.0, 0.1])
def test_recurrent_gradients_survive_autocast(weight_dropout: float) -> None:
    """As small as those of a mean over thousands of tokens; in float16 most of them would be 0."""
    torch.manual_seed(0)
    config = RecurrentConfig(
        shape="decoder", head="language", vocab=50, d_model=64, hidden=64, layers=2, dropout=0.0,
        weight_dropout=weight_dropout,
    )  # fmt: skip
    model, ids = build(config).cuda().train(), tokens(4, 32)

    def gradients(half: bool) -> list[Tensor]:
        torch.manual_seed(1)
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            logits = model(ids)
        (1e-9 * logits.float().logsumexp(-1).sum()).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    for half, full in zip(gradients(True), gradients(False), strict=True):
        assert float((half - full).norm() / full.norm()) < 0.05
