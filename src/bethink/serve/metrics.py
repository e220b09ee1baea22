"""The Prometheus metrics of one server, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from bethink.engine_thread import Counters
from bethink.policy import Action
from bethink.trace import Step

LAGS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0)

_ENGINE = {  # of each model's engine: name, kind, help
    "sessions": (GaugeMetricFamily, "Sessions that are open."),
    "ready": (GaugeMetricFamily, "Streams that can go on and wait for their turn."),
    "queued": (GaugeMetricFamily, "Pieces of text that wait for the engine."),
    "batch": (GaugeMetricFamily, "Streams in the last call of the decoder."),
    "rounds": (CounterMetricFamily, "Batched calls of the decoder."),
    "rows": (CounterMetricFamily, "Decoder positions computed."),
    "written": (CounterMetricFamily, "Target tokens written."),
    "capacity": (GaugeMetricFamily, "Speakers that the engine could follow, estimated from the recent cost of words."),
    "failures": (CounterMetricFamily, "Times the model failed; each time all open sessions ended."),
}


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self.sockets = Gauge("bethink_sockets", "Sockets that are connected.", registry=own)
        self.streams = Gauge("bethink_streams", "Streams that are open, sockets and HTTP together.", registry=own)
        self.rooms = Gauge("bethink_rooms", "Rooms that are open.", registry=own)
        self.listeners = Gauge("bethink_listeners", "Listeners that are connected, in all rooms.", registry=own)
        self.pressure = Gauge("bethink_pressure_seconds", "How long the words of speakers wait now.", registry=own)
        self.opened = Counter("bethink_streams_opened", "Streams that were opened.", ["resumed"], registry=own)
        self.closed = Counter("bethink_streams_closed", "Streams and sockets that ended.", ["reason"], registry=own)
        self.rejects = Counter("bethink_rejects", "Connections and requests refused.", ["reason"], registry=own)
        self.steps = Counter("bethink_steps", "READ and WRITE steps sent.", ["action"], registry=own)
        about = "Seconds from the arrival of the newest source word to the target words written with it."
        self.lag = Histogram("bethink_lag_seconds", about, buckets=LAGS, registry=own)
        self._read, self._wrote = (self.steps.labels(action=action.value) for action in (Action.READ, Action.WRITE))
        ProcessCollector(registry=self.registry)

    def sent(self, step: Step) -> None:
        if step.action is Action.READ:
            self._read.inc()
            return
        self._wrote.inc()
        if step.text:
            self.lag.observe((step.lag or 0) / 1000)

    def page(self) -> bytes:
        return generate_latest(self.registry)


class Engines(Collector):
    """The counters of the engines, read when the metrics are requested."""

    def __init__(self, counters: Callable[[], dict[str, Counters]]) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        now = self._counters()
        for name, (kind, about) in _ENGINE.items():
            family = kind(f"bethink_engine_{name}", about, labels=["model"])
            for model, counters in now.items():
                family.add_metric([model], getattr(counters, name))
            yield family
