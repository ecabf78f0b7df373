"""What each demo trains, what it is asked at the end, and what to try next."""

from collections.abc import Iterable
from typing import Any, Literal

DemoTask = Literal["translate", "tag", "classify", "language", "regress"]

RECIPES: dict[DemoTask, str] = {  # of those that are shipped
    "translate": "toyland-translate-transformer",
    "tag": "toyland-tag-lstm",
    "classify": "toyland-classify-lstm",
    "language": "toyland-language-transformer",
    "regress": "toyland-regress-mlp",
}

EXAMPLES: dict[DemoTask, tuple[str, ...]] = {
    "translate": (
        "The teacher calls the old doctor.",
        "My mother sleeps because she is tired.",
        "The book that the children read is not boring.",
    ),
    "tag": (
        "Jordan sleeps because he is tired.",
        "Jordan lies in Asia.",
        "Jordan hires Anna Keller in New York.",
    ),
    "classify": (
        "The food was not bad.",
        "The concert was wonderful, but my friends hated it.",
        "Although the hotel is ugly, we never criticize it.",
    ),
    "language": ("", "The dog", "Although the soup was"),
    "regress": ("-0.5", "0", "0.25"),
}

NEXT: dict[DemoTask, str] = {
    "translate": 'translucid explain {out} "The dog sees a cat."',
    "tag": 'translucid explain {out} "Jordan waits in Madrid."',
    "classify": 'translucid explain {out} "The film was never boring."',
    "language": 'translucid explain {out} "The children who"',
    "regress": 'translucid explain {out} "0.5"',
}


def recipe_values(task: DemoTask, overrides: Iterable[str]) -> dict[str, Any]:
    """The recipe of a demo; for a model of another kind, without what only its own kind knows."""
    import tomllib  # slow, and seldom needed

    from translucid.runs.recipe import shipped

    values = tomllib.loads(shipped.find(RECIPES[task]).read_text("utf-8"))
    model = values["model"]
    for override in overrides:
        key, _, kind = override.partition("=")
        if key.strip() == "model.kind" and kind.strip().strip("\"'") != model["kind"]:
            values["model"] = {k: model[k] for k in ("d_model",) if k in model}
    return values
