"""Runs that go wrong, each in one way, and the alerts that tell of it: these, and no others.

Seconds of a scenario are minutes of a shipped rule: the tests divide every duration of the rules by 60.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.telemetry import schema
from tests.integration.emitter import Requests, ScriptedRun, merge
from tests.integration.script import HEALTHY, Second

WARM = 20
"""Second from where ratios count: the warm-up is over."""
LEARNED = 36
"""Second from where there is something usual to compare with."""
LAST = 100
"""Second in which the runs end: by then all is well again, and has been for a while."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A healthy run that has a fault for some seconds."""

    alerts: frozenset[str] = frozenset()
    fault: Second = HEALTHY
    begins: int = WARM
    seconds: int = 25
    once: Callable[[ScriptedRun], Requests] | None = None
    """What is said besides when the fault begins."""
    ends: bool = True
    fails: bool = False
    """The run ends as failed when the fault begins."""
    staleness_limit: int | None = None
    """That the run states."""
    resumes: bool = False
    """The trainer dies without a word when the fault begins, and a second attempt goes on from an older version."""


class Player:
    """Plays a scenario second by second."""

    def __init__(self, name: str, scenario: Scenario) -> None:
        self._name = name
        self._scenario = scenario
        limit = scenario.staleness_limit
        self._run = ScriptedRun(name, resource={} if limit is None else {schema.STALENESS_LIMIT: limit})
        self._over = False

    def play(self, second: int) -> Requests:
        """What the run says in this second, from 0 on."""
        scenario = self._scenario
        if self._over:
            return merge([])
        if second == 0:
            return self._run.begin()
        if second == scenario.begins:
            return self._begin_fault()
        if second >= LAST and scenario.ends:
            self._over = True
            return self._run.end()
        faulty = scenario.begins < second < scenario.begins + scenario.seconds
        return self._run.second(scenario.fault if faulty else HEALTHY)

    def _begin_fault(self) -> Requests:
        scenario, run = self._scenario, self._run
        if scenario.fails:
            self._over = True
            return run.end(schema.FAILED)
        if scenario.resumes:
            self._run = ScriptedRun(self._name, life=2, version=run.version - 3)
            return self._run.begin()
        return merge([run.second(scenario.fault), *([scenario.once(run)] if scenario.once else [])])


def alerts(*names: str) -> frozenset[str]:
    """Their full names."""
    return frozenset(f"AsyncRL{name}" for name in names)


