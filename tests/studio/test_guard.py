"""Nobody but the studio's own page gets an answer, whatever the route."""

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Mount, Route, WebSocketRoute
from tests.studio.serving import TEXT, TOKEN, Served, model, serving

from translucid.studio import handlers, library
from translucid.studio.server import app as studio_app
from translucid.studio.server import guard
from translucid.studio.server.app import make_app

SEALED = ("content-security-policy", "x-content-type-options", "referrer-policy",
          "cross-origin-resource-policy", "cross-origin-opener-policy")  # fmt: skip


def routes() -> list[tuple[str, str]]:
    """Every method and address that the application itself knows; new ones are met here, too."""
    found = []
    for route in make_app(Future(), hosts=frozenset()).app.routes:
        if isinstance(route, WebSocketRoute):
            continue  # test_training walks these
        if isinstance(route, Mount):
            found += [(method, f"{route.path}/js/main.js") for method in ("GET", "HEAD")]
        else:
            assert isinstance(route, Route), "a kind of route that the tests do not know"
            assert route.methods
            path = re.sub(r"\{.+?\}", "a", route.path)
            found += [(method, path) for method in sorted(route.methods)]
    return [*found, ("GET", "/nothing"), ("OPTIONS", "/api/runs"), ("PUT", "/"), ("DELETE", "/")]


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"small": model("translate-transformer")}) as served:
        yield served


FORGED: dict[str, dict[str, Any]] = {
    "another name": {"host": "evil.example"},
    "another name, this port": {"host": "evil.example:{port}"},
    "a name that begins alike": {"host": "localhost.evil:{port}"},
    "a name that begins alike, with numbers": {"host": "127.0.0.1.evil:{port}"},
    "capitals": {"host": "LOCALHOST:{port}"},
    "version 6": {"host": "[::1]:{port}"},
    "no port": {"host": "127.0.0.1"},
    "another port": {"host": "127.0.0.1:1"},
    "a dot": {"host": "localhost.:{port}"},
    "the name and a password": {"host": "127.0.0.1:{port}@evil"},
    "an empty name": {"host": ""},
    "origin elsewhere": {"origin": "http://evil.example"},
    "origin null": {"origin": "null"},
    "origin empty": {"origin": ""},
    "origin of another port": {"origin": "http://127.0.0.1:1"},
    "origin https": {"origin": "https://127.0.0.1:{port}"},
    "origin under the other name": {"origin": "http://localhost:{port}"},
    "origin that begins alike": {"origin": "http://127.0.0.1:{port}.evil"},
    "two origins": {"origin": ["http://127.0.0.1:{port}", "http://evil.example"]},
    "the same origin twice": {"origin": ["http://127.0.0.1:{port}"] * 2},
    "an image elsewhere": {"origin": None, "sec-fetch-site": "cross-site"},
    "a page of another port": {"sec-fetch-site": "same-site"},
    "no cookie": {"cookie": None},
    "an empty cookie": {"cookie": ""},
    "a wrong token": {"cookie": "translucid-{port}=wrong"},
    "no token": {"cookie": "translucid-{port}="},
    "the token of another port": {"cookie": f"translucid-1={TOKEN}"},
    "the token as a name": {"cookie": TOKEN},
    "half the token": {"cookie": f"translucid-{{port}}={TOKEN[:-1]}"},
    "malformed cookies": {"cookie": '=; ;;="; \x80\xff=\x01; translucid-{port}'},
}


def filled(headers: dict[str, Any], port: int) -> dict[str, Any]:
    def one(value: Any) -> Any:
        if isinstance(value, list):
            return [one(each) for each in value]
        return value.replace("{port}", str(port)) if isinstance(value, str) else value

    return {name: one(value) for name, value in headers.items()}


# One door stands before all routes: each route is tried with every 15th forgery, the first route
# with all of them, and every forgery on every 15th route; on demand all with all.
FORGERIES = [
    pytest.param(*route, forged, marks=() if not i or (i + j) % 15 == 0 else pytest.mark.thorough)
    for i, route in enumerate(routes())
    for j, forged in enumerate(FORGED)
]


