"""A book has one owner: the one whose revision the record has."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.audio import AudioFormat
from gateway.books import hold as holding
from gateway.books.hold import BookHold, BookLost, HoldTuning, Staleness
from gateway.books.job_store import FoundBook
from gateway.books.records import BookOrder, BookRecord, PortionMade
from ttscommon.wire.errors import BusUnavailable, NoResponders

TUNING = HoldTuning(again_s=0.0)
BOOK = BookRecord("b" * 22, "acme", BookOrder("m", AudioFormat(), "pcm", 8000, 1), 3, 30, 1.0)


class Broker:
    """One record, its revision, and writes whose acknowledgement is lost."""

    def __init__(self) -> None:
        self.record: BookRecord | None = BOOK
        self.revision = 1
        self.unheard = 0

    @property
    def found(self) -> FoundBook:
        assert self.record is not None
        return FoundBook(self.record, self.revision)

    async def write(self, record: BookRecord, revision: int) -> int | None:
        if self.record is None or revision != self.revision:
            return None
        self.record, self.revision = record, self.revision + 1
        if self.unheard:
            self.unheard -= 1
            raise BusUnavailable("no word")
        return self.revision

    async def look(self, key: str) -> FoundBook | None:
        return None if self.record is None else self.found


async def taken(broker: Any, owner: str) -> BookHold:
    hold = await BookHold.take(broker, broker.found, owner, TUNING, 5.0)
    assert hold is not None
    return hold


async def test_of_two_gateways_that_see_a_free_book_one_gets_it() -> None:
    broker: Any = Broker()
    seen = broker.found
    first = await taken(broker, "one")
    assert (first.record.owner, first.record.epoch, first.record.state) == ("one", 1, "running")
    assert await BookHold.take(broker, seen, "two", TUNING, 5.0) is None


async def test_an_owner_that_was_away_finds_that_it_has_lost_the_book() -> None:
    broker = Broker()
    first = await taken(broker, "one")
    second = await taken(broker, "two")
    first.made(0, PortionMade(9, 1), 10)
    with pytest.raises(BookLost):
        await first.write()
    second.made(1, PortionMade(8, 2), 10)
    await second.write()
    assert broker.found.record.made == {1: PortionMade(8, 2)}
    assert broker.found.record.epoch == 2
    broker.record = None  # it was deleted
    with pytest.raises(BookLost):
        await second.write()


async def test_a_write_that_was_not_acknowledged_was_its_own() -> None:
    broker = Broker()
    hold = await taken(broker, "one")
    broker.unheard = 2
    hold.made(2, PortionMade(7, 1), 10)
    await hold.write()
    assert (broker.found.record.spoken, broker.found.record.samples) == (10, 7)
    await hold.let_go()
    assert broker.found.record.owner == ""


async def test_what_the_store_has_lost_is_not_made() -> None:
    hold = await taken(Broker(), "one")
    hold.made(2, PortionMade(7, 1), 10)
    hold.unmade(2, 10)
    assert (hold.record.made, hold.record.spoken, hold.record.samples) == ({}, 0, 0)


HELD = FoundBook(replace(BOOK, owner="other"), 5)
ASKED_AGAIN = FoundBook(HELD.record, 6)
FREE, MINE = FoundBook(BOOK, 1), FoundBook(replace(BOOK, owner="me"), 1)
HANGS, GONE = BusUnavailable("no answer"), NoResponders("gone")


class Link:
    """Of a gateway called `me`; `failure` is what comes of a ping."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.worker_id, self.link, self._failure = "me", self, failure

    async def request(self, subject: str, data: bytes, timeout_s: float) -> None:
        if self._failure is not None:
            raise self._failure


def staleness(failure: Exception | None = None) -> Staleness:
    link: Any = Link(failure)
    return Staleness(link)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SILENT_S", "_ABSENT_S"):
        monkeypatch.setattr(holding, name, 0.0)


async def test_a_book_without_an_owner_is_free_and_one_that_is_gone_may_come_back() -> None:
    assert [await staleness().of(found) for found in (FREE, MINE)] == [True, True]
    view = staleness(GONE)
    assert [await view.of(HELD) for _ in range(2)] == [False, False]


@pytest.mark.parametrize(
    ("failure", "found", "stale"),
    [
        (None, [HELD, ASKED_AGAIN], [False, False]),  # it answers and writes
        (HANGS, [HELD], [False]),
        (None, [HELD, HELD], [False, True]),  # it writes no more
        (GONE, [HELD], [True]),
    ],
)
async def test_an_owner_that_stays_away_or_writes_no_more_loses_its_book(
    impatient: None, failure: Exception | None, found: list[FoundBook], stale: list[bool]
) -> None:
    view = staleness(failure)
    assert [await view.of(one) for one in found] == stale


async def test_time_in_which_the_broker_was_away_does_not_count(impatient: None) -> None:
    view = staleness()
    assert not await view.of(HELD)
    view.blind()
    assert not await view.of(HELD)
    view.keep(())
    assert not await view.of(HELD)
    assert await view.of(HELD)
