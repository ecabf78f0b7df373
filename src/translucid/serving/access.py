"""What every request passes first: host, origin, API key, limits on size, time and number, request
id, log.

Written as plain ASGI, without Starlette's middleware classes: with those, the application does not
see that a client has disconnected.
"""

import asyncio
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse

from translucid.core.errors import InputError
from translucid.core.http_requests import Refused, check_length, limited, same_secret
from translucid.core.untrusted_files import read_text
from translucid.serving.bodies import LIBRE_PATHS, ApiError
from translucid.serving.metrics import Metrics
from translucid.studio.server.serve import LEAVE, LONGEST_LEAVE, MOST_UNREAD

LARGEST = 8_000_000  # bytes of a body
LARGEST_TOGETHER = 64_000_000  # bytes of all bodies
PATIENCE = 20.0  # seconds in which a request must be complete
OPEN_PATHS = frozenset({"/health", "/ready"})  # need no key, so that probes can ask
GONE = 499  # status in log and metrics, if the client left before the answer began
KEY_VARIABLE = "TRANSLUCID_API_KEY"
SHORTEST_KEY = 16  # characters
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy",
     b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
]  # fmt: skip
_REQUEST_ID = re.compile(r"[\w.:/+=-]{1,128}")


@dataclass(frozen=True)
class Rules:
    """Who may send requests."""

    keys: tuple[str, ...] = ()  # API keys; empty: no key is needed
    hosts: frozenset[str] | None = None  # allowed Host headers without port; None: any
    origins: frozenset[str] = frozenset()  # sites whose pages may send requests; "*": all


def read_keys(
    file: Path | None, environment: str | None = os.environ.get(KEY_VARIABLE)
) -> tuple[str, ...]:
    """The API keys: the lines of a file, and the value of the environment variable."""
    keys = [] if environment is None else [environment.strip()]
    if file is not None:
        if not file.is_file():
            raise InputError(f"--api-key-file {file}: no such file; write one key per line into it")
        text = read_text(file, 1 << 20, "write one key per line")
        lines = [line.strip() for line in text.split("\n")]
        lines_with_keys = [line for line in lines if line and not line.startswith("#")]
        if not lines_with_keys:
            raise InputError(f"--api-key-file {file} contains no key; write one per line")
        keys += lines_with_keys
    odd = [number for number, key in enumerate(keys, start=1) if not re.fullmatch("[!-~]+", key)]
    if odd:
        raise InputError(
            f"API key {odd[0]} contains a space or a character outside of ASCII, which clients "
            "cannot send; use letters, digits and punctuation"
        )
    short = [number for number, key in enumerate(keys, start=1) if len(key) < SHORTEST_KEY]
    if short:
        raise InputError(
            f"API key {short[0]} has fewer than {SHORTEST_KEY} characters; make one with: "
            'python -c "import secrets; print(secrets.token_urlsafe(24))"'
        )
    return tuple(dict.fromkeys(keys))


class Load:
    """The requests that are being answered. More are refused here, before they are parsed, so that
    refusing many requests does not slow down the others."""

    def __init__(self, most: int) -> None:
        """most: requests at the same time, those without a body not counted."""
        self.most, self.requests, self.bytes = most, 0, 0
        self.entering = 0  # requests that are arriving
        self.closing = False  # finish these requests, and refuse others

    @property
    def full(self) -> bool:
        """Whether requests are refused."""
        return self.closing or self.requests + self.entering >= self.most

    def refusal(self) -> ApiError:
        if self.closing:
            return ApiError("the server is shutting down", 503, retry_after=5)
        return ApiError(
            f"{self.requests:,} requests are waiting already; try again in a second", 429,
            code="queue_full", retry_after=1,
        )  # fmt: skip

    @contextmanager
    def counting(self, receive: Any, counted: Callable[[], None] | None) -> Iterator[Any]:
        """Yield a function that receives a request, and counts it until the end of the block.

        counted: is called when the request has arrived completely."""
        size = count = 0

        async def receive_counted() -> Any:
            nonlocal size, count
            message = await receive()
            if count or message["type"] != "http.request":
                return message
            length = len(message.get("body", b""))
            size, self.bytes = size + length, self.bytes + length
            if self.bytes > LARGEST_TOGETHER:
                raise Refused(
                    429, f"the server holds {LARGEST_TOGETHER:,} bytes of requests; try again later"
                )
            if not message.get("more_body", False):
                if counted is not None:
                    counted()
                if self.closing or self.requests >= self.most:
                    raise self.refusal()
                count, self.requests = 1, self.requests + 1
            return message

        try:
            yield receive_counted
        finally:
            self.requests, self.bytes = self.requests - count, self.bytes - size


