"""What workers have room for, from what they report."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.cluster.admission import Ends, Streams
from ttscommon.cluster.admission.capacity import (
    Line,
    View,
    cached_streams,
    realtime_streams,
    room_of,
    seconds_at,
    streams_of,
)
from ttscommon.wire.replicas import Replica

STEP_S = {1: 0.006, 16: 0.036}


def talker(**fields: Any) -> Replica:
    fields = {"slots": 32, "free": 32, "step_s": STEP_S, **fields}
    return Replica("t", "talker", (), **fields)


def vocoder(**fields: Any) -> Replica:
    fields = {"slots": 64, "free": 64, "step_s": {1: 0.006}, "frame_s": 0.0005, **fields}
    return Replica("v", "vocoder", (), **fields)


def view(busy: int = 0, talkers: tuple[Replica, ...] = (), **fields: Any) -> View:
    return View(talkers or (talker(**fields),), (vocoder(),), busy, 25.0)


def seen(of: View) -> Streams:
    return streams_of(of, 0, None, room_of(of, 0.85))


def test_workers_expect_to_keep_up_with_what_can_be_spoken_in_real_time() -> None:
    # 32 streams take 68 ms a step, which is 14.7 steps a second of the 25 needed.
    best = max(n / seconds_at(STEP_S, n) for n in range(1, 33))
    assert seen(view()).expected == int(0.85 * best / 25.0)
    assert seen(view(talkers=(talker(), talker()))).expected == 2 * seen(view()).expected


def test_there_are_never_more_streams_than_slots_and_one_a_worker_at_least() -> None:
    assert seen(view(slots=4, free=4)).most == 4
    assert seen(view(talkers=(talker(), talker()))).least == 1  # there is one vocoder
    assert seen(View((talker(),) * 3, (vocoder(),) * 2, 0, 25.0)).least == 2


SLOW_S = {1: 0.05, 16: 0.2}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(view(step_s={}), 32, id="nothing was measured: slots are all that is known"),
        pytest.param(View((), (vocoder(),), 0, frame_rate_hz=0.0), 0, id="no talker"),
        pytest.param(View((talker(),), (vocoder(),), 0, 0.0), 0, id="a model that still loads"),
        pytest.param(view(step_s=SLOW_S), 1, id="the machine keeps up with no stream"),
        pytest.param(view(step_s=SLOW_S, slowed=8.0), 0, id="others take the machine"),
    ],
)
def test_how_many_streams_are_expected_at_the_edges(of: View, expected: int) -> None:
    assert seen(of).expected == expected


def test_a_curve_is_linear_between_its_points_and_beyond_and_never_below_its_fastest() -> None:
    assert seconds_at(STEP_S, 1) == 0.006
    assert seconds_at(STEP_S, 8) == pytest.approx(0.020)
    assert seconds_at(STEP_S, 31) == pytest.approx(0.066)
    assert seconds_at({4: 0.01}, 99) == 0.01

    assert seconds_at({1: 0.02, 2: 0.01}, 50) == 0.01


@given(
    st.integers(1, 200), st.integers(1, 128), st.floats(1e-4, 0.1), st.floats(0, 0.01),
    st.floats(0.1, 1.0),
)  # fmt: skip
def test_a_replica_can_always_speak_one_stream_and_never_more_than_its_slots(
    slots: int, batch: int, base_s: float, stream_s: float, utilisation: float
) -> None:
    replica = talker(
        slots=slots, batch=batch, step_s={1: base_s + stream_s, 64: base_s + 64 * stream_s}
    )
    assert 1 <= realtime_streams(replica, 25.0, utilisation) <= slots


def test_a_lucky_measurement_makes_no_room() -> None:
    steps = {n: 0.004 + 0.0013 * n for n in range(1, 25)}
    honest = realtime_streams(talker(step_s=steps), 25.0, 0.85)
    assert honest == int((0.85 / 25 - 0.004) / 0.0013)
    assert realtime_streams(talker(step_s={**steps, 12: 0.008}), 25.0, 0.85) == honest


def test_a_line_is_never_steeper_than_what_was_measured_nor_falls() -> None:
    assert Line.through({4: 0.01}) == Line(0.01, 0.0)
    assert Line.through({1: 0.02, 2: 0.01}).stream_s == 0.0
    found = Line.through(STEP_S)
    assert found.base_s == pytest.approx(0.004)
    assert found.at(31) == pytest.approx(0.066)


def test_more_streams_than_a_batch_take_turns() -> None:
    assert realtime_streams(talker(batch=4, step_s={1: 0.005, 64: 0.005}), 25.0, 1.0) == 32


FULL = talker(kv_positions=16_000, kv_free=1_000, free=22)
CARRIED = vocoder(kv_positions=10_000, kv_free=2_000, free=56)


@pytest.mark.parametrize(
    ("replica", "streams"),
    [
        (FULL, 10),
        (talker(kv_positions=16_000, kv_free=8_000, free=22), 20),
        (CARRIED, 10),  # frames whose state a vocoder has memory for
        (talker(kv_positions=16_000, kv_free=5_000, free=31), 2),  # over a quarter is free
        (talker(kv_positions=16_000, kv_free=3_000, free=31), 1),
        (talker(), 32),
        (talker(kv_positions=16_000, kv_free=16_000), 32),
    ],
)
def test_room_ends_where_the_kv_cache_does(replica: Replica, streams: int) -> None:
    assert cached_streams(replica) == streams


def test_the_fuller_stage_bounds_a_pair() -> None:
    assert seen(view(busy=10, talkers=(FULL,))).most == 10
    assert seen(View((talker(),), (CARRIED,), 8, 25.0)).most == 10


def test_a_vocoder_that_others_slow_takes_no_stream_that_it_cannot_keep_up_with() -> None:
    slowed = vocoder(frame_s=0.05, slowed=100.0)
    assert realtime_streams(slowed, 25.0, 0.85) == 0
    assert seen(View((talker(),), (slowed, vocoder()), 0, 25.0)).expected > 0


@dataclass
class Stream:
    characters: int
    began_s: float


def test_the_first_end_is_told_and_then_the_next() -> None:
    ends = Ends(character_s=0.1)
    streams = [Stream(300, 100.0), Stream(100, 100.0)]
    promised = [ends.promise("model m", streams, 102.0, 60.0) for _ in range(3)]
    assert promised == pytest.approx([8.0, 28.0, 36.0])
    assert ends.promise("other", streams, 102.0, 60.0) == pytest.approx(8.0)


def test_what_was_promised_is_forgotten_when_its_time_has_come() -> None:
    ends = Ends(character_s=0.1)
    assert ends.promise("m", [Stream(20, 0.0)], 0.0, 60.0) == pytest.approx(2.0)
    assert ends.promise("m", [Stream(20, 3.0)], 3.0, 60.0) == pytest.approx(2.0)


def test_a_stream_that_takes_longer_than_expected_may_end_any_moment() -> None:
    assert Ends(character_s=0.1).promise("m", [Stream(10, 0.0)], 60.0, 60.0) == 1.0


def test_nothing_is_in_the_way() -> None:
    assert Ends().promise("m", [], 0.0, 60.0) is None


def test_what_a_character_takes_is_learned() -> None:
    ends = Ends(character_s=0.06)
    for _ in range(40):
        ends.learn(100, 1.0)
    ends.learn(0, 50.0)
    assert ends.left_s(Stream(100, 0.0), 0.0) == pytest.approx(1.0, abs=0.01)


def test_nobody_stays_away_for_long_and_they_do_not_come_all_at_once() -> None:
    ends = Ends(character_s=0.1)
    told = [ends.promise("m", [Stream(300, 0.0)], 0.0, 6.0) for _ in range(20)]
    waits = sorted(one for one in told if one is not None)
    assert 3.0 <= waits[0] < waits[-1] <= 6.0
    assert max(after - before for before, after in pairwise(waits)) < 0.4
