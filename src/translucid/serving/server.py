"""Open models, and serve them until the process is asked to stop."""

import gc
import ipaddress
import re
import socket
import sys
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import uvicorn

from translucid.core.errors import InputError
from translucid.core.untrusted_files import read_text
from translucid.model import Model, load
from translucid.models.base import EncoderModel
from translucid.serving.access import Rules, standard_error
from translucid.serving.app import Server, make_app
from translucid.serving.connections import CONNECTIONS, HttpServer, Refusals
from translucid.serving.engine import Engine
from translucid.serving.limits import Limits
from translucid.serving.served import Models, Served
from translucid.studio.library import open_folders
from translucid.studio.server.serve import OPTIONS

BACKLOG = 4096
SILENT = 10  # seconds; connections that clients open and do not use cost the server nothing
SPARE_FILES = 1000
# Seconds after which a thread lets another one run. A request needs several turns of its thread,
# and with Python's 5 ms, each would wait that long for the engine's.
SWITCH = 0.0005
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]+", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allow_connections() -> None:
    """Raise the process's limit on open files, often 1,024, so that the connections fit."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * CONNECTIONS + SPARE_FILES
        if now != resource.RLIM_INFINITY and now < wanted:
            wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def bind(host: str, port: int) -> socket.socket:
    """Listen on an address, so that a port in use is an error before models are opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        held = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {host}, port {port} ({why}); choose another with --port"
        ) from error
    held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_DEFER_ACCEPT"):  # accept connections when their first bytes are there
        held.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SILENT)
    return held


def open_models(
    folders: Sequence[Path],
    device: str,
    precision: Any,
    limits: Limits,
    languages: Sequence[str],
    say: Callable[[str], None],
) -> Models:
    """Open models and start their engines. languages: of the translation models, in order.

    Only the engines compute with several threads: OpenMP makes threads wait more slowly for each
    other if all that it ever started are more than the processor's cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    opened = open_folders(folders, lambda folder: load(folder, device, say=say))
    young = [name for name, model in opened.items() if model is None]
    if young:
        raise InputError(f"{young[0]}: this run has not saved a model yet; wait, or omit it")
    models = {name: model for name, model in opened.items() if isinstance(model, Model)}
    for name, model in models.items():
        _check_weights(name, model)
    translators = [name for name, model in models.items() if model.task.name == "translate"]
    if len(languages) > len(translators):
        raise InputError(
            f"--languages was given {len(languages)} times, for {len(translators)} translation "
            "models; give it at most once for each"
        )
    pairs = {name: languages_of(models[name]) for name in translators}
    pairs |= {name: _pair(text) for name, text in zip(translators, languages, strict=False)}
    return Models([
        Served(
            name, model, Engine(_fast(model, precision), limits, threads=threads),
            pairs.get(name), model.chat_template,
        )
        for name, model in models.items()
    ])  # fmt: skip


def _check_weights(name: str, model: Model) -> None:
    for parameter, value in model.network.named_parameters():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise InputError(
                f"{name}: the weights {parameter} contain numbers that are not finite, so its "
                "answers have no meaning; train it again with a lower learning rate"
            )


def languages_of(model: Model) -> tuple[str, str] | None:
    """The languages of a translation model, from the names of its training files."""
    if model.folder is None:
        return None
    for folder in (model.folder, model.folder.parent):
        if (folder / "recipe.toml").is_file():
            text = read_text(folder / "recipe.toml", 1 << 20, "copy the run again")
            data = tomllib.loads(text).get("data", {})
            files = [str(file) for file in data.get("train", [])]
            if not files and data.get("toyland"):
                return "en", "de"
            codes = [
                file.removesuffix(".gz").removesuffix(".xz").rpartition(".")[2] for file in files
            ]
            if len(codes) == 2 and all(code.isalpha() and 2 <= len(code) <= 3 for code in codes):
                return codes[0], codes[1]
    return None


def rules_of(host: str, keys: Sequence[str], names: Sequence[str], origins: Sequence[str]) -> Rules:
    """Who may send requests to a server at this address. names: further Host names."""
    for origin in origins:
        if origin != "*" and not ORIGIN.fullmatch(origin):
            raise InputError(
                f"--cors {origin!r}: must be an origin without a path, such as "
                "https://example.org, or * for all sites"
            )
    open_to_all = not is_loopback(host) and not names
    hosts = None if open_to_all else frozenset((*LOOPBACK_NAMES, *map(str.lower, names)))
    return Rules(tuple(keys), hosts, frozenset(origins))


def run(
    models: Models,
    held: socket.socket,
    *,
    most_tokens: int,
    allow_trace: bool,
    drain: float,
    log: bool,
    studio: bool,
    rules: Rules,
) -> None:
    """Serve until Ctrl-C or SIGTERM, then finish the requests that were accepted.

    drain: seconds to finish requests."""
    number = held.getsockname()[1]
    server = Server(models, most_tokens=most_tokens, keys=bool(rules.keys), allow_trace=allow_trace)
    other = _studio(models, number) if studio else None
    to = standard_error if log else None
    app = make_app(server, rules, to, other)
    options = OPTIONS | {"timeout_graceful_shutdown": max(1, round(drain))}
    if not studio:  # only the studio needs WebSockets, and the package for them
        options["ws"] = "none"
    allow_connections()
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # the models and modules stay; looking through them would stop all requests
    refusals = Refusals(server.load, server.metrics, to, models)
    serving = HttpServer(uvicorn.Config(app, **options), refusals)
    try:
        serving.run(sockets=[held])
    finally:
        models.close(drain=True, timeout=drain)


def _studio(models: Models, number: int) -> Any:
    """The studio of the same models, with its own access control; prints its address."""
    import secrets
    import threading
    from concurrent.futures import Future

    import typer

    from translucid.studio.handlers import Handlers
    from translucid.studio.library import Library
    from translucid.studio.server.app import make_app as make_studio

    opening: Future[Handlers] = Future()
    library = Library({name: one.model for name, one in models.items()}, secrets.token_hex(8))
    opening.set_result(Handlers(library, {}))
    hosts = frozenset(f"{name}:{number}" for name in ("127.0.0.1", "localhost"))
    app = make_studio(opening, hosts=hosts, loaded=threading.Event())
    typer.echo(f"studio: http://127.0.0.1:{number}/open/{app.token}")
    return app


def _fast(model: Model, precision: Any) -> Model:
    """The model as its engine uses it: optimized if it generates text, or if it is an encoder and
    a precision is given."""
    generates = model.task.name in ("language", "translate")
    reads = isinstance(model.network, EncoderModel) and precision != "auto"
    return model.optimized(precision) if generates or reads else model


def _pair(text: str) -> tuple[str, str]:
    source, dash, target = text.partition("-")
    if not (dash and source and target):
        raise InputError(f"--languages {text}: write codes such as en-de")
    return source, target
