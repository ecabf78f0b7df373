"""The application: routes, and errors in the shape that each API's clients expect."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Match, Route

from translucid.core.errors import TranslucidError
from translucid.core.http_requests import Refused
from translucid.serving import answers, chat, completions, libretranslate, openapi
from translucid.serving.access import GONE, Access, Load, Refusal, Rules
from translucid.serving.bodies import LIBRE_PATHS, ApiError, Body
from translucid.serving.inspecting import Inspected, as_response
from translucid.serving.job import EngineClosed, QueueFull, TooLate
from translucid.serving.metrics import Metrics
from translucid.serving.openapi import Endpoint
from translucid.serving.served import Models, Served, field_of
from translucid.serving.tracing import TraceTooLarge

MOST_TOKENS = 4096  # default limit of max_tokens
LARGE = 50_000  # bytes
FORM = "application/x-www-form-urlencoded"
LANGUAGE = ("language",)
WRITING = ("language", "translate")
OPENAI, LIBRE, OWN, SERVER = "OpenAI", "LibreTranslate", "Translucid", "Server"

Handle = Callable[["Server", Request, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """A route with the function that answers it."""

    endpoint: Endpoint
    handle: Handle
    # Chooses the class of the body by its fields; None: the first of the endpoint's classes.
    body_of: Callable[[dict[str, Any]], type[Body]] | None = None


class Server:
    """The models and settings that all requests share."""

    def __init__(
        self,
        models: Models,
        *,
        most_tokens: int = MOST_TOKENS,
        keys: bool = False,
        allow_trace: bool = False,
    ) -> None:
        self.models, self.most_tokens, self.allow_trace = models, most_tokens, allow_trace
        self.metrics = Metrics(models.statistics)
        self.load = Load(models.most_requests)
        self.document = openapi.document(
            [one.endpoint for one in OPERATIONS],
            keys=keys,
            models={name: one.task for name, one in models.items()},
        )

    def routes(self) -> list[Route]:
        return [
            Route(one.endpoint.path, self._route(one), methods=[one.endpoint.method])
            for one in OPERATIONS
        ]

    def _route(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        endpoint = operation.endpoint

        async def answer(request: Request) -> Response:
            request.state.route = endpoint.path
            try:
                body = await _read(request, operation)
                self._check_allowed(body)
                work = operation.handle(self, request, body)
                result = await (_unless_gone(request, work) if endpoint.bodies else work)
                if isinstance(result, Response):
                    return result
                return await as_response(result, body)
            except Exception as error:
                return _failed(error, endpoint)

        return answer

    def _check_allowed(self, body: Body | None) -> None:
        if isinstance(body, Inspected) and body.inspects and not self.allow_trace:
            raise ApiError(
                f"{body.inspects}: this server does not allow it; start it with --allow-trace",
                403, body.inspects, "trace_not_allowed",
            )  # fmt: skip


async def _read(request: Request, operation: Operation) -> Body | None:
    endpoint = operation.endpoint
    if not endpoint.bodies:
        return None
    raw = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if endpoint.form and kind == FORM:
        try:
            fields = parse_qs(raw.decode("utf-8"), keep_blank_values=True, max_num_fields=2000)
        except ValueError:
            raise ApiError("the form is not valid UTF-8, or has too many fields") from None
        values: dict[str, Any] = libretranslate.from_form(fields)
    elif kind not in ("application/json", "") and not (kind == FORM and not raw):
        raise ApiError(f"content type {kind[:100]!r}: must be application/json", 415)
    else:
        return await _aside(raw, lambda: _checked(operation, Body.values(raw)))
    return await _aside(raw, lambda: _checked(operation, values))


def _checked(operation: Operation, values: dict[str, Any]) -> Body:
    body_of = operation.body_of
    body = operation.endpoint.bodies[0] if body_of is None else body_of(values)
    return body.of(values)


async def _aside(raw: bytes, act: Callable[[], Body]) -> Body:
    """Read a large body in another thread, so that other requests are answered meanwhile."""
    return await run_in_threadpool(act) if len(raw) > LARGE else act()


async def _unless_gone(request: Request, work: Awaitable[Any]) -> Any:
    """Wait for the answer, and cancel it if the client disconnects."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())  # after the body, only the end is left
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait([task])
        raise ClientDisconnect
    finally:
        gone.cancel()


