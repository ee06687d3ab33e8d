"""What OTLP push says of versions: one gauge point per metric and version, at the version's time.

The names are those of /metrics, the labels are point attributes. Neither attempt nor version is one: they are
series of their own, `asyncrl_run_attempt` and `asyncrl_param_version`, with a point at the same time.
"""

from collections.abc import Iterable

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge as GaugeData
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from exporter.publish.version_gauges import timed_gauges
from exporter.push_queue import Waiting

SERVICE_NAME = "asyncrl-exporter"


def build_request(rows: Iterable[Waiting]) -> tuple[ExportMetricsServiceRequest, int]:
    """One request that says all of `rows`, its points in their order; and how many points it has."""
    request = ExportMetricsServiceRequest()
    resource = Resource(attributes=[_attribute("service.name", SERVICE_NAME)])
    resource_metrics = request.resource_metrics.add(resource=resource)
    # Without a scope: stores make labels of it, and a new version of it would be new series.
    scope_metrics = resource_metrics.scope_metrics.add()
    metrics: dict[str, Metric] = {}
    count = 0
    for row in rows:
        if row.item is None:
            continue
        for family, labels, value in timed_gauges(row.item):
            metric = metrics.get(family.name)
            if metric is None:
                metric = scope_metrics.metrics.add(
                    name=family.name, description=family.help, gauge=GaugeData()
                )
                metrics[family.name] = metric
            said = zip(family.labels, (row.item.run, *labels), strict=True)
            metric.gauge.data_points.add(
                time_unix_nano=row.time_ns,
                as_double=value,
                attributes=[_attribute(name, text) for name, text in said],
            )
            count += 1
    return request, count


def _attribute(name: str, text: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=text))
