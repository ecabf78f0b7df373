"""Access control for the studio: only pages it has served, on this machine, with its token.

Other sites can make a browser send requests here (CSRF), and other host names can resolve to this
machine (DNS rebinding). So the host is checked first, then the origin, then the token.
"""

import json
from collections.abc import Iterable
from typing import Any

from translucid.core.http_requests import Refused, check_length, limited, same_secret

LARGEST = 1_000_000  # bytes per request
PATIENCE = 10.0  # seconds within which a request must be complete
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}
DEFAULT_HEADERS = {b"cache-control": b"no-store", b"content-security-policy": POLICY.encode()}
NO_TOKEN = "open the address that `translucid explore` printed: it contains the token"
# For a browser that opens or reloads the page: the page's styles need the token too.
NO_TOKEN_PAGE = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Translucid studio: new address needed</title>
<h1>This page needs a new address</h1>
<p>The studio was probably restarted: every start has a new address, with a new token.</p>
<p>Open the address that <code>translucid explore</code> printed in its terminal. If it is no longer
there, stop the command with Ctrl-C and start it again.</p>
<p>If you copied a link, its part after # still works: append it to the new address.</p>
</html>
"""


class Guard:
    """Access control around an ASGI application."""

    def __init__(self, app: Any, *, token: str, hosts: frozenset[str], once: str = "") -> None:
        """`once`: a second token that opens the page a single time, for the browser's command line,
        which other users of this machine can see."""
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
            await self.app(scope, limited(receive, LARGEST, PATIENCE), sealed)
        except Refused as error:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": error.why})
            elif not begun:
                page = error.why == NO_TOKEN and any(
                    "text/html" in a for a in headers.get("accept", [])
                )
                await _refuse(sealed, error, NO_TOKEN_PAGE if page else None)

    def _check(self, scope: Any, headers: dict[str, list[str]]) -> None:
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        asks = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            raise Refused(403, "the studio only accepts requests to its own address")
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            raise Refused(403, "other sites may not use the studio")
        if len(origins) > 1 or (not origins and (asks or scope["type"] == "websocket")):
            raise Refused(403, "the request must have one Origin header")
        if self._opens(scope):
            return
        if any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", [])):
            raise Refused(403, "other sites may not use the studio")
        if not self._known(headers, cookie_name(hosts[0])):
            raise Refused(403, NO_TOKEN)
        if asks:
            kinds = headers.get("content-type", [])
            if [kind.partition(";")[0].strip().lower() for kind in kinds] != ["application/json"]:
                raise Refused(415, "the content type must be application/json")
        check_length(headers.get("content-length", []), LARGEST)

    def _opens(self, scope: Any) -> bool:
        """Whether this is the printed address with the token; any site may link to it."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return False
        place, _, shown = scope["path"].rpartition("/")
        if place != "/open":
            return False
        if self.once and same_secret(shown, self.once):
            self.once = "" if scope["method"] == "GET" else self.once
            return True
        return same_secret(shown, self.token)

    def _known(self, headers: dict[str, list[str]], name: str) -> bool:
        """Whether a cookie contains the token. Other programs on this machine may have set any
        other cookies for the same host."""
        pairs = (
            pair.partition("=") for line in headers.get("cookie", []) for pair in line.split(";")
        )
        return any(key.strip() == name and same_secret(value.strip(), self.token)
                   for key, _, value in pairs)  # fmt: skip


def cookie_name(host: str) -> str:
    """The cookie's name with the port, since all ports of a host share cookies."""
    return f"translucid-{host.rpartition(':')[2] if ':' in host else '80'}"


def _sealed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add the security headers, each once."""
    kept = [(name, value) for name, value in headers if name.lower() not in HEADERS]
    names = {name.lower() for name, _ in kept}
    missing = [(name, value) for name, value in DEFAULT_HEADERS.items() if name not in names]
    return [*kept, *missing, *HEADERS.items()]


async def _refuse(send: Any, error: Refused, page: bytes | None) -> None:
    """Send the refusal: `page` if there is one, otherwise the reason as JSON."""
    body = json.dumps({"error": error.why}).encode() if page is None else page
    kind = b"application/json" if page is None else b"text/html"
    headers = [
        (b"content-type", kind), (b"content-length", str(len(body)).encode()),
        # the rest of the request is not read
        *([(b"connection", b"close")] if error.status in (408, 413) else []),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
