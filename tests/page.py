"""An own check of a /metrics page: promtool and the parsers let duplicate series and families pass.

The grammar and uniqueness of the exposition, then what must hold of the values of any one page.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

Labels = frozenset[tuple[str, str]]
Series = tuple[str, Labels]

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: \S+)?")
_EXEMPLAR = re.compile(r' # \{span_id="[0-9a-f]{16}",trace_id="[0-9a-f]{32}"\} (\S+) \d+\.\d+$')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_SUFFIXES = {
    "counter": ("_total", "_created", ""),
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "summary": ("", "_sum", "_count", "_created"),
    "info": ("_info",),
}


@dataclass
class _Page:
    kinds: dict[str, str] = field(default_factory=dict)
    helps: set[str] = field(default_factory=set)
    samples: dict[Series, float] = field(default_factory=dict)
    buckets: dict[Series, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """Of each histogram (name, labels without `le`): (upper bound, cumulative count) in page order."""


def check_page(text: str, content_type: str) -> None:
    """Fails with the line or series that breaks a rule."""
    page = check_form(text, content_type)
    _check_idle_ratios(page)
    _check_account(page)
    _check_version_window(page)


def check_form(text: str, content_type: str) -> _Page:
    """What must hold whatever senders claim: the grammar, one of each series, values of their kind."""
    openmetrics = content_type.startswith("application/openmetrics-text")
    assert openmetrics or content_type.startswith("text/plain; version=0.0.4"), content_type
    assert text.endswith("\n"), text[-200:]
    assert text.endswith("\n# EOF\n") == openmetrics, text[-200:]
    assert text.count("# EOF") == int(openmetrics)
    families = list((parse_openmetrics if openmetrics else parse_text)(text))
    assert families
    page = _read(text)
    assert {family.name for family in families} == {
        family.removesuffix("_total") if kind == "counter" else family for family, kind in page.kinds.items()
    }
    _check_histograms(page)
    _check_values(page)
    return page


def _read(text: str) -> _Page:
    page = _Page()
    family = ""
    for line in text.split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in page.helps, f"second HELP of {name}"
            page.helps.add(name)
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in page.kinds, f"second TYPE of {family}"
            page.kinds[family] = kind
        elif line and not line.startswith("#"):
            _read_sample(page, family, line)
    assert page.helps == set(page.kinds)
    return page


def _read_sample(page: _Page, family: str, line: str) -> None:
    exemplar = _EXEMPLAR.search(line)
    match = _SAMPLE.fullmatch(line[: exemplar.start()] if exemplar else line)
    assert match, f"not a sample: {line!r}"
    name, label_text, value_text = match.groups()
    label_text = label_text or ""
    labels = {found[1]: found[2] for found in _LABEL.finditer(label_text)}
    assert "".join(found[0] for found in _LABEL.finditer(label_text)) == label_text, f"bad labels: {line!r}"
    series = (name, frozenset(labels.items()))
    suffixes = _SUFFIXES.get(page.kinds[family], ("",))
    assert name.removeprefix(family) in suffixes, f"{name} stands under {family}"
    assert series not in page.samples, f"second sample of {line!r}"
    page.samples[series] = float(value_text)
    assert exemplar is None or name == f"{family}_bucket", f"exemplar beside a bucket: {line!r}"
    if page.kinds[family] == "histogram" and name == f"{family}_bucket":
        bound = float(labels.pop("le"))
        assert exemplar is None or float(exemplar[1]) <= bound, f"exemplar outside its bucket: {line!r}"
        page.buckets[family, frozenset(labels.items())].append((bound, float(value_text)))


def _check_histograms(page: _Page) -> None:
    for (name, labels), buckets in page.buckets.items():
        bounds, counts = zip(*buckets, strict=True)
        assert list(bounds) == sorted(set(bounds)), (name, labels, bounds)
        assert list(counts) == sorted(counts), (name, labels, counts)
        assert bounds[-1] == math.inf, (name, labels)
        count = page.samples.get((f"{name}_count", labels), counts[-1])  # a signed histogram has no _count
        assert count == counts[-1], (name, labels, count)
        assert math.isfinite(page.samples.get((f"{name}_sum", labels), 0.0)), (name, labels)


def _check_values(page: _Page) -> None:
    for family, kind in page.kinds.items():
        if kind == "counter":
            total = family if family.endswith("_total") else f"{family}_total"
            for (name, labels), value in page.samples.items():
                assert name != total or (math.isfinite(value) and value >= 0.0), (name, labels, value)
    for (name, labels), value in page.samples.items():
        assert not (name.endswith("_ratio") and math.isnan(value)), (name, labels)
        within = name.endswith(("idle_ratio", "wait_ratio", "utilization_ratio"))
        if within and "reported" not in name:  # what a foreign trainer computed is passed on as it is
            assert 0.0 <= value <= 1.0, (name, labels, value)


def _check_idle_ratios(page: _Page) -> None:
    """active + idle = version time."""
    for (name, labels), idle_ratio in page.samples.items():
        if name in ("asyncrl_rollouter_idle_ratio", "asyncrl_trainer_idle_ratio"):
            role = name.removesuffix("_idle_ratio")
            version_seconds = page.samples[f"{role}_version_seconds", labels]
            active_seconds = page.samples[f"{role}_active_seconds", labels]
            assert math.isclose(
                active_seconds + idle_ratio * version_seconds, version_seconds, rel_tol=1e-9, abs_tol=1e-9
            ), (name, labels)


def _check_account(page: _Page) -> None:
    """fed = every outcome + in flight + queued."""
    for (name, labels), fed in page.samples.items():
        gauges = [(f"asyncrl_samples_{held}", labels) for held in ("in_flight", "queued")]
        if name != "asyncrl_samples_fed_total" or not all(gauge in page.samples for gauge in gauges):
            continue
        ended = sum(
            value
            for (other, has), value in page.samples.items()
            if other == "asyncrl_samples_total" and labels <= has
        )
        waiting = sum(page.samples[gauge] for gauge in gauges)
        assert fed == ended + waiting, (labels, fed, ended, waiting)


def _check_version_window(page: _Page) -> None:
    """No version of the running attempt above the newest published one, but for a partial final window."""
    for name, has in page.samples:
        labels = dict(has)
        if not name.startswith("asyncrl_version_") or "param_version" not in labels:
            continue
        run = frozenset({("run", labels["run"])})
        if page.samples.get(("asyncrl_run_attempt", run)) == float(labels["attempt"]):
            newest = page.samples.get(("asyncrl_param_version", run), 0.0)
            assert int(labels["param_version"]) <= newest + 1, (name, labels, newest)
