"""The logit lens: what a Transformer would predict if it stopped after each layer.

The final norm and the output head are applied to the residual stream at every depth; the last row
is the model's prediction. nostalgebraist 2020,
https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens
"""

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.models.base import DecoderModel, EncoderDecoderModel, EncoderModel, Network
from translucid.models.ensemble import Ensemble, mean_log_probs
from translucid.models.heads import Encoded
from translucid.models.transformer import Stack, TransformerConfig
from translucid.parts.activations import as_log_probs
from translucid.parts.embedding import LanguageHead
from translucid.see.pictures import Axis, Heat
from translucid.see.predictions import check_count, check_likely
from translucid.see.text_trace import TextTrace
from translucid.see.trace_pictures import numbers, window

Speaker = EncoderModel | DecoderModel | EncoderDecoderModel


def lens(reading: TextTrace, k: int = 1, *, tokens: tuple[int, int] | None = None) -> Heat:
    """Draw the predictions after the embedding and after each layer, with their probabilities.

    Each cell shows the k likeliest tokens or tags and the probability of the likeliest; cells whose
    likeliest is correct are framed. For a classifier, the columns are the classes.
    """
    check_count(k)
    speakers = _speakers(reading.network)
    reading.check_eval()
    check_likely(reading)
    if not reading.outputs.at_positions:
        return _of_classes(reading, speakers)
    notes = ["darker cells are more likely; correct predictions are framed"]
    first, last = window(len(reading.labels), tokens, notes)
    values, texts, frames = [], [], []
    for row, stream in enumerate(_streams(reading, speakers)):
        outputs = [_speak(one, x[:, first:last]) for one, x in zip(speakers, stream, strict=True)]
        probabilities = _together(outputs)[0].exp()  # (positions, vocab)
        best = probabilities.topk(min(k, probabilities.shape[-1]))
        ids = best.indices.tolist()
        values.append(numbers(best.values[:, 0]))
        texts.append(
            tuple(
                " / ".join(reading.names_at(at, choices))
                for at, choices in enumerate(ids, start=first)
            )
        )
        right = reading.wanted[first:last]
        frames += [(row, at) for at, choices in enumerate(ids) if choices[0] == right[at]]
    caption = reading.outputs.caption
    return Heat(
        f"Which {caption.one} the model would predict after each layer, and how likely",
        np.stack(values),
        Axis("after", _depths(len(values))),
        Axis(caption.axis, reading.labels[first:last]),
        scale="unit",
        frames=tuple(frames),
        texts=tuple(texts),
        note="; ".join(notes),
    )


def _of_classes(reading: TextTrace, speakers: list[tuple[str, Speaker]]) -> Heat:
    target = int(reading.example.batch.targets[0])
    ids = reading.example.batch.inputs["ids"]
    probabilities = []
    for stream in _streams(reading, speakers):
        outputs = [
            _with_ngrams(one, _speak(one, x), ids) for one, x in zip(speakers, stream, strict=True)
        ]
        probabilities.append(_together(outputs)[0].exp())  # (outputs,)
    table = torch.stack(probabilities)
    first = table.argmax(dim=-1).tolist()
    return Heat(
        "How likely each class would be after each layer",
        numbers(table),
        Axis("after", _depths(len(table))),
        Axis("class", reading.words.outputs),
        scale="unit",
        frames=tuple((row, best) for row, best in enumerate(first) if best == target),
    )


def _speakers(network: Network) -> list[tuple[str, Speaker]]:
    """The networks with an output head, each with the prefix of its names in the trace."""
    if not isinstance(network.config, TransformerConfig):
        raise InputError(
            "the logit lens requires a Transformer, whose layers all write to the residual stream "
            "that the output head reads; the layers of other networks have no common stream"
        )
    if isinstance(network, Ensemble):
        return [(f"members.{number}.", one) for number, one in enumerate(network.networks())]
    assert isinstance(network, Speaker)
    return [("", network)]


def _streams(reading: TextTrace, speakers: list[tuple[str, Speaker]]) -> list[list[Tensor]]:
    """The residual stream at every depth, for each network. (batch, length, d_model)"""
    depths = [[reading[name] for name in stream_points(*speaker)] for speaker in speakers]
    return [list(depth) for depth in zip(*depths, strict=True)]


def stream_points(prefix: str, network: Speaker) -> list[str]:
    """Names of the residual stream's trace points: after the embedding, and after each layer."""
    stack, name = stack_of(network)
    assert isinstance(network.config, TransformerConfig)
    after = "sum" if network.config.placement == "pre" else "norm.output"
    return [
        f"{prefix}{name}.layers.0.self_attention_residual.skip",
        *(
            f"{prefix}{name}.layers.{layer}.feedforward_residual.{after}"
            for layer in range(len(stack.layers))
        ),
    ]


def stack_of(network: Speaker) -> tuple[Stack, str]:
    """The stack that the output head reads, and its name."""
    side = "encoder" if isinstance(network, EncoderModel) else "decoder"
    stack = network.get_submodule(side)
    assert isinstance(stack, Stack)
    return stack, side


@torch.no_grad()
def _speak(speaker: tuple[str, Speaker], x: Tensor) -> Tensor:
    """Apply the final norm and the output head to a stream x (batch, length, d_model)."""
    network = speaker[1]
    outputs = stack_of(network)[0].final_norm(x)
    return network.head(outputs if isinstance(network.head, LanguageHead) else Encoded(outputs))


@torch.no_grad()
def _with_ngrams(speaker: tuple[str, Speaker], logits: Tensor, ids: Tensor) -> Tensor:
    """Add the logits of the n-gram features, which are the same at every depth."""
    network = speaker[1]
    if not isinstance(network, EncoderModel) or network.ngrams is None:
        return logits
    return network.ngrams(logits, ids.to(logits.device), None)


def _together(logits: list[Tensor]) -> Tensor:
    return as_log_probs(logits[0]) if len(logits) == 1 else mean_log_probs(logits)


def _depths(count: int) -> tuple[str, ...]:
    return ("embedding", *(f"layer {layer}" for layer in range(count - 1)))
