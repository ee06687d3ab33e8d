"""What the trainer has done so far: steps, versions, how stale its samples were. Pure.

Worked example, N = 4: version 1 is published, so steps go into window 2. A response whose oldest token is of version 0
has a staleness of (2 - 1) - 0 = 1. At the fourth step of the window 7 updates lie between: its update_lag is 7.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.reports import StateTimes, VersionReport
from runtime.telemetry.partial import Partial
from runtime.telemetry.state_clock import Window
from runtime.types import Sample

_RECENT_VERSIONS = 256


class Lags(NamedTuple):
    """How old the responses of a step are, read at its start."""

    staleness: Partial
    """Published version at training minus the version of the oldest token."""
    update_lag: Partial
    """Optimizer updates since the weights of the oldest token."""
    response_span: Partial
    """Newest minus oldest version among the tokens."""


class Progress:
    """Steps and versions so far, and the partials that the summary is made of."""

    def __init__(self) -> None:
        self.version = -1
        """Newest published; 0 are the initial weights, -1 before they are out."""
        self.steps = 0
        self.steps_in_window = 0
        self.first: VersionReport | None = None
        self.last: VersionReport | None = None
        self.staleness = Partial()
        self.update_lag = Partial()
        self.responses_spanning_versions = 0
        self.times = StateTimes()
        self.recent = deque[VersionReport](maxlen=_RECENT_VERSIONS)
        self._updates = 0
        self._updates_at = array("q")  # by version: optimizer updates at its publication; 8 bytes each
        self._window = _Window()

    def begin_step(self, samples: Sequence[Sample]) -> Lags:
        """Count a step into the window of the next version."""
        self.steps += 1
        self.steps_in_window += 1
        oldest = [response.oldest_version for sample in samples for response in sample.responses]
        newest = [response.newest_version for sample in samples for response in sample.responses]
        spans = [high - low for low, high in zip(oldest, newest, strict=True)]
        lags = Lags(
            staleness=Partial.of("staleness", [self.version - version for version in oldest]),
            update_lag=Partial.of(
                "update_lag", [self._updates - self._updates_at[version] for version in oldest]
            ),
            response_span=Partial.of("response_span", spans),
        )
        self.staleness = self.staleness.merge(lags.staleness)
        self.update_lag = self.update_lag.merge(lags.update_lag)
        self.responses_spanning_versions += sum(span > 0 for span in spans)
        self._window.staleness = self._window.staleness.merge(lags.staleness)
        self._window.samples += len(samples)
        return lags

    def end_step(self, samples: Sequence[Sample], *, updated: bool) -> None:
        self._updates += updated
        responses = [response for sample in samples for response in sample.responses]
        self._window.responses += len(responses)
        self._window.reward_sum += sum(response.reward for response in responses)
        self._window.exact_matches += sum(response.exact_match for response in responses)

    def publish(self, window: Window | None, *, rollouter_idle_ratio: float | None = None) -> None:
        """The next version is out. `window` is the trainer's; None for version 0, which has none."""
        self.version += 1
        self._updates_at.append(self._updates)
        if window is not None:
            self.times = self.times.plus(StateTimes(window.active_ns, window.version_time_ns))
            self.last = self._window.report(self.version, self.steps_in_window, window, rollouter_idle_ratio)
            self.first = self.first or self.last
            self.recent.append(self.last)
        self.steps_in_window = 0
        self._window = _Window()


@dataclass(kw_only=True, slots=True)
class _Window:
    """What the steps of the next version have consumed."""

    samples: int = 0
    responses: int = 0
    reward_sum: float = 0.0
    exact_matches: float = 0.0
    staleness: Partial = field(default_factory=Partial)

    def report(
        self, version: int, train_steps: int, window: Window, rollouter_idle_ratio: float | None
    ) -> VersionReport:
        return VersionReport(
            version=version,
            train_steps=train_steps,
            samples=self.samples,
            reward_mean=self.reward_sum / self.responses,
            exact_match_ratio=self.exact_matches / self.responses,
            staleness_mean=self.staleness.sum / self.staleness.count,
            trainer_idle_ratio=window.idle_ratio,
            rollouter_idle_ratio=rollouter_idle_ratio,
            seconds=window.version_time_ns / 1e9,
        )
