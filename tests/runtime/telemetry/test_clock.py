from runtime.telemetry.clock import Clock


def test_a_wall_clock_that_steps_back_changes_nothing() -> None:
    wall_ns, monotonic_ns = [1_000_000_000_000], [5_000_000_000]
    clock = Clock(wall_ns=lambda: wall_ns[0], monotonic_ns=lambda: monotonic_ns[0])
    assert clock.now_ns() == 1_000_000_000_000
    wall_ns[0] -= 50_000_000_000
    monotonic_ns[0] += 25_000_000_000
    assert clock.now_ns() == 1_025_000_000_000
