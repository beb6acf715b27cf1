from __future__ import annotations

import resource

import pytest

from gateway.connections.descriptors import RESERVED, Budget, descriptor_budget


def test_a_budget_fits_what_the_system_gives_and_keeps_a_reserve() -> None:
    wanted = Budget(4096, 1000)
    assert wanted.within(wanted.descriptors) == wanted
    for limit in (256, 1024, 4096):
        granted = wanted.within(limit)
        assert granted.descriptors <= limit
        assert granted.connections >= (limit - RESERVED) // 2


@pytest.mark.parametrize(
    ("limits", "connections", "raised"),
    [
        ((1024, 100_000), 4096, 5224),
        ((1024, 1024), 717, None),
        ((100_000, 100_000), 4096, None),
        ((1024, resource.RLIM_INFINITY), 4096, 5224),
    ],
)
def test_the_soft_limit_is_raised_and_the_hard_one_kept(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    connections: int,
    raised: int | None,
) -> None:
    given: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, to: given.append((kind, to)))
    assert descriptor_budget(Budget(4096, 1000)).connections == connections
    wanted = [] if raised is None else [(resource.RLIMIT_NOFILE, (raised, limits[1]))]
    assert given == (wanted or given[:1])
    assert raised is None or given == wanted
