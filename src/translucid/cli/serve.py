"""`translucid serve`: answer requests over HTTP."""

import json
import signal
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.cli.shared import options as o
from translucid.core.errors import ConfigError, InputError, install_command
from translucid.data import shipped_models

if TYPE_CHECKING:
    from translucid.serving.served import Models

PORT = 8000
in_access = partial(typer.Option, rich_help_panel="Access")
in_cluster = partial(typer.Option, rich_help_panel="Cluster")
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
    ray: Annotated[
        bool, in_cluster("--ray", help="Deploy replicas on the Ray cluster of this machine.")
    ] = False,
    replicas: Annotated[int, in_cluster(min=1, metavar="N", help="Number of replicas.")] = 1,
    max_replicas: Annotated[
        int | None,
        in_cluster(min=1, metavar="N", help="Add replicas up to N while requests wait."),
    ] = None,
    replica_cpus: Annotated[
        int, in_cluster(min=1, metavar="N", help="Processor cores of each replica.")
    ] = 1,
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
    rules = server.rules_of(host, keys, allow_host or [], cors or [])
    if ray:
        if studio:
            raise ConfigError("--studio: the studio is only for one process; omit it with --ray")
        places = [folder.absolute() for folder in folders]
        one = (places, device, precision, limits, languages or [], max_tokens, allow_trace, drain,
               log, rules)  # fmt: skip
        _on_ray(server, one, host, port, (replicas, max_replicas or replicas), replica_cpus)
        return
    if replicas > 1 or max_replicas is not None or replica_cpus != 1:
        raise ConfigError("--replicas, --max-replicas and --replica-cpus need --ray")
    with closing(server.bind(host, port)) as held:  # before models are opened, which takes longer
        opened = server.open_models(
            folders, device, precision, limits, languages or [], o.print_note
        )
        number = held.getsockname()[1]
        address = f"http://{'127.0.0.1' if host == '0.0.0.0' else _bracketed(host)}:{number}"
        _announce(opened, address, bool(keys), allow_trace)
        typer.echo("stop with Ctrl-C", err=True)
        server.run(
            opened, held, most_tokens=max_tokens, allow_trace=allow_trace, drain=drain, log=log,
            studio=studio, rules=rules,
        )  # fmt: skip


def _on_ray(
    server: Any, settings: tuple[Any, ...], host: str, port: int, replicas: tuple[int, int],
    cpus: float,
) -> None:  # fmt: skip
    """Deploy replicas on the cluster and return. Without a cluster, serve on this machine until
    Ctrl-C or SIGTERM."""
    from translucid.cli.shared.on_ray import connect, resources

    if replicas[1] < replicas[0]:
        raise ConfigError(
            f"--max-replicas {replicas[1]}: is below --replicas {replicas[0]}; choose a larger one"
        )
    joined = connect()
    from translucid.serving import on_ray

    chosen = on_ray.Settings(*settings)
    needs = resources(chosen.device, cpus)
    if not joined:  # a cluster may have an earlier version at this port
        with closing(server.bind(host, port)) as held:
            port = held.getsockname()[1]
    # Mistakes are reported here, and not by each replica.
    opened = server.open_models(
        chosen.folders, "cpu", "auto", chosen.limits, chosen.languages, o.print_note
    )
    opened.close()
    stop = Event()
    if not joined:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
    on_ray.deploy(chosen, host, port, replicas, needs)
    address = f"http://{'127.0.0.1' if host == '0.0.0.0' else _bracketed(host)}:{port}"
    if joined and not on_ray.answers(address):
        raise InputError(
            f"the cluster serves at another address than {address}; give the --host and --port of "
            "the first deployment, or run: serve shutdown"
        )
    typer.echo(f"{replicas[0]} to {replicas[1]} replicas on Ray")
    _announce(opened, address, bool(chosen.rules.keys), chosen.allow_trace)
    if joined:
        typer.echo("run the command again to update the replicas one after the other", err=True)
        typer.echo("stop with: serve shutdown", err=True)
        return
    stop.wait()
    on_ray.shut_down()


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
