"""A model is downloaded from a hub: a small server on this machine that answers as the real one.

The endpoint is read when huggingface_hub is imported, so that each step is a process of its own.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from tests.interop.tiny_foreign import written

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
pytestmark = pytest.mark.thorough
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OPEN = """
import sys
import torch
import translucid as tl
torch.save(tl.load(sys.argv[1]).network.state_dict(), sys.argv[2])
"""
FETCH = """
import sys
from translucid.core.errors import InputError
from translucid.interop.hub import fetched
for name in sys.argv[1:]:
    try:
        print(fetched(name))
    except InputError as error:
        print(error)
"""
# What is not given, by how its address begins: the status, and the hub's own code.
REFUSED = {
    "/api/models/some/private": (401, ""),
    "/some/gated/resolve/": (403, "GatedRepo"),
    "/api/models/some/llama/revision/v9": (404, "RevisionNotFound"),
    "/api/models/some/forbidden": (403, ""),
    "/api/models/some/broken": (500, ""),
    "/api/models/some/other": (404, "RepoNotFound"),
}


@contextmanager
def hub_of(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A hub that has this folder as some/llama, and as some/gated, of which it gives no file; its
    address, and what it was asked for."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            for begin, (status, code) in REFUSED.items():
                if self.path.startswith(begin):
                    self.refuse(status, code)
                    return
            if self.path.startswith(("/api/models/some/llama", "/api/models/some/gated")):
                files = sorted(folder.iterdir())
                tree = [
                    {"type": "file", "path": p.name, "size": p.stat().st_size, "oid": p.name}
                    for p in files
                ]
                names = [{"rfilename": p.name} for p in files]
                facts = {"_id": "1", "id": "some/llama", "sha": COMMIT, "siblings": names}
                answer = tree if "/tree/" in self.path else facts
                self.reply(json.dumps(answer).encode(), "application/json")
                return
            _, _, name = self.path.rpartition("/")
            if "/some/llama/resolve/" in self.path and (folder / name).is_file():
                self.reply((folder / name).read_bytes(), "application/octet-stream")
                return
            self.refuse(404, "EntryNotFound")

        do_HEAD = do_GET

        def refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def reply(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def opened(name: str, out: Path, home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return alone(OPEN, name, str(out), HF_HOME=str(home), **settings)


def alone(code: str, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, encoding="utf-8", check=False,
        env=known | {"HF_HUB_DISABLE_XET": "1"} | settings,
    )  # fmt: skip


def test_a_model_is_downloaded_once_and_then_opened_without_the_hub(tmp_path: Path) -> None:
    (tmp_path / "llama").mkdir()
    llama = written("llama", tmp_path / "llama")
    (tmp_path / "llama" / "training.log").write_text("not wanted")
    home, out = tmp_path / "home", tmp_path / "weights.pt"
    with hub_of(tmp_path / "llama") as (address, asked):
        done = opened("hf:some/llama", out, home, HF_ENDPOINT=address)
        assert done.returncode == 0, done.stderr
        assert any("resolve" in line and "model.safetensors" in line for line in asked)
        assert not any("training.log" in line and "resolve" in line for line in asked)
        asked.clear()
        out.unlink()
        done = opened("hf:some/llama", out, home, HF_ENDPOINT=address)
        assert done.returncode == 0, done.stderr
        assert asked, "whether there is a newer revision"
        assert not any("resolve" in line for line in asked), "no file comes a second time"
    for settings in ({"HF_ENDPOINT": address}, {"HF_HUB_OFFLINE": "1"}):  # the server is gone
        out.unlink()
        done = opened("hf:some/llama", out, home, **settings)
        assert done.returncode == 0, done.stderr
        weights = torch.load(out, weights_only=True)
        for name, value in llama.model.network.state_dict().items():
            assert torch.equal(weights[name], value)
    offline = opened("hf:some/other", out, home, HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE is set" in offline.stderr


def test_errors_give_the_reason_of_the_hub_and_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text("{}")
    wanted = {
        "hf:some/other": ("check the name", "hf auth login"),
        "hf:some/private": ("status 401", "hf auth login"),
        "hf:some/gated": ("terms", "{address}/some/gated", "hf auth login"),
        "hf:some/llama@v9": ("revision v9", "{address}/some/llama/commits"),
        "hf:some/forbidden": ("status 403", "hf auth login"),
        "hf:some/broken": ("status 500", "try again later"),
    }
    home = tmp_path / "home"
    with hub_of(tmp_path / "llama") as (address, _):
        done = alone(FETCH, *wanted, HF_HOME=str(home), HF_ENDPOINT=address)
    gone = alone(FETCH, "hf:some/llama", HF_HOME=str(home), HF_ENDPOINT=address)
    wanted["hf:some/llama"] = ("revision main", "check the connection")
    lines = [*done.stdout.splitlines(), *gone.stdout.splitlines()]
    assert len(lines) == len(wanted), done.stderr + gone.stderr
    for line, (name, words) in zip(lines, wanted.items(), strict=True):
        assert line.startswith(f"{name}: "), line
        for word in (f"{home}/hub", *words):
            assert word.format(address=address) in line, line
