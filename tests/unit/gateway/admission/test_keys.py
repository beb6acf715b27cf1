"""Who calls, and what a minute allows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.keys import ANONYMOUS, Allowance, KeyRing, KeysError, Tenant, TokenBucket
from gateway.errors import InvalidApiKey, RateLimited


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def ring(tmp_path: Path, text: str) -> KeyRing:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    return KeyRing.load(path)


def test_without_a_file_everybody_may_speak() -> None:
    keys = KeyRing.load(None)
    assert keys.identify(None) == ANONYMOUS
    assert keys.identify("Bearer whatever") == ANONYMOUS


def test_a_key_is_known_by_its_hash(tmp_path: Path) -> None:
    keys = ring(tmp_path, f'[keys.acme]\nsha256 = "{sha256("s3cret")}"\nweight = 2.0\n')
    assert keys.identify("Bearer s3cret") == "acme"
    assert keys.tenants["acme"].weight == 2.0


@pytest.mark.parametrize("header", [None, "", "Bearer ", "Bearer other", "Basic s3cret", "s3cret"])
def test_without_a_known_key_nobody_speaks(tmp_path: Path, header: str | None) -> None:
    keys = ring(tmp_path, f'[keys.acme]\nsha256 = "{sha256("s3cret")}"\n')
    with pytest.raises(InvalidApiKey):
        keys.identify(header)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[keys]\n",
        "[keys.acme]\nsha256 = 'no hash'\n",
        "[keys.acme]\nkey = 's3cret'\n",
        f"[keys.a]\nsha256 = '{sha256('x')}'\n[keys.b]\nsha256 = '{sha256('x')}'\n",
        "not toml",
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(KeysError):
        ring(tmp_path, text)


def test_a_bucket_fills_with_time() -> None:
    bucket = TokenBucket(60)
    bucket.take(60, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(1.0)
    assert bucket.wait_s(1, 1.0) == 0.0
    assert bucket.wait_s(10, 1.0) == pytest.approx(9.0)


def test_more_than_a_full_bucket_waits_for_a_full_one() -> None:
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
    allowance.request(60, 0.0)
    with pytest.raises(RateLimited, match="characters") as caught:
        allowance.check(60, 0.0)
    assert caught.value.retry_after_s == 12
    allowance.request(10, 0.0)
    with pytest.raises(RateLimited, match="requests"):
        allowance.check(1, 0.0)
    allowance.check(1, 30.0)


def test_text_that_came_later_is_paid_by_the_next_request() -> None:
    allowance = Allowance(Tenant(characters_per_minute=60))
    allowance.request(10, 0.0)
    allowance.text(110, 0.0)
    with pytest.raises(RateLimited) as caught:
        allowance.check(1, 0.0)
    assert caught.value.retry_after_s == 61


def test_what_is_left_is_counted_in_requests_like_the_one_that_asks() -> None:
    both = Allowance(Tenant(requests_per_minute=10, characters_per_minute=100))
    assert both.requests_left(5, 0.0) == 10.0
    assert both.requests_left(50, 0.0) == 2.0
    both.request(50, 0.0)
    assert both.requests_left(50, 0.0) == 1.0
    assert both.requests_left(0, 0.0) == 9.0
    assert Allowance(Tenant(characters_per_minute=100)).requests_left(500, 0.0) == 1.0
    assert Allowance(Tenant(characters_per_minute=100)).requests_left(0, 0.0) is None
