"""The loop and shares, judged together."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.cluster.admission import Judge, LoopTuning, Streams
from ttscommon.cluster.admission.judge import Shares, Standing
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


def fill(shares: Shares, tenant: str, capacity: int, now: float = 0.0) -> int:
    """Take streams for `tenant` until it is refused; how many it holds then."""
    while shares.judge(tenant, capacity, now) is not Standing.OVER:
        shares.take(tenant)
    return shares.held[tenant]


def test_the_only_tenant_may_take_everything() -> None:
    assert fill(Shares({"": 1.0}), "", 10) == 10


def test_a_flood_leaves_the_reserve_to_a_newcomer_which_has_what_ends_up_to_its_share() -> None:
    shares = Shares({"a": 1.0, "b": 1.0}, reserve=0.1)
    assert fill(shares, "a", 100) == 90
    assert shares.judge("b", 100, 0.0) is Standing.WITHIN
    fill(shares, "b", 100)
    for _ in range(200):
        if shares.held["a"]:
            shares.give_back("a")
        fill(shares, "b", 100)
        fill(shares, "a", 100)
    assert 40 <= shares.held["b"] <= 60
    assert shares.total <= 100


def test_weights_divide_the_room() -> None:
    shares = Shares({"a": 3.0, "b": 1.0}, reserve=0.0)
    for _ in range(100):
        for tenant in ("a", "b"):
            if shares.judge(tenant, 40, 0.0) is Standing.WITHIN:
                shares.take(tenant)
    assert (shares.held["a"], shares.held["b"]) == (30, 10)


def test_who_was_silent_for_long_has_no_share() -> None:
    shares = Shares({"a": 1.0, "b": 1.0}, reserve=0.0, memory_s=60.0)
    shares.judge("b", 10, 0.0)
    assert fill(shares, "a", 10, now=1.0) == 9
    assert fill(shares, "a", 10, now=61.0) == 10


def test_giving_back_twice_is_a_fault() -> None:
    with pytest.raises(AssertionError):
        Shares({"a": 1.0}).give_back("a")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=200), st.integers(3, 50))
def test_within_capacity_none_is_shut_out(moves: list[tuple[str, bool]], capacity: int) -> None:
    """Never more than the capacity; and who holds nothing is refused only when it is full."""
    shares = Shares({"a": 1.0, "b": 2.0, "c": 0.5})
    for tenant, arrives in moves:
        if not arrives:
            if shares.held[tenant]:
                shares.give_back(tenant)
            continue
        full = shares.total >= capacity
        standing = shares.judge(tenant, capacity, 0.0)
        assert standing is not Standing.OVER or full or shares.held[tenant]
        if standing is not Standing.OVER:
            shares.take(tenant)
        assert shares.total <= capacity


def test_a_new_tenant_has_a_share_and_the_first_loses_what_it_held_alone() -> None:
    shares = Shares({"a": 1.0})
    for _ in range(9):
        shares.take("a")
    assert shares.judge("a", 10, 0.0) is Standing.WITHIN
    shares.reweigh({"b": 1.0})
    assert shares.judge("b", 10, 0.0) is Standing.WITHIN
    assert shares.judge("a", 10, 0.0) is not Standing.WITHIN
