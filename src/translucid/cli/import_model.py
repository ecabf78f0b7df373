"""`translucid import`: convert another tool's model to a model folder."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared.options import fetch, in_model


def import_model(
    source: Annotated[
        Path,
        typer.Argument(
            help="Hugging Face folder, .gguf file, toolkit checkpoint, mapping file, or "
            "hf:ORG/NAME.",
            callback=fetch,
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    verify: Annotated[
        bool | None,
        in_model(
            "--verify/--no-verify",
            help="Before writing, compare answers and layers with a reference implementation "
            "[default: compare the answers to two texts if transformers is installed].",
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        in_model(metavar="FILE", help="Mapping file that describes the tensors of SOURCE."),
    ] = None,
    ignore_key: Annotated[
        list[str] | None,
        in_model(metavar="KEY", help="Ignore this unknown key of config.json; may be repeated."),
    ] = None,
) -> None:
    """Import another tool's model.

    Prints what was reordered, converted and ignored. All commands also open such models directly,
    but an imported folder opens faster and can be fine-tuned.

    Example: translucid import ./smollm2.gguf runs/smollm2
    """
    from translucid.core.errors import InputError
    from translucid.core.untrusted_files import naming
    from translucid.interop import importing
    from translucid.interop.kinds import read_source
    from translucid.interop.transformers_check import NotCompared, compare_answers
    from translucid.interop.verify import differences, first_wrong
    from translucid.tasks import model_folder
    from translucid.tasks.registry import TASKS

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not an empty folder; choose another")
    if not source.exists():
        raise InputError(f"{source}: there is no such file or folder")
    if mapping is not None and verify:
        raise InputError(
            "--verify compares with transformers, which does not know this model; omit --verify"
        )
    with naming(source):
        read = read_source(source, mapping, ignore_key or ())
        held = importing.bundle_of(read, source)
    typer.echo(f"{held.facts['imported']}, {held.network.parameters_count:,} parameters")
    for line in held.facts["notes"]:
        typer.echo(line)
    if verify is None and mapping is None and (note := importing.compare_first(read, held)):
        typer.echo(note)
    if verify:
        compared = differences(read, held)
        wrong = first_wrong(compared)
        for difference in compared:
            typer.echo(f"{difference}{'  <- the first that differs' * (difference is wrong)}")
        if wrong is not None:
            raise InputError(
                f"{source}: the imported model computes different values, first at {wrong.name}; "
                "nothing was written. Please report this with the model's config"
            )
        if read.kind == "huggingface":
            try:
                for line in compare_answers(read.folder, held):
                    typer.echo(line)
            except NotCompared as reason:
                raise InputError(f"--verify {source}: {reason}; use --no-verify") from None
    model_folder.save(held, out, f"# {held.task} model\n\nImported: {held.facts['imported']}\n")
    typer.echo(f"next: translucid {TASKS[held.task].traits.command} {shlex.quote(str(out))}")
