"""What a teacher's lesson asks of its model that the model has not: refused when it is opened, with
the stop and what there is, and not skipped in front of a class."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from translucid.core.errors import InputError
from translucid.studio.lesson_checks import Checked
from translucid.studio.lesson_filler import Filler
from translucid.studio.lesson_lacks import Lacks, Mistake, SentenceLacks
from translucid.studio.library import Library
from translucid.studio.page_model import examples
from translucid.studio.text_runs import Run


def refuse(library: Library, lesson: Mapping[str, Any], where: str) -> None:
    """A stop is refused if no opened model that has what it needs can show it: of those that the
    lesson names, if it names one. where: the file. What a sentence lacks another may have."""
    runs = list(_runs(library, lesson, where))
    for number, stop in enumerate(lesson["steps"], start=1):
        faults = {run: _fault(kinds) for run in runs if (kinds := _kinds(run, lesson, stop))}
        if any(fault is None or isinstance(fault, SentenceLacks) for fault in faults.values()):
            continue
        # A model that has the point tells more than one that has not.
        for run in sorted(faults, key=lambda run: not isinstance(faults[run], Mistake)):
            raise InputError(
                f"{where}, stop {number} {stop['title']!r:.60}: on {run.opened.name}: {faults[run]}"
            )


def _runs(library: Library, lesson: Mapping[str, Any], where: str) -> Iterator[Run]:
    """The lesson's sentence, on every model that it may be for and that reads such a text."""
    for m, opened in library.opened.items():
        if lesson["model"] not in (None, opened.name):
            continue
        try:
            yield library.run(m, lesson["text"] or examples(opened)[0])
        except InputError as error:
            if lesson["model"] or len(library.opened) == 1:
                raise InputError(f"{where}: text: on {opened.name}: {error}") from None


def _kinds(run: Run, lesson: Mapping[str, Any], stop: Mapping[str, Any]) -> list[Checked]:
    """Those kinds of a stop of which a model has what they need, each as its address shows it."""
    try:
        Filler(run, lesson["let"], lesson).check()
    except Lacks:
        return []
    kinds = []
    for kind in stop.get("one_of", [stop]):
        with suppress(Lacks):
            filler = Checked(run, run, lesson["let"], kind, kind["address"])
            filler.check()
            kinds.append(filler)
    return kinds


def _fault(kinds: Sequence[Checked]) -> Lacks | None:
    """Why none of these kinds can be shown; None: one can."""
    faults = []
    for filler in kinds:
        try:
            filler.step()
            _look_at_the_task(filler)
            return None
        except Lacks as fault:
            faults.append(fault)
    return faults[0]


def _look_at_the_task(filler: Checked) -> None:
    """Its conditions and texts, as far as they can be told before anything is chosen."""
    task = filler.description.get("check", {"that": []})
    looks: list[Callable[[], object]] = [
        partial(filler.holds, condition) for condition in task["that"]
    ]
    looks += [partial(list, filler.pieces(task[key])) for key in ("right", "wrong") if key in task]
    for look in looks:
        try:
            look()
        except Mistake:
            raise
        except Lacks:
            pass
