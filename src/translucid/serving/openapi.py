"""The OpenAPI document of the server, and a page that shows it.

The document is built from the routes and from the classes of their bodies, so it cannot differ from
what the server accepts.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from translucid import _version
from translucid.serving.bodies import Body


@dataclass(frozen=True)
class Endpoint:
    """What the document says about a route."""

    method: str
    path: str
    summary: str
    api: str
    bodies: tuple[type[Body], ...] = ()
    form: bool = False  # also accepts a form
    streams: bool = False  # may answer with server-sent events
    plain: bool = False  # answers with text, not with JSON


def document(endpoints: Sequence[Endpoint], *, keys: bool) -> dict[str, Any]:
    """The OpenAPI document. keys: whether requests need an API key."""
    schemas: dict[str, Any] = {
        "Error": {
            "type": "object",
            "properties": {"error": {"oneOf": [{"type": "string"}, {"type": "object"}]}},
            "required": ["error"],
        }
    }
    paths: dict[str, Any] = {}
    for one in endpoints:
        operation: dict[str, Any] = {
            "summary": one.summary,
            "tags": [one.api],
            "operationId": f"{one.method.lower()}_{one.path.strip('/').replace('/', '_')}",
            "responses": _responses(one),
        }
        if one.bodies:
            names = [_add(body, schemas) for body in one.bodies]
            references = [{"$ref": f"#/components/schemas/{name}"} for name in names]
            schema = references[0] if len(references) == 1 else {"anyOf": references}
            content = {"application/json": {"schema": schema}}
            if one.form:
                content["application/x-www-form-urlencoded"] = {"schema": references[0]}
            operation["requestBody"] = {"required": True, "content": content}
        paths.setdefault(one.path, {})[one.method.lower()] = operation
    components: dict[str, Any] = {"schemas": schemas}
    security: dict[str, Any] = {}
    if keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        security = {"security": [{"key": []}]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Translucid", "version": _version.__version__,
            "description": "Sequence models behind the APIs of OpenAI and LibreTranslate",
        },
        "paths": paths,
        "components": components,
        **security,
    }  # fmt: skip


def page(content: dict[str, Any]) -> str:
    """The document as a page without scripts."""
    rows = []
    for path, operations in content["paths"].items():
        for method, operation in operations.items():
            fields = "".join(
                f"<tr><td><code>{escape(name)}</code><td><code>{escape(_type(field))}</code>"
                f"<td>{escape(field.get('description', ''))}"
                for schema in _schemas(operation, content)
                for name, field in schema["properties"].items()
            )
            table = f"<table><tr><th>Field<th>Type<th>Meaning{fields}</table>" if fields else ""
            rows.append(
                f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
                f"<p>{escape(operation['summary'])} "
                f"<small>{escape(operation['tags'][0])}</small></p>" + table
            )
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
        "color-scheme:light dark}table{border-collapse:collapse;display:block;overflow:auto}"
        "td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}h2{font-size:1.05rem}"
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Translucid API</title><style>{style}</style><main><h1>Translucid API</h1>"
        '<p>The same as an OpenAPI document: <a href="/openapi.json">openapi.json</a></p>'
        + "".join(rows)
        + "</main></html>"
    )


def _add(body: type[Body], schemas: dict[str, Any]) -> str:
    """Add the schema of a body and of the classes in it."""
    schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
    for name, inner in schema.pop("$defs", {}).items():
        schemas[name] = inner
    schemas[body.__name__] = schema
    return body.__name__


def _responses(one: Endpoint) -> dict[str, Any]:
    good: dict[str, Any] = {"text/plain": {}} if one.plain else {"application/json": {}}
    if one.streams:
        good["text/event-stream"] = {}
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    return {
        "200": {"description": "The answer", "content": good},
        "4XX": {"description": "The request cannot be answered as it is"} | error,
        "5XX": {"description": "The server cannot answer now"} | error,
    }


def _schemas(operation: dict[str, Any], content: dict[str, Any]) -> list[dict[str, Any]]:
    text = json.dumps(operation.get("requestBody", {}))
    return [schema for name, schema in content["components"]["schemas"].items()
            if f'schemas/{name}"' in text and "properties" in schema]  # fmt: skip


def _type(field: dict[str, Any]) -> str:
    kinds = [field, *field.get("anyOf", [])]
    names = [kind.get("type") or kind.get("$ref", "").rpartition("/")[2] for kind in kinds]
    return " or ".join(dict.fromkeys(name for name in names if name and name != "null"))
