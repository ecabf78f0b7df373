"""`translucid info`: describe a model."""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import typer

from translucid.cli.shared import options as o
from translucid.data import shipped_models


def info(model: o.Folder, as_json: o.Json = False) -> None:
    """Show a model's task, size, parts, vocabulary and scores.

    Example: translucid info demo:perceptron
    """
    from translucid.interop.importing import load
    from translucid.tasks.model_folder import task_of

    held = load(model)
    facts = {
        "task": held.task,
        "model": held.network.config.model_dump(mode="json"),
        "parameters": held.network.parameters_count,
        "tokenizers": {name: {"kind": t.kind, "tokens": len(t), "fingerprint": t.fingerprint}
                       for name, t in held.tokenizers.items()},
        "labels": held.labels,
        "decoding": held.decoding,
        **held.facts,
    }  # fmt: skip
    if as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for line in _of_shipped(model):
        typer.echo(line)
    typer.echo(f"task        {held.task}")
    typer.echo(f"parameters  {held.network.parameters_count:,}")
    for name, tokenizer in held.tokenizers.items():
        typer.echo(f"{name:<11} {tokenizer.kind}, {len(tokenizer):,} tokens")
    if held.labels:
        typer.echo(f"labels      {', '.join(held.labels)}")
    if decoded := getattr(task_of(held), "decoding_note", ""):
        typer.echo(f"decoding    {decoded}")
    if "imported" in held.facts:
        typer.echo(f"imported    {held.facts['imported']}")
    for note in held.facts.get("notes", []):
        typer.echo(f"            {note}")
    if isinstance(start := held.facts.get("start"), dict):
        task, weights = start.get("task"), str(start.get("weights"))[:12]
        typer.echo(f"started     from {start.get('path')} (task {task}, weights {weights})")
        for note in start["notes"] if isinstance(start.get("notes"), list) else []:
            typer.echo(f"            {note}")
    if held.network.fits and "fitted" in held.facts:
        typer.echo(f"fitted      to {held.facts['fitted']['examples']:,} examples")
    elif "step" in held.facts:
        typer.echo(f"trained     {held.facts['step']:,} steps")
    for name, value in held.facts.get("valid", {}).items():
        typer.echo(f"validation  {name} {value:.4g}")
    typer.echo(f"\n{held.network.summary()}")


def _of_shipped(model: Path) -> Iterator[str]:
    """Describe a shipped model and its training data."""
    name = shipped_models.name_of(model)
    if name is None:
        return
    about = shipped_models.manifest()[name.removeprefix(shipped_models.BEGIN)]
    yield f"model       {about['title']}"
    yield from wrap(about["trained_on"], 96, initial_indent="trained on  ",
                    subsequent_indent=" " * 12)  # fmt: skip
    yield f"            try: {' | '.join(about['texts'])}"
