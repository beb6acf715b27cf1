"""The loop and shares, judged together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ttscommon.cluster.admission import Judge, LoopTuning, Streams
from ttscommon.cluster.admission.shares import Standing
from ttscommon.wire.errors import Overloaded, ShareUsed

SEEN = Streams(open=0, silent=0, slack_s=None, least=1, most=40, expected=20)
BEGINS = LoopTuning(first=1.0)


def judge(**weights: float) -> Judge:
    return Judge(weights or {"": 1.0}, 0.5, BEGINS)


def check(one: Judge, tenant: str = "", now: float = 0.0, most: int = 100) -> Standing:
    """With the streams that it has taken."""
    total, silent = one.shares.total, one.silent.total()
    return one.check("m", replace(SEEN, open=total, silent=silent), tenant, most, now)


def sounding(one: Judge, tenant: str, streams: int) -> None:
    for _ in range(streams):
        one.take(tenant)
        one.silent[tenant] -= 1


def timed(one: Judge) -> None:
    """Of five that start at once the last sounds in time."""
    one.loop("m").sounded(0.1, 1)


def test_a_stream_that_fits_starts_and_nothing_is_taken() -> None:
    made = judge()
    assert check(made) is Standing.WITHIN
    assert made.shares.total == 0


def test_no_more_streams_than_the_limit_and_than_the_gateway_may_have() -> None:
    made = judge()
    sounding(made, "", 19)
    assert check(made) is Standing.WITHIN
    with pytest.raises(Overloaded):
        check(made, most=19)
    sounding(made, "", 1)
    with pytest.raises(Overloaded):
        check(made)


def test_so_many_wait_for_a_first_sound_at_once() -> None:
    made = judge()
    timed(made)
    for _ in range(5):
        check(made)
        made.take("")
    with pytest.raises(Overloaded, match="first sounds"):
        check(made)
    made.silent[""] -= 1
    assert check(made) is Standing.WITHIN


def test_of_a_burst_a_few_start_before_the_first_sound_and_the_rest_is_held_for_it() -> None:
    made = judge()
    for _ in range(4):
        check(made)
        made.take("")
    with pytest.raises(Overloaded, match="other first sounds"):
        check(made)
    assert made.hold_s("m", SEEN, 4, 0.0) == 0.5


def test_what_only_first_sounds_are_in_the_way_of_is_held_for_as_long_as_one_takes() -> None:
    made = judge()
    crowd = replace(SEEN, open=15, silent=15)
    assert made.hold_s("m", crowd, 4, 0.0) == 0.5
    assert made.hold_s("m", crowd, 5, 0.0) == LoopTuning().hold_s  # for whom there is no room


def test_a_key_that_starts_many_leaves_another_its_part_of_the_starts() -> None:
    made = judge(calm=1.0, flood=1.0)
    timed(made)
    check(made, "calm")
    for _ in range(3):
        check(made, "flood")
        made.take("flood")
    with pytest.raises(Overloaded, match="first sounds"):
        check(made, "flood")
    assert check(made, "calm") is Standing.WITHIN
    made.take("calm")
    assert check(made, "calm") is Standing.WITHIN
    check(made, "flood", now=10.0)  # the other has not asked for a while


def test_a_keys_first_stream_waits_for_no_others_first_sound() -> None:
    made = judge(calm=1.0, flood=1.0)
    timed(made)
    for _ in range(5):
        check(made, "flood")
        made.take("flood")
    assert check(made, "calm") is Standing.WITHIN


def test_what_is_borrowed_starts_where_no_first_sound_is_waited_for() -> None:
    made = judge(calm=1.0, busy=1.0)
    sounding(made, "calm", 1)
    sounding(made, "busy", 12)
    assert check(made, "busy") is Standing.BORROWED
    made.take("calm")
    with pytest.raises(ShareUsed):
        check(made, "busy")


def test_two_keys_have_a_stream_each_however_low_the_limit() -> None:
    made = judge(calm=1.0, busy=1.0)
    slow = replace(SEEN, expected=0)
    made.check("m", slow, "calm", 100, 0.0)
    made.check("m", slow, "busy", 100, 0.0)
    sounding(made, "busy", 1)
    with pytest.raises(Overloaded):
        made.check("m", replace(slow, open=1), "busy", 100, 0.0)
    assert made.check("m", replace(slow, open=1), "calm", 100, 0.0) is Standing.WITHIN


def test_models_have_loops_of_their_own() -> None:
    made = judge()
    made.room("m", SEEN, 0.0)
    made.loop("m").limit = 3.0
    assert made.room("other", SEEN, 0.0) == 20
    assert made.room("m", SEEN, 0.0) == 3