class Access:
    """Checks around an ASGI application."""

    def __init__(
        self,
        app: Any,
        rules: Rules,
        load: Load,
        metrics: Metrics,
        log: Callable[[str], None] | None,
    ) -> None:
        """log: receives one line of JSON per request."""
        self.app, self.rules, self.load = app, rules, load
        self.metrics, self.log = metrics, log

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        record, receive = _record(scope, headers), Rest(receive)
        scope.setdefault("state", {}).update(record=record, rest=receive)
        began, status = time.perf_counter(), GONE
        origin = self._allowed_origin(headers)

        async def sending(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [*HEADERS, (b"x-request-id", record["request_id"].encode("latin-1"))]
                present = {name.lower() for name, _ in message.get("headers", ())}
                own = [pair for pair in own if pair[0] not in present]
                own += _cross_origin(origin)
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        try:
            try:
                self._check_sender(headers)
                if origin is not None and scope["method"] == "OPTIONS":  # sent without a key
                    await sending({"type": "http.response.start", "status": 204, "headers": []})
                    await sending({"type": "http.response.body", "body": b""})
                    return
                self._check_key(scope, headers)
                check_length(headers.get("content-length", []), LARGEST)
                whole = limited(receive, LARGEST, PATIENCE)
                with self.load.counting(whole, scope["state"].get("counted")) as counted:
                    await self.app(scope, counted, sending)
            except Refused as error:
                if status == GONE:
                    refusal = Refusal(ApiError(str(error), error.status), scope["path"])
                    await refusal(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - began
            route = scope.get("state", {}).get("route", "other")
            self.metrics.answered(route, status, seconds)
            if self.log is not None:
                line = record | {"status": status, "ms": round(1000 * seconds, 1)}
                self.log(json.dumps(line))

    def _check_sender(self, headers: dict[str, list[str]]) -> None:
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        allowed = self.rules.hosts
        if allowed is not None and (len(hosts) != 1 or _without_port(hosts[0]) not in allowed):
            raise Refused(
                403, "the server does not answer to this Host; allow it with --allow-host NAME"
            )
        if origins and self._allowed_origin(headers) is None:
            raise Refused(
                403, "pages of other sites may not send requests; allow one with --cors ORIGIN"
            )

    def _check_key(self, scope: Any, headers: dict[str, list[str]]) -> None:
        if self.rules.keys and scope["path"] not in OPEN_PATHS:
            sent = _keys(headers)
            known = [same_secret(one, key) for one in sent for key in self.rules.keys]
            if not any(known):
                why = "unknown API key" if sent else "no API key"
                raise Refused(401, f"{why}; send the header Authorization: Bearer KEY")

    def _allowed_origin(self, headers: dict[str, list[str]]) -> str | None:
        origins = headers.get("origin", [])
        if len(origins) != 1:
            return None
        everyone = "*" in self.rules.origins
        return origins[0] if everyone or origins[0] in self.rules.origins else None


def standard_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Rest:
    """Receives a request. If it is refused while the client sends it, the rest is discarded: if the
    connection were closed, it would be reset, and the client might not see the answer."""

    def __init__(self, receive: Any) -> None:
        self._receive, self._more = receive, True

    async def __call__(self) -> Any:
        message = await self._receive()
        self._more = message.get("more_body", False)
        return message

    async def discard(self) -> None:
        """Until the end of the request, the limit on bytes, or a pause."""
        loop = asyncio.get_running_loop()
        left, until = MOST_UNREAD, loop.time() + LONGEST_LEAVE
        with suppress(TimeoutError):
            while self._more and left > 0 and loop.time() < until:
                left -= len((await asyncio.wait_for(self(), LEAVE)).get("body", b""))


class Refusal(JSONResponse):
    """The answer to a request that was not read completely, after which the connection is closed.
    The rest of the request is discarded before the last part of the answer is sent."""

    def __init__(self, error: ApiError, path: str) -> None:
        headers = {"connection": "close"}
        if error.seconds:
            headers["retry-after"] = str(error.seconds)
        if error.status == 401:
            headers["www-authenticate"] = "Bearer"
        super().__init__(error.content(path in LIBRE_PATHS), error.status, headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code,
                    "headers": self.raw_headers})  # fmt: skip
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        if "rest" in scope.get("state", {}):
            await scope["state"]["rest"].discard()
        await send({"type": "http.response.body", "body": b""})


def _record(scope: Any, headers: dict[str, list[str]]) -> dict[str, Any]:
    """The entry of the access log. It contains no text of the request."""
    asked = headers.get("x-request-id", [""])[0]
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "request_id": asked if _REQUEST_ID.fullmatch(asked) else secrets.token_hex(8),
        "method": scope["method"],
        "path": scope["path"][:200],
    }


def _keys(headers: dict[str, list[str]]) -> list[str]:
    """The API keys of a request, in the places where clients put them."""
    bearers = [value.partition(" ") for value in headers.get("authorization", [])]
    tokens = [token.strip() for scheme, _, token in bearers if scheme.lower() == "bearer"]
    return [*tokens, *headers.get("x-api-key", [])]


def _cross_origin(origin: str | None) -> Sequence[tuple[bytes, bytes]]:
    if origin is None:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-headers", b"authorization, content-type, x-api-key, x-request-id"),
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"vary", b"origin"),
    ]


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
