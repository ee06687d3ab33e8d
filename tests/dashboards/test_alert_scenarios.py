"""All rules together, before whole stories of runs: exactly the expected alerts, and none after all that is usual.

The stories happen side by side in one Prometheus, minute by minute; `firing` says which alerts fire at which minutes.
Long because a story is told in one piece, and there are many of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from dashboards.alerts import ALERTS
from tests.dashboards.alert_scenarios import ALERTING, EXPORTERS, RULES, labelled, rules_for, scraped
from tests.dashboards.healthy_run import (
    OF_EXPORTER,
    OF_HOST,
    OF_RUN,
    ROLLOUTERS,
    STALE,
    Values,
    always,
    every,
    frozen,
    level,
    now,
    rate,
    series,
)
from tests.dashboards.promtool import Scenario, Suite, run_suites

QUIET = dict.fromkeys((1, 5, 10, 16, 20, 30, 33, 36, 40, 45, 50, 60, 65, 75, 90, 110, 130), ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    name: str
    run: Mapping[str, Values] = field(default_factory=lambda: OF_RUN)
    exporter: Mapping[str, Values] = field(default_factory=lambda: OF_EXPORTER)
    second: Mapping[str, Values] = field(default_factory=dict)
    """The run as another exporter says it."""
    second_exporter: Mapping[str, Values] = field(default_factory=lambda: OF_EXPORTER)
    firing: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: QUIET)
    only: str = ""
    """The alert that it is about: a story of many hours is told to the rules of that one."""

    def scenario(self) -> Scenario:
        seen = scraped(self.name, self.run, self.exporter, OF_HOST)
        if self.second:
            seen |= scraped(self.name, self.second, self.second_exporter, {}, exporter=EXPORTERS[1])
        return Scenario(
            mark=self.name,
            series=seen,
            firing={
                minute: [self._alert(alert) for alert in alerts] for minute, alerts in self.firing.items()
            },
        )

    def _alert(self, written: str) -> dict[str, str]:
        """`Name` or `Name label=value ...`; an empty value: without the label."""
        name, *more = written.split()
        own = dict(pair.split("=") for pair in more)
        usual = {"alertname": name, "severity": ALERTS[name].severity, "job": self.name, "run": self.name}
        return {label: value for label, value in {**usual, **own}.items() if value}


def between(first: int, last: int, usual: Values, meanwhile: Values) -> Values:
    return lambda minute: meanwhile(minute) if first <= minute < last else usual(minute)


def matching(*beginnings: str) -> dict[str, Values]:
    return {name: values for name, values in OF_RUN.items() if name.startswith(beginnings)}


def each(names: Mapping[str, Values], change: Callable[[Values], Values]) -> dict[str, Values]:
    return {name: change(values) for name, values in names.items()}


def at(names: Mapping[str, Values], **target: str) -> dict[str, Values]:
    """With labels that the target has besides."""
    return {labelled(name, **target): values for name, values in names.items()}


def missing(first: int, last: int, what: float | str | None) -> Callable[[Values], Values]:
    return lambda usual: lambda minute: what if first <= minute < last else usual(minute)


def ends(minute_of_end: int, status: str) -> dict[str, Values]:
    """The run ends, its live values go at once, all else a quarter of an hour later."""

    def gone_later(values: Values) -> Values:
        return lambda minute: STALE if minute >= minute_of_end + 15 else values(min(minute, minute_of_end))

    live = (
        "asyncrl_trainer_state{",
        "asyncrl_rollouter_state{",
        "asyncrl_exporter_source",
        "asyncrl_rollouter_param",
    )
    return {
        **each(OF_RUN, gone_later),
        **each(matching(*live), missing(minute_of_end, 10_000, STALE)),
        'asyncrl_run_status{status="running"}': gone_later(lambda m: float(m < minute_of_end)),
        f'asyncrl_run_status{{status="{status}"}}': gone_later(lambda m: float(m >= minute_of_end)),
    }


def in_state(first: int, last: int, trainer: str, rollouter: str) -> dict[str, Values]:
    """Both sides are in other states meanwhile, which their sums of seconds say, too."""
    changed: dict[str, Values] = {}
    of_trainer = matching("asyncrl_trainer_state{") | {
        series("asyncrl_trainer_state", state=trainer): always(0)
    }
    of_rollouters = matching("asyncrl_rollouter_state{") | {
        series("asyncrl_rollouter_state", rollouter=slot, state=rollouter): always(0) for slot in ROLLOUTERS
    }
    for states, current in ((of_trainer, trainer), (of_rollouters, rollouter)):
        for name, values in states.items():
            changed[name] = between(first, last, values, always(float(f'state="{current}"' in name)))
    usual = {"training": 50, "waiting_samples": 6, "weight_sync": 4}
    for state in {*usual, trainer}:
        name = series("asyncrl_trainer_state_seconds_total", state=state)
        changed[name] = rate(usual.get(state, 0), 60 * (state == trainer))(first, last)
    usual = {"generating": 54, "paused_staleness": 6}
    for slot in ROLLOUTERS:
        for state in {*usual, rollouter}:
            name = series("asyncrl_rollouter_state_seconds_total", rollouter=slot, state=state)
            changed[name] = rate(usual.get(state, 0), 60 * (state == rollouter))(first, last)
    return changed


def no_versions(first: int, last: int) -> dict[str, Values]:
    """Neither steps nor versions meanwhile."""
    stopped = matching("asyncrl_last_", "asyncrl_param_version", "asyncrl_rollouter_param_version")
    return {name: frozen(values)(first, last) for name, values in stopped.items()}


REFUSED = 'asyncrl_exporter_requests_total{signal="traces",status="503"}'
JOURNAL_OF_ONE = "AsyncRLReplicaJournalUnavailable run="
COUNTERS = {
    name: values for name, values in OF_RUN.items() if name.split("{")[0].endswith(("_total", "_bucket"))
}


def begun_again_in(first: int) -> Callable[[Values], Values]:
    return lambda usual: lambda minute: usual(minute if minute < first else minute - first)


SILENT = {
    **no_versions(30, 10_000),
    **in_state(30, 10_000, "training", "paused_staleness"),
    **each(matching("asyncrl_trainer_state{"), missing(31, 10_000, STALE)),
    'asyncrl_exporter_source_last_seen_timestamp_seconds{role="trainer",rollouter=""}': frozen(now)(
        30, 10_000
    ),
}
"""What the trainer says after it was killed in minute 30: nothing. The rollouters wait for it."""

UNHEARD = {
    **no_versions(38, 10_000),
    **each(matching("asyncrl_trainer_state{", "asyncrl_rollouter_state{"), missing(38, 10_000, STALE)),
    **each(matching("asyncrl_exporter_source_last_seen"), lambda usual: frozen(now)(38, 10_000)),
    **each(COUNTERS, lambda usual: frozen(usual)(38, 10_000)),
}
"""What an exporter says that has heard nothing since minute 38."""

BEGUN_ANEW = {
    **OF_RUN,
    **each(matching("asyncrl_trainer_state{"), missing(110, 10_000, STALE)),
    "asyncrl_attempt_start_timestamp_seconds{}": always(100 * 60),
    'asyncrl_exporter_source_last_seen_timestamp_seconds{role="trainer",rollouter=""}': frozen(now)(
        110, 10_000
    ),
}
"""A run that began in minute 100, and whose trainer has said nothing since minute 110."""

JOINED_LATE = {
    **each(OF_RUN, missing(0, 30, None)),
    "asyncrl_attempt_start_timestamp_seconds{}": lambda minute: None if minute < 30 else 30 * 60,
    "asyncrl_last_incomplete_timestamp_seconds{}": lambda minute: None if minute < 31 else 31 * 60,
    "asyncrl_last_lost_records_timestamp_seconds{}": lambda minute: None if minute < 31 else 31 * 60,
    'asyncrl_lost_records_total{role="trainer"}': lambda minute: None if minute < 31 else 400,
    "asyncrl_samples_fed_total{}": lambda minute: None if minute < 30 else 20 * (minute - 30),
}
"""Of an exporter that knows nothing of before minute 30, and gives up what it never heard."""

WAITS = {
    **matching("asyncrl_run_", "asyncrl_attempt_start", "asyncrl_last_v"),
    "asyncrl_trainer_wait_ratio{}": level(0.1, 0.9)(30, 10_000),
}

SAVES_SELDOM = {
    **matching("asyncrl_run_", "asyncrl_attempt_start", "asyncrl_last_v"),
    "asyncrl_last_checkpoint_timestamp_seconds{}": every(90),
}

STORIES = (
    Story(name="healthy"),
    Story(name="completed", run={**OF_RUN, **ends(60, "completed")}),
    Story(
        name="failed",
        run={**OF_RUN, **ends(40, "failed")},
        firing={39: (), 41: ("AsyncRLRunFailed status=failed",), 77: ()},
    ),
    Story(  # the journal keeps what the runs said, its own counters begin anew
        name="exporter-restarted",
        run={**OF_RUN, **each(OF_RUN, missing(30, 34, STALE))},
        exporter={
            **each(OF_EXPORTER, missing(30, 34, STALE)),
            'asyncrl_exporter_requests_total{signal="traces",status="200"}': between(
                30, 34, lambda minute: 60.0 * (minute if minute < 30 else minute - 33), always(0)
            ),
            "up{}": between(30, 34, always(1), always(0)),
        },
    ),
    Story(  # killed in minute 30: of its runs nobody becomes silent, or stands still, for that
        name="exporter-killed",
        run=each(OF_RUN, missing(30, 131, STALE)),
        exporter={
            **each(OF_EXPORTER, missing(30, 131, STALE)),
            "up{}": between(30, 131, always(1), always(0)),
        },
        firing={
            34: (),
            36: ("AsyncRLExporterDown run=",),
            45: ("AsyncRLExporterDown run=", "AsyncRLExporterReplicaDown run= instance=a:9810"),
            120: ("AsyncRLExporterDown run=", "AsyncRLExporterReplicaDown run= instance=a:9810"),
        },
    ),
    Story(  # to another node, and the run ends soon after: what the old pod said last is not how things are
        name="exporter-moved",
        run=each({**OF_RUN, **ends(40, "completed")}, missing(20, 131, STALE)),
        second=each({**OF_RUN, **ends(40, "completed")}, missing(0, 20, None)),
    ),
    Story(  # a checkpoint every hour and a half: how many there were, only the old pod knows
        name="exporter-moved-later",
        run=each(SAVES_SELDOM, missing(370, 541, STALE)),
        second=each(SAVES_SELDOM, missing(0, 370, None)),
        firing=dict.fromkeys((375, 400, 449, 455, 480, 516, 530, 539), ()),
        only="AsyncRLCheckpointOld",
    ),
    Story(  # a release of the chart in each: the one stands still while the other validates
        name="two-namespaces",
        run=at({**OF_RUN, **no_versions(30, 10_000)}, namespace="rl"),
        second=at(
            {**OF_RUN, **no_versions(30, 65), **in_state(30, 65, "validating", "validating")}, namespace="lab"
        ),
        firing={29: (), 40: (), 60: ("AsyncRLVersionStalled namespace=rl",)},
    ),
    Story(  # Prometheus says of each in which zone it is; one comes back with an empty disk, which is full soon
        name="zone-emptied",
        run=at(each(OF_RUN, missing(30, 131, STALE)), zone="a"),
        exporter=at({**OF_EXPORTER, REFUSED: rate(0, 30)(60, 90)}, zone="a"),
        second=at(OF_RUN, zone="b"),
        second_exporter=at(OF_EXPORTER, zone="b"),
        firing={
            **dict.fromkeys((31, 45, 59), ()),
            75: (f"{JOURNAL_OF_ONE} instance={EXPORTERS[0]} zone=a",),
            110: (),
        },
    ),
    Story(name="zone-joined", run=at(OF_RUN, zone="a"), second=at(JOINED_LATE, zone="b")),
    Story(  # an upgrade of the chart changes a label of the Service that Prometheus copies
        name="chart-upgraded",
        run=at(each(OF_RUN, missing(30, 131, STALE)), helm_sh_chart="1"),
        exporter=at(each(OF_EXPORTER, missing(30, 131, STALE)), helm_sh_chart="1"),
        second=at(each(OF_RUN, missing(0, 30, None)), helm_sh_chart="2"),
        second_exporter=at(each(OF_EXPORTER, missing(0, 30, None)), helm_sh_chart="2"),
    ),
    Story(  # by a ServiceMonitor until minute 50, which names the Service, and then by a PodMonitor
        name="scraped-otherwise",
        run=at(each(WAITS, missing(50, 131, STALE)), service="exporter"),
        second=each(WAITS, missing(0, 50, None)),
        firing={29: (), **dict.fromkeys((45, 51, 53, 58, 90), ("AsyncRLTrainerStarved",))},
    ),
    Story(  # away when the run ends, and told by nobody
        name="exporter-missed-end",
        run={**OF_RUN, **ends(40, "completed")},
        second=each({**OF_RUN, **UNHEARD}, missing(38, 50, STALE)),
    ),
    Story(  # ended, and begun anew an hour later, before an exporter that has lost its journal: it is watched again
        name="begun-anew",
        run={
            name: between(100, 10_000, before, BEGUN_ANEW[name])
            for name, before in {**OF_RUN, **ends(40, "completed")}.items()
        },
        firing={41: (), 60: (), 105: (), 109: (), 125: ("AsyncRLTrainerSilent role=trainer",)},
    ),
    Story(name="counters-reset", run={**OF_RUN, **each(COUNTERS, begun_again_in(30))}),
    Story(
        name="prometheus-restarted",
        run=each(OF_RUN, missing(30, 40, None)),
        exporter=each(OF_EXPORTER, missing(30, 40, None)),
    ),
    Story(  # killed in minute 30, back in 33 as attempt 2, which loads for ten minutes
        name="trainer-resumed",
        run={
            **OF_RUN,
            **no_versions(30, 43),
            **in_state(30, 43, "starting", "paused_staleness"),
            "asyncrl_attempt_start_timestamp_seconds{}": lambda minute: 0 if minute < 33 else 33 * 60,
            'asyncrl_exporter_source_last_seen_timestamp_seconds{role="trainer",rollouter=""}': frozen(now)(
                30, 33
            ),
        },
    ),
    Story(name="exporter-joined", second=JOINED_LATE),
    Story(  # loads for 25 minutes
        name="slow-start",
        run={
            **OF_RUN,
            **each(matching("asyncrl_last_", "asyncrl_param", "asyncrl_version_"), missing(0, 25, None)),
            **each(matching("asyncrl_trainer_wait", "asyncrl_rollouters_"), missing(0, 25, None)),
            **in_state(0, 25, "starting", "starting"),
        },
    ),
    Story(  # of two exporters one has a full disk, then the other one as well
        name="disk-full",
        second=OF_RUN,
        exporter={**OF_EXPORTER, REFUSED: rate(0, 30)(30, 80)},
        second_exporter={**OF_EXPORTER, REFUSED: rate(0, 30)(50, 80)},
        firing={
            30: (),
            40: (f"{JOURNAL_OF_ONE} instance={EXPORTERS[0]}",),
            60: (
                "AsyncRLJournalUnavailable run=",
                f"{JOURNAL_OF_ONE} instance={EXPORTERS[0]}",
                f"{JOURNAL_OF_ONE} instance={EXPORTERS[1]}",
            ),
            88: (),
        },
    ),
    Story(  # the other exporter is asked nothing, and has no say
        name="disk-full-beside-idle",
        second=OF_RUN,
        exporter={**OF_EXPORTER, REFUSED: rate(0, 30)(30, 60)},
        second_exporter={
            name: values for name, values in OF_EXPORTER.items() if "requests_total" not in name
        },
        firing={
            30: (),
            50: ("AsyncRLJournalUnavailable run=", f"{JOURNAL_OF_ONE} instance={EXPORTERS[0]}"),
            68: (),
        },
    ),
    Story(  # somebody ends it by hand in minute 60: nothing is told for the first time because of that
        name="ended-by-hand",
        run={
            **OF_RUN,
            **UNHEARD,
            'asyncrl_run_status{status="running"}': lambda minute: float(minute < 60),
            'asyncrl_run_status{status="stopped"}': lambda minute: float(minute >= 60),
        },
        firing={
            41: (),
            46: ("AsyncRLTrainerSilent role=trainer",),
            62: (),
            **dict.fromkeys((70, 80, 90, 110), ()),
        },
    ),
    Story(  # one exporter was told that it ended, the other not, and both lose what they had
        name="ended-and-lost",
        run={name: missing(40, 10_000, STALE)(values) for name, values in ends(30, "stopped").items()},
        second=each(OF_RUN, missing(40, 10_000, STALE)),
    ),
    Story(  # samples in flight hide for two minutes that the policy is gone: the reward is told of first all the same
        name="collapses",
        run={
            **matching("asyncrl_run_", "asyncrl_attempt_start", "asyncrl_last_v"),
            "asyncrl_grad_norm{}": level(0.5, 0)(60, 10_000),
            "asyncrl_reward_mean{}": level(0.5, 0.24)(62, 10_000),
        },
        firing={
            80: (),
            84: ("AsyncRLRewardCollapsed",),
            90: ("AsyncRLGradNormZero", "AsyncRLRewardCollapsed"),
        },
    ),
    Story(
        name="validates",
        run={**OF_RUN, **no_versions(30, 65), **in_state(30, 65, "validating", "validating")},
    ),
    Story(
        name="saves",
        run={**OF_RUN, **no_versions(30, 55), **in_state(30, 55, "checkpointing", "paused_staleness")},
    ),
    Story(
        name="crashed",
        run={**OF_RUN, **SILENT},
        firing={
            34: (),
            37: ("AsyncRLTrainerSilent role=trainer",),
            50: (
                "AsyncRLStalledRolloutersPaused",
                "AsyncRLTrainerSilent role=trainer",
                "AsyncRLVersionStalled",
            ),
            130: (  # nobody did anything about it
                "AsyncRLCheckpointOld",
                "AsyncRLStalledRolloutersPaused",
                "AsyncRLTrainerSilent role=trainer",
                "AsyncRLVersionStalled",
            ),
        },
    ),
    Story(  # a version in 30 minutes, and nothing but spans: three usual times are 90 minutes
        name="spans-only",
        run={
            **matching("asyncrl_run_", "asyncrl_attempt_start", "asyncrl_window"),
            "asyncrl_param_version{}": lambda minute: 4,
            "asyncrl_last_version_timestamp_seconds{}": frozen(every(30))(30, 10_000),
            **{
                series(
                    "asyncrl_version_published_timestamp_seconds", attempt="1", param_version=str(v)
                ): always(1800.0 * v)
                for v in range(1, 4)
            },
        },
        firing={20: (), 60: (), 100: (), 118: (), 125: ("AsyncRLVersionStalled",)},
    ),
    Story(  # what verl computes itself
        name="foreign",
        run={
            **matching("asyncrl_run_", "asyncrl_attempt_start", "asyncrl_last_", "asyncrl_param_version"),
            'asyncrl_reported_rollouter_idle_ratio{source="verl"}': level(0.1, 0.9)(30, 60),
            'asyncrl_reported_trainer_idle_ratio{source="verl"}': level(0.1, 0.2)(30, 60),
        },
        firing={28: (), 45: ("AsyncRLRolloutersIdle",), 110: ()},
    ),
    Story(  # C65: 0.9 all the time, and every fifth scrape fails
        name="gaps",
        run={
            **matching("asyncrl_run_", "asyncrl_attempt_start", "asyncrl_last_v"),
            "asyncrl_trainer_wait_ratio{}": lambda minute: (
                STALE if minute % 5 == 0 else 0.9 if minute >= 30 else 0.1
            ),
        },
        firing={29: (), 43: ("AsyncRLTrainerStarved",), 90: ("AsyncRLTrainerStarved",)},
    ),
    Story(  # C65: around the threshold
        name="hopping",
        run={
            **matching("asyncrl_run_", "asyncrl_attempt_start", "asyncrl_last_v"),
            "asyncrl_trainer_wait_ratio{}": lambda minute: 0.55 if minute % 2 else 0.46,
        },
        firing=dict.fromkeys(range(30, 91), ("AsyncRLTrainerStarved",)),
    ),
)


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What promtool says against any story."""
    suites = [
        Suite(
            name=f"stories-{only}",
            rules=rules_for(ALERTING[only]) if only else RULES,
            scenarios=[story.scenario() for story in STORIES if story.only == only],
            alert=only,
        )
        for only in {story.only for story in STORIES}
    ]
    return "\n".join(filter(None, run_suites(tmp_path_factory.mktemp("stories"), suites).values()))


