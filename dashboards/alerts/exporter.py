"""Is the exporter there, does it take what is sent, and does it show all of it?"""

from typing import Final

from dashboards.alert import Alert, all_of, any_of, latest, running
from dashboards.promql import HOME_LABELS, once, rate, selector
from dashboards.thresholds import THRESHOLDS, limit
from exporter import catalog

_BUILD: Final = selector(catalog.BUILD_INFO)
_INSTANCE: Final = ", ".join((*HOME_LABELS, "instance"))
_ONE_OUTAGE: Final = 2
"""`up` changes twice in one outage, which AsyncRLExporterReplicaDown reports; more is flapping."""
_TRIED_OUT: Final = 2
"""Trying a threshold out and taking it back changes it twice; if it changes more often, two rule files set it."""
_THRESHOLDS: Final = '{__name__=~"asyncrl:threshold:(.+)"}'


def _requests(*matchers: str) -> str:
    """What each exporter was asked lately."""
    return f"sum without (signal, status) (increase({selector(catalog.OTLP_REQUESTS, *matchers)}[$bridge]))"


_REFUSED: Final = _requests('status="503"')
_REFUSED_SHARE: Final = f"({_REFUSED} or {_requests()} * 0) / {_requests()}"
"""Not a number where nobody asks: no minimum, and above nothing. A status that was never answered has no series."""

ALERTS: Final = (
    Alert(
        name="AsyncRLWatchdog",
        severity="none",
        expr="vector(1)",
        summary="Alerts reach whoever reads this",
        description="Fires always. Where it stops, something between Prometheus and the receiver is broken.",
    ),
    Alert(
        name="AsyncRLThresholdInvalid",
        severity="warning",
        expr=f"count by (threshold) ({_THRESHOLDS}) > 1"
        f" or max by (threshold) (changes({_THRESHOLDS}[$recent])) > {_TRIED_OUT}"
        f" or (count(count by (threshold) ({_THRESHOLDS})) or vector(0)) < {len(THRESHOLDS)}",
        hold="brief",
        summary="Thresholds of the rules are missing, doubled or unsteady",
        description="Each threshold is to be one series that stands still:"
        " {{ with $labels.threshold }}{{ . }} is not{{ else }}only {{ $value }} of them are there{{ end }}.",
    ),
    Alert(
        name="AsyncRLExporterDown",
        severity="critical",
        expr=f"{any_of(f'last_over_time({_BUILD}[$day])')} unless {any_of(_BUILD)}",
        hold="lasting",
        summary="No exporter of job {{ $labels.job }} answers",
        description="No metrics of any run of job {{ $labels.job }} arrive: nothing else can alert.",
    ),
    Alert(
        name="AsyncRLExporterReplicaDown",
        severity="warning",
        expr=f"max_over_time(up[$bridge]) == 0 and on ({_INSTANCE}) last_over_time({_BUILD}[$day])",
        hold="brief",
        summary="Exporter {{ $labels.instance }} does not answer",
        description="Scrapes of {{ $labels.instance }} (job {{ $labels.job }}) fail.",
    ),
    Alert(
        name="AsyncRLScrapesFailing",
        severity="warning",
        expr=f"avg_over_time(up[$memory]) < {limit('scrape_success_ratio')}"
        f" and changes(up[$memory]) > {_ONE_OUTAGE}"
        f" and on ({_INSTANCE}) last_over_time({_BUILD}[$bridge])",
        hold="lasting",
        summary="Scrapes of exporter {{ $labels.instance }} fail now and then",
        description="{{ $value | humanizePercentage }} of the scrapes of {{ $labels.instance }} succeeded lately.",
    ),
    Alert(
        name="AsyncRLJournalUnavailable",
        severity="critical",
        expr=f"{all_of(_REFUSED_SHARE)} > 0",
        hold="lasting",
        summary="No exporter of job {{ $labels.job }} can write its journal",
        description="Every exporter of job {{ $labels.job }} that is asked answers with 503, at least"
        " {{ $value | humanizePercentage }} of the requests.",
    ),
    Alert(
        name="AsyncRLReplicaJournalUnavailable",
        severity="warning",
        expr=f"{_REFUSED} / {_requests()} > 0",
        hold="lasting",
        summary="Exporter {{ $labels.instance }} cannot write its journal",
        description="{{ $labels.instance }} (job {{ $labels.job }}) answers {{ $value | humanizePercentage }} of the"
        " requests with 503.",
    ),
    Alert(
        name="AsyncRLSeriesBudgetExceeded",
        severity="info",
        expr=running(
            once(f"min_over_time({selector(catalog.WINDOW_STRIDE)}[$smooth])")
            + f" > {limit('window_stride_versions')}"
        ),
        hold="sustained",
        keep="flapping",
        summary="Run {{ $labels.run }} has more series than the budget",
        description="Of run {{ $labels.run }} only every {{ $value }}th version is on the page; history has all.",
    ),
    Alert(
        name="AsyncRLWebConfigRejected",
        severity="warning",
        expr=f"{latest(selector(catalog.WEB_CONFIG_RELOAD_FAILED))} > 0",
        hold="brief",
        summary="The exporter refused its changed web config file",
        description="Listener {{ $labels.listener }} goes on with what it read before.",
    ),
    Alert(
        name="AsyncRLCertificateEnding",
        severity="warning",
        expr=f"last_over_time({selector(catalog.CERTIFICATE_EXPIRY)}[$bridge]) - time()"
        f" < {limit('certificate_seconds')}",
        hold="lasting",
        summary="The certificate of a listener of {{ $labels.instance }} ends soon",
        description="That of listener {{ $labels.listener }} has {{ $value | humanizeDuration }} left (negative: it has"
        " ended); then Prometheus or the trainers stay away.",
    ),
    Alert(
        name="AsyncRLCredentialsRefused",
        severity="warning",
        expr=f"60 * {rate(selector(catalog.REFUSED_REQUESTS), '$bridge')}"
        f" > {limit('refused_requests_per_minute')}",
        hold="lasting",
        keep="aftermath",
        summary="Somebody keeps showing the exporter wrong credentials",
        description="Listener {{ $labels.listener }} refuses {{ $value | humanize }} requests a minute"
        " with status {{ $labels.status }}.",
    ),
    Alert(
        name="AsyncRLPushBehind",
        severity="warning",
        expr=f"{latest(selector(catalog.PUSH_OLDEST_AGE))} > {limit('push_age_seconds')}",
        hold="brief",
        summary="OTLP push is behind",
        description="The oldest version that was not pushed waits for {{ $value | humanizeDuration }}.",
    ),
)
