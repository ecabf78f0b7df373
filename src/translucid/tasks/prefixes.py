"""What a model that generates is started with, and which tokens it must not generate."""

import torch
from torch import nn

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork
from translucid.tasks.batch import Batch


def prefixes_and_sources(batch: Batch) -> tuple[list[list[int]], GenerationInputs | None]:
    """The prefixes of a batch without their padding, and the sources."""
    inputs = batch.inputs
    if "source" in inputs:
        ids, mask = inputs["target"], inputs["target_mask"]
        sources = GenerationInputs.of(inputs["source"], inputs["source_mask"])
    else:
        ids, sources = inputs["ids"], None
        mask = inputs.get("mask", torch.ones_like(ids, dtype=torch.bool))
    return [row[kept].tolist() for row, kept in zip(ids, mask, strict=True)], sources


def never_generated(tokenizer: Tokenizer, model: nn.Module) -> tuple[int, ...]:
    """Tokens that this model must not write."""
    assert isinstance(model, AutoregressiveNetwork)
    return tokenizer.never_generated(model.vocab)
