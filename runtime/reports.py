"""What the actors tell the controller: how they are now, and in the end what they did. Plain data, picklable."""

from dataclasses import dataclass
from typing import NamedTuple

from runtime.account import AccountView
from runtime.telemetry.emitter import TelemetryStats
from runtime.telemetry.partial import Partial


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionReport:
    """One published version, over all samples that its steps consumed."""

    version: int
    train_steps: int
    samples: int
    reward_mean: float
    exact_match_ratio: float
    staleness_mean: float
    trainer_idle_ratio: float | None
    rollouter_idle_ratio: float | None
    """Of the idlest rollouter, in its own window of the version."""
    seconds: float
    """Version time of the trainer's window."""


class StateTimes(NamedTuple):
    """Time of closed windows, so that ratios over many windows are ratios of sums."""

    active_ns: int = 0
    version_time_ns: int = 0

    def plus(self, other: "StateTimes") -> "StateTimes":
        return StateTimes(self.active_ns + other.active_ns, self.version_time_ns + other.version_time_ns)

    @property
    def idle_ratio(self) -> float | None:
        """1 - active / version time; None if no time has passed."""
        return 1 - self.active_ns / self.version_time_ns if self.version_time_ns else None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerStatus:
    state: str
    param_version: int
    """Newest published; -1 before the first weight sync."""
    steps: int
    telemetry: TelemetryStats


@dataclass(frozen=True, kw_only=True, slots=True)
class RollouterStatus:
    """One rollouter, as the live view shows it."""

    slot: str
    state: str
    decoding: int
    """Responses."""
    param_version: int | None
    """None until the first weights are loaded."""
    telemetry: TelemetryStats


@dataclass(frozen=True, kw_only=True, slots=True)
class RollouterReport:
    slot: str
    times: StateTimes
    active_intervals: list[tuple[int, int]]
    """[start, end) in unix ns, in order."""
    telemetry: TelemetryStats


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueReport:
    account: AccountView
    telemetry: TelemetryStats


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerReport:
    """What the trainer did in the whole run, for the summary."""

    versions_published: int
    """Versions 1, 2, ...; version 0 is given, not published."""
    train_steps: int
    first: VersionReport | None
    last: VersionReport | None
    """None if no version is complete."""
    staleness: Partial
    update_lag: Partial
    """Over the responses that all steps consumed."""
    responses_spanning_versions: int
    exact_match_greedy: float | None
    times: StateTimes
    active_intervals: list[tuple[int, int]]
    device: str | None
    """None if the run ended before it was known."""
    telemetry: TelemetryStats
