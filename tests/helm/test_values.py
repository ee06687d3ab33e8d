"""The values: a typo is refused, null and global are not, and the exporter's settings are the exporter's."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from exporter.config import CHOICES, ExporterConfig
from exporter.errors import ConfigError
from exporter.settings import SETTINGS
from exporter.upstream import check_base_url
from tests.helm.chart import CHART, HELM_MAJORS, copy_chart, objects_in, refusal, render, run_helm

OF_THE_CHART = {"listen", "otlp", "data_dir", "endpoints_file", "web_config", "otlp_web_config", "insecure"}
"""Settings that the chart decides."""
NEEDED = ("replicas", "bindAddress", "image", "image.repository", "ports", "ports.metrics", "ports.otlp")
"""Values without which nothing can be rendered."""
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{name}.")


def at(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    found = SCHEMA if "$ref" in schema else schema
    for name in schema.get("$ref", "").split("/")[1:]:
        found = found[name]
    return found


def blocks(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every map with names of its own."""
    schema = resolve(schema)
    if "properties" in schema:
        yield path, schema
        for name, inner in schema["properties"].items():
            yield from blocks(inner, f"{path}.{name}".strip("."))


def test_a_typo_is_refused_in_every_map() -> None:
    assert [path for path, block in blocks(SCHEMA) if block["additionalProperties"] is not False] == []


@pytest.mark.parametrize("major", HELM_MAJORS)
@pytest.mark.parametrize("path", ["serviceMonitr.enabled", "serviceMonitor.enable", "config.grace"])
def test_helm_says_which_name_is_the_typo(path: str, major: str) -> None:
    said = refusal(at(path, 1), major=major)
    assert path.rpartition(".")[2] in said or path.partition(".")[0] in said
    assert "additional" in said.lower()


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_null_stands_for_a_value_that_is_not_given(major: str) -> None:
    optional = [path for path in paths(VALUES) if path not in NEEDED]
    blocks_off = {path: None for path in optional if "." not in path}
    leaves_off: dict[str, Any] = {}
    for path in optional:
        block, _, name = path.rpartition(".")
        if block and isinstance(VALUES.get(block), dict) and not isinstance(VALUES[block].get(name), dict):
            leaves_off.setdefault(block, {})[name] = None
    for values in (blocks_off, leaves_off):
        rendered = render(values, major=major)
        assert "null" not in rendered.text
        assert "<no value>" not in rendered.text
        assert rendered.one("StatefulSet")["spec"]["replicas"] == 1
    for path in NEEDED:
        assert path.rpartition(".")[2] in refusal(at(path, None), major=major)


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_a_chart_that_hands_down_globals_and_nulls_may_contain_this_one(major: str, tmp_path: Any) -> None:
    (tmp_path / "charts").mkdir()
    copy_chart(tmp_path).rename(tmp_path / "charts" / "asyncrl-exporter")
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: parent, version: 0.1.0}")
    values = {
        "global": {"x": 1},
        "asyncrl-exporter": {"global": {"y": {}}, "nodeSelector": None, "auth": None},
    }
    run = run_helm(major, "template", "rel", str(tmp_path), "--values", "-", stdin=json.dumps(values))
    assert run.returncode == 0, run.stderr
    assert [each["kind"] for each in objects_in(run.stdout)].count("StatefulSet") == 1


def test_the_settings_are_those_of_the_exporter() -> None:
    section = SCHEMA["properties"]["config"]["properties"]
    assert set(section) == set(SETTINGS) - OF_THE_CHART
    for name, reference in section.items():
        schema = resolve(reference)
        if "enum" in schema:
            assert tuple(schema["enum"][:-1]) == CHOICES[name]
            continue
        if (least := schema.get("minimum")) is not None:
            ExporterConfig(**{name: least})
            with pytest.raises(ConfigError):
                ExporterConfig(**{name: least - 1})
        if "exclusiveMinimum" in schema:
            with pytest.raises(ConfigError):
                ExporterConfig(**{name: schema["exclusiveMinimum"]})
        whole = schema["type"][0] == "integer"
        assert whole == (SETTINGS[name] is int), name


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://c",
            "https://c/",
            "http://c:4318",
            "http://c:65535/otlp/",
            "http://[fd00::1]:1/x",
            "http://c/v1",
        ),
        *(
            "http://c:4318/v1/metrics",
            "https://c/v1/traces/",
            "http://c:65536",
            "http://c:99999",
            "http://c:x",
        ),
        *("http://", "http://u:p@c", "http://c/?a=b", "http://c#a", "http://:80", "ftp://c", "c:4318"),
    ],
)
def test_an_address_is_taken_by_the_schema_if_the_exporter_takes_it(url: str) -> None:
    schema = SCHEMA["definitions"]["url"]
    taken = re.search(schema["pattern"], url) and not re.search(schema["not"]["pattern"], url)
    try:
        check_base_url("push", url, own=())
    except ConfigError:
        assert not taken
    else:
        assert taken


@pytest.mark.parametrize("major", HELM_MAJORS)
def test_zero_and_nonsense_are_refused_as_texts_too_and_all_at_once(major: str) -> None:
    config = {
        "abandon_after_seconds": "0.0",
        "retention_days": "0",
        "push": "http://c:4318/v1/metrics",
        "forward_spans": "http://c:99999",
    }
    said = refusal({"config": config}, major=major)
    assert [name for name in config if name not in said] == []
    taken = {"abandon_after_seconds": "0.5", "retention_days": "10", "push": "http://c:4318/otlp"}
    expected = {"abandon_after_seconds": 0.5, "retention_days": 10, "push": "http://c:4318/otlp"}
    assert expected.items() <= render({"config": taken}, major=major).settings().items()


def test_a_setting_that_the_exporter_would_refuse_is_refused_by_helm() -> None:
    for path, value in (
        ("config.grace_seconds", -1),
        ("config.series_budget", 1.5),
        ("config.journal_mode", "delete"),
        ("config.push", "prometheus:9090"),
        ("config.retention_days", 0),
        ("config.listen", "0.0.0.0:1"),
    ):
        assert path.rpartition(".")[2] in refusal(at(path, value))
