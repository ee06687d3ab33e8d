"""Queries of the board `exporter`: who speaks, what did not arrive or was refused, how the exporter itself is doing.

What the exporter says of itself is per instance and has no label `run`; all else is of the chosen runs.
"""

from typing import Final

from dashboards.promql import RATE_WINDOW, by, increase, once, ratio, selector, shown, total
from dashboards.query import Query
from exporter import catalog
from exporter.catalog import Family

SOURCES: Final = 12
"""Lines of a panel that has one for each source."""

_SOURCE: Final = "{{run}} {{role}} {{rollouter}}"
_RUNNING: Final = f"""and on (run) {once(shown(catalog.RUN_STATUS, 'status="running"'))} == 1"""
"""A source may be killed without a word of its end; of a run that has ended nobody waits for it."""
_SILENCE: Final = f"time() - {once(shown(catalog.SOURCE_LAST_SEEN))} {_RUNNING}"
_OFFSET: Final = f"{once(shown(catalog.SOURCE_CLOCK_OFFSET))} {_RUNNING}"
_SEALED: Final = total(once(shown(catalog.VERSIONS_SEALED)), "run")
_COMPLETE: Final = total(once(shown(catalog.VERSIONS_SEALED, 'complete="true"')), "run")
_NO_PUSH: Final = "only with --push"
_NO_TLS: Final = "only with a certificate in the web config file"
_NO_FORWARD: Final = "only with --forward-spans"
_HEALTHY: Final = "nothing of the kind has happened"
_HAPPENED: Final = "something of the kind happens all the time"


def _of_run(what: str, expr: str, legend: str = "{{run}}", optional: str = "") -> Query:
    return Query(id=f"exporter.{what}", expr=expr, legend=legend, optional=optional)


def _events(what: str, family: Family) -> Query:
    """How often something happened, in all chosen runs."""
    return _of_run(what, f"sum({increase(shown(family))})", "all runs")


def _events_by(label: str, what: str, family: Family) -> tuple[Query, Query]:
    """The same by run, and by reason, role or the like; a line at 0 where nothing of the kind happened."""
    series = increase(shown(family))
    legend = f"{{{{run}}}} {{{{{label}}}}}"
    return (
        _of_run(f"{what}_none", f"sum({series}) == 0", "none", _HAPPENED),
        _of_run(f"{what}_by_{label}", f"{total(series, 'run', label)} > 0", legend, _HEALTHY),
    )


def _column(what: str, expr: str) -> Query:
    """Of a table with a row for each source."""
    made = by(expr, "run", "role", "rollouter")
    return Query(id=f"exporter.{what}", expr=made, kind="instant", format="table")


def _own(what: str, expr: str, *labels: str, words: str = "", optional: str = "") -> Query:
    """Of each exporter itself."""
    legend = " ".join(["{{instance}}", *(f"{{{{{label}}}}}" for label in labels), words]).strip()
    return Query(id=f"exporter.{what}", expr=expr, legend=legend, optional=optional)


def _own_gauge(what: str, family: Family, *labels: str, words: str = "", optional: str = "") -> Query:
    return _own(what, selector(family), *labels, words=words, optional=optional)


def _own_rate(what: str, family: Family, *labels: str, words: str = "", optional: str = "") -> Query:
    expr = f"rate({selector(family)}[{RATE_WINDOW}])"
    return _own(what, expr, *labels, words=words, optional=optional)


