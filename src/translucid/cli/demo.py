"""`translucid demo`: a translator, trained while you watch."""

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

# Chosen so that two CPU cores reach the score in less than three minutes of training.
RECIPE = {
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
}  # fmt: skip

SENTENCES = (
    "The teacher calls the old doctor.",
    "My mother sleeps because she is tired.",
    "The book that the children read is not boring.",
)


def demo(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="English sentences to translate at the end.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: section.key=value.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Replace an older demo.")] = False,
) -> None:
    """Train an English to German Transformer on made-up sentences and look into it.

    Example: translucid demo "The dog sees a cat."
    """
    import json
    import shutil

    from translucid.data.toyland import Toyland
    from translucid.glass import report
    from translucid.tasks.translate import Translate
    from translucid.training import recipe
    from translucid.training.model import Model, load
    from translucid.training.run import train_recipe

    if again:
        shutil.rmtree(out, ignore_errors=True)
    chosen = recipe.parse(RECIPE, overrides or ())
    if (out / "test.json").exists():
        typer.echo(f"{out} holds a trained model already; --again trains a new one")
        model = load(out)
    else:
        model = Model(train_recipe(chosen, out))

    task = model.task
    assert isinstance(task, Translate)
    result = json.loads((out / "test.json").read_text("utf-8"))  # training ended with this
    score, signature = result["test"], result["notes"][0]
    typer.echo(
        f"exact match on {result['examples']} unseen sentences: {score['exact_match']:.1%}   "
        f"BLEU {score['bleu']:.1f}   ({signature})"
    )
    given = sentences or list(SENTENCES)
    unknown = [w for text in given for w in text.split() if task.source.unknown_rate([w])]
    if unknown:
        typer.echo(f"never seen in training, so these are guesses: {', '.join(unknown)}")
    for text, answer in zip(given, model.translate(given), strict=True):
        typer.echo(f"  {text}\n  -> {answer}")
    shown = list(islice(Toyland().sentences("test"), 3))
    page = report.write(out, model, shown, score, signature)
    typer.echo(f"{out}: the model is in {out / 'best'}, the report in {page}")
    typer.echo(f'next: echo "The dog sees a cat." | translucid translate {out}')
