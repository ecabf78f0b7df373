"""Tiny models to start fine-tuning from, and data for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tiny.once import once

import translucid as tl
from translucid.runs.recipe import recipe
from translucid.runs.setup import Setup, set_up

TINY: dict[str, Any] = {
    "steps": 2, "batch_tokens": 300, "log_every": 1, "evaluate_every": 1, "device": "cpu",
    "quiet": True,
}  # fmt: skip
NET = {"d_model": 16, "heads": 2, "layers": 2, "d_ff": 16, "dropout": 0.1,
       "positions": "rotary"}  # fmt: skip
WORDS = ("fine", "dull", "great", "bad", "good", "weak")
REVIEWS = [(f"a {word} film {n}", "up" if n % 2 else "down") for n, word in enumerate(WORDS * 6)]
TAGGED = [([word, "film", "of", "Anna"], ["O", "O", "O", "B-PER"]) for word in WORDS * 4]
LINES = [f"a {word} film of Anna and {other}" for word in WORDS for other in WORDS]


def classifier() -> Path:
    return once("tuning: a classifier", lambda out: tl.train(
        "classify", out / "run", train=REVIEWS, model=NET, tokenizer={"kind": "word"}, **TINY,
    )) / "run"  # fmt: skip


def language_model() -> Path:
    return once("tuning: a language model", lambda out: tl.train(
        "language", out / "run", train=LINES, model=NET,
        tokenizer={"kind": "bpe", "vocab_size": 300}, **TINY,
    )) / "run"  # fmt: skip


def recurrent_language_model() -> Path:
    return once("tuning: a recurrent language model", lambda out: tl.train(
        "language", out / "run", train=LINES,
        model={"kind": "recurrent", "d_model": 16, "hidden": 16, "layers": 1},
        tokenizer={"kind": "word"}, **TINY,
    )) / "run"  # fmt: skip


def write_reviews(folder: Path, labels: tuple[str, str] = ("up", "down")) -> Path:
    path = folder / "reviews.tsv"
    names = dict(zip(("up", "down"), labels, strict=True))
    path.write_text("".join(f"{names[label]}\t{text}\n" for text, label in REVIEWS), "utf-8")
    return path


def started(
    source: Path, data: Path, task: str = "classify", *, limits: dict[str, Any] | None = None,
    say: Callable[[str], None] = lambda line: None, **sections: Any,
) -> Setup:  # fmt: skip
    """The setup of a run that starts from the model `source`."""
    values = {"task": {"kind": task}, "data": {"train": [str(data)], **(limits or {})}} | sections
    values["training"] = {"start_from": str(source), "device": "cpu"} | sections.get("training", {})
    return set_up(recipe.parse(values), say)
