"""Lessons: guided tours through the views, on whatever model is open.

A lesson is a file in `lessons/`, or a teacher's own: stops with something to say, an address to go
to, a thing to do, and perhaps a task that is checked. `lesson_files` reads it, `lesson_filler` puts
the numbers of a run into it, `lesson_checks` looks whether a task is done. A stop that needs what
the model or the sentence lacks is skipped, and the reason is told; but a task stays, whatever the
sentence lacks.
"""

from collections.abc import Mapping
from typing import Any

from translucid.core.errors import InputError, nearest
from translucid.studio.lesson_checks import Checked
from translucid.studio.lesson_files import OPENING, OWN, opening, stations, tours
from translucid.studio.lesson_filler import Filler
from translucid.studio.lesson_lacks import Lacks, SentenceLacks
from translucid.studio.query_values import clipped
from translucid.studio.text_runs import Run

Own = dict[str, Any] | None  # a teacher's lesson


def lessons() -> dict[str, dict[str, Any]]:
    """Those that any model may be led through, by id."""
    return tours()


def lesson(key: str, own: Own = None) -> dict[str, Any]:
    """own: a teacher's, which has an id of its own."""
    every = {**_own(own), **lessons(), **stations(), OPENING: opening()}
    if key not in every:
        close = nearest(key[:200], list(every), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"there is no lesson {clipped(key)}; there are {', '.join(every)}{hint}")
    return every[key]


def listed(opened: Mapping[str, str], own: Own = None) -> list[dict[str, Any]]:
    """What there is to choose from: the tours, and the stations whose models are open. opened:
    the names of models, by letter."""
    of_name = {name: m for m, name in opened.items()}
    entries = []
    led = {**stations(), OPENING: opening()}
    for key, entry in {**_own(own), **lessons(), **led}.items():
        of = of_name.get(entry["model"] or "")
        if of is None and key in led:
            continue
        about = {
            "id": key, "name": entry["name"], "teaches": entry["teaches"],
            "steps": len(entry["steps"]),
        }  # fmt: skip
        if of is not None:
            about |= {"m": of, "model": entry["model"], "text": entry["text"],
                      "tasks": sum(_has_task(stop) for stop in entry["steps"])}  # fmt: skip
        entries.append(about | ({"start": True} if key in led else {}))
    return entries


def _own(own: Own) -> dict[str, dict[str, Any]]:
    return {} if own is None else {OWN: own}


def _has_task(stop: Mapping[str, Any]) -> bool:
    return any("check" in kind for kind in stop.get("one_of", [stop]))


def on_run(run: Run, key: str, own: Own = None) -> dict[str, Any]:
    """A lesson on one run: every number put in, every address written out."""
    wanted = lesson(key, own)
    return {
        "id": key, "name": wanted["name"], "teaches": wanted["teaches"], "model": wanted["model"],
        "text": wanted["text"], "steps": [_step(run, wanted, step) for step in wanted["steps"]],
    }  # fmt: skip


def _step(run: Run, lesson_: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """The step itself, or the first of its kinds that this model has."""
    let = lesson_["let"]
    lacking: Lacks | None = None
    for kind in step.get("one_of", [step]):
        try:
            Filler(run, let, lesson_).check()
            return {"title": step["title"], **_shown(run, let, kind).step()}
        except SentenceLacks as error:
            if "check" in kind:
                return {"title": step["title"], **_shown(run, let, kind).unfilled(str(error))}
            lacking = lacking or error
        except Lacks as error:
            lacking = lacking or error
    in_sentence = {"in_sentence": True} if isinstance(lacking, SentenceLacks) else {}
    return {"title": step["title"], "lacks": step.get("lacks", str(lacking)), **in_sentence}


def _shown(run: Run, let: Mapping[str, Any], kind: Mapping[str, Any]) -> Checked:
    """A stop as its own address shows it: its text may speak of a training in the plane."""
    return Checked(run, run, let, kind, kind["address"])
