"""Settings that can be, and are hardly meant: each is a line of warning, at the start and of --check-config."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from exporter.config import ExporterConfig
from exporter.guard import Guard
from exporter.listeners import is_loopback
from exporter.settings import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, SETTINGS

_ALIKE = 0.8
"""Kubernetes and others set variables of this prefix, too: those that are like no key of ours are none of ours."""


def find_doubts(
    config: ExporterConfig, environment: Mapping[str, str], guards: Mapping[str, Guard]
) -> Iterator[str]:
    """`guards` are those of the listeners `listen` and `otlp`."""
    if config.retention_days * 86_400 < config.finished_run_grace_seconds:
        yield "retention_days is shorter than finished_run_grace_seconds: a run leaves history before the page"
    if config.abandon_after_seconds <= config.grace_seconds:
        yield "abandon_after_seconds is not above grace_seconds: a run is lost before its versions are sealed"
    for name, guard in guards.items():
        if guard.doubt:
            yield guard.doubt
        if is_loopback(name, config):
            continue
        if not guard.config.authenticates:
            yield f"{name} is open to other machines and asks nobody who they are, as insecure says"
        elif guard.tls is None:
            yield f"{name} takes passwords and tokens from other machines in plain HTTP, where others can read them"
    for variable in sorted(environment):
        if meant := _meant(variable):
            yield f"{variable} is no setting; is {ENVIRONMENT_PREFIX}{meant.upper()} meant?"


def _meant(variable: str) -> str:
    """The key that a variable nearly names; empty where it names one, or none."""
    key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
    if not variable.startswith(ENVIRONMENT_PREFIX) or key in SETTINGS or variable == CONFIG_VARIABLE:
        return ""
    begun = [name for name in SETTINGS if name.startswith(f"{key}_")]
    return next(iter(begun or get_close_matches(key, SETTINGS, n=1, cutoff=_ALIKE)), "")
