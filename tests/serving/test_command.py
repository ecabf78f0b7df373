"""`translucid serve` as a process: what it prints works, and stopping it loses nothing."""

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
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

SERVE = [sys.executable, "-m", "translucid", "serve"]


@contextmanager
def command(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """The running command, and what it printed: the address and the command to try."""
    process = subprocess.Popen(
        [*SERVE, *arguments, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
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
def test_the_printed_command_works_and_stopping_finishes_what_was_accepted() -> None:
    with command("demo:translate", "demo:generate") as (process, printed):
        assert "translate, en to de" in printed["models"]
        parts = shlex.split(printed["try"])
        address, path = re.fullmatch(r"(http://[^/]+)(/.*)", parts[1]).groups()  # type: ignore[union-attr]
        assert parts[0] == "curl"
        answer = asked(address, path, json.loads(parts[parts.index("-d") + 1]))
        assert answer["results"][0]["texts"][0]["finished"]

        results: list[Any] = []
        body = {"model": "demo:generate", "prompt": "The", "max_tokens": 150, "ignore_eos": True}
        clients = [
            threading.Thread(target=lambda: results.append(asked(address, "/v1/completions", body)))
            for _ in range(8)
        ]
        for client in clients:
            client.start()
        while 'translucid_accepted_total{model="demo:generate"} 8' not in _metrics(address):
            pass
        process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(120)
        assert [one["usage"]["completion_tokens"] for one in results] == [150] * 8
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
    ],
)
def test_mistakes_are_named_before_anything_is_served(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    result = run("serve", *arguments, "--port", "0", cwd=tmp_path)
    assert result.returncode == 2
    assert re.search(words, result.stderr), result.stderr
