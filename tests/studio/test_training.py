"""The Train view's socket: guarded, small, and true to the files of the run."""

import json
import math
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.routing import WebSocketRoute
from tests.studio.serving import Served, model, serving
from tests.studio.sockets import Ear, listening, shake
from tests.studio.test_guard import FORGED, TOKEN, filled, guard
from tests.studio.trained import recorded

from translucid.model import load
from translucid.runs.recorder import lines, table_of
from translucid.studio.library import followed_runs, open_folders
from translucid.studio.run_follower import (
    AT_ONCE,
    COLUMNS,
    POINTS,
    RunFollower,
    RunReading,
    Tail,
    thinned,
)
from translucid.studio.server import live
from translucid.studio.server.app import make_app


@pytest.fixture(scope="module")
def trained() -> Path:
    return recorded()


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy, to write in."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def studio(run: Path) -> Iterator[Served]:
    with serving({}, followed={"a": RunFollower(run, "run")}) as served:
        yield served


def add(path: Path, *more: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(each) + "\n" for each in more))


@contextmanager
def going_on(run: Path) -> Iterator[None]:
    """As if a process were recording it."""
    fcntl = pytest.importorskip("fcntl")
    with (run / "studio/steps.jsonl").open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def step(n: int, loss: float = 1.0, layers: int = 6) -> dict[str, Any]:
    return {"step": n, "loss": loss, "norm": 1.0, "learning_rate": 0.001, "grad": [0.5] * layers}


@contextmanager
def following(run: Path) -> Iterator[Ear]:
    with (
        serving({}, followed={"a": RunFollower(run, "run")}) as served,
        listening(served, "/api/train/a") as ear,
    ):
        yield ear


def f32(values: Any) -> Any:
    return np.array(values, np.float32).tolist()


# ---- who may listen ----


def test_every_socket_is_guarded() -> None:
    found = make_app(Future(), hosts=frozenset()).app.routes
    assert [r.path for r in found if isinstance(r, WebSocketRoute)] == ["/api/train/{m}"]


@pytest.mark.parametrize("forged", FORGED)
def test_forged_handshakes_are_refused(studio: Served, forged: str) -> None:
    headers = filled(FORGED[forged], studio.port)
    if "host" in headers:
        name = headers["host"]
        cookie = f"{guard.cookie_name(name)}={TOKEN}; {studio.honest['cookie']}"
        headers |= {"origin": f"http://{name}", "cookie": cookie}
    for path in ("/api/train/a", "/api/train/none", "/nothing"):
        assert b" 403 " in shake(studio, path, headers)


def test_a_handshake_must_say_where_it_comes_from(studio: Served) -> None:
    assert b" 403 " in shake(studio, "/api/train/a", {"origin": None})
    assert b" 101 " in shake(studio, "/api/train/a")


@pytest.mark.parametrize("path", ["/api/train/b", "/api/train/..", "/api/train/%00", "/api/runs/a"])
def test_there_is_no_socket_elsewhere(studio: Served, path: str) -> None:
    assert b" 403 " in shake(studio, path)


def test_a_page_that_sends_is_disconnected(studio: Served) -> None:
    with listening(studio, "/api/train/a") as ear:
        ear.hear()
        ear.say("x")
        while ear.hear() is not None:
            pass
        assert ear.closed == 1008


def test_the_number_of_listeners_is_limited(studio: Served, monkeypatch: Any) -> None:
    monkeypatch.setattr("translucid.studio.server.app.LIVE", 1)
    with listening(studio, "/api/train/a") as ear:
        assert ear.hear()
        assert b" 403 " in shake(studio, "/api/train/a")


# ---- what is told ----


