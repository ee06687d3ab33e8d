"""One alert, and the expressions that several of them are made of."""

from typing import Final, Literal

import msgspec

from dashboards.promql import HOME_LABELS, REPLICA_LABELS, RUN, once, selector
from dashboards.thresholds import limit
from exporter import catalog
from exporter.catalog import Family

RUNBOOKS: Final = "https://github.com/asyncrl/asyncrl-exporter/blob/main/docs/runbooks"
PREFIX: Final = "AsyncRL"

Severity = Literal["critical", "warning", "info", "none"]

RUNNING: Final = "asyncrl:run:running"
SETTLED: Final = "asyncrl:run:settled"
"""Recorded in recording.py: runs that are running, and those that have done so for a while."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that somebody acts on; its runbook says how. `hold` and `keep` name durations."""

    name: str
    severity: Severity
    expr: str
    hold: str = ""
    """How long the condition lasts before it fires: `for`."""
    keep: str = ""
    """How long it goes on firing without the condition: `keep_firing_for`."""
    summary: str
    description: str
    """With the run and the value."""

    @property
    def runbook_url(self) -> str:
        return f"{RUNBOOKS}/{self.name}.md"


def running(condition: str) -> str:
    """Where the run is running: what is finished wakes nobody."""
    return f"({condition}) and on ({RUN}) {RUNNING}"


def settled(condition: str) -> str:
    """Where the run is running, and its attempt is no longer warming up."""
    return f"({condition}) and on ({RUN}) {SETTLED}"


def established(condition: str) -> str:
    """Where the run was settled already when its baseline ended: the first versions are usual for nothing."""
    return f"{settled(condition)} and on ({RUN}) {SETTLED} offset $baseline_offset"


def latest(selected: str) -> str:
    """The values as of the last scrape that succeeded: a failed one makes nothing of what went before."""
    return once(f"last_over_time({selected}[$bridge])")


def any_of(series: str, *labels: str) -> str:
    """What some exporter of the job says at most. By its home, whatever else a target is labelled with - its zone, the
    chart that installed it -, for no exporter is the only one of its job because of that."""
    return f"max by ({', '.join((*HOME_LABELS, *labels))}) ({series})"


def all_of(series: str, *labels: str) -> str:
    """What every exporter of the job says at least: one that joined late misses what was before, and lost nothing."""
    return f"min by ({', '.join((*HOME_LABELS, *labels))}) ({series})"


def earliest(series: str) -> str:
    """A time as the exporter says it that has known the run longest."""
    return f"min without ({', '.join(REPLICA_LABELS)}) ({series})"


STARTED: Final = earliest(f"last_over_time({selector(catalog.ATTEMPT_START)}[$bridge])")
"""When the current attempt of a run began."""


def happened(event: Family) -> str:
    """Seconds since an event of the current attempt, if it is news: one exporter that saw it is enough."""
    return _news(any_of(_in_this_attempt(event), "run"))


def missed(event: Family) -> str:
    """The same of an event that an exporter which was away only imagines: none of the run is without it."""
    return _news(all_of(_in_this_attempt(event), "run"))


def _in_this_attempt(event: Family) -> str:
    time_of_event, start = (
        f"last_over_time({selector(family)}[$bridge])" for family in (event, catalog.ATTEMPT_START)
    )
    return f"({time_of_event} > {start}) or {start} * 0"


def _news(at: str) -> str:
    return f"time() - ({at} > 0) < {limit('event_seconds')}"


def so_far(counter: Family) -> str:
    """For a description: what a counter of the alert's run has counted, by its label beside the run. A label that the
    alert lacks is empty, which is what series without it match."""
    own = (*HOME_LABELS, "run")
    (label,) = counter.labels[1:]
    series = selector(counter, *(f"{name}=%q" for name in own))
    values = " ".join(f"$labels.{name}" for name in own)
    found = f"{{{{ range printf `max by ({label}) ({series}) > 0` {values} | query }}}}"
    return f" So far:{found} {{{{ .Labels.{label} }}}} {{{{ .Value | humanize }}}};{{{{ end }}}}"
