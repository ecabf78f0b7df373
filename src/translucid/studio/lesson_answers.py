"""Lessons for the page: list them, fill one with the numbers of a run, and check a task.

A stop is skipped, with a reason, if the model or the sentence lacks something it uses. A stop with
a task is kept even then, because the task may be to write a different sentence.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError, nearest
from translucid.studio import typed_answers
from translucid.studio.lesson import (
    Answer,
    Lacks,
    Lesson,
    ModelLacks,
    NotChosen,
    SentenceLacks,
    Stop,
    StopFunction,
    Verdict,
    pieces,
)
from translucid.studio.lesson_run import LessonRun, PageState
from translucid.studio.lessons import OPENING, STATIONS, TOURS
from translucid.studio.library import Library
from translucid.studio.page_model import examples
from translucid.studio.query_values import clipped
from translucid.studio.text_runs import Run

OWN = "own"  # the id of the user's own lesson


def lesson(key: str, own: Lesson | None = None) -> Lesson:
    """Look up a lesson by its id."""
    every = _every(own)
    if key not in every:
        close = nearest(key[:200], list(every), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"unknown lesson {clipped(key)}; the lessons are {', '.join(every)}{hint}")
    return every[key]


def _every(own: Lesson | None) -> dict[str, Lesson]:
    return ({OWN: own} if own else {}) | TOURS | STATIONS | OPENING


def listed(opened: Mapping[str, str], own: Lesson | None = None) -> list[dict[str, Any]]:
    """List the tours, and the stations whose models are open. `opened` maps the models' keys to
    their names."""
    letter_of = {name: letter for letter, name in opened.items()}
    entries = []
    for key, wanted in _every(own).items():
        letter, starts = letter_of.get(wanted.model or ""), key in STATIONS or key in OPENING
        if letter is None and starts:
            continue
        entry = {
            "id": key, "name": wanted.name, "teaches": wanted.teaches, "steps": len(wanted.stops),
        }  # fmt: skip
        if letter is not None:
            entry |= {"m": letter, "model": wanted.model, "text": wanted.text,
                      "tasks": sum(stop.task is not None for stop in wanted.stops)}  # fmt: skip
        entries.append(entry | ({"start": True} if starts else {}))
    return entries


def outline(key: str, own: Lesson | None = None) -> dict[str, Any]:
    """A lesson without a run: its description and its stops."""
    wanted = lesson(key, own)
    steps = [{"title": stop.title, "view": stop.view, "task": stop.task is not None}
             for stop in wanted.stops]  # fmt: skip
    return _about(key, wanted) | {"steps": steps}


def _about(key: str, wanted: Lesson) -> dict[str, Any]:
    return {"id": key, "name": wanted.name, "teaches": wanted.teaches, "model": wanted.model,
            "text": wanted.text}  # fmt: skip


# ---- on a run ----


def on_run(run: Run, key: str, own: Lesson | None = None) -> dict[str, Any]:
    """Fill a lesson with the numbers of one run: every stop with its text and its address."""
    wanted, at_hand = lesson(key, own), LessonRun(run)
    steps = [{"title": stop.title, **_step(at_hand, wanted, stop, wanted is own)}
             for stop in wanted.stops]  # fmt: skip
    return _about(key, wanted) | {"steps": steps}


def _step(run: LessonRun, wanted: Lesson, stop: StopFunction, own: bool) -> dict[str, Any]:
    try:
        _check_needs(run, wanted)
        return _shown(run, stop)
    except SentenceLacks as error:
        if stop.task is not None:
            return {"say": [{"text": f"Not here: {error}."}], "do": pieces(stop.do),
                    "address": _address(stop.view, stop.chosen), "pin": [], "light": [],
                    **_task(stop)}  # fmt: skip
        return {"lacks": str(error), "in_sentence": True}
    except Lacks as error:
        return {"lacks": str(error)}
    except Exception as error:
        if not own:
            raise
        return {"lacks": _located(error, stop)}


def _check_needs(run: LessonRun, wanted: Lesson) -> None:
    for pattern, reason in wanted.needs.items():
        run.point(pattern, lacks=reason)


def _shown(run: LessonRun, stop: StopFunction) -> dict[str, Any]:
    shown = stop.show(run)
    if not isinstance(shown, Stop):
        raise _wrong_result(stop.show, "Stop(...)", shown)
    pins = [token.key for token in shown.pin]
    pinned = {"pin": ",".join(pins)} if pins else {}
    address = _address(stop.view, stop.chosen | shown.chosen | pinned)
    PageState(run, run.run, address).check()
    return {
        "say": pieces(shown.say), "do": pieces(stop.do if shown.do is None else shown.do),
        "address": address, "pin": pins, "light": list(shown.light),
        **_task(stop),
    }  # fmt: skip


def _task(stop: StopFunction) -> dict[str, Any]:
    typed = {"typed": True} if stop.typed else {}
    return {"task": True, **typed} if stop.task else {}


def _address(view: str, chosen: Mapping[str, str]) -> str:
    query = "&".join(f"{key}={value}" for key, value in chosen.items())
    return f"{view}?{query}" if query else view


# ---- a task ----


def check(
    run: Run,
    unchanged: Run,
    key: str,
    number: int,
    address: str,
    own: Lesson | None = None,
    typed: str = "",
) -> dict[str, Any]:
    """Check the task of a stop. `unchanged`: the run with nothing switched off. `typed`: the
    reader's answer to the question of the stop, if it has one."""
    wanted = lesson(key, own)
    stop = wanted.stops[number - 1]
    if stop.task is None:
        return {"done": False, "say": [{"text": "No task."}]}
    try:
        verdict = _verdict(LessonRun(run), unchanged, stop, address, typed)
        return {"done": verdict.done, "say": pieces(verdict.say)}
    except Lacks as error:
        return {"done": False, "say": [{"text": f"Not here: {error}."}]}
    except Exception as error:
        if wanted is not own:
            raise
        return {"done": False, "say": [{"text": _located(error, stop)}]}


