"""The report of a demo: scores, curves, what its task teaches, and the walk through one example.

One HTML file in the frame of all pages; the walk is that of `translucid explain --html`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from translucid.core.atomic_files import write_text
from translucid.see.picture_data import Axis
from translucid.see.pictures import Lines, Picture
from translucid.see.reading import Reading
from translucid.see.render.frame import escape, page, table
from translucid.see.walk.figures import figures
from translucid.see.walk.page import READ, body, headline

PAGE = "report.html"


@dataclass(frozen=True)
class Section:
    """What to look for, and where."""

    title: str
    text: str = ""
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class Report:
    """All that a page is made of."""

    title: str
    lead: str
    scores: Mapping[str, float]  # on unseen examples
    sections: Sequence[Section]
    reading: Reading  # of the example that is walked through
    notes: Sequence[str] = ()  # on the scores
    gold: Sequence[tuple[int, int]] = ()  # known (source, target) pairs of tokens of the example

    def write(self, folder: Path) -> Path:
        path = folder / PAGE
        write_text(path, self.html())
        return path

    def html(self) -> str:
        walk = self.reading.walk()
        scores = [
            (escape(name.replace("_", " ")), f"{value:.4g}") for name, value in self.scores.items()
        ]
        notes = "".join(f'<p class="pale">{escape(note)}</p>' for note in self.notes)
        return page(
            self.title,
            "\n".join(
                [
                    _card("On unseen examples", table((), scores, numbers=(1,)) + notes),
                    *(_card(section.title, _inside(section)) for section in self.sections),
                    f'<h2 class="chapter">Step by step: {escape(headline(walk))}</h2>',
                    f"<p>{escape(walk.introduction)} {escape(READ)}</p>",
                    body(walk, figures(self.reading, walk, self.gold)),
                ]
            ),
            lead=self.lead,
            footer="Every number was read off the models.",
        )


def _inside(section: Section) -> str:
    text = f"<p>{escape(section.text)}</p>" if section.text else ""
    drawn = "".join(picture.figure() for picture in section.pictures)
    return f'{text}<div class="panels">{drawn}</div>'


def _card(title: str, inside: str) -> str:
    return f'<section class="card"><h2>{escape(title)}</h2>{inside}</section>'


def curves(
    folder: Path, metric: str, *, loss: str, named: str, level: tuple[str, float] | None = None
) -> Section:
    """How a run learnt, from its journal: the training loss, and a validation score (`metric`,
    `named` so), beside a `level` to compare it with."""
    lines = [
        json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    ]
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line}
    scores = {line["step"]: line["valid"][metric] for line in lines if "valid" in line}
    values = list(losses.values())
    wide = min(values) > 0 and max(values) > 10 * min(values)
    series = {named: np.array(list(scores.values()))}
    if level is not None:
        series[level[0]] = np.full(len(scores), level[1])
    return Section(
        "How it learnt",
        pictures=(
            Lines("", _steps(losses), loss, {loss: np.array(values)}, logarithmic=wide),
            Lines("", _steps(scores), named, series),
        ),
    )


def _steps(by_step: Mapping[int, float]) -> Axis:
    return Axis("step", tuple(map(str, by_step)))
