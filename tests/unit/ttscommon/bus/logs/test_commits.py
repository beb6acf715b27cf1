"""Records between their delivery and their commit."""

import asyncio

import pytest

from ttscommon.bus.logs.commits import Pending, Tail, Uncommitted
from ttscommon.wire.errors import Fenced
from ttscommon.wire.messages import End, LogRecord, TextPiece, encode


def text(start: int, letters: str) -> Pending:
    return pending(TextPiece("r", start, letters))


def pending(record: LogRecord) -> Pending:
    return Pending(record, encode(record))


def spans(records: list[Pending]) -> list[tuple[int, int]]:
    return [(each.record.start, each.record.end) for each in records]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def filled(records: list[Pending], room: int = 8, recent: int = 0) -> Uncommitted:
    window = Uncommitted(room=room, recent=recent)
    for record in records:
        await window.add(record)
    return window


async def test_what_a_reader_lacks_is_found_among_what_was_committed_lately() -> None:
    window = await filled([text(start, "xy") for start in (0, 2, 4)], recent=1)
    window.committed()
    window.committed()
    assert spans(window.behind(3)) == [(2, 4), (4, 6)]
    assert spans(window.behind(4)) == [(4, 6)]
    assert spans(window.behind(0)) == [(2, 4), (4, 6)]  # the first is only in the log by now


async def test_what_the_log_holds_already_is_skipped_and_half_of_it_rewritten() -> None:
    window = await filled([text(start, "xy") for start in (0, 2, 4)])
    window.skip_to(3, pending)
    assert spans(list(window)) == [(3, 4), (4, 6)]


async def test_the_end_is_not_skipped_nor_ever_held_to_be_known() -> None:
    window = await filled([text(0, "ab"), pending(End("r", 2, "ok"))])
    window.skip_to(2, pending)
    assert spans(list(window)) == spans(window.behind(2)) == [(2, 2)]


async def test_a_failure_reaches_who_waits_and_who_comes_later() -> None:
    window = await filled([text(0, "ab")], room=1)
    waiting = asyncio.create_task(window.add(text(2, "cd")))
    emptied = asyncio.create_task(window.until(lambda: False))
    await settle()
    window.fail(Fenced("another worker has it", owner=2))
    assert isinstance(window.failure, Fenced)
    with pytest.raises(Fenced):
        await waiting
    await emptied
    assert window.empty
    with pytest.raises(Fenced):
        await window.add(text(4, "ef"))


def test_a_tail_forgets_the_oldest_beyond_its_room_and_knows_where_it_starts() -> None:
    size = len(text(0, "ab").data)
    tail = Tail(room=2 * size)
    for start in (0, 2, 4):
        tail.add(text(start, "xy"))
    assert tail.start == 2
    assert spans(tail.behind(2, most=10 * size)) == [(2, 4), (4, 6)]
    assert spans(tail.behind(5, most=10 * size)) == [(4, 6)]
    assert spans(tail.behind(0, most=size)) == [(2, 4)]


def test_a_tail_that_begins_elsewhere_has_nothing_of_before() -> None:
    tail = Tail(room=1000)
    tail.add(text(0, "ab"))
    tail.begin(7)
    assert tail.start == 7
    assert tail.behind(0, most=1000) == []


def test_a_tail_keeps_one_record_whatever_its_size() -> None:
    tail = Tail(room=1)
    tail.add(text(0, "ab"))
    tail.add(pending(End("r", 2, "ok")))
    assert spans(tail.behind(2, most=1)) == [(2, 2)]
