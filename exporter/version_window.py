"""The version window of a run: the newest versions, kept long enough for every scraper to see each of them."""

from collections import deque
from typing import Final

from exporter.state import Annex, SealedWindow

HARD_CAP: Final = 2000
"""Most versions of one run on the page, however fast they come."""
SCRAPES_KEPT: Final = 4

Annexes = dict[tuple[int, int], dict[str, Annex]]


class VersionWindow:
    """`hold` = max(window_seconds, 4 x the observed scrape interval); a version also stays while it is among the
    newest `fewest`. The caps win over both, and then the eviction is early."""

    def __init__(self, *, fewest: int, hold_seconds: float) -> None:
        self._fewest, self._hold_seconds = fewest, hold_seconds
        self.versions: deque[SealedWindow] = deque()
        self.annexes: Annexes = {}
        """(attempt, version) -> kind -> annex."""

    def add(self, item: SealedWindow | Annex) -> None:
        if isinstance(item, SealedWindow):
            self.versions.append(item)
        else:
            self.annexes.setdefault((item.attempt, item.version), {})[item.kind] = item

    def trim(self, *, wall: float, scrape_interval: float | None, most: int) -> int:
        """Drop what has been there long enough, or is too much; returns how many went before their time."""
        hold = max(self._hold_seconds, SCRAPES_KEPT * (scrape_interval or 0.0))
        most = min(most, HARD_CAP)
        early = 0
        while len(self.versions) > min(self._fewest, most):
            due = wall - self.versions[0].sealed_at > hold
            if not due and len(self.versions) <= most:
                break
            early += not due
            self.versions.popleft()
        oldest = (self.versions[0].attempt, self.versions[0].version) if self.versions else None
        if oldest is not None and len(self.versions) >= self._fewest:
            self._trim_annexes(oldest, seen_before=wall - hold)
        return early

    def _trim_annexes(self, oldest: tuple[int, int], *, seen_before: float) -> None:
        """Drop those of versions that have left, but for those that came later than their versions left."""
        past = sorted((key for key in self.annexes if key < oldest), reverse=True)
        for number, key in enumerate(past, len(self.annexes) - len(past)):
            newest = max(annex.arrived_at for annex in self.annexes[key].values())
            if newest < seen_before or number >= HARD_CAP:
                del self.annexes[key]
