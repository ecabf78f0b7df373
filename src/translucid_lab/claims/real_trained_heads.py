"""C46, C48 on trained heads: pretrained models, and models of this library's recipes.

Each seed is a sample of texts. The recipes are trained once, as they are shipped.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from translucid import Model, Trace, train
from translucid.data import Toyland
from translucid.generate import GenerationConfig
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.real_weights import (
    arabic_names,
    latin_names,
    names,
    stories,
    story_sentences,
)
from translucid_lab.engine.intervals import clearly, median_of, ratio_of
from translucid_lab.engine.verdict import average, by_case, column

TEXTS = 40
RECIPES = {"our tagger (encoder)": "toyland-tag-transformer",
           "our language model (decoder)": "toyland-language-transformer"}  # fmt: skip
MODELS = ("a LLaMA of stories", "names, encoder", "names, decoder", *RECIPES)
HALF, MOST = 0.5, 0.9


def _heads(seed: int, quick: bool) -> Data:
    """For every model, averaged over heads and layers: the fraction of tokens that attend most to
    themselves, and how much of a gradient passes the softmax, with and without dividing the scores
    by √d_k."""
    count = 4 if quick else TEXTS
    traces = {
        MODELS[0]: _read(stories()[0], story_sentences(seed, count)),
        MODELS[1]: _of_names("encoder", seed, count),
        MODELS[2]: _of_names("decoder", seed, count),
        **{name: _of_recipe(file, seed, count, quick) for name, file in RECIPES.items()},
    }
    return {name: _means(several) for name, several in traces.items()}


def _read(net: Callable[..., Tensor], texts: Sequence[Tensor]) -> Iterator[Trace]:
    for ids in texts:
        trace = Trace("*.self_attention.*")
        with torch.no_grad():
            net(ids, trace=trace)
        yield trace


def _of_names(stack: str, seed: int, count: int) -> Iterator[Trace]:
    net, _, target = names()
    sources = arabic_names(seed, count)
    written = latin_names(sources, GenerationConfig(beam_size=1, max_length=40))
    for source, text in zip(sources, written, strict=True):
        trace = Trace(f"{stack}.*.self_attention.*")
        with torch.no_grad():
            net(source, torch.tensor([[*target.start_ids, *text.tokens]]), trace=trace)
        yield trace


def _of_recipe(file: str, seed: int, count: int, quick: bool) -> Iterator[Trace]:
    """Traces of a recipe's model on sentences of Toyland."""
    model = trained(file, 20 if quick else None)
    (tokenizer,) = model.tokenizers.values()
    framed = tokenizer.frame()
    sentences = islice(Toyland(seed=seed).sentences("test", count), count)
    texts = [torch.tensor([framed(tokenizer.encode(" ".join(one.english)))]) for one in sentences]
    return _read(model.network.eval(), texts)


@lru_cache(maxsize=2)
def trained(file: str, steps: int | None = None) -> Model:
    """Train a shipped recipe. steps: train only this many steps, for a quick run."""
    fewer = [f"training.steps={steps}", "data.toyland=200"] if steps else []
    with TemporaryDirectory() as folder:
        return train(file, Path(folder) / "run", ["training.device=cpu", *fewer], quiet=True)


def _means(traces: Iterator[Trace]) -> dict[str, float]:
    rows = [_of_layer(trace, name.removesuffix(".pattern"))
            for trace in traces for name in trace.names("*.self_attention.pattern")]  # fmt: skip
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _of_layer(trace: Trace, where: str) -> dict[str, float]:
    """The measurements for one attention layer. They omit the first row, which can only attend to
    itself in a masked layer."""
    pattern, scores, mask = (trace[f"{where}.{part}"] for part in ("pattern", "scores", "mask"))
    d_k = trace[f"{where}.query"].shape[-1]
    own = (pattern.argmax(-1) == torch.arange(pattern.shape[-1]))[..., 1:].float().mean()
    passed = {}
    for name, by in (("scaled", d_k**-0.5), ("raw", 1.0)):
        weights = (by * scores).masked_fill(~mask, -torch.inf).softmax(dim=-1)
        passed[name] = float((weights * (1 - weights)).sum(-1)[..., 1:].mean())
    return {"own": float(own), "d_k": float(d_k), **passed}


def _judge_scale(data: Sequence[Data]) -> Finding:
    left = {name: ratio_of(column(data, name, "raw"), column(data, name, "scaled"))
            for name in MODELS}  # fmt: skip
    widths = {name: int(data[0][name]["d_k"]) for name in MODELS}
    return by_case(
        {name: clearly(value.against(HALF), "below") for name, value in left.items()},
        "with scores as they are instead of divided by √d_k, of what passes the softmax of a "
        "gradient (sum of p (1 - p)) is left: "
        + "; ".join(f"{name} (d_k {widths[name]}) {value}" for name, value in left.items()),
        "the model: how wide its heads are, and how sharp training has made them",
        {name: value.mean for name, value in left.items()},
    )  # fmt: skip


def _judge_own(data: Sequence[Data]) -> Finding:
    own = {name: median_of(column(data, name, "own")) for name in MODELS}
    return by_case(
        {name: clearly(value.against(MOST), "above") for name, value in own.items()},
        "rows whose own weight is largest, in trained heads: "
        + "; ".join(f"{name} {value}" for name, value in own.items()),
        "the model", {name: value.mean for name, value in own.items()},
    )  # fmt: skip


def _draw_heads(data: Sequence[Data]) -> Bars:
    values = np.array([float(average(data, name, "own")) for name in MODELS])
    return Bars("Rows in which a token looks at itself most, in trained models",
                "fraction of rows", MODELS, values)  # fmt: skip


trained_heads = Experiment.described(
    "real-own-token", _heads, _draw_heads, {"C46": _judge_scale, "C48": _judge_own}
)
