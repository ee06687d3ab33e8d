"""Does it learn, or does it fall apart? Compared with what was usual for the run half an hour ago and before."""

from typing import Final

from dashboards.alert import Alert, established, settled
from dashboards.promql import RUN, once, selector
from dashboards.thresholds import limit
from exporter import catalog
from exporter.catalog import Family

_REWARD: Final = catalog.metric_family("reward", "mean")
_ENTROPY: Final = catalog.metric_family("entropy")
_GRAD_NORM: Final = catalog.metric_family("grad_norm")
_KL_REFERENCE: Final = catalog.metric_family("kl_reference")
_IMPORTANCE: Final = catalog.metric_family("importance_ratio", "mean")


def _lately(family: Family) -> str:
    return once(f"avg_over_time({selector(family)}[$recent])")


def _usually(family: Family) -> str:
    """The median, which a jump that enters the baseline moves late."""
    return once(f"quantile_over_time(0.5, {selector(family)}[$baseline] offset $baseline_offset)")


def _spread(family: Family) -> str:
    return once(f"stddev_over_time({selector(family)}[$baseline] offset $baseline_offset)")


_DROP: Final = f"{_usually(_REWARD)} - {_lately(_REWARD)}"

ALERTS: Final = (
    Alert(
        name="AsyncRLRewardCollapsed",
        severity="critical",
        expr=established(
            f"{_DROP} > {limit('reward_drop_ratio')} * abs({_usually(_REWARD)})"
            f" and {_DROP} > {limit('reward_drop_sigmas')} * {_spread(_REWARD)}"
        ),
        hold="lasting",
        keep="aftermath",  # what is usual catches up with it before what follows from it is over
        summary="The reward of run {{ $labels.run }} collapsed",
        description="The mean reward of run {{ $labels.run }} is {{ $value | humanize }} below what was usual.",
    ),
    Alert(
        name="AsyncRLEntropyCollapsed",
        severity="warning",
        expr=established(
            f"{_lately(_ENTROPY)} < {limit('entropy_drop_ratio')} * {_usually(_ENTROPY)}"
            f" unless on ({RUN}) ({_lately(_REWARD)} - {_usually(_REWARD)} > {_spread(_REWARD)})"
        ),
        hold="lasting",
        summary="The entropy of run {{ $labels.run }} collapsed",
        description="The policy of run {{ $labels.run }} has an entropy of {{ $value | humanize }} nats per token,"
        " far below what was usual, and the reward did not rise.",
    ),
    Alert(
        name="AsyncRLKLBehaviourHigh",
        severity="warning",
        expr=settled(f"{_lately(catalog.metric_family('kl_behaviour'))} > {limit('kl_behaviour')}"),
        hold="lasting",
        summary="Run {{ $labels.run }} trains far off policy",
        description="The trained policy of run {{ $labels.run }} is {{ $value | humanize }} nats per token away"
        " from the one that generated the samples.",
    ),
    Alert(
        name="AsyncRLKLReferenceBlownUp",
        severity="warning",
        expr=established(
            f"{_lately(_KL_REFERENCE)} > {limit('kl_reference')}"
            f" and {_lately(_KL_REFERENCE)} > {limit('blow_up_factor')} * {_usually(_KL_REFERENCE)}"
        ),
        hold="lasting",
        summary="The KL divergence of run {{ $labels.run }} blew up",
        description="The policy of run {{ $labels.run }} is {{ $value | humanize }} nats per token away from its"
        " reference, many times what was usual.",
    ),
    Alert(
        name="AsyncRLGradNormBlownUp",
        severity="warning",
        expr=established(
            f"{_lately(_GRAD_NORM)} > {limit('blow_up_factor')}"
            f" * ({_usually(_GRAD_NORM)} > {limit('grad_norm_least')})"
        ),
        hold="lasting",
        summary="The gradients of run {{ $labels.run }} blew up",
        description="The gradient norm of run {{ $labels.run }} is {{ $value | humanize }}, many times what was"
        " usual.",
    ),
    Alert(
        name="AsyncRLGradNormZero",
        severity="warning",
        expr=settled(
            f"{once(f'max_over_time({selector(_GRAD_NORM)}[$recent])')} <= {limit('grad_norm_least')}"
        ),
        hold="sustained",  # a reward that collapses with it, some versions later, is told of first
        summary="Run {{ $labels.run }} learns nothing: its gradients are zero",
        description="The gradient norm of run {{ $labels.run }} has been {{ $value }} at most.",
    ),
    Alert(
        name="AsyncRLImportanceWeightsDegenerate",
        severity="warning",
        expr=settled(
            f"{_lately(catalog.metric_family('effective_sample_size_ratio'))}"
            f" < {limit('effective_sample_size_ratio')}"
        ),
        hold="lasting",
        summary="A few tokens carry the updates of run {{ $labels.run }}",
        description="The effective sample size of run {{ $labels.run }} is {{ $value | humanizePercentage }} of its"
        " samples.",
    ),
    Alert(
        name="AsyncRLImportanceRatioBiased",
        severity="warning",
        expr=settled(
            f"{_lately(_IMPORTANCE)} > {limit('importance_ratio_high')}"
            f" or {_lately(_IMPORTANCE)} < {limit('importance_ratio_low')}"
        ),
        hold="lasting",
        summary="The importance ratios of run {{ $labels.run }} are not around 1",
        description="The mean importance ratio of run {{ $labels.run }} is {{ $value | humanize }}.",
    ),
)