def _failed(error: Exception, endpoint: Endpoint) -> Response:
    """The answer to a request that failed."""
    match error:
        case ApiError():
            known = error
        case Refused():
            seconds = 1.0 if error.status == 429 else None
            known = ApiError(str(error), error.status, retry_after=seconds)
            return Refusal(known, endpoint.path)
        case QueueFull():
            known = ApiError(str(error), 429, code="queue_full", retry_after=error.seconds)
        case EngineClosed():
            known = ApiError("the server is shutting down", 503, retry_after=5)
        case TooLate():
            known = ApiError(str(error), 504)
        case TraceTooLarge():
            known = ApiError(str(error), 413, "trace", "trace_too_large")
        case TranslucidError():
            fields = {name for body in endpoint.bodies for name in body.model_fields}
            known = ApiError(str(error), 400, field_of(error, fields))
        case ClientDisconnect():
            return Response(status_code=GONE)  # for the log
        case _:
            raise error
    headers = {"retry-after": str(known.seconds)} if known.seconds else {}
    return JSONResponse(known.content(endpoint.path in LIBRE_PATHS), known.status, headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    """The answer to a request without a route, or to one that met a fault of the server."""
    if isinstance(error, HTTPException):
        messages = {
            404: f"{request.url.path[:200]}: no such endpoint; /docs lists all",
            405: f"{request.method} is not allowed for {request.url.path[:200]}; see /docs",
        }
        known = ApiError(messages.get(error.status_code, str(error.detail)), error.status_code)
        headers = error.headers
    else:
        known, headers = ApiError("internal error; see the server's log", 500), None
    return JSONResponse(known.content(request.url.path in LIBRE_PATHS), known.status, headers)


# ---- what answers each route ----


async def _models(server: Server, request: Request, body: None) -> Any:
    return {"object": "list", "data": [_described(one) for one in server.models.values()]}


async def _model(server: Server, request: Request, body: None) -> Any:
    tasks = {one.task for one in server.models.values()}
    return _described(server.models.find(request.path_params["model"], tasks))


def _described(one: Served) -> dict[str, Any]:
    return {
        "id": one.name, "object": "model", "created": one.created, "owned_by": "translucid",
        "task": one.task, "max_model_len": one.model.context_length,
        "chat": one.template is not None,
    }  # fmt: skip


async def _complete(server: Server, request: Request, body: completions.CompletionBody) -> Any:
    served = server.models.find(body.model, LANGUAGE if body.model is None else WRITING)
    if body.stream:
        return await _streamed(completions.stream(served, body, server.most_tokens))
    return await completions.complete(served, body, server.most_tokens)


async def _chat(server: Server, request: Request, body: chat.ChatBody) -> Any:
    served = server.models.find(body.model, LANGUAGE)
    if body.stream:
        return await _streamed(chat.stream(served, body, server.most_tokens))
    return await chat.complete(served, body, server.most_tokens)


async def _streamed(chunks: AsyncIterator[bytes]) -> Response:
    """A response that sends chunks as they come. Waits for the first one, so that a request that
    fails at once is answered with a status; later errors are sent as an event."""
    first = await anext(chunks)

    async def all_chunks() -> AsyncIterator[bytes]:
        try:
            yield first
            async for chunk in chunks:
                yield chunk
        except (ApiError, TranslucidError) as error:
            known = error if isinstance(error, ApiError) else ApiError(str(error), 500)
            yield completions.sse(known.content())
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]

    return StreamingResponse(all_chunks(), media_type="text/event-stream")


async def _embeddings(server: Server, request: Request, body: answers.EmbeddingsBody) -> Any:
    return await answers.embeddings(server.models, body)


async def _tokenize(server: Server, request: Request, body: answers.TokenizeBody) -> Any:
    served = answers.with_tokenizer(server.models, body.model)
    return await served.in_thread(lambda: answers.tokenize(served, body))


