"""A run with one rollouter more than have series of their own."""

import time

from exporter.catalog import MAX_ROLLOUTERS
from runtime.telemetry import schema
from tests.dashboards.every_family import SPAN_SECONDS, values_of
from tests.wire import Emitter

MANY = "many"
SLOTS = tuple(str(slot) for slot in range(MAX_ROLLOUTERS + 1))


class ManyRollouters:
    """`send(version)` as `EveryFamily` has it."""

    def __init__(self, otlp_url: str) -> None:
        self._started = time.time()
        self._trainer = Emitter(otlp_url, run=MANY, source="trainer-many")
        self._rollouters = Emitter(otlp_url, run=MANY, role="rollouter", source="rollouters-many")
        self._trainer.post(self._trainer.weight_sync(0, 0, seconds=SPAN_SECONDS))

    def send(self, version: int) -> None:
        trainer, rollouters = self._trainer, self._rollouters
        trainer.now = rollouters.now = time.time()
        life = trainer.now - self._started
        instruments = []
        for slot in SLOTS:
            of_slot = {schema.ROLLOUTER: slot}
            generating = of_slot | {schema.STATE: "generating"}
            instruments += [
                rollouters.gauge(schema.GAUGE_ROLLOUTER_STATE, 1, generating),
                rollouters.gauge(schema.GAUGE_ROLLOUTER_DECODING, 5, of_slot),
                rollouters.gauge(schema.GAUGE_ROLLOUTER_CAPACITY, 8, of_slot),
                rollouters.gauge(schema.GAUGE_ROLLOUTER_PARAM_VERSION, version - 1, of_slot),
                rollouters.sum(schema.SUM_ROLLOUTER_STATE_SECONDS, life, generating, start=self._started),
                rollouters.sum(schema.SUM_TOKENS_GENERATED, 900 * life, of_slot, start=self._started),
            ]
        rollouters.post_metrics(*instruments)
        rollouters.post(
            *(
                rollouters.rollouter_window(
                    version,
                    slot,
                    {"generating": 0.3, "paused_staleness": 0.1},
                    capacity_seconds=3.2,
                    busy_capacity_seconds=1.6,
                    attributes=values_of("rollouter", version),
                    start=trainer.now,
                    seconds=SPAN_SECONDS,
                )
                for slot in SLOTS
            )
        )
        trainer.post(
            trainer.train_step(
                version, version, attributes=values_of("trainer", version), seconds=SPAN_SECONDS
            ),
            trainer.weight_sync(version, 1, SLOTS, seconds=SPAN_SECONDS),
        )
