"""Shares of a bounded number of streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.cluster.admission.shares import Shares, Standing


def fill(shares: Shares, tenant: str, capacity: int, now: float = 0.0) -> int:
    """Take streams for `tenant` until it is refused; how many it holds then."""
    while shares.judge(tenant, capacity, now) is not Standing.OVER:
        shares.take(tenant)
    return shares.held[tenant]


def test_a_single_tenant_may_take_everything() -> None:
    assert fill(Shares({"": 1.0}), "", 10) == 10


def test_alone_a_tenant_takes_all_but_the_reserve() -> None:
    assert fill(Shares({"a": 1.0, "b": 1.0}, reserve=0.1), "a", 100) == 90


def test_a_newcomer_speaks_at_once_whoever_floods() -> None:
    shares = Shares({"a": 1.0, "b": 1.0}, reserve=0.1)
    fill(shares, "a", 100)
    assert shares.judge("b", 100, 0.0) is Standing.WITHIN


def test_what_ends_goes_to_the_one_below_its_share() -> None:
    shares = Shares({"a": 1.0, "b": 1.0}, reserve=0.1)
    fill(shares, "a", 100)
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


def test_over_its_share_a_tenant_borrows() -> None:
    shares = Shares({"a": 1.0, "b": 1.0}, reserve=0.0)
    shares.take("b")
    for _ in range(20):
        shares.judge("a", 40, 0.0)
        shares.take("a")
    assert shares.judge("a", 40, 0.0) is Standing.BORROWED


def test_who_was_silent_for_long_has_no_share() -> None:
    shares = Shares({"a": 1.0, "b": 1.0}, reserve=0.0, memory_s=60.0)
    shares.judge("b", 10, 0.0)
    assert fill(shares, "a", 10, now=1.0) == 9
    assert fill(shares, "a", 10, now=61.0) == 10


def test_giving_back_twice_is_a_fault() -> None:
    with pytest.raises(AssertionError):
        Shares({"a": 1.0}).give_back("a")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=200),
    st.integers(3, 50),
)
def test_within_capacity_and_nobody_is_shut_out(
    moves: list[tuple[str, bool]], capacity: int
) -> None:
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