async def _detokenize(server: Server, request: Request, body: answers.DetokenizeBody) -> Any:
    served = answers.with_tokenizer(server.models, body.model)
    return await served.in_thread(lambda: answers.detokenize(served, body))


async def _tokenizer_info(server: Server, request: Request, body: None) -> Any:
    name = request.query_params.get("model")
    return answers.tokenizer_info(answers.with_tokenizer(server.models, name))


async def _translate(server: Server, request: Request, body: Any) -> Any:
    if isinstance(body, libretranslate.TranslateBody):
        return await libretranslate.translate(server.models, body)
    tasks = ("translate",) if body.model is None else WRITING
    return await answers.translate(server.models.find(body.model, tasks), body)


async def _languages(server: Server, request: Request, body: None) -> Any:
    return libretranslate.languages(server.models)


async def _detect(server: Server, request: Request, body: libretranslate.DetectBody) -> Any:
    codes = ", ".join(one["code"] for one in libretranslate.languages(server.models))
    raise ApiError(
        "this server does not detect languages; set source to one of: " + (codes or "none"), 501
    )


async def _classify(server: Server, request: Request, body: answers.ClassifyBody) -> Any:
    served = server.models.find(body.model, ("classify",))
    options = {} if body.threshold is None else {"threshold": body.threshold}
    return await answers.answer(served, "classify", body, body.texts, **options)


async def _tag(server: Server, request: Request, body: answers.TagBody) -> Any:
    served = server.models.find(body.model, ("tag",))
    return await answers.answer(served, "tag", body, body.texts)


async def _embed(server: Server, request: Request, body: answers.EmbedBody) -> Any:
    served = server.models.find(body.model, ("embed",))
    return await answers.answer(served, "embed", body, body.texts)


async def _fill(server: Server, request: Request, body: answers.FillBody) -> Any:
    served = server.models.find(body.model, ("fill",))
    return await answers.answer(served, "fill", body, body.texts, k=body.k)


async def _score(server: Server, request: Request, body: answers.ScoreBody) -> Any:
    return await answers.score(server.models.find(body.model, WRITING), body)


async def _predict(server: Server, request: Request, body: answers.PredictBody) -> Any:
    tasks = {one.task for one in server.models.values()}
    served = server.models.find(body.model, tasks)
    other = next((i for i, one in enumerate(body.inputs, 1) if not isinstance(one, str)), None)
    if other is not None and served.model.tokenizers:
        raise ApiError(
            f"inputs: row {other} is not a text, but model {served.name!r} for task {served.task} "
            "reads texts", param="inputs",
        )  # fmt: skip
    return await answers.answer(served, "predict", body, body.inputs)


async def _health(server: Server, request: Request, body: None) -> Any:
    return {"status": "ok"}


async def _ready(server: Server, request: Request, body: None) -> Any:
    if server.load.closing:
        raise server.load.refusal()
    return {"status": "ok", "models": list(server.models)}


async def _metrics(server: Server, request: Request, body: None) -> Any:
    return Response(server.metrics.text(), headers={"content-type": Metrics.content_type})


async def _document(server: Server, request: Request, body: None) -> Any:
    return server.document


async def _docs(server: Server, request: Request, body: None) -> Any:
    return HTMLResponse(openapi.page(server.document))


def _translate_body(values: dict[str, Any]) -> type[Body]:
    return libretranslate.TranslateBody if "q" in values else answers.DecodeBody


