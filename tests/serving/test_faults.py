"""Faults of clients: they are refused with a reason, and other requests do not wait for them."""

import argparse
import asyncio
import json
import math
import socket
import threading
import time
import tracemalloc
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from bench import serve, serve_faults
from tests.serving.running import EVERYONE, Running, running, served, shipped, until
from tests.studio.serving import model as untrained

from translucid.core.errors import ConfigError, InputError
from translucid.fast.packed_linear import PackedLinear
from translucid.model import Model
from translucid.serving import Limits, access, connections
from translucid.serving import served as serving_models
from translucid.serving import server as serving
from translucid.serving.access import Rules
from translucid.serving.bodies import ApiError, Body
from translucid.serving.completions import CompletionBody, legacy_logprobs
from translucid.serving.job import TokenChoice
from translucid.serving.markup import split
from translucid.serving.running import TopTokens
from translucid.serving.served import CANDIDATE_BYTES

MANY = 900_000
WORK = 20.0  # seconds of the processor; splitting takes less than one


@contextmanager
def connected(
    server: Running,
    *headers: str,
    path: str = "/v1/completions",
    ask: bool = False,
    body: bytes = b"",
) -> Iterator[Any]:
    """A connection on which the headers of a request with JSON were sent, and with them the body.
    ask: after another request was answered."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        if ask:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            received = b""
            while not received.endswith(b'{"status":"ok"}'):
                received += connection.recv(1000)
        lines = [
            f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers
        ]  # fmt: skip
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        yield connection


def answer(connection: socket.socket) -> bytes:
    """Everything that the server sends until it closes the connection."""
    received = b""
    while piece := connection.recv(1 << 16):
        received += piece
    return received


# ---- slow and large requests ----


def test_a_body_that_arrives_too_slowly_gets_a_408(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "PATIENCE", 0.2)
    with connected(server, "Content-Length: 100") as connection:
        connection.sendall(b"{")
        received = answer(connection)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_a_body_without_length_that_is_too_large_gets_a_413(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LARGEST", 1000)
    with connected(server, "Transfer-Encoding: chunked", path="/translate") as connection:
        connection.sendall(b"400\r\n" + b" " * 0x400 + b"\r\n")
        received = answer(connection)
    assert received.startswith(b"HTTP/1.1 413 ")
    assert "1,000 bytes" in json.loads(received.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.parametrize(
    "values",
    [
        {"prompt": [None] * MANY},
        {"prompt": ["a"] * MANY},
        {"prompt": [1] * MANY + ["a"]},
        {"prompt": [[1]] * 300},
        {"prompt": "a", "stop": [1] * MANY},
        {"prompt": "a", "logit_bias": {str(i): "a" for i in range(200_000)}},
        {"prompt": "a"} | {f"key{i}": 1 for i in range(200_000)},
        {"prompt": [1] * 2_000_000},
    ],
    ids=lambda values: next(reversed(values)),
)
def test_a_large_body_with_many_mistakes_is_refused_at_once(values: dict[str, Any]) -> None:
    """Collecting all mistakes would keep other requests waiting."""
    with pytest.raises(ApiError) as caught:
        CompletionBody.of(values)
    assert len(caught.value.message) < 10_000
    cause = caught.value.__context__
    assert not isinstance(cause, ConfigError) or len(cause.mistakes) < 10


def test_a_text_with_half_a_surrogate_pair_is_refused(server: Running) -> None:
    for body in (b'{"prompt": ["a", "\\ud800"]}', b'{"\\ud800": 1}', b'{"x": {"\\udfff": 1}}'):
        status, content, _ = server.send("/v1/completions", body)
        assert status == 400
        assert "surrogate" in content["error"]["message"]
    assert Body.values(b'{"text": "\\ud83d\\ude00"}') == {"text": "\N{GRINNING FACE}"}


@pytest.mark.parametrize(
    "html",
    [
        "<a ",
        "<b",
        "<!",
        "<!--",
        "</b",
        "<p></b>",
        "<a x='",
        '<a x="',
        "<?",
        "<code></code",
        "&#",
        "= ",
    ],
)
def test_splitting_html_takes_linear_time(html: str) -> None:
    began = time.thread_time()
    parts = split(html * 50_000)
    assert time.thread_time() - began < WORK
    assert parts


def test_a_text_with_very_many_inline_elements_is_refused(server: Running) -> None:
    status, content, _ = server.send("/translate", {"q": "<b>" * 300 + "a", "format": "html"})
    assert status == 400
    assert "inline elements" in content["error"]


def test_references_to_no_character_are_replaced(server: Running) -> None:
    (segment,) = split(f"a &#{'9' * 5000}; &#x{'f' * 5000}; &amp;")
    assert getattr(segment, "text", "") == "a \ufffd \ufffd &"


def test_a_text_that_would_take_very_long_is_refused(server: Running) -> None:
    for body in ({"text": "dog " * 20_000}, {"text": ["a", "dog " * 20_000]}):
        status, content, _ = server.send("/classify", body)
        assert status == 400
        assert "limit of 16,384" in content["error"]["message"]
    status, content, _ = server.send("/classify", {"text": ["dog " * 9000] * 40})
    assert status == 400
    assert "send fewer" in content["error"]["message"]


def test_a_prompt_longer_than_the_model_reads_is_refused() -> None:
    model = untrained("language-transformer", positions="learned", max_length=16)
    with running([served("short", model)]) as server:
        status, content, _ = server.send("/v1/completions", {"prompt": "the dog " * 20})
        assert status == 400
        assert "16 positions" in content["error"]["message"]
        assert content["error"]["param"] == "prompt"
        asked = {"prompt": "the dog", "max_tokens": 100, "ignore_eos": True}
        (choice,) = server.get("/v1/completions", asked)["choices"]
        assert choice["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": "The", "n": 128}, "n"),
        ("/v1/completions", {"prompt": [10**6]}, "prompt"),
        ("/classify", {"text": "dog " * 20_000}, "text"),
        ("/predict", {"model": "regress", "inputs": [[1]]}, "inputs"),
        ("/predict", {"model": "classify", "inputs": [[1]]}, "inputs"),
        ("/score", {"model": "translate", "text": "The"}, "target"),
        ("/score", {"model": "generate", "text": "The", "target": "a"}, "target"),
    ],
)
def test_an_error_names_its_field(
    server: Running, path: str, body: dict[str, Any], param: str
) -> None:
    named = body | ({"model": "generate"} if path == "/v1/completions" else {})
    status, content, _ = server.send(path, named)
    assert (status, content["error"]["param"]) == (400, param)


def test_a_whole_number_may_have_a_decimal_point(server: Running) -> None:
    asked = {"model": "generate", "prompt": "The", "max_tokens": 3, "ignore_eos": True}
    wholly = server.get("/v1/completions", asked | {"max_tokens": 3.0})
    assert wholly["usage"] == server.get("/v1/completions", asked)["usage"]
    assert server.send("/v1/completions", asked | {"max_tokens": 3.5})[0] == 400


def test_a_penalty_by_which_numbers_would_overflow_is_refused(server: Running) -> None:
    for path, model in (("/translate", "translate"), ("/v1/completions", "generate")):
        text = {"text": "The dog sleeps."} if model == "translate" else {"prompt": "The"}
        for penalty, status in ((2e-311, 400), (0.01, 200), (100, 200)):
            body = text | {"model": model, "repetition_penalty": penalty}
            got, content, _ = server.send(path, body)
            assert got == status, content


# ---- models whose numbers overflow ----


def diverged(model: Model) -> Model:
    twin = deepcopy(model)
    for parameter in twin.network.parameters():
        parameter.data.fill_(math.nan)
    return twin


def test_numbers_that_are_not_finite_are_an_error() -> None:
    names = ("generate", "translate", "classify")
    with running([served(name, diverged(shipped(name))) for name in names]) as server:
        dog = {"text": "The dog sleeps."}
        prompt = {"prompt": "The dog", "max_tokens": 3}
        for path, body in [
            ("/v1/completions", prompt), ("/v1/completions", prompt | {"logprobs": 2}),
            ("/v1/completions", prompt | {"stream": True}),
            ("/v1/completions", prompt | {"max_tokens": 0, "echo": True, "logprobs": 0}),
            ("/translate", dog), ("/classify", dog), ("/score", dog | {"model": "generate"}),
        ]:  # fmt: skip
            status, content, _ = server.send(path, body)
            assert status == 422, content
            error = content["error"]
            assert "nan" in (error if isinstance(error, str) else error["message"])


def test_a_diverged_model_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    model = diverged(untrained("language-transformer"))
    monkeypatch.setattr(serving, "open_folders", lambda folders, load: {"a": model})
    with pytest.raises(InputError, match="not finite"):
        serving.open_models([], "cpu", "float32", Limits(), [], print)


@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_a_given_precision_is_also_that_of_labels(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = untrained("classify-transformer")
    monkeypatch.setattr(serving, "open_folders", lambda folders, load: {"a": model})
    (served,) = serving.open_models([], "cpu", precision, Limits(), [], print).values()
    served.engine.close()
    layers = {type(part) for part in served.engine.model.network.modules()}
    assert (PackedLinear in layers) is (precision == "float32")


def test_an_impossible_token_has_the_log_probability_of_the_openai_api() -> None:
    token = TokenChoice(1, "a", -math.inf, ((2, "b", -0.5), (3, "c", -math.inf)))
    shown = legacy_logprobs([token], [0], 2)
    assert shown["token_logprobs"] == [-9999.0]
    assert shown["top_logprobs"] == [{"a": -9999.0, "b": -0.5, "c": -9999.0}]


# ---- more requests than the server has room for ----


def test_more_requests_than_the_server_has_room_for_are_refused_with_retry_after(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.server.load, "most", 0)
    status, content, headers = server.send("/v1/completions", {"prompt": "The"})
    assert (status, content["error"]["code"]) == (429, "queue_full")
    assert int(headers["retry-after"]) >= 1
    assert server.get("/health") == {"status": "ok"}  # has no body
    monkeypatch.undo()
    assert server.get("/v1/completions", {"prompt": "The", "model": "generate"})["choices"]
    until(lambda: (server.server.load.requests, server.server.load.bytes) == (0, 0))


def test_refused_requests_get_their_own_tag_and_shape(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.server.load, "most", 0)
    headers = {"X-Request-Id": "my-tag-8"}
    for path, is_text in (("/translate", True), ("/classify", False)):
        status, content, given = server.send(path, {"text": "a"}, headers=headers)
        assert (status, given["x-request-id"]) == (429, "my-tag-8")
        assert given["x-content-type-options"] == "nosniff"
        assert isinstance(content["error"], str) is is_text
    counted = 'translucid_requests_total{route="refused",status="429"}'
    assert counted in server.get("/metrics")
    until(lambda: any('"refused"' in line for line in server.log))
    lines = [json.loads(line) for line in server.log if '"refused"' in line]
    assert {line["status"] for line in lines} == {429}


def test_connections_wait_for_their_turn_and_more_are_refused(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request has a place in the queue before it is read. A connection without a request does
    not take a place."""
    load, body = server.server.load, b'{"text": "A dog sleeps."}'
    monkeypatch.setattr(connections, "AT_ONCE", 0)  # no request is read
    monkeypatch.setattr(load, "most", 3)
    length = f"Content-Length: {len(body)}"
    asked = partial(connected, server, length, path="/classify", body=body)
    with ExitStack() as stack:
        stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        waiting = []
        for count in (1, 2, 3):
            waiting.append(stack.enter_context(asked("Connection: close")))
            until(lambda count=count: load.entering == count)
        for _ in range(4):
            assert answer(stack.enter_context(asked())).startswith(b"HTTP/1.1 429 ")
        monkeypatch.setattr(connections, "AT_ONCE", 1)
        for connection in waiting:
            assert answer(connection).startswith(b"HTTP/1.1 200 ")
    until(lambda: (load.entering, load.requests) == (0, 0))


