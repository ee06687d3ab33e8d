"""A load on an exporter that is killed again and again: two runs, of which each resumes as the next attempt.

Of each life of a run a trainer, two rollouters and a queue, one thread each. Every one repeats a request until it
is acknowledged, and only then hands it to the recomputation and goes on. Numbers are such that sums and means of
them are exact.
"""

import random
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import requests

from runtime.telemetry.schema import BUCKETS
from tests.exporter.acknowledged import Acknowledged
from tests.wire import Emitter, post_raw

RUNS = ("a", "b")
SLOTS = ("0", "1")
Request = tuple[str, bytes] | None
"""Signal and body; None: nothing to send just now."""


class Load:
    """`url` is where the exporter listens now; `truth` is what it acknowledged."""

    def __init__(self, seed: int) -> None:
        self.url = ""
        self.chance = random.Random(seed)
        self.truth = Acknowledged()
        self.unanswered = 0
        self.refused: list[str] = []
        self._lives = [Life(self, run, 1, 0) for run in RUNS]

    def resume(self) -> None:
        """One of the runs is restarted: what its processes have not sent is lost, the next attempt goes back."""
        with self.quiet():
            old = self._lives.pop(0)
            old.stopped = True
            back_to = max(old.synced - 3, 0)
            self._lives.append(Life(self, old.run, old.attempt + 1, back_to))

    def quiet(self) -> ExitStack:
        """While it is held nothing is on its way: what was sent is acknowledged."""
        stack = ExitStack()
        for life in list(self._lives):
            for sender in life.senders:
                stack.enter_context(sender.lock)
        return stack

    def stop(self) -> None:
        with self.quiet():
            for life in self._lives:
                life.stopped = True


class Life:
    """The processes of one run in one attempt. `synced` is its newest acknowledged version."""

    def __init__(self, load: Load, run: str, attempt: int, start: int) -> None:
        self.load, self.run, self.attempt = load, run, attempt
        self.start = self.synced = start
        self.sent = dict.fromkeys(SLOTS, start)
        """Newest version that each rollouter has sent a window of."""
        self.stopped = False
        self.senders = [
            Sender(self, self._trainer()),
            Sender(self, self._queue()),
            *(Sender(self, self._rollouter(slot)) for slot in SLOTS),
        ]
        for sender in self.senders:
            sender.start()

    def _emitter(self, role: str, name: str) -> Emitter:
        return Emitter(
            "", run=self.run, role=role, source=f"{self.run}{self.attempt}{name}", attempt=self.attempt
        )

    def _trainer(self) -> Iterator[Request]:
        trainer, chance = self._emitter("trainer", "t"), self.load.chance
        step = 0

        def steps(version: int, number: int) -> list[Any]:
            nonlocal step
            spans = []
            for _ in range(number):
                step += 1
                rewards = [chance.randrange(5) / 4 for _ in range(8)]
                spans.append(
                    trainer.train_step(
                        version,
                        step,
                        values={"policy_loss": chance.randrange(-64, 64) / 8, "reward": partial(rewards)},
                        sample_count=8,
                        token_count=chance.randrange(1, 100),
                        attributes={"asyncrl.buckets.reward": buckets(rewards)},
                    )
                )
            return spans

        yield "traces", trainer.request(trainer.weight_sync(self.start, 0)).SerializeToString()
        for version in count(self.start + 1):
            while version > min(self.sent.values()) + 4:  # a trainer waits for its samples
                yield None
            number = chance.choice((1, 2, 4))
            spans = steps(version, min(number, 2))
            if number == 4 or chance.random() < 0.5:
                yield "traces", trainer.request(*spans).SerializeToString()
                spans = []
            spans += steps(version, number - min(number, 2))
            sync = trainer.weight_sync(
                version, number, SLOTS, states={"training": 1.5, "waiting_samples": 0.25}
            )
            yield "traces", trainer.request(*spans, sync).SerializeToString()
            self.synced = version
            if version % 5 == 0:
                validation = trainer.span(
                    "validation", version, {"asyncrl.sample_count": 64}, values={"exact_match_ratio": 0.5}
                )
                yield "traces", trainer.request(validation).SerializeToString()

    def _rollouter(self, slot: str) -> Iterator[Request]:
        rollouter, chance = self._emitter("rollouter", f"r{slot}"), self.load.chance
        start, busy = time.time(), 0.0
        for version in count(self.start + 1):
            while version > self.synced:
                yield None
            states = {"generating": chance.randrange(1, 64) / 8, "paused_staleness": chance.randrange(64) / 8}
            window = rollouter.rollouter_window(version, slot, states)
            yield "traces", rollouter.request(window).SerializeToString()
            self.sent[slot] = version
            busy += states["generating"]
            seconds = rollouter.sum(
                "asyncrl.rollouter.state_seconds",
                busy,
                {"asyncrl.rollouter": slot, "asyncrl.state": "generating"},
                start=start,
            )
            yield "metrics", rollouter.metrics_request(seconds).SerializeToString()

    def _queue(self) -> Iterator[Request]:
        queue, chance = self._emitter("queue", "q"), self.load.chance
        start = time.time()
        fed = ended = 0
        while True:
            fed += chance.randrange(8)
            ended += chance.randrange(fed - ended + 1)
            queued = (fed - ended) // 2
            account = [
                queue.sum("asyncrl.samples.fed", fed, start=start),
                queue.sum("asyncrl.samples", ended, {"asyncrl.outcome": "trained"}, start=start),
                queue.gauge("asyncrl.samples.queued", queued),
                queue.gauge("asyncrl.samples.in_flight", fed - ended - queued),
            ]
            yield "metrics", queue.metrics_request(*account).SerializeToString()


class Sender(threading.Thread):
    """Sends the requests of one process, each until it is acknowledged; `lock` is held while one is on its way."""

    def __init__(self, life: Life, requests_: Iterator[Request]) -> None:
        super().__init__(daemon=True)
        self.life = life
        self.load = life.load
        self.requests = requests_
        self.lock = threading.Lock()

    def run(self) -> None:
        while not self.life.stopped:
            with self.lock:
                if self.life.stopped:
                    return
                request = next(self.requests)
                if request is not None:
                    while not self._deliver(*request):
                        time.sleep(0.01)
                    self.load.truth.take(*request)
            time.sleep(0.02)

    def _deliver(self, signal: str, body: bytes) -> bool:
        try:
            answer = post_raw(self.load.url, body, signal=signal)
        except requests.RequestException:
            self.load.unanswered += 1
            return False
        if answer.status == 200 and answer.rejected:
            self.load.refused.append(answer.reason)
        return answer.status == 200


def partial(values: list[float]) -> list[float]:
    """[count, sum, min, max, m2]."""
    mean = sum(values) / len(values)
    return [
        float(len(values)),
        sum(values),
        min(values),
        max(values),
        sum((value - mean) ** 2 for value in values),
    ]


def buckets(rewards: list[float]) -> list[int]:
    bounds = BUCKETS["reward"]
    places = [bisect_left(bounds, reward) for reward in rewards]
    return [places.count(place) for place in range(len(bounds) + 1)]