RESULTS, LIST = ("model", "results"), ("object", "data")
TEXT = ("id", "object", "created", "model", "choices", "usage")
OPERATIONS = [
    Operation(Endpoint("POST", "/v1/completions", "Continue a text", OPENAI,
                       (completions.CompletionBody,), streams=True, gives=TEXT, tasks=LANGUAGE),
              _complete),
    Operation(Endpoint("POST", "/v1/chat/completions", "Answer in a conversation", OPENAI,
                       (chat.ChatBody,), streams=True, gives=TEXT, tasks=LANGUAGE), _chat),
    Operation(Endpoint("POST", "/v1/embeddings", "Embed texts", OPENAI,
                       (answers.EmbeddingsBody,), gives=(*LIST, "model", "usage"),
                       tasks=("embed",)),
              _embeddings),
    Operation(Endpoint("GET", "/v1/models", "List the models", OPENAI, gives=LIST), _models),
    Operation(Endpoint("GET", "/v1/models/{model}", "Describe a model", OPENAI,
                       gives=("id", "object", "created", "owned_by"), takes_model=True), _model),
    Operation(Endpoint("POST", "/tokenize", "Convert text to token ids", OPENAI,
                       (answers.TokenizeBody,), gives=("count", "max_model_len", "tokens")),
              _tokenize),
    Operation(Endpoint("POST", "/detokenize", "Convert token ids to text", OPENAI,
                       (answers.DetokenizeBody,), gives=("prompt",)), _detokenize),
    Operation(Endpoint("GET", "/tokenizer_info", "Describe the tokenizer", OPENAI,
                       gives=("tokenizer_class", "vocab_size", "eos_token"), takes_model=True),
              _tokenizer_info),
    Operation(Endpoint("POST", "/translate", "Translate texts", LIBRE,
                       (libretranslate.TranslateBody, answers.DecodeBody), form=True,
                       tasks=WRITING),
              _translate, _translate_body),
    Operation(Endpoint("GET", "/languages", "List the languages", LIBRE), _languages),
    Operation(Endpoint("POST", "/detect", "Not supported: answers with status 501", LIBRE,
                       (libretranslate.DetectBody,), form=True), _detect),
    Operation(Endpoint("POST", "/classify", "Classify texts", OWN,
                       (answers.ClassifyBody,), gives=RESULTS, tasks=("classify",)), _classify),
    Operation(Endpoint("POST", "/tag", "Tag texts", OWN, (answers.TagBody,), gives=RESULTS,
                       tasks=("tag",)), _tag),
    Operation(Endpoint("POST", "/predict", "Predict, for any task", OWN,
                       (answers.PredictBody,), gives=RESULTS), _predict),
    Operation(Endpoint("POST", "/score", "Log-probabilities of texts or translations", OWN,
                       (answers.ScoreBody,), gives=RESULTS, tasks=WRITING), _score),
    Operation(Endpoint("POST", "/fill", "Fill masked tokens", OWN, (answers.FillBody,),
                       gives=RESULTS, tasks=("fill",)), _fill),
    Operation(Endpoint("POST", "/embed", "Embed texts", OWN, (answers.EmbedBody,), gives=RESULTS,
                       tasks=("embed",)), _embed),
    Operation(Endpoint("GET", "/health", "Whether the server is running", SERVER,
                       gives=("status",)), _health),
    Operation(Endpoint("GET", "/ready", "Whether the server accepts requests", SERVER,
                       gives=("status", "models")), _ready),
    Operation(Endpoint("GET", "/metrics", "Metrics for Prometheus", SERVER, media="text/plain"),
              _metrics),
    Operation(Endpoint("GET", "/openapi.json", "This document", SERVER,
                       gives=("openapi", "info", "paths", "components")), _document),
    Operation(Endpoint("GET", "/docs", "This document as a page", SERVER, media="text/html"),
              _docs),
]  # fmt: skip


def make_app(
    server: Server, rules: Rules, log: Callable[[str], None] | None = None, other: Any = None
) -> Any:
    """The ASGI application. log: receives one line of JSON per request. other: an application for
    all paths that are not the server's, such as the studio."""
    app = Starlette(
        routes=server.routes(),
        exception_handlers={HTTPException: _unexpected, Exception: _unexpected},
    )
    guarded = Access(app, rules, server.load, server.metrics, log)
    if other is None:
        return guarded
    own = server.routes()

    async def both(scope: Any, receive: Any, send: Any) -> None:
        mine = scope["type"] == "lifespan" or any(
            route.matches(scope)[0] is not Match.NONE for route in own
        )
        await (guarded if mine else other)(scope, receive, send)

    return both
