"""The version window of a run: the newest versions, kept long enough for every scraper to see each of them.

Where they come faster than the budget allows, it gets coarser, not shorter: only versions that the stride divides
stay, and the stride doubles until they fit. The newest is always there.
"""

from collections import deque
from typing import Final

from exporter.state import Annex, SealedWindow

HARD_CAP: Final = 2000
"""Most versions of one run on the page, and most that have an annex there, however fast they come."""
SCRAPES_KEPT: Final = 4
SURE_SECONDS: Final = 60.0
"""The default interval of Prometheus: a second, slower scraper has come within it, too."""

Annexes = dict[tuple[int, int], dict[str, Annex]]


class VersionWindow:
    """`hold` = max(window_seconds, 4 x the observed scrape interval); a version also stays while it is among the
    newest `fewest`. The caps win over both; what then goes within 4 x that interval, at least `SURE_SECONDS`, goes
    early."""

    def __init__(self, *, fewest: int, hold_seconds: float, stride: int = 1) -> None:
        self._fewest, self._hold_seconds = fewest, hold_seconds
        self.stride = stride
        self.versions: deque[SealedWindow] = deque()
        self.annexes: Annexes = {}
        """(attempt, version) -> kind -> annex, the newest last."""

    def add(self, item: SealedWindow | Annex) -> None:
        if isinstance(item, SealedWindow):
            self.versions.append(item)
        else:
            said = {**self.annexes.get((item.attempt, item.version), {}), item.kind: item}
            in_order = sorted(said.values(), key=lambda annex: (annex.timestamp_ns, annex.kind))
            self.annexes[item.attempt, item.version] = {annex.kind: annex for annex in in_order}
            if len(self.annexes) > HARD_CAP:
                del self.annexes[min(self.annexes)]

    def trim(self, *, wall: float, scrape_interval: float | None, most: int, started: float = 0.0) -> int:
        """Drop what has been there long enough, or is too much; returns how many went before a scraper was sure to
        have seen them. Those from before the exporter `started` do not count: its last life has, if they left."""
        hold = max(self._hold_seconds, SCRAPES_KEPT * (scrape_interval or 0.0))
        sure = hold
        if scrape_interval is not None:
            sure = min(hold, max(SURE_SECONDS, SCRAPES_KEPT * scrape_interval))
        most = min(most, HARD_CAP)
        due = wall - hold
        while len(self.versions) > min(self._fewest, most) and self.versions[0].sealed_at < due:
            self.versions.popleft()
        recent = self._sealed_since(due)
        unsure = max(wall - sure, started)
        unseen = self._sealed_since(unsure)
        if self.stride > 1 and 4 * recent <= most:  # at half the stride they would fill half of it
            self.stride //= 2
        self._thin(most)
        oldest = (self.versions[0].attempt, self.versions[0].version) if self.versions else None
        if oldest is not None and len(self.versions) >= self._fewest:
            self._trim_annexes(oldest, seen_before=due)
        return unseen - self._sealed_since(unsure)

    def _sealed_since(self, wall: float) -> int:
        return sum(sealed.sealed_at >= wall for sealed in self.versions)

    def _thin(self, most: int) -> None:
        self._keep_divisible()
        while len(self.versions) > most > 1:
            self.stride *= 2
            self._keep_divisible()
        while len(self.versions) > most:
            self.versions.popleft()

    def _keep_divisible(self) -> None:
        """Leave the versions that the stride divides, the newest, and the newest that is published."""
        if self.stride == 1 or not self.versions:
            return
        published = [sealed for sealed in self.versions if sealed.published]
        newest = (*published[-1:], self.versions[-1])
        self.versions = deque(
            sealed for sealed in self.versions if sealed.version % self.stride == 0 or sealed in newest
        )
        last = (newest[-1].attempt, newest[-1].version)
        for key in [key for key in self.annexes if key[1] % self.stride and key < last]:
            del self.annexes[key]

    def _trim_annexes(self, oldest: tuple[int, int], *, seen_before: float) -> None:
        """Drop those of versions that have left, but for those that came later than their versions left."""
        for key in [key for key in self.annexes if key < oldest]:
            if max(annex.arrived_at for annex in self.annexes[key].values()) < seen_before:
                del self.annexes[key]
