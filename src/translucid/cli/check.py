"""`translucid check`: look for mistakes in data before training."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from translucid.cli.shared import options as o
from translucid.cli.shared.arguments import (
    DataFolder,
    RecipeArguments,
    Toyland,
    TrainFiles,
    ValidFiles,
    tasks,
)
from translucid.cli.shared.messages import any_wrong, show_findings
from translucid.core.errors import InputError
from translucid.tasks.registry import TASKS


def check(
    task: Annotated[
        str,
        typer.Argument(
            help=f"Task ({', '.join(TASKS.names())}), or a recipe with files and columns.",
            autocompletion=tasks,
        ),
    ],
    overrides: o.Overrides = None,
    train_files: TrainFiles = None,
    valid_files: ValidFiles = None,
    test_files: Annotated[
        list[str] | None, o.in_data("--test", metavar="FILE...", help="Test data.")
    ] = None,
    toyland: Toyland = None,
    data_folder: DataFolder = None,
    as_json: o.Json = False,
) -> None:
    """Check your data before training.

    Prints what Translucid reads, with text lengths, labels and duplicates. The exit code is 2 if a
    mistake would make the model or its score wrong.

    Example: translucid check classify --train train.csv --valid valid.csv data.text_column=review
    """
    from translucid.runs.checks.data import facts_of, unseen_words
    from translucid.runs.checks.startup import of_data, parts_of
    from translucid.runs.recipe.examples import load_examples

    if Path(task).is_file() and not task.endswith((".toml", ".py")):
        raise InputError(
            f"{task} is a data file; name a task ({', '.join(TASKS.names())}), such as "
            f"`translucid check classify --train {task}`"
        )
    files = {"train": train_files, "valid": valid_files, "test": test_files}
    arguments = RecipeArguments(task, overrides or (), files, toyland, data_folder)
    recipe = arguments.named().recipe
    read: list[str] = []

    def say(line: str) -> None:
        read.append(line)
        typer.echo(line, err=as_json)

    examples = load_examples(recipe, say)
    parts = parts_of(examples)
    facts = {name: facts_of(records) for name, records in parts.items()}
    findings = of_data(recipe, examples)
    if facts["train"].lengths:
        rest = [name for name in parts if name != "train"]
        findings += [unseen_words(parts["train"], parts[name], name) for name in rest]
    following = f"translucid train {arguments.words()} --self-test"
    if as_json:
        report = {
            "read": read,
            "parts": {name: asdict(part) for name, part in facts.items()},
            "checks": [asdict(finding) | {"mark": finding.mark} for finding in findings],
            "next": following,
        }
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        for name, part in facts.items():
            typer.echo(f"\n{name}: {part.examples:,} examples")
            for line in part.lines():
                typer.echo(f"  {line}")
        typer.echo("")
        show_findings(findings)
        typer.echo(f"next: {following}")
    if any_wrong(findings):
        raise typer.Exit(2)
