"""Failures of boards in the field, by the numbers of the list of cases: C58, C60, C61, C62."""

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dashboards.promql import REPORTED
from dashboards.queries import QUERIES
from exporter import catalog
from exporter.catalog import FAMILY_BY_NAME, Family
from tests.dashboards.board_files import ALL, BOARDS, ONE, RULES, distinct, expressions, panels, selected
from tests.dashboards.every_family import OURS, RESUMED_AT, EveryFamily
from tests.exporter.conftest import StartExporter
from tests.otlp_sink import OtlpSink
from tests.prometheus import require_binary
from tests.wire import Scrape, scrape_until

DCGM_PAGE: Final = Path(__file__).with_name("dcgm_page.txt")
VERSIONS: Final = 8
NEWEST: Final = str(VERSIONS)
SAMPLES: Final = 12
"""Scrapes that a board has seen."""
PROMETHEUS: Final = {"type": "prometheus", "uid": "${datasource}"}
OF_PROMETHEUS: Final = {"ALERTS", "ALERTS_FOR_STATE", "up", "scrape_duration_seconds"}
FIRING: Final = {"alertname": "AsyncRLStalled", "severity": "warning", "run": OURS}
NOT_ON_THE_PAGE: Final = {
    catalog.LAST_EVICTED.name: "a version leaves the page unseen only where more come than its hard cap holds",
    catalog.CERTIFICATE_EXPIRY.name: "only a listener with TLS shows a certificate",
}
MAY_BE_EMPTY: Final = {query.expr for query in QUERIES.values() if query.optional}

Sample = tuple[str, dict[str, str], float]


@pytest.fixture(scope="module")
def page(start_module_exporter: StartExporter) -> Scrape:
    """A page with every family, of a started exporter."""
    with OtlpSink() as sink:
        exporter = start_module_exporter("--grace", "0.5", "--push", sink.url, "--forward-spans", sink.url)
        runs = EveryFamily(exporter.otlp)
        for version in range(1, VERSIONS + 1):
            runs.send(version)
            if version == RESUMED_AT:  # what a resume cuts short is no loss
                scrape_until(
                    exporter.metrics, lambda seen: seen.value(catalog.LAST_INCOMPLETE.name, run=OURS)
                )
        sealed: dict[str, str | int] = {"run": OURS, "attempt": 2, "param_version": VERSIONS}
        return scrape_until(
            exporter.metrics, lambda seen: seen.value("asyncrl_version_complete", **sealed) is not None
        )


def promtool_test(folder: Path, tests: list[dict[str, Any]]) -> None:
    """All of them in one call; what fails is told with its expression."""
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [], "tests": tests}, width=10_000), encoding="utf-8")
    command: list[str | Path] = [require_binary("promtool"), "test", "rules", path]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def written(name: str, labels: dict[str, str]) -> str:
    pairs = [f'{label}="{value}"' for label, value in labels.items()]
    return f"{name}{{{','.join(pairs)}}}"


