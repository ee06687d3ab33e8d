"""The generated cohort of each version: the responses whose oldest token that version decoded. Pure.

    issued(ticket)          stamped with the newest synced version: its first token will be no older
    finished(ticket, ...)   counted under its oldest token; the ticket is open no longer
    synced(v)               every rollouter now serves v or newer

A cohort is closed when no ticket that could still add to it is open: below the newest synced version and below
the stamp of every open ticket. That is what answers "what did version 412 do to the reward?".
"""

from dataclasses import dataclass, field

from runtime.telemetry.partial import Partial
from runtime.types import Sample


@dataclass(kw_only=True, slots=True)
class GeneratedCohort:
    """The responses of one version; each list holds one value per response."""

    version: int
    start_ns: int
    """When its first result came."""
    sample_count: int = 0
    rewards: list[float] = field(default_factory=list)
    exact_matches: list[float] = field(default_factory=list)
    response_lengths: list[float] = field(default_factory=list)

    def values(self) -> dict[str, float | Partial]:
        return {
            "reward": Partial.of("reward", self.rewards),
            "exact_match_ratio": sum(self.exact_matches) / len(self.exact_matches),
            "response_length": Partial.of("response_length", self.response_lengths),
        }


class GeneratedCohorts:
    """The cohorts that are still open, and the stamps of the open tickets."""

    def __init__(self) -> None:
        self._synced_version = 0
        self._stamps: dict[int, int] = {}
        self._open: dict[int, GeneratedCohort] = {}

    def issued(self, ticket_id: int) -> None:
        self._stamps[ticket_id] = self._synced_version

    def finished(self, sample: Sample, now_ns: int) -> None:
        del self._stamps[sample.ticket.ticket_id]
        for version in {response.oldest_version for response in sample.responses}:
            self._open.setdefault(
                version, GeneratedCohort(version=version, start_ns=now_ns)
            ).sample_count += 1
        for response in sample.responses:
            cohort = self._open[response.oldest_version]
            cohort.rewards.append(response.reward)
            cohort.exact_matches.append(response.exact_match)
            cohort.response_lengths.append(float(len(response.token_ids)))

    def failed(self, ticket_id: int) -> None:
        del self._stamps[ticket_id]

    def synced(self, version: int) -> None:
        self._synced_version = version

    def pop_closed(self) -> list[GeneratedCohort]:
        """The cohorts that nothing can add to any more, oldest first; each is returned once."""
        floor = min(self._stamps.values(), default=self._synced_version)
        closed = sorted(version for version in self._open if version < floor)
        return [self._open.pop(version) for version in closed]

    def pop_all(self) -> list[GeneratedCohort]:
        """At the end of the run, when every open ticket has become unused."""
        self._stamps.clear()
        return [self._open.pop(version) for version in sorted(self._open)]
