"""The runtime's way to say something: control spans, sampled detail spans, gauges and sums.

    trainer, rollouter, queue, controller
        control() ------> seq --+--> SpanEncoder --+--> Delivery to endpoint 1
        detail() --10%----------+                  +--> Delivery to endpoint 2      each its own buffer and thread
        observe_*() --every second-----------------+

No `OTEL_*` variable can weaken it: sampler, limits, ids, resource, intervals and endpoints are all set here, in
code. The ambient span is never a parent; a train step links to the rollouts it consumed.
"""

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Link, Tracer
from opentelemetry.util.types import AttributeValue

from runtime.telemetry import schema
from runtime.telemetry.clock import Clock
from runtime.telemetry.config import Identity, TelemetryConfig
from runtime.telemetry.delivery import Delivery, DeliveryStats
from runtime.telemetry.encoding import SCOPE, resource_envelope
from runtime.telemetry.instruments import Instruments, Points
from runtime.telemetry.partial import Partial
from runtime.telemetry.span_buffer import KINDS, EncodedSpan, Kind
from runtime.telemetry.span_encoder import Said, SpanEncoder
from runtime.telemetry.traceparent import format_traceparent, parent_context, parse_traceparent

STATS_TIMEOUT_SECONDS = 1.0
"""How long a look at what became of the spans waits until the last of them are bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryStats:
    """What became of the spans so far, at each endpoint and summed over them, and what it cost."""

    endpoints: Sequence[DeliveryStats]
    cpu_seconds: float
    """CPU time of emitting, collecting and delivering."""

    @property
    def sent(self) -> int:
        return sum(endpoint.sent for endpoint in self.endpoints)

    @property
    def rejected(self) -> int:
        return sum(endpoint.rejected for endpoint in self.endpoints)

    @property
    def buffered(self) -> int:
        return sum(endpoint.buffered for endpoint in self.endpoints)

    @property
    def dropped(self) -> dict[Kind, int]:
        return {kind: sum(endpoint.dropped[kind] for endpoint in self.endpoints) for kind in KINDS}


class Telemetry:
    """One source: one process life with its own id, `seq` and clock. Safe to call from any thread.

    Nothing here waits for an endpoint but `flush` and `shutdown`, and those for their timeout at most. A normal
    exit of the interpreter flushes by itself; a signal handler must call `shutdown` or exit normally. In a forked
    child a Telemetry is inert: a new process is a new source.
    """

    def __init__(self, config: TelemetryConfig, identity: Identity) -> None:
        self.clock = Clock()
        self.source_id = os.urandom(16).hex()
        self._pid = os.getpid()
        resource = Resource(identity.resource_attributes(self.source_id))
        envelope = resource_envelope(resource)
        self._deliveries = [Delivery(url, config, envelope) for url in config.endpoints]
        self._control = _own_tracer(ALWAYS_ON)
        self._detail = _own_tracer(
            ParentBased(root=TraceIdRatioBased(config.detail_sampling)),
            _OnEnd(lambda span: self._say("detail", span, {})),
        )
        self._encoder = SpanEncoder(self._deliver, self._drop)
        # Re-entrant, and the counter atomic: a signal handler may speak while its thread is speaking.
        self._lock = threading.RLock()
        self._seqs = itertools.count(1)
        self._cpu_seconds = 0.0
        self._closed = False
        self._instruments = Instruments(
            resource, self.clock, self._offer_metrics, interval_seconds=config.metrics_interval_seconds
        )
        self.observe_sum(schema.SUM_TELEMETRY_DROPPED, self._dropped_points)
        self._at_exit = lambda: self.shutdown(config.exit_timeout_seconds)
        atexit.register(self._at_exit)

    def control(
        self,
        name: str,
        *,
        param_version: int,
        start_ns: int,
        end_ns: int,
        attributes: Mapping[str, AttributeValue],
        values: Mapping[str, float | Partial] | None = None,
        links: Sequence[str] = (),
    ) -> None:
        """Record one control span, never sampled, with the next `seq` of this source.

        `values` by metric name. `links` are traceparents of detail spans; those empty or not sampled are left out
        and counted in `asyncrl.links.dropped`.
        """
        if self._is_inert():
            return
        began = time.thread_time()
        linked = [
            context
            for link in links
            if link and (context := parse_traceparent(link)) and context.trace_flags.sampled
        ]
        span = self._control.start_span(
            name,
            context=Context(),  # an empty one: never a child of the ambient span
            attributes=attributes,
            links=[Link(context) for context in linked],
            start_time=start_ns,
        )
        if len(linked) < len(links):
            span.set_attribute(schema.LINKS_DROPPED, len(links) - len(linked))
        own_values = {
            name: value if isinstance(value, Partial) else float(value)
            for name, value in (values or {}).items()
        }
        with self._lock:
            span.set_attribute(schema.SEQ, next(self._seqs))
            span.set_attribute(schema.PARAM_VERSION, param_version)
            span.end(end_ns)
            self._say("control", span, own_values)
            self._cpu_seconds += time.thread_time() - began

    def detail(
        self,
        name: str,
        *,
        start_ns: int,
        end_ns: int,
        attributes: Mapping[str, AttributeValue],
        parent: str | None = None,
    ) -> str:
        """Record one detail span if its trace is sampled; its traceparent, or "" if it is not.

        `parent=None` starts a trace and decides for it. A traceparent makes a child, and "" a child of a span that
        was not sampled, which is not sampled either: pass on what `detail` returned. Times are explicit, so a
        parent may be recorded before its children or after the work of both is done.
        """
        if parent == "" or self._is_inert():
            return ""
        began = time.thread_time()
        span = self._detail.start_span(
            name, context=parent_context(parent), attributes=attributes, start_time=start_ns
        )
        span.end(end_ns)
        context = span.get_span_context()
        with self._lock:
            self._cpu_seconds += time.thread_time() - began
        return format_traceparent(context) if context.trace_flags.sampled else ""

    def observe_gauge(self, name: str, callback: Callable[[], Points]) -> None:
        """Publish what `callback` returns as a live gauge. It runs on the metrics thread, once per collection."""
        self._instruments.observe(lambda: {name: callback()}, gauges=(name,))

    def observe_sum(self, name: str, callback: Callable[[], Points]) -> None:
        """Publish a sum that has counted from 0 since this process began and never shrinks."""
        self._instruments.observe(lambda: {name: callback()}, sums=(name,))

    def observe_account(
        self, read: Callable[[], Mapping[str, Points]], *, gauges: Sequence[str], sums: Sequence[str]
    ) -> None:
        """Publish several instruments from one `read` per collection, so that they balance in every request."""
        self._instruments.observe(read, gauges=gauges, sums=sums)

    def stats(self) -> TelemetryStats:
        self._encoder.drain(STATS_TIMEOUT_SECONDS)
        endpoints = [delivery.stats() for delivery in self._deliveries]
        cpu_seconds = self._cpu_seconds + self._encoder.cpu_seconds + self._instruments.cpu_seconds
        return TelemetryStats(
            endpoints=endpoints, cpu_seconds=cpu_seconds + sum(endpoint.cpu_seconds for endpoint in endpoints)
        )

    def flush(self, timeout_seconds: float) -> bool:
        """Collect once more and send all that waits; whether every endpoint answered within the time."""
        if self._is_inert() or not self._deliveries:
            return True
        deadline = time.monotonic() + timeout_seconds
        self._encoder.drain(timeout_seconds)
        for delivery in self._deliveries:
            delivery.start_flush()
        # All are at work now: a callback or an endpoint that hangs takes no time from the others.
        collected = self._instruments.collect(max(deadline - time.monotonic(), 0.0))
        flushed = [
            delivery.wait_flushed(max(deadline - time.monotonic(), 0.0)) for delivery in self._deliveries
        ]
        return collected and all(flushed)

    def shutdown(self, timeout_seconds: float) -> None:
        """Flush, then stop for good; what is unsent by then is counted as dropped. Safe to call twice."""
        with self._lock:
            if self._closed or self._is_inert():
                return
            self._closed = True
        atexit.unregister(self._at_exit)
        deadline = time.monotonic() + timeout_seconds
        self.flush(timeout_seconds)
        self._instruments.close()
        self._encoder.close()
        for delivery in self._deliveries:
            delivery.close()
        self._encoder.join(max(deadline - time.monotonic(), 0.0))
        for delivery in self._deliveries:
            delivery.join(max(deadline - time.monotonic(), 0.0))

    def _say(self, kind: Kind, span: object, values: Mapping[str, float | Partial]) -> None:
        if self._deliveries and isinstance(span, ReadableSpan):  # as all recorded ones are
            self._encoder.add(Said(kind, span, values))

    def _deliver(self, span: EncodedSpan) -> None:
        for delivery in self._deliveries:
            delivery.add(span)

    def _drop(self, kind: Kind) -> None:
        for delivery in self._deliveries:
            delivery.drop(kind)

    def _offer_metrics(self, body: bytes) -> None:
        for delivery in self._deliveries:
            delivery.offer_metrics(body)

    def _dropped_points(self) -> Points:
        return [(count, {schema.DROPPED_KIND: kind}) for kind, count in self.stats().dropped.items()]

    def _is_inert(self) -> bool:
        return os.getpid() != self._pid  # no thread of ours lives on in a forked child


class _UrandomIds(IdGenerator):
    """The SDK's generator draws from `random`, which training seeds: two runs would share their ids."""

    def generate_span_id(self) -> int:
        return int.from_bytes(os.urandom(8), "big") or self.generate_span_id()

    def generate_trace_id(self) -> int:
        return int.from_bytes(os.urandom(16), "big") or self.generate_trace_id()


