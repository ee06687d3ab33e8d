"""A state clock as instruments: the live one-hot state and the cumulative seconds per state."""

from collections.abc import Mapping

from runtime.telemetry import schema
from runtime.telemetry.emitter import Telemetry
from runtime.telemetry.instruments import Points
from runtime.telemetry.state_clock import StateClock


def observe_states(
    telemetry: Telemetry,
    clock: StateClock,
    states: tuple[str, ...],
    *,
    gauge: str,
    seconds: str,
    labels: Mapping[str, str],
) -> None:
    """Publish `gauge` and `seconds` per state of `states`, each with `labels`."""

    def one_hot() -> Points:
        current = clock.state
        return [(float(state == current), {**labels, schema.STATE: state}) for state in states]

    def cumulative() -> Points:
        totals_ns = clock.totals_ns(telemetry.clock.now_ns())
        return [(ns / 1e9, {**labels, schema.STATE: state}) for state, ns in totals_ns.items()]

    telemetry.observe_gauge(gauge, one_hot)
    telemetry.observe_sum(seconds, cumulative)
