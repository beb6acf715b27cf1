"""How much of the processor is left to a thread."""

import pytest

from ttscommon.engine.pace import Contention, RoundTimes, Schedstat


def test_a_round_gives_every_open_stream_a_frame_and_pays_for_work_without_frames() -> None:
    pace = RoundTimes()
    for _ in range(30):
        pace.add(streams=10, frames=5, seconds=0.02)  # half of them at a time
    assert pace.round_s == {10: pytest.approx(0.04)}
    paid = RoundTimes()
    paid.add(streams=4, frames=0, seconds=0.15)
    assert paid.round_s == {}
    paid.add(streams=4, frames=20, seconds=0.15)
    assert paid.round_s == {4: pytest.approx(4 * 0.3 / 20)}


def test_sizes_not_seen_are_as_much_slower_as_those_that_were() -> None:
    pace = RoundTimes({1: 0.004, 16: 0.016})
    assert pace.round_s == {1: 0.004, 16: 0.016}
    pace.add(streams=1, frames=25, seconds=0.3)  # three times as slow as known
    assert pace.round_s == {1: pytest.approx(0.012), 16: pytest.approx(0.048)}


def test_a_busy_moment_is_forgotten() -> None:
    now = 0.0
    pace = RoundTimes({1: 0.004, 16: 0.016}, lambda: now)
    pace.add(streams=16, frames=16, seconds=0.4)
    assert pace.round_s[16] == pytest.approx(0.4)
    now = 60.0
    assert pace.round_s == {1: 0.004, 16: 0.016}
    pace.add(streams=1, frames=75, seconds=0.3)
    assert pace.round_s[16] == pytest.approx(0.016)


def test_a_round_of_any_size_is_read_off_the_line() -> None:
    assert RoundTimes().at(5) == 0.0
    pace = RoundTimes({1: 0.004, 16: 0.019})
    assert pace.at(6) == pytest.approx(0.009)
    pace.add(streams=6, frames=150, seconds=0.45)  # 18 ms a round: twice as slow as known
    assert pace.at(16) == pytest.approx(0.038)


class Machine:
    """A clock, and the kernel's counts of one thread."""

    def __init__(self) -> None:
        self.now = self.ran_s = self.waited_s = 0.0

    def work(self, seconds: float, share: float) -> None:
        """So much work, on a processor of which the thread gets `share`."""
        self.ran_s += seconds
        self.waited_s += seconds * (1.0 / share - 1.0)
        self.now += seconds / share

    def read(self) -> tuple[float, float]:
        return self.ran_s, self.waited_s


@pytest.fixture
def machine() -> Machine:
    return Machine()


def contention(machine: Machine) -> Contention:
    made = Contention(lambda: machine.now, machine.read)
    made.measure()
    return made


@pytest.mark.parametrize("share", [0.5, 0.125])
def test_a_machine_that_became_slower_is_known_within_a_second(
    machine: Machine, share: float
) -> None:
    found = contention(machine)
    while machine.now < 10.0:
        machine.work(0.004, share=1.0)
        found.measure()
    while machine.now < 11.0:
        machine.work(0.004, share=share)
        found.measure()
    assert found.factor == pytest.approx(1.0 / share, rel=0.15)
    while machine.now < 12.5:
        machine.work(0.004, share=1.0)
        found.measure()
    assert found.factor == pytest.approx(1.0, rel=0.3)


def test_one_step_beside_others_says_enough_for_a_first_chunk(machine: Machine) -> None:
    found = contention(machine)
    machine.now = 60.0  # idle before
    machine.work(0.01, share=0.125)
    assert found.measure() == pytest.approx(0.07)
    assert found.factor > 4.0


def test_waiting_for_a_lock_is_no_device(machine: Machine) -> None:
    found = contention(machine)
    for _ in range(100):
        machine.work(0.004, share=0.25)
        machine.now += 0.02
        found.measure()
    assert found.factor == pytest.approx(4.0, rel=0.15)


@pytest.mark.parametrize(("device_s", "factor"), [(0.0, 4.0), (0.008, 1.33), (0.08, 1.037)])
def test_only_the_hosts_part_of_a_step_takes_longer_beside_others(
    machine: Machine, device_s: float, factor: float
) -> None:
    found = contention(machine)
    while machine.now < 10.0:
        machine.work(0.0005, share=0.25)
        with found.elsewhere():
            machine.work(0.0005, share=0.25)
            machine.now += device_s  # the thread sleeps until the device is done
        assert found.measure() == pytest.approx(0.003)
    alone_s, beside_s = 0.001 + device_s, 0.004 + device_s
    assert found.factor == pytest.approx(beside_s / alone_s, rel=0.03)
    assert found.factor == pytest.approx(factor, rel=0.05)


def test_a_thread_without_work_forgets_what_was(machine: Machine) -> None:
    found = contention(machine)
    machine.work(1.0, share=1.0)
    assert found.measure() == 0.0
    assert found.factor == pytest.approx(1.0)
    machine.work(1.0, share=0.125)
    found.measure()
    ran_s = machine.ran_s
    machine.now += 0.5
    machine.waited_s += 0.003  # until it was woken
    found.idle()
    assert machine.ran_s == ran_s
    assert found.measure() == 0.0
    machine.now += 10.0
    assert found.factor == pytest.approx(1.0, abs=0.01)


def test_without_the_kernels_counts_nothing_is_said() -> None:
    found = Contention(lambda: 1.0, lambda: None)
    assert found.measure() == found.measure() == 0.0
    assert found.factor == 1.0


def test_the_kernel_counts_what_a_thread_runs() -> None:
    read = Schedstat()
    if (before := read()) is None:
        pytest.skip("this kernel keeps no schedstat")
    sum(range(2_000_000))
    after = read()
    assert after is not None
    assert after[0] > before[0]
    assert after[1] >= before[1]
