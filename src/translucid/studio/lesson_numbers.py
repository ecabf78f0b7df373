"""Numbers of a lesson that no point of the trace holds: weights, inputs, gradients, neighbours."""

from functools import lru_cache

from torch import Tensor

from translucid.errors import InputError
from translucid.see.gradients import gradients
from translucid.see.tables import neighbours
from translucid.studio.text_runs import Run


def weight(run: Run, name: str) -> Tensor | None:
    """A weight by its name in the network; None: there is none."""
    return dict(run.opened.model.network.state_dict()).get(name)


def read_numbers(run: Run) -> list[float]:
    """What a network of numbers reads, as it was typed; none for one of words."""
    if not run.example.words.features:
        return []
    return [float(cell) for cell in run.text.replace(",", " ").split()]


@lru_cache(maxsize=8)
def gradient_norms(run: Run, at: str, of: int) -> list[float]:
    """How long the gradient of one target's loss is at each position of a point: what
    backpropagation through time brings there."""
    model = run.opened.model
    found = gradients(model.network, model.task, run.example, of=of, keep=[at], budget_bytes=None)
    return [float(row.norm()) for row in found[at][0]]


@lru_cache(maxsize=64)
def nearest_words(run: Run, word: str, k: int) -> list[tuple[str, float]]:
    """The words whose embeddings point most nearly where this word's does, with the cosines."""
    source = run.example.source or run.example.target
    if source is None:
        return []
    try:
        bars = neighbours(run.opened.model.network, source.tokenizer, word, k)
    except InputError:  # the word is several tokens, or unknown
        return []
    return [(name, float(value)) for name, value in zip(bars.labels, bars.values, strict=True)]