@pytest.mark.parametrize(("method", "path", "forged"), FORGERIES)
def test_forged_requests_are_refused(studio: Served, method: str, path: str, forged: str) -> None:
    headers = filled(FORGED[forged], studio.port)
    if "host" in headers:  # all the rest fits: as from a name that was made to point here
        name = headers["host"]
        cookie = f"{guard.cookie_name(name)}={TOKEN}; {studio.honest['cookie']}"
        headers |= {"origin": f"http://{name}", "cookie": cookie}
    answer = studio.ask(method, path, headers)
    assert answer.status == 403
    assert answer.header("content-type") == ["application/json"]
    assert answer.header("set-cookie") == []
    if method != "HEAD":
        assert set(answer.json) == {"error"}
        assert TOKEN not in answer.json["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_requests_with_a_body_need_an_origin(studio: Served, method: str) -> None:
    assert studio.ask(method, "/api/runs", {"origin": None}).status == 403


def raw(studio: Served, sent: bytes, wait: float = 30) -> bytes:
    with socket.create_connection(("127.0.0.1", studio.port), timeout=wait) as link:
        link.sendall(sent)
        found = b""
        while more := link.recv(65536):
            found += more
        return found


@pytest.mark.parametrize(
    "head",
    [
        "GET /api/models HTTP/1.0\r\n",
        "GET /api/models HTTP/1.1\r\nConnection: close\r\n",
        "GET /api/models HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\nHost: evil\r\n",
        "GET /api/models HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\nHost: {host}\r\n",
    ],
)
def test_a_name_must_be_given_once(studio: Served, head: str) -> None:
    cookie = studio.honest["cookie"]
    sent = f"{head.format(host=studio.host)}Cookie: {cookie}\r\n\r\n".encode()
    assert re.match(rb"HTTP/1.1 40[03] ", raw(studio, sent))


def test_the_guard_itself_refuses_two_names() -> None:
    """Whatever server stands before it."""

    async def never(*given: Any) -> None:
        raise AssertionError("the application was reached")

    def ask(*hosts: bytes) -> int:
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        scope = {
            "type": "http", "method": "GET", "path": "/api/models",
            "headers": [*((b"Host", host) for host in hosts), (b"cookie", b"translucid-80=t")],
        }  # fmt: skip
        guarded = guard.Guard(never, token="t", hosts=frozenset({"localhost"}))
        with ThreadPoolExecutor(1) as pool:  # a browser's own loop may run in this thread
            pool.submit(asyncio.run, guarded(scope, never, send)).result()
        return said[0]["status"]

    assert ask() == ask(b"localhost", b"localhost") == ask(b"localhost", b"evil") == 403
    with pytest.raises(AssertionError, match="reached"):
        ask(b"localhost")


# ---- the token ----


def test_the_printed_address_sets_the_cookie(studio: Served) -> None:
    answer = studio.ask("GET", f"/open/{TOKEN}", {"cookie": None, "origin": None})
    (cookie,) = answer.header("set-cookie")
    assert answer.status == 200
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
        "httponly", "samesite=strict", "path=/"
    }  # fmt: skip
    given = {"cookie": cookie.partition(";")[0], "origin": None}
    assert studio.ask("GET", "/api/models", given).status == 200
    assert TOKEN.encode() not in answer.body


def test_the_printed_address_may_be_clicked_on_elsewhere(studio: Served) -> None:
    given = {"cookie": None, "origin": None, "sec-fetch-site": "cross-site"}
    assert studio.ask("GET", f"/open/{TOKEN}", given).status == 200
    assert studio.ask("GET", "/open/wrong", given).status == 403
    assert studio.ask("GET", f"/open/{TOKEN}", {**given, "host": "evil"}).status == 403
    assert studio.ask("GET", f"/open/x/{TOKEN}", given).status == 403


