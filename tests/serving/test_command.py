"""`translucid serve` as a process: what it prints works, and stopping it loses nothing."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run

from translucid.model import load
from translucid.serving.access import KEY_VARIABLE

SERVE = [sys.executable, "-m", "translucid", "serve"]
ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "translucid@.service"
KEY = "a-key-for-the-tests-only"


@contextmanager
def command(
    *arguments: str, **environment: str
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """The running command, and what it printed: the address and the command to try."""
    process = subprocess.Popen(
        [*SERVE, *arguments, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=os.environ | environment,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        printed: dict[str, str] = {"models": ""}
        for line in process.stdout:
            if found := re.match(r"serving on (\S+)", line):
                printed["address"] = found[1]
            elif line.startswith("try: "):
                printed["try"] = line.removeprefix("try: ").strip()
                break
            else:
                printed["models"] += line
        assert "address" in printed, errors
        yield process, printed
    finally:
        process.kill()
        process.wait(60)
        reader.join(60)
        process.stdout.close()
        process.stderr.close()


def asked(address: str, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_without_the_studio_no_package_for_websockets_is_needed(tmp_path: Path) -> None:
    """It belongs to the extra of the studio."""
    (tmp_path / "wsproto.py").write_text("raise ImportError('not installed')\n", "utf-8")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with command("demo:generate", PYTHONPATH=paths) as (_, printed):
        body = {"prompt": "The", "max_tokens": 3}
        assert asked(printed["address"], "/v1/completions", body)["choices"]


@pytest.mark.slow
def test_the_printed_command_works_and_stopping_finishes_what_was_accepted() -> None:
    with command("demo:translate", "demo:generate") as (process, printed):
        assert "translate, en to de" in printed["models"]
        parts = shlex.split(printed["try"])
        address, path = re.fullmatch(r"(http://[^/]+)(/.*)", parts[1]).groups()  # type: ignore[union-attr]
        assert parts[0] == "curl"
        answer = asked(address, path, json.loads(parts[parts.index("-d") + 1]))
        assert answer["results"][0]["texts"][0]["finished"]

        assert _status(address, "/ready") == (200, "")
        results: list[Any] = []
        body = {"model": "demo:generate", "prompt": "The", "max_tokens": 1000, "ignore_eos": True}
        clients = [
            threading.Thread(target=lambda: results.append(asked(address, "/v1/completions", body)))
            for _ in range(8)
        ]
        for client in clients:
            client.start()
        while 'translucid_accepted_total{model="demo:generate"} 8' not in _metrics(address):
            pass
        process.send_signal(signal.SIGTERM)
        while (ready := _status(address, "/ready")) == (200, ""):
            pass
        assert ready == _status(address, "/v1/completions", body) == (503, "5")
        assert _status(address, "/health") == (200, "")
        assert not results  # they are all being answered
        for client in clients:
            client.join(120)
        assert [one["usage"]["completion_tokens"] for one in results] == [1000] * 8
        assert process.wait(60) in (0, 143, -signal.SIGTERM)


@pytest.mark.slow
def test_allow_trace_is_printed_and_works() -> None:
    options = ("--allow-trace", "--trace-values", "1000")
    with command("demo:translate", *options) as (_, printed):
        assert "up to 1,000 traced values" in printed["models"]
        point = "decoder.layers.1.cross_attention.pattern"
        body = {"text": "The dog sleeps.", "trace": [point]}
        answer = asked(printed["address"], "/translate", body)
        model = load("demo:translate")
        trace = model.trace(body["text"], answer["results"][0]["texts"][0]["text"])
        values = torch.tensor(answer["trace"]["points"][point]["values"])
        torch.testing.assert_close(values, trace[point], atol=1e-5, rtol=1e-4)
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked(printed["address"], "/translate", body | {"trace": ["*"]})
        assert refused.value.code == 413
        refused.value.close()


@pytest.mark.slow
def test_the_studio_is_on_the_same_port() -> None:
    with command("demo:translate", "--studio") as (process, printed):
        assert process.stdout is not None
        studio = process.stdout.readline().removeprefix("studio: ").strip()
        assert studio.startswith(printed["address"])
        with urllib.request.urlopen(studio, timeout=120) as page:
            assert b"<html" in page.read()
        with urllib.request.urlopen(f"{printed['address']}/v1/models/demo:translate") as answer:
            assert json.load(answer)["id"] == "demo:translate"
        assert asked(printed["address"], "/translate", {"text": "A dog sleeps."})["results"]


def _status(address: str, path: str, body: Any = None) -> tuple[int, str]:
    """Status and Retry-After of an answer."""
    raw = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, raw, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Retry-After"]


def _metrics(address: str) -> str:
    with urllib.request.urlopen(address + "/metrics", timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "no such folder"),
        (["demo:generate", "--host", "0.0.0.0"], "--api-key-file"),
        (["demo:generate", "--api-key-file", "nowhere.txt"], "no such file"),
        (["demo:generate", "--languages", "en-de"], "0 translation models"),
        (["demo:translate", "--languages", "english"], "codes such as en-de"),
        (["demo:generate", "--host", "256.1.1.1"], "cannot listen|--api-key-file"),
        (["demo:generate", "--cors", "example.org"], "--cors.*https://"),
        (["demo:generate", "--cors", "https://example.org/page"], "--cors.*without a path"),
    ],
)
def test_mistakes_are_named_before_anything_is_served(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    result = run("serve", *arguments, "--port", "0", cwd=tmp_path)
    assert result.returncode == 2
    assert re.search(words, result.stderr), result.stderr


# ---- deploy/ ----


def _of_container() -> dict[str, list[str]]:
    """The commands of the Dockerfile."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    commands = re.findall(r"^(ENTRYPOINT|HEALTHCHECK)[^[\n]*(\[.*\])$", text, re.MULTILINE)
    return {name: json.loads(words) for name, words in commands}


def _of_unit(key: str) -> str:
    (value,) = re.findall(rf"^{key}=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)
    return str(value)


def test_the_unit_leaves_time_to_finish_requests() -> None:
    words = _of_unit("ExecStart").split()
    assert float(_of_unit("TimeoutStopSec")) > float(words[words.index("--drain") + 1])


def test_the_image_is_built_from_all_files_that_the_package_contains() -> None:
    rules = (ROOT / ".dockerignore").read_text("utf-8").split()
    kept = {path for rule in rules if rule[0] == "!" for path in ROOT.glob(rule[1:])}
    built = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packaged = built["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    needed = {built["project"]["readme"], *built["project"]["license-files"], *packaged, "src"}
    needed |= {"hatch_build.py", "pyproject.toml", "requirements.lock"}
    assert kept == {ROOT / name for name in needed}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = _of_unit("ExecStart").split()[0]
    unit = tmp_path / UNIT.name.replace("@", "@8000")
    unit.write_text(UNIT.read_text("utf-8").replace(program, sys.executable), "utf-8")
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True
    )
    assert not checked.returncode, checked.stderr
    assert unit.name not in checked.stderr, checked.stderr  # unknown settings are only warnings


@pytest.mark.slow
@pytest.mark.parametrize("place", ["container", "unit"])
def test_the_command_that_is_deployed_serves(place: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEY, "utf-8")
    words = _of_unit("ExecStart").replace("%d", str(tmp_path)).replace("%i", "8000").split()[:-1]
    if place == "container":
        words = _of_container()["ENTRYPOINT"]
    assert Path(words[0]).name == "translucid"
    assert words[1] == "serve"
    environment = {KEY_VARIABLE: KEY} if place == "container" else {}
    with command("demo:translate", *words[2:], **environment) as (process, printed):
        _, probe, program = _of_container()["HEALTHCHECK"]
        assert probe == "-c"
        program = program.replace("http://127.0.0.1:8000", printed["address"])
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked(printed["address"], "/translate", {"text": "The dog sleeps."})
        assert refused.value.code == 401
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert subprocess.run(
            [sys.executable, "-c", program], stderr=subprocess.DEVNULL, timeout=120
        ).returncode
