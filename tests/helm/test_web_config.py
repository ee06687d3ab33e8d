"""Secret and Certificate: who is asked for what, and by which files the exporter knows."""

import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.web_config import load_web_config
from tests.helm.chart import FULLNAME, HELM_MAJORS, NAMESPACE, ROOT, Rendered, refusal, render

CERT_MANAGER = {
    "tls": {"certManager": {"enabled": True, "issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}}
}
TLS_SECTION = {"cert_file": "/etc/asyncrl/tls/tls.crt", "key_file": "/etc/asyncrl/tls/tls.key"}


def web_configs(rendered: Rendered) -> dict[str, Any]:
    data = rendered.one("Secret")["stringData"]
    return {name: yaml.safe_load(data[name]) for name in ("ingest.yml", "scrape.yml")}


def volumes(rendered: Rendered) -> dict[str, Any]:
    return {volume["name"]: volume for volume in rendered.pod()["spec"]["volumes"]}


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_a_random_token_guards_ingest_and_history_and_leaves_metrics_open(major: str) -> None:
    rendered = render(major=major)
    secret = rendered.one("Secret")
    token = secret["stringData"]["token"]
    assert len(token) == 48
    tokens = {"ingest": sha256(token.encode()).hexdigest()}
    assert web_configs(rendered) == {
        "ingest.yml": {"bearer_tokens": tokens},
        "scrape.yml": {"bearer_tokens": tokens, "open_paths": ["/metrics"]},
    }
    assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert token not in rendered.text.replace(f'token: "{token}"', "")
    other = render({"fullnameOverride": FULLNAME}, major=major).one("Secret")["stringData"]["token"]
    assert other != token


def test_the_exporter_gets_the_files_and_only_the_test_pod_the_token() -> None:
    rendered = render()
    settings = rendered.settings()
    assert settings["web_config"] == "/etc/asyncrl/web-config/scrape.yml"
    assert settings["otlp_web_config"] == "/etc/asyncrl/web-config/ingest.yml"
    assert "insecure" not in settings
    mounted = volumes(rendered)["web-config"]["secret"]
    assert mounted["secretName"] == rendered.one("Secret")["metadata"]["name"]
    assert [item["path"] for item in mounted["items"]] == ["scrape.yml", "ingest.yml"]
    test = {volume["name"]: volume for volume in rendered.test_pod()["spec"]["volumes"]}
    assert [item["key"] for item in test["token"]["secret"]["items"]] == ["token"]


def test_a_secret_of_yours_takes_the_place_of_the_generated_one() -> None:
    rendered = render({"auth": {"existingSecret": "mine"}})
    assert rendered.all("Secret") == []
    assert volumes(rendered)["web-config"]["secret"]["secretName"] == "mine"
    assert rendered.settings() == render().settings()
    assert "secretName: mine" in yaml.safe_dump(rendered.test_pod())


def test_insecure_asks_nobody_and_says_so_to_the_exporter() -> None:
    rendered = render({"auth": {"insecure": True}})
    assert rendered.all("Secret") == []
    assert rendered.settings()["insecure"] is True
    assert "web_config" not in rendered.settings()
    assert set(volumes(rendered)) == {"tmp", "config"}
    assert "token" not in yaml.safe_dump(rendered.test_pod()["spec"]["containers"][0]["args"])
    assert "existingSecret" in refusal({"auth": {"insecure": True, "existingSecret": "mine"}})


def test_a_certificate_of_yours_is_mounted_and_named_in_both_files() -> None:
    rendered = render({"tls": {"existingSecret": "certificate"}})
    assert volumes(rendered)["tls"]["secret"]["secretName"] == "certificate"
    assert {config["tls_server_config"]["cert_file"] for config in web_configs(rendered).values()} == {
        TLS_SECTION["cert_file"]
    }
    assert all(config["tls_server_config"] == TLS_SECTION for config in web_configs(rendered).values())
    container = rendered.container()
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    arguments = rendered.test_pod()["spec"]["containers"][0]["args"]
    assert {"--scheme=https", "--ca-file=/etc/asyncrl/tls/ca.crt"} <= set(arguments)
    assert rendered.all("Certificate") == []


def test_tls_without_credentials_is_tls_alone() -> None:
    rendered = render({"auth": {"insecure": True}, "tls": {"existingSecret": "certificate"}})
    assert web_configs(rendered) == {
        "ingest.yml": {"tls_server_config": TLS_SECTION},
        "scrape.yml": {"tls_server_config": TLS_SECTION},
    }
    assert "token" not in rendered.one("Secret")["stringData"]
    assert rendered.settings()["insecure"] is True


def test_cert_manager_signs_every_name_by_which_an_exporter_is_reached() -> None:
    values = {
        "replicas": 2,
        "tls": {"certManager": CERT_MANAGER["tls"]["certManager"] | {"dnsNames": ["exporter.example"]}},
    }
    rendered = render(values)
    certificate = rendered.one("Certificate")["spec"]
    assert certificate["issuerRef"] == {"name": "ca", "kind": "ClusterIssuer"}
    assert certificate["secretName"] == volumes(rendered)["tls"]["secret"]["secretName"]
    assert certificate["dnsNames"] == [
        f"{FULLNAME}.{NAMESPACE}.svc",
        f"{FULLNAME}.{NAMESPACE}",
        f"*.{FULLNAME}-pods.{NAMESPACE}.svc",
        f"*.{FULLNAME}-pods.{NAMESPACE}",
        "exporter.example",
    ]
    assert certificate["duration"] == "2160h"
    assert "renewBefore" not in certificate  # a third of any duration, as cert-manager has it


def test_one_source_of_certificates_and_an_issuer_that_signs_them() -> None:
    both: dict[str, Any] = {"tls": CERT_MANAGER["tls"] | {"existingSecret": "certificate"}}
    assert "existingSecret" in refusal(both)
    assert "issuerRef" in refusal({"tls": {"certManager": {"enabled": True}}})
    nobody: dict[str, Any] = {"enabled": True, "issuerRef": {"name": ""}}
    assert "name" in refusal({"tls": {"certManager": nobody}})


def test_the_secret_that_the_guide_makes_is_one_that_the_exporter_takes(tmp_path: Path) -> None:
    section = (
        (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8").partition("`auth.existingSecret`:")[2]
    )
    commands = section.partition("```bash")[2].partition("```")[0]
    made = subprocess.run(
        ["bash", "-euc", f'kubectl() {{ printf "%s\\n" "$@"; }}\n{commands}'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (token,) = re.findall("^--from-literal=token=(.+)$", made.stdout, re.MULTILINE)
    assert re.findall("^--from-file=(.+)$", made.stdout, re.MULTILINE) == ["ingest.yml", "scrape.yml"]
    ingest, scrape = (load_web_config(tmp_path / name) for name in ("ingest.yml", "scrape.yml"))
    assert ingest.bearer_tokens == scrape.bearer_tokens == {"ingest": sha256(token.encode()).hexdigest()}
    assert (ingest.open_paths, scrape.open_paths) == ((), ("/metrics",))
