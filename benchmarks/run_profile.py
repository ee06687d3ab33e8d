"""Where the time of one run goes, how stale its samples are, and what its telemetry costs.

    python -m benchmarks.run_profile [--versions 80] [--set KEY=VALUE ...]

Busy fractions are of the version windows, sums over all versions, from the exporter's history: start-up is in
none. The distributions are its histograms, over all responses that the run trained on; `(2, 4]` is above 2, at most 4.
Telemetry's processor time is that of the whole run, start-up included, in all its processes but the exporter.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.machine import machine
from benchmarks.training_run import POLL_SECONDS, Exporter, running_exporter, train

MOST_VERSIONS = 100_000
SUMMARY = (
    "exact_match_first",
    "exact_match_last",
    "exact_match_greedy",
    "overlap_ratio",
    "trainer_idle_ratio_mean",
    "rollouter_idle_ratio_mean",
    "staleness_mean",
    "staleness_max",
    "update_lag_mean",
    "responses_spanning_versions",
    "wall_seconds",
    "device",
)
DISTRIBUTIONS = ("staleness", "update_lag", "response_span")
"""All in versions or updates of the oldest token of a response."""


def wait_sealed(exporter: Exporter) -> None:
    """The exporter gives up on what is missing, so this ends."""
    while any(run["open_windows"] for run in exporter.get("/api/v1/runs").json()["runs"]):
        time.sleep(POLL_SECONDS)


def shares(windows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """State -> its share of the time of these windows, the largest first."""
    seconds: Counter[str] = Counter()
    for window in windows:
        seconds.update(window["state_seconds"])
    return {state: value / seconds.total() for state, value in seconds.most_common() if value}


def histogram(page: str, metric: str) -> dict[str, float]:
    """Bucket -> share of the values in it; buckets without values left out."""
    cumulative = {
        sample.labels["le"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith(f"asyncrl_{metric}_") and sample.name.endswith("_bucket")
    }
    buckets = pairwise([("-Inf", 0.0), *cumulative.items()])
    counts = {f"({low}, {high}]": upto - below for (low, below), (high, upto) in buckets}
    return {bucket: count / sum(counts.values()) for bucket, count in counts.items() if count}


def line(title: str, values: dict[str, float]) -> None:
    print(f"{title:28}" + "   ".join(f"{name} {value:.3f}" for name, value in values.items()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--versions", type=int, default=80)
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="any setting of the run"
    )
    arguments = parser.parse_args()
    settings = {"versions": arguments.versions, **dict(text.split("=", 1) for text in arguments.set)}
    print(machine())
    with TemporaryDirectory(prefix="asyncrl-bench-") as name, running_exporter(Path(name)) as exporter:
        run = train(Path(name), exporter.otlp, settings)
        wait_sealed(exporter)
        page = exporter.get("/metrics").text
        path = f"/api/v1/runs/{run.summary['run_id']}/versions?limit={MOST_VERSIONS}"
        versions = exporter.get(path).json()["versions"]
    line("trainer", shares(version["trainer"] for version in versions))
    line("rollouters", shares(window for version in versions for window in version["rollouters"].values()))
    for metric in DISTRIBUTIONS:
        line(f"{metric} of responses", histogram(page, metric))
    steps, telemetry = run.summary["train_steps"], run.summary["telemetry"]
    for key in SUMMARY:
        value = run.summary[key]
        print(f"{key:28}{round(value, 4) if isinstance(value, float) else value}")
    print(f"{'train steps':28}{steps}, {run.steps_per_second:.3f} per second")
    print(f"{'telemetry':28}{1000 * telemetry['cpu_seconds'] / steps:.3f} ms of CPU per step")
    print(f"{'telemetry spans':28}{telemetry['sent'] / steps:.1f} per step, dropped {telemetry['dropped']}")


if __name__ == "__main__":
    main()
