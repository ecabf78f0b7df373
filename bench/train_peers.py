"""The tools with which train.py compares Translucid: transformers and models of torch.nn.

Each has the sizes of the workload, uses bfloat16 by autocast, fused AdamW and clipping, is compiled
as a whole with fixed shapes, and trains on the same random batch again and again, which does not
affect the time of a step.

    python bench/train_peers.py PEER WORKLOAD-AS-JSON
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WARM, TIMED = 10, 30


def gpt2(work: dict[str, Any]) -> tuple[nn.Module, Callable[[], Tensor]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    dropout = work["dropout"]
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=work["vocab"], n_embd=work["d_model"], n_layer=work["layers"],
            n_head=work["heads"], n_inner=work["d_ff"], n_positions=work["length"],
            resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False,
        )
    ).to(work["device"])  # fmt: skip
    ids, targets = texts(work), texts(work).flatten()

    def loss() -> Tensor:
        logits = model(input_ids=ids).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets)

    return model, loss


def marian(work: dict[str, Any]) -> tuple[nn.Module, Callable[[], Tensor]]:
    from transformers import MarianConfig, MarianMTModel

    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", work["layers"]), ("attention_heads", work["heads"]),
            ("ffn_dim", work["d_ff"]),
        )
    }  # fmt: skip
    dropout = work["dropout"]
    config = MarianConfig(
        vocab_size=work["vocab"], d_model=work["d_model"], max_position_embeddings=1024,
        activation_function="relu", scale_embedding=True, share_encoder_decoder_embeddings=True,
        dropout=dropout, attention_dropout=dropout, activation_dropout=dropout,
        pad_token_id=0, decoder_start_token_id=0, eos_token_id=1, use_cache=False, **sizes,
    )  # fmt: skip
    model = MarianMTModel(config).to(work["device"])
    source, target, targets = texts(work), texts(work), texts(work).flatten()

    def loss() -> Tensor:
        logits = model(input_ids=source, decoder_input_ids=target).logits.flatten(0, 1)
        return F.cross_entropy(logits.float(), targets, label_smoothing=work["smoothing"])

    return model, loss


class Plain(nn.Module):
    """torch.nn.Transformer between an embedding and a tied head."""

    def __init__(self, work: dict[str, Any]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(work["vocab"], work["d_model"])
        self.body = nn.Transformer(
            work["d_model"], work["heads"], work["layers"], work["layers"], work["d_ff"],
            work["dropout"], batch_first=True, norm_first=True,
        )  # fmt: skip
        length = work["length"]
        self.register_buffer("positions", torch.randn(1, length, work["d_model"]))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.body(
            self.embedding(source) + self.positions, self.embedding(target) + self.positions,
            tgt_mask=self.mask, tgt_is_causal=True,
        )  # fmt: skip
        return F.linear(x, self.embedding.weight)


def torch_transformer(work: dict[str, Any]) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = Plain(work).to(work["device"])
    source, target, targets = texts(work), texts(work), texts(work).flatten()

    def loss() -> Tensor:
        logits = model(source, target).flatten(0, 1)
        return F.cross_entropy(logits.float(), targets, label_smoothing=work["smoothing"])

    return model, loss


class PlainLSTM(nn.Module):
    """torch.nn.LSTM (cuDNN's, on a GPU) between an embedding and a tied head."""

    def __init__(self, work: dict[str, Any]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(work["vocab"], work["d_model"])
        self.drop = nn.Dropout(work["dropout"])
        self.body = nn.LSTM(
            work["d_model"], work["d_model"], work["layers"], dropout=work["dropout"],
            batch_first=True,
        )  # fmt: skip

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.body(self.drop(self.embedding(ids)))
        return F.linear(self.drop(states), self.embedding.weight)


def torch_lstm(work: dict[str, Any]) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = PlainLSTM(work).to(work["device"])
    ids, targets = texts(work), texts(work).flatten()
    return model, lambda: F.cross_entropy(model(ids).flatten(0, 1).float(), targets)


def texts(work: dict[str, Any]) -> Tensor:
    shape = (work["rows"], work["length"])
    return torch.randint(5, work["vocab"], shape, device=work["device"])


MAKERS = {
    ("transformers", "language"): gpt2,
    ("transformers", "translate"): marian,
    ("torch.nn.Transformer", "translate"): torch_transformer,
    ("torch.nn.LSTM", "language"): torch_lstm,
}


def main(peer: str, work: dict[str, Any]) -> None:
    began = time.perf_counter()
    torch.manual_seed(0)
    model, loss = MAKERS[peer, work["task"]](work)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = torch.compile(loss) if work["compiled"] else loss
    device = torch.device(work["device"])

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=work["bf16"]):
            value = compiled()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def settle() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    step()
    settle()
    first = time.perf_counter() - began
    warm, timed = (WARM, TIMED) if device.type == "cuda" else (2, 5)
    for _ in range(warm):
        step()
    settle()
    began = time.perf_counter()
    for _ in range(timed):
        step()
    settle()
    seconds = (time.perf_counter() - began) / timed
    rate = work["rows"] * work["length"] / seconds
    print(json.dumps({"tokens_per_s": rate, "first_step": first}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
