"""Launches in flight, and who is to blame for one that fails."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.engine.inflight import DeviceError, InFlight, launch_bisected


def test_nothing_is_given_back_before_every_launch_that_may_write_it_is_collected() -> None:
    flight: InFlight[str] = InFlight()
    given_back: list[str] = []
    flight.release(lambda: given_back.append("unused"))
    assert given_back == ["unused"]
    flight.launched("one")
    flight.launched("two")
    flight.release(lambda: given_back.append("block"))
    assert flight.oldest() == "one"
    flight.settle()
    assert given_back == ["unused"]
    flight.launched("three")
    flight.settle()
    assert given_back == ["unused", "block"]
    assert len(flight) == 1


@given(st.integers(1, 40), st.sets(st.integers(0, 39)))
def test_only_the_guilty_fail_and_all_others_are_launched_once_in_order(
    count: int, guilty: set[int]
) -> None:
    def launch(rows: Sequence[int]) -> list[int]:
        if guilty & set(rows):
            raise ValueError("guilty")
        return list(rows)

    rows = list(range(count))
    launched, failed = launch_bisected(rows, launch)
    assert [row for part, ticket in launched for row in ticket] == sorted(set(rows) - guilty)
    assert all(list(part) == ticket for part, ticket in launched)
    assert [row for row, _ in failed] == sorted(set(rows) & guilty)


def test_one_guilty_row_of_many_costs_few_launches() -> None:
    launches = 0

    def launch(rows: Sequence[int]) -> None:
        nonlocal launches
        launches += 1
        if 37 in rows:
            raise ValueError("guilty")

    launch_bisected(range(64), launch)
    assert launches == 13


def test_an_error_of_the_device_is_nobodys() -> None:
    def launch(rows: Sequence[int]) -> None:
        raise DeviceError("gone")

    with pytest.raises(DeviceError):
        launch_bisected([1, 2], launch)
