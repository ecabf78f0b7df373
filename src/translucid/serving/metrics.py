"""Metrics for Prometheus: requests as they are answered, and the engines as they are now."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# Statistics of an engine: name, whether it only grows, and meaning.
ENGINE = (
    ("waiting", False, "Requests in the queue"),
    ("running", False, "Requests that are being answered"),
    ("rows", False, "Rows of the batch, one for each text or beam"),
    ("cache_tokens", False, "Tokens for which caches are reserved"),
    ("accepted", True, "Requests accepted"),
    ("refused", True, "Requests refused because the queue was full"),
    ("finished", True, "Requests answered"),
    ("failed", True, "Requests that failed"),
    ("cancelled", True, "Requests cancelled by their client"),
    ("deadline", True, "Requests that were not answered before their deadline"),
    ("prompt_tokens", True, "Tokens read"),
    ("generated_tokens", True, "Tokens generated"),
    ("steps", True, "Decoding steps"),
    ("step_rows", True, "Rows of all decoding steps; divided by the steps: rows per step"),
    ("reused_prompts", True, "Prompts whose state was reused"),
    ("read_seconds", True, "Time spent on reading prompts and sources"),
    ("step_seconds", True, "Time spent on decoding steps"),
    ("answer_seconds", True, "Time spent on classifying, tagging, embedding and scoring"),
)
EngineStatistics = Callable[[], Mapping[str, Mapping[str, float]]]  # values by model, then by name


class Metrics:
    """The registry of one server. It has one of its own, since a process may run several."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, engines: EngineStatistics = dict) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "translucid_requests", "Requests answered", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "translucid_request_seconds", "Time from the first byte to the end of the answer",
            ["route"], buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.first = Histogram(
            "translucid_first_token_seconds", "Time to the first token of a streamed answer",
            ["model"], buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.registry.register(_Engines(engines))

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def refused(self, status: int) -> None:
        """Count a request that was refused before it was parsed."""
        self.requests.labels("refused", str(status)).inc()

    def first_token(self, model: str, seconds: float) -> None:
        self.first.labels(model).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Engines:
    """Reads the engines when the metrics are requested."""

    def __init__(self, engines: EngineStatistics) -> None:
        self.engines = engines

    def collect(self) -> Iterator[Metric]:
        by_model = self.engines()
        for name, grows, meaning in ENGINE:
            family = CounterMetricFamily if grows else GaugeMetricFamily
            metric = family(f"translucid_{name}", meaning, labels=["model"])
            for model, values in by_model.items():
                if name in values:
                    metric.add_metric([model], values[name])
            yield metric