@pytest.mark.parametrize("seconds", [0.05, 1000.0])
def test_a_silent_connection_waits_for_its_request_while_others_are_refused(
    server: Running, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused when its request arrives, whether it has got a protocol meanwhile or not."""
    http = server.http
    assert http is not None
    monkeypatch.setattr(connections, "SILENT", seconds)
    monkeypatch.setattr(server.server.load, "most", 0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        if seconds > 1:
            until(lambda: len(http.silent) == 1)
        else:
            until(lambda: http.server_state.connections)
        connection.sendall(b"POST /classify HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert answer(connection).startswith(b"HTTP/1.1 429 ")
    with socket.create_connection(("127.0.0.1", server.port), timeout=120):
        pass  # closed without a request
    until(lambda: not (http.silent or http.server_state.connections))


def _send(client: socket.socket, size: int) -> None:
    for _ in range(size // 1000):
        client.sendall(b" " * 1000)


@pytest.mark.parametrize("refused", [True, False])
def test_connections_without_an_answer_are_closed_when_the_server_stops(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were refused and still send, and those whose request has not been read."""
    monkeypatch.setattr(connections, "LEAVE", 1000.0)
    monkeypatch.setattr(connections, "AT_ONCE", 0)
    with ExitStack() as stack:
        with running([served("classify", shipped("classify"))]) as server:
            load = server.server.load
            monkeypatch.setattr(load, "most", 0 if refused else 1)
            asked = connected(server, "Content-Length: 1000000", path="/classify")
            client = stack.enter_context(asked)
            if refused:
                assert answer(client).startswith(b"HTTP/1.1 429 ")
            else:
                until(lambda: load.entering == 1)
        assert server.http is not None  # holds the connections, which would close by themselves
        with pytest.raises(ConnectionError):
            _send(client, 100_000)


def test_a_refused_client_may_send_its_whole_body(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server closed the connection at once, the client could not read the answer."""
    body = b'{"text": "' + b"a" * 4_000_000 + b'"}'
    monkeypatch.setattr(server.server.load, "most", 0)
    for known in (False, True):  # a new connection, and one on which a request was answered
        with connected(server, f"Content-Length: {len(body)}", path="/classify", ask=known) as one:
            for start in range(0, len(body), 100_000):
                one.sendall(body[start : start + 100_000])
            head, _, content = answer(one).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 429 ")
        assert json.loads(content)["error"]["code"] == "queue_full"


def test_only_requests_for_the_model_with_a_full_queue_are_refused(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = server.models["generate"].engine
    monkeypatch.setattr(engine, "limits", Limits(queue=0))
    monkeypatch.setattr(engine, "check_room", None)  # without this, a 429 would come from there
    body = b'{"model": "generate", "prompt": "The"}'
    with connected(server, f"Content-Length: {len(body)}", body=body) as connection:
        assert answer(connection).startswith(b"HTTP/1.1 429 ")
    asked = {"model": "chat", "prompt": 'The "model": "generate"', "max_tokens": 1}
    assert server.get("/v1/completions", asked)["choices"]


def test_places_of_requests_are_free_afterwards(server: Running) -> None:
    load = server.server.load
    assert server.get("/classify", {"text": "A dog sleeps."})
    assert server.send("/classify", b"{", method="POST")[0] == 400
    with connected(server, "Content-Length: 100", path="/classify") as connection:
        connection.sendall(b"{")
        until(lambda: load.entering == 1)
    until(lambda: (load.entering, load.requests, load.bytes) == (0, 0, 0))


def test_bodies_that_are_too_large_together_are_refused_with_retry_after(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LARGEST_TOGETHER", 1000)
    with connected(server, "Content-Length: 900") as connection:
        connection.sendall(b"{" + b" " * 800)
        until(lambda: server.server.load.bytes == 801)
        status, _, headers = server.send("/classify", {"text": "a " * 150})
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert server.get("/classify", {"text": "A dog sleeps."})["results"]
    until(lambda: server.server.load.bytes == 0)


def test_connections_above_the_limit_are_refused_with_retry_after(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 1)
    two = "Content-Length: 2"
    with connected(server, two), connected(server, two) as second:
        assert answer(second).startswith(b"HTTP/1.1 503 ")
        with connected(server, two) as third, suppress(ConnectionError):
            assert answer(third) == b""
    assert server.get("/health") == {"status": "ok"}


def test_a_request_is_refused_before_it_is_tokenized_if_the_queue_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running([served("classify", shipped("classify"))]) as server:
        engine = server.models["classify"].engine
        monkeypatch.setattr(engine, "limits", Limits(queue=0))
        monkeypatch.setattr(engine, "run", None)
        status, _, headers = server.send("/classify", {"text": "a"})
        assert (status, headers["retry-after"]) == (429, "1")


# ---- the faults of bench/serve_faults.py, in a small number ----


def counted_by(work: Coroutine[Any, Any, serve_faults.Result]) -> serve_faults.Result:
    with ThreadPoolExecutor(1) as pool:  # a browser's own loop may run in this thread
        return pool.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def known() -> list[serve_faults.Question]:
    return serve_faults.questions(12)


@pytest.fixture(scope="module")
def process() -> Iterator[serve_faults.Server]:
    with serve_faults.serving("--no-log") as one:
        yield one


@pytest.mark.slow
def test_no_answer_is_swapped(process: Any, known: Any) -> None:
    counted = counted_by(serve_faults.swaps(process, 200, 16, known))
    assert counted["right"] == counted["asked"] >= 200
    assert counted["different_answers"] == len(known)


@pytest.mark.slow
def test_clients_that_disconnect_leave_nothing_behind(process: Any, known: Any) -> None:
    counted = counted_by(serve_faults.disconnects(process, 40, 8, known))
    held = counted["afterwards"]
    assert (held["rows"], held["running"], held["waiting"], held["cache_tokens"]) == (0, 0, 0, 0)
    assert counted["cancelled"] >= counted["left_mid_stream"] >= 40
    assert counted["files_after"] <= counted["files_before"]
    stays = counted["client_that_stays"]
    assert stays["right"] == stays["asked"] > 0


@pytest.mark.slow
def test_every_refusal_has_retry_after(known: Any) -> None:
    with serve_faults.serving("--no-log", "--rows", "2", "--queue", "2") as process:
        counted = counted_by(serve_faults.overload(process, 6, 5, known))
    refused = counted["refused_429"] + counted.get("refused_503", 0)
    assert counted["alive"]
    assert counted["right"] + refused == counted["asked"]


@pytest.mark.slow
def test_sigterm_under_load_loses_no_accepted_request() -> None:
    long = serve_faults.questions(12, tokens=64)  # a server that does not wait would lose them
    counted = counted_by(serve_faults.sigterm(1, 12, long))
    assert counted["accepted"] >= 24
    assert (counted["lost"], counted["wrong"], counted["early_without_answer"]) == (0, 0, 0)
    assert counted["clean_exits"] == 1


# ---- the load of bench/serve.py, in a small number ----


@pytest.mark.parametrize("name", ["translate", "generate"])
def test_every_request_of_a_closed_and_an_open_loop_is_answered(name: str) -> None:
    with running([served(name, shipped(name))]) as server:
        engine = server.models[name].engine
        given = argparse.Namespace(seconds=1.0, tokens=5)
        closed = serve.load(server.port, 3, name == "translate", given)
        accepted = engine.stats()["accepted"]
        assert accepted >= 3
        opened = serve.open_loop(server.port, 20.0, name == "translate", given)
        assert engine.stats()["accepted"] - accepted == opened["sent"] > 5
        until(lambda: engine.stats()["finished"] == engine.stats()["accepted"])
        for row in (closed, opened):
            assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
            assert row["tokens_per_s"] > 0
            if name == "generate":
                assert 0 < row["first_p50_ms"] < row["p50_ms"]


# ---- clients that send or read slowly ----


@pytest.mark.parametrize("status", [401, 413])
def test_a_client_that_is_refused_while_it_sends_gets_the_answer(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server closed the connection at once, it would be reset."""
    rules = Rules(("a-key-of-sixteen-or-more",)) if status == 401 else EVERYONE
    monkeypatch.setattr(access, "LARGEST", 8_000_000 if status == 401 else 1000)
    with running([served("classify", shipped("classify"))], rules) as server:
        for head in ("Content-Length: 4000000", "Transfer-Encoding: chunked"):
            with connected(server, head, path="/classify") as connection:
                for _ in range(40):
                    piece = b"a" * 100_000
                    chunked = b"%x\r\n%s\r\n" % (len(piece), piece)
                    connection.sendall(piece if "Length" in head else chunked)
                if "chunked" in head:
                    connection.sendall(b"0\r\n\r\n")
                received = answer(connection)
            assert received.startswith(b"HTTP/1.1 %d " % status)
            assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_does_not_read_its_answer_is_disconnected(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD", 0.5)
    fields = {"prompt": ["The"] * 8, "max_tokens": 4000 if stream else 400, "ignore_eos": True,
              "logprobs": 100, "stream": stream}  # fmt: skip
    body = json.dumps(fields).encode()
    with running([served("generate", shipped("generate"))]) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
        client.sendall(f"{head}\r\n\r\n".encode() + body)
        engine, load = server.models["generate"].engine, server.server.load
        until(lambda: engine.stats()["rows"] == 8)
        until(lambda: client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        until(lambda: (engine.stats()["rows"], load.requests, load.bytes) == (0, 0, 0))
        if stream:
            assert engine.stats()["cancelled"] == 8


@pytest.mark.slow
def test_a_client_that_reads_slowly_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD", 2.0)
    monkeypatch.setattr(connections, "LEAST_READ", 1)
    fields = {"prompt": ["The"] * 8, "max_tokens": 400, "ignore_eos": True, "logprobs": 100}
    body = json.dumps(fields).encode()
    with running([served("generate", shipped("generate"))]) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        received, began = b"", time.monotonic()
        while piece := client.recv(1 << 16):
            received += piece
            if time.monotonic() < began + 6:  # longer than UNREAD
                time.sleep(0.1)
    assert len(json.loads(received.partition(b"\r\n\r\n")[2])["choices"]) == 8


# ---- memory for log-probabilities ----


def test_a_reported_candidate_needs_few_bytes() -> None:
    tokenizer, log_probs = shipped("generate").output_tokenizer, torch.randn(200).log_softmax(0)
    TopTokens(tokenizer, log_probs, 100)
    tracemalloc.start()
    kept = [TopTokens(tokenizer, log_probs, 100) for _ in range(50)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 50 * 100 * CANDIDATE_BYTES
    assert [one[0] for one in kept[0]] == log_probs.topk(100).indices.tolist()
    assert kept[0][:2] == [kept[0][0], kept[0][1]]


def test_log_probabilities_that_need_too_much_memory_are_refused(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone with status 400, beside others with status 429 until those have ended."""
    monkeypatch.setattr(serving_models, "REPORTED", 10_000_000)
    long = {"model": "generate", "prompt": "The", "max_tokens": 4000, "logprobs": 50,
            "ignore_eos": True, "stream": True}  # fmt: skip
    status, content, _ = server.send("/v1/completions", long | {"n": 2})
    assert (status, content["error"]["param"]) == (400, "logprobs")
    assert "12.8 MB" in content["error"]["message"]
    status, content, _ = server.send(
        "/v1/completions",
        long | {"prompt": [[5] * 4000] * 2, "max_tokens": 1, "echo": True, "stream": False},
    )
    assert (status, content["error"]["param"]) == (400, "logprobs")
    body = json.dumps(long).encode()
    with connected(server, f"Content-Length: {len(body)}", body=body) as connection:
        assert connection.recv(9) == b"HTTP/1.1 "
        status, content, headers = server.send("/v1/completions", long)
        assert (status, content["error"]["code"]) == (429, "queue_full")
        assert int(headers["retry-after"]) >= 1
        plain = {"model": "generate", "prompt": "The", "max_tokens": 4000, "n": 2}
        assert len(server.get("/v1/completions", plain)["choices"]) == 2
    until(lambda: server.models["generate"]._reported.bytes == 0)
    assert server.get("/v1/completions", long | {"stream": False, "max_tokens": 3})["choices"]


# ---- more texts than the queue has places for ----


def test_a_request_with_more_texts_than_the_queue_holds_is_answered(server: Running) -> None:
    texts = ["The dog sleeps.", "A cat sings.", "The old dog does not sleep."] * 60
    engine = server.models["translate"].engine
    assert len(texts) > engine.limits.queue + engine.limits.rows
    got = server.get("/translate", {"q": texts})["translatedText"]
    assert got == shipped("translate").translate(texts[:3]) * 60


def test_a_request_with_many_texts_does_not_hold_up_others(server: Running) -> None:
    engine = server.models["generate"].engine
    many = {"model": "generate", "prompt": ["The"] * 60, "max_tokens": 60, "ignore_eos": True}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.get, "/v1/completions", many)
        until(lambda: engine.stats()["waiting"] > 30)
        server.get("/v1/completions", many | {"prompt": "The", "max_tokens": 2})
        assert engine.stats()["waiting"] > 0
        assert len(answer.result(120)["choices"]) == 60


# ---- clients that leave ----


@pytest.mark.parametrize("path", ["/v1/completions", "/classify"])
def test_a_client_that_leaves_while_its_text_is_tokenized_is_forgotten(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, method = ("classify", "run") if path == "/classify" else ("generate", "submit")
    with running([served(name, shipped(name))]) as server:
        engine = server.models[name].engine
        real, entered, release = getattr(engine, method), threading.Event(), threading.Event()
        tickets = []

        def slow(*given: Any, **options: Any) -> Any:
            entered.set()
            assert release.wait(120)
            tickets.append(real(*given, **options))
            return tickets[0]

        monkeypatch.setattr(engine, method, slow)
        fields = {"prompt": "The " * 400, "max_tokens": 4000, "ignore_eos": True}  # long
        body = json.dumps({"text": "The"} if path == "/classify" else fields).encode()
        with connected(server, f"Content-Length: {len(body)}", path=path) as connection:
            connection.sendall(body)
            assert entered.wait(120)
        until(lambda: any(path in line and '"status": 499' in line for line in server.log))
        assert f'translucid_requests_total{{route="{path}",status="499"}} 1' in server.get(
            "/metrics"
        )
        release.set()
        until(lambda: tickets and tickets[0].cancelled)
        until(lambda: engine.stats()["running"] == 0)
