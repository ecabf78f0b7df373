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


@contextmanager
def hub_of(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A hub that has this folder as some/llama; its address, and what it was asked for."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            if self.path.startswith("/api/models/some/llama"):
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
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

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
    known = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", OPEN, name, str(out)], capture_output=True, text=True, check=False,
        env=known | {"HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"} | settings,
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
        other = opened("hf:some/other", out, home, HF_ENDPOINT=address)
        assert other.returncode
        assert f"lacks files of some/other, revision main, and {address} did not" in other.stderr
    for settings in ({"HF_ENDPOINT": address}, {"HF_HUB_OFFLINE": "1"}):  # the server is gone
        out.unlink()
        done = opened("hf:some/llama", out, home, **settings)
        assert done.returncode == 0, done.stderr
        weights = torch.load(out, weights_only=True)
        for name, value in llama.model.network.state_dict().items():
            assert torch.equal(weights[name], value)
    offline = opened("hf:some/other", out, home, HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE is set, so that nothing is downloaded: unset it" in offline.stderr
