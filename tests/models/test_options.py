"""Options of models against another way to compute them: by hand, or with torch's own modules."""

import pytest
import torch
import torch.nn.functional as F
from tests.invariants.cases import close, random_text, randomised, recurrent, transformer, whole
from torch import nn

from translucid.parts.attention import Layout
from translucid.parts.feedforward import Dense


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def test_a_parallel_residual_adds_both_to_the_same_input() -> None:
    model = randomised(transformer("encoder", parallel_residual=True))
    layer = model.encoder.layers[0]
    x, layout = torch.randn(2, 5, 8, dtype=torch.float64), Layout()
    attended = layer.self_attention(layer.self_attention_residual.norm(x), layout)
    expected = x + attended + layer.feedforward(layer.feedforward_residual.norm(x))
    close(layer(x, layout), expected)


def test_post_norm_layers_with_a_final_norm_are_torchs() -> None:
    """nn.TransformerEncoder with a norm of its own: post-norm layers and one more behind them."""
    model = randomised(
        transformer("encoder", placement="post", final_norm=True, positions="none", norm_eps=1e-3)
    )
    layer = nn.TransformerEncoderLayer(
        8, 4, 12, 0.0, layer_norm_eps=1e-3, batch_first=True, dtype=torch.float64
    )
    last = nn.LayerNorm(8, eps=1e-3, dtype=torch.float64)
    reference = nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=False).eval()
    for mine, theirs in zip(model.encoder.layers, reference.layers, strict=True):
        pairs = (
            (mine.self_attention.qkv.weight, theirs.self_attn.in_proj_weight),
            (mine.self_attention.qkv.bias, theirs.self_attn.in_proj_bias),
            (mine.self_attention.output.weight, theirs.self_attn.out_proj.weight),
            (mine.self_attention.output.bias, theirs.self_attn.out_proj.bias),
            (mine.feedforward.expand.weight, theirs.linear1.weight),
            (mine.feedforward.expand.bias, theirs.linear1.bias),
            (mine.feedforward.output.weight, theirs.linear2.weight),
            (mine.feedforward.output.bias, theirs.linear2.bias),
            (mine.self_attention_residual.norm.gain, theirs.norm1.weight),
            (mine.self_attention_residual.norm.shift, theirs.norm1.bias),
            (mine.feedforward_residual.norm.gain, theirs.norm2.weight),
            (mine.feedforward_residual.norm.shift, theirs.norm2.bias),
        )
        for own, other in pairs:
            other.copy_(own)
    last.weight.copy_(model.encoder.final_norm.gain)
    last.bias.copy_(model.encoder.final_norm.shift)
    text = random_text(model)
    x = model.encoder.embedding(text.ids)
    close(whole(model, text), model.head.linear(reference(x)), 1e-10)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_copied_state_is_where_torchs_decoder_starts(bidirectional: bool) -> None:
    hidden = 4 if bidirectional else 8
    options = {"bridge": "copy", "attention": "none", "bidirectional": bidirectional}
    model = randomised(recurrent("encoder-decoder", encoder_hidden=hidden, **options))
    source, target = torch.randint(11, (3, 5)), torch.randint(11, (3, 4))
    _, (h, c) = model.encoder.recurrent.fused(model.encoder.embedding(source))
    ways = 2 if bidirectional else 1
    h, c = (  # torch's order: layer by layer, forward before backward
        torch.stack([torch.cat([s[ways * n + way] for way in range(ways)], -1) for n in range(2)])
        for s in (h, c)
    )
    outputs, _ = model.decoder.recurrent.fused(model.decoder.embedding(target), (h, c))
    close(model(source, target), model.head.linear(outputs))


def test_input_feeding_is_a_loop_over_torchs_cells() -> None:
    model = randomised(
        recurrent("encoder-decoder", cell="gru", layers=1, attention="dot", input_feeding=True)
    )
    source, target = torch.randint(11, (3, 5)), torch.randint(11, (3, 4))
    decoder, align = model.decoder, model.decoder.alignment
    memory, last = model.encoder.recurrent.fused(model.encoder.embedding(source))
    cell = nn.GRUCell(16, 8, dtype=torch.float64)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).copy_(getattr(decoder.recurrent.fused, f"{name}_l0"))
    hidden = torch.tanh(decoder.bridge.hidden(last[-1]))
    fed, logits = torch.zeros(3, 8, dtype=torch.float64), []
    for t in range(4):
        hidden = cell(torch.cat([decoder.embedding(target[:, t]), fed], -1), hidden)
        weights = torch.softmax(torch.einsum("bd,bkd->bk", hidden, align.key(memory)), -1)
        context = torch.einsum("bk,bkd->bd", weights, memory)
        fed = torch.tanh(align.output(torch.cat([context, hidden], -1)))
        logits.append(model.head.linear(fed))
    close(model(source, target), torch.stack(logits, dim=1))


def test_an_embedding_of_a_text_is_the_mean_of_its_real_tokens_at_length_1() -> None:
    model = randomised(transformer("encoder", head="embed", outputs=None, normalise=True))
    ids, mask = torch.randint(11, (1, 6)), torch.tensor([[True] * 4 + [False] * 2])
    alone = randomised(transformer("encoder", head="none", outputs=None))
    alone.encoder.load_state_dict(model.encoder.state_dict())
    mean = alone(ids[:, :4]).mean(dim=1)
    close(model(ids, mask), mean / mean.norm(dim=-1, keepdim=True))


def test_the_fill_head_applies_a_dense_layer_and_a_norm() -> None:
    model = randomised(transformer("encoder", head="fill", outputs=None, norm_eps=1e-3))
    head, ids = model.head, torch.randint(11, (2, 5))
    assert isinstance(head.dense, Dense)
    assert head.linear.weight is model.encoder.embedding.table.weight
    alone = randomised(transformer("encoder", head="none", outputs=None, norm_eps=1e-3))
    alone.encoder.load_state_dict(model.encoder.state_dict())
    hidden = F.gelu(head.dense.linear(alone(ids)))
    normed = F.layer_norm(hidden, (8,), head.norm.gain, head.norm.shift, 1e-3)
    close(model(ids), normed @ model.encoder.embedding.table.weight.T + head.linear.bias)
