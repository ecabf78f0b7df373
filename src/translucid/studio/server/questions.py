"""The requests of the page, and classes for requests and replies. This module must not import
torch: the server shows its page before torch is loaded."""

import json
import math
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

# Method and path of each request, and the method of `handlers.Handlers` that answers it.
QUESTIONS: dict[tuple[str, str], str] = {
    ("GET", "/api/models"): "models", ("GET", "/api/model/{m}"): "model",
    ("GET", "/api/catalogue"): "catalogue", ("POST", "/api/runs"): "new_run",
    ("GET", "/api/runs/{run}"): "run", ("GET", "/api/runs/{run}/tensors"): "tensors",
    ("GET", "/api/runs/{run}/heads"): "heads", ("GET", "/api/runs/{run}/terms"): "terms",
    ("GET", "/api/runs/{run}/contributions"): "contributions",
    ("GET", "/api/runs/{run}/lens"): "lens", ("GET", "/api/runs/{run}/saliency"): "saliency",
    ("GET", "/api/runs/{run}/steps"): "steps", ("GET", "/api/runs/{run}/decode"): "decode",
    ("GET", "/api/runs/{run}/draws"): "draws",
    ("GET", "/api/runs/{run}/effect"): "effect", ("GET", "/api/diff"): "diff",
    ("GET", "/api/model/{m}/hardest"): "hardest", ("GET", "/api/model/{m}/unit"): "unit",
    ("GET", "/api/model/{m}/labels"): "labels", ("GET", "/api/model/{m}/words"): "words",
    ("POST", "/api/model/{m}/unknown"): "unknown", ("GET", "/api/model/{m}/text"): "another_text",
    ("GET", "/api/patching"): "patching", ("GET", "/api/patching/cell"): "patch",
    ("GET", "/api/patching/row"): "causal",
    ("GET", "/api/lessons"): "lessons", ("GET", "/api/lessons/{id}"): "lesson",
    ("GET", "/api/runs/{run}/lesson/{id}"): "lesson_on", ("POST", "/api/session"): "save",
    ("GET", "/api/train/{m}/about"): "training", ("GET", "/api/train/{m}/history"): "history",
    ("GET", "/api/train/{m}/probes"): "probes", ("GET", "/api/plane/{kind}"): "plane",
    ("GET", "/api/planes"): "planes",
    ("GET", "/api/runs/{run}/check/{id}/{stop}"): "check",
    ("GET", "/api/practice"): "practice_topics", ("GET", "/api/practice/{topic}"): "exercise",
    ("GET", "/api/practice/{topic}/check"): "check_exercise",
    ("GET", "/api/practice/{topic}/solution"): "solution",
}  # fmt: skip

JSON, BINARY, HTML = "application/json", "application/octet-stream", "text/html"


@dataclass(frozen=True)
class Reply:
    body: bytes
    kind: str = JSON
    status: int = 200
    forever: bool = False  # a run never changes


class Query(dict[str, list[str]]):
    """Query parameters; if a name is repeated, its last value is used unless all are requested."""

    def one(self, name: str) -> str | None:
        return self[name][-1] if name in self else None

    def text(self, name: str, otherwise: str) -> str:
        return self[name][-1] if name in self else otherwise

    def all(self, name: str) -> list[str]:
        return self.get(name, [])


def read_query(text: str) -> Query:
    return Query(parse_qs(text, keep_blank_values=True))


@dataclass(frozen=True)
class Question:
    place: dict[str, str]  # path parameters: a model, a run
    query: Query
    body: bytes = b""


def as_json(content: Any) -> bytes:
    """JSON for browsers: numbers that are not finite become null, lone surrogates `?`."""
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
            return {key: _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case _:
            return value


def json_reply(content: Any, status: int = 200, *, forever: bool = False) -> Reply:
    return Reply(as_json(content), JSON, status, forever)
