"""Overfit one batch, which every model can do unless something is broken.

The model is a small one with the recipe's settings, without dropout.
"""

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from translucid.data.tokenizers.pipelines import SPECIAL
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import ModelConfig, build
from translucid.models.mlp import MLP, MLPConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer import TransformerConfig
from translucid.runs.checks.model import MASK_OF
from translucid.tasks.base import Task
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.findings import Finding, spread_out
from translucid.training.state import random_state_kept, seed_generators

ITEMS, TOKENS = 8, 12  # maximum size of the batch
STEPS, SECONDS = 600, 30.0  # whichever comes first
LEARNING_RATES = {"transformer": 3e-3, "recurrent": 3e-3, "mlp": 2e-2}  # of AdamW
WARMUP = 10
FRACTION = 0.05  # of the initial loss, below which the batch is learned
WIDTH, HEADS, LAYERS = 64, 4, 2  # of the small model, at most


@random_state_kept()
def overfit_one_batch(
    task: Task[Any, Any], config: ModelConfig, items: Sequence[Any], *, steps: int = STEPS
) -> Finding:
    """Train a small model of this kind on a few examples until it has learned them."""
    plain = copy.copy(task)
    if hasattr(plain, "smoothing"):
        plain.smoothing = 0.0  # else the loss would not approach 0
    chosen = _different(plain, items)
    batch, few = _renumbered(plain.collate(chosen), config, plain.vocabularies)
    seed_generators(0, torch.device("cpu"))
    network = build(small(few))
    if isinstance(network, MLP) and network.standardise is not None:
        network.standardise.fit(batch.inputs["x"])
    rate = LEARNING_RATES[config.kind]
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.0)
    began, losses = time.monotonic(), list[float]()
    for step in range(steps):
        loss = plain.loss(network, batch) / max(batch.count, 1)
        losses.append(loss.item())
        seconds = time.monotonic() - began
        if not losses[-1] > FRACTION * losses[0] or seconds > SECONDS:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / WARMUP, 1.0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    what = (
        f"a small {config.kind} ({network.parameters_count:,} parameters), {len(chosen)} examples"
    )
    if losses[-1] <= FRACTION * losses[0]:
        return Finding(
            "learns one batch", True,
            f"{what}: loss {losses[0]:.3f} to {losses[-1]:.3f} in {len(losses) - 1} steps",
        )  # fmt: skip
    curve = ", ".join(f"{loss:.3f}" for loss in spread_out(losses, 8))
    return Finding(
        "learns one batch", False,
        f"{what}: after {len(losses)} steps and {seconds:.0f} s the loss is {losses[-1]:.3f}, not "
        f"below {FRACTION:.0%} of its start (curve: {curve}); the inputs do not determine the "
        "targets, the loss does not reach the weights, or values are far too large: look at a few "
        "examples with `translucid check`", serious=True,
    )  # fmt: skip


def _different(task: Task[Any, Any], items: Sequence[Any]) -> list[Any]:
    """A few examples with different inputs, since equal inputs could have different targets."""
    examples: dict[str, Any] = {}
    for item in spread_out(items, 4 * ITEMS):
        short = task.shorten(item, TOKENS)
        read = next(iter(task.collate([short]).inputs.values()))
        examples.setdefault(str(read.tolist()), short)
    return spread_out(list(examples.values()), ITEMS)


def _renumbered(
    batch: Batch, config: ModelConfig, tokenizers: Mapping[str, Tokenizer]
) -> tuple[Batch, ModelConfig]:
    """Reduce the vocabulary to the tokens of the batch and the special ones, to save time."""
    if not isinstance(config, SequenceConfig):
        return batch, config
    generates = config.head == "language"
    held = {name: ids for name, ids in batch.inputs.items() if name in MASK_OF}
    held |= {"targets": batch.targets.clamp(min=0)} if generates else {}
    of_target = {"target", "targets"} if config.target_vocab is not None else set[str]()
    sizes: dict[str, int] = {}
    for size, names in (("vocab", held.keys() - of_target), ("target_vocab", of_target)):
        if names:
            side = list(tokenizers.values())[-1 if size == "target_vocab" else 0 :][:1]
            special = {*side[0].special_ids, side[0].unk_id} - {-1} if side else range(len(SPECIAL))
            kept = torch.cat(
                [torch.tensor(sorted(special)), *(held[name].flatten() for name in names)]
            ).unique()
            held |= {name: torch.searchsorted(kept, held[name]) for name in names}
            sizes[size] = len(kept)
    targets = held.pop("targets", batch.targets).masked_fill(batch.targets == IGNORE, IGNORE)
    renumbered = replace(batch, inputs=batch.inputs | held, targets=targets)
    return renumbered, type(config)(**(config.model_dump() | sizes))


def small(config: ModelConfig) -> ModelConfig:
    """The same settings with small sizes, enough for a few examples."""
    sizes: dict[str, Any]
    match config:
        case TransformerConfig():
            heads = min(config.heads, HEADS)
            sizes = {
                "heads": heads,
                "d_model": WIDTH // heads // 2 * 2 * heads,  # even, as rotary requires
                "d_head": None,
                "rotary_fraction": 1.0,
                "rotary_attention_factor": 1.0 if config.rotary_method == "yarn" else None,
                "d_ff": None if config.d_ff is None else 4 * WIDTH,
                "layers": min(config.layers, LAYERS),
                "decoder_layers": config.decoder_layers and min(config.decoder_layers, LAYERS),
                "dropout": 0.0,
                "word_dropout": 0.0,
                "ensemble_size": 1,
                "lora_rank": 0,
            }
            if config.kv_heads is not None:  # keep grouped-query attention
                sizes["kv_heads"] = max(heads * config.kv_heads // config.heads, 1)
        case RecurrentConfig():
            layers = min(config.layers, LAYERS)
            sizes = {"d_model": WIDTH, "hidden": WIDTH, "layers": layers, "dropout": 0.0}
            sizes |= {"word_dropout": 0.0, "ensemble_size": 1}
            if config.bridge in ("copy", "last") or config.encoder_hidden:
                sizes["encoder_hidden"] = WIDTH // (2 if config.bidirectional else 1)
        case MLPConfig():
            sizes = {"hidden": (WIDTH,) * len(config.hidden)}
        case _:
            return config
    return type(config)(**(config.model_dump() | sizes))
