"""Numbers of a lesson that no point of the trace holds: weights, inputs, gradients, neighbours."""

import re
from weakref import WeakKeyDictionary

from torch import Tensor

from translucid.core.errors import InputError
from translucid.see.gradients import gradients
from translucid.see.tables import neighbours
from translucid.studio.text_runs import Run
from translucid.tasks.words import Words

STRONG = 0.5  # of its attention: a row that gives less to one word tells little

# As long as its run is kept: a lesson asks for several positions of one gradient.
_norms: WeakKeyDictionary[Run, dict[tuple[str, int], list[float]]] = WeakKeyDictionary()


def weight(run: Run, name: str) -> Tensor | None:
    """A weight by its name in the network; None: there is none."""
    return dict(run.opened.model.network.state_dict()).get(name)


def read_numbers(run: Run) -> list[float]:
    """What a network of numbers reads, as it was typed; none for one of words."""
    if not run.example.words.features:
        return []
    return [float(cell) for cell in run.text.replace(",", " ").split()]


def gradient_norms(run: Run, at: str, of: int) -> list[float]:
    """How long the gradient of one target's loss is at each position of a point: what
    backpropagation through time brings there."""
    of_run = _norms.setdefault(run, {})
    if (at, of) not in of_run:
        model = run.opened.model
        all_ = gradients(
            model.network, model.task, run.example, of=of, keep=[at], budget_bytes=None
        )
        of_run[at, of] = [float(row.norm()) for row in all_[at][0]]
    return of_run[at, of]


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


def telling_link(pattern: Tensor, words: Words) -> tuple[int, int, int] | None:
    """Head, row and column of the strongest look of a word that is written at a word of the source
    in another place. pattern: (heads, rows, columns). None: no look across is strong."""
    weights = pattern.clone()
    for row, written in enumerate(words.follows):
        for column, read in enumerate(words.source):
            if row == column or not (written.isalpha() and read.isalpha()):
                weights[:, row, column] = 0.0  # the same place, a sign, or a mark
    link = divmod(int(weights.argmax()), weights.shape[1] * weights.shape[2])
    head, (row, column) = link[0], divmod(link[1], weights.shape[2])
    return (head, row, column) if weights[head, row, column] >= STRONG else None


def answer_text(run: Run) -> str:
    """What the model says, as one text."""
    answer = run.answer()
    if isinstance(answer, list) and all(isinstance(word, str) for word in answer):
        words = " ".join(word for word in answer if not re.fullmatch(r"</?\w+>", word))
        return re.sub(r" ([.,;:!?])", r"\1", words)
    if isinstance(answer, dict):
        return str(max(answer, key=lambda label: answer[label]))
    if isinstance(answer, list):
        return " ".join(f"{part:.3g}" if isinstance(part, float) else str(part)
                        for part in answer)  # fmt: skip
    return f"{answer:.3g}" if isinstance(answer, float) else str(answer)
