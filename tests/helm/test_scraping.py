"""ServiceMonitor, PodMonitor and annotations: three ways to be scraped, of which one is taken."""

from typing import Any

import pytest

from exporter import catalog
from tests.helm.chart import FULLNAME, NAMESPACE, refusal, render

MONITORS = ("serviceMonitor", "podMonitor")
ENDPOINTS = {"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}
EVERY_OPTION: dict[str, Any] = {
    "enabled": True,
    "labels": {"release": "prom", "team": "a"},
    "namespace": "monitoring",
    "interval": "15s",
    "scrapeTimeout": "10s",
    "honorLabels": True,
    "relabelings": [{"targetLabel": "cluster", "replacement": "west"}],
    "metricRelabelings": [{"action": "labeldrop", "regex": "source"}],
    "limits": {
        "sampleLimit": 60000,
        "targetLimit": 10,
        "labelLimit": 30,
        "labelNameLengthLimit": 200,
        "labelValueLengthLimit": 1048576,
        "bodySizeLimit": "16MB",
    },
    "tlsConfig": {"insecureSkipVerify": True},
    "basicAuth": {"username": {"name": "s", "key": "u"}, "password": {"name": "s", "key": "p"}},
    "authorization": {"credentials": {"name": "s", "key": "token"}},
    "attachMetadata": {"node": True},
}


def kind_of(monitor: str) -> str:
    return monitor[0].upper() + monitor[1:]


@pytest.mark.parametrize("monitor", MONITORS)
def test_a_monitor_renders_when_it_is_asked_for_and_not_before(monitor: str) -> None:
    kind = kind_of(monitor)
    assert kind not in render().kinds()
    assert kind not in render({monitor: EVERY_OPTION | {"enabled": False}}).kinds()
    assert render({monitor: {"enabled": True}}).kinds() == sorted([*render().kinds(), kind])


@pytest.mark.parametrize("monitor", MONITORS)
def test_a_monitor_renders_every_option(monitor: str) -> None:
    found = render({monitor: EVERY_OPTION}).one(kind_of(monitor))
    assert found["metadata"]["namespace"] == "monitoring"
    assert EVERY_OPTION["labels"].items() <= found["metadata"]["labels"].items()
    (endpoint,) = found["spec"][ENDPOINTS[kind_of(monitor)]]
    assert endpoint == {"port": "metrics", "path": "/metrics", "scheme": "http"} | {
        name: EVERY_OPTION[name]
        for name in (
            "interval",
            "scrapeTimeout",
            "honorLabels",
            "metricRelabelings",
            "tlsConfig",
            "basicAuth",
            "authorization",
        )
    } | {"relabelings": [{"targetLabel": "job", "replacement": FULLNAME}, *EVERY_OPTION["relabelings"]]}
    limits: dict[str, Any] = EVERY_OPTION["limits"]
    assert limits.items() <= found["spec"].items()
    assert found["spec"]["attachMetadata"] == {"node": True}
    assert found["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}


@pytest.mark.parametrize("monitor", MONITORS)
def test_a_job_is_one_release_by_either_monitor(monitor: str) -> None:
    """Alerts tell exporters apart by it: under a common one, one that is up hides one that is down."""
    jobs = []
    for release in ("a", "b"):
        spec = render({monitor: {"enabled": True}}, release=release).one(kind_of(monitor))["spec"]
        assert "jobLabel" not in spec
        jobs.append(spec[ENDPOINTS[kind_of(monitor)]][0]["relabelings"])
    assert jobs == [
        [{"targetLabel": "job", "replacement": f"{release}-asyncrl-exporter"}] for release in ("a", "b")
    ]


@pytest.mark.parametrize("monitor", MONITORS)
def test_a_scrape_takes_no_longer_than_its_interval(monitor: str) -> None:
    for timeout, interval in (("1m30s", "60s"), ("1001ms", "1s")):
        said = refusal({monitor: {"enabled": True, "interval": interval, "scrapeTimeout": timeout}})
        assert f"scrapeTimeout must not be above interval, got {timeout} and {interval}" in said
    equal = {"enabled": True, "interval": "1m30s", "scrapeTimeout": "90s"}
    assert render({monitor: equal}).all(kind_of(monitor)) != []


@pytest.mark.parametrize("monitor", MONITORS)
def test_a_monitor_trusts_the_certificate_of_the_chart(monitor: str) -> None:
    tls = {"tls": {"existingSecret": "certificate"}}
    found = render(tls | {monitor: {"enabled": True}}).one(kind_of(monitor))
    (endpoint,) = found["spec"][ENDPOINTS[kind_of(monitor)]]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "serverName": f"{FULLNAME}.{NAMESPACE}.svc",
        "ca": {"secret": {"name": "certificate", "key": "ca.crt"}},
    }
    elsewhere = tls | {monitor: {"enabled": True, "namespace": "monitoring"}}
    assert "give it a tlsConfig" in refusal(elsewhere)
    told = tls | {monitor: elsewhere[monitor] | {"tlsConfig": {"insecureSkipVerify": True}}}
    assert render(told).one(kind_of(monitor))["metadata"]["namespace"] == "monitoring"


def test_annotations_tell_a_prometheus_without_an_operator() -> None:
    values: dict[str, Any] = {
        "scrapeAnnotations": {"enabled": True},
        "ports": {"metrics": 9999, "otlp": 4318},
    }
    expected = {
        "prometheus.io/scrape": "true",
        "prometheus.io/scheme": "http",
        "prometheus.io/port": "9999",
        "prometheus.io/path": "/metrics",
    }
    assert render(values).one("Service", FULLNAME)["metadata"]["annotations"] == expected
    own = {"prometheus.io/scheme": "https", "note": "a"}
    service = render(values | {"service": {"annotations": own}}).one("Service", FULLNAME)
    assert service["metadata"]["annotations"] == expected | own


@pytest.mark.parametrize("first", [*MONITORS, "scrapeAnnotations"])
def test_the_three_exclude_each_other(first: str) -> None:
    for second in {*MONITORS, "scrapeAnnotations"} - {first}:
        assert f"{second}" in refusal({first: {"enabled": True}, second: {"enabled": True}})


def test_no_label_of_the_page_is_one_of_a_target() -> None:
    """So honorLabels decides nothing, and no `exported_...` label appears."""
    of_targets = {"job", "instance", "namespace", "pod", "service", "container", "endpoint", "node"}
    page = {label for family in catalog.FAMILIES for label in family.labels}
    assert page & of_targets == set()
