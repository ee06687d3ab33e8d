"""The controller: starts everything, watches everything, and ends everything, whatever happens.

tickets out, samples back, weights over: the queue decides who may work, the controller only who lives.

                +--------------------- controller ---------------------+
                | start, heartbeat, stop, end, summary, final wait     |
                +------+------------------+------------------+---------+
                       |                  |                  |
      acquire          v       take       v                  v
+-----------+  <--  +-------+  -->  +---------+        +----------+
| rollouter |  -->  | queue |  <--  | trainer |        | exporter |  <-- telemetry of all
+-----------+  put  +-------+ settle+---------+        +----------+
      ^                                  |
      +---------- weights (sync) --------+

who waits    for what                              who unblocks it
rollouter    a ticket: the budget is used up       trainer (sync), or a failed sample (refund)
rollouter    a ticket: the queue is full           trainer (step ended)
rollouter    a ticket: the data has ended          the end of the run
trainer      a batch                               rollouters (put), or the end of the data
trainer      a weight sync                         the last rollouter that has loaded
controller   the first of: trainer done, an actor dead, no heartbeat, a signal
controller   the last seal and a scrape of it      the exporter, a deadline, or a second Ctrl-C
"""

import asyncio
import json
import signal
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from runtime.config import RunConfig
from runtime.config_sources import dump_config
from runtime.crew import Crew
from runtime.delivery_notice import say_what_was_dropped
from runtime.errors import RunFailedError
from runtime.exporter_process import ExporterProcess
from runtime.live_view import LiveView
from runtime.notice import notice
from runtime.race import race
from runtime.ray_cluster import ray_cluster
from runtime.summary import Reports, build_summary
from runtime.telemetry import schema


class Interrupt:
    """SIGINT and SIGTERM from now on: the first stops the run, the second skips the final wait."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.number = 0
        self.listen()

    def listen(self) -> None:
        """Take the signals, from whoever has them."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._receive, number)

    def _receive(self, number: int) -> None:
        if self.first.is_set():
            self.second.set()
            return
        self.number = number
        self.first.set()
        notice("stopping")


async def run(config: RunConfig) -> int:
    """Carry out the run; the exit code: 0 completed, 1 failed, 130 or 143 stopped by a signal.

    The run's folder is there, empty. Raises ExporterStartError. Nothing that it started is left behind.
    """
    started = time.monotonic()
    interrupt = Interrupt()
    (config.folder / "config.yaml").write_text(dump_config(config))
    async with _telemetry_target(config) as (config, exporter, metrics_url):
        notice(f"starting {config.run_id}; its files are in {config.folder}")
        view = LiveView(versions=config.versions, metrics_url=metrics_url)
        notice("starting Ray")
        async with ray_cluster(config.gpus):
            # Ray has put a handler of its own before ours: it aborts the process three seconds after a SIGTERM.
            interrupt.listen()
            notice(
                "starting the actors: they load torch and build the model, the trainer warms the embedded one up"
            )
            crew = Crew(config)
            with view:
                status = await _work(crew, view, interrupt, config)
            notice("ending the actors" + ("; evaluating the final weights" * (status == schema.COMPLETED)))
            reports = await crew.end(status)
        if status == schema.COMPLETED:
            _say_if_the_data_ended(config, reports)
        wall_seconds = time.monotonic() - started
        summary = build_summary(config, status=status, wall_seconds=wall_seconds, reports=reports)
        summary_file = config.folder / "summary.json"
        summary_file.write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n")
        say_what_was_dropped(reports.telemetry)
        notice(f"{status}; {summary_file}")
        if exporter is not None and exporter.owned:
            # Nothing else is left to stop: from here on any signal means this wait.
            interrupt.first.set()
            await race(exporter.published(config.run_id), interrupt.second.wait())
    if status == schema.STOPPED:
        return 128 + interrupt.number
    return 0 if status == schema.COMPLETED else 1


async def _work(crew: Crew, view: LiveView, interrupt: Interrupt, config: RunConfig) -> str:
    """The status in which the run ends: by itself, by a signal, or by a failure, whose cause is printed."""
    ended: list[str] = []

    async def work() -> None:
        ended.append(await crew.work(view))

    try:
        await race(work(), interrupt.first.wait())
    except RunFailedError as error:
        log_file = config.folder / "failure.log"
        log_file.write_text("".join(traceback.format_exception(error)))
        notice(f"failed: {error} (more in {log_file})")
        return schema.FAILED
    return ended[0] if ended else schema.STOPPED


def _say_if_the_data_ended(config: RunConfig, reports: Reports) -> None:
    """A finite environment may end the run before all versions are out."""
    trainer, queue = reports.trainer, reports.queue
    if trainer and queue and trainer.versions_published < config.versions:
        notice(
            f"the environment ended after {queue.account.fed} prompts: "
            f"{trainer.versions_published} of {config.versions} versions"
        )


@asynccontextmanager
async def _telemetry_target(
    config: RunConfig,
) -> AsyncIterator[tuple[RunConfig, ExporterProcess | None, str]]:
    """The settings with the endpoints to send to, the exporter if the run has one, and the URL of /metrics."""
    if config.telemetry.endpoints:
        yield config, None, ""
        return
    exporter = ExporterProcess(config.exporter, config.folder)
    endpoints = await exporter.start()
    supervision = asyncio.create_task(exporter.supervise())
    try:
        telemetry = replace(config.telemetry, endpoints=(endpoints.otlp,))
        yield replace(config, telemetry=telemetry), exporter, f"{endpoints.metrics}/metrics"
    finally:
        supervision.cancel()
        with suppress(asyncio.CancelledError):
            await supervision
        await exporter.stop()
