"""A text through a foreign model in the library it comes from and through ours, layer by layer, so
that the first layer that differs is seen."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translucid.bundle import Bundle
from translucid.errors import InputError
from translucid.interop.source import read_source
from translucid.models.transformer_config import TransformerConfig
from translucid.trace import Trace

TEXT = "The quick brown fox jumps over the lazy dog, and nobody knows why."
BOUND = 1e-4  # of the largest value, in float32: more is another model, not rounding


@dataclass(frozen=True)
class Difference:
    """Between two ways of computing one thing."""

    name: str
    largest: float  # difference
    scale: float  # largest value of the reference

    @property
    def relative(self) -> float:
        return self.largest / max(self.scale, 1e-30)

    def __str__(self) -> str:
        return f"{self.name:<22} {self.largest:.1e} of {self.scale:.3g}"


def differences(path: Path, held: Bundle) -> list[Difference]:
    """Of hidden states after each layer, and of logits."""
    source = read_source(path)
    if source.kind != "huggingface" or held.task != "language":
        raise InputError(
            f"--verify {path}: language models in Hugging Face's layout are compared, this is "
            "another; leave --verify out"
        )
    config = held.network.config
    assert isinstance(config, TransformerConfig)
    tokenizer = held.tokenizers["tokenizer"]
    ids = torch.tensor([tokenizer.encode(TEXT)[: config.context_length]])
    reference = _reference(source.path)
    trace = Trace("*.feedforward_residual.sum")
    with torch.inference_mode():
        theirs = reference(input_ids=ids, output_hidden_states=True, use_cache=False)
        ours = held.network(ids, trace=trace)
    return [*_compared(config, trace, theirs.hidden_states), _difference(
        "logits", ours, theirs.logits)]  # fmt: skip


def first_wrong(compared: list[Difference]) -> Difference | None:
    """Where the two begin to be different models, if they are."""
    return next((d for d in compared if not d.relative < BOUND), None)


def _compared(config: TransformerConfig, trace: Trace, states: Any) -> Iterator[Difference]:
    for layer in range(config.layers - 1):  # the library gives the last one after its final norm
        ours = trace[f"decoder.layers.{layer}.feedforward_residual.sum"]
        yield _difference(f"after layer {layer}", ours, states[layer + 1])


def _difference(name: str, ours: Tensor, theirs: Tensor) -> Difference:
    return Difference(name, float((ours - theirs).abs().max()), float(theirs.abs().max()))


def _reference(path: Path) -> Any:
    """The model as transformers reads it; never with code from the folder, never from the net."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from transformers import (  # type: ignore[import-not-found, unused-ignore]
                AutoModelForCausalLM,
            )
    except ImportError:
        raise InputError(
            "--verify compares with the package transformers, which is not installed; install it "
            "with: pip install transformers, or leave --verify out"
        ) from None
    options: dict[str, Any] = {
        "local_files_only": True, "trust_remote_code": False, "dtype": torch.float32,
    }  # fmt: skip
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(path, **options)
    except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"--verify: transformers cannot open {path} ({str(error)[:300]}); leave --verify out"
        ) from error
    return model.eval()
