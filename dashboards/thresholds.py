"""Every threshold of alerts and panels. A user overrides one by another value for its recording rule.

Where a number is not ours, `why` says whose it is. Long because it is a table: a threshold per row.
"""

from typing import Final

import msgspec

from dashboards import durations
from dashboards.errors import DashboardError


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that alerts compare with, and that panels draw."""

    name: str
    value: float | str
    """A number, or the name of the duration that it is, in seconds."""
    unit: str = ""
    help: str
    why: str

    @property
    def record(self) -> str:
        """The recording rule that has its value."""
        return f"asyncrl:threshold:{self.name}"

    def number(self, divisor: int = 1) -> float:
        return durations.seconds(self.value, divisor) if isinstance(self.value, str) else self.value


_TABLE: Final = (
    # The exporter.
    Threshold(
        name="scrape_success_ratio",
        value=0.9,
        unit="ratio",
        help="Least share of scrapes that succeed",
        why="a restart costs two minutes of an hour",
    ),
    Threshold(
        name="window_stride_versions",
        value=1,
        unit="versions",
        help="Every how many versions one is on the page",
        why="at 1 the page has all of them",
    ),
    Threshold(
        name="refused_requests_per_minute",
        value=1,
        help="Requests with wrong credentials",
        why="a person mistypes once, a sender repeats itself",
    ),
    Threshold(
        name="certificate_seconds",
        value="certificate",
        unit="seconds",
        help="Time for which the certificate of a listener is still good",
        why="machines renew earlier, people need some days",
    ),
    Threshold(
        name="push_age_seconds",
        value="push_age",
        unit="seconds",
        help="Age of the oldest version that waits for OTLP push",
        why="its receiver is away for longer than an upgrade takes",
    ),
    # Telemetry.
    Threshold(
        name="heartbeat_seconds",
        value="heartbeat",
        unit="seconds",
        help="Silence of a source that speaks by itself",
        why="live values come every second; three missed scrapes in a row are no silence",
    ),
    Threshold(
        name="clock_offset_seconds",
        value=10,
        unit="seconds",
        help="Clock of a source against the exporter's, either way",
        why="transport takes some seconds; more makes times on boards wrong",
    ),
    Threshold(
        name="late_records",
        value=5,
        help="Records that came after their version was sealed, within the recent window",
        why="one hiccup of a network is no reason to wake anybody",
    ),
    Threshold(
        name="event_seconds",
        value="event",
        unit="seconds",
        help="How long an event is news",
        why="long enough to be seen, short enough to resolve by itself",
    ),
    # The numbers themselves.
    Threshold(
        name="range_tolerance_ratio",
        value=0.001,
        unit="ratio",
        help="How far a reported ratio may lie outside 0..1",
        why="rounding in 32-bit floats",
    ),
    Threshold(
        name="unaccounted_samples",
        value=0,
        help="Samples that the account cannot explain",
        why="it balances at every instant by definition",
    ),
    # Progress.
    Threshold(
        name="stall_factor",
        value=3,
        help="How many times the usual time between versions may pass without one",
        why="twice is a long version, three times is none",
    ),
    Threshold(
        name="stalled_seconds",
        value="stalled",
        unit="seconds",
        help="Least time without a version that is a stall",
        why="600 s, as prime-rl's trainer health check has it",
    ),
    Threshold(
        name="first_version_seconds",
        value="first_version",
        unit="seconds",
        help="Longest time until the first version of a run",
        why="loading a large model and compiling takes minutes, not half hours",
    ),
    Threshold(
        name="pause_seconds",
        value="pause",
        unit="seconds",
        help="Longest validation or checkpoint",
        why="they are quiet by design, so something has to notice that one hangs",
    ),
    Threshold(
        name="warm_up_seconds",
        value="warm_up",
        unit="seconds",
        help="Time after a start in which ratios say nothing",
        why="queues fill and caches warm",
    ),
    Threshold(
        name="rollouter_lag_versions",
        value=2,
        unit="versions",
        help="How far the version that a rollouter serves may be behind",
        why="one version is in transfer, one may be skipped",
    ),
    Threshold(
        name="weight_sync_share_ratio",
        value=0.2,
        unit="ratio",
        help="Largest share of a version that its weight sync takes",
        why="a fifth of both sides' time, for nothing but copying",
    ),
    Threshold(
        name="checkpoint_factor",
        value=2,
        help="How many times the usual time between checkpoints may pass without one",
        why="two full runs, as Prometheus advises for batch jobs",
    ),
    Threshold(
        name="checkpoint_seconds",
        value="checkpoint",
        unit="seconds",
        help="Longest time without a checkpoint where the usual one is not known",
        why="what a crash may cost at most",
    ),
    Threshold(
        name="checkpoint_least_seconds",
        value="checkpoint_least",
        unit="seconds",
        help="Least age of a checkpoint that is old",
        why="checkpoints of every few minutes may be skipped now and then",
    ),
    # Who waits for whom.
    Threshold(
        name="trainer_wait_ratio",
        value=0.5,
        unit="ratio",
        help="Share of its time that the trainer waits for samples",
        why="half of the trainer's hardware does nothing",
    ),
    Threshold(
        name="rollouters_idle_ratio",
        value=0.5,
        unit="ratio",
        help="Share of their time in which the rollouters decode nothing",
        why="half of the rollouters' hardware does nothing",
    ),
    Threshold(
        name="both_idle_ratio",
        value=0.3,
        unit="ratio",
        help="Idle share of either side while the other waits, too",
        why="each waits for the other: more hardware on neither side helps",
    ),
    Threshold(
        name="rollouters_unused_ratio",
        value=0.7,
        unit="ratio",
        help="Share of the rollouters' decoding capacity that is not in use",
        why="a few long responses keep the slots of all others empty",
    ),
    # Staleness and samples.
    Threshold(
        name="staleness_versions",
        value=8,
        unit="versions",
        help="95th percentile of staleness",
        why="prime-rl drops beyond 8, AReaL advises 2 to 8",
    ),
    Threshold(
        name="dropped_samples_ratio",
        value=0.05,
        unit="ratio",
        help="Share of samples that were generated and thrown away",
        why="above, generation is paid for and not used",
    ),
    Threshold(
        name="failed_samples_ratio",
        value=0.05,
        unit="ratio",
        help="Share of samples that failed",
        why="prime-rl calls sustained 5 % a smell",
    ),
    Threshold(
        name="filtered_samples_ratio",
        value=0.9,
        unit="ratio",
        help="Share of consumed samples without any variance of reward",
        why="above, hardly anything is left to learn from",
    ),
    # Learning.
    Threshold(
        name="reward_drop_ratio",
        value=0.5,
        unit="ratio",
        help="Drop of the mean reward, relative to what was usual",
        why="half of what was learned is gone",
    ),
    Threshold(
        name="reward_drop_sigmas",
        value=3,
        help="Drop of the mean reward in standard deviations of its usual course",
        why="smaller ones are noise",
    ),
    Threshold(
        name="entropy_drop_ratio",
        value=0.3,
        unit="ratio",
        help="Entropy, relative to what was usual",
        why="a fall to less than a third is sudden; learning lowers it slowly",
    ),
    Threshold(
        name="kl_behaviour",
        value=0.1,
        unit="nats",
        help="KL divergence of the trained policy from the one that generated",
        why="verl's rollout correction warns above 0.1",
    ),
    Threshold(
        name="kl_reference",
        value=0.1,
        unit="nats",
        help="Least KL divergence from the reference that is a blow-up",
        why="below, tenfold of nearly nothing is nothing",
    ),
    Threshold(
        name="blow_up_factor",
        value=10,
        help="How many times the usual value a KL divergence or gradient norm may be",
        why="an order of magnitude",
    ),
    Threshold(
        name="grad_norm_least",
        value=1e-8,
        help="Gradient norm at or below which nothing is learned",
        why="frozen weights or a masked batch",
    ),
    Threshold(
        name="effective_sample_size_ratio",
        value=0.3,
        unit="ratio",
        help="Least effective sample size of the importance weights",
        why="verl's rollout correction warns below 0.3; its fall precedes collapse (arXiv 2602.17616)",
    ),
    Threshold(
        name="importance_ratio_low",
        value=0.5,
        help="Least mean importance ratio",
        why="verl's rollout correction warns below 0.5",
    ),
    Threshold(
        name="importance_ratio_high",
        value=2,
        help="Largest mean importance ratio",
        why="verl's rollout correction warns above 2",
    ),
    # GPUs.
    Threshold(
        name="gpu_heat_throttled_ratio",
        value=0.05,
        unit="ratio",
        help="Share of time in which heat holds a GPU's clock back",
        why="one slow GPU slows every step of all; 85 degrees alone are normal load in many a rack",
    ),
    Threshold(
        name="gpu_memory_ratio",
        value=0.97,
        unit="ratio",
        help="Largest share of a GPU's memory in use",
        why="the next allocation fails",
    ),
)

THRESHOLDS: Final[dict[str, Threshold]] = {threshold.name: threshold for threshold in _TABLE}


def limit(name: str) -> str:
    """The threshold as a scalar of an expression."""
    if name not in THRESHOLDS:
        raise DashboardError(
            f"a rule names the threshold {name!r}; thresholds.py has {', '.join(THRESHOLDS)}"
        )
    return f"scalar({THRESHOLDS[name].record})"
