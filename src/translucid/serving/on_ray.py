"""Deploy the server on Ray Serve: replicas on the machines of a cluster, behind Ray's proxies."""

import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import serve

from translucid.core.errors import InputError
from translucid.serving.access import Refusal, Rules, standard_error
from translucid.serving.app import Server, make_app
from translucid.serving.bodies import ApiError
from translucid.serving.limits import Limits
from translucid.serving.server import open_models

NAME = "translucid"  # of the application in Ray Serve
FORCE = 5.0  # seconds after --drain until a replica is killed


@dataclass(frozen=True)
class Settings:
    """What each replica serves."""

    folders: Sequence[Path]
    device: str
    precision: str
    limits: Limits
    languages: Sequence[str]
    most_tokens: int
    allow_trace: bool
    drain: float
    log: bool
    rules: Rules


class Replica:
    """A process with all models and the whole application."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.models = open_models(
            settings.folders, settings.device, settings.precision, settings.limits,
            settings.languages, standard_error,
        )  # fmt: skip

    def __serve_build_asgi_app__(self) -> Any:
        settings = self.settings
        server = Server(
            self.models, most_tokens=settings.most_tokens, keys=bool(settings.rules.keys),
            allow_trace=settings.allow_trace,
        )  # fmt: skip
        app = make_app(server, settings.rules, standard_error if settings.log else None)

        async def without_metrics(scope: Any, receive: Any, send: Any) -> None:
            if scope.get("path") == "/metrics":  # of one replica, a different one each time
                why = "with --ray, use the metrics that Ray exports (ray_serve_*)"
                return await Refusal(ApiError(why, 501), "/metrics")(scope, receive, send)
            await app(scope, receive, send)

        return without_metrics


def deploy(
    settings: Settings, host: str, port: int, replicas: tuple[int, int], needs: dict[str, float]
) -> None:
    """Deploy the replicas, or replace those of an earlier version one after the other.

    replicas: the smallest and the largest number. needs: the resources of a replica."""
    rows, queue = settings.limits.rows, settings.limits.queue
    smallest, largest = replicas
    serve.start(http_options={"host": host, "port": port}, proxy_location="EveryNode")
    deployment: Any = serve.deployment(
        serve.ingress()(Replica),
        name="server",
        autoscaling_config={
            "min_replicas": smallest, "max_replicas": largest, "target_ongoing_requests": rows
        },
        max_ongoing_requests=rows + queue,
        max_queued_requests=queue,
        graceful_shutdown_timeout_s=settings.drain + FORCE,
        ray_actor_options=needs,
    )  # fmt: skip
    try:
        serve.run(deployment.bind(settings), name=NAME, route_prefix="/")
    except RuntimeError as error:
        raise InputError(
            f"Ray could not start the replicas; Ray's logs show why ({str(error)[:500]})"
        ) from error


def answers(address: str) -> bool:
    """Whether one of Ray's proxies listens at this address."""
    with suppress(OSError), urllib.request.urlopen(f"{address}/-/healthz", timeout=10) as answer:
        return bool(answer.status == 200)
    return False


def shut_down() -> None:
    """Finish the accepted requests, and end all replicas."""
    serve.delete(NAME)
    serve.shutdown()
