"""Lessons, tasks and training in the plane that the page computes equal the server's, for every
stop of every lesson and typed sentences."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.studio.both_sides import KEYS, OFF, Both
from tests.studio.test_local_model import TEXTS
from tests.studio.test_local_text import NUMBER, compare

from translucid.studio import lesson_answers, plane
from translucid.studio.lesson import Answer, Lacks, StopFunction
from translucid.studio.lesson_run import LessonRun, PageState
from translucid.studio.lessons import OPENING, STATIONS, TOURS
from translucid.studio.text_runs import Run

EVERY = TOURS | STATIONS | OPENING
MORE = {
    "perceptron": ["0 0"],
    "regress": ["0 0"],
    "classify": ["Good.", "The food was on the table."],
    "translate": ["Dogs", "The dog does not see the cat.", "The teacher does not sleep."],
    "generate-rnn": [
        "The dogs that the man sees",  # ends where a target is needed
        "The cat that the woman knows and the boy that the old man sees are tired.",
    ],
}
PARTS = (  # to switch off, for tasks
    "decoder.layers.1.cross_attention", "decoder.recurrent.layers.0",
    "encoder.recurrent.layers.0.lstm.forget_gate=0",
)  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_every_stop_of_every_lesson_equals_the_servers(both: Both, name: str) -> None:
    shown = lacking = 0
    for text in (*TEXTS[name], *MORE.get(name, ())):
        run = both.run(name, text)
        for path, one, two in both.ask([run], *(f"/api/runs/{{0}}/lesson/{id}" for id in EVERY)):
            assert one.status == 200, (path, one.body)
            compare(near(one.json, two.json), two.json, path)
            lacks = ["lacks" in step for step in one.json["steps"]]
            shown, lacking = shown + lacks.count(False), lacking + lacks.count(True)
    assert shown > 3
    assert lacking > 3


def near(here: Any, there: Any) -> Any:
    """The answer of the page, with the server's texts where only the last digit of a number is
    rounded differently."""
    for step, other in zip(here["steps"], there["steps"], strict=True):
        for piece, wanted in zip(step.get("do", ()), other.get("do", ()), strict=True):
            both = [each.get("text", "") for each in (piece, wanted)]
            numbers = [[float(n) for n in NUMBER.findall(text)] for text in both]
            words = [NUMBER.sub("", text) for text in both]
            if words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], rel=1e-4):
                piece.update(wanted)
    return here


def test_a_lesson_with_a_part_off_equals_the_servers(both: Both) -> None:
    run = both.run("translate", TEXTS["translate"][1], off=OFF["translate"])
    both.compare([run], *(f"/api/runs/{{0}}/lesson/{id}" for id in EVERY))


@pytest.mark.parametrize("name", KEYS)
def test_checks_of_tasks_equal_the_servers(both: Both, name: str) -> None:
    done: list[bool] = []
    for text in (TEXTS[name][0], *MORE.get(name, ())):
        pair = both.run(name, text)
        run = both.server.library.kept_run(pair[1]["run"])
        queries = [query for id in EVERY for query in tasks(run, id)]
        for query, one, two in both.ask([pair], *(f"/api/runs/{{0}}/check/{q}" for q in queries)):
            assert one.status == 200, (query, one.body)
            assert one.json["done"] == two.json["done"], query
            assert texts(one.json["say"]) == texts(two.json["say"]), query
            done.append(one.json["done"])
    assert any(done) or name not in ("perceptron", "regress", "translate", "generate-rnn")
    assert not all(done)


def texts(say: list[Any]) -> list[Any]:
    return [round(piece["value"], 3) if "value" in piece else piece for piece in say]


def tasks(run: Run, id: str) -> Iterator[str]:
    """Each task of a lesson at several addresses or with several answers, as paths."""
    filled = lesson_answers.on_run(run, id)["steps"]
    for number, (stop, step) in enumerate(zip(EVERY[id].stops, filled, strict=True), 1):
        if stop.task is None or "address" not in step:
            continue
        own = f"#/{step['address']}"
        more = f"{own}{'&' if '?' in own else '?'}"
        if stop.typed:
            given = [{"address": own, "answer": answer} for answer in answers(run, stop, own)]
        else:
            off = [key for key in PARTS if key in run.opened.switches]
            given = [{"address": more + urlencode({"off": key})} for key in off]
            given += [{"address": f"{more}{query}"} for query in ("", "unit=4", "step=120")]
            given += [{"address": "#/attention?kind=cross&layer=1&head=2"}]
        yield from (f"{id}/{number}?{urlencode(query)}" for query in given)


def answers(run: Run, stop: StopFunction, address: str) -> Iterator[str]:
    """Right and wrong answers to type."""
    yield from ("", "0.5", "x", "1 2 3")
    try:
        at_hand = LessonRun(run)
        found = stop.task(at_hand, PageState(at_hand, run, address)) if stop.task else None
    except Lacks:
        return
    if isinstance(found, Answer):
        for right in (found.right, *found.slips.values()):
            if isinstance(right, list):
                yield " ".join(f"{value:.{found.decimals}f}" for value in right)
            elif isinstance(right, float):
                yield f"{right:.{found.decimals}f}"
                yield f"{-right:.{found.decimals}f}".replace(".", ",")
            else:
                yield getattr(right, "word", str(right))


@pytest.mark.parametrize("kind", plane.KINDS)
@pytest.mark.parametrize("problem", plane.PROBLEMS)
def test_training_in_the_plane_equals_the_servers(both: Both, kind: str, problem: str) -> None:
    asked = [(step, seed) for step in (0, 1, 17, plane.STEPS) for seed in (plane.SEED, 7)]
    for step, seed in asked:
        path = f"/api/plane/{kind}?problem={problem}&step={step}&seed={seed}"
        ((_, one, two),) = both.ask([], path)
        here, there = one.json, two.json
        # rounded to 3 decimals, perhaps differently
        hidden = [np.array(answer.pop("hidden")) for answer in (here, there)]
        assert hidden[0].shape == hidden[1].shape
        assert np.allclose(*hidden, atol=1.1e-3), path
        compare(here, there, path)


def test_wrong_requests_are_refused_as_on_the_server(both: Both) -> None:
    run = both.run("translate", TEXTS["translate"][0])
    paths = ["/api/runs/{0}/lesson/atn", "/api/runs/{0}/check/atn/1", "/api/plane/none",
             "/api/runs/{0}/check/attention/99", "/api/plane/mlp?problem=nand",
             "/api/plane/mlp?step=201", "/api/plane/mlp?seed=10"]  # fmt: skip
    for path, one, _ in both.ask([run], *paths):
        assert one.status == 422, path
        assert one.json["error"], path
    ((_, one, two),) = both.ask([run], "/api/runs/{0}/lesson/atn")
    assert one.json == two.json