@pytest.mark.parametrize("before", ["", '_xsrf="2|{[,@"; ', "translucid-{port}=old; ", "a=b;;=; "])
def test_cookies_of_other_programs_do_no_harm(studio: Served, before: str) -> None:
    before = before.replace("{port}", str(studio.port))
    assert studio.ask("GET", "/", {"cookie": before + studio.honest["cookie"]}).status == 200


def test_a_token_for_a_command_line_works_once() -> None:
    with serving({}, once="only-once") as served:
        bare = {"cookie": None, "origin": None}
        assert served.ask("HEAD", "/open/only-once", bare).status == 200
        assert served.ask("GET", "/open/only-once", bare).status == 200
        assert served.ask("GET", "/open/only-once", bare).status == 403
        assert served.ask("GET", "/open/", bare).status == 403
        assert served.ask("GET", f"/open/{TOKEN}", bare).status == 200
        assert served.ask("GET", f"/open/{TOKEN}", bare).status == 200


# ---- what is answered ----


@pytest.mark.parametrize("path", ["/", f"/open/{TOKEN}", "/api/models", "/static/js/main.js",
                                  "/static/none", "/nothing", "/api/runs/none"])  # fmt: skip
def test_security_headers_are_sent_once(studio: Served, path: str) -> None:
    answer = studio.get(path)
    names = [name.lower() for name, _ in answer.headers]
    assert len(set(names)) == len(names)
    assert set(SEALED) <= set(names)
    policy = answer.header("content-security-policy")[0]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    inside = re.findall(r"<(script|style)>(.*?)</", answer.body.decode(), re.S)
    assert len(inside) == 6 * (answer.header("content-type")[0].startswith("text/html"))
    for kind, text in inside:  # only the page's own texts are allowed in it
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert re.search(f"{kind}-src 'self'[^;]* 'sha256-{re.escape(digest)}'", policy)


def test_only_runs_are_kept_by_the_browser(studio: Served) -> None:
    run = studio.run("a", TEXT)["run"]
    for path in ("/", f"/open/{TOKEN}", "/api/models", "/nothing", "/api/runs/none",
                 f"/api/runs/{run}/terms", f"/api/runs/{run}/tensors?at=none"):  # fmt: skip
        assert studio.get(path).header("cache-control") == ["no-store"], path
    assert studio.post("/api/runs", {"m": "a", "text": TEXT}).header("cache-control") == [
        "no-store"
    ]
    assert studio.get("/static/js/main.js").header("cache-control") == ["no-cache"]
    for path in (
        "",
        "/steps",
        "/heads",
        "/tensors?at=head.logits",
        "/terms?address=head.logits[0,0,0]",
    ):
        (said,) = studio.get(f"/api/runs/{run}{path}").header("cache-control")
        assert "immutable" in said


def test_static_files_that_have_not_changed_are_not_sent_again(studio: Served) -> None:
    (tag,) = studio.get("/static/js/main.js").header("etag")
    again = studio.ask("GET", "/static/js/main.js", {"if-none-match": tag})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["%2e%2e/app.py", "../app.py", "..%2fapp.py", "js/%2e%2e/%2e%2e/app.py", "%2e%2e%2fapp.py",
     "..%5capp.py", "/etc/passwd", "%2fetc%2fpasswd", "%00", "js/main.js%00.css", "", "js", "js/",
     "a" * 5000, "../static-evil/secret.js", "%2e%2e/static-evil/secret.js",
     "out.js", "outside/secret.js"],
)  # fmt: skip
def test_files_elsewhere_are_not_served(path: str, tmp_path: Path, monkeypatch: Any) -> None:
    inside, evil = tmp_path / "static", tmp_path / "static-evil"
    (inside / "js").mkdir(parents=True)
    evil.mkdir()
    (inside / "js" / "main.js").write_text("ok")
    (tmp_path / "app.py").write_text("SECRET")
    (evil / "secret.js").write_text("SECRET")
    (inside / "out.js").symlink_to(evil / "secret.js")
    (inside / "outside").symlink_to(evil)
    monkeypatch.setattr(studio_app, "STATIC", inside)
    with serving({}) as served:
        assert served.get("/static/js/main.js").body == b"ok"
        answer = served.get(f"/static/{path}")
    assert answer.status == 404
    assert answer.json == {"error": "Not Found"}