def test_the_history_equals_the_files(studio: Served, run: Path) -> None:
    with listening(studio, "/api/train/a") as ear:
        told = ear.hear()["about"]
        (head, points), (sides, norms) = ear.hear()
    about = json.loads((run / "studio/about.json").read_text("utf-8"))
    assert (told["layers"], told["probe"]) == (about["layers"], "The dog sleeps.")
    assert (told["metric"], told["steps"], told["recorded"]) == ("accuracy", 12, True)
    wanted = [each for each in lines(run / "studio/steps.jsonl") if "loss" in each]
    assert points[:, [0, 1, 4]].tolist() == f32(
        [[each["step"], each["loss"], each["learning_rate"]] for each in wanted]
    )
    assert sides["steps"] == [each["step"] for each in wanted]
    assert norms.tolist() == f32([each["grad"] for each in wanted])
    metrics = lines(run / "metrics.jsonl")
    valid = [each for each in metrics if "valid" in each]
    assert head["valid"] == [[each["step"], each["valid"]["accuracy"], each["best"]]
                             for each in valid]  # fmt: skip
    assert len(head["valid"]) == 3
    probes = lines(run / "studio/probes.jsonl")
    assert head["probes"] == [[each["step"], each["answer"]] for each in probes]
    assert (head["state"], head["bad"], head["thinned"]) == ("finished", [], False)


def test_updates_are_sent_and_losses_that_are_not_finite_are_flagged(
    studio: Served, run: Path
) -> None:
    layers = len(json.loads((run / "studio/about.json").read_text("utf-8"))["layers"])
    with listening(studio, "/api/train/a") as ear, going_on(run):
        ear.hear(), ear.hear()
        add(run / "studio/steps.jsonl", step(13, 0.25, layers), step(14, math.nan, layers))
        message = ear.hear()
        assert message["points"] == [[13, 0.25, 0.25, 0.25, 0.001], [14, None, None, None, 0.001]]
        assert message["norms"] == [[13, *[0.5] * layers], [14, *[0.5] * layers]]
        assert (message["bad"], message["state"]) == ([14], "training")
        add(run / "metrics.jsonl", {"step": 14, "valid": {"accuracy": 0.75}, "best": True})
        assert ear.hear()["valid"] == [[14, 0.75, True]]
        add(run / "studio/steps.jsonl", {"end": "failed", "why": "a full disk", "step": 14})
    with listening(studio, "/api/train/a") as ear:
        (head, points), _ = (ear.hear(), ear.hear())[1]
        assert (head["state"], head["why"], len(points)) == ("failed", "a full disk", 14)


def test_the_end_is_sent_with_the_whole_history(studio: Served, run: Path) -> None:
    (run / "test.json").unlink()
    (run / "metrics.jsonl").write_text("")
    kept = (run / "studio/steps.jsonl").read_text("utf-8").splitlines()[:5]
    (run / "studio/steps.jsonl").write_text("\n".join(kept) + "\n", "utf-8")
    with listening(studio, "/api/train/a") as ear:
        with going_on(run):
            assert "about" in ear.hear()
            assert ear.hear()[0][0]["state"] == "training"
        assert "about" in ear.hear()
        assert ear.hear()[0][0]["state"] == "stopped"  # without a word
        add(run / "studio/steps.jsonl", {"end": "interrupted", "step": 5})
        assert "about" in ear.hear()
        (head, points), _ = ear.hear()
        assert (head["state"], len(points)) == ("interrupted", 5)