def _verdict(
    run: LessonRun, unchanged: Run, stop: StopFunction, address: str, typed: str
) -> Verdict:
    assert stop.task is not None
    result = stop.task(run, PageState(run, unchanged, address))
    if stop.typed and isinstance(result, Answer):
        result = typed_answers.compare(result, typed)
    if not isinstance(result, Verdict):
        wanted = "Answer(...) or wrong(...)" if stop.typed else "right(...) or wrong(...)"
        raise _wrong_result(stop.task, wanted, result)
    return result


# ---- the user's own lesson ----


def refuse(library: Library, own: Lesson, where: str) -> None:
    """Raise an error for a stop that works on none of the opened models and fails on at least one.
    It is not a failure if a stop declares that the model or the sentence lacks something. where:
    the lesson's file, for messages."""
    runs = [LessonRun(run) for run in _runs(library, own, where)]
    for number, stop in enumerate(own.stops, start=1):
        faults: dict[str, list[str]] = {}
        for run in runs:
            try:
                _try(run, own, stop)
                break
            except ModelLacks:
                continue
            except SentenceLacks:
                break
            except Exception as error:
                faults.setdefault(_located(error, stop), []).append(run.run.opened.name)
        else:
            if faults:
                reasons = [f"on {', '.join(models)}: {fault}" for fault, models in faults.items()]
                raise InputError(f"{where}, stop {number} {stop.title!r:.60}: {'; '.join(reasons)}")


def _try(run: LessonRun, own: Lesson, stop: StopFunction) -> None:
    _check_needs(run, own)
    shown = _shown(run, stop)
    if stop.task is not None:
        with suppress(ModelLacks, SentenceLacks, NotChosen):
            verdict = _verdict(run, run.run, stop, shown["address"], "")
            pieces(verdict.say)


def _runs(library: Library, own: Lesson, where: str) -> Iterator[Run]:
    """Run the lesson's sentence on every suitable model that accepts it."""
    for m, opened in library.opened.items():
        if own.model not in (None, opened.name):
            continue
        try:
            yield library.run(m, own.text or examples(opened)[0])
        except InputError as error:
            if own.model or len(library.opened) == 1:
                raise InputError(f"{where}: text: on {opened.name}: {error}") from None


def _wrong_result(function: Callable[..., object], wanted: str, result: object) -> TypeError:
    name, line = function.__name__, function.__code__.co_firstlineno
    return TypeError(f"{name} (line {line}) must return {wanted}, not {result!r:.60}")


def _located(error: Exception, stop: StopFunction) -> str:
    """The error message with its line number in the lesson file."""
    file = stop.show.__code__.co_filename
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f":{frame.lineno}" for frame in frames if frame.filename == file]
    kind = "" if isinstance(error, Lacks) else f"{type(error).__name__}: "
    return f"{Path(file).name}{lines[-1] if lines else ''}: {kind}{error}"
