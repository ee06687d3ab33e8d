"""A small run without the command around it: the crew on the session's Ray, telemetry into a sink."""

import asyncio
from collections.abc import Awaitable, Callable

from runtime.config import RunConfig
from runtime.config_sources import load_config
from runtime.crew import Crew
from runtime.errors import RunFailedError
from runtime.live_view import LiveView
from runtime.summary import Reports
from runtime.telemetry import schema
from tests.otlp_sink import OtlpSink

WATCHDOG_SECONDS = 200.0


def configure(sink: OtlpSink, *assignments: str) -> RunConfig:
    settings = [
        "steps_per_version=2",
        "required_samples=4",
        "group_size=2",
        "engine.capacity_responses=16",
        f"telemetry.endpoints=[{sink.url}]",
    ]
    return load_config(assignments=[*settings, *assignments])


def carry_out(
    config: RunConfig, disturb: Callable[[], Awaitable[None]] | None = None
) -> tuple[str, str, Reports]:
    """Run to the end, whatever it is: the status, the cause of a failure, the reports."""

    async def run() -> tuple[str, str, Reports]:
        crew = Crew(config)
        disturbance = asyncio.ensure_future(disturb()) if disturb else None
        status, cause = "", ""
        with LiveView(versions=config.versions, metrics_url="") as view:
            try:
                status = await crew.work(view)
            except RunFailedError as error:
                status, cause = schema.FAILED, str(error)
        if disturbance:
            await disturbance
        return status, cause, await crew.end(status)

    return asyncio.run(asyncio.wait_for(run(), WATCHDOG_SECONDS))
