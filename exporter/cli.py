"""`asyncrl exporter`: flags, start-up, exit codes (0 stopped by a signal, 2 a mistake of the user)."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from exporter import event_log
from exporter.config import CHOICES, ExporterConfig
from exporter.doubts import find_doubts
from exporter.errors import ExporterError
from exporter.ingest import Ingest
from exporter.listeners import Listeners, open_guard
from exporter.server import Upstreams, serve_until_signalled
from exporter.settings import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, SETTINGS, load_settings

log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Runs the exporter until SIGTERM or SIGINT; returns the exit code."""
    flags = vars(_parser().parse_args(argv))
    check_only = flags.pop("check_config")
    try:
        settings = load_settings(flags.pop("config"), os.environ, flags)
        upstreams = Upstreams.find(settings.config)
        if check_only:
            guards = {listener: open_guard(listener, settings.config) for listener in ("listen", "otlp")}
            for doubt in find_doubts(settings.config, os.environ, guards):
                print(f"asyncrl exporter: warning: {doubt}", file=sys.stderr)
            print(settings.describe(), end="")
            return 0
        return _run(settings.config, upstreams)
    except ExporterError as error:
        print(f"asyncrl exporter: {error}", file=sys.stderr)
        return 2


def _run(config: ExporterConfig, upstreams: Upstreams) -> int:
    event_log.configure(config.log_format)
    listeners = Listeners.bind(config)
    try:
        ingest = Ingest.open(config)
    except ExporterError:
        listeners.close()
        raise
    guards = {each.guard.name: each.guard for each in (listeners.scrape, listeners.otlp)}
    for doubt in find_doubts(config, os.environ, guards):
        event_log.say(log, "doubtful setting", level=logging.WARNING, reason=doubt)
    urls = listeners.urls
    event_log.say(
        log,
        "listening",
        metrics=f"{urls['metrics']}/metrics",
        otlp=urls["otlp"],
        data_dir=config.data_dir,
    )
    asyncio.run(_serve_and_close(config, ingest, listeners, upstreams))
    return 0


async def _serve_and_close(
    config: ExporterConfig, ingest: Ingest, listeners: Listeners, upstreams: Upstreams
) -> None:
    """The journal is closed before the loop gives the signals back: a second one, as the kernel sends when a parent
    dies thread by thread, must not end what the first began."""
    try:
        await serve_until_signalled(config, ingest, listeners, upstreams)
    finally:
        await asyncio.to_thread(ingest.close)
        event_log.say(log, "stopped")


def _parser() -> argparse.ArgumentParser:
    # A flag that is not given is absent, so that it does not hide the key of the configuration file.
    parser = argparse.ArgumentParser(
        prog="asyncrl exporter",
        description="Receive telemetry over OTLP/HTTP and publish exact per-version metrics on /metrics.",
        epilog=f"A flag wins over a variable ({ENVIRONMENT_PREFIX}<KEY>), that over the file, that over the default.",
        argument_default=argparse.SUPPRESS,
    )

    parser.add_argument(
        "--config",
        metavar="FILE",
        type=_path,
        default=None,
        help=f"YAML mapping (default: what {CONFIG_VARIABLE} names); its keys: {', '.join(SETTINGS)}",
    )
    parser.add_argument(
        "--check-config",
        action="store_true",
        default=False,
        help="print the resolved settings, each with where it comes from, check the web config files, start nothing",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="let a listener be open to other machines without asking who they are",
    )
    for flag, metavar, kind, setting, text in _FLAGS:
        default = getattr(ExporterConfig(), setting)
        shown = "" if default in (None, "") else f" (default: {default})"
        parser.add_argument(flag, metavar=metavar, type=kind, dest=setting, help=text + shown)
    return parser


def _path(text: str) -> Path:
    if not text:  # an unset variable of a script, and not the working directory
        raise argparse.ArgumentTypeError("expected a path, got an empty one")
    return Path(text)


_FLAGS: Final[tuple[tuple[str, str, Callable[[str], object], str, str], ...]] = (
    ("--listen", "HOST:PORT", str, "listen", "where /metrics and the history are served"),
    ("--otlp", "HOST:PORT", str, "otlp", "where OTLP/HTTP is received"),
    ("--web-config", "FILE", _path, "web_config", "TLS and credentials of --listen"),
    ("--otlp-web-config", "FILE", _path, "otlp_web_config", "TLS and credentials of --otlp"),
    ("--max-connections", "COUNT", int, "max_connections", "most connections of each listener"),
    ("--data-dir", "DIR", _path, "data_dir", "folder of the journal"),
    ("--endpoints-file", "FILE", _path, "endpoints_file", "write the chosen addresses there, as JSON"),
    ("--grace", "SECONDS", float, "grace_seconds", "how long a version waits for missing records"),
    (
        "--finished-run-grace",
        "SECONDS",
        float,
        "finished_run_grace_seconds",
        "how long an ended run is shown",
    ),
    ("--abandon-after", "SECONDS", float, "abandon_after_seconds", "when a silent run is given up"),
    ("--max-body-bytes", "BYTES", int, "max_body_bytes", "largest request body, also once decompressed"),
    ("--retention-days", "DAYS", float, "retention_days", "how long the journal keeps an ended run"),
    ("--series-budget", "COUNT", int, "series_budget", "most series on the page"),
    ("--window-versions", "COUNT", int, "window_versions", "fewest versions kept in the version window"),
    ("--window-seconds", "SECONDS", float, "window_seconds", "shortest stay in the version window"),
    ("--journal-mode", "|".join(CHOICES["journal_mode"]), str, "journal_mode", "rollback on network storage"),
    ("--push", "URL", str, "push", "OTLP/HTTP receiver that gets every version at its time"),
    ("--forward-spans", "URL", str, "forward_spans", "OTLP/HTTP receiver that gets every span as it came"),
    ("--log-format", "|".join(CHOICES["log_format"]), str, "log_format", "form of the log on stderr"),
)
"""Flag, what it takes, how it is read, the setting, what `--help` says."""
