"""Finished groups to scored samples: the environment's rewards, and the detail spans of each response."""

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple, SupportsFloat

from runtime.environment import Environment
from runtime.telemetry import schema
from runtime.telemetry.emitter import Telemetry
from runtime.tokenizer import Tokenizer
from runtime.types import Response, Sample

logger = logging.getLogger(__name__)


class FinishedGroup(NamedTuple):
    """A sample whose responses have all ended, not scored yet."""

    sample: Sample
    admitted_ns: int
    finished_ns: int


class Scored(NamedTuple):
    samples: list[Sample]
    failures: list[tuple[int, str]]
    """Ticket and error of each sample that could not be scored."""


class Scorer:
    """Not thread-safe, like the user's environment: one thread calls it."""

    def __init__(self, environment: Environment, tokenizer: Tokenizer, telemetry: Telemetry) -> None:
        self._environment = environment
        self._tokenizer = tokenizer
        self._telemetry = telemetry
        self.failed_in_a_row = 0
        """Samples since the last one that could be scored."""

    def score(self, groups: Sequence[FinishedGroup]) -> Scored:
        scored = Scored([], [])
        for group in groups:
            try:
                for response in group.sample.responses:
                    self._score_response(group, response)
            # The user's code may raise anything; one bad sample is counted and replaced, not the end of the run.
            except Exception as error:
                logger.exception("ticket %d could not be scored", group.sample.ticket.ticket_id)
                scored.failures.append((group.sample.ticket.ticket_id, f"{type(error).__name__}: {error}"))
                self.failed_in_a_row += 1
            else:
                scored.samples.append(group.sample)
                self.failed_in_a_row = 0
        return scored

    def _score_response(self, group: FinishedGroup, response: Response) -> None:
        start_ns = self._telemetry.clock.now_ns()
        text = self._tokenizer.decode(response.token_ids)
        score = self._environment.score(group.sample.ticket.prompt, text)
        response.reward = _finite("reward", score.reward)
        response.exact_match = _finite("exact_match", score.exact_match)
        end_ns = self._telemetry.clock.now_ns()
        identity = {
            schema.SAMPLE_ID: group.sample.ticket.ticket_id,
            schema.RESPONSE_INDEX: response.index,
        }
        response.traceparent = self._telemetry.detail(
            schema.ROLLOUT,
            start_ns=group.admitted_ns,
            end_ns=end_ns,
            attributes={
                **identity,
                schema.PARAM_VERSION_MIN: response.oldest_version,
                schema.PARAM_VERSION_MAX: response.newest_version,
                schema.TOKENS: len(response.token_ids),
                schema.REWARD_VALUE: response.reward,
                schema.FINISH_REASON: response.finish_reason,
            },
        )
        for name, begin_ns, finish_ns in (
            (schema.GENERATE, group.admitted_ns, group.finished_ns),
            (schema.REWARD, start_ns, end_ns),
        ):
            self._telemetry.detail(
                name,
                start_ns=begin_ns,
                end_ns=finish_ns,
                attributes=identity,
                parent=response.traceparent,
            )


def _finite(name: str, value: object) -> float:
    """One such value would make the mean of everything that it is merged into meaningless."""
    if not isinstance(value, SupportsFloat) or not math.isfinite(value):
        raise ValueError(f"score() must give a finite number as {name}, got {value!r}")
    return float(value)
