"""Says which telemetry does not arrive, and why: an actor's own log is nothing that the user reads."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from runtime.notice import notice
from runtime.telemetry.emitter import TelemetryStats

_SECONDS_BETWEEN_LINES = 60.0


class DeliveryNotice:
    """While the run goes on: a line at the first failure of an endpoint, then at most one a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures: dict[tuple[str, str], int] = {}
        self._say_again_at: dict[str, float] = {}

    def observe(self, actors: Mapping[str, TelemetryStats]) -> None:
        """The stats of each actor by its name, as they are now."""
        now = self._monotonic()
        for actor, stats in actors.items():
            for endpoint in stats.endpoints:
                known = self._failures.get((actor, endpoint.endpoint), 0)
                self._failures[actor, endpoint.endpoint] = endpoint.failures
                if endpoint.failures > known and now >= self._say_again_at.get(endpoint.endpoint, now):
                    self._say_again_at[endpoint.endpoint] = now + _SECONDS_BETWEEN_LINES
                    dropped = sum(endpoint.dropped.values())
                    notice(
                        f"telemetry of {actor} to {endpoint.endpoint}: {endpoint.last_failure}; "
                        f"{endpoint.buffered} spans waiting, {dropped} dropped"
                    )


def say_what_was_dropped(actors: Iterable[TelemetryStats]) -> None:
    """In the end: a line for each endpoint that lacks something for ever."""
    endpoints = [endpoint for stats in actors for endpoint in stats.endpoints]
    for name in dict.fromkeys(endpoint.endpoint for endpoint in endpoints):
        parts = [endpoint for endpoint in endpoints if endpoint.endpoint == name]
        dropped: Counter[str] = sum((Counter(part.dropped) for part in parts), Counter())
        if dropped:
            reason = next(
                (part.last_failure for part in reversed(parts) if part.last_failure), "not sent in time"
            )
            notice(
                f"telemetry to {name} was lost: {dropped['control']} control spans, without which versions are "
                f"incomplete or missing, and {dropped['detail']} detail spans; {reason}"
            )
