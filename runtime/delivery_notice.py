"""Says which telemetry does not arrive, and why: an actor's own log is nothing that the user reads."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from runtime.notice import notice
from runtime.telemetry.delivery import DeliveryStats
from runtime.telemetry.emitter import TelemetryStats

_SECONDS_BETWEEN_LINES = 60.0


class DeliveryNotice:
    """While the run goes on: a line at the first failure of an endpoint, then at most one a minute, and one when all
    whom it failed, and who still live, have sent spans to it since."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], DeliveryStats] = {}
        self._say_again_at: dict[str, float] = {}
        self._failed: dict[str, set[str]] = {}
        """Endpoint -> the actors that it failed last."""
        self._recovered: dict[str, set[str]] = {}
        """Endpoint -> the actors that it failed, and that have sent to it since."""
        self._complained: set[str] = set()
        """Endpoints of which a line has said that they fail, and none that they work again."""

    def observe(self, actors: Mapping[str, TelemetryStats]) -> None:
        """The stats of each actor by its name, as they are now."""
        for actor, stats in actors.items():
            for endpoint in stats.endpoints:
                self._observe(actor, endpoint)
        for name in sorted(self._complained):
            if not self._failed[name] & actors.keys():  # an actor that is gone sends nothing more
                self._complained.discard(name)
                if self._recovered.pop(name, None):
                    notice(f"telemetry to {name} arrives again")

    def _observe(self, actor: str, endpoint: DeliveryStats) -> None:
        name, now = endpoint.endpoint, self._monotonic()
        known = self._known.get((actor, name))
        self._known[actor, name] = endpoint
        if endpoint.failures > (known.failures if known else 0):
            self._failed.setdefault(name, set()).add(actor)
            self._recovered.get(name, set()).discard(actor)
            if now >= self._say_again_at.get(name, now):
                self._say_again_at[name] = now + _SECONDS_BETWEEN_LINES
                self._complained.add(name)
                dropped = sum(endpoint.dropped.values())
                notice(
                    f"telemetry of {actor} to {name}: {endpoint.last_failure}; "
                    f"{endpoint.buffered} spans waiting, {dropped} dropped"
                )
        elif known and endpoint.sent > known.sent and actor in self._failed.get(name, ()):
            self._failed[name].discard(actor)
            self._recovered.setdefault(name, set()).add(actor)


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
