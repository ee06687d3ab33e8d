"""What becomes of the samples, and how old are they when they are trained on?"""

from typing import Final

from dashboards.alert import Alert, latest, running
from dashboards.promql import increase, once, rate, selector
from dashboards.thresholds import limit
from exporter import catalog

_STALENESS: Final = catalog.metric_family("staleness", "max")
_BUCKETS: Final = selector(catalog.metric_family("staleness"), suffix="_bucket")


def _share(part: str, whole: str) -> str:
    """Of the samples that ended lately with one of the outcomes `whole`, the part that ended with one of `part`."""
    counts = (
        increase(selector(catalog.SAMPLES, f'outcome=~"{outcomes}"'), "$recent") for outcomes in (part, whole)
    )
    return " / ".join(f"sum without (outcome) ({count})" for count in counts)


_USED: Final = "trained|filtered_zero_variance"
_DROPPED: Final = "dropped_stale|dropped_queue_full"

ALERTS: Final = (
    Alert(
        name="AsyncRLStalenessAboveLimit",
        severity="critical",
        expr=running(
            once(f"max_over_time({selector(_STALENESS)}[$recent])")
            + f" > {latest(selector(catalog.STALENESS_LIMIT))}"
        ),
        summary="Run {{ $labels.run }} trains on samples beyond its staleness limit",
        description="A sample of staleness {{ $value }} was trained on, above the limit that run"
        " {{ $labels.run }} states.",
    ),
    Alert(
        name="AsyncRLStalenessHigh",
        severity="warning",
        expr=running(
            f"histogram_quantile(0.95, {rate(_BUCKETS, '$recent')}) > {limit('staleness_versions')}"
        ),
        hold="lasting",
        summary="Run {{ $labels.run }} trains on old samples",
        description="A twentieth of what run {{ $labels.run }} trains on is {{ $value | humanize }} versions old"
        " or older.",
    ),
    Alert(
        name="AsyncRLSamplesDropped",
        severity="warning",
        expr=running(f"{_share(_DROPPED, '.+')} > {limit('dropped_samples_ratio')}"),
        hold="lasting",
        summary="Run {{ $labels.run }} throws samples away",
        description="{{ $value | humanizePercentage }} of the samples of run {{ $labels.run }} were dropped as stale"
        " or for want of room.",
    ),
    Alert(
        name="AsyncRLSamplesFailed",
        severity="warning",
        expr=running(f"{_share('failed', '.+')} > {limit('failed_samples_ratio')}"),
        hold="lasting",
        summary="Samples of run {{ $labels.run }} fail",
        description="{{ $value | humanizePercentage }} of the samples of run {{ $labels.run }} failed.",
    ),
    Alert(
        name="AsyncRLSamplesAllFiltered",
        severity="warning",
        expr=running(f"{_share('filtered_zero_variance', _USED)} > {limit('filtered_samples_ratio')}"),
        hold="sustained",
        summary="Run {{ $labels.run }} has nothing to learn from",
        description="{{ $value | humanizePercentage }} of the consumed samples of run {{ $labels.run }} have equal"
        " rewards within their group and are filtered out.",
    ),
)
