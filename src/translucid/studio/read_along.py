"""Trace points along any continuation of a text, in one pass.

A long text is not processed again: its keys and values come from the stored inputs of its layers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.generate.decode import begin
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel
from translucid.parts.cache import DecoderState, KVCache
from translucid.studio.attention_tables import kinds_of_attention
from translucid.studio.text_runs import Run


@dataclass(frozen=True)
class Along:
    """Points whose row n comes after the first n tokens of the continuation."""

    points: dict[str, Tensor]  # (1, [heads,] rows, ...)
    read: list[int]  # the prefix and the continuation
    first: int  # the position in `read` of the last token that row 0 has read


def read_along(run: Run, tokens: list[int], keep: list[str]) -> Along:
    """Some points along a continuation. With a source, the target starts anew; otherwise the text
    itself is continued."""
    network, example = run.opened.model.network, run.example
    assert example.target is not None
    inputs, side = example.inputs_for(network), example.target.name
    begun = inputs[side][:, :1] if example.source else inputs[side]
    inputs[side] = torch.cat([begun, begun.new_tensor([tokens])], 1) if tokens else begun
    read, first = inputs[side][0].tolist(), begun.shape[1] - 1
    trace = Trace(keep, edit=run.edit)
    if run.by_kernel and isinstance(network, DecoderModel) and not _masks_changed(run):
        if network.max_length is not None and len(read) > network.max_length:
            raise InputError(
                f"tokens: {len(read):,} with the text; the model reads at most "
                f"{network.max_length:,}"
            )
        state = _state(run, network, read, first)
        with torch.no_grad():
            network.step(inputs[side][:, first:], state, trace=trace)
        return Along({name: trace[name] for name in keep}, read, first)
    with torch.no_grad():
        network(**inputs, trace=trace)
    # Queries are the second-to-last axis of every requested point.
    points = {name: trace[name][..., first:, :] for name in keep}
    return Along(points, read, first)


def _masks_changed(run: Run) -> bool:
    """Whether a mask is edited; the text may then attend to the continuation."""
    masks = (name for name in run.shapes if ".masks." in name)
    return Trace([], edit=run.edit).wants(*masks)


def _state(run: Run, network: DecoderModel, read: list[int], count: int) -> DecoderState:
    """A decoder state that has read the first `count` tokens of the run's text."""
    patterns = kinds_of_attention(run).get("decoder", [])
    state = network.start(GenerationInputs(1), len(read))
    for cache, name in zip(state.layers, patterns, strict=True):
        attended = run.attended(name)
        if attended is None:  # attention is edited inside: process the text again
            edit = Trace([], edit=run.edit)
            again, _ = begin(network, [read[: count + 1]], None, steps=len(read), trace=edit)
            assert isinstance(again, DecoderState)
            return again
        assert isinstance(cache, KVCache)
        cache.keys[:, :, :count] = attended.k[:, :, :count]
        cache.values[:, :, :count] = attended.v[:, :, :count]
    assert state.timeline is not None
    state.timeline.advance(torch.tensor([read[:count]], device=network.device), None)
    state.length = count
    return state