def against(complaints: str, *stories: str) -> list[str]:
    named = {story.name for story in STORIES}
    assert named.issuperset(stories)
    parts = complaints.split("\n    expr:")
    return [part for part in parts if any(f'job=\\"{story}\\"' in part for story in stories)]


def test_a_healthy_run_wakes_nobody_from_its_start_to_after_its_end(complaints: str) -> None:
    assert against(complaints, "healthy", "completed", "slow-start") == []


def test_c64_restarts_and_a_joining_exporter_wake_nobody(complaints: str) -> None:
    restarts = (
        "exporter-restarted",
        "prometheus-restarted",
        "trainer-resumed",
        "exporter-joined",
        "exporter-moved",
        "exporter-moved-later",
        "exporter-missed-end",
        "counters-reset",
    )
    assert against(complaints, *restarts) == []


def test_without_its_exporter_nothing_is_told_of_a_run(complaints: str) -> None:
    assert against(complaints, "exporter-killed") == []


def test_c67_what_comes_rarely_is_not_frozen(complaints: str) -> None:
    """The healthy run validates and saves every ten versions, and its error counters never move."""
    assert against(complaints, "healthy") == []


def test_c65_failed_scrapes_hide_nothing_and_hopping_is_one_notification(complaints: str) -> None:
    """0.9 with a gap every fifth minute fires within 13 minutes; around the limit it fires without a break."""
    assert against(complaints, "gaps", "hopping") == []