# ---- what is asked ----


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded",
                                  "multipart/form-data", "application/jsonp",
                                  ["application/json", "text/plain"]])  # fmt: skip
def test_only_json_is_read(studio: Served, kind: Any) -> None:
    body = json.dumps({"m": "a", "text": TEXT}).encode()
    answer = studio.ask("POST", "/api/runs", {"content-type": kind}, body)
    assert answer.status == 415
    assert "application/json" in answer.json["error"]


def test_large_requests_are_not_read(studio: Served) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in studio.honest.items())
    size = guard.LARGEST + 1  # only announced: whoever sends it may find the door shut
    said = raw(studio, f"POST /api/runs HTTP/1.1\r\n{head}content-length: {size}\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"1,000,000 bytes" in said
    answer = studio.ask("GET", "/api/models", {"content-length": "9" * 9})
    assert answer.status == 413


def test_large_requests_without_a_length_are_not_read(studio: Served) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in studio.honest.items())
    begin = f"POST /api/runs HTTP/1.1\r\n{head}transfer-encoding: chunked\r\n\r\n".encode()
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", studio.port), timeout=180) as link:
        link.sendall(begin)
        with contextlib.suppress(BrokenPipeError):  # the answer may come before the last chunk
            for _ in range(guard.LARGEST // 0x10000 + 1):
                link.sendall(chunk)
        assert link.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_slow_requests_are_given_up(studio: Served, monkeypatch: Any) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.5)
    head = "".join(f"{name}: {value}\r\n" for name, value in studio.honest.items())
    said = raw(studio, f"POST /api/runs HTTP/1.1\r\n{head}content-length: 9\r\n\r\n[".encode())
    assert said.startswith(b"HTTP/1.1 408 ")


