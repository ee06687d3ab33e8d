"""NetworkPolicy and PodDisruptionBudget."""

from typing import Any

from tests.helm.chart import Object, render

ON = {"enabled": True}


def ports_by_namespaces(policy: Object) -> list[tuple[list[Any], list[str]]]:
    return [
        (
            [port["port"] for port in rule["ports"]],
            [
                peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
                for peer in rule["from"]
                if "namespaceSelector" in peer
            ],
        )
        for rule in policy["spec"]["ingress"]
    ]


def test_the_network_stays_open_until_it_is_asked_for() -> None:
    assert render().all("NetworkPolicy") == []
    assert render({"networkPolicy": {"enabled": False, "scrapeNamespaces": ["a"]}}).all("NetworkPolicy") == []


def test_senders_scrapers_and_the_test_pod_are_admitted_and_nobody_else() -> None:
    rendered = render(
        {"networkPolicy": ON | {"ingestNamespaces": ["a", "b"], "scrapeNamespaces": ["m", "n"]}}
    )
    policy = rendered.one("NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert ports_by_namespaces(policy) == [
        (["otlp"], ["a", "b"]),
        (["metrics"], ["m", "n"]),
        (["metrics", "otlp"], []),
    ]
    (test_peer,) = policy["spec"]["ingress"][2]["from"]
    selector = test_peer["podSelector"]["matchLabels"]
    assert selector.items() <= rendered.test_pod()["metadata"]["labels"].items()
    assert not selector.items() <= rendered.pod()["metadata"]["labels"].items()
    assert all(rule["from"] for rule in policy["spec"]["ingress"])  # an empty list would admit everybody


def test_by_default_the_release_s_namespace_sends_and_monitoring_scrapes() -> None:
    policy = render({"networkPolicy": ON}, namespace="training").one("NetworkPolicy")
    assert ports_by_namespaces(policy)[:2] == [(["otlp"], ["training"]), (["metrics"], ["monitoring"])]
    nobody = render({"networkPolicy": ON | {"scrapeNamespaces": []}}).one("NetworkPolicy")
    assert [ports for ports, _ in ports_by_namespaces(nobody)] == [["otlp"], ["metrics", "otlp"]]


def test_out_of_the_pods_go_names_pushes_and_what_is_added() -> None:
    config = {"push": "http://prometheus.m.svc:9090/api/v1/otlp", "forward_spans": "https://tempo.example"}
    extra = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]
    policy = render({"config": config, "networkPolicy": ON | {"extraEgress": extra}}).one("NetworkPolicy")
    dns = {"ports": [{"port": port, "protocol": name} for port in (53, 5353) for name in ("UDP", "TCP")]}
    assert policy["spec"]["egress"] == [
        dns,
        {"ports": [{"port": 9090}]},
        {"ports": [{"port": 443}]},
        *extra,
    ]
    assert render({"networkPolicy": ON}).one("NetworkPolicy")["spec"]["egress"] == [dns]
    ipv6 = render({"config": {"push": "http://[fd00::1]/x"}, "networkPolicy": ON}).one("NetworkPolicy")
    assert ipv6["spec"]["egress"][1] == {"ports": [{"port": 80}]}


def test_a_disruption_budget_holds_up_no_drain_of_a_single_exporter() -> None:
    assert render().all("PodDisruptionBudget") == []
    budget = render({"replicas": 2}).one("PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert render({"replicas": 2, "podDisruptionBudget": {"enabled": False}}).all("PodDisruptionBudget") == []
