"""`translucid export`: a model of ours becomes a folder of another tool."""

import json
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared.generation_options import Folder


def export(
    model: Folder,
    to: Annotated[
        str, typer.Option("--to", help="The format: ctranslate2, gguf, huggingface or onnx.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    licence: Annotated[str, typer.Option(help="The licence that the model card names.")] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing folder.")
    ] = False,
    int8: Annotated[bool, typer.Option("--int8", help="For onnx: weights in 8 bits.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="For onnx: make every trace point an output.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="For onnx: require the comparison with onnxruntime."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Export a model to another tool, with its tokenizer and a model card.

    Prints what was done to the weights. If the tool cannot compute the model, `export` refuses it
    with the reason. See docs/guides/interop.md.

    Example: translucid export runs/toy --to ctranslate2 --out exported/toy
    """
    from translucid.model import load

    exported = load(model).export(
        to, out, overwrite=overwrite, licence=licence, int8=int8, trace=trace, verify=verify
    )
    if as_json:
        facts = {
            "format": exported.format, "folder": str(exported.folder), "files": exported.files,
            "notes": exported.notes,
        }  # fmt: skip
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for note in exported.notes:
        typer.echo(note)
    typer.echo(f"wrote {out}: {', '.join(exported.files)}")
