from __future__ import annotations

import pytest

from gateway.connections import ConnectionCounts
from gateway.errors import TooManyConnections


def test_a_name_has_as_many_places_as_it_may_hold_and_gets_them_back() -> None:
    places = ConnectionCounts()
    places.take("a", 2, "this key")
    places.take("a", 2, "this key")
    places.take("b", 2, "this key")
    with pytest.raises(TooManyConnections, match="this key holds 2"):
        places.take("a", 2, "this key")
    places.leave("a")
    places.take("a", 2, "this key")
    for name in ("a", "a", "b"):
        places.leave(name)
    assert places.held("a") == places.held("b") == 0
