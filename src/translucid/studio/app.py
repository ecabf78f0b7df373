"""The studio's server: pages and numbers, for this machine only."""

import asyncio
import json
import math
import mimetypes
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from translucid.catalogue import describe
from translucid.errors import InputError, TranslucidError
from translucid.studio import answers
from translucid.studio.describe import catalogue, describe_model, describe_run
from translucid.studio.following import Followed
from translucid.studio.frames import Cut, cut_shape, frame
from translucid.studio.guard import Guard, Refused, cookie_name
from translucid.studio.live import follow
from translucid.studio.runs import Library, clipped

STATIC = Path(__file__).parent / "static"
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}  # a run never changes
EXACT = 64 * 64  # numbers of a point that are sent in full precision at once
MOST = 2**25  # numbers that are sent at once
WAITING = 64  # requests that may wait for the models
LIVE = 16  # pages that may follow a training at once

Act = Callable[[Request], Response]

# What the page's policy insists on, whatever this machine's own table says.
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("text/css", ".css")
mimetypes.add_type("image/svg+xml", ".svg")


class Told(JSONResponse):
    """JSON, as browsers read it: what is no number is null, and half a character is a question
    mark."""

    def render(self, content: Any) -> bytes:
        try:
            text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            text = json.dumps(
                _finite(content), ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        return text.encode("utf-8", "replace")


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value


class Pages(StaticFiles):
    """The page's files; a browser asks each time whether they have changed."""

    def file_response(self, *given: Any, **more: Any) -> Response:
        answer = super().file_response(*given, **more)
        answer.headers["cache-control"] = "no-cache"
        return answer


class Studio:
    """What the routes answer with."""

    def __init__(self, library: Library, token: str, followed: Mapping[str, Followed]) -> None:
        self.library, self.token, self.followed = library, token, followed
        self.live = 0
        self.turn, self.waiting = asyncio.Lock(), 0  # one thing at a time runs through the models

    def routes(self) -> list[Route | Mount | WebSocketRoute]:
        get = [
            ("/api/models", self.models), ("/api/model/{m}", self.model),
            ("/api/catalogue", self.catalogue), ("/api/runs/{run}", self.run),
            ("/api/runs/{run}/tensors", self.tensors), ("/api/runs/{run}/heads", self.heads),
            ("/api/runs/{run}/cell", self.cell), ("/api/runs/{run}/step", self.step),
            ("/api/runs/{run}/decode", self.decode), ("/api/runs/{run}/effect", self.effect),
            ("/api/diff", self.diff), ("/api/train/{m}/probes", self.probes),
        ]  # fmt: skip
        return [
            Route("/", self.page),
            Route("/open/{token}", self.open),
            *(Route(path, self._told(act)) for path, act in get),
            Route("/api/runs", self.new_run, methods=["POST"]),
            WebSocketRoute("/api/train/{m}", self.train),
            Mount("/static", Pages(directory=STATIC, follow_symlink=False)),
        ]

    def _told(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        """One at a time, on a thread; mistakes are told in JSON, with what is allowed."""

        def answer(request: Request) -> Response:
            try:
                return act(request)
            except (TranslucidError, ValueError) as error:
                return Told({"error": str(error)}, 422)
            except LookupError:
                return Told({"error": "there is no number in this place"}, 422)
            except (MemoryError, torch.OutOfMemoryError):
                return Told({"error": "the memory of this machine is too small for this"}, 422)

        async def in_turn(request: Request) -> Response:
            await request.body()  # to its end, so that it is seen when the page no longer waits
            if self.waiting >= WAITING:
                return Told({"error": "the studio is busy; ask again in a moment"}, 503)
            self.waiting += 1
            try:
                async with self.turn:
                    if await request.is_disconnected():
                        raise ClientDisconnect
                    return await run_in_threadpool(answer, request)
            finally:
                self.waiting -= 1

        return in_turn

    # ---- the page ----

    async def page(self, request: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html")

    async def open(self, request: Request) -> Response:
        """Sets the cookie. A page goes on from here, and not a redirection: a browser would hold
        the page that had the link for the one that asks, and keep the cookie to itself."""
        answer = Response((STATIC / "open.html").read_bytes(), media_type="text/html")
        answer.set_cookie(
            cookie_name(request.headers["host"]), self.token,
            httponly=True, samesite="strict", path="/",
        )  # fmt: skip
        return answer

    # ---- numbers ----

    def models(self, request: Request) -> Response:
        names = {key: each.name for key, each in self.followed.items()}
        names |= {key: each.name for key, each in self.library.opened.items()}
        return Told([{"m": key, "name": names[key]} for key in sorted(names)])

    def model(self, request: Request) -> Response:
        m = request.path_params["m"]
        if m in self.followed and m not in self.library.opened:  # it has not been saved yet
            return Told(describe_run(m, self.followed[m]))
        return Told(describe_model(self.library.model(m)) | {"trains": m in self.followed})

    def catalogue(self, request: Request) -> Response:
        return Told(catalogue())

    async def new_run(self, request: Request) -> Response:
        try:
            m, text, target, off = _asked(_parsed(await request.body()))
        except InputError as error:
            return Told({"error": str(error)}, 422)

        def act(request: Request) -> Response:
            return Told(self.library.run(m, text, target, off).as_dict())

        return await self._told(act)(request)

    def run(self, request: Request) -> Response:
        return Told(self._run(request).as_dict(), headers=FOREVER)

    def tensors(self, request: Request) -> Response:
        given = request.query_params
        names = given.getlist("at")
        if not 1 <= len(names) <= 64:
            raise InputError(f"at: name 1 to 64 points, not {len(names)}")
        form = given.get("as", "u8")
        if form not in ("u8", "f16", "f32"):
            raise InputError(f"as: u8, f16 or f32, not {clipped(form)}")
        pool = _whole(given.get("pool"), "pool", 1, 1024) if "pool" in given else None
        cut = Cut(_index(given.get("index", "")), form, pool)  # type: ignore[arg-type]
        run = self._run(request)
        run.check(names)
        count = sum(math.prod(cut_shape(name, run.shapes[name], cut)) for name in names)
        if form == "f32" and count > EXACT * len(names):
            raise InputError(
                f"as=f32 sends {EXACT:,} numbers of a point at most; cut with index or pool"
            )
        if count > MOST:
            raise InputError(
                f"{count:,} numbers; {MOST:,} are sent at once: cut with index or pool"
            )
        reading = run.reading(names)
        body = b"".join(frame(name, reading[name], describe(name).axes, cut) for name in names)
        return Response(body, media_type="application/octet-stream", headers=FOREVER)

    def heads(self, request: Request) -> Response:
        given = request.query_params
        pool = _whole(given.get("pool", "48"), "pool", 4, 512)
        body = answers.heads(self._run(request), given.get("kind", "encoder"), pool)
        return Response(body, media_type="application/octet-stream", headers=FOREVER)

    def cell(self, request: Request) -> Response:
        given = request.query_params
        index = _index(given.get("index", ""))
        if None in index:
            raise InputError("index: one number has a place along every axis; leave * out")
        places = tuple(place for place in index if place is not None)
        return Told(answers.cell(self._run(request), _named(given, "at"), places), headers=FOREVER)

    def step(self, request: Request) -> Response:
        given = request.query_params
        n, k = _whole(given.get("n", "0"), "n", 0, 10**6), _whole(given.get("k", "10"), "k", 1, 200)
        if "after" in given:  # any beginning, by its tokens
            found = answers.step_after(self._run(request), _tokens(given["after"], "after"), k)
            return Told(found, headers=FOREVER)
        return Told(answers.step(self._run(request), n, k), headers=FOREVER)

    def decode(self, request: Request) -> Response:
        given = request.query_params
        beams, best = _whole(given.get("beams", "4"), "beams", 1, 32), given.get("best")
        force: dict[int, str | int] = {
            _whole(place, "force", 0, 10**6): word
            for place, _, word in (each.partition(":") for each in given.getlist("force"))
        }
        force |= dict(enumerate(_tokens(given.get("begin", ""), "begin")))
        wanted = _whole(best, "best", 1, 32) if best else min(beams, 4)
        found = answers.decode(self._run(request), beams, wanted, force)
        return Told(found, headers=FOREVER)

    def effect(self, request: Request) -> Response:
        off = request.query_params.getlist("off")
        return Told(answers.effect(self._run(request), off), headers=FOREVER)

    def diff(self, request: Request) -> Response:
        given = request.query_params
        a, b = (self.library.found(_named(given, name)) for name in ("a", "b"))
        return Told(answers.compare(a, b), headers=FOREVER)

    # ---- training ----

    async def train(self, socket: WebSocket) -> None:
        run = self.followed.get(socket.path_params["m"])
        if run is None or self.live >= LIVE:
            await socket.close(1008)
            return
        self.live += 1
        try:
            await follow(socket, run)
        finally:
            self.live -= 1

    def probes(self, request: Request) -> Response:
        m, given = request.path_params["m"], request.query_params
        if m not in self.followed:
            raise InputError(f"m: there is no training {clipped(m)}")
        steps = [_whole(each, "step", 0, 10**9 - 1) for each in given.getlist("step")]
        if not 1 <= len(steps) <= 64:
            raise InputError(f"step: name 1 to 64 steps, not {len(steps)}")
        form = given.get("as", "u8")
        if form not in ("u8", "f32"):
            raise InputError(f"as: u8 or f32, not {clipped(form)}")
        return Response(self.followed[m].tables(steps, form), media_type="application/octet-stream")

    def _run(self, request: Request) -> Any:
        return self.library.found(request.path_params["run"])


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not JSON, or too deep") from error


def _asked(asked: Any) -> tuple[str, str, str | None, list[str]]:
    """What POST /api/runs is told, checked key by key."""
    if not isinstance(asked, dict):
        raise InputError("the request must be an object with m and text")
    for key in asked:
        if key not in ("m", "text", "target", "off"):
            raise InputError(f"{clipped(key)}: no such key; there are m, text, target and off")
    m, text, target, off = (asked.get(key) for key in ("m", "text", "target", "off"))
    if not isinstance(m, str) or not isinstance(text, str):
        raise InputError("m and text must be given, as texts")
    if target is not None and not isinstance(target, str):
        raise InputError("target: a text, or leave it out")
    off = [] if off is None else off
    if not isinstance(off, list) or not all(isinstance(key, str) for key in off):
        raise InputError("off: a list of the keys of switches")
    return m, text, target, off


def _named(given: Any, name: str) -> str:
    if name not in given:
        raise InputError(f"{name}: it must be given")
    return given[name]


def _whole(text: str | None, name: str, least: int, most: int) -> int:
    if text is not None and text.isascii() and text.isdigit() and len(text) < 10:
        number = int(text)
        if least <= number <= most:
            return number
    raise InputError(f"{name}: a whole number from {least} to {most}, not {clipped(text)}")


def _tokens(text: str, name: str) -> list[int]:
    """7.43.269: the ids of tokens."""
    return [_whole(part, name, 0, 10**7) for part in text.split(".")] if text else []


def _index(text: str) -> tuple[int | None, ...]:
    """2,5 or 2,*,3; * takes all."""
    if not text:
        return ()
    return tuple(None if part == "*" else _whole(part, "index", 0, 10**6)
                 for part in text.split(","))  # fmt: skip


async def _wrong(request: Request, error: Exception) -> Response:
    """No such address, another method, a request that was cut short, a mistake of ours."""
    match error:
        case HTTPException():
            return Told({"error": error.detail}, error.status_code, headers=error.headers)
        case Refused():
            return Told({"error": error.why}, error.status, headers={"connection": "close"})
        case ClientDisconnect():
            return Response(status_code=400)  # nobody reads it
        case _:
            said = "the studio has made a mistake; what went wrong stands where it was started"
            return Told({"error": said}, 500)


def make_app(
    library: Library,
    *,
    token: str | None = None,
    hosts: frozenset[str],
    once: str = "",
    followed: Mapping[str, Followed] | None = None,
) -> Guard:
    """The guarded application; `guard.token` stands in the address to open, or, for one time,
    `once`."""
    token = token or secrets.token_urlsafe(24)
    kinds: tuple[type[Exception], ...] = (HTTPException, Refused, ClientDisconnect, Exception)
    app = Starlette(
        routes=Studio(library, token, followed or {}).routes(),
        exception_handlers=dict.fromkeys(kinds, _wrong),
    )
    return Guard(app, token=token, hosts=hosts, once=once)