QUERIES: Final = (
    # Who speaks.
    _of_run("silence", f"topk({SOURCES}, {_SILENCE})", _SOURCE),
    _of_run("clock_offset", f"topk({SOURCES}, abs({_OFFSET}))", _SOURCE),
    _column("source_silence", _SILENCE),
    _column("source_offset", _OFFSET),
    # What did not arrive as it should.
    _of_run("complete_share", f"min({ratio(_COMPLETE, _SEALED)})", "least"),
    _events("lost", catalog.LOST_RECORDS),
    _events("rejected", catalog.REJECTED_RECORDS),
    *_events_by("reason", "incomplete", catalog.VERSIONS_INCOMPLETE),
    *_events_by("role", "lost", catalog.LOST_RECORDS),
    *_events_by("reason", "late", catalog.LATE_RECORDS),
    *_events_by("reason", "rejected", catalog.REJECTED_RECORDS),
    *_events_by("metric", "nonfinite", catalog.NONFINITE_VALUES),
    *_events_by("metric", "out_of_range", catalog.OUT_OF_RANGE),
    *_events_by("kind", "dropped", catalog.TELEMETRY_DROPPED),
    _of_run("evicted", total(increase(shown(catalog.VERSIONS_EVICTED)), "run"), "{{run}} versions unseen"),
    _of_run("attempts_inferred", total(increase(shown(catalog.ATTEMPTS_INFERRED)), "run")),
    _of_run("unknown_spans", total(increase(shown(catalog.UNKNOWN_SPANS)), "run"), "{{run}} unknown spans"),
    _of_run("stride", once(shown(catalog.WINDOW_STRIDE))),
    # The exporter itself.
    Query(
        id="exporter.build", expr=f"count by (version) ({selector(catalog.BUILD_INFO)})", legend="{{version}}"
    ),
    _own_gauge("series", catalog.PAGE_SERIES, words="series"),
    _own_gauge("series_budget", catalog.SERIES_BUDGET, words="budget"),
    _own("series_fill", f"{selector(catalog.PAGE_SERIES)} / {selector(catalog.SERIES_BUDGET)}"),
    _own(
        "dropped_series",
        f"increase({selector(catalog.DROPPED_SERIES)}[{RATE_WINDOW}])",
        "reason",
        words="series left out",
    ),
    _own_gauge("scrape_seconds", catalog.SCRAPE_SECONDS, words="scrape"),
    _own_gauge("render_seconds", catalog.RENDER_SECONDS, words="render"),
    _own_rate("render_errors", catalog.RENDER_ERRORS, words="families not written"),
    _own_rate("scrapes", catalog.SCRAPES, words="scrapes"),
    _own_rate("requests", catalog.OTLP_REQUESTS, "signal", "status"),
    _own_rate("unattributed", catalog.UNATTRIBUTED_RECORDS, "reason", words="of no run", optional=_HEALTHY),
    _own_gauge("ingest_queue", catalog.INGEST_QUEUE_BYTES),
    _own_gauge("journal", catalog.JOURNAL_BYTES),
    _own_gauge("torn_frames", catalog.JOURNAL_TORN),
    _own_gauge("connections", catalog.CONNECTIONS, "listener"),
    _own_rate("connections_ended", catalog.CONNECTIONS_ENDED, "listener", "reason"),
    _own_rate("refused", catalog.REFUSED_REQUESTS, "listener", "status"),
    _own_rate("handshakes_failed", catalog.HANDSHAKES_FAILED, "listener", words="handshake"),
    _own_gauge("reload_failed", catalog.WEB_CONFIG_RELOAD_FAILED, "listener"),
    _own("certificate", f"{selector(catalog.CERTIFICATE_EXPIRY)} - time()", "listener", optional=_NO_TLS),
    _own_gauge("push_queue", catalog.PUSH_QUEUE, optional=_NO_PUSH),
    _own_gauge("push_age", catalog.PUSH_OLDEST_AGE, optional=_NO_PUSH),
    _own_rate("push_points", catalog.PUSH_POINTS, "outcome", optional=_NO_PUSH),
    _own_rate("push_dropped", catalog.PUSH_DROPPED, "reason", optional=_NO_PUSH),
    _own_rate("push_requests", catalog.PUSH_REQUESTS, "status", optional=_NO_PUSH),
    _own_gauge("forward_buffered", catalog.FORWARD_BUFFERED, optional=_NO_FORWARD),
    _own_rate("forward_requests", catalog.FORWARD_REQUESTS, "outcome", optional=_NO_FORWARD),
)
