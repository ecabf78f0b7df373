"""`translucid info`: what a model folder holds."""

import json
from typing import Annotated

import typer

from translucid.cli.shared.generation_options import Folder


def info(
    model: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Show a model's task, size, parts, vocabulary and scores.

    Example: translucid info runs/toy
    """
    from translucid.interop.importing import load

    held = load(model)
    facts = {
        "task": held.task,
        "model": held.network.config.model_dump(mode="json"),
        "parameters": held.network.parameters_count,
        "tokenizers": {name: {"kind": t.kind, "tokens": len(t), "fingerprint": t.fingerprint}
                       for name, t in held.tokenizers.items()},
        "labels": held.labels,
        **held.facts,
    }  # fmt: skip
    if as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    typer.echo(f"task        {held.task}")
    typer.echo(f"parameters  {held.network.parameters_count:,}")
    for name, tokenizer in held.tokenizers.items():
        typer.echo(f"{name:<11} {tokenizer.kind}, {len(tokenizer):,} tokens")
    if held.labels:
        typer.echo(f"labels      {', '.join(held.labels)}")
    if "imported" in held.facts:
        typer.echo(f"imported    {held.facts['imported']}")
    for note in held.facts.get("notes", []):
        typer.echo(f"            {note}")
    if isinstance(start := held.facts.get("start"), dict):  # as its folder has it
        task, weights = start.get("task"), str(start.get("weights"))[:12]
        typer.echo(f"started     from {start.get('path')} (task {task}, weights {weights})")
        for note in start["notes"] if isinstance(start.get("notes"), list) else []:
            typer.echo(f"            {note}")
    if "step" in held.facts:
        typer.echo(f"trained     {held.facts['step']:,} steps")
    for name, value in held.facts.get("valid", {}).items():
        typer.echo(f"validation  {name} {value:.4g}")
    typer.echo(f"\n{held.network.summary()}")
