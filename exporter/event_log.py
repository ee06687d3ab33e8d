"""The log: one line on stderr per event that matters, its facts as fields; never one per record.

text    time=2026-11-30T14:48:26.123Z level=info event="sealed incomplete" run=r version=3 reasons=missing_steps
json    {"time": "2026-11-30T14:48:26.123Z", "level": "info", "event": "sealed incomplete", "run": "r", ...}
"""

import json
import logging
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

_QUIET_SECONDS: Final = 60.0
_MOST_REMEMBERED: Final = 4096


def say(log: logging.Logger, event: str, *, level: int = logging.INFO, **facts: object) -> None:
    """One event with its facts."""
    log.log(level, event, extra={"facts": facts})


class SparseLog:
    """For what may come with every record: the first is said at once, the next of its key once a minute, with how many
    were `held_back` since the one before."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[tuple[str, ...], float] = {}
        """Event and key -> monotonic seconds of its last line."""
        self._held = Counter[tuple[str, ...]]()

    def say(self, event: str, *key: str, level: int = logging.WARNING, **facts: object) -> None:
        """One event with its facts, if it is time."""
        which, now = (event, *key), time.monotonic()
        if now - self._said.get(which, -_QUIET_SECONDS) < _QUIET_SECONDS:
            self._held[which] += 1
            return
        if len(self._said) >= _MOST_REMEMBERED:
            self._said.clear()
            self._held.clear()
        self._said[which] = now
        held = {"held_back": count} if (count := self._held.pop(which, 0)) else {}
        say(self._log, event, level=level, **facts, **held)


def configure(form: str) -> None:
    """Sends the log of this process to stderr as `text` or `json`: our events, and what libraries warn of."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("exporter").setLevel(logging.INFO)


class _Lines(logging.Formatter):
    def _facts(self, record: logging.LogRecord) -> dict[str, Any]:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        facts |= getattr(record, "facts", {})
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return facts


class _JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self._facts(record), default=str)


class _TextLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_quoted(value)}" for name, value in self._facts(record).items())


def _quoted(value: object) -> str:
    """As it is where that is one plain word, else in JSON's quotes: a hostile run name starts no line of its own."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if text and plain else json.dumps(text)
