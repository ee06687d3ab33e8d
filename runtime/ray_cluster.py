"""The Ray that a run lives on: the cluster that RAY_ADDRESS names, or a local one of its own."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import ray


@contextmanager
def ray_cluster() -> Iterator[None]:
    """Connected inside the block; afterwards our actors are dead and a local Ray is gone."""
    # Nobody is told about a run, and an actor that reserves no GPU still sees the one that is there.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    if address := os.environ.get("RAY_ADDRESS"):
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    else:
        # One CPU in name only: actors reserve none, and Ray starts an idle worker for each.
        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        yield
    finally:
        ray.shutdown()