class _OnEnd(SpanProcessor):
    def __init__(self, on_end: Callable[[ReadableSpan], None]) -> None:
        self._on_end = on_end

    def on_end(self, span: ReadableSpan) -> None:
        self._on_end(span)


def _own_tracer(sampler: Sampler, *processors: SpanProcessor) -> Tracer:
    """A tracer of a provider that is not the global one and that the environment cannot change."""
    provider = TracerProvider(
        sampler=sampler,
        resource=Resource.get_empty(),  # the envelope of each request carries the real one
        shutdown_on_exit=False,
        id_generator=_UrandomIds(),
        span_limits=SpanLimits(
            max_attributes=SpanLimits.UNSET,
            max_events=SpanLimits.UNSET,
            max_links=SpanLimits.UNSET,
            max_span_attributes=SpanLimits.UNSET,
            max_event_attributes=SpanLimits.UNSET,
            max_link_attributes=SpanLimits.UNSET,
            max_attribute_length=SpanLimits.UNSET,
            max_span_attribute_length=SpanLimits.UNSET,
        ),
    )
    for processor in processors:
        provider.add_span_processor(processor)
    # The constructor obeys OTEL_SDK_DISABLED, which has no argument to overrule it.
    provider._disabled = False
    return provider.get_tracer(SCOPE)
