"""Networks of OpenNMT-py in plain torch, with its names for modules and weights."""

import math
from typing import Any

import torch
from tests.interop.toolkit_reference import ByName, attend, causal, in_halves, sinusoids
from torch import Tensor, nn

D, HEADS, FF = 16, 4, 24
SOURCE = ["<unk>", "<blank>", *"abcdefghijk"]
TARGET = ["<unk>", "<blank>", "<s>", "</s>", *(f"w{i}" for i in range(11))]
SHARED = ["<unk>", "<blank>", "<s>", "</s>", *(f"w{i}" for i in range(11))]
TABLE = "embeddings.make_embedding.emb_luts.0"


class OldNorm(nn.Module):
    """Layer norm with the weight names of the first versions; newer versions load them into torch's
    layer norm."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        self.eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:], self.a_2, self.b_2, self.eps)


class RMSNorm(nn.Module):
    def __init__(self, d: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class Transformer(nn.Module):
    """A Transformer with `model` and `generator` as separate modules, as in the checkpoint. newest:
    with everything that version 3 added."""

    def __init__(self, *, newest: bool = False, old: bool = False, shared: bool = False,
                 tied: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.gated, self.kv_heads = newest, 2 if newest else HEADS
        self.sinusoids = in_halves(20, D, first=0) if newest else sinusoids(20, D)

        def norm() -> nn.Module:
            if newest:
                return RMSNorm(D, 1e-3)
            return OldNorm(D) if old else nn.LayerNorm(D, eps=1e-6)

        made: dict[str, nn.Module] = {
            f"encoder.{TABLE}": nn.Embedding(len(SHARED if shared else SOURCE), D),
            f"decoder.{TABLE}": nn.Embedding(len(TARGET), D),
            "encoder.layer_norm": norm(), "decoder.layer_norm": norm(),
        }  # fmt: skip
        for stack in ("encoder.transformer.0", "encoder.transformer.1",
                      "decoder.transformer_layers.0"):  # fmt: skip
            decodes = stack.startswith("decoder")
            for attention in ("self_attn", *["context_attn"] * decodes):
                for name in ("linear_query", "linear_keys", "linear_values", "final_linear"):
                    rows = D // HEADS * self.kv_heads if name.endswith("s") else D
                    made[f"{stack}.{attention}.{name}"] = nn.Linear(D, rows, bias=not newest)
            for name in ("layer_norm_1", "layer_norm_2") if decodes else ("layer_norm",):
                made[f"{stack}.{name}"] = norm()
            made[f"{stack}.feed_forward.w_1"] = nn.Linear(D, FF)
            made[f"{stack}.feed_forward.w_2"] = nn.Linear(FF, D)
            if newest:
                made[f"{stack}.feed_forward.w_3"] = nn.Linear(D, FF)
            made[f"{stack}.feed_forward.layer_norm"] = norm()
        self.model = ByName(made)
        self.generator = nn.Linear(D, len(TARGET))
        if shared:
            table = self.model.get_submodule(f"encoder.{TABLE}")
            self.model.get_submodule(f"decoder.{TABLE}").weight = table.weight  # type: ignore[assignment]
        if tied:
            self.generator.weight = self.model.get_submodule(f"decoder.{TABLE}").weight  # type: ignore[assignment]

    def embed(self, side: str, ids: Tensor) -> Tensor:
        x = self.model.at(f"{side}.{TABLE}", ids) * math.sqrt(D)
        return x + self.sinusoids[: ids.shape[1]].to(x)

    def attention(self, name: str, x: Tensor, keys: Tensor, seen: Tensor) -> Tensor:
        q, k, v = (self.model.at(f"{name}.linear_{part}", y)
                   for part, y in (("query", x), ("keys", keys), ("values", keys)))  # fmt: skip
        k, v = (y.unflatten(-1, (self.kv_heads, -1))
                .repeat_interleave(HEADS // self.kv_heads, dim=-2).flatten(-2)
                for y in (k, v))  # fmt: skip
        return self.model.at(f"{name}.final_linear", attend(q, k, v, HEADS, seen))

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        y = self.model.at(f"{name}.layer_norm", x)
        inner = self.model.at(f"{name}.w_1", y)
        if self.gated:
            inner = nn.functional.silu(inner) * self.model.at(f"{name}.w_3", y)
        else:
            inner = inner.relu()
        return x + self.model.at(f"{name}.w_2", inner)

    def encode(self, source: Tensor, mask: Tensor) -> Tensor:
        x = self.embed("encoder", source)
        for name in ("encoder.transformer.0", "encoder.transformer.1"):
            y = self.model.at(f"{name}.layer_norm", x)
            x = x + self.attention(f"{name}.self_attn", y, y, mask[:, None])
            x = self.feed_forward(f"{name}.feed_forward", x)
        return self.model.at("encoder.layer_norm", x)

    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        memory, x = self.encode(source, mask), self.embed("decoder", target)
        name = "decoder.transformer_layers.0"
        y = self.model.at(f"{name}.layer_norm_1", x)
        x = x + self.attention(f"{name}.self_attn", y, y, causal(target.shape[1]))
        y = self.model.at(f"{name}.layer_norm_2", x)
        x = x + self.attention(f"{name}.context_attn", y, memory, mask[:, None])
        x = self.model.at("decoder.layer_norm", self.feed_forward(f"{name}.feed_forward", x))
        return self.generator(x)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """A recurrent encoder-decoder. With input feeding, the decoder's cells are separate modules."""

    def __init__(self, cell: str, *, both: bool, feeding: bool, attention: str = "general",
                 source: int = len(SOURCE), target: int = len(TARGET), d: int = D, layers: int = 2
                 ) -> None:  # fmt: skip
        super().__init__()
        self.feeding, self.attention, self.d = feeding, attention, d
        whole = nn.LSTM if cell == "LSTM" else nn.GRU
        single: Any = nn.LSTMCell if cell == "LSTM" else nn.GRUCell
        made: dict[str, nn.Module] = {
            f"encoder.{TABLE}": nn.Embedding(source, d),
            "encoder.rnn": whole(d, d // (2 if both else 1), layers, batch_first=True,
                                 bidirectional=both),
            f"decoder.{TABLE}": nn.Embedding(target, d),
        }  # fmt: skip
        if feeding:
            for i in range(layers):
                made[f"decoder.rnn.layers.{i}"] = single(2 * d if i == 0 else d, d)
        else:
            made["decoder.rnn"] = whole(d, d, layers, batch_first=True)
        if attention == "general":
            made["decoder.attn.linear_in"] = nn.Linear(d, d, bias=False)
        if attention != "none":
            made["decoder.attn.linear_out"] = nn.Linear(2 * d, d, bias=False)
        self.model = ByName(made)
        self.generator = nn.Linear(d, target)
        self.layers, self.both = layers, both

    def encode(self, source: Tensor, mask: Tensor) -> Tensor:
        return self.read(source, mask)[0]

    def read(self, source: Tensor, mask: Tensor) -> tuple[Tensor, Any]:
        x = self.model.at(f"encoder.{TABLE}", source)
        packed = nn.utils.rnn.pack_padded_sequence(
            x, mask.sum(1), batch_first=True, enforce_sorted=False
        )
        outputs, last = self.model.get_submodule("encoder.rnn")(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(
            outputs, batch_first=True, total_length=source.shape[1]
        )
        states = last if isinstance(last, tuple) else (last,)
        if self.both:
            states = tuple(torch.cat([s[0::2], s[1::2]], dim=-1) for s in states)
        return outputs, states

    def attended(self, h: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Apply attention to one decoder state. h: (batch, d)."""
        if self.attention == "none":
            return h
        query = h if self.attention == "dot" else self.model.at("decoder.attn.linear_in", h)
        scores = (memory @ query[:, :, None])[..., 0].masked_fill(~mask, -torch.inf)
        context = (scores.softmax(-1)[:, None] @ memory)[:, 0]
        return self.model.at("decoder.attn.linear_out", torch.cat([context, h], -1)).tanh()

    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        memory, states = self.read(source, mask)
        x = self.model.at(f"decoder.{TABLE}", target)
        if not self.feeding:
            state = states if len(states) == 2 else states[0]
            hidden, _ = self.model.get_submodule("decoder.rnn")(x, state)
            outputs = [self.attended(h, memory, mask) for h in hidden.unbind(1)]
            return self.generator(torch.stack(outputs, 1))  # type: ignore[no-any-return]
        layers = [tuple(s[i] for s in states) for i in range(self.layers)]
        fed, outputs = x.new_zeros(len(x), self.d), []
        for token in x.unbind(1):
            h = torch.cat([token, fed], -1)
            for i in range(self.layers):
                cell = self.model.get_submodule(f"decoder.rnn.layers.{i}")
                after = cell(h, layers[i] if len(states) == 2 else layers[i][0])
                layers[i] = after if isinstance(after, tuple) else (after,)
                h = layers[i][0]
            fed = self.attended(h, memory, mask)
            outputs.append(fed)
        return self.generator(torch.stack(outputs, 1))  # type: ignore[no-any-return]
