"""The studio's server: pages and numbers, for this machine only."""

import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from translucid.catalogue import describe
from translucid.errors import InputError, TranslucidError
from translucid.studio import answers
from translucid.studio.describe import catalogue, describe_model
from translucid.studio.frames import Cut, frame
from translucid.studio.guard import COOKIE, LARGEST, Guard
from translucid.studio.runs import Library

STATIC = Path(__file__).parent / "static"
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}  # a run never changes
EXACT = 64 * 64  # numbers that are sent in full precision at once


class Studio:
    """What the routes answer with."""

    def __init__(self, library: Library, token: str) -> None:
        self.library, self.token = library, token
        self.busy = threading.Lock()  # one thing at a time runs through the models

    def routes(self) -> list[Route | Mount]:
        get = [
            ("/api/models", self.models), ("/api/model/{m}", self.model),
            ("/api/catalogue", self.catalogue), ("/api/runs/{run}", self.run),
            ("/api/runs/{run}/tensors", self.tensors), ("/api/runs/{run}/heads", self.heads),
            ("/api/runs/{run}/cell", self.cell), ("/api/runs/{run}/step", self.step),
            ("/api/runs/{run}/decode", self.decode), ("/api/runs/{run}/effect", self.effect),
            ("/api/diff", self.diff),
        ]  # fmt: skip
        return [
            Route("/", self.page),
            Route("/open/{token}", self.open),
            *(Route(path, self._told(act)) for path, act in get),
            Route("/api/runs", self.new_run, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC, follow_symlink=False)),
        ]

    def _told(self, act: Callable[[Request], Response]) -> Callable[[Request], Response]:
        """Mistakes are told in JSON, with what is allowed."""

        def answer(request: Request) -> Response:
            try:
                with self.busy:
                    return act(request)
            except (TranslucidError, KeyError, ValueError) as error:
                return JSONResponse({"error": str(error)}, 422)

        return answer

    # ---- the page ----

    def page(self, request: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html")

    def open(self, request: Request) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", path="/")
        return answer

    # ---- numbers ----

    def models(self, request: Request) -> Response:
        return JSONResponse(
            [{"m": key, "name": each.name} for key, each in self.library.opened.items()]
        )

    def model(self, request: Request) -> Response:
        return JSONResponse(describe_model(self.library.model(request.path_params["m"])))

    def catalogue(self, request: Request) -> Response:
        return JSONResponse(catalogue())

    async def new_run(self, request: Request) -> Response:
        body = await request.body()
        if len(body) > LARGEST:
            return JSONResponse({"error": f"a request may have {LARGEST:,} bytes"}, 413)
        try:
            asked = await request.json()
            m, text, target, off = _asked(asked)
        except (ValueError, InputError) as error:
            return JSONResponse({"error": str(error)}, 422)
        from starlette.concurrency import run_in_threadpool

        def act(request: Request) -> Response:
            return JSONResponse(self.library.run(m, text, target, off).as_dict())

        return await run_in_threadpool(self._told(act), request)

    def run(self, request: Request) -> Response:
        return JSONResponse(self._run(request).as_dict(), headers=FOREVER)

    def tensors(self, request: Request) -> Response:
        run, given = self._run(request), request.query_params
        names = given.getlist("at")
        if not 1 <= len(names) <= 64:
            raise InputError(f"at: name 1 to 64 points, not {len(names)}")
        form = given.get("as", "u8")
        if form not in ("u8", "f16", "f32"):
            raise InputError(f"as: u8, f16 or f32, not {form!r}")
        pool = _whole(given.get("pool"), "pool", 1, 1024) if "pool" in given else None
        cut = Cut(_index(given.get("index", "")), form, pool)  # type: ignore[arg-type]
        reading = run.reading(names)
        body = b"".join(frame(name, reading[name], describe(name).axes, cut) for name in names)
        if form == "f32" and len(body) > 4 * EXACT * len(names) + 4096 * len(names):
            raise InputError(f"as=f32 sends {EXACT:,} numbers at most; cut with index or pool")
        return Response(body, media_type="application/octet-stream", headers=FOREVER)

    def heads(self, request: Request) -> Response:
        given = request.query_params
        pool = _whole(given.get("pool", "48"), "pool", 4, 512)
        body = answers.heads(self._run(request), given.get("kind", "encoder"), pool)
        return Response(body, media_type="application/octet-stream", headers=FOREVER)

    def cell(self, request: Request) -> Response:
        given = request.query_params
        index = tuple(i for i in _index(given.get("index", "")) if i is not None)
        return JSONResponse(answers.cell(self._run(request), given["at"], index), headers=FOREVER)

    def step(self, request: Request) -> Response:
        given = request.query_params
        n, k = _whole(given.get("n", "0"), "n", 0, 10**6), _whole(given.get("k", "10"), "k", 1, 200)
        if "after" in given:  # any beginning, by its tokens
            found = answers.step_after(self._run(request), _tokens(given["after"], "after"), k)
            return JSONResponse(found, headers=FOREVER)
        return JSONResponse(answers.step(self._run(request), n, k), headers=FOREVER)

    def decode(self, request: Request) -> Response:
        given = request.query_params
        beams, best = _whole(given.get("beams", "4"), "beams", 1, 32), given.get("best")
        force: dict[int, str | int] = {
            _whole(place, "force", 0, 10**6): word
            for place, _, word in (each.partition(":") for each in given.getlist("force"))
        }
        force |= dict(enumerate(_tokens(given.get("begin", ""), "begin")))
        wanted = _whole(best, "best", 1, 32) if best else min(beams, 4)
        return JSONResponse(answers.decode(self._run(request), beams, wanted, force))

    def effect(self, request: Request) -> Response:
        off = request.query_params.getlist("off")
        return JSONResponse(answers.effect(self._run(request), off), headers=FOREVER)

    def diff(self, request: Request) -> Response:
        given = request.query_params
        a, b = (self.library.found(given[name]) for name in ("a", "b"))
        return JSONResponse(answers.compare(a, b), headers=FOREVER)

    def _run(self, request: Request) -> Any:
        return self.library.found(request.path_params["run"])


def _asked(asked: Any) -> tuple[str, str, str | None, list[str]]:
    """What POST /api/runs is told, checked key by key."""
    if not isinstance(asked, dict):
        raise InputError("the request must be an object with m and text")
    for key in asked:
        if key not in ("m", "text", "target", "off"):
            raise InputError(f"{key}: no such key; there are m, text, target and off")
    m, text, target, off = (asked.get(key) for key in ("m", "text", "target", "off"))
    if not isinstance(m, str) or not isinstance(text, str):
        raise InputError("m and text must be given, as texts")
    if target is not None and not isinstance(target, str):
        raise InputError("target: a text, or leave it out")
    off = [] if off is None else off
    if not isinstance(off, list) or not all(isinstance(key, str) for key in off):
        raise InputError("off: a list of the keys of switches")
    return m, text, target, off


def _whole(text: str | None, name: str, least: int, most: int) -> int:
    if text is None or not text.isdigit() or not least <= int(text) <= most:
        raise InputError(f"{name}: a whole number from {least} to {most}, not {text!r}")
    return int(text)


def _tokens(text: str, name: str) -> list[int]:
    """7.43.269: the ids of tokens."""
    return [_whole(part, name, 0, 10**7) for part in text.split(".")] if text else []


def _index(text: str) -> tuple[int | None, ...]:
    """2,5 or 2,*,3; * takes all."""
    if not text:
        return ()
    return tuple(None if part == "*" else _whole(part, "index", 0, 10**6)
                 for part in text.split(","))  # fmt: skip


def make_app(library: Library, *, token: str | None = None, hosts: frozenset[str]) -> Guard:
    """The guarded application; `guard.token` stands in the address to open."""
    token = token or secrets.token_urlsafe(24)
    studio = Studio(library, token)
    return Guard(Starlette(routes=studio.routes()), token=token, hosts=hosts)