def holds(expr: str, at_seconds: int) -> dict[str, Any]:
    """That an expression is 1 and has no labels."""
    return {
        "expr": expr,
        "eval_time": f"{at_seconds}s",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


def data_sources(value: Any) -> Iterable[Any]:
    """Every data source that is named at any depth."""
    if isinstance(value, dict):
        if "datasource" in value:
            yield value["datasource"]
        for inner in value.values():
            yield from data_sources(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from data_sources(inner)


@pytest.mark.parametrize("name", BOARDS)
def test_c58_every_query_asks_the_data_source_that_the_reader_chose(name: str) -> None:
    board = BOARDS[name]
    text = json.dumps(board)
    assert "__inputs" not in text
    assert "__requires" not in text
    assert not re.search(r"\$\{?DS_", text)
    variables = [variable for variable in board["templating"]["list"] if variable["name"] == "datasource"]
    assert [(variable["type"], variable["query"]) for variable in variables] == [("datasource", "prometheus")]
    assert board["templating"]["list"][0]["name"] == "datasource", "the others are asked of it"
    assert all(source == PROMETHEUS for source in data_sources(board))
    for panel in panels(board):
        for target in panel.get("targets", []):
            assert target["datasource"] == panel["datasource"] == PROMETHEUS
    for variable in board["templating"]["list"]:
        assert variable["type"] != "query" or variable["datasource"] == PROMETHEUS
    assert all(mark["datasource"] == PROMETHEUS for mark in board["annotations"]["list"])


def scraped(page: Scrape) -> list[Sample]:
    """What Prometheus has of the page and of a dcgm-exporter, and of an alert that fires; of the version window
    the newest version, which has all there is."""
    of_gpus = [
        (name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value))
        for name, labels, value in re.findall(
            r"^(\w+)\{(.*)\} (\S+)$", DCGM_PAGE.read_text("utf-8"), re.MULTILINE
        )
    ]
    of_runs = [(name, dict(labels), value) for (name, labels), value in page.samples.items()]
    alerts: list[Sample] = [
        ("ALERTS", {"alertstate": "firing", **FIRING}, 1),
        ("ALERTS_FOR_STATE", FIRING, 1),
    ]
    return [
        (name, labels, value)
        for name, labels, value in [*of_runs, *of_gpus, *alerts]
        if not name.endswith("_created") and labels.get("param_version", NEWEST) == NEWEST
    ]


def moving(sample: Sample) -> str:
    """Its values by promtool: what counts goes on counting, the more the higher its bucket; a gauge stays."""
    name, labels, value = sample
    if name.endswith(("_total", "_count", "_sum", "_VIOLATION")):
        return f"1+1x{SAMPLES}"
    if name.endswith("_bucket"):
        step = 1000.0 if labels["le"] == "+Inf" else 500 + min(400.0, max(-400.0, float(labels["le"])))
        return f"0+{step:g}x{SAMPLES}"
    return f"{value!r}+0x{SAMPLES}"


def of_another_job(samples: list[Sample]) -> list[Sample]:
    """The same runs, published by an exporter that Prometheus calls differently: no query may stumble over it."""
    return [
        (name, {**labels, "job": "another"}, value) for name, labels, value in samples if "job" not in labels
    ]


def test_c60_every_panel_has_data_however_long_the_scrape_interval(page: Scrape, tmp_path: Path) -> None:
    """At 15, 60 and 120 s, with the rate interval that Grafana chooses then."""
    samples = scraped(page)
    texts = [one for one in distinct(expressions()) if one.text not in MAY_BE_EMPTY]
    tests = []
    for interval in (15, 60, 120):
        at = interval * SAMPLES
        given = [one.given(ALL, rate=f"{4 * interval}s", window=f"{at}s") for one in texts]
        tests.append(
            {
                "name": f"{interval} s",
                "interval": f"{interval}s",
                "input_series": [
                    {"series": written(name, labels), "values": moving((name, labels, value))}
                    for name, labels, value in [*samples, *of_another_job(samples)]
                ],
                "promql_expr_test": [holds(f"count({text}) > bool 0", at) for text in given],
            }
        )
    promtool_test(tmp_path, tests)


RATIOS: Final = [
    family
    for family in catalog.FAMILIES
    if (family.kind, family.low, family.high) == ("gauge", 0, 1)
    and not {"state", "status"} & {*family.labels}
]


def ratio_series(run: str, value: float) -> list[dict[str, str]]:
    """Every ratio of a run, all of the same value."""
    labels = {"run": run, "attempt": "1", "param_version": "7", "rollouter": "0"}
    return [
        {
            "series": written(family.name, {label: labels[label] for label in family.labels}),
            "values": f"{value}+0x{SAMPLES}",
        }
        for family in RATIOS
    ]


def test_c61_a_panel_of_one_run_shows_its_value_and_one_of_all_runs_the_values_of_each(
    tmp_path: Path,
) -> None:
    """Two runs, at 0.2 and 0.8: of the first 0.2, or 0.8 where it is said of the rest; never 0.5 of both."""
    names = {family.name for family in RATIOS}
    texts = [
        one
        for one in distinct(expressions())
        if (asked := {each.name for each in selected(one.given(ALL)) if REPORTED not in each.name})
        and asked <= names
    ]
    assert len(texts) > len(BOARDS)
    rest = 1 - 0.9
    checks = []
    for one in texts:
        of_a, of_all = one.given(ONE), one.given(ALL)
        checks.append(holds(f"count(({of_a}) == 0.2 or ({of_a}) == 0.8) == bool count({of_a})", 60))
        shown = " or ".join(f"({of_all}) == {value}" for value in (0.2, 0.8, 0.9, rest))
        checks.append(holds(f"count({shown}) == bool count({of_all})", 60))
        checks.append(holds(f"count({of_all}) == bool 2 * count({of_a})", 60))
    series = [*ratio_series("a", 0.2), *ratio_series("b", 0.9)]
    promtool_test(tmp_path, [{"interval": "15s", "input_series": series, "promql_expr_test": checks}])


def test_c61_the_run_variable_lists_what_was_there_in_the_time_range() -> None:
    for board in BOARDS.values():
        (run,) = [variable for variable in board["templating"]["list"] if variable["name"] == "run"]
        assert run["query"]["query"] == f"label_values({catalog.RUN_STATUS.name}, run)"
        assert run["refresh"] == 2, "asked for again whenever the time range changes"
        assert run["current"]["value"] == ["$__all"]


def parts(family: Family) -> set[str]:
    """The names of a family's series."""
    if family.kind == "histogram":
        return {f"{family.name}{end}" for end in ("_bucket", *(() if family.signed else ("_sum", "_count")))}
    return {family.name}


def test_c62_every_name_and_label_of_boards_and_rules_is_on_a_real_page(page: Scrape) -> None:
    labels_of: dict[str, set[str]] = {}
    for name, labels, _ in scraped(page):
        labels_of.setdefault(name, set()).update(labels)
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    texts = [one.given(ALL) for one in distinct(expressions())] + [rule["expr"] for rule in RULES]
    missing, unlabelled = set(), set()
    for one in (each for text in texts for each in selected(text)):
        if one.name in OF_PROMETHEUS | recorded:
            continue
        if one.name not in labels_of:
            missing.add(one.name)
            continue
        asked = {label for label, _, _ in one.matchers} - {"__name__", "job", "instance"}
        if not asked <= labels_of[one.name]:
            unlabelled.add((one.name, *sorted(asked - labels_of[one.name])))
    # A foreign trainer may report any family that there is; what it did not report here is right, too.
    missing -= {name for name in missing if REPORTED in name}
    assert (missing - NOT_ON_THE_PAGE.keys(), unlabelled) == (set(), set())


def test_c62_the_page_has_every_family_of_the_catalogue(page: Scrape) -> None:
    """Or the test above would show less than it says."""
    names = {name for name, _ in page.samples}
    missing = {name for family in FAMILY_BY_NAME.values() for name in parts(family)} - names
    assert missing == set(NOT_ON_THE_PAGE)
