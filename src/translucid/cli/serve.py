"""`translucid serve`: answer requests over HTTP."""

import json
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.core.errors import ConfigError, InputError, install_command
from translucid.data import shipped_models

if TYPE_CHECKING:
    from translucid.serving.served import Models

PORT = 8000
in_access = partial(typer.Option, rich_help_panel="Access")
in_limits = partial(typer.Option, rich_help_panel="Limits")


def serve(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run or model folders, other tools' models, demo:NAME or hf:ORG/NAME [default: "
            "the shipped models].",
            callback=o.fetch,
        ),
    ] = None,
    host: Annotated[
        str, in_access(metavar="ADDRESS", help="Address to listen on; 0.0.0.0: all networks.")
    ] = "127.0.0.1",
    port: Annotated[
        int, in_access(min=0, max=65535, metavar="N", help="Port; 0: any free one.")
    ] = PORT,
    api_key_file: Annotated[
        Path | None,
        in_access(metavar="FILE", help="API keys, one per line. Also: TRANSLUCID_API_KEY."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        in_access(metavar="NAME", help="Answer to this Host name too; may be repeated."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        in_access(metavar="ORIGIN", help="Let pages of this site send requests; *: all sites."),
    ] = None,
    rows: Annotated[
        int, in_limits(min=1, metavar="N", help="Texts generated at the same time, per model.")
    ] = 64,
    cache_tokens: Annotated[
        int, in_limits(min=1, metavar="N", help="Tokens in the caches of these texts.")
    ] = 262_144,
    queue: Annotated[
        int, in_limits(min=1, metavar="N", help="Requests that wait; more get status 429.")
    ] = 256,
    max_tokens: Annotated[
        int, in_limits(min=1, metavar="N", help="Most tokens that a request may generate.")
    ] = 4096,
    allow_trace: Annotated[
        bool,
        in_access("--allow-trace", help="Let requests read and change values inside the models."),
    ] = False,
    trace_values: Annotated[
        int, in_limits(min=1, metavar="N", help="Most traced values that a request may return.")
    ] = 1_000_000,
    drain: Annotated[
        float,
        in_limits(min=0, metavar="SECONDS", help="Time to finish requests when the server stops."),
    ] = 30.0,
    languages: Annotated[
        list[str] | None,
        o.in_model(metavar="SOURCE-TARGET", help="Languages of the translation models, in order."),
    ] = None,
    studio: Annotated[bool, o.in_run("--studio", help="Show the studio on the same port.")] = False,
    log: Annotated[bool, o.in_output(help="Print one line of JSON per request.")] = True,
    device: o.Device = "auto",
    precision: o.InPrecision = "auto",
) -> None:
    """Answer requests over HTTP.

    Clients may use the APIs of OpenAI and LibreTranslate; /docs lists all endpoints.

    Example: translucid serve

    Example: translucid serve runs/x ./smollm2.gguf --port 8000 --api-key-file key.txt

    Example: translucid serve runs/x --studio
    """
    server = _server()
    from translucid.serving.access import read_keys

    folders = models or [shipped_models.find(name) for name in shipped_models.names()]
    o.check_device(device)
    for folder in folders:
        if not folder.exists():
            raise InputError(
                f"{folder}: no such folder; give a run or model folder, or another tool's model"
            )
    keys = read_keys(api_key_file)
    if not server.is_loopback(host) and not keys:
        raise InputError(
            f"--host {host} lets other machines send requests; give --api-key-file FILE, so that "
            "only clients with a key are answered"
        )
    if studio and not server.is_loopback(host):
        raise InputError("--studio: the studio is only for this machine; omit --host")
    from translucid.serving.limits import Limits

    limits = Limits(
        rows=rows, cache_tokens=cache_tokens, queue=queue, trace_values=trace_values
    )  # fmt: skip
    with closing(server.bind(host, port)) as held:  # before models are opened, which takes longer
        opened = server.open_models(
            folders, device, precision, limits, languages or [], o.print_note
        )
        number = held.getsockname()[1]
        address = f"http://{'127.0.0.1' if host == '0.0.0.0' else _bracketed(host)}:{number}"
        _announce(opened, address, bool(keys), allow_trace)
        server.run(
            opened, held, most_tokens=max_tokens, allow_trace=allow_trace, drain=drain, log=log,
            studio=studio, keys=keys,
            hosts=None if not server.is_loopback(host) and not allow_host else allow_host or [],
            origins=cors or [],
        )  # fmt: skip


def _announce(models: "Models", address: str, keys: bool, allow_trace: bool) -> None:
    """Print what is served, and a command that works."""
    width = max(map(len, models))
    for name, one in models.items():
        pair = f", {one.languages[0]} to {one.languages[1]}" if one.languages else ""
        chat = ", chat" * (one.template is not None)
        network = one.model.network
        device = next(iter(network.parameters())).device
        where = f"{device}, {network.parameters_count:,} parameters"
        typer.echo(f"{name:{width}}  {one.task}{pair}{chat} ({where})")
    limits = next(iter(models.values())).engine.limits
    typer.echo(
        f"limits: {limits.rows} texts at the same time per model, {limits.queue} waiting requests"
    )
    if allow_trace:
        typer.echo(f"trace and edit: allowed, with up to {limits.trace_values:,} traced values")
    typer.echo(f"serving on {address} (documentation: {address}/docs)")
    typer.echo(f"try: {_curl(models, address, keys)}")
    typer.echo("stop with Ctrl-C", err=True)
    sys.stdout.flush()


def _curl(models: "Models", address: str, keys: bool) -> str:
    """A command for the first model."""
    tasks = {one.task: one for one in reversed(list(models.values()))}
    body: dict[str, Any]
    if "translate" in tasks:
        one = tasks["translate"]
        several = sum(other.task == "translate" for other in models.values()) > 1
        text = next(iter(one.model.task.samples), "The dog does not sleep.")
        body = {"text": text} | ({"model": one.name} if several else {})
        path = "/translate"
    elif "language" in tasks:
        one, path = tasks["language"], "/v1/completions"
        body = {"model": one.name, "prompt": "The", "max_tokens": 20}
    else:
        one = next(iter(models.values()))
        sample = next(iter(one.model.task.samples), "The dog sleeps.")
        path, body = "/predict", {"model": one.name, "inputs": [sample]}
    key = ' -H "Authorization: Bearer $TRANSLUCID_API_KEY"' if keys else ""
    content = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
    return f"curl {address}{path} -H 'Content-Type: application/json'{key} -d '{content}'"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _server() -> Any:
    """Import the server, whose packages are optional."""
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"serving needs the package {error.name}; install it with: {install_command('serve')}"
        ) from error
    from translucid.serving import server

    return server
