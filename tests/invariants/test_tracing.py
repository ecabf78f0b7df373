"""Looking changes nothing: traced = untraced, all points or each, read or edited to itself."""

from dataclasses import replace

import pytest
import torch
from tests.invariants.cases import (
    begin,
    close,
    config_of,
    every,
    model_of,
    random_text,
    randomised,
    spread,
    whole,
    writers,
)
from tests.tiny.dealt import dealt
from torch import Tensor

from translucid.core.catalogue import CATALOGUE, describe, entry
from translucid.core.trace import Trace
from translucid.models import MLPConfig, PerceptronConfig, build

pytestmark = [
    pytest.mark.usefixtures("no_grad"),
    pytest.mark.invariant("traced = untraced"),
]


def same(value: Tensor) -> Tensor:
    return value


@every(side=("none", "left"))
def test_all_points(name: str, side: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=4)
    if side == "left":
        ids, mask = spread(text.ids, 6, side)
        text = replace(text, ids=ids, mask=mask)
    seen = Trace()
    expected = whole(model, text)
    close(whole(model, text, seen), expected)
    for point in seen:  # every point that a model writes can be explained, and has the axes it says
        assert seen[point].dim() == len(describe(point).axes), point


@every()
def test_identity_edits(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=4)
    close(whole(model, text, Trace(keep=(), edit={"*": same})), whole(model, text))


# Corners of the grid, with one layer: every kind of part, and every way to reach a fused kernel.
CORNERS = [
    "transformer-decoder-rotary-layer-pre",
    "transformer-decoder-alibi-rms-post",
    "transformer-decoder-learned-batch-pre",
    "transformer-encoder-decoder-sinusoidal-layer-post",
    "transformer-encoder-decoder-rotary-window",
    "transformer-encoder-learned-rms-pre",
    "transformer-decoder-llama3-geglu_tanh",
    "transformer-encoder-halves",
    "transformer-encoder-none",
    "transformer-encoder-fill",
    "transformer-encoder-embed",
    "transformer-encoder-dense",
    "transformer-encoder-decoder-lora",
    "lstm-encoder-decoder-copy",
    "rnn-decoder",
    "rnn_relu-encoder-both",
    "lstm-encoder-decoder-both-additive",
    "lstm-encoder-forward",
    "gru-encoder-decoder-forward-dot",
    "gru-decoder",
    "gru-encoder-both",
    "transformer-encoder-characters",
    "lstm-encoder-characters",
    "transformer-encoder-ngrams",
    "lstm-encoder-ngrams",
]


@pytest.mark.parametrize("name", dealt(CORNERS, share=2))
def test_each_point_alone(name: str) -> None:
    """Keeping one point keeps that value alone, the same as among all, and leaves the answer."""
    model = randomised(config_of(name).model_copy(update={"layers": 1}))
    text = random_text(model, rows=2, length=3)
    expected, everything = whole(model, text), Trace()
    whole(model, text, everything)
    for point in everything:
        alone = Trace(keep=point)
        close(whole(model, text, alone), expected)
        assert list(alone) == [point]
        close(alone[point], everything[point])
        edited = Trace(keep=(), edit={point: same})
        close(whole(model, text, edited), expected)
        edited.check()


def test_every_point_is_written() -> None:
    """A point of the catalogue that no model writes is a promise not kept."""
    written: set[str] = set()
    for name in CORNERS:
        model, seen = model_of(name), Trace()
        text = random_text(model, rows=2, length=3)
        text = replace(text, mask=torch.ones_like(text.ids, dtype=torch.bool))
        whole(model, text, seen)
        written |= {entry(point) for point in seen}
    elsewhere = ("ensemble.", "softmax.", "perceptron.", "dense.", "standardise.", "linear.")
    elsewhere += ("ngram.", "lexicon.", "alignment.")
    assert {key for key in CATALOGUE if not key.startswith(elsewhere)} <= written


@writers
def test_steps(name: str) -> None:
    """A decoder that is watched while it steps, with two beams that share a memory."""
    model = model_of(name)
    text = random_text(model, rows=2, length=2)
    plain, watched = begin(model, text), begin(model, text)
    for state in (plain, watched):
        state.expand(2)
    ids = text.ids.repeat_interleave(2, dim=0)
    seen = Trace()
    close(model.step(ids, watched, trace=seen), model.step(ids, plain))
    close(model.step(ids[:, :1], watched), model.step(ids[:, :1], plain))
    everything = Trace()
    whole(model, replace(text, mask=torch.ones_like(text.ids, dtype=torch.bool)), everything)
    assert set(seen) <= set(everything), "stepping has names of its own"
    only_output = Trace(keep="*cross_attention.output")  # by the path that copies no memory
    close(model.step(ids[:, :1], watched, trace=only_output), model.step(ids[:, :1], plain))


@pytest.mark.parametrize(
    "config",
    [
        PerceptronConfig(inputs=3),
        MLPConfig(inputs=3, hidden=(4, 4), residual=True, standardise=True, activation="gelu"),
    ],
    ids=lambda config: config.kind,
)
def test_networks_without_time(config: PerceptronConfig | MLPConfig) -> None:
    model = build(config).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    everything = Trace()
    expected = model(x)
    close(model(x, everything), expected)
    for point in everything:
        close(model(x, Trace(keep=point, edit={point: same})), expected)