_WAITING = Second(publishes=False, trainer_state="waiting_samples")
SCENARIOS = {
    "healthy": Scenario(),
    "endless": Scenario(ends=False),
    "resumed": Scenario(resumes=True),
    "validating": Scenario(
        fault=Second(publishes=False, trainer_state="validating", rollouter_state="validating")
    ),
    # It speaks no more, or not all of it arrives, or it cannot be believed.
    "failed": Scenario(fails=True, alerts=alerts("RunFailed")),
    "trainer-silent": Scenario(
        fault=Second(publishes=False, trainer_speaks=False), seconds=9, alerts=alerts("TrainerSilent")
    ),
    "rollouter-silent": Scenario(
        fault=Second(rollouters=("0",), owing=("0",)), alerts=alerts("RollouterSilent")
    ),
    "dropping": Scenario(fault=Second(dropped_records=1), seconds=3, alerts=alerts("TelemetryDropped")),
    "incomplete": Scenario(fault=Second(rollouters=("0",)), seconds=2, alerts=alerts("VersionsIncomplete")),
    "backward": Scenario(once=ScriptedRun.backward_sync, alerts=alerts("VersionBackward")),
    "sloppy": Scenario(
        fault=Second(clock_seconds=30, unaccounted=3),
        once=lambda run: merge([run.late_steps(9), run.nameless_step()]),
        alerts=alerts("ClockSkewed", "RecordsLate", "RecordsRejected", "SampleAccountBroken"),
    ),
    "nan": Scenario(
        fault=Second(values={"clip_ratio": 1.5, "policy_loss": float("nan")}),
        begins=LEARNED + 2,  # one of two exporters is down
        seconds=2,
        alerts=alerts("NonFinite", "ValuesOutOfRange"),
    ),
    "foreign": Scenario(
        fault=Second(
            reported={
                "rollouter_idle_ratio": 1.7,
                "trainer_idle_ratio": 0.2,
                "step_mean_seconds": -1.0,
                "trainer_active_seconds": 9.0,
                "trainer_version_seconds": 3.0,
                "staleness_mean_versions": -0.5,
            }
        ),
        alerts=alerts(
            "ReportedRatioOutOfRange",
            "ReportedDurationInvalid",
            "ReportedActiveExceedsVersion",
            "ReportedStalenessNegative",
        ),
    ),
    # It stands still.
    "stalled": Scenario(fault=Second(publishes=False), alerts=alerts("VersionStalled")),
    "starved": Scenario(fault=_WAITING, alerts=alerts("StalledTrainerStarved")),
    "paused": Scenario(
        fault=replace(_WAITING, rollouter_state="paused_staleness"), alerts=alerts("StalledRolloutersPaused")
    ),
    "sync-stuck": Scenario(
        fault=Second(publishes=False, trainer_state="weight_sync", rollouter_state="weight_sync"),
        alerts=alerts("WeightSyncStuck"),
    ),
    "saving": Scenario(
        fault=Second(publishes=False, trainer_state="checkpointing"),
        seconds=70,
        alerts=alerts("PauseTooLong"),
    ),
    # It is slow: one side waits for the other.
    "syncing": Scenario(
        fault=Second(
            phase_seconds={"wait": 0.1, "transfer": 0.3, "load": 0.1},
            trainer_seconds={"waiting_samples": 0.05, "training": 0.45, "weight_sync": 0.5},
            rollouter_seconds={"generating": 0.6, "weight_sync": 0.4},
        ),
        alerts=alerts("WeightSyncSlow"),
    ),
    "behind": Scenario(
        fault=Second(stuck=("1",), checkpoints=False),
        seconds=75,
        alerts=alerts("RollouterBehind", "CheckpointOld"),
    ),
    "rollouters-slow": Scenario(
        fault=Second(trainer_seconds={"waiting_samples": 0.7, "training": 0.3}),
        alerts=alerts("TrainerStarved"),
    ),
    "trainer-slow": Scenario(
        fault=Second(rollouter_seconds={"generating": 0.3, "paused_staleness": 0.7}),
        alerts=alerts("RolloutersIdle"),
    ),
    "both-wait": Scenario(
        fault=Second(
            trainer_seconds={"waiting_samples": 0.45, "training": 0.55},
            rollouter_seconds={"generating": 0.55, "waiting_prompts": 0.45},
        ),
        alerts=alerts("BothSidesIdle"),
    ),
    "underused": Scenario(fault=Second(utilization=0.1), seconds=30, alerts=alerts("RolloutersUnderused")),
    # What it trains on is old or lost, what it learns falls apart.
    "wasteful": Scenario(
        fault=Second(outcomes={"dropped_stale": 4, "failed": 4}, trained_share=0.0),
        seconds=30,
        alerts=alerts("SamplesDropped", "SamplesFailed", "SamplesAllFiltered"),
    ),
    "off-policy": Scenario(
        fault=Second(
            values={
                "staleness": [12.0, 14.0],
                "kl_behaviour": 0.4,
                "effective_sample_size_ratio": 0.05,
                "importance_ratio": [3.0, 4.0],
            }
        ),
        staleness_limit=10,
        alerts=alerts(
            "StalenessHigh",
            "StalenessAboveLimit",
            "KLBehaviourHigh",
            "ImportanceWeightsDegenerate",
            "ImportanceRatioBiased",
        ),
    ),
    "collapsed": Scenario(
        fault=Second(values={"reward": [0.0, 0.0, 0.0, 0.1], "grad_norm": 0.0}),
        begins=LEARNED,
        seconds=30,
        alerts=alerts("RewardCollapsed"),
    ),
    "falling-apart": Scenario(
        fault=Second(
            values={"reward": [0.1, 0.3, 0.5, 0.7], "entropy": 0.05, "kl_reference": 2.0, "grad_norm": 60.0}
        ),
        begins=LEARNED,
        seconds=30,
        alerts=alerts("EntropyCollapsed", "KLReferenceBlownUp", "GradNormBlownUp"),
    ),
    "frozen": Scenario(fault=Second(values={"grad_norm": 0.0}), seconds=32, alerts=alerts("GradNormZero")),
}
