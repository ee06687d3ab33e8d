"""Fixtures of all rooms."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, and nothing of the rule.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def plain_environment() -> Iterator[None]:
    """No variable of the developer's shell reaches OpenTelemetry or Ray."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("OTEL_", "RAY_"))]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One local Ray for all tests that need actors; those of `asyncrl run` start their own."""
    from runtime.ray_cluster import ray_cluster

    with asyncio.Runner() as runner:
        cluster = ray_cluster()
        runner.run(cluster.__aenter__())
        yield
        runner.run(cluster.__aexit__(None, None, None))
