"""The OpenAPI document of the server, and a page that shows it.

The document is built from the routes and from the classes of their bodies, so it cannot differ from
what the server accepts.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from translucid import _version
from translucid.serving.bodies import LIBRE_PATHS, MODEL, Body


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
    media: str = "application/json"  # type of the answer
    gives: tuple[str, ...] = ()  # fields of every answer
    takes_model: bool = False  # has the parameter `model`
    tasks: tuple[str, ...] = ()  # of the models that can answer; empty: any


def document(
    endpoints: Sequence[Endpoint], *, keys: bool, models: Mapping[str, str]
) -> dict[str, Any]:
    """The OpenAPI document. keys: whether requests need an API key. models: their tasks, by
    name."""
    text = {"type": "string"}
    maybe = {"type": ["string", "null"]}
    known = {"message": text, "type": text, "param": maybe, "code": maybe}
    schemas: dict[str, Any] = {
        "Error": _object({"error": _object(known)}), "LibreTranslateError": _object({"error": text})
    }  # fmt: skip
    paths: dict[str, Any] = {}
    for one in endpoints:
        operation: dict[str, Any] = {
            "summary": one.summary,
            "tags": [one.api],
            "operationId": re.sub(r"\W+", "_", f"{one.method.lower()}{one.path}").strip("_"),
            "responses": _responses(one),
        }
        if one.takes_model:
            in_path = "{model}" in one.path
            operation["parameters"] = [{
                "name": "model", "in": "path" if in_path else "query", "required": in_path,
                "schema": text, "description": "Name of a model" if in_path else MODEL,
            }]  # fmt: skip
        if one.bodies:
            names = [_add(body, schemas) for body in one.bodies]
            for name in names:
                _name_models(schemas[name], one, models)
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


def _name_models(schema: dict[str, Any], one: Endpoint, models: Mapping[str, str]) -> None:
    """Add the names of the models to a body with the field `model`, which several models need."""
    field = schema["properties"].get("model")
    names = [name for name, task in models.items() if not one.tasks or task in one.tasks]
    if field is None or not names:
        return
    field["anyOf"] = [{"type": "string", "enum": names}]
    if len(names) > 1 and len(one.bodies) == 1:  # /translate has a task by default
        schema.setdefault("required", []).append("model")
    else:
        field["anyOf"].append({"type": "null"})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


def _responses(one: Endpoint) -> dict[str, Any]:
    good: dict[str, Any] = {one.media: {}}
    if one.gives:
        good[one.media] = {"schema": _object({field: {} for field in one.gives})}
    if one.streams:
        good["text/event-stream"] = {}
    name = "LibreTranslateError" if one.path in LIBRE_PATHS else "Error"
    error = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
    retry = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
    return {
        "200": {"description": "The answer", "content": good},
        "429": {"description": "Too many requests wait", "headers": retry} | error,
        "503": {"description": "The server is shutting down", "headers": retry} | error,
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
