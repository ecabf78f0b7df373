"""Tiny Translucid models with random weights, to be exported to other tools' formats."""

from typing import Any

import torch
from tests.interop.reference import randomised

from translucid.data.tokenizers.pipelines import Kind
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models.build import build
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS

ENGLISH = ("the dog sees a cat", "a small cat sleeps", "the bird sings", "two dogs and a bird")
GERMAN = ("der Hund sieht eine Katze", "eine kleine Katze schläft", "der Vogel singt", "zwei Hunde")
SIZES = {"d_model": 32, "heads": 4, "layers": 2, "d_ff": 48, "dropout": 0.0}


def tokenizer(texts: tuple[str, ...] = ENGLISH, kind: Kind = "word") -> Tokenizer:
    return Tokenizer.train(kind, texts)


def own(
    task: str, kind: Kind = "word", *, two: bool = False, seed: int = 0, spare: int = 0,
    **options: Any,
) -> Bundle:  # fmt: skip
    """A model for a task. two: with separate vocabularies for source and target. spare: rows of the
    embedding table without a token."""
    texts = ENGLISH if task != "translate" or two else ENGLISH + GERMAN
    tokenizers = {"tokenizer": tokenizer(texts, kind)}
    if two:
        tokenizers = {"source": tokenizers["tokenizer"], "target": tokenizer(GERMAN, kind)}
    sizes: dict[str, Any] = {
        "vocab": len(next(iter(tokenizers.values()))) + spare,
        "shape": TASKS[task].shape, "head": TASKS[task].head,
    }  # fmt: skip
    if two:
        sizes["target_vocab"] = len(tokenizers["target"]) + spare
    labels = {"classify": ("bad", "fine", "good"), "tag": ("N", "V")}.get(task, ())
    if labels:
        sizes["outputs"] = len(labels)
    if options.pop("recurrent", False):
        made: Any = RecurrentConfig(**({"d_model": 16, "dropout": 0.0} | sizes | options))
    else:
        made = TransformerConfig(**(SIZES | sizes | options))
    torch.manual_seed(seed)
    network = randomised(build(made), seed)
    return Bundle(network, task, tokenizers, labels)
