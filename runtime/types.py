"""What travels through the loop: prompts, tickets, responses, samples. Plain data, picklable, no torch.

environment -> Prompt -> (queue) Ticket -> rollouter -> Response x G -> Sample -> (queue) -> trainer
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One question. `answer` is what the environment needs to score a response; it never leaves the actors."""

    prompt_id: str
    text: str
    answer: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    reward: float
    exact_match: float
    """1.0 if the response is exactly right, else 0.0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticket:
    """The identity of one sample through queue, re-issue and resume."""

    ticket_id: int
    prompt: Prompt


@dataclass(kw_only=True, slots=True)
class Response:
    """One trajectory. The three lists grow together, token by token, and only ever by appending: after an
    interruption the tokens decoded so far keep the version and the log-prob they were decoded with."""

    index: int
    """Position within its group, 0..G-1."""
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    """Behaviour log-probs: log pi_v(token | prefix) under the version in `versions` at the same place."""
    versions: list[int] = field(default_factory=list)
    finish_reason: str = ""
    """`stop` (end token decoded) or `length`; empty while decoding."""
    reward: float = 0.0
    exact_match: float = 0.0
    traceparent: str = ""
    """W3C context of its `asyncrl.rollout` span; empty when that span was not sampled."""

    @property
    def oldest_version(self) -> int:
        return min(self.versions)

    @property
    def newest_version(self) -> int:
        return max(self.versions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A ticket with its finished group of responses."""

    ticket: Ticket
    prompt_token_ids: list[int]
    responses: list[Response]
    rollouter: str
    """The slot that generated it."""

    @property
    def oldest_version(self) -> int:
        return min(response.oldest_version for response in self.responses)