def test_validation_and_checkpoints_are_no_stall(complaints: str) -> None:
    assert against(complaints, "validates", "saves") == []


def test_a_full_disk_of_one_exporter_silences_no_other(complaints: str) -> None:
    assert against(complaints, "disk-full", "disk-full-beside-idle") == []


def test_a_collapse_is_told_before_what_follows_from_it(complaints: str) -> None:
    """Or Alertmanager, which keeps that quiet meanwhile, would learn of the cause too late."""
    assert against(complaints, "collapses") == []


def test_nothing_is_told_of_a_run_that_was_ended(complaints: str) -> None:
    assert against(complaints, "ended-by-hand", "ended-and-lost") == []


def test_a_crash_is_loud(complaints: str) -> None:
    assert against(complaints, "crashed", "failed", "begun-anew") == []


def test_runs_of_one_name_in_two_namespaces_are_two_runs(complaints: str) -> None:
    assert against(complaints, "two-namespaces") == []


def test_other_labels_of_its_target_make_no_exporter_the_only_one_of_its_job(complaints: str) -> None:
    relabelled = ("zone-emptied", "zone-joined", "chart-upgraded", "scraped-otherwise")
    assert against(complaints, *relabelled) == []


def test_foreign_trainers_are_watched_by_what_they_send(complaints: str) -> None:
    assert against(complaints, "spans-only", "foreign") == []


def test_promtool_has_no_other_complaint(complaints: str) -> None:
    assert not complaints, complaints
