"""A text through a foreign model in the library it comes from and through ours, layer by layer, so
that the first layer that differs is seen.

Folders in Hugging Face's layout are computed by the package transformers, files of llama.cpp and
llama2.c by the formulas written out (plain_llama.py).
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.interop.plain_llama import plain_llama
from translucid.interop.source import Source, read_source
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.tasks.model_folder import Bundle
from translucid.tasks.options import Resources
from translucid.tasks.registry import TASKS
from translucid.tasks.translate import Translate

TEXT = "The quick brown fox jumps over the lazy dog, and nobody knows why."
BOUND = 1e-4  # of the largest value, in float32: more is another model, not rounding
# Which class of transformers computes what a task of ours does.
CLASSES = {
    "language": "AutoModelForCausalLM", "translate": "AutoModelForSeq2SeqLM",
    "fill": "AutoModelForMaskedLM", "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification", "embed": "AutoModel",
}  # fmt: skip
INPUTS = {"ids": "input_ids", "source": "input_ids", "target": "decoder_input_ids"}
MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}


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
        return f"{self.name:<28} {self.largest:.1e} of {self.scale:.3g}"


@dataclass(frozen=True)
class _Reference:
    """What another way of computing gives, of a batch of one text."""

    states: Mapping[str, Any]  # of each stack: after the embedding, and after each layer
    output: Tensor
    name: str  # of the output


def differences(path: Path, held: Bundle) -> list[Difference]:
    """Of the hidden states after the embedding and after each layer, and of the output."""
    source, config = read_source(path), held.network.config
    if source.kind not in ("huggingface", "gguf", "llama2c") or not isinstance(
        config, TransformerConfig
    ):
        raise InputError(
            f"--verify {path}: nothing here computes such a model a second time; compare it "
            "in Hugging Face's layout, as GGUF and as llama2.c: leave --verify out"
        )
    inputs = inputs_of(held, TEXT)
    with torch.inference_mode():
        if source.kind == "huggingface":
            reference = _transformers(source, held.task, config, inputs)
        else:
            states, logits = plain_llama(source, inputs["ids"][0])
            reference = _Reference({"decoder": [s[None] for s in states]}, logits[None], "logits")
        points = {side: _points(side, len(states), config)
                  for side, states in reference.states.items()}  # fmt: skip
        trace = Trace([point for named in points.values() for point in named.values()])
        output = held.network(**inputs, trace=trace)
    return list(_compared(trace, points, reference, output))


def first_wrong(compared: list[Difference]) -> Difference | None:
    """Where the two begin to be different models, if they are."""
    return next((d for d in compared if not d.relative < BOUND), None)


def inputs_of(held: Bundle, text: str) -> dict[str, Tensor]:
    """A text as the task reads it, with itself as a translation; as much as fits."""
    config = held.network.config
    assert isinstance(config, SequenceConfig)
    resources = Resources(held.tokenizers, held.labels, statistics=held.statistics)
    task = TASKS[held.task].make(resources)
    example = task.example(text, text if held.task == Translate.name else None)
    return {name: ids[:, : config.context_length] for name, ids in example.batch.inputs.items()}


def _points(side: str, count: int, config: TransformerConfig) -> dict[str, str]:
    """Where our trace has the states of a stack, by what people call them."""
    at, after = f"{side}.layers", "sum" if config.placement == "pre" else "norm.output"
    points = {"embedding": f"{at}.0.self_attention_residual.skip"}
    for layer in range(count - 2):
        points[f"after layer {layer}"] = f"{at}.{layer}.feedforward_residual.{after}"
    points[f"after layer {count - 2}, the last"] = f"{side}.final_norm.output"
    return points


def _compared(
    trace: Trace, points: Mapping[str, Mapping[str, str]], reference: _Reference, output: Tensor
) -> Iterator[Difference]:
    for side, named in points.items():
        start = f"{side}, " if len(points) > 1 else ""
        for (name, point), theirs in zip(named.items(), reference.states[side], strict=True):
            yield _difference(start + name, trace[point], theirs)
    yield _difference(reference.name, output, reference.output)


def _difference(name: str, ours: Tensor, theirs: Tensor) -> Difference:
    return Difference(name, float((ours - theirs).abs().max()), float(theirs.abs().max()))


def _transformers(
    source: Source, task: str, config: TransformerConfig, inputs: Mapping[str, Tensor]
) -> _Reference:
    model = _opened(source.path, task)
    theirs = {INPUTS[name]: ids for name, ids in inputs.items()}
    theirs |= {MASKS[name]: torch.ones_like(ids) for name, ids in theirs.items()}
    cached = {"use_cache": False} if config.shape != "encoder" else {}
    outputs = model(**theirs, **cached, output_hidden_states=True)
    if config.shape == "encoder-decoder":
        states = {"encoder": outputs.encoder_hidden_states,
                  "decoder": outputs.decoder_hidden_states}  # fmt: skip
    else:
        states = {config.shape: outputs.hidden_states}
    if task == "embed":
        return _Reference(states, pooled(outputs.last_hidden_state, config), "embedding")
    return _Reference(states, outputs.logits, "logits")


def pooled(states: Tensor, config: TransformerConfig) -> Tensor:
    """What sentence-transformers makes of hidden states. (1, length, d_model)"""
    places = {"first": states[:, 0], "last": states[:, -1]}
    vector = states.mean(dim=1) if config.pooling == "mean" else places[config.pooling]
    return F.normalize(vector, dim=-1) if config.normalise else vector


def _opened(path: Path, task: str) -> Any:
    """The model as transformers reads it; never with code from the folder, never from the net."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import transformers
    except ImportError:
        raise InputError(
            "--verify compares with the package transformers, which is not installed; install it "
            "with: pip install transformers, or leave --verify out"
        ) from None
    options: dict[str, Any] = {
        "local_files_only": True, "trust_remote_code": False, "dtype": torch.float32,
    }  # fmt: skip
    try:
        model: Any = getattr(transformers, CLASSES[task]).from_pretrained(path, **options)
    except Exception as error:  # whatever another library makes of a file that it refuses
        raise InputError(
            f"--verify: transformers cannot open {path} ({str(error)[:300]}); leave --verify out"
        ) from error
    return model.eval()
