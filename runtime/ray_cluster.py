"""The Ray that a run lives on: the cluster that RAY_ADDRESS names, or a local one of its own."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout

import ray

from runtime.errors import RuntimeConfigError


@asynccontextmanager
async def ray_cluster(gpus: float = 0.0) -> AsyncIterator[None]:
    """Connected inside the block; afterwards our actors are dead and a local Ray is gone.

    Raises RuntimeConfigError if `gpus` are more than a local Ray has; a cluster may still grow.
    """
    # In a thread, Ray leaves the handler of SIGTERM to us, and the loop goes on. That thread must outlive the
    # block, because what it starts dies with it: asyncio ends the threads of its pool with the loop.
    await asyncio.to_thread(_connect)
    # Ray prints news of its workers, which is no output of the run.
    with redirect_stdout(sys.stderr):
        try:
            _check_gpus(gpus)
            yield
        finally:
            ray.shutdown()


def _check_gpus(wanted: float) -> None:
    present = ray.cluster_resources().get("GPU", 0.0)
    if wanted > present and not os.environ.get("RAY_ADDRESS"):
        raise RuntimeConfigError(
            f"resources must ask for no more GPUs than there are, got {wanted:g} in all and {present:g} here; "
            "RAY_ADDRESS names a larger cluster"
        )


def _connect() -> None:
    # Nobody is told about a run, and an actor that reserves no GPU still sees the one that is there.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    if address := os.environ.get("RAY_ADDRESS"):
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        return
    # One CPU in name only: actors reserve none, and Ray starts an idle worker for each.
    ray.init(
        address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
    )
