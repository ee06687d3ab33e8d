"""What a person sees while the run goes on: a table that is redrawn, or one line per version without a terminal."""

import sys
from typing import NamedTuple, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from runtime.account import AccountView
from runtime.notice import leave
from runtime.reports import RollouterStatus, TrainerStatus, VersionReport

_ROWS = 12


class Statuses(NamedTuple):
    """How the actors are, asked every second."""

    trainer: TrainerStatus
    queue: AccountView
    rollouters: list[RollouterStatus]


class _Terminal(Console):
    """When whoever read it has gone, the run goes on without the view."""

    def __init__(self, stdout: TextIO) -> None:
        super().__init__(file=stdout)
        self._stdout = stdout

    def on_broken_pipe(self) -> None:
        self.quiet = True
        leave(self._stdout)


class LiveView:
    """Use as a context manager: the terminal is given back at the end, however the run ends."""

    def __init__(self, *, versions: int, metrics_url: str) -> None:
        # This stdout: while Ray is there, what others print goes to stderr.
        self._console = _Terminal(sys.stdout)
        self._versions = versions
        self._metrics_url = metrics_url
        self._rows: list[list[str]] = []
        self._statuses: Statuses | None = None
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> "LiveView":
        if self._console.is_terminal:
            self._live.start()
        elif self._metrics_url:
            self._print(f"metrics on {self._metrics_url}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            # What the actors did last is no news once they have ended.
            self._statuses = None
            self._draw()
            self._live.stop()

    def refresh(self, statuses: Statuses) -> None:
        starting = self._statuses is None or self._statuses.trainer.param_version < 0
        self._statuses = statuses
        self._draw()
        if starting and statuses.trainer.param_version >= 0 and not self._console.is_terminal:
            self._print("training has begun")

    def version(self, report: VersionReport) -> None:
        """A version was published."""
        cells = self._cells(report)
        self._rows = [*self._rows[1 - _ROWS :], cells]
        self._draw()
        if not self._console.is_terminal:
            self._print("  ".join(f"{name} {cell}" for name, cell in zip(_COLUMNS, cells, strict=True)))

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    def _draw(self) -> None:
        if not self._console.is_terminal:
            return
        caption = None
        if self._statuses is not None:
            states = [f"rollouter {status.slot} {status.state}" for status in self._statuses.rollouters]
            caption = ", ".join([f"trainer {self._statuses.trainer.state}", *states])
        title = self._metrics_url and f"metrics on {self._metrics_url}"
        table = Table(*_COLUMNS, title=title, caption=caption, box=SIMPLE_HEAD)
        for row in self._rows:
            table.add_row(*row)
        self._live.update(table, refresh=True)

    def _cells(self, report: VersionReport) -> list[str]:
        queue = "-"
        if self._statuses is not None:
            account = self._statuses.queue
            queue = f"{account.in_flight + account.queued}/{account.capacity}"
        idle_ratios = (report.trainer_idle_ratio, report.rollouter_idle_ratio)
        return [
            f"{report.version}/{self._versions}",
            f"{report.reward_mean:.3f}",
            f"{report.exact_match_ratio:.3f}",
            f"{report.staleness_mean:.2f}",
            queue,
            *("-" if ratio is None else f"{ratio:.2f}" for ratio in idle_ratios),
            f"{report.samples / report.seconds:.0f}",
        ]


_COLUMNS = ("version", "reward", "exact", "staleness", "queue", "trainer idle", "rollout idle", "samples/s")
"""All of the version itself, but `queue`, which is of now. `rollout idle` is that of the idlest rollouter."""
