"""What a key may use: a minute's allowance, and streams, in sum over all gateways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.limits import Allowance, KeyLimits, TokenBucket
from gateway.admission.peers import Peers
from gateway.errors import RateLimited
from gateway.keys import Tenant


def test_a_bucket_fills_with_time_and_gives_more_than_it_holds_when_it_is_full() -> None:
    bucket = TokenBucket(60)
    bucket.take(60, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(1.0)
    assert bucket.wait_s(10, 1.0) == pytest.approx(9.0)
    bucket = TokenBucket(60)
    assert bucket.wait_s(1000, 0.0) == 0.0
    bucket.take(1000, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(941.0)


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60), st.integers(1, 50))
def test_no_minute_gives_more_than_twice_the_limit(gaps: list[float], limit: int) -> None:
    """A full bucket and a minute's refill at most, whenever one asks."""
    bucket, now, taken = TokenBucket(limit), 0.0, []
    for gap in gaps:
        now += gap
        if bucket.wait_s(1, now) == 0.0:
            bucket.take(1, now)
            taken.append(now)
    for start in taken:
        assert sum(start <= at < start + 60.0 for at in taken) <= 2 * limit + 1


def test_an_allowance_counts_requests_and_characters() -> None:
    allowance = Allowance(Tenant(requests_per_minute=2, characters_per_minute=100))
    allowance.check(60, 0.0)
    allowance.use(1, 60, 0.0)
    with pytest.raises(RateLimited, match="characters") as caught:
        allowance.check(60, 0.0)
    assert caught.value.retry_after_s == 12
    allowance.use(1, 10, 0.0)
    with pytest.raises(RateLimited, match="requests"):
        allowance.check(1, 0.0)
    allowance.check(1, 30.0)


def test_what_is_left_is_counted_in_requests_like_the_one_that_asks() -> None:
    both = Allowance(Tenant(requests_per_minute=10, characters_per_minute=100))
    assert both.requests_left(5, 0.0) == 10.0
    assert both.requests_left(50, 0.0) == 2.0
    both.use(1, 50, 0.0)
    assert both.requests_left(50, 0.0) == 1.0
    assert both.requests_left(0, 0.0) == 9.0
    assert Allowance(Tenant(characters_per_minute=100)).requests_left(500, 0.0) == 1.0
    assert Allowance(Tenant(characters_per_minute=100)).requests_left(0, 0.0) is None


def test_new_limits_hold_at_once_and_a_revoked_tenants_streams_are_counted_on() -> None:
    limits = KeyLimits({"a": Tenant()}, Peers(), lambda name: 1)
    limits.update({"b": Tenant(sha256="1" * 64, streams=1)})
    with pytest.raises(RateLimited):
        limits.check("b", 0, 0.0)
    limits.use("a", 0, 100, 0.0)  # of a request that is still spoken
