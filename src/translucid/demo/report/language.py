"""Language modelling: what the model expects at each word, and whether verbs agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from translucid.demo.report import page, pictures
from translucid.demo.report.baselines import Guesses
from translucid.model import Model
from translucid.see.colours import ramp
from translucid.tasks.language import Language

# The verb agrees with the first noun, not with the one beside it.
AGREEMENT = (
    "The key that the neighbor has found",
    "The key that the neighbors have found",
    "The keys that the neighbor has found",
    "The keys that the neighbors have found",
)


@dataclass(frozen=True)
class Expected:
    """The likeliest next words at one place of a text."""

    read: str  # the word read last; empty at the start
    words: list[str]  # likeliest first
    probabilities: list[float]
    came: str  # the word that came
    came_probability: float


def expectations(model: Model, text: str, top: int = 5) -> list[Expected]:
    """What the model expected before each word of the text, and before its end."""
    task = _task(model)
    ids = task.tokenizer.encode(text)
    probabilities = next_words(model, text)  # (read, vocab), read = nothing, one word, ...
    pieces = task.tokenizer.pieces(range(len(task.tokenizer)))
    pieces[task.tokenizer.eos_id] = "(end)"
    found = []
    for place, (row, came) in enumerate(
        zip(probabilities, [*ids, task.tokenizer.eos_id], strict=True)
    ):
        best = row.topk(min(top, len(pieces)))
        found.append(
            Expected(
                pieces[ids[place - 1]].strip() if place else "",
                [pieces[i].strip() for i in best.indices.tolist()],
                best.values.tolist(),
                pieces[came].strip(),
                float(row[came]),
            )
        )
    return found


def next_words(model: Model, text: str) -> Tensor:
    """Probabilities (read, vocab) of the next word, after nothing, after one word, and so on."""
    logits: Tensor = model.trace(text, keep="head.logits")["head.logits"][0]
    return logits.softmax(dim=-1)


@dataclass(frozen=True)
class Agreement:
    """How likely two forms of a verb are after a text."""

    text: str
    singular: float
    plural: float


def agreement(model: Model, text: str, forms: tuple[str, str] = ("is", "are")) -> Agreement:
    last = next_words(model, text)[-1]
    encode = _task(model).tokenizer.encode
    singular, plural = (float(last[encode(f" {form}")[-1]]) for form in forms)
    return Agreement(text, singular, plural)


def _task(model: Model) -> Language:
    assert isinstance(model.task, Language)
    return model.task


def write(
    folder: Path,
    model: Model,
    texts: Sequence[str],
    score: Mapping[str, float],
    baselines: Guesses,
) -> Path:
    """Write the report of a language model's run."""
    scores = {
        **score,
        "perplexity, word before only": baselines.bigram,
        "perplexity, word frequencies only": baselines.unigram,
        "perplexity, all words alike": baselines.uniform,
    }
    curves = pictures.read_curves(folder, "perplexity")
    parts = [
        page.score_table(
            scores,
            ["Perplexity: the doubt of choosing among so many equally likely words."],
        ),
        page.section("How it learnt"),
        page.figure(
            pictures.draw_curves(
                curves,
                loss="training loss per word",
                metric="perplexity, validation",
                top=None,
                level=("from the word before only", baselines.bigram),
            )
        ),
        page.section(
            "What it expects next",
            "A row for each word of an unseen sentence: the likeliest next words, dark where "
            "likely, and framed the one that came.",
        ),
        *(page.figure(draw_expectations(expectations(model, text))) for text in texts),
        page.section(
            "Does the verb agree?",
            "The verb belongs to the first noun, whatever stands between: is or are?",
        ),
        page.figure(draw_agreement([agreement(model, text) for text in AGREEMENT])),
    ]
    return page.write_page(
        folder,
        "The next word, learnt on this machine",
        "A small language model, trained from scratch on made-up sentences of toyland.",
        parts,
    )


def draw_expectations(found: Sequence[Expected]) -> Any:
    """Words in cells, a row for each place; what came and was not expected stands to the right."""
    from matplotlib.patches import Rectangle

    most = len(found[0].words)
    drawn, (axes,) = pictures.empty(3 + 1.25 * most, 0.8 + 0.36 * len(found))
    axes.imshow(
        [each.probabilities for each in found],
        cmap=ramp("unit"), vmin=0, vmax=1, aspect="auto",
    )  # fmt: skip
    for row, each in enumerate(found):
        words = pictures.plain(each.words)
        for column, (word, share) in enumerate(zip(words, each.probabilities, strict=True)):
            axes.text(column, row, f"{word}  {share:.0%}", **pictures.on_shade(share))
        if each.came in each.words:
            corner = (each.words.index(each.came) - 0.5, row - 0.5)
            frame = Rectangle(corner, 1, 1, fill=False, edgecolor=pictures.ORANGE, linewidth=1.8)
            axes.add_patch(frame)
        else:
            came = f"came: {each.came}  {each.came_probability:.1%}"
            axes.text(most - 0.4, row, came, va="center", color=pictures.ORANGE, fontsize=9)
    axes.set_yticks(
        range(len(found)), [f"… {each.read}" if each.read else "(start)" for each in found]
    )
    axes.set_xticks(range(most), [f"{rank}." for rank in range(1, most + 1)])
    axes.xaxis.tick_top()
    axes.set_xlim(-0.5, most + 0.6)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    return drawn


def draw_agreement(found: Sequence[Agreement]) -> Any:
    drawn, (axes,) = pictures.empty(7, 0.8 + 0.6 * len(found))
    places = range(len(found))
    axes.barh(
        [place - 0.18 for place in places], [each.singular for each in found], 0.34,
        color=pictures.BLUE, label="is",
    )  # fmt: skip
    axes.barh(
        [place + 0.18 for place in places], [each.plural for each in found], 0.34,
        color=pictures.ORANGE, label="are",
    )  # fmt: skip
    axes.set_yticks(places, [f"{each.text} …" for each in found])
    axes.invert_yaxis()
    axes.set(xlabel="probability of the next word")
    axes.legend(frameon=False, fontsize=9)
    return drawn
