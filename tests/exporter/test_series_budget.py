"""The page keeps to its series budget, however wide the versions are: the version window gets coarser, and says so."""

import signal

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.catalog import version_series
from exporter.state import Clocked, Scope, SealedWindow
from exporter.version_window import VersionWindow
from tests.exporter.conftest import StartExporter
from tests.page import check_page
from tests.wire import Emitter, Scrape, scrape_until

BUDGET = 3000
ROLLOUTERS = 40
VERSIONS = 30
KEPT = BUDGET // version_series(ROLLOUTERS)


def sealed(version: int, at: float) -> SealedWindow:
    return SealedWindow(
        run="r",
        attempt=1,
        version=version,
        published=True,
        reasons=(),
        timestamp_ns=version,
        sealed_at=at,
        train_steps=1,
        sample_count=8,
        values=Scope(),
        trainer=Clocked(),
        rollouters={},
    )


def test_of_wide_versions_every_nth_is_on_the_page_and_an_evicted_one_is_counted_once(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter("--series-budget", str(BUDGET))
    trainer = Emitter(exporter.otlp)
    rollouter = Emitter(exporter.otlp, role="rollouter", source="r0")
    for version in range(1, VERSIONS + 1):
        windows = [
            rollouter.rollouter_window(
                version, str(slot), {"generating": 1.0}, capacity_seconds=2.0, busy_capacity_seconds=1.0
            )
            for slot in range(ROLLOUTERS)
        ]
        assert rollouter.post(*windows).rejected == 0
        assert trainer.post(*trainer.window(version, [{"reward": [4, 2.0, 0.0, 1.0, 0.5]}])).rejected == 0
    for _ in range(2):
        page = scrape_until(
            exporter.metrics,
            lambda page: (
                page.value("asyncrl_version_complete", run="r", attempt=1, param_version=VERSIONS - 1) is None
            ),
        )
        check_page(page.text, page.content_type)
        shown = sorted(map(int, page.by_label("asyncrl_version_complete", "param_version", run="r")))
        stride = int(page.value("asyncrl_window_stride_versions", run="r") or 0)
        assert stride > 1
        assert shown == sorted({*range(stride, VERSIONS + 1, stride), VERSIONS})
        assert KEPT // 2 <= len(shown) <= KEPT
        evicted = page.value("asyncrl_versions_evicted_early_total", run="r")
        assert evicted == VERSIONS - len(shown)
        assert sum("param_version" in dict(labels) for _, labels in page.samples) <= BUDGET
        exporter.stop(signal.SIGKILL)
        exporter = start_exporter("--series-budget", str(BUDGET), data_dir=exporter.data_dir)


def test_versions_that_leave_early_are_counted_before_their_sender_is_answered(
    start_exporter: StartExporter,
) -> None:
    exporter = start_exporter("--series-budget", "1000")
    trainer = Emitter(exporter.otlp)
    spans = [
        span for version in range(1, VERSIONS + 1) for span in trainer.window(version, [{"policy_loss": 1.0}])
    ]
    assert trainer.post(*spans).rejected == 0
    exporter.stop(signal.SIGKILL)
    exporter = start_exporter("--series-budget", "1000", data_dir=exporter.data_dir)
    page = Scrape(exporter.metrics)
    shown = page.by_label("asyncrl_version_complete", "param_version", run="r")
    assert 1 < len(shown) < VERSIONS
    assert page.value("asyncrl_versions_evicted_early_total", run="r") == VERSIONS - len(shown)


def test_a_version_that_left_early_is_counted_once_although_history_brings_it_back(
    start_exporter: StartExporter,
) -> None:
    """`wide` gets coarser, and `young` is cut to its core, in each life with the smaller budget."""
    data_dir, small, large = None, "1000", "50000"
    for life, budget in enumerate((small, large, small)):
        exporter = start_exporter("--series-budget", budget, data_dir=data_dir)
        data_dir = exporter.data_dir
        for run in ("wide", "young") if life == 0 else ():
            trainer = Emitter(exporter.otlp, run=run, source=run)
            values = {"policy_loss": 1.0} | {f"mine{number}": 1.0 for number in range(200)}
            for version in range(1, VERSIONS + 1):
                assert trainer.post(*trainer.window(version, [values])).rejected == 0
        page = scrape_until(
            exporter.metrics, lambda page: page.value("asyncrl_param_version", run="young") == VERSIONS
        )
        left = page.by_label("asyncrl_versions_evicted_early_total", "run")
        if life == 0:
            counted = left
            shown = page.by_label("asyncrl_version_complete", "param_version", run="wide")
            assert left["wide"] == VERSIONS - len(shown) > 0
        assert left["wide"] == counted["wide"]
        assert exporter.stop()[0] == 0


@settings(deadline=None)
@given(
    most=st.integers(1, 40),
    gaps=st.lists(st.sampled_from([0.0, 0.1, 1.0, 30.0, 400.0]), min_size=1, max_size=200),
    scrapes=st.sampled_from([(None, 300.0), (1.0, 60.0), (20.0, 80.0), (100.0, 400.0)]),
)
def test_a_window_is_every_nth_version_and_the_newest_within_the_bound_and_loses_none_uncounted(
    most: int, gaps: list[float], scrapes: tuple[float | None, float]
) -> None:
    """A scraper is sure to see it within four intervals, at least a minute; if none was observed, all the time."""
    interval, sure_seconds = scrapes
    window, now, early, timely = VersionWindow(fewest=5, hold_seconds=300.0), 0.0, 0, 0
    for version, gap in enumerate(gaps, 1):
        now += gap
        window.add(sealed(version, now))
        before = {each.version: each.sealed_at for each in window.versions}
        counted = window.trim(wall=now, scrape_interval=interval, most=most)
        left = before.keys() - {each.version for each in window.versions}
        early += counted
        timely += sum(before[gone] < now - sure_seconds for gone in left)
        assert counted == sum(before[gone] >= now - sure_seconds for gone in left)
        assert len(window.versions) <= most
        assert window.versions[-1].version == version
        assert all(each.version % window.stride == 0 for each in list(window.versions)[:-1])
    assert early + timely + len(window.versions) == len(gaps)


def test_a_window_that_calms_down_has_every_version_again() -> None:
    window = VersionWindow(fewest=5, hold_seconds=300.0)
    for version in range(1, 1001):
        window.add(sealed(version, version * 1.0))
        window.trim(wall=version * 1.0, scrape_interval=None, most=40)
    assert window.stride == 8, "37 of the 300 versions of 300 s fit into 40"
    shown = [each.version for each in window.versions]
    assert shown == list(range(704, 1001, 8))
    for number in range(1, 41):
        window.add(sealed(1000 + number, 1000.0 + 100 * number))
        window.trim(wall=1000.0 + 100 * number, scrape_interval=None, most=40)
    assert window.stride == 1
    assert [each.version for each in window.versions] == list(range(1036, 1041))
