"""Can the numbers be believed?

The exporter's own families cannot leave their range: what would is refused and counted. So the ranges of the
catalogue are watched where others computed a value: the reported families of foreign trainers.
"""

from collections.abc import Callable
from typing import Final

from dashboards.alert import Alert, all_of, happened, latest, missed, running, so_far
from dashboards.promql import once, selector
from dashboards.thresholds import limit
from exporter import catalog
from exporter.catalog import PREFIX, Family

_VALUE: Final = "{{ $labels.source }} reports {{ $labels.metric }} = {{ $value }} for run {{ $labels.run }}"


def _reported(wanted: Callable[[Family], bool]) -> str:
    """The reported values of the latest gauges that are wanted; their name is the label `metric`."""
    names = [
        family.name.removeprefix(PREFIX)
        for family in catalog.FAMILIES
        if family.kind == "gauge"
        and family.labels[:1] == ("run",)
        and not {"state", "status", "param_version"} & set(family.labels)
        and wanted(family)
    ]
    choice = "|".join(sorted(names))
    found = f'{{__name__=~"{PREFIX}reported_({choice})"}}'
    return once(f'label_replace(last_over_time({found}[$bridge]), "metric", "$$1", "__name__", "(.+)")')


def _is_ratio(family: Family) -> bool:
    return (family.low, family.high) == (0, 1)


def _is_duration(family: Family) -> bool:
    return family.low == 0 and family.name.endswith("_seconds")


def _takes_time(family: Family) -> bool:
    """Whether it is of something that takes time, however little: a step, a sync, a version."""
    of_metrics = [catalog.METRIC_BY_NAME[name].family("mean") for name in ("step", "weight_sync")]
    return family.name in (*of_metrics, catalog.TRAINER_VERSION.name, catalog.ROLLOUTER_VERSION.name)


def _counts_versions(family: Family) -> bool:
    return family.low == 0 and family.name.endswith(("_versions", "_updates"))


def _longer(part: Family, whole: Family) -> str:
    """Where a reported part is longer than the whole that was reported with it."""
    names = [f"{PREFIX}reported_{family.name.removeprefix(PREFIX)}" for family in (part, whole)]
    return f"{latest(names[0])} > {latest(names[1])} * (1 + {limit('range_tolerance_ratio')})"


def _seen(family: Family) -> str:
    """Exporter by exporter: only what one of them says at one time balances."""
    return f"last_over_time({selector(family)}[$bridge])"


_RATIOS: Final = _reported(_is_ratio)
_DIFFERENCE: Final = " - ".join(
    (
        _seen(catalog.SAMPLES_FED),
        f"sum without (outcome) ({_seen(catalog.SAMPLES)})",
        _seen(catalog.SAMPLES_IN_FLIGHT),
        _seen(catalog.SAMPLES_QUEUED),
    )
)

ALERTS: Final = (
    Alert(
        name="AsyncRLReportedRatioOutOfRange",
        severity="warning",
        expr=running(
            f"{_RATIOS} > 1 + {limit('range_tolerance_ratio')}"
            f" or {_RATIOS} < 0 - {limit('range_tolerance_ratio')}"
        ),
        hold="brief",
        keep="aftermath",
        summary="Run {{ $labels.run }} reports a ratio outside 0..1",
        description=f"{_VALUE}: outside 0..1, so nothing that is concluded from it holds.",
    ),
    Alert(
        name="AsyncRLReportedDurationInvalid",
        severity="warning",
        expr=running(f"{_reported(_is_duration)} < 0 or {_reported(_takes_time)} == 0"),
        hold="brief",
        keep="aftermath",
        summary="Run {{ $labels.run }} reports a duration that cannot be",
        description=f"{_VALUE}: negative, or zero for something that takes time.",
    ),
    Alert(
        name="AsyncRLReportedActiveExceedsVersion",
        severity="warning",
        expr=running(
            f"{_longer(catalog.ROLLOUTER_ACTIVE, catalog.ROLLOUTER_VERSION)}"
            f" or {_longer(catalog.TRAINER_ACTIVE, catalog.TRAINER_VERSION)}"
        ),
        hold="brief",
        keep="aftermath",
        summary="Run {{ $labels.run }} reports more active time than a version has",
        description="{{ $labels.source }} reports {{ $value | humanizeDuration }} of active time in a shorter"
        " version of run {{ $labels.run }}.",
    ),
    Alert(
        name="AsyncRLReportedStalenessNegative",
        severity="warning",
        expr=running(f"{_reported(_counts_versions)} < 0"),
        hold="brief",
        keep="aftermath",
        summary="Run {{ $labels.run }} reports negative staleness",
        description=f"{_VALUE}: a sample that is newer than the weights that trained on it.",
    ),
    Alert(
        name="AsyncRLValuesOutOfRange",
        severity="warning",
        expr=happened(catalog.LAST_OUT_OF_RANGE),
        summary="Run {{ $labels.run }} sends values outside their range",
        description="{{ $value | humanizeDuration }} ago a value of run {{ $labels.run }} was refused."
        + so_far(catalog.OUT_OF_RANGE),
    ),
    Alert(
        name="AsyncRLNonFinite",
        severity="critical",
        expr=happened(catalog.LAST_NONFINITE),
        summary="Run {{ $labels.run }} has NaN or infinite values",
        description="{{ $value | humanizeDuration }} ago a NaN or infinity came from run {{ $labels.run }}."
        + so_far(catalog.NONFINITE_VALUES),
    ),
    Alert(
        name="AsyncRLVersionsIncomplete",
        severity="warning",
        expr=missed(catalog.LAST_INCOMPLETE),
        summary="Versions of run {{ $labels.run }} lack records",
        description="{{ $value | humanizeDuration }} ago a version of run {{ $labels.run }} was sealed incomplete."
        + so_far(catalog.VERSIONS_INCOMPLETE),
    ),
    Alert(
        name="AsyncRLVersionsUnseen",
        severity="warning",
        expr=missed(catalog.LAST_EVICTED),
        summary="Versions of run {{ $labels.run }} left the page before a scrape was sure to see them",
        description="{{ $value | humanizeDuration }} ago versions of run {{ $labels.run }} left the page early;"
        " history has them.",
    ),
    Alert(
        name="AsyncRLVersionBackward",
        severity="critical",
        expr=happened(catalog.LAST_BACKWARD),
        summary="Run {{ $labels.run }} published a version that it had published before",
        description="{{ $value | humanizeDuration }} ago run {{ $labels.run }} published a version at or below its"
        " newest: two trainers, or a counter that was set back.",
    ),
    Alert(
        name="AsyncRLSampleAccountBroken",
        severity="warning",
        expr=running(f"{all_of(f'abs({_DIFFERENCE})', 'run')} > {limit('unaccounted_samples')}"),
        hold="sustained",
        summary="Samples of run {{ $labels.run }} are unaccounted for",
        description="{{ $value | humanize }} samples of run {{ $labels.run }} were fed and neither ended nor wait,"
        " or ended twice.",
    ),
)
