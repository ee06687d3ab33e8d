"""Gauges and cumulative sums: read once per collection, on a thread of their own, and sent in one request."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, MetricsData
from opentelemetry.sdk.metrics.view import DropAggregation, View
from opentelemetry.sdk.resources import Resource

from runtime.telemetry.clock import Clock
from runtime.telemetry.encoding import SCOPE, encode_points
from runtime.telemetry.log_pace import LogPace

log = logging.getLogger(__name__)

Points = Iterable[tuple[float, Mapping[str, str]]]
"""Values of one instrument, each with its attributes."""

COLLECTION_TIMEOUT_MS = 60_000.0


class _Reading:
    """What one `read` said in the collection under way; all instruments made from it show that same moment."""

    def __init__(self, read: Callable[[], Mapping[str, Points]]) -> None:
        self._read = read
        self._points: dict[str, list[Observation]] = {}

    def refresh(self) -> None:
        self._points = {}
        self._points = {
            name: [Observation(value, attributes) for value, attributes in points if math.isfinite(value)]
            for name, points in self._read().items()
        }

    def callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _options: self._points.get(name, ())


class _Reader(MetricReader):
    """The SDK's pull reader, cumulative by default; what it collects goes straight to `receive`."""

    def __init__(self, receive: Callable[[MetricsData], None]) -> None:
        super().__init__()
        self._receive = receive

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> None:
        self._receive(metrics_data)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        """Nothing is held."""


class Instruments:
    """A MeterProvider of its own, collected every `interval_seconds` and on demand.

    Not the SDK's periodic reader: that one collects on whatever thread flushes, has no bound on a callback that
    hangs, and takes its times from the wall clock.
    """

    def __init__(
        self, resource: Resource, clock: Clock, send: Callable[[bytes], None], *, interval_seconds: float
    ) -> None:
        self._clock = clock
        self._start_ns = clock.now_ns()
        self._send = send
        self._interval_seconds = interval_seconds
        self._readings: list[_Reading] = []
        self._reader = _Reader(self._encode_and_send)
        provider = MeterProvider(
            metric_readers=[self._reader],
            resource=resource,
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
            # The SDK's metrics about itself, which a variable can switch on.
            views=[View(instrument_name="otel.*", aggregation=DropAggregation())],
        )
        # The constructor obeys OTEL_SDK_DISABLED, which has no argument to overrule it.
        provider._disabled = False
        self._meter = provider.get_meter(SCOPE)
        self._changed = threading.Condition()
        self._asked = 0
        self._collected = 0
        self._closed = False
        self.cpu_seconds = 0.0
        self._log_pace = LogPace()  # of the thread alone
        self._thread = threading.Thread(target=self._run, name="telemetry metrics", daemon=True)
        self._thread.start()

    def observe(
        self,
        read: Callable[[], Mapping[str, Points]],
        *,
        gauges: Sequence[str] = (),
        sums: Sequence[str] = (),
    ) -> None:
        """Call `read` once per collection and show its points under these names."""
        reading = _Reading(read)
        for name in gauges:
            self._meter.create_observable_gauge(name, callbacks=[reading.callback(name)])
        for name in sums:
            self._meter.create_observable_counter(name, callbacks=[reading.callback(name)])
        self._readings.append(reading)

    def collect(self, timeout_seconds: float) -> bool:
        """Have the metrics thread collect now; whether it was done in time."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._collected >= mine, timeout_seconds)
            return self._collected >= mine

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_asked, self._interval_seconds)
                if self._closed:
                    return
                asked = self._asked
            self._collect()
            self.cpu_seconds = time.thread_time()
            with self._changed:
                self._collected = asked
                self._changed.notify_all()

    def _is_asked(self) -> bool:
        return self._closed or self._asked > self._collected

    def _collect(self) -> None:
        for reading in list(self._readings):
            try:
                reading.refresh()
            # The callback is the actor's code: its fault costs its own points, not everybody's.
            except Exception:
                self._complain()
        self._reader.collect(COLLECTION_TIMEOUT_MS)

    def _encode_and_send(self, data: MetricsData) -> None:
        self._send(encode_points(data, start_ns=self._start_ns, now_ns=self._clock.now_ns()))

    def _complain(self) -> None:
        left_out = self._log_pace.take()
        if left_out is not None:
            log.exception(
                "a gauge or sum could not be read, and its points are not sent; %d messages like this left out",
                left_out,
            )
