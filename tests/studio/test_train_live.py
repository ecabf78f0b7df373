"""The Train view in a real browser, while `translucid train --studio` trains, and afterwards."""

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.forked import TRANSLUCID
from tests.runs.test_runs import small
from tests.studio.browser import Page
from tests.studio.serving import serving
from tests.studio.test_access import RULES, violations
from tests.training.test_distributed import SMALL

from translucid.model import load
from translucid.runs.recorder import lines
from translucid.runs.run import train_recipe
from translucid.runs.session import Recording
from translucid.studio.library import followed_runs, open_folders
from translucid.studio.run_follower import RunFollower

pytestmark = pytest.mark.slow
STATUS, AT, VALUE = ".training .say", "#readout .at", "#readout .value"
WAIT = 300  # seconds, on a machine that is busy


@contextmanager
def command(*words: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A real `translucid ...`, the address that it prints, and what it says afterwards."""
    with subprocess.Popen(
        [*TRANSLUCID, *words], encoding="utf-8", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            address = re.compile(r"studio: (http://127\.0\.0\.1:\d+/open/[\w-]{32})\n")
            rest: list[str] = []  # of a training, what it says of its data comes first
            found = None
            for line in process.stdout:
                if found := address.fullmatch(line):
                    break
                rest.append(line)
            assert found, "".join(rest)
            reading = threading.Thread(target=lambda: rest.extend(process.stdout or ()))
            reading.start()
            yield process, found[1], rest
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(300)
            reading.join(300)


def until(true: Callable[[], Any], what: str) -> Any:
    began = time.monotonic()
    while not (found := true()):
        assert time.monotonic() - began < WAIT, what
        time.sleep(0.1)
    return found


def word(seen: Page, selector: str) -> str:
    return " ".join(seen.words(selector))


def step_of(seen: Page) -> int:
    found = re.search(r"step ([\d,]+)", word(seen, STATUS))
    return int(found[1].replace(",", "")) if found else 0


def recorded(run: Path) -> dict[int, dict[str, Any]]:
    return {each["step"]: each for each in lines(run / "studio/steps.jsonl") if "loss" in each}


def inked(seen: Page, selector: str) -> int:
    """Pixels that are drawn on a canvas."""
    return seen.inner.eval_on_selector(
        selector,
        "el => { const d = el.getContext('2d').getImageData(0, 0, el.width, el.height).data;"
        " let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }",
    )


def read_at(seen: Page, picture: str, *keys: str) -> tuple[str, str]:
    """Walk over a picture with the keyboard; what the read-out says then."""
    seen.inner.focus(f"{picture} svg")
    for key in keys:
        seen.inner.keyboard.press(key)
    return word(seen, AT), word(seen, VALUE)


def test_a_training_is_followed_stopped_and_looked_at_again(page: Page, tmp_path: Path) -> None:
    run = tmp_path / "a run"  # its commands quote it
    text = "The dog does not see the cat."
    train = ["train", "translate", "--out", str(run), "--studio", "--probe", text, *SMALL,
             "training.steps=8000", "training.evaluate_every=2000",
             "decoding.beam_size=1"]  # fmt: skip
    train.remove("training.evaluate_every=4")
    page.expected.append("ERR_CONNECTION_REFUSED")  # it may ask for a table as the server goes
    with command(*train) as (process, address, rest):
        assert page.see(address) == "train "
        until(lambda: word(page, STATUS).startswith("Training: step"), "it does not begin")
        first = until(lambda: step_of(page), "no step is shown")
        until(lambda: step_of(page) > first + 20, "the curve does not grow")
        assert inked(page, ".curve canvas") > 200
        assert inked(page, ".norms canvas") > 1000
        assert page.words(".views a:not([aria-disabled])") == ["Train", "Practice"]
        assert word(page, ".model .sizes") == "in training"
        assert "This run is in training" in word(page, "#sentence")

        # pausing the page pauses nothing else
        page.inner.click("text=Pause the page")
        shown, written = step_of(page), max(recorded(run))
        until(lambda: max(recorded(run)) > written + 20, "the training has paused, too")
        assert step_of(page) == shown
        until(lambda: "new steps" in word(page, ".status button"), "it does not say what waits")
        page.inner.click(".status button")
        until(lambda: step_of(page) > shown, "it does not go on")

        # the probe, scrubbed with the keyboard
        until(lambda: len(page.words(".film button")) > 3, "no probes")
        page.inner.focus(".probe input")
        page.inner.keyboard.press("Home")
        until(lambda: word(page, ".probe .scrub .n") == "step 0", "not scrubbed")
        probes = {each["step"]: each for each in lines(run / "studio/probes.jsonl")}
        assert word(page, ".probe .said").split() == probes[0]["answer"].split()
        assert word(page, ".asked") == text
        assert "step=0" in page.inner.url
        page.inner.keyboard.press("ArrowRight")
        until(lambda: word(page, ".probe .scrub .n") == "step 1", "not scrubbed")
        until(lambda: ".pattern" in word(page, ".bigtile .kicker"), "no table")

        # a number of the curve and one of the norms are those of the files
        told, value = read_at(page, ".curve", "Home")
        step = int(re.search(r"at step ([\d,]+)", told)[1].replace(",", ""))  # type: ignore[index]
        assert value == f"{recorded(run)[step]['loss']:.3f}"
        told, value = read_at(page, ".norms", "ArrowDown", "ArrowDown")
        step = int(re.search(r"at step ([\d,]+)", told)[1].replace(",", ""))  # type: ignore[index]
        layers = json.loads((run / "studio/about.json").read_text("utf-8"))["layers"]
        assert told.startswith(f"{layers[2]}: norm")
        assert float(value) == pytest.approx(recorded(run)[step]["grad"][2], rel=2e-3)

        # Ctrl-C saves the run as ever; the page says so and stays
        process.send_signal(signal.SIGINT)  # looking meanwhile: a browser under test waits for us
        until(lambda: word(page, STATUS).startswith("Stopped and saved after step"), "no end")
        assert process.wait(300) == 130
        until(
            lambda: f"translucid explore {shlex.quote(str(run))}" in word(page, ".status"),
            "no way on",
        )
        last = max(recorded(run))
        assert step_of(page) in (last, last + 1, last + 2)
    said = "".join(rest)
    assert "stopped and saved after step" in said
    assert f"translucid explore {shlex.quote(str(run))}" in said
    assert "Traceback" not in said
    assert inked(page, ".curve canvas") > 200  # it stays readable
    assert "in training" not in page.text("body")  # nor does the sentence say so
    # Keys draw the view again, from what came before the server stopped; the bar knows the end.
    train_key = str(1 + page.words(".views a").index("Train"))
    for key in ("d", "d", train_key, "p", "p"):
        page.inner.evaluate("document.activeElement.blur()")
        page.changed(lambda key=key: page.inner.keyboard.press(key))
        assert inked(page, ".curve canvas") > 200, key
        assert word(page, STATUS).startswith("Stopped and saved after step"), key
    assert word(page, ".model .sizes") == "stopped and saved"
    assert f"translucid explore {shlex.quote(str(run))}" in word(page, "#sentence")
    assert "in training" not in page.text("body")

    # and afterwards
    folders = [run]
    opened = open_folders(folders, load)
    with serving(opened, followed=followed_runs(folders, opened)) as served:
        drawn = page.see(f"{served.address}#/train?step=1")
        assert drawn.startswith("train ")
        assert word(page, STATUS).startswith("Stopped and saved after step")
        assert f"translucid resume {shlex.quote(str(run))}" in word(page, ".status")
        assert word(page, ".probe .scrub .n") == "step 1"
        told, value = read_at(page, ".curve", "Home")
        assert value == f"{recorded(run)[min(recorded(run))]['loss']:.3f}"
        assert page.changed(lambda: page.inner.keyboard.press("1")).startswith("flow ")


HOSTILE = "<img src=x onerror=window.hacked=1>"


def test_gaps_values_that_are_not_finite_and_hostile_texts(page: Page, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_recipe(small("classify", "gru"), run, quiet=True, recording=Recording("The dog sleeps."))
    about = json.loads((run / "studio/about.json").read_text("utf-8"))
    about |= {"probe": HOSTILE, "layers": [HOSTILE, "two"]}
    (run / "studio/about.json").write_text(json.dumps(about))
    steps = [*range(1, 30), *range(90, 120)]
    told = [{"step": n, "loss": float("nan") if n == 20 else 1 / n, "learning_rate": 0.1,
             "grad": [1.0, 10.0 ** (-n / 10)]} for n in steps]  # fmt: skip
    end = {"end": "failed", "step": 119, "why": HOSTILE}
    text = "".join(json.dumps(each) + "\n" for each in [*told, end])
    (run / "studio/steps.jsonl").write_text(text, "utf-8")
    probes = lines(run / "studio/probes.jsonl")
    for each in probes:
        each["answer"] = {HOSTILE: 0.75, "b": 0.25}
        each["columns"] = [HOSTILE for _ in each["columns"]]
    text = "".join(json.dumps(each) + "\n" for each in probes)
    (run / "studio/probes.jsonl").write_text(text, "utf-8")
    with serving({}, followed={"a": RunFollower(run, HOSTILE)}) as served:
        page.see(served.address)
        assert word(page, STATUS) == "Failed at step 119"
        assert word(page, ".status .kicker") == HOSTILE
        assert page.words(".flag text") == ["not a number"]
        assert word(page, ".probrow.on .word") == HOSTILE
        assert word(page, ".asked") == HOSTILE
        told_at, value = read_at(page, ".norms", "ArrowDown")
        assert told_at.startswith("two: norm of its gradient at step 119")
        assert float(value.replace("−", "-")) == pytest.approx(10 ** (-11.9), rel=5e-3)
        assert page.inner.evaluate("document.querySelectorAll('*').length") < 400
        assert violations(page, RULES) == []


def test_a_run_without_a_record_shows_its_metrics(page: Page, tmp_path: Path) -> None:
    run = tmp_path / "plain"
    train_recipe(small("regress", "mlp", steps=9), run, quiet=True)
    opened = open_folders([run], load)
    with serving(opened, followed=followed_runs([run], opened)) as served:
        assert page.see(f"{served.address}#/train").startswith("train ")
        assert word(page, STATUS) == "Finished after step 9 of 9"
        assert "without --studio" in word(page, ".status .kicker")
        told, value = read_at(page, ".curve", "End")
        losses = {
            each["step"]: each["loss"] for each in lines(run / "metrics.jsonl") if "loss" in each
        }
        assert told.startswith("loss")
        assert float(value) == pytest.approx(losses[9], rel=1e-3)
        assert "--probe" in word(page, ".probe")
        page.changed(lambda: page.inner.keyboard.press("d"))
        assert violations(page, RULES) == []
