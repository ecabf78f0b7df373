"""What each demo trains, what it is asked at the end, and what to try next.

The sizes were chosen by measurement: translation trains in less than three minutes on two CPU
cores, the others in less than two.
"""

from collections.abc import Iterable
from typing import Any, Literal

DemoTask = Literal["translate", "tag", "classify", "language", "regress"]

RECIPES: dict[DemoTask, dict[str, Any]] = {
    "translate": {
        "task": {"kind": "translate"},
        "data": {"toyland": 40000},
        "tokenizer": {"kind": "word"},
        "model": {
            "kind": "transformer", "d_model": 128, "d_ff": 256, "heads": 4, "layers": 2,
            "positions": "rotary", "dropout": 0.0,
        },
        "training": {
            "steps": 1800, "batch_tokens": 1024, "learning_rate": 3e-3, "warmup": 100,
            "evaluate_every": 450, "log_every": 50, "device": "cpu",
        },
        "decoding": {"beams": 1},
    },
    "tag": {
        "task": {"kind": "tag"},
        "data": {"toyland": 10000},
        "tokenizer": {"kind": "word"},
        "model": {
            "kind": "recurrent", "cell": "lstm", "bidirectional": True, "d_model": 64,
            "hidden": 64, "dropout": 0.1,
        },
        "training": {
            "steps": 800, "batch_tokens": 1024, "learning_rate": 5e-3, "warmup": 50,
            "evaluate_every": 100, "log_every": 20, "device": "cpu",
        },
    },
    "classify": {
        "task": {"kind": "classify"},
        "data": {"toyland": 20000},
        "tokenizer": {"kind": "word"},
        "model": {
            "kind": "recurrent", "cell": "lstm", "pooling": "last", "d_model": 64, "hidden": 64,
        },
        "training": {
            "steps": 1200, "batch_tokens": 1024, "learning_rate": 5e-3, "warmup": 100,
            "evaluate_every": 100, "log_every": 20, "device": "cpu",
        },
    },
    "language": {
        "task": {"kind": "language"},
        "data": {"toyland": 40000, "max_length": 64},
        "tokenizer": {"kind": "word"},
        "model": {
            "kind": "transformer", "d_model": 128, "d_ff": 256, "heads": 4, "layers": 2,
            "positions": "rotary", "dropout": 0.0,
        },
        "training": {
            "steps": 1000, "batch_tokens": 1024, "learning_rate": 3e-3, "warmup": 100,
            "evaluate_every": 200, "log_every": 20, "device": "cpu",
        },
    },
    "regress": {
        "task": {"kind": "regress"},
        "data": {"toyland": 1000},
        "model": {"kind": "mlp", "hidden": [32], "activation": "sigmoid", "standardise": True},
        "training": {
            "steps": 1000, "batch_tokens": 1024, "learning_rate": 0.1, "warmup": 50,
            "weight_decay": 0.0, "evaluate_every": 200, "log_every": 20, "device": "cpu",
        },
    },
}  # fmt: skip

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
    "translate": 'echo "The dog sees a cat." | translucid translate {out}',
    "tag": 'echo "Jordan waits in Madrid." | translucid tag {out}',
    "classify": 'echo "The film was never boring." | translucid classify {out}',
    "language": 'translucid generate {out} "The children who" --seed 1',
    "regress": 'echo "0.5" | translucid predict {out}',
}


def recipe_values(task: DemoTask, overrides: Iterable[str]) -> dict[str, Any]:
    """The recipe of a demo; for a model of another kind, without what only its own kind knows."""
    values = RECIPES[task]
    model = values["model"]
    for override in overrides:
        key, _, kind = override.partition("=")
        if key.strip() == "model.kind" and kind.strip().strip("\"'") != model["kind"]:
            values = {**values, "model": {k: model[k] for k in ("d_model",) if k in model}}
    return values
