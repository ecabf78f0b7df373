"""`translucid export`: write a model for another tool."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared import options as o

in_onnx = partial(typer.Option, rich_help_panel="ONNX")


def export(
    model: o.Folder,
    to: Annotated[
        str,
        o.in_output("--to", metavar="FORMAT", help="ctranslate2, gguf, huggingface or onnx."),
    ],
    out: Annotated[Path, o.in_output("--out", metavar="FOLDER", help="Output folder.")],
    licence: Annotated[
        str, o.in_output(metavar="NAME", help="Licence to state in the model card.")
    ] = "",
    overwrite: Annotated[
        bool, o.in_output("--overwrite", help="Replace an existing folder.")
    ] = False,
    as_json: o.Json = False,
    int8: Annotated[bool, in_onnx("--int8", help="ONNX: store weights in 8 bits.")] = False,
    trace: Annotated[
        bool, in_onnx("--trace", help="ONNX: make every trace point an output.")
    ] = False,
    verify: Annotated[
        bool, in_onnx("--verify", help="Fail if the export cannot be checked with onnxruntime.")
    ] = False,
) -> None:
    """Export a model to another tool.

    Writes the model with its tokenizer and a model card, and prints how the weights were converted.
    If the tool does not support the model, the error gives the reason. See docs/guides/interop.md.

    Example: translucid export demo:generate --to huggingface --out exported/toy
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
