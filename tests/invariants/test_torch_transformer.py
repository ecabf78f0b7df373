"""Our Transformer = torch.nn's, and our attention and norms = torch.nn's, with copied weights."""

from typing import Any

import pytest
import torch
from tests.invariants.cases import D_MODEL, close, randomised, transformer
from torch import Tensor, nn

from translucid.models import Network
from translucid.models.transformer import Layer
from translucid.parts.attention import CrossAttention, Layout, SelfAttention
from translucid.parts.embedding import Tokens
from translucid.parts.norms import BatchNorm, LayerNorm, RMSNorm

pytestmark = pytest.mark.invariant("ours = torch.nn.Transformer")
HEADS, D_FF, LAYERS = 4, 12, 2
MASK = torch.arange(5) < torch.tensor([[5], [3], [1]])


def copy_attention(ours: SelfAttention | CrossAttention, theirs: nn.MultiheadAttention) -> None:
    """torch.nn keeps W_Q, W_K and W_V in one matrix too, also for cross-attention."""
    with torch.no_grad():
        weight, bias = theirs.in_proj_weight, theirs.in_proj_bias
        if isinstance(ours, SelfAttention):
            weight.copy_(ours.qkv.weight)
            bias.copy_(ours.qkv.bias)
        else:
            weight.copy_(torch.cat([ours.query.weight, ours.kv.weight]))
            bias.copy_(torch.cat([ours.query.bias, ours.kv.bias]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_norm(ours: nn.Module, theirs: nn.LayerNorm) -> None:
    with torch.no_grad():
        theirs.weight.copy_(ours.gain)
        theirs.bias.copy_(ours.shift)


def copy_layer(ours: Layer, theirs: nn.Module) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    frames = [ours.self_attention_residual]
    if ours.cross_attention is not None:
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        frames.append(ours.cross_attention_residual)
    theirs.linear1.load_state_dict(ours.feedforward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feedforward.output.state_dict())
    frames.append(ours.feedforward_residual)
    for i, frame in enumerate(frames):
        copy_norm(frame.norm, theirs.get_submodule(f"norm{i + 1}"))


def torch_transformer(model: Network) -> nn.Transformer:
    """torch.nn.Transformer with the weights of an encoder-decoder of ours."""
    config = model.config
    pre = config.placement == "pre"
    theirs = nn.Transformer(
        D_MODEL,
        HEADS,
        LAYERS,
        LAYERS,
        D_FF,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=pre,
    ).double()
    for ours, stack in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for layer, twin in zip(ours.layers, stack.layers, strict=True):
            copy_layer(layer, twin)
        if pre:
            copy_norm(ours.final_norm, stack.norm)
        else:
            stack.norm = (
                None  # torch normalises once more after a post-norm stack; the paper does not
            )
    return theirs.eval()


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_transformer(placement: str, activation: str, padded: bool, mode: str) -> None:
    """Encoder alone, then both: outputs, and the gradients of the embeddings."""
    options: dict[str, Any] = {"placement": placement, "activation": activation}
    model = randomised(transformer("encoder-decoder", positions="none", **options))
    theirs = torch_transformer(model).train(mode == "train")
    model.train(mode == "train")
    source, target = torch.randint(11, (3, 5)), torch.randint(11, (3, 4))
    mask = MASK if padded else None
    blocked = None if mask is None else ~mask
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)

    embedded = model.encoder.embedding(source), model.decoder.embedding(target)
    ours = model.encoder(Tokens(source, mask))
    memory = theirs.encoder(embedded[0], src_key_padding_mask=blocked)
    keep = MASK if padded else torch.ones_like(MASK)
    close(ours.outputs[keep], memory[keep], 1e-11)

    seen = model.decoder(target, None, model.decoder.project(ours)).outputs
    expected = theirs.decoder(embedded[1], memory, tgt_mask=future, memory_key_padding_mask=blocked)
    close(seen, expected, 1e-11)
    table = model.encoder.embedding.table.weight
    gradients = [torch.autograd.grad(out.square().sum(), table)[0] for out in (seen, expected)]
    close(*gradients, 1e-9)


@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
def test_self_attention(padded: bool, causal: bool) -> None:
    torch.manual_seed(0)
    ours = SelfAttention(D_MODEL, HEADS).double()
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True).double()
    copy_attention(ours, theirs)
    x = torch.randn(3, 5, D_MODEL, dtype=torch.float64, requires_grad=True)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    mask: Tensor | None = MASK[:, None, None] if padded else None
    if causal and mask is not None:
        mask = mask & ~future
    output = ours(x, Layout(mask, causal=causal and mask is None))
    expected, _ = theirs(
        x, x, x, key_padding_mask=~MASK if padded else None, attn_mask=future if causal else None
    )
    close(output, expected)
    close(*(torch.autograd.grad(y.square().sum(), x)[0] for y in (output, expected)))


def test_cross_attention() -> None:
    torch.manual_seed(0)
    ours = CrossAttention(D_MODEL, HEADS).double()
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True).double()
    copy_attention(ours, theirs)
    x = torch.randn(3, 4, D_MODEL, dtype=torch.float64)
    memory = torch.randn(3, 5, D_MODEL, dtype=torch.float64)
    output = ours(x, ours.project(memory), Layout(MASK[:, None, None]))
    close(output, theirs(x, memory, memory, key_padding_mask=~MASK)[0])


@pytest.mark.invariant("our norms = torch.nn's")
def test_layer_and_rms_norm() -> None:
    x = torch.randn(2, 3, D_MODEL, dtype=torch.float64)
    layer, rms = LayerNorm(D_MODEL).double(), RMSNorm(D_MODEL).double()
    for norm in (layer, rms):
        for weight in norm.parameters():
            nn.init.normal_(weight)
    their_layer = nn.LayerNorm(D_MODEL).double()
    copy_norm(layer, their_layer)
    close(layer(x), their_layer(x))
    their_rms = nn.RMSNorm(D_MODEL, eps=rms.eps).double()
    with torch.no_grad():
        their_rms.weight.copy_(rms.gain)
    close(rms(x), their_rms(x))


@pytest.mark.invariant("our norms = torch.nn's")
def test_batch_norm() -> None:
    """In training and after it, running statistics included; padding as if it were not there."""
    ours, theirs = BatchNorm(D_MODEL).double(), nn.BatchNorm1d(D_MODEL).double()
    for weight in ours.parameters():
        nn.init.normal_(weight)
    copy_norm(ours, theirs)
    for _ in range(3):
        x = torch.randn(3, 5, D_MODEL, dtype=torch.float64) * 2 + 1
        close(ours(x, MASK)[MASK], theirs(x[MASK]))
        close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))
        close(ours.running_mean, theirs.running_mean)
        close(ours.running_variance, theirs.running_var)
    ours.eval()
    theirs.eval()
    close(ours(x), theirs(x.transpose(1, 2)).transpose(1, 2))
