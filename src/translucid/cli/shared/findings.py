"""How findings are shown: a line each, with + for well, ! for worth knowing, - for wrong."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:  # a command's top stays light
    from translucid.tasks.findings import Finding


def show(findings: Sequence["Finding"]) -> None:
    """The list, and a line that sums it up."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        typer.echo(f"{finding.mark} {finding.name:{width}}  {finding.words}")
    marks = [finding.mark for finding in findings]
    summary = f"{len(marks)} checks: {marks.count('+')} well"
    for mark, meaning in (("!", "to look at"), ("-", "wrong")):
        if mark in marks:
            summary += f", {marks.count(mark)} {meaning} ({mark})"
    typer.echo(f"\n{summary}")


def wrong(findings: Sequence["Finding"]) -> bool:
    return any(finding.mark == "-" for finding in findings)
