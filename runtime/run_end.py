"""The last words of a source."""

import asyncio
from collections.abc import Mapping

from runtime.telemetry import schema
from runtime.telemetry.emitter import Telemetry, TelemetryStats

_SHUTDOWN_SECONDS = 5.0


async def end_telemetry(
    telemetry: Telemetry, *, status: str, param_version: int, state_seconds: Mapping[str, float] | None = None
) -> TelemetryStats:
    """Say that the source ends (from a trainer or controller: that the run ends), then send all that waits.

    `param_version` is the last published version, `state_seconds` the attributes of an unfinished window.
    """
    now_ns = telemetry.clock.now_ns()
    telemetry.control(
        schema.RUN_END,
        param_version=param_version,
        start_ns=now_ns,
        end_ns=now_ns,
        attributes={schema.STATUS: status, **(state_seconds or {})},
    )
    await asyncio.to_thread(telemetry.shutdown, _SHUTDOWN_SECONDS)
    return telemetry.stats()
