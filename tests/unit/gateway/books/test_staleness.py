"""Whose book is free, as a gateway sees it that can ask and look."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.audio import AudioFormat
from gateway.books import staleness
from gateway.books.job_store import FoundBook
from gateway.books.records import BookOrder, BookRecord
from gateway.books.staleness import Staleness
from ttscommon.wire.errors import BusUnavailable, NoResponders

BOOK = BookRecord("b" * 22, "acme", BookOrder("m", AudioFormat(), "pcm", 8000, 1), 3, 30, 1.0)
HELD = FoundBook(replace(BOOK, owner="other"), 5)
ASKED_AGAIN = FoundBook(HELD.record, 6)


class Link:
    """Of a gateway called `me`; `failure` is what comes of a ping."""

    def __init__(self) -> None:
        self.worker_id, self.link = "me", self
        self.failure: Exception | None = None

    async def request(self, subject: str, data: bytes, timeout_s: float) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SILENT_S", "_ABSENT_S"):
        monkeypatch.setattr(staleness, name, 0.0)


async def looks(failure: Exception | None, *found: FoundBook) -> list[bool]:
    link: Any = Link()
    link.failure = failure
    view = Staleness(link)
    return [await view.of(one) for one in found]


async def test_a_book_without_an_owner_is_free() -> None:
    assert await looks(None, FoundBook(BOOK, 1)) == [True]
    assert await looks(None, FoundBook(replace(BOOK, owner="me"), 1)) == [True]


async def test_an_owner_that_answers_and_writes_keeps_its_book(impatient: None) -> None:
    assert await looks(None, HELD, ASKED_AGAIN) == [False, False]


async def test_an_owner_that_hangs_or_writes_no_more_loses_it(impatient: None) -> None:
    assert await looks(BusUnavailable("no answer"), HELD) == [False]
    assert await looks(None, HELD, HELD) == [False, True]


async def test_an_owner_that_is_gone_has_a_moment_to_come_back() -> None:
    assert await looks(NoResponders("gone"), HELD, HELD) == [False, False]


async def test_an_owner_that_stays_away_loses_it(impatient: None) -> None:
    assert await looks(NoResponders("gone"), HELD) == [True]


async def test_time_in_which_the_broker_was_away_does_not_count(impatient: None) -> None:
    link: Any = Link()
    view = Staleness(link)
    assert not await view.of(HELD)
    view.blind()
    assert not await view.of(HELD)
    view.keep(())
    assert not await view.of(HELD)
    assert await view.of(HELD)
