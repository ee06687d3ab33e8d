"""The Services and the account: where telemetry goes, how each pod is reached."""

from tests.helm.chart import FULLNAME, NAMESPACE, refusal, render

PODS = f"{FULLNAME}-pods"


def ports(service: dict[str, object]) -> dict[str, int]:
    spec = service["spec"]
    assert isinstance(spec, dict)
    return {port["name"]: port["port"] for port in spec["ports"]}


def test_one_exporter_takes_and_shows_everything_at_one_address() -> None:
    rendered = render({"ports": {"metrics": 9999, "otlp": 4444}})
    service = rendered.one("Service", FULLNAME)
    assert ports(service) == {"metrics": 9999, "otlp": 4444}
    container_ports = {port["name"]: port["containerPort"] for port in rendered.container()["ports"]}
    assert container_ports == {"metrics": 9999, "otlp": 4444}
    settings = rendered.settings()
    assert (settings["listen"], settings["otlp"]) == ("0.0.0.0:9999", "0.0.0.0:4444")


def test_with_replicas_ingest_is_at_each_pod_and_shared_out_by_no_service() -> None:
    rendered = render({"replicas": 2})
    assert ports(rendered.one("Service", FULLNAME)) == {"metrics": 9810}
    pods = rendered.one("Service", PODS)
    assert ports(pods) == {"metrics": 9810, "otlp": 4318}
    assert pods["spec"]["clusterIP"] == "None"
    assert pods["spec"]["publishNotReadyAddresses"] is True
    assert rendered.one("StatefulSet")["spec"]["serviceName"] == PODS
    hosts = [f"{FULLNAME}-{number}.{PODS}.{NAMESPACE}.svc" for number in (0, 1)]
    assert f"--hosts={','.join(hosts)}" in rendered.test_pod()["spec"]["containers"][0]["args"]


def test_the_service_has_the_type_and_annotations_that_are_asked_for() -> None:
    service = render(
        {"service": {"type": "LoadBalancer", "annotations": {"lb.example/internal": "true"}}}
    ).one("Service", FULLNAME)
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["annotations"] == {"lb.example/internal": "true"}
    assert "annotations" not in render().one("Service", FULLNAME)["metadata"]


def test_both_listeners_bind_the_address_that_is_asked_for() -> None:
    settings = render({"bindAddress": "[::]"}).settings()
    assert (settings["listen"], settings["otlp"]) == ("[::]:9810", "[::]:4318")
    for wrong in ("::", "0.0.0.0:9810", "", "foo bar", "[x]", "999.1.1.1", "127.0.0.1"):
        assert "bindAddress" in refusal({"bindAddress": wrong})


def test_two_listeners_on_one_port_are_refused_with_both_names() -> None:
    said = refusal({"ports": {"metrics": 9000, "otlp": 9000}})
    assert "ports.metrics and ports.otlp must differ, both are 9000" in said


def test_the_account_is_made_or_named_and_has_no_token() -> None:
    rendered = render({"serviceAccount": {"annotations": {"iam.example/role": "none"}}})
    account = rendered.one("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["annotations"] == {"iam.example/role": "none"}
    assert rendered.pod()["spec"]["serviceAccountName"] == account["metadata"]["name"] == FULLNAME
    for values, name in (
        ({"create": False}, "default"),
        ({"create": False, "name": "theirs"}, "theirs"),
        ({"create": True, "name": "ours"}, "ours"),
    ):
        rendered = render({"serviceAccount": values})
        assert [each["metadata"]["name"] for each in rendered.all("ServiceAccount")] == (
            [name] if values["create"] else []
        )
        assert rendered.pod()["spec"]["serviceAccountName"] == name
        assert rendered.test_pod()["spec"]["serviceAccountName"] == name
