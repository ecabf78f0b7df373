"""Who may talk to the studio: pages that it served itself, on this machine, with its token.

A page elsewhere can make a browser send requests here, and a name elsewhere can be made to point
here. So the name that was asked for is checked first, then the page that asks, then the token;
nothing is taken from what a request claims.
"""

import asyncio
import hmac
import json
from collections.abc import Iterable
from typing import Any

LARGEST = 1_000_000  # bytes of a request
PATIENCE = 10.0  # seconds in which a request must have come
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}
DEFAULT_HEADERS = {b"cache-control": b"no-store"}
TOO_LARGE = f"a request may have {LARGEST:,} bytes"
TOO_SLOW = f"the request did not come within {PATIENCE:.0f} seconds"


class Refused(Exception):
    """A request that is not read to its end."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Guard:
    """Around an ASGI application."""

    def __init__(self, app: Any, *, token: str, hosts: frozenset[str], once: str = "") -> None:
        """`once`: a further token that opens the page a single time, for a command line that others
        on this machine may see."""
        self.app, self.token, self.hosts, self.once = app, token, hosts, once

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        begun = False

        async def sealed(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": _sealed(message.get("headers", ()))}
            await send(message)

        try:
            self._check(scope, headers)
            await self.app(scope, _counted(receive), sealed)
        except Refused as error:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": error.why})
            elif not begun:
                await _refuse(sealed, error)

    def _check(self, scope: Any, headers: dict[str, list[str]]) -> None:
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        asks = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            raise Refused(403, "this studio answers only under its own address")
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            raise Refused(403, "another page may not ask the studio")
        if len(origins) > 1 or (not origins and (asks or scope["type"] == "websocket")):
            raise Refused(403, "the request does not say which page it comes from")
        if self._opens(scope):
            return
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", [])):
            raise Refused(403, "another page may not ask the studio")
        if not self._known(headers, cookie_name(hosts[0])):
            raise Refused(
                403, "open the address that `translucid explore` has printed: it holds the token"
            )
        if asks:
            kinds = headers.get("content-type", [])
            if [kind.partition(";")[0].strip().lower() for kind in kinds] != ["application/json"]:
                raise Refused(415, "only application/json is read")
        for length in headers.get("content-length", []):
            if not (length.isascii() and length.isdigit() and len(length) < 10):
                raise Refused(413, TOO_LARGE)
            if int(length) > LARGEST:
                raise Refused(413, TOO_LARGE)

    def _opens(self, scope: Any) -> bool:
        """The address that was printed holds the token. Whoever knows it may come from anywhere."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return False
        place, _, shown = scope["path"].rpartition("/")
        if place != "/open":
            return False
        if self.once and _same(shown, self.once):
            self.once = "" if scope["method"] == "GET" else self.once
            return True
        return _same(shown, self.token)

    def _known(self, headers: dict[str, list[str]], name: str) -> bool:
        """The token stands in a cookie, which the address that was printed sets. Other programs on
        this machine may have set cookies of any shape for the same name of a host."""
        pairs = (
            pair.partition("=") for line in headers.get("cookie", []) for pair in line.split(";")
        )
        return any(key.strip() == name and _same(value.strip(), self.token)
                   for key, _, value in pairs)  # fmt: skip


def cookie_name(host: str) -> str:
    """Of its own for each port, since cookies know hosts only: two studios at once do not meet."""
    return f"translucid-{host.rpartition(':')[2] if ':' in host else '80'}"


def _same(value: str, token: str) -> bool:
    return hmac.compare_digest(value.encode("utf-8", "replace"), token.encode())


def _counted(receive: Any) -> Any:
    """The body, as long as it is neither too long nor too slow."""
    began, size, whole = asyncio.get_running_loop().time(), 0, False

    async def counted() -> Any:
        nonlocal size, whole
        if whole:
            return await receive()
        left = began + PATIENCE - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(receive(), max(left, 0.001))
        except TimeoutError:
            raise Refused(408, TOO_SLOW) from None
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if size > LARGEST:
            raise Refused(413, TOO_LARGE)
        return message

    return counted


def _sealed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """With the guard's headers, each once."""
    kept = [(name, value) for name, value in headers if name.lower() not in HEADERS]
    names = {name.lower() for name, _ in kept}
    missing = [(name, value) for name, value in DEFAULT_HEADERS.items() if name not in names]
    return [*kept, *missing, *HEADERS.items()]


async def _refuse(send: Any, error: Refused) -> None:
    body = json.dumps({"error": error.why}).encode()
    headers = [
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
        # what is left of the request is not waited for
        *([(b"connection", b"close")] if error.status in (408, 413) else []),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