def test_an_incomplete_line_is_read_when_it_is_complete(run: Path) -> None:
    tail = Tail(run / "studio/steps.jsonl")
    tail.more()
    with (run / "studio/steps.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 13, "lo')
        file.flush()
        assert tail.more() == ([], False)
        file.write('ss": 1.0}\nnot JSON\n[1]\n{"step": "x"}\n')
        file.flush()
        assert tail.more() == ([{"step": 13, "loss": 1.0}], False)


def test_a_restarted_run_is_sent_again(studio: Served, run: Path) -> None:
    with listening(studio, "/api/train/a") as ear:
        ear.hear(), ear.hear()
        kept = (run / "studio/steps.jsonl").read_text("utf-8").splitlines()[:4]
        (run / "aside").write_text("\n".join(kept) + "\n", "utf-8")
        (run / "aside").replace(run / "studio/steps.jsonl")
        assert "about" in ear.hear()
        assert ear.hear()[1][0]["steps"] == [1, 2, 3, 4]


@pytest.mark.slow
def test_messages_are_few_and_small(studio: Served, run: Path) -> None:
    """However fast a run is: at most four a second, and 10 KB."""
    layers = len(json.loads((run / "studio/about.json").read_text("utf-8"))["layers"])
    with listening(studio, "/api/train/a") as ear, going_on(run):
        ear.hear(), ear.hear()
        ear.bytes.clear()
        began = time.monotonic()
        for n in range(20):
            first = 13 + 500 * n
            add(run / "studio/steps.jsonl",
                *(step(k, 1 / 3 + k / 7, layers) for k in range(first, first + 500)))  # fmt: skip
            time.sleep(0.1)
        while True:
            if ear.hear()["points"][-1][0] == 12 + 20 * 500:
                break
        spent = time.monotonic() - began
    assert len(ear.bytes) <= 4 * spent + 1
    assert max(size for _, size in ear.bytes) <= 2500 + 40 * layers
    assert sum(size for _, size in ear.bytes) <= 12_500 * spent


@pytest.mark.slow
def test_a_long_history_is_thinned_to_bands(run: Path) -> None:
    many = [step(n, float(n % 7), 1) for n in range(1, 30_001)]
    (run / "studio/steps.jsonl").write_text("".join(json.dumps(each) + "\n" for each in many))
    told = json.loads((run / "studio/about.json").read_text("utf-8")) | {"layers": ["one"]}
    (run / "studio/about.json").write_text(json.dumps(told))
    with following(run) as ear:
        ear.hear()
        (head, points), (_, norms) = ear.hear()
    assert points.shape == (POINTS, 5)
    assert norms.shape[0] <= COLUMNS
    assert head["thinned"]
    assert points[:, 2].min() == 0
    assert points[:, 3].max() == 6
    assert points[:, 1].mean() == pytest.approx(3, abs=0.01)
    assert ear.bytes[-1][1] < 48_000


def test_thinning_keeps_the_mean_the_least_and_the_most() -> None:
    points = [
        (n, v, v, v, 0.1) for n, v in enumerate([1.0, 5.0, math.nan, 3.0, math.nan, math.nan])
    ]
    assert thinned(points, 3)[0] == (1, 3.0, 1.0, 5.0, 0.1)
    assert thinned(points, 3)[1] == (3, 3.0, 3.0, 3.0, 0.1)
    assert all(math.isnan(value) for value in thinned(points, 3)[2][1:4])
    assert thinned(points, AT_ONCE) == points


def test_a_run_without_a_record_is_shown_from_its_metrics(run: Path) -> None:
    shutil.rmtree(run / "studio")
    with following(run) as ear:
        told = ear.hear()["about"]
        (head, points), (_, norms) = ear.hear()
    wanted = [each for each in lines(run / "metrics.jsonl") if "loss" in each]
    assert (told["layers"], told["recorded"], told["probe"]) == (["all weights"], False, "")
    assert points[:, 1].tolist() == f32([each["loss"] for each in wanted])
    assert norms[:, 0].tolist() == f32([each["norm"] for each in wanted])
    assert (head["state"], head["probes"]) == ("finished", [])


def test_steps_without_a_record_are_shown_from_the_metrics(run: Path) -> None:
    kept = (run / "studio/steps.jsonl").read_text("utf-8").splitlines()[:5]
    (run / "studio/steps.jsonl").write_text("\n".join(kept) + "\n", "utf-8")
    with following(run) as ear:
        ear.hear()
        (head, points), (sides, _) = ear.hear()
    assert points[:, 0].tolist() == [*range(1, 13)]
    assert sides["steps"] == [1, 2, 3, 4, 5]
    assert head["state"] == "finished"


def test_a_record_that_starts_later_is_found(run: Path) -> None:
    """The page may be opened before the training has read its data."""
    (run / "studio").rename(run / "later")
    with following(run) as ear:
        assert not ear.hear()["about"]["recorded"]
        ear.hear()
        (run / "later").rename(run / "studio")
        assert ear.hear()["about"]["recorded"]
        assert len(ear.hear()[0][1]) == 12


def test_folders_without_a_run_follow_nothing(run: Path, tmp_path: Path) -> None:
    assert set(followed_runs([run / "best", run, tmp_path], "xyz")) == {"b"}
    (run / "best").rename(tmp_path / "best")
    (run / "last").rename(tmp_path / "last")
    assert open_folders([run, tmp_path / "best"], load)["run"] is None
    assert live.BETWEEN == 0.25


# ---- probes ----


def test_tables_of_probes_are_those_of_the_file(studio: Served, run: Path) -> None:
    probes = lines(run / "studio/probes.jsonl")
    steps = [each["step"] for each in probes]
    asked = "&".join(f"step={step}" for step in steps)
    exact = studio.get(f"/api/train/a/probes?{asked}&as=f32").frames
    rough = studio.get(f"/api/train/a/probes?{asked}").frames
    for line, (head, values), (_, bytes_) in zip(probes, exact, rough, strict=True):
        assert np.array_equal(values, table_of(line))
        assert (head["step"], head["rows"], head["at"]) == (line["step"], line["rows"], line["at"])
        assert np.abs(bytes_ - values).max() <= 0.5 / 254 + 1e-6


@pytest.mark.parametrize(
    ("path", "said"),
    [("", "1 to 64"), ("step=7777", "no probe at step 7777"),
     ("step=1&" * 65, "1 to 64"), ("step=x", "step: must be a whole number"),
     ("step=0&as=f16", "u8 or f32")],
)  # fmt: skip
def test_invalid_probe_requests_are_refused(studio: Served, path: str, said: str) -> None:
    answer = studio.get(f"/api/train/a/probes?{path}")
    assert (answer.status, said in answer.json["error"]) == (422, True)
    assert studio.get(f"/api/train/z/probes?{path}").status == 422


def test_a_model_indicates_whether_it_has_a_training_run(run: Path) -> None:
    models = {"one": model("regress-mlp"), "two": None}
    with serving(models, followed={"b": RunFollower(run, "two")}) as served:
        assert [each["m"] for each in served.get("/api/models").json] == ["a", "b"]
        assert served.get("/api/model/a").json["trains"] is False
        young = served.get("/api/model/b").json
        assert (young["trains"], young["unopened"], young["task"]) == (True, True, "classify")
        answer = served.post("/api/runs", {"m": "b", "text": "x"})
        assert answer.status == 422


def test_steps_after_the_last_record_do_not_restart_the_run(run: Path) -> None:
    """Not every step is recorded, but metrics.jsonl has the last one."""
    kept = [each for each in lines(run / "studio/steps.jsonl") if each.get("step", 0) <= 10]
    (run / "studio/steps.jsonl").write_text("")
    add(run / "studio/steps.jsonl", *[each for each in kept if "loss" in each],
        {"end": "interrupted", "step": 12, "why": ""})  # fmt: skip
    add(run / "metrics.jsonl", {"step": 12, "loss": 1.0, "norm": 1.0, "learning_rate": 0.1})
    reading = RunReading(RunFollower(run, "run"))
    reading.more()
    assert reading.state()["state"] == "interrupted"
    add(run / "metrics.jsonl", {"step": 13, "loss": 1.0, "norm": 1.0, "learning_rate": 0.1})
    reading.more()
    assert reading.state()["state"] != "interrupted"  # gone on with, without a record
