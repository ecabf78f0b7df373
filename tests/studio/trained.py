"""A model of each family for tests of the page: trained for some steps, loaded from a folder."""

from functools import cache
from pathlib import Path
from urllib.parse import quote

from tests.runs.test_runs import small
from tests.studio.serving import Served
from tests.tiny.once import once

import translucid as tl
from translucid.model import Model
from translucid.runs.run import train_recipe
from translucid.runs.session import Recording

FEW = ["data.toyland=40", "tokenizer.kind=word", "training.batch_tokens=400"]
FEW += ["training.learning_rate=0.01", "training.warmup=10", "training.baseline=false"]
TRANSFORMER = [*FEW, "model.d_model=32", "model.heads=4", "model.layers=2", "model.d_ff=48"]
RECURRENT = [*FEW, "model.d_model=24", "model.hidden=24"]
# By the name that the page shows: the recipe, the number of steps, and smaller settings.
RECIPES: dict[str, tuple[str, int, list[str]]] = {
    "translate": ("toyland-translate-transformer", 80, TRANSFORMER),
    "lstm": ("toyland-translate-lstm", 80, RECURRENT),
    "tag": ("toyland-tag-lstm", 30, RECURRENT),
    "classify": ("toyland-classify-transformer", 30, TRANSFORMER),
    "language": ("toyland-language-transformer", 40, TRANSFORMER),
    "regress": ("toyland-regress-mlp", 30, []),
}
TEXTS = {
    "translate": "The old dog does not like the cat.",
    "lstm": "The old dog does not like the cat.",
    "tag": "Anna works for Lumina in Rome.",
    "classify": "The meal was not good.",
    "language": "The dogs that the cat sees",
    "regress": "0.5",
}
VIEWS: dict[str, tuple[str, ...]] = {
    "translate": ("flow", "attention", "decode", "whatif", "compare"),
    "lstm": ("flow", "attention", "recurrent", "decode", "whatif", "compare"),
    "tag": ("flow", "recurrent", "whatif", "compare"),
    "classify": ("flow", "attention", "whatif", "compare"),
    "language": ("flow", "attention", "decode", "whatif", "compare"),
    "regress": ("flow", "whatif", "compare"),
}
PLACES = [(family, view) for family, views in VIEWS.items() for view in views]


@cache
def trained() -> dict[str, Model]:
    """Train the models once for all tests, which takes some ten seconds."""

    def train(folder: Path) -> None:
        for name, (recipe, steps, keys) in RECIPES.items():
            keys = [*keys, f"training.steps={steps}", "training.device=cpu"]
            tl.train(recipe, out=folder / name, overrides=keys, quiet=True)

    folder = once("models of the page", train)
    return {name: tl.load(folder / name) for name in RECIPES}


def recorded() -> Path:
    """A run that was recorded for the Train view."""

    def train(folder: Path) -> None:
        chosen = small("classify", "transformer", steps=12, evaluate_every=5)
        train_recipe(chosen, folder / "small", quiet=True, recording=Recording("The dog sleeps."))

    return once("a recorded run", train) / "small"


def address_of(studio: Served, family: str, view: str, **more: str) -> str:
    """The address of a view of a model with its sentence; `more` contains further keys."""
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    given = {"m": m, "text": TEXTS[family], **more}
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
    return f"{studio.address}#/{view}?{asked}"
