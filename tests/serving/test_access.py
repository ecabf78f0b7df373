"""Who may ask, how much, and what the log keeps."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving.running import Running, running, served, shipped, until

from translucid.core.errors import InputError
from translucid.serving.access import Rules, read_keys

KEY = "a-key-of-sixteen-or-more"
SECRET = "The quiet bird is secret"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    rules = Rules((KEY,), frozenset(("127.0.0.1",)), frozenset(("https://good.example",)))
    with running([served("classify", shipped("classify"))], rules) as one:
        yield one


def status(server: Running, **headers: str) -> int:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.send("/classify", {"text": SECRET}, headers=given)[0]


def test_only_a_known_key_is_answered(guarded: Running) -> None:
    assert status(guarded) == 401
    assert status(guarded, Authorization=f"Bearer {KEY}x") == 401
    assert status(guarded, Authorization=f"Bearer {KEY}") == 200
    assert status(guarded, X_API_Key=KEY) == 200
    for wrong in (
        "",
        "Bearer",
        "Bearer ",
        f"Basic {KEY}",
        KEY,
        f"Bearer {KEY[:-1]}",
        "Bearer \xe9",
    ):
        assert status(guarded, Authorization=wrong) == 401
    assert guarded.send(f"/classify?api_key={KEY}", {"text": SECRET, "api_key": KEY})[0] == 401
    assert guarded.send("/health")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost"])
def test_another_host_is_refused(guarded: Running, host: str) -> None:
    assert status(guarded, Authorization=f"Bearer {KEY}", Host=host) == 403


def test_only_allowed_sites_may_send_requests(guarded: Running) -> None:
    key = f"Bearer {KEY}"
    assert status(guarded, Authorization=key, Origin="https://evil.example") == 403
    good = {"Authorization": key, "Origin": "https://good.example"}
    code, _, headers = guarded.send("/classify", {"text": SECRET}, headers=good)
    assert code == 200
    assert headers["access-control-allow-origin"] == "https://good.example"
    code, _, headers = guarded.send("/classify", None, "OPTIONS", {"Origin": good["Origin"]})
    assert code == 204
    other_host = {"Origin": good["Origin"], "Host": "evil.example"}
    assert guarded.send("/classify", None, "OPTIONS", other_host)[0] == 403
    code, _, headers = guarded.send("/classify", None, "OPTIONS", {"Origin": "https://x.example"})
    assert code == 403
    assert "access-control-allow-origin" not in headers


def test_the_log_has_no_text_and_no_key(guarded: Running) -> None:
    status(guarded, Authorization=f"Bearer {KEY}", X_Request_Id="my-request-7")
    until(lambda: any("my-request-7" in line for line in guarded.log))  # written after the answer
    lines = [json.loads(line) for line in guarded.log]
    assert any(line["request_id"] == "my-request-7" and line["status"] == 200 for line in lines)
    everything = "\n".join(guarded.log)
    assert KEY not in everything
    assert "bird" not in everything


def test_a_request_that_is_too_large_is_refused(guarded: Running) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port)) as connection:
        head = (
            f"POST /classify HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(200)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"\xff\xfe", b'{"text": NaN}', b'{"text": ' + b"[" * 5000,
        b'{"text": "\\ud800"}', b'{"text": ' + b"9" * 5000 + b"}", b'{"text": ["a", 3]}',
        b'{"text": null}', b"{}" * 3, b'{"text": {"a": 1}}', b'"text"',
    ],
)  # fmt: skip
def test_bad_bodies_get_a_400_that_names_the_problem(guarded: Running, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    code, content, _ = guarded.send("/classify", body, headers=headers, method="POST")
    assert code == 400
    assert content["error"]["message"]


def test_keys_are_read_from_lines(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(f"# clients\n{KEY}\n\n{KEY}2\n{KEY}\n", "utf-8")
    assert read_keys(file, None) == (KEY, f"{KEY}2")
    assert read_keys(None, KEY) == (KEY,)
    assert read_keys(None, None) == ()
    file.write_text("short\n", "utf-8")
    with pytest.raises(InputError, match="fewer than 16"):
        read_keys(file, None)
    file.write_text("schlüssel-with-an-umlaut\n", "utf-8")
    with pytest.raises(InputError, match="outside of ASCII"):
        read_keys(file, None)
    with pytest.raises(InputError, match="no such file"):
        read_keys(tmp_path / "none", None)


def test_a_client_that_leaves_frees_its_rows() -> None:
    with running([served("generate", shipped("generate"))]) as server:
        engine = server.models["generate"].engine
        body = json.dumps(
            {"prompt": "The", "max_tokens": 4000, "ignore_eos": True, "stream": True, "n": 4}
        ).encode()
        head = (
            "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        for stream in (True, False):
            asked = body if stream else body.replace(b'"stream": true', b'"stream":false')
            assert len(asked) == len(body)
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(head.encode() + asked)
                until(lambda: engine.stats()["rows"] == 4)
            until(lambda: engine.stats()["rows"] == 0)
        assert engine.stats()["cancelled"] == 2
