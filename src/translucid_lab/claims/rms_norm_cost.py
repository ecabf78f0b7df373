"""C74: is RMS norm cheaper?"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from translucid import NO_TRACE
from translucid.core import NoTrace
from translucid.models import TransformerConfig, build
from translucid.parts import LayerNorm, NormName, RMSNorm
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.toyland_text import next_words
from translucid_lab.engine.intervals import clearly, difference_of, mean_of
from translucid_lab.engine.verdict import average, by_case, column

ROWS, COLUMNS = 4096, 512


class _Seen(NoTrace):
    """A trace that requests all points but stores none, which disables the fused kernel."""

    def wants(self, *names: str) -> bool:
        return True


TRACES: dict[str, NoTrace] = {"plain operations": _Seen(), "fused kernel": NO_TRACE}


def _cost(seed: int, quick: bool) -> Data:
    """Times of both norms, measured in turn, and the loss of a small language model with each."""
    torch.manual_seed(seed)
    x = torch.randn(ROWS // 4 if quick else ROWS, COLUMNS)
    repeats = 15 if quick else 60
    layer, rms = LayerNorm(COLUMNS), RMSNorm(COLUMNS)
    ratio = []
    with torch.no_grad():
        for trace in TRACES.values():
            seen = [
                (_seconds(lambda: layer(x, trace=trace)), _seconds(lambda: rms(x, trace=trace)))  # noqa: B023
                for _ in range(repeats)
            ]
            of_layer, of_rms = np.median(seen[3:], axis=0)  # the first few warm up
            ratio.append(float(of_rms / of_layer))
    loss = {name: _loss(seed, name, 20 if quick else 120) for name in ("layer", "rms")}
    return {"ratio": ratio, "loss": loss}


def _seconds(work: Callable[[], Tensor]) -> float:
    # CPU time of this thread, independent of other load.
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _loss(seed: int, norm: NormName, steps: int) -> float:
    """Training loss of a small language model of Toyland, over the last tenth of the steps."""
    text = next_words(seed)
    torch.manual_seed(seed)
    net = build(TransformerConfig(
        shape="decoder", head="language", vocab=text.vocab, d_model=32, heads=4, layers=2,
        dropout=0.0, norm=norm,
    ))  # fmt: skip
    history = fit(net, lambda: text.loss(net), steps=steps, learning_rate=3e-3)
    return float(np.mean([step.loss for step in history[-max(steps // 10, 1) :]]))


def _judge_cost(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    worse = difference_of(column(data, "loss", "rms"), column(data, "loss", "layer"))
    for place, way in enumerate(TRACES):
        ratio = mean_of(column(data, "ratio", place), "log")
        cases[way] = clearly(ratio.against(1.0), "below")
        parts.append(f"{way} {ratio}")
    return by_case(
        cases, f"RMS norm's fraction of layer norm's time: {', '.join(parts)}; its loss in a small "
        f"language model is {worse} higher", "whether the operations are fused",
    )  # fmt: skip


def _draw_cost(data: Sequence[Data]) -> Bars:
    return Bars(
        "How long RMS norm takes", "fraction of layer norm's time", (*TRACES, "layer norm"),
        np.array([*average(data, "ratio").tolist(), 1.0]),
    )  # fmt: skip


cost = Experiment.described("norm-cost", _cost, _draw_cost, {"C74": _judge_cost})