LONE = "\ud800"
WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "JSON"),
    "cut off": (b'{"m": ', "JSON"),
    "no UTF-8": (b'{"m": "\xff"}', "JSON"),
    "deep lists": (b"[" * 900_000, "deep"),
    "deep objects": (b'{"m":' * 150_000, "deep"),
    "a list": (b"[]", "an object with m and text"),
    "a number": (b"1", "an object with m and text"),
    "NaN": (b'{"m": NaN, "text": "a"}', "m and text"),
    "numbers": (b'{"m": 1, "text": 2}', "m and text"),
    "no text": (b'{"m": "a"}', "m and text"),
    "another key": (b'{"m": "a", "text": "a", "device": "x"}', "'device'"),
    "half a character as a key": (b'{"\\ud800": 1}', "unknown key"),
    "half a character": (b'{"m": "a", "text": "a \\ud800"}', "surrogate"),
    "half a target": (b'{"m": "a", "text": "a", "target": "\\udfff"}', "target contains an"),
    "half a model": (b'{"m": "\\ud800", "text": "a"}', "unknown model"),
    "half a switch": (b'{"m": "a", "text": "a", "off": ["\\ud800"]}', "has no switch"),
    "another model": (b'{"m": "z", "text": "a"}', "unknown model 'z'"),
    "an empty text": (b'{"m": "a", "text": " \\n"}', "text is empty"),
    "a target of numbers": (b'{"m": "a", "text": "a", "target": 1}', "target"),
    "off as a text": (b'{"m": "a", "text": "a", "off": "all"}', "a list"),
    "off with numbers": (b'{"m": "a", "text": "a", "off": [1]}', "a list"),
    "a long text": (b'{"m": "a", "text": "' + b"a" * 20_001 + b'"}', "20,001 characters"),
    "a long target": (b'{"m": "a", "text": "a", "target": "' + b"a" * 20_001 + b'"}', "20,001 ch"),
    "many tokens": (b'{"m": "a", "text": "' + b"a " * 3000 + b'"}', "2,048"),
    "many tokens to write": (
        b'{"m": "a", "text": "a", "target": "' + b"a " * 3000 + b'"}', "2,048",
    ),
    "a switch that nearly is": (
        b'{"m": "a", "text": "a", "off": ["encoder.layers.0.self_attention.heads.1"]}',
        "the nearest are encoder.layers.0.self_attention.head.1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_requests_get_a_message(studio: Served, wrong: str) -> None:
    body, said = WRONG[wrong]
    answer = studio.ask("POST", "/api/runs", body=body)
    assert answer.status == 422
    assert said in answer.json["error"]
    assert len(answer.body) < 1000


WRONG_NUMBERS = {
    "tensors": "1 to 64",
    "tensors?" + "at=head.logits&" * 65: "1 to 64",
    "tensors?at=head.logit": "the nearest are head.logits",
    "tensors?at=" + "x" * 5000: "unknown point",
    "tensors?at=head.logits&as=f64": "u8, f16 or f32",
    "tensors?at=head.logits&pool=0": "pool: must be a whole number from 1",
    "tensors?at=head.logits&pool=-1": "pool: must be a whole number from 1",
    "tensors?at=head.logits&pool=4,0": "pool: must be a whole number from 1",
    "tensors?at=head.logits&pool=4,4,4": "pool: must be a whole number from 1",
    "tensors?at=head.logits&index=3:3": "index: must be a whole number from 4",
    "tensors?at=head.logits&index=0:8": "0:8 is out of range",
    "tensors?at=head.logits&index=:3": "index: must be a whole number",
    "tensors?at=head.logits&index=0:1:2": "index: must be a whole number",
    "tensors?at=head.logits&index=99": "head.logits of shape (7,",
    "tensors?at=head.logits&index=0,0,0": "head.logits of shape (7,",
    "tensors?at=head.logits&index=%C2%B2": "index: must be a whole number",
    "tensors?at=head.logits&index=" + "9" * 5000: "index: must be a whole number",
    "tensors?at=head.logits&index=1,,2": "index: must be a whole number",
    "heads?kind=none": "encoder, decoder, cross",
    "heads?pool=1": "pool: must be a whole number from 4",
    "terms": "address is required",
    "terms?address=head.logits": "head.logits has shape (1, 7,",
    "terms?address=head.logits[0,0]": "[0, 0]",
    "terms?address=head.logits[0,0,*]": "is not an address",
    "terms?address=head.logits[0,0,100000]": "[0, 6, 13]",
    "terms?address=head.logits[0,0," + "9" * 5000 + "]": "one whole number for each axis",
    "terms?address=head.logit[0]": "did you mean head.logits",
    "terms?address=head.__class__.__name__": "is not a point, weight or input",
    "terms?address=forward.__globals__": "is not a point, weight or input",
    "terms?address=head.logits[0,0,0]&top=65": "top: must be a whole number from 1 to 64",
    "steps?positions=99:100": "0 to 6, not 99:100",
    "steps?positions=6:8": "0 to 6, not 6:8",
    "steps?positions=3": "positions: must be a whole number from 4",
    "steps?positions=NaN:4": "positions: must be a whole number",
    "steps?k=0": "k: must be a whole number from 1",
    "steps?tokens=5.x": "tokens: must be a whole number",
    "steps?tokens=5&positions=1:3": "0 to 1, not 1:3",
    "steps?tokens=5" + ".5" * 2048: "the limit is 2,048",
    "steps?k=200&tokens=5" + ".5" * 99: "200 tokens at 101 positions; the limit is 16,384",
    "decode?beam_size=33": "beam_size: must be a whole number from 1 to 32",
    "decode?force=word": "force: must be a whole number",
    "decode?beam_size=2&n_best=3": "n_best",
}


@pytest.mark.parametrize("path", WRONG_NUMBERS)
def test_invalid_queries_get_a_message(studio: Served, path: str) -> None:
    run = studio.run("a", TEXT, target="der hund sieht eine katze .")["run"]
    answer = studio.get(f"/api/runs/{run}/{path}")
    assert answer.status == 422
    assert WRONG_NUMBERS[path] in answer.json["error"]


@pytest.mark.parametrize("path", ["", "/tensors?at=head.logits", "/heads", "/terms?address=x",
                                  "/steps", "/decode"])  # fmt: skip
@pytest.mark.parametrize("run", ["0123456789abcdef", "%00", "..", "%ff", "x" * 5000])
def test_unknown_runs_are_refused(studio: Served, run: str, path: str) -> None:
    answer = studio.get(f"/api/runs/{run}{path}")
    assert answer.status == 422
    assert "has expired; request it again" in answer.json["error"]


def test_internal_errors_reveal_nothing(studio: Served, monkeypatch: Any) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("/home/somebody/secret")

    monkeypatch.setattr(handlers, "describe_model", broken)
    answer = studio.get("/api/model/a")
    assert answer.status == 500
    assert "secret" not in answer.body.decode()
    assert set(answer.json) == {"error"}
    assert set(SEALED) <= {name.lower() for name, _ in answer.headers}


@pytest.mark.parametrize("path", sorted({path for _, path in routes()} - {"/nothing"}))
def test_other_methods(studio: Served, path: str) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = studio.ask(method, path)
        refused = (405, {"error": "Method Not Allowed"})
        assert (answer.status, answer.json) == refused, method


# ---- several at once ----


def test_an_evicted_run_is_computed_again(studio: Served, monkeypatch: Any) -> None:
    monkeypatch.setattr(library, "KEPT", 2)
    first = studio.run("a", "the dog")["run"]
    before = studio.get(f"/api/runs/{first}/tensors?at=head.logits").body
    for text in ("a cat", "the bird", "the old bird"):
        studio.run("a", text)
    assert len(studio.library.runs) == 2
    assert first not in studio.library.runs
    assert studio.get(f"/api/runs/{first}/tensors?at=head.logits").body == before


def test_runs_have_a_size_together(studio: Served, monkeypatch: Any) -> None:
    monkeypatch.setattr(library, "KEPT_BYTES", 1)
    studio.run("a", "the dog sleeps")
    assert len(studio.library.runs) == 1


@pytest.mark.slow
def test_many_ask_at_once_and_each_gets_its_own(studio: Served) -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = [f"{'the dog ' * (1 + n % 5)}sees a cat {'and ' * (n % 7)}." for n in range(10)]
    alone = [studio.run("a", text)["tokens"]["source"] for text in texts]
    studio.library.runs.clear()
    with ThreadPoolExecutor(5) as several:
        found = list(several.map(lambda text: studio.run("a", text), texts))
    assert [each["tokens"]["source"] for each in found] == alone
    assert [each["text"] for each in found] == texts


def test_the_models_do_one_thing_at_a_time(studio: Served, monkeypatch: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    at_work, most = [], []

    def slow(*given: Any) -> Any:
        at_work.append(1)
        most.append(len(at_work))
        time.sleep(0.05)
        at_work.pop()
        return {}

    monkeypatch.setattr(handlers, "describe_model", slow)
    with ThreadPoolExecutor(8) as several:
        found = list(several.map(studio.get, ["/api/model/a"] * 8))
    assert [each.status for each in found] == [200] * 8
    assert max(most) == 1


def test_the_page_comes_while_a_model_is_busy(studio: Served, monkeypatch: Any) -> None:
    import threading

    go_on, began = threading.Event(), threading.Event()

    def slow(*given: Any) -> Any:
        began.set()
        go_on.wait(300)
        return {}

    monkeypatch.setattr(handlers, "describe_model", slow)
    monkeypatch.setattr(studio_app, "WAITING", 1)
    asking = threading.Thread(target=studio.get, args=("/api/model/a",))
    asking.start()
    try:
        assert began.wait(300)
        assert studio.get("/").status == 200
        assert studio.get("/static/js/main.js").status == 200
        answer = studio.get("/api/model/a")
        assert (answer.status, answer.json["error"][:18]) == (503, "the studio is busy")
    finally:
        go_on.set()
        asking.join(300)
