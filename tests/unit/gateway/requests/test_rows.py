"""Rows on their way into a request's log, over connections that come and go."""

import asyncio

import numpy as np
import pytest

from gateway.errors import InputTooFast, ProducedElsewhere, WrongOrder
from gateway.requests import Production
from gateway.requests import rows as limits
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.wire.errors import AntiphonError, BadRequest, TextTooLong
from ttscommon.wire.messages import End, RowsPiece
from ttscommon.wire.subjects import TEXT
from ttscommon.wire.tensors import FloatRows, widened

WIDTH = 4
ROWS = np.arange(10 * WIDTH, dtype=np.float32).reshape(10, WIDTH)


class Producer:
    """A connection: what it was told."""

    def __init__(self, bus: Bus, *, fresh: bool = False) -> None:
        self.accepted: list[int] = []
        self.errors: list[AntiphonError] = []
        self.production = Production(
            bus, "r1", "", WIDTH, accepted=self.accepted.append, failed=self.errors.append
        )
        self.production.start(fresh=fresh)

    def send(self, start: int, stop: int) -> None:
        self.production.add(said(start, stop), start)


def said(start: int, stop: int) -> FloatRows:
    return FloatRows.of("said", ROWS[start:stop])


async def logged(bus: Bus) -> tuple[list[float], End]:
    """The first number of each row, and the End."""
    found: list[float] = []
    async with asyncio.timeout(30), bus.reader(TEXT, "r1") as reader:
        async for record in reader:
            if isinstance(record, End):
                return found, record
            assert isinstance(record, RowsPiece)
            found += widened(record.rows.stored)[:, 0].tolist()
    raise AssertionError("the log had no End")


async def test_rows_are_stored_in_order_and_their_producer_is_told(bus: Bus) -> None:
    one = Producer(bus, fresh=True)
    one.send(0, 3)
    one.send(3, 10)
    one.production.finish()
    await until(lambda: one.accepted[-1:] == [10])
    found, end = await logged(bus)
    assert found == ROWS[:, 0].tolist()
    assert (end.outcome, end.start) == ("ok", 10)
    assert one.accepted == [0, 3, 10]
    assert not one.errors
    await one.production.close()


async def test_a_producer_that_comes_back_goes_on_where_the_log_is(bus: Bus) -> None:
    lost = Producer(bus, fresh=True)
    lost.send(0, 4)
    await until(lambda: lost.accepted[-1:] == [4])
    await lost.production.close()  # its connection is gone
    back = Producer(bus)
    await until(lambda: back.accepted == [4])
    back.send(2, 7)  # it does not know how much of it had come
    back.send(7, 10)
    back.production.finish()
    assert (await logged(bus))[0] == ROWS[:, 0].tolist()
    await back.production.close()


async def test_a_producer_whose_successor_has_come_can_store_nothing(bus: Bus) -> None:
    old = Producer(bus, fresh=True)
    old.send(0, 2)
    await until(lambda: old.accepted[-1:] == [2])
    new = Producer(bus)
    await until(lambda: new.accepted == [2])
    old.send(2, 3)
    await until(lambda: bool(old.errors))
    assert isinstance(old.errors[0], ProducedElsewhere)
    new.send(2, 5)
    new.production.finish()
    assert (await logged(bus))[0] == ROWS[:5, 0].tolist()
    assert old.accepted == [0, 2]
    for one in (old, new):
        await one.production.close()


async def test_rows_that_are_complete_are_produced_no_more(bus: Bus) -> None:
    one = Producer(bus, fresh=True)
    one.send(0, 2)
    one.production.finish()
    await logged(bus)
    late = Producer(bus)
    await until(lambda: bool(late.errors))
    assert isinstance(late.errors[0], ProducedElsewhere)
    with pytest.raises(WrongOrder):
        late.send(2, 3)
    for each in (one, late):
        await each.production.close()


async def test_what_does_not_fit_is_refused_and_nothing_of_it_taken(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Producer(bus, fresh=True)
    with pytest.raises(WrongOrder) as gap:
        one.send(1, 2)
    assert gap.value.param == "start"
    with pytest.raises(BadRequest):
        one.production.add(FloatRows.of("said", ROWS[:, :3]), 0)
    with pytest.raises(BadRequest):
        one.production.add(FloatRows.of("said", np.full((1, WIDTH), np.inf)), 0)
    monkeypatch.setattr(limits, "MOST_ROWS", 5)
    with pytest.raises(TextTooLong):
        one.send(0, 6)
    monkeypatch.setattr(limits, "MOST_WAITING_BYTES", 5 * WIDTH)
    one.send(0, 1)
    with pytest.raises(InputTooFast):
        one.send(1, 3)
    await until(lambda: one.accepted[-1:] == [1])  # what waited is stored
    one.send(1, 2)
    one.production.finish()
    assert (await logged(bus))[0] == ROWS[:2, 0].tolist()
    await one.production.close()
