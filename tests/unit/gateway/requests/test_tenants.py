"""What a tenant stores leaves room for others: bytes of what passes."""

from gateway.requests.tenants import ByteQuota

MOST_BYTES = 100
AGE_S = 60.0


def test_the_oldest_go_when_a_tenant_stores_more_than_its_share() -> None:
    quota = ByteQuota(MOST_BYTES, AGE_S)
    assert quota.add("a", "one", 40, 1) == quota.add("a", "two", 40, 2) == []
    assert quota.add("a", "one", 50, 3) == []  # written again: it is the newest, and counts once
    assert [gone.name for gone in quota.add("a", "three", 50, 4)] == ["two"]
    assert [(gone.name, gone.revision) for gone in quota.add("a", "four", 60, 5)] == [
        ("one", 3),
        ("three", 4),
    ]


def test_tenants_have_their_shares_each_and_a_larger_record_stays_alone() -> None:
    quota = ByteQuota(MOST_BYTES, AGE_S)
    quota.add("b", "one", 90)
    quota.add("a", "small", 10)
    assert [gone.name for gone in quota.add("a", "large", 1000)] == ["small"]
    assert quota.add("b", "one", 90) == []


def test_what_was_removed_or_forgotten_by_the_broker_counts_no_more() -> None:
    now_s = 0.0
    quota = ByteQuota(MOST_BYTES, AGE_S, lambda: now_s)
    quota.add("a", "one", 90)
    quota.drop("a", "one")
    quota.drop("a", "one")
    assert quota.add("a", "two", 90) == []
    now_s = AGE_S + 1
    assert quota.add("a", "three", 90) == []
